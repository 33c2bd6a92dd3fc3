/** Loaded into the gateway's process before it (`--import`, with `--expose-gc`): tells what it holds when asked over IPC. */
import { setTimeout as sleep } from 'node:timers/promises'

export type Held = {
  /** Bytes, after a full collection. */
  readonly heap: number
  /** Bytes outside the heap: buffers. */
  readonly external: number
  readonly rss: number
  /** Timers that are set. */
  readonly timers: number
  /** Whatever else keeps a process alive, by name: sockets, servers, requests of the file system. */
  readonly resources: Readonly<Record<string, number>>
}

const held = async (): Promise<Held> => {
  // Twice, with a turn between: what finalizers let go of is collected by the second.
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
  void held().then((value) => process.send?.(value))
})
// Asking is nothing to stay alive for.
process.channel?.unref()
// Whoever asked has gone: nobody would end this process.
process.on('disconnect', () => process.exit())
