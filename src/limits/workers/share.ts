/** Divides limits that apply to the whole gateway among its workers. */
import type { Config } from '../../core/config.ts'

/**
 * One worker's configuration. Limits for the whole gateway are divided, at least 1 each; 0 (off) stays 0. Limits per
 * request or process (`limit.body`, `limit.eventLoopDelay`) and for the shared disk (`responses.maxMegabytes`) stay as
 * configured.
 */
export const shareOf = <C extends Config>(config: C, workers: number): C => {
  const { settings } = config
  const { limit, retry, idempotency, cache } = settings
  const part = (total: number) => Math.ceil(total / workers)
  return Object.freeze({
    ...config,
    settings: Object.freeze({
      ...settings,
      limit: Object.freeze({
        ...limit,
        concurrent: part(limit.concurrent),
        connections: part(limit.connections),
        connectionsPerAddress: part(limit.connectionsPerAddress),
        bufferedMegabytes: part(limit.bufferedMegabytes),
        spoolMegabytes: part(limit.spoolMegabytes),
      }),
      retry: Object.freeze({ ...retry, budgetFloor: part(retry.budgetFloor) }),
      idempotency: Object.freeze({ ...idempotency, maxMegabytes: part(idempotency.maxMegabytes) }),
      cache: Object.freeze({ ...cache, maxMegabytes: part(cache.maxMegabytes) }),
    }),
  })
}

/** Warnings for configured features that work only within one worker. */
export const workerWarnings = ({ settings }: Config, workers: number): readonly string[] => {
  return settings.coalesce
    ? [
        `WORKERS=${workers}: coalescing of equal requests (coalesce) works within one worker only. A client that connects again may reach another worker, which calls the upstream again.`,
      ]
    : []
}
