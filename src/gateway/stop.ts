import { type Failure, fail } from '../core/failure.ts'
import { type Member, Members } from '../core/members.ts'
import type { Cancel, World } from '../core/world.ts'

const NEVER = Number.POSITIVE_INFINITY

const late = (ms: number): Failure => fail('deadline', `The answer was not complete within ${ms / 1000} s.`)

/** The one way a request is stopped from outside: its client left, its time is over, the process ends. The first reason stands. */
export class Stop implements Member {
  place = -1
  /** When its time is over, in ms of the monotonic clock, and how long it was. */
  until = NEVER
  limit = 0
  #reason: Failure | null = null
  #run: (reason: Failure) => void = () => {}

  get reason(): Failure | null {
    return this.#reason
  }

  now(reason: Failure): void {
    if (this.#reason) return
    this.#reason = reason
    this.#run(reason)
  }

  /** What stopping means at this moment. Runs at once if it has been stopped already; a later one replaces it. */
  means(run: (reason: Failure) => void): void {
    this.#run = run
    if (this.#reason) run(this.#reason)
  }

  /** Its answer is here: what is still to be done has no limit. */
  untimed(): void {
    this.until = NEVER
  }

  /** Waits so many ms, or until stopped. */
  sleep(world: World, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = world.later(ms, resolve)
      this.means(() => {
        cancel()
        resolve()
      })
    })
  }
}

/**
 * Every request under way, and the time each may take: one timer for the first of them, where one for each would be a
 * third of a KB of every open stream. It is not moved when a request ends: it rings too early then, and is set anew.
 */
export class Live extends Members<Stop> {
  #timer: Cancel | null = null
  #set = NEVER

  /** Stops it after so many ms (0: never), if it is still one of them. */
  within(world: World, stop: Stop, ms: number): void {
    if (ms <= 0) return
    stop.limit = ms
    stop.until = world.now() + ms
    this.#arm(world, stop.until)
  }

  override delete(stop: Stop): boolean {
    const was = super.delete(stop)
    if (this.size === 0) this.#disarm()
    return was
  }

  #arm(world: World, until: number): void {
    if (until >= this.#set) return
    this.#timer?.()
    this.#set = until
    this.#timer = world.later(Math.max(0, until - world.now()), () => this.#look(world))
  }

  #disarm(): void {
    this.#timer?.()
    this.#timer = null
    this.#set = NEVER
  }

  #look(world: World): void {
    this.#disarm()
    const now = world.now()
    try {
      // Those that stop may leave meanwhile.
      for (const stop of [...this]) {
        if (stop.until > now) continue
        stop.untimed()
        stop.now(late(stop.limit))
      }
    } finally {
      // A bug of ours in stopping one keeps no other from it: it rings again for them.
      let first = NEVER
      for (const { until } of this) first = Math.min(first, until)
      this.#arm(world, first)
    }
  }
}
