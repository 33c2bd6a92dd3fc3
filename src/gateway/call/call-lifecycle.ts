/** The frame around every call: it can be stopped from outside, it is written down, and a bug of ours ends it as an error. */

import { fail } from '../../core/failure.ts'
import type { Received, Reply } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { Gateway } from '../chat/serve-chat.ts'
import { Stop } from './cancellation.ts'
import { Recorder, refuse } from './recorder.ts'

export type Call = {
  readonly gateway: Gateway
  /** The client's format. */
  readonly protocol: ClientProtocol
  /** The kind of call, as the log calls it. */
  readonly style: string
  readonly received: Received
  readonly reply: Reply
}

/** Goes on when the function that served a call is over: an answer on its way. */
export type Lasting = {
  /** Its end is told the frame, once; perhaps at once. */
  within(frame: Frame): void
}

/** Resolves when all of it is over, whichever way. */
export const conduct = (
  { gateway, protocol, style, received, reply }: Call,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call that does not last returns nothing
  serve: (stop: Stop, record: Recorder) => Promise<Lasting | void>,
): Promise<void> => {
  const stop = new Stop()
  const record = new Recorder(gateway, received, style)
  gateway.live.add(stop)
  reply.onGone(() => stop.now(fail('client_gone', 'the client left before the end')))
  return new Frame({ gateway, protocol, reply }, stop, record).around(serve(stop, record))
}

/** Lasts as long as the answer: whatever it names is kept in memory until then. */
export class Frame {
  readonly #gateway: Gateway
  readonly #protocol: ClientProtocol
  readonly #reply: Reply
  readonly #stop: Stop
  readonly #record: Recorder
  #resolve: (how: void | Promise<void>) => void = () => {}

  constructor(
    { gateway, protocol, reply }: Pick<Call, 'gateway' | 'protocol' | 'reply'>,
    stop: Stop,
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
  around(served: Promise<Lasting | void>): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      served.then(
        (lasting) => (lasting ? lasting.within(this) : this.over()),
        (error) => this.mistaken(error),
      )
    })
  }

  over(): void {
    this.#gateway.live.delete(this.#stop)
    this.#stop.means(nothing)
    this.#resolve()
  }

  /** It ends by a mistake of ours. */
  mistaken(error: unknown): void {
    try {
      this.#confess(error)
    } catch (another) {
      this.#resolve(Promise.reject(another))
    } finally {
      this.over()
    }
  }

  #confess(error: unknown): void {
    const record = this.#record
    this.#gateway.tell({ event: 'error', id: record.id, error })
    const failure = fail('internal', 'The gateway made a mistake of its own; it is in its log under this request id.')
    if (record.over) return
    if (record.begun) this.#reply.cut()
    else refuse(this.#protocol, this.#reply, record, failure, 0)
    record.end('refused', statusOf(failure), failure)
  }
}

const nothing = (): void => {}
