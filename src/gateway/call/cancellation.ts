/** Cancellation of calls in progress: by their clients, by their deadlines or by shutdown. */
import { type Failure, fail } from '../../core/failure.ts'
import { NEVER, SharedTimer, type TimerClient } from '../../core/shared-timer.ts'
import type { World } from '../../core/world.ts'

/** ms for which the rest of an answer is read after its client has left (`usage.drainOnAbort`). */
export const DRAIN = 30_000

const deadlineExceeded = (ms: number): Failure => fail('deadline', `The answer was not complete within ${ms / 1000} s.`)

/** What a call has received so far: the ID of its request, and tokens of output, which are counted only when they are read. */
export type ProgressSource = { readonly id: string; readonly outputTokens: number | null }

/** Cancels one request: the client left, the deadline passed or the process is shutting down. Keeps the first reason. */
export class Cancellation implements TimerClient {
  place = -1
  /** The deadline in ms of the monotonic clock. */
  until = NEVER
  /** The time limit in ms that led to the deadline. */
  limit = 0
  /** The ID of the client's key; empty where there is none. */
  readonly client: string
  /** The account of the call; null: it has none. */
  account: ProgressSource | null = null
  #reason: Failure | null = null
  #handler: (reason: Failure) => void = () => {}

  constructor(client = '') {
    this.client = client
  }

  /** Why the request was cancelled; null: it was not. */
  get reason(): Failure | null {
    return this.#reason
  }

  /** Cancels the request. Ignored if it is already cancelled. */
  cancel(reason: Failure): void {
    if (this.#reason) return
    this.#reason = reason
    this.#handler(reason)
  }

  /** Sets the handler, in place of the previous one. Calls it at once if the request is already cancelled. */
  onCancel(handler: (reason: Failure) => void): void {
    this.#handler = handler
    if (this.#reason) handler(this.#reason)
  }

  /** Cancels the request because its deadline has passed. */
  onDeadline(): void {
    this.cancel(deadlineExceeded(this.limit))
  }

  /** Removes the deadline, after the answer is complete. The remaining work has no limit. */
  clearDeadline(): void {
    this.until = NEVER
  }

  /** Resolves after `ms` or on cancellation. Replaces the cancel handler. */
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

/** All calls in progress and their deadlines. */
export class ActiveCalls extends SharedTimer<Cancellation> {
  /** The shared timer for the timeouts of attempts and streams. */
  readonly timers = new SharedTimer<TimerClient>()

  /** Cancels the calls of a client. Returns how many. */
  cancelOf(client: string, reason: Failure): number {
    const found = [...this].filter((call) => call.client === client)
    for (const call of found) call.cancel(reason)
    return found.length
  }

  /** The tokens of output that calls have received so far; without those that have received nothing. */
  outputOf(ids: ReadonlySet<string>): ReadonlyMap<string, number> {
    const found = new Map<string, number>()
    for (const { account } of this) {
      const tokens = account && ids.has(account.id) ? account.outputTokens : null
      if (account && tokens !== null) found.set(account.id, tokens)
    }
    return found
  }

  /** Cancels the call after `ms` if it is still in progress. 0: no deadline. */
  startDeadline(world: World, stop: Cancellation, ms: number): void {
    if (ms <= 0) return
    stop.limit = ms
    this.set(world, stop, world.now() + ms)
  }
}
