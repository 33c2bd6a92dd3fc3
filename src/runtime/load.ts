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
  /** A model call has arrived: the reason to reject it with this many in flight; null to accept it. */
  readonly shedding: (calls: number, limit: Settings['limit']) => ShedReason | null
  readonly stop: () => void
}

/** Sampling interval of the delay monitor in ms. Node includes it in the measured delay. */
const RESOLUTION = 20

const SECOND = 1_000

/** Seconds without a model call after which the process counts as idle. */
const BUSY_SECONDS = 5

export type LoadMeterOptions = {
  readonly held?: HeldBytes
  /** Model calls in progress, among them streams and background responses. */
  readonly inFlight?: () => number
  /** Runs while there are model calls; returns how to stop. */
  readonly whileBusy?: () => () => void
}

/**
 * Starts the measurements, once a second until `stop`. The delay monitor wakes the process 50 times a second, so it runs
 * only while there are model calls. In an idle process the delay is the lateness of the timer of each second.
 */
export const measureLoad = (options: LoadMeterOptions = {}): LoadMeter => {
  const { held = heldBytes(), inFlight = () => 0, whileBusy = () => () => {} } = options
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION })
  let delays: readonly number[] = []
  let heap = 0
  /** Seconds since the last call. */
  let idleSeconds = 0
  let endBusy: (() => void) | null = null
  const sleep = () => {
    endBusy?.()
    endBusy = null
    monitor.disable()
  }
  const wake = () => {
    idleSeconds = 0
    if (endBusy) return
    monitor.reset()
    monitor.enable()
    endBusy = whileBusy()
  }
  let sampled = performance.now()
  const sample = () => {
    const now = performance.now()
    const delay = endBusy ? monitor.percentile(99) / 1e6 - RESOLUTION : now - sampled - SECOND
    sampled = now
    delays = [...delays.slice(1 - LATE_SECONDS), Math.max(0, delay)]
    if (endBusy) {
      monitor.reset()
      idleSeconds = inFlight() > 0 ? 0 : idleSeconds + 1
      if (idleSeconds > BUSY_SECONDS) sleep()
    }
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
    heap = used / limit
  }
  const timer = setInterval(sample, SECOND)
  timer.unref()
  return {
    held,
    delay: () => delays.at(-1) ?? 0,
    shedding(calls, limit) {
      wake()
      return shedReason({ calls, held: held.bytes(), delays, heap }, limit)
    },
    stop() {
      clearInterval(timer)
      sleep()
    },
  }
}
