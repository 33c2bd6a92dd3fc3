/** The end of answers that go on after their serving function. */
import type { Failure } from '../../core/failure.ts'
import type { CallScope, OngoingAnswer } from './call-lifecycle.ts'

/** An answer whose end is settled once, within the scope of its call: at its end, or when it is attached if it has ended by then. */
export abstract class SettledAnswer implements OngoingAnswer {
  #scope: CallScope | null = null
  /** How it ended; undefined: it is in progress. */
  #failure: Failure | null | undefined

  attach(scope: CallScope): void {
    this.#scope = scope
    const failure = this.#failure
    if (failure !== undefined) scope.conclude(() => this.settle(failure))
  }

  /** Called once. Null: the answer is complete. */
  ended(failure: Failure | null): void {
    this.#failure = failure
    const scope = this.#scope
    // Deferred: what reports the end is still on the stack.
    if (scope) void Promise.resolve().then(() => scope.conclude(() => this.settle(failure)))
  }

  /** Records the end, and releases what the answer has held. */
  protected abstract settle(failure: Failure | null): void
}

/** What counts the end of an answer at its target. */
type EndingPermit = {
  done(): void
  release(): void
  failed(failure: Failure, requestId: string): void
}

/** Counts the end of an answer at its target: a client that has left says nothing about it. */
export const endPermit = (permit: EndingPermit, failure: Failure | null, requestId: string): void => {
  if (!failure) permit.done()
  else if (failure.kind === 'client_gone') permit.release()
  else permit.failed(failure, requestId)
}
