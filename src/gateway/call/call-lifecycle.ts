/** The lifecycle common to all calls: cancellation, recording, and an error response on an internal error. */

import { fail } from '../../core/failure.ts'
import type { IncomingRequest, RequestBody, ResponseWriter } from '../../core/http-exchange.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { type ActiveCalls, Cancellation } from './cancellation.ts'
import { type CallKind, type RecordedReply, Recorder, type RecorderDeps, writeAndRecordError } from './recorder.ts'

/** The dependencies of every call. */
export type CallDeps = RecorderDeps & {
  /** Calls in progress: shutdown cancels them through this. */
  readonly activeCalls: ActiveCalls
}

/** What `runCall` needs to serve one call. */
export type CallInput = CallKind & {
  readonly gateway: CallDeps
  readonly received: IncomingRequest<RequestBody>
  readonly responseWriter: ResponseWriter
}

/** One call of a client in progress. */
export type RunningCall = RecordedReply & { readonly cancellation: Cancellation }

/** An answer that continues after the serving function has returned, such as a stream. */
export type OngoingAnswer = {
  /** Connects the answer to its call. The answer then calls `finish` or `fail` once, possibly at once. */
  attach(scope: CallScope): void
}

/** Serves one call. Resolves when it is over, with or without success; rejects only if error handling itself throws. */
export const runCall = (
  input: CallInput,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call without an ongoing answer returns nothing
  serve: (call: RunningCall) => Promise<OngoingAnswer | void>,
): Promise<void> => {
  const { gateway, protocol, received, responseWriter: writer } = input
  const cancellation = new Cancellation(received.client.id)
  const recorder = new Recorder(gateway, received, input)
  const responseWriter = recorder.bodies?.response(writer) ?? writer
  gateway.activeCalls.add(cancellation)
  cancellation.account = recorder.account
  recorder.account.attempts.onCut = (failure) => cancellation.cancel(failure)
  responseWriter.onDisconnect(() => cancellation.cancel(fail('client_gone', 'the client left before the end')))
  const call = { protocol, responseWriter, recorder, cancellation }
  return new CallScope(gateway, call).run(serve(call))
}

/** The state of one call. It exists as long as the answer, so it holds only necessary data. */
export class CallScope {
  readonly #gateway: CallDeps
  readonly #call: RunningCall
  #resolve: (result: void | Promise<void>) => void = () => {}

  constructor(gateway: CallDeps, call: RunningCall) {
    this.#gateway = gateway
    this.#call = call
  }

  /** Resolves when the call is over. A long call has only this promise: an async function in between costs half a KB. */
  // biome-ignore lint/suspicious/noConfusingVoidType: as above
  run(served: Promise<OngoingAnswer | void>): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      served.then(
        (ongoing) => (ongoing ? ongoing.attach(this) : this.finish()),
        (error) => this.fail(error),
      )
    })
  }

  /** Ends the call. */
  finish(): void {
    const { cancellation, recorder } = this.#call
    recorder.account.close()
    this.#gateway.activeCalls.delete(cancellation)
    cancellation.onCancel(nothing)
    this.#resolve()
  }

  /** Ends the call by `settle`, or by the internal error that it throws. */
  conclude(settle: () => void): void {
    try {
      settle()
      this.finish()
    } catch (error) {
      this.fail(error)
    }
  }

  /** Ends the call because of an internal error. */
  fail(error: unknown): void {
    try {
      this.#respondWithError(error)
    } catch (another) {
      this.#resolve(Promise.reject(another))
    } finally {
      this.finish()
    }
  }

  #respondWithError(error: unknown): void {
    const { recorder, responseWriter } = this.#call
    this.#gateway.emit({ event: 'error', id: recorder.id, error })
    const failure = fail('internal', 'Internal gateway error. See the gateway log for this request ID.')
    if (recorder.ended) return
    if (!recorder.responseStarted) return writeAndRecordError(this.#call, failure, 0)
    responseWriter.abort()
    recorder.end('refused', statusOf(failure), failure)
  }
}

const nothing = (): void => {}
