/** Sends the answer of a passed call to the client, at the client's pace, and records its end. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Sink } from '../../core/stage.ts'
import type { Target } from '../../core/target.ts'
import type { Cancel, World } from '../../core/world.ts'
import type { CallScope, OngoingAnswer, RunningCall } from '../call/call-lifecycle.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { AnswerUsage } from './answer-usage.ts'
import type { PassAttempt } from './pass-attempt.ts'

/** An answer that has begun. */
export type BegunPass = {
  readonly call: RunningCall
  readonly world: Pick<World, 'later'>
  readonly attempt: PassAttempt
  readonly usage: AnswerUsage
  readonly target: Target
  readonly permit: AttemptPermit
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The whole body, if it has been read; null: it is passed on as it arrives. */
  readonly whole: Uint8Array | string | null
  /** ms after which a client that reads nothing is disconnected; 0: never. */
  readonly clientWrite: number
}

export class PassedAnswer implements Sink<Uint8Array>, OngoingAnswer {
  readonly #begun: BegunPass
  #isOver = false
  /** Cancels the write timeout of a client that is not reading; null: it reads. */
  #writeTimeout: Cancel | null = null
  #scope: CallScope | null = null
  /** How it ended; undefined: it is in progress. */
  #failure: Failure | null | undefined

  constructor(begun: BegunPass) {
    this.#begun = begun
  }

  begin(): void {
    const { call, attempt, status, headers, whole } = this.#begun
    call.cancellation.onCancel((reason) =>
      reason.kind === 'client_gone' ? this.#abandon(reason) : attempt.failWith(reason),
    )
    if (this.#isOver) return
    call.recorder.responseStarted = true
    call.responseWriter.writeHead(status, headers)
    if (whole === null) return attempt.pipeTo(this)
    if (whole.length > 0) call.responseWriter.write(whole)
    this.end()
  }

  push(part: Uint8Array): boolean {
    if (this.#isOver) return true
    const isReady = this.#begun.call.responseWriter.write(part)
    if (!isReady) this.#awaitDrain()
    return isReady
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    this.#stop()
    const { responseWriter } = this.#begun.call
    // A file that just ends would look complete.
    if (failure) responseWriter.abort()
    else responseWriter.end()
    this.#ended(failure ?? null)
  }

  attach(scope: CallScope): void {
    this.#scope = scope
    const failure = this.#failure
    if (failure !== undefined) scope.conclude(() => this.#settle(failure))
  }

  #awaitDrain(): void {
    if (this.#writeTimeout) return
    const { world, call, clientWrite, attempt } = this.#begun
    const onTimeout = () => this.#abandon(fail('client_gone', `The client read nothing for ${clientWrite} ms.`))
    this.#writeTimeout = clientWrite > 0 ? world.later(clientWrite, onTimeout) : () => {}
    call.responseWriter.onDrain(() => {
      this.#writeTimeout?.()
      this.#writeTimeout = null
      attempt.resume()
    })
  }

  /** The client disconnected or stopped reading. */
  #abandon(reason: Failure): void {
    if (this.#isOver) return
    this.#stop()
    this.#begun.attempt.abort()
    this.#begun.call.responseWriter.abort()
    this.#ended(reason)
  }

  #stop(): void {
    this.#isOver = true
    this.#writeTimeout?.()
    this.#writeTimeout = null
  }

  #ended(failure: Failure | null): void {
    this.#failure = failure
    const scope = this.#scope
    // Deferred: the answer that reports its end is still on the stack.
    if (scope) void Promise.resolve().then(() => scope.conclude(() => this.#settle(failure)))
  }

  #settle(failure: Failure | null): void {
    const { call, permit, usage: source, status } = this.#begun
    const { recorder, cancellation } = call
    cancellation.clearDeadline()
    const usage = source.usage()
    if (usage && !usage.units) recorder.used({ usage })
    if (!failure) {
      permit.done()
      return recorder.end('answered', status)
    }
    const isLeft = failure.kind === 'client_gone'
    if (isLeft) permit.release()
    else permit.failed(failure, recorder.id)
    recorder.end(isLeft ? 'client_gone' : 'interrupted', status, failure)
  }
}
