/** Sends the answer of a passed call to the client, at the client's pace, and records its end. */
import type { Failure } from '../../core/failure.ts'
import type { Sink } from '../../core/stage.ts'
import type { Target } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import type { RunningCall } from '../call/call-lifecycle.ts'
import { ClientPace } from '../call/client-pace.ts'
import { endPermit, SettledAnswer } from '../call/settled-answer.ts'
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

export class PassedAnswer extends SettledAnswer implements Sink<Uint8Array> {
  readonly #begun: BegunPass
  /** Pauses the upstream until the client has read what was written. */
  readonly #pace: ClientPace
  #isOver = false

  constructor(begun: BegunPass) {
    super()
    this.#begun = begun
    const { call, world, clientWrite, attempt } = begun
    this.#pace = new ClientPace(world, {
      responseWriter: call.responseWriter,
      timeout: clientWrite,
      onDrain: () => attempt.resume(),
      onTimeout: (failure) => this.#abandon(failure),
    })
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
    if (!isReady) this.#pace.wait()
    return isReady
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    this.#stop()
    const { responseWriter } = this.#begun.call
    // A file that just ends would look complete.
    if (failure) responseWriter.abort()
    else responseWriter.end()
    this.ended(failure ?? null)
  }

  /** The client disconnected or stopped reading. */
  #abandon(reason: Failure): void {
    if (this.#isOver) return
    this.#stop()
    this.#begun.attempt.abort()
    this.#begun.call.responseWriter.abort()
    this.ended(reason)
  }

  #stop(): void {
    this.#isOver = true
    this.#pace.stop()
  }

  protected settle(failure: Failure | null): void {
    const { call, permit, usage: source, status } = this.#begun
    const { recorder, cancellation } = call
    cancellation.clearDeadline()
    const usage = source.usage()
    if (usage && !usage.units) recorder.used({ usage })
    endPermit(permit, failure, recorder.id)
    if (!failure) return recorder.end('answered', status)
    recorder.end(failure.kind === 'client_gone' ? 'client_gone' : 'interrupted', status, failure)
  }
}
