/** The frame around every call: it can be stopped from outside, it is written down, and a bug of ours ends it as an error. */

import { fail } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { Gateway } from '../gateway.ts'
import { Cancellation } from './cancellation.ts'
import { Recorder, writeError } from './recorder.ts'

export type CallInput = {
  readonly gateway: Gateway
  /** The client's format. */
  readonly protocol: ClientProtocol
  /** The kind of call, as the log calls it. */
  readonly style: string
  readonly received: IncomingRequest
  readonly reply: ResponseWriter
}

/** Goes on when the function that served a call is over: an answer on its way. */
export type OngoingAnswer = {
  /** Its end is told the frame, once; perhaps at once. */
  attach(frame: CallScope): void
}

/** Resolves when all of it is over, whichever way. */
export const runCall = (
  { gateway, protocol, style, received, reply }: CallInput,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call that does not last returns nothing
  serve: (stop: Cancellation, record: Recorder) => Promise<OngoingAnswer | void>,
): Promise<void> => {
  const stop = new Cancellation()
  const record = new Recorder(gateway, received, style)
  gateway.activeCalls.add(stop)
  reply.onGone(() => stop.cancel(fail('client_gone', 'the client left before the end')))
  return new CallScope({ gateway, protocol, reply }, stop, record).run(serve(stop, record))
}

/** Lasts as long as the answer: whatever it names is kept in memory until then. */
export class CallScope {
  readonly #gateway: Gateway
  readonly #protocol: ClientProtocol
  readonly #reply: ResponseWriter
  readonly #stop: Cancellation
  readonly #record: Recorder
  #resolve: (how: void | Promise<void>) => void = () => {}

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

  /** The one promise there is for a call that lasts: one that waits for another, or a function that does, keeps half a KB. */
  // biome-ignore lint/suspicious/noConfusingVoidType: as above
  run(served: Promise<OngoingAnswer | void>): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      served.then(
        (lasting) => (lasting ? lasting.attach(this) : this.finish()),
        (error) => this.fail(error),
      )
    })
  }

  finish(): void {
    this.#gateway.activeCalls.delete(this.#stop)
    this.#stop.onCancel(nothing)
    this.#resolve()
  }

  /** It ends by a mistake of ours. */
  fail(error: unknown): void {
    try {
      this.#confess(error)
    } catch (another) {
      this.#resolve(Promise.reject(another))
    } finally {
      this.finish()
    }
  }

  #confess(error: unknown): void {
    const record = this.#record
    this.#gateway.emit({ event: 'error', id: record.id, error })
    const failure = fail('internal', 'The gateway made a mistake of its own; it is in its log under this request id.')
    if (record.ended) return
    if (record.responseStarted) this.#reply.cut()
    else writeError(this.#protocol, this.#reply, record, failure, 0)
    record.end('refused', statusOf(failure), failure)
  }
}

const nothing = (): void => {}
