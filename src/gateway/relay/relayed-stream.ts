/** Forwards the answer of a relayed endpoint to the client as it arrives, at the client's pace, and records its end. */
import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { RelayRow } from '../../core/relay.ts'
import type { Sink } from '../../core/stage.ts'
import type { World } from '../../core/world.ts'
import { passFrame, writeFrame } from '../../protocols/framing/sse.ts'
import type { RunningCall } from '../call/call-lifecycle.ts'
import { ClientPace } from '../call/client-pace.ts'
import { endPermit, SettledAnswer } from '../call/settled-answer.ts'
import type { AnswerGuards } from '../guards/guarded-answer.ts'
import type { Routed } from '../routing/router.ts'
import { HeldEvents } from './guarded-relay.ts'
import { relayUsage } from './relay-answer.ts'
import type { PreparedRelay } from './relay-attempts.ts'
import type { RelayRequest } from './relay-request.ts'

export type RelayedAnswer = {
  readonly row: RelayRow
  readonly call: RunningCall
  /** Null: no guard reads answers. */
  readonly guards: AnswerGuards | null
  readonly world: Pick<World, 'later'>
  readonly routed: Routed<PreparedRelay>
  readonly contentType: string
  /** The answer is a stream of events: a failure is its last one. Otherwise the connection is aborted. */
  readonly isEvents: boolean
  /** ms after which a client that reads nothing is disconnected; 0: never. */
  readonly clientWrite: number
  /** Estimated tokens. */
  readonly tokens: RelayRequest['tokens']
}

export class RelayedStream extends SettledAnswer implements Sink<readonly StreamStep[]> {
  readonly #answer: RelayedAnswer
  /** Pauses the upstream until the client has read what was written. */
  readonly #pace: ClientPace
  #isOver = false

  constructor(answer: RelayedAnswer) {
    super()
    this.#answer = answer
    const { call, world, clientWrite, routed } = answer
    this.#pace = new ClientPace(world, {
      responseWriter: call.responseWriter,
      timeout: clientWrite,
      onDrain: () => routed.answerStream.resume(),
      onTimeout: (failure) => this.#abandon(failure),
    })
  }

  begin(): void {
    const { call, routed, contentType } = this.#answer
    const { cancellation, recorder, responseWriter } = call
    cancellation.onCancel((reason) =>
      reason.kind === 'client_gone' ? this.#abandon(reason) : routed.answerStream.failWith(reason),
    )
    if (this.#isOver) return
    recorder.answeredBy(routed)
    recorder.responseStarted = true
    // Proxies must not collect the answer before they pass it on.
    const headers = { 'content-type': contentType, 'cache-control': 'no-cache', 'x-accel-buffering': 'no' }
    responseWriter.writeHead(200, { ...recorder.headers(), ...headers })
    if (!this.#isOver) routed.answerStream.pipeTo(this.#checked())
  }

  /** Where the answer is checked before it is written. */
  #checked(): Sink<readonly StreamStep[]> {
    const { guards, row, isEvents, routed } = this.#answer
    if (!guards || row.answer !== 'text' || !isEvents) return this
    return new HeldEvents({ guards, row, sink: this, cancel: () => routed.answerStream.abort() })
  }

  push(steps: readonly StreamStep[]): boolean {
    let isReady = true
    for (const { frame } of steps) {
      if (this.#isOver) return true
      const piece = frame && (this.#answer.isEvents ? passFrame(frame) : frame.raw)
      if (piece !== undefined) isReady = this.#write(piece) && isReady
    }
    return isReady
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    const { call, isEvents } = this.#answer
    this.#stop()
    if (!failure) call.responseWriter.end()
    // A file that just ends would look complete.
    else if (!isEvents) call.responseWriter.abort()
    else call.responseWriter.end(writeFrame(undefined, JSON.stringify(this.#errorOf(failure))))
    this.ended(failure ?? null)
  }

  #errorOf(failure: Failure): object {
    const { protocol, recorder } = this.#answer.call
    return protocol.encodeFailure(failure, { requestId: recorder.id, interrupted: true })
  }

  #write(piece: TextOrBytes): boolean {
    if (piece.length === 0) return true
    const isReady = this.#answer.call.responseWriter.write(piece)
    if (!isReady) this.#pace.wait()
    return isReady
  }

  /** The client disconnected or stopped reading. */
  #abandon(reason: Failure): void {
    if (this.#isOver) return
    this.#stop()
    this.#answer.routed.answerStream.abort()
    this.#answer.call.responseWriter.abort()
    this.ended(reason)
  }

  #stop(): void {
    this.#isOver = true
    this.#pace.stop()
  }

  protected settle(failure: Failure | null): void {
    const { call, routed, tokens } = this.#answer
    const { recorder, cancellation } = call
    const { permit, answerStream } = routed
    cancellation.clearDeadline()
    endPermit(permit, failure, recorder.id)
    recorder.used(relayUsage(answerStream.usage(), tokens))
    if (!failure) return recorder.end('answered', 200)
    const isLeft = failure.kind === 'client_gone'
    // Its count is that of the whole answer, although the client did not receive it.
    if (isLeft && answerStream.finished()) recorder.account.settleAll('answered', undefined)
    recorder.end(isLeft ? 'client_gone' : 'interrupted', 200, failure)
  }
}
