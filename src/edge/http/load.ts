/** Measures what the process bears: bytes held for requests and answers, how late timers are, how full the heap is. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { Settings } from '../../core/settings.ts'
import { LATE_SECONDS, type Shed, shedding } from '../../policy/shed.ts'

/**
 * Bytes that wait in memory for somebody else: bodies of requests until their answers are out, whole answers of upstreams
 * until they are read, and what slow clients have not taken.
 */
export type Held = {
  readonly bytes: () => number
  /** So many more, or fewer. */
  readonly change: (by: number) => void
}

export const holding = (): Held => {
  let bytes = 0
  return {
    bytes: () => bytes,
    change(by) {
      bytes += by
    },
  }
}

export type LoadMeter = {
  readonly held: Held
  /** ms by which timers were late in the last second, p99. */
  readonly delay: () => number
  /** Why one more call is not taken while so many are under way; null: it is. */
  readonly shedding: (calls: number, limit: Settings['limit']) => Shed | null
  readonly stop: () => void
}

/** ms between two looks of the monitor, which it counts into what it measures. */
const RESOLUTION = 20

const SECOND = 1_000

export const measureLoad = (held: Held = holding()): LoadMeter => {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION })
  monitor.enable()
  let delays: readonly number[] = []
  let heap = 0
  const look = () => {
    delays = [...delays.slice(1 - LATE_SECONDS), Math.max(0, monitor.percentile(99) / 1e6 - RESOLUTION)]
    monitor.reset()
    const { used_heap_size: used, heap_size_limit: most } = getHeapStatistics()
    heap = used / most
  }
  const timer = setInterval(look, SECOND)
  timer.unref()
  return {
    held,
    delay: () => delays.at(-1) ?? 0,
    shedding: (calls, limit) => shedding({ calls, held: held.bytes(), delays, heap }, limit),
    stop() {
      clearInterval(timer)
      monitor.disable()
    },
  }
}
