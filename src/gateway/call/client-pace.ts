/** Waits for a client that is not reading what was written, for a limited time. */
import { type Failure, fail } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { Cancel, World } from '../../core/world.ts'

export type ClientPaceOptions = {
  readonly responseWriter: Pick<ResponseWriter, 'onDrain'>
  /** ms after which a client that reads nothing is given up; 0: never. */
  readonly timeout: number
  /** The client reads again. */
  readonly onDrain: () => void
  readonly onTimeout: (failure: Failure) => void
}

export class ClientPace {
  readonly #world: Pick<World, 'later'>
  readonly #options: ClientPaceOptions
  /** Cancels the timeout; null while the client reads. */
  #waiting: Cancel | null = null

  constructor(world: Pick<World, 'later'>, options: ClientPaceOptions) {
    this.#world = world
    this.#options = options
  }

  /** The client is not reading what was written. */
  get isWaiting(): boolean {
    return this.#waiting !== null
  }

  /** A write has returned that the client is not reading. */
  wait(): void {
    if (this.#waiting) return
    const { responseWriter, timeout, onDrain, onTimeout } = this.#options
    const expired = () => onTimeout(fail('client_gone', `The client read nothing for ${timeout} ms.`))
    this.#waiting = timeout > 0 ? this.#world.later(timeout, expired) : () => {}
    responseWriter.onDrain(() => {
      this.stop()
      onDrain()
    })
  }

  stop(): void {
    this.#waiting?.()
    this.#waiting = null
  }
}
