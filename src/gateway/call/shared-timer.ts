/**
 * The times that thousands wait for, on one timer: one for each of them would be a third of a KB, which an open stream
 * keeps, and longer to set than to ask all of them now and then.
 */
import { type Indexed, IndexedSet } from '../../core/indexed-set.ts'
import type { Cancel, World } from '../../core/world.ts'

export const NEVER = Number.POSITIVE_INFINITY

/** Waits for a time. */
export type TimerClient = Indexed & {
  /** In ms of the monotonic clock. Set by `Alarms`. */
  until: number
  /** It is time. What has come since `now` may not have been read yet. */
  onDeadline(now: number): void
}

/** To ask so many takes 1 µs and is done once a ms at most, twice as many once in two: a thousandth of the time. */
const ASKED_A_MS = 128

/** A timer that rings so much too late (ms) says that the process stood still. */
const STOOD_STILL = 100

/** The timer is not moved when a sleeper goes or wishes to sleep longer: it rings too early then, and is set anew. */
export class SharedTimer<T extends TimerClient> extends IndexedSet<T> {
  #timer: Cancel | null = null
  #set = NEVER
  /** When all were last asked. */
  #asked = Number.NEGATIVE_INFINITY
  #asking = false

  /** Rings for it then; it is one of them from now on. */
  set(world: World, one: T, until: number): void {
    one.until = until
    this.add(one)
    this.#arm(world, until)
  }

  override delete(one: T): boolean {
    one.until = NEVER
    const was = super.delete(one)
    if (this.size === 0) this.#disarm()
    return was
  }

  #arm(world: World, until: number): void {
    const at = Math.max(until, this.#asked + Math.floor(this.size / ASKED_A_MS))
    if (at >= this.#set || this.#asking) return
    this.#timer?.()
    this.#set = at
    this.#timer = world.later(Math.max(0, at - world.now()), () => this.#ring(world))
  }

  #disarm(): void {
    this.#timer?.()
    this.#timer = null
    this.#set = NEVER
  }

  #ring(world: World): void {
    const now = world.now()
    const late = now - this.#set
    this.#disarm()
    if (late < STOOD_STILL) return this.#ask(world, now)
    // What has come by now is read first: our standing still is nobody's silence. Nothing is sooner than that.
    this.#set = Number.NEGATIVE_INFINITY
    this.#timer = world.later(0, () => {
      this.#disarm()
      this.#ask(world, now)
    })
  }

  /** Rings for those whose time was over by then. */
  #ask(world: World, now: number): void {
    this.#asking = true
    const due: T[] = []
    for (const one of this) if (one.until <= now) due.push(one)
    try {
      for (const one of due) {
        // The one before may have seen to it.
        if (one.until > now) continue
        one.until = NEVER
        one.onDeadline(now)
      }
      this.#asked = now
    } finally {
      // A bug of ours in one of them keeps no other from it: it rings again for them, at once.
      this.#asking = false
      let first = NEVER
      for (const { until } of this) first = Math.min(first, until)
      this.#arm(world, first)
    }
  }
}
