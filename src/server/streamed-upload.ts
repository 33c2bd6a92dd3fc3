/** The body of a request that is passed on as it arrives. */
import type { Failure } from '../core/failure.ts'
import type { Sink } from '../core/stage.ts'
import type { StreamedBody } from '../core/streamed-body.ts'
import type { BodySink, HttpExchange } from '../transport/server/http-server.ts'
import { tooLargeUpload } from './body.ts'

/** `held` receives the bytes of each part that waits; `released` is called once, when none does. */
type UploadRules = {
  readonly maxBytes: number
  readonly held: (bytes: number) => void
  readonly released: () => void
}

const nothing = (): void => {}

/** Until `pipeTo` at most one read is kept. */
export class StreamedUpload implements StreamedBody, BodySink {
  readonly isPaced = true
  readonly length: number | null
  readonly #exchange: HttpExchange
  readonly #maxBytes: number
  /** Called once, when parts no longer wait. */
  #released: () => void
  #size = 0
  #sink: Sink<Uint8Array> | null = null

  constructor(exchange: HttpExchange, { maxBytes, held, released }: UploadRules) {
    this.#exchange = exchange
    this.#maxBytes = maxBytes
    this.#released = released
    const { headers } = exchange
    const stated = headers('content-length')
    const isEmpty = stated === undefined && headers('transfer-encoding') === undefined
    this.length = isEmpty ? 0 : stated === undefined ? null : Number(stated)
    // A paused connection would not show that its client has left.
    if (this.length !== 0) exchange.holdBody(held)
  }

  pipeTo(sink: Sink<Uint8Array>): void {
    this.#sink = sink
    if (this.#exchange.expects === 'continue') this.#exchange.sendContinue()
    this.#exchange.pipeBody(this)
    this.#release()
  }

  resume(): void {
    if (this.#sink) this.#exchange.pipeBody(this)
  }

  drop(): void {
    this.#sink = null
    if (!this.#exchange.complete) this.#exchange.closeAfter()
    this.#exchange.pipeBody(null)
    this.#release()
  }

  push(part: Buffer): void {
    this.#size += part.length
    if (this.#size > this.#maxBytes) return this.#end(tooLargeUpload(this.#maxBytes))
    if (this.#sink?.push(part) === false) this.#exchange.holdBody(nothing)
  }

  end(): void {
    this.#end()
  }

  #end(failure?: Failure): void {
    const sink = this.#sink
    this.#sink = null
    sink?.end(failure)
  }

  #release(): void {
    this.#released()
    this.#released = () => {}
  }
}
