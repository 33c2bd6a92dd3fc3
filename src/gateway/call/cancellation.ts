import { type Failure, fail } from '../../core/failure.ts'
import type { World } from '../../core/world.ts'
import { NEVER, SharedTimer, type TimerClient } from './shared-timer.ts'

const late = (ms: number): Failure => fail('deadline', `The answer was not complete within ${ms / 1000} s.`)

/** The one way a request is stopped from outside: its client left, its time is over, the process ends. The first reason stands. */
export class Cancellation implements TimerClient {
  place = -1
  /** When its time is over, in ms of the monotonic clock, and how long it was. */
  until = NEVER
  limit = 0
  #reason: Failure | null = null
  #run: (reason: Failure) => void = () => {}

  get reason(): Failure | null {
    return this.#reason
  }

  cancel(reason: Failure): void {
    if (this.#reason) return
    this.#reason = reason
    this.#run(reason)
  }

  /** What stopping means at this moment. Runs at once if it has been stopped already; a later one replaces it. */
  onCancel(run: (reason: Failure) => void): void {
    this.#run = run
    if (this.#reason) run(this.#reason)
  }

  onDeadline(): void {
    this.cancel(late(this.limit))
  }

  /** Its answer is here: what is still to be done has no limit. */
  clearDeadline(): void {
    this.until = NEVER
  }

  /** Waits so many ms, or until stopped. */
  sleep(world: World, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = world.later(ms, resolve)
      this.onCancel(() => {
        cancel()
        resolve()
      })
    })
  }
}

/** Every request under way, and the time each may take. */
export class ActiveCalls extends SharedTimer<Cancellation> {
  /** What they wait for in between: signs of life, the end of a silence. */
  readonly timers = new SharedTimer<TimerClient>()

  /** Stops it after so many ms (0: never), if it has not left before. */
  startDeadline(world: World, stop: Cancellation, ms: number): void {
    if (ms <= 0) return
    stop.limit = ms
    this.set(world, stop, world.now() + ms)
  }
}
