/** Preloaded into the gateway's process (`--import`, with `--expose-gc`): reports memory and resources over IPC on request. */
import { setTimeout as sleep } from 'node:timers/promises'

export type ProcessSample = {
  /** Bytes after a full garbage collection. */
  readonly heap: number
  /** Bytes outside the heap: buffers. */
  readonly external: number
  readonly rss: number
  /** Active timers. */
  readonly timers: number
  /** Other active resources by name: sockets, servers, file system requests. */
  readonly resources: Readonly<Record<string, number>>
}

const sample = async (): Promise<ProcessSample> => {
  // Twice, because the second collects what finalizers released after the first.
  globalThis.gc?.()
  await sleep(20)
  globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  const resources: Record<string, number> = {}
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1
  const { Timeout: timers = 0, ...others } = resources
  return { heap: heapUsed, external, rss, timers, resources: others }
}

process.on('message', () => {
  void sample().then((value) => process.send?.(value))
})
// The channel must not keep the process alive.
process.channel?.unref()
// The parent process has ended.
process.on('disconnect', () => process.exit())
