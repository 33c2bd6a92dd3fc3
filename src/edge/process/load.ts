/** Measures what the process bears: bytes held for requests and answers, how late timers are, how full the heap is. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { Settings } from '../../core/settings.ts'
import { LATE_SECONDS, type Shed, shedding } from '../../policy/health/shed.ts'

/**
 * Bytes buffered in memory: bodies of requests until their answers are complete, whole answers of upstreams until they
 * are read, and what slow clients have not read.
 */
export type HeldBytes = {
  readonly bytes: () => number
  /** So many more, or fewer. */
  readonly change: (by: number) => void
  /** Adds to the bytes of answers that this client has not read. `given`: fewer because it has read them. */
  readonly changeUnread: (client: string, by: number, given: boolean) => void
  /** Bytes that this client has not read; 0 where it has not completed an answer for `READING` ms. */
  readonly beingRead: (client: string) => number
  /** Sets what runs when a client has read an answer. */
  readonly onRead: (run: () => void) => void
}

/** ms within which a client that reads its answers completes one. It is waited for only as long. */
const READING = 2_000

export const heldBytes = (now: () => number = () => performance.now()): HeldBytes => {
  let bytes = 0
  let notify = () => {}
  const unread = new Map<string, { readonly bytes: number; readonly since: number }>()
  return {
    bytes: () => bytes,
    change(by) {
      bytes += by
    },
    changeUnread(client, by, given) {
      const before = unread.get(client)
      const after = (before?.bytes ?? 0) + by
      if (after <= 0) unread.delete(client)
      else unread.set(client, { bytes: after, since: given || !before ? now() : before.since })
      if (by < 0) notify()
    },
    beingRead(client) {
      const found = unread.get(client)
      return found && now() - found.since < READING ? found.bytes : 0
    },
    onRead(run) {
      notify = run
    },
  }
}

export type LoadMeter = {
  readonly held: HeldBytes
  /** ms by which timers were late in the last second, p99. */
  readonly delay: () => number
  /** Why one more call is not taken while so many are under way; null: it is. */
  readonly shedding: (calls: number, limit: Settings['limit']) => Shed | null
  readonly stop: () => void
}

/** ms between two looks of the monitor, which it counts into what it measures. */
const RESOLUTION = 20

const SECOND = 1_000

export const measureLoad = (held: HeldBytes = heldBytes()): LoadMeter => {
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
