/** What of the settings is meant for all workers together, as one of them keeps it. */
import type { Config } from '../../core/config.ts'

/**
 * One worker's part: what the operator wrote as a total stays one. At least 1 each; what is off (0) stays off. What is
 * measured on one request or one process (`limit.body`, `limit.eventLoopDelay`) or kept on the disk that all share
 * (`responses.maxMegabytes`) stays as it is.
 */
export const shareOf = (config: Config, workers: number): Config => {
  const { settings } = config
  const { limit, retry, idempotency } = settings
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
      }),
      retry: Object.freeze({ ...retry, budgetFloor: part(retry.budgetFloor) }),
      idempotency: Object.freeze({ ...idempotency, maxMegabytes: part(idempotency.maxMegabytes) }),
    }),
  })
}

/** What is promised of one process only, and is configured; for the log of the start. */
export const weakened = ({ settings }: Config, workers: number): readonly string[] => {
  const { idempotency, coalesce } = settings
  const kept = [
    ...(idempotency.keep > 0 ? ['an answer kept for its Idempotency-Key (idempotency.keep)'] : []),
    ...(coalesce ? ['equal requests answered by one call (coalesce)'] : []),
  ]
  return kept.length === 0
    ? []
    : [
        `WORKERS=${workers}: ${kept.join(' and ')}: each worker knows its own only, and a client that comes over another connection may meet another worker, which asks upstream again`,
      ]
}
