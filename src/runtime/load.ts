/** Measures the load of the process: buffered bytes, event loop delay and heap use. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { Settings } from '../core/settings.ts'
import { LATE_SECONDS, type ShedReason, shedReason } from '../policy/health/shed.ts'

/**
 * Counts bytes buffered in memory: request bodies until their responses are complete, whole upstream responses until they are
 * parsed, and bytes that clients have not read.
 */
export type HeldBytes = {
  readonly bytes: () => number
  /** Adds to the count; negative to subtract. */
  readonly change: (by: number) => void
  /** Adds to a client's unread bytes; negative to subtract. `read`: subtracted because the client has read them. */
  readonly changeUnread: (client: string, by: number, read: boolean) => void
  /** A client's unread bytes; 0 if it has not read a whole response within the last `READING` ms. */
  readonly beingRead: (client: string) => number
  /** Sets the callback for a decrease of unread bytes. */
  readonly onRead: (run: () => void) => void
}

/** A client counts as reading for this long (ms) after each response. */
const READING = 2_000

/** Creates a counter. `now`: monotonic clock in ms. */
export const heldBytes = (now: () => number = () => performance.now()): HeldBytes => {
  let bytes = 0
  let notify = () => {}
  const unread = new Map<string, { readonly bytes: number; readonly since: number }>()
  return {
    bytes: () => bytes,
    change(by) {
      bytes += by
    },
    changeUnread(client, by, read) {
      const before = unread.get(client)
      const after = (before?.bytes ?? 0) + by
      if (after <= 0) unread.delete(client)
      else unread.set(client, { bytes: after, since: read || !before ? now() : before.since })
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

/** The load of the process. */
export type LoadMeter = {
  readonly held: HeldBytes
  /** Event loop delay in ms: the p99 of the last second. */
  readonly delay: () => number
  /** The reason to reject another call with this many in flight; null to accept it. */
  readonly shedding: (calls: number, limit: Settings['limit']) => ShedReason | null
  readonly stop: () => void
}

/** Sampling interval of the delay monitor in ms. Node includes it in the measured delay. */
const RESOLUTION = 20

const SECOND = 1_000

/** Starts the measurements, once a second until `stop`. */
export const measureLoad = (held: HeldBytes = heldBytes()): LoadMeter => {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION })
  monitor.enable()
  let delays: readonly number[] = []
  let heap = 0
  const sample = () => {
    delays = [...delays.slice(1 - LATE_SECONDS), Math.max(0, monitor.percentile(99) / 1e6 - RESOLUTION)]
    monitor.reset()
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
    heap = used / limit
  }
  const timer = setInterval(sample, SECOND)
  timer.unref()
  return {
    held,
    delay: () => delays.at(-1) ?? 0,
    shedding: (calls, limit) => shedReason({ calls, held: held.bytes(), delays, heap }, limit),
    stop() {
      clearInterval(timer)
      monitor.disable()
    },
  }
}
