import type { EncodedText } from '../../../core/encoded-text.ts'
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import type { ExchangeListener, Headers, HttpExchange } from '../server/http-server.ts'

/** Accounting of an answer. */
export type ReplyAccounting = {
  /** Bytes written that the client has not taken, whenever that number changes. */
  unread(bytes: number): void
  /** All of it has been sent. */
  done(): void
}

const NONE: Headers = {}
const nothing = (): void => {}

/**
 * An answer to a client. The head leaves together with what is first written. Once the client has gone, whatever is
 * written is dropped in silence: the one who writes learns it from `onGone`.
 */
export class HttpReply implements ResponseWriter, ExchangeListener {
  readonly #exchange: HttpExchange
  /** Every answer carries these. Until its head is out, as those of its own. */
  #common: Headers
  #status = 0
  #headers = NONE
  #gone = false
  #over = false
  #onGone = nothing
  #onDrain = nothing
  readonly #books: ReplyAccounting
  /** Bytes the client has not taken, as they were last counted. */
  #waiting = 0

  constructor(exchange: HttpExchange, common: Headers, books: ReplyAccounting) {
    this.#exchange = exchange
    this.#common = common
    this.#books = books
    exchange.listener = this
  }

  /** The connection closed before the answer was out. */
  left(): void {
    this.#gone = true
    this.#count(0)
    this.#onGone()
  }

  get begun(): boolean {
    return this.#exchange.begun || this.#over
  }

  head(status: number, headers: Headers): void {
    if (this.begun) return
    this.#status = status
    this.#headers = headers
  }

  write(text: string): boolean {
    return this.#write(text)
  }

  writeBytes(bytes: Uint8Array): boolean {
    return this.#write(bytes)
  }

  #write(piece: string | Uint8Array): boolean {
    if (this.#over || this.#gone || piece.length === 0) return true
    if (!this.#exchange.begun) this.#begin()
    const room = this.#exchange.write(piece)
    // The client is slower than we are. Only then is anything counted: a write that leaves at once costs nothing here.
    if (!room) this.#count(this.#exchange.waiting)
    return room
  }

  /** A stream may last for minutes: what its head said is not kept for it. */
  #begin(): void {
    this.#exchange.begin(this.#status, { ...this.#common, ...this.#headers })
    this.#common = NONE
    this.#headers = NONE
  }

  end(text = '', source?: EncodedText): void {
    if (this.#over) return
    if (this.#gone) {
      this.#over = true
      return
    }
    if (this.#exchange.begun) {
      this.#over = true
      this.#exchange.end(text)
    } else {
      const bare = this.#status === 204 || this.#status === 304
      // What cannot be written throws, and then another answer still can be.
      this.#exchange.answer(this.#status, { ...this.#common, ...this.#headers }, bare ? null : text, source)
      this.#over = true
    }
    const { waiting } = this.#exchange
    if (waiting >= LARGE) this.#count(waiting)
  }

  cut(): void {
    if (this.#over) return
    this.#over = true
    this.#onGone = nothing
    this.#exchange.cut()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onGone(run: () => void): void {
    this.#onGone = run
    if (this.#gone) run()
  }

  drained(): void {
    this.#count(0)
    this.#onDrain()
  }

  finished(): void {
    this.#count(0)
    this.#books.done()
  }

  #count(waiting: number): void {
    if (waiting === this.#waiting) return
    this.#waiting = waiting
    this.#books.unread(waiting)
  }
}

/** Bytes of a whole answer that are worth counting while they wait. */
const LARGE = 64 * 1024
