import { type Failure, fail } from '../core/failure.ts'
import type { Member } from '../core/members.ts'
import type { Cancel, World } from '../core/world.ts'

/** The one way a request is stopped from outside: its client left, its time is over, the process ends. The first reason stands. */
export class Stop implements Member {
  place = -1
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

  /** Stops after so many ms (0: never), unless that is cancelled. */
  after(world: World, ms: number): Cancel {
    if (ms <= 0) return () => {}
    return world.later(ms, () => this.now(fail('deadline', `The answer was not complete within ${ms / 1000} s.`)))
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
