/** The lifecycle common to all calls: cancellation, recording, and an error response on an internal error. */

import { fail } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { Gateway } from '../gateway.ts'
import { Cancellation } from './cancellation.ts'
import { Recorder, writeError } from './recorder.ts'

/** What `runCall` needs to serve one call. */
export type CallInput = {
  readonly gateway: Gateway
  /** The client's protocol. */
  readonly protocol: ClientProtocol
  /** The kind of call, as named in the log. */
  readonly style: string
  readonly received: IncomingRequest
  readonly reply: ResponseWriter
}

/** An answer that continues after the serving function has returned, such as a stream. */
export type OngoingAnswer = {
  /** Connects the answer to its call. The answer then calls `finish` or `fail` once, possibly before this returns. */
  attach(scope: CallScope): void
}

/** Serves one call. Resolves when it is over, with or without success; rejects only if error handling itself throws. */
export const runCall = (
  { gateway, protocol, style, received, reply }: CallInput,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call without an ongoing answer returns nothing
  serve: (stop: Cancellation, record: Recorder) => Promise<OngoingAnswer | void>,
): Promise<void> => {
  const stop = new Cancellation()
  const record = new Recorder(gateway, received, style)
  gateway.activeCalls.add(stop)
  reply.onDisconnect(() => stop.cancel(fail('client_gone', 'the client left before the end')))
  return new CallScope({ gateway, protocol, reply }, stop, record).run(serve(stop, record))
}

/** The state of one call. It exists as long as the answer, so it holds only necessary data. */
export class CallScope {
  readonly #gateway: Gateway
  readonly #protocol: ClientProtocol
  readonly #reply: ResponseWriter
  readonly #stop: Cancellation
  readonly #record: Recorder
  #resolve: (result: void | Promise<void>) => void = () => {}

  constructor(
    { gateway, protocol, reply }: Pick<CallInput, 'gateway' | 'protocol' | 'reply'>,
    stop: Cancellation,
    record: Recorder,
  ) {
    this.#gateway = gateway
    this.#protocol = protocol
    this.#reply = reply
    this.#stop = stop
    this.#record = record
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
    this.#gateway.activeCalls.delete(this.#stop)
    this.#stop.onCancel(nothing)
    this.#resolve()
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
    const record = this.#record
    this.#gateway.emit({ event: 'error', id: record.id, error })
    const failure = fail('internal', 'Internal gateway error. See the gateway log for this request ID.')
    if (record.ended) return
    if (record.responseStarted) this.#reply.abort()
    else writeError({ protocol: this.#protocol, reply: this.#reply, record }, failure, 0)
    record.end('refused', statusOf(failure), failure)
  }
}

const nothing = (): void => {}
