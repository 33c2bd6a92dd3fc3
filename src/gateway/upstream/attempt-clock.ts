/** The clock of an attempt: its state, and the shared timer that checks its timeouts. */
import { NEVER, type SharedTimer, type TimerClient } from '../../core/shared-timer.ts'
import type { World } from '../../core/world.ts'
import { AttemptState, type AttemptTimeout, checkTimeouts, type TimeoutRules } from './attempt-timeouts.ts'

/** The attempt of a clock. */
export type ClockListener = { onTimeout(timeout: AttemptTimeout): void }

/** One object with the state, because thousands of streams may be open at once. */
export class AttemptClock extends AttemptState implements TimerClient {
  place = -1
  /** When the timeouts must be checked next. */
  until = NEVER
  rules: TimeoutRules
  readonly #world: World
  readonly #timer: SharedTimer<TimerClient>
  readonly #listener: ClockListener

  constructor(world: World, timer: SharedTimer<TimerClient>, rules: TimeoutRules, listener: ClockListener) {
    super(world.now())
    this.rules = rules
    this.#world = world
    this.#timer = timer
    this.#listener = listener
  }

  /** ms from the start to the first content, or to now if there is none. */
  get age(): number {
    return (this.firstContentAt ?? this.#world.now()) - this.startedAt
  }

  /** Sets the timer for the earliest deadline. It is not moved to a later one, because that would happen for each chunk. */
  schedule(now: number): void {
    const { deadline } = checkTimeouts(this, this.rules, now)
    if (deadline < this.until) this.#timer.set(this.#world, this, deadline)
  }

  /** Restarts the idle timeouts: a pause of this process is not silence of the upstream. */
  restartIdle(now: number): void {
    this.lastByteAt = now
    this.lastContentAt = now
    this.schedule(now)
  }

  onDeadline(now: number): void {
    for (;;) {
      const { expired } = checkTimeouts(this, this.rules, now)
      if (!expired) break
      this.#listener.onTimeout(expired)
    }
    this.schedule(now)
  }

  /** No timeout is checked any more. */
  release(): void {
    this.isLingering = false
    this.#timer.delete(this)
  }
}
