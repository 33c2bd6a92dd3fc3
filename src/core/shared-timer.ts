/**
 * Many deadlines on one timer. A timer for each open stream would cost a third of a KB, and more time to set than an
 * occasional scan of all deadlines.
 */
import { type Indexed, IndexedSet } from './indexed-set.ts'
import type { Cancel, World } from './world.ts'

/** The deadline of a client without a running timeout. */
export const NEVER = Number.POSITIVE_INFINITY

/** An object with one deadline at a time. */
export type TimerClient = Indexed & {
  /** The deadline in ms of the monotonic clock. Set by `SharedTimer`. */
  until: number
  /** The deadline has passed. Data that arrived after `now` may not have been read yet. */
  onDeadline(now: number): void
}

/**
 * A scan of this many clients takes 1 µs. The interval between two scans is at least 1 ms for this many, so scans take at most
 * a thousandth of the time.
 */
const CLIENTS_PER_MS = 128

/** A timer that fires this late (ms) means that the process was suspended or blocked. */
const PROCESS_STALL = 100

/**
 * Runs `onDeadline` of each client after its deadline. The timer is not moved when a client leaves or postpones its
 * deadline: it then fires early and is set again.
 */
export class SharedTimer<T extends TimerClient> extends IndexedSet<T> {
  #timer: Cancel | null = null
  /** When the timer fires. */
  #firesAt = NEVER
  #lastScan = Number.NEGATIVE_INFINITY
  #isScanning = false

  /** Adds the client if needed and sets its deadline. */
  set(world: World, client: T, until: number): void {
    client.until = until
    this.add(client)
    this.#arm(world, until)
  }

  /** Removes the client and its deadline. */
  override delete(client: T): boolean {
    client.until = NEVER
    const wasPresent = super.delete(client)
    if (this.size === 0) this.#disarm()
    return wasPresent
  }

  #arm(world: World, until: number): void {
    const at = Math.max(until, this.#lastScan + Math.floor(this.size / CLIENTS_PER_MS))
    if (at >= this.#firesAt || this.#isScanning) return
    this.#timer?.()
    this.#firesAt = at
    this.#timer = world.later(Math.max(0, at - world.now()), () => this.#onTimer(world))
  }

  #disarm(): void {
    this.#timer?.()
    this.#timer = null
    this.#firesAt = NEVER
  }

  #onTimer(world: World): void {
    const now = world.now()
    const delay = now - this.#firesAt
    this.#disarm()
    if (delay < PROCESS_STALL) return this.#scan(world, now)
    // Read pending input first: a stall of this process is not silence of a peer. No deadline is earlier than this scan.
    this.#firesAt = Number.NEGATIVE_INFINITY
    this.#timer = world.later(0, () => {
      this.#disarm()
      this.#scan(world, now)
    })
  }

  /** Runs `onDeadline` of all clients whose deadline was at or before `now`. */
  #scan(world: World, now: number): void {
    this.#isScanning = true
    const due: T[] = []
    for (const client of this) if (client.until <= now) due.push(client)
    try {
      for (const client of due) {
        // A previous client may have changed this one's deadline.
        if (client.until > now) continue
        client.until = NEVER
        client.onDeadline(now)
      }
      this.#lastScan = now
    } finally {
      // If one client throws, the timer fires again at once for the others.
      this.#isScanning = false
      let first = NEVER
      for (const { until } of this) first = Math.min(first, until)
      this.#arm(world, first)
    }
  }
}
