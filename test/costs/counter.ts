/**
 * Loaded before the gateway by `costs.test.ts`: answers each message of the parent process with what the main thread has
 * done so far. Counts only, no clocks.
 */
import { createHook } from 'node:async_hooks'
import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import type { Answer } from './measure.ts'

const created = { promises: 0, timers: 0 }
const hook = createHook({
  init(_id, type) {
    if (type === 'PROMISE') created.promises++
    else if (type === 'Timeout' || type === 'Immediate') created.timers++
  },
})

/** `read` and `write` calls of the main thread. Only Linux counts them. */
const systemCalls = (): number => {
  const text = readFileSync(`/proc/self/task/${process.pid}/io`, 'utf8')
  return Number(/^syscr: (\d+)/m.exec(text)?.[1]) + Number(/^syscw: (\d+)/m.exec(text)?.[1])
}
const isLinux = process.platform === 'linux'

process.on('message', (message) => {
  // Hooks make promises larger: bytes are counted without them.
  if (message === 'count objects') hook.enable()
  if (message === 'count bytes') hook.disable()
  if (message === 'collect') globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  const answer: Answer = {
    bytes: heapUsed + arrayBuffers,
    ...created,
    calls: isLinux ? systemCalls() : 0,
    turns: performance.nodeTiming.uvMetricsInfo.loopCount,
  }
  process.send?.(answer)
})
// A gateway that does not start ends, and is reported.
process.channel?.unref()
