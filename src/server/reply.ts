import type { TextOrBytes } from '../core/encoded-text.ts'
import type { ResponseWriter } from '../core/http-exchange.ts'
import type { ExchangeListener, HttpExchange, ResponseHeaders } from '../transport/server/http-server.ts'

/** Accounting of a response. */
export type ReplyAccounting = {
  /** The bytes the client has not read; called when the number changes. */
  unread(bytes: number): void
  /** The socket has accepted the complete response. */
  done(): void
}

/** `begun`: the header block has left, or the response has ended. `left`: the connection closed before the response was complete. */
export type BegunReply = ResponseWriter & { readonly begun: boolean; left(): void }

const NONE: ResponseHeaders = {}
const nothing = (): void => {}

/**
 * The response to an HTTP request. Its header block leaves with the first write. Once the client has left, writes are
 * dropped silently; `onDisconnect` notifies the writer.
 */
export class HttpReply implements BegunReply, ExchangeListener {
  readonly #exchange: HttpExchange
  /** Headers of every response; released, like `#headers`, once the header block is written. */
  #common: ResponseHeaders
  #status = 0
  #headers = NONE
  #gone = false
  #over = false
  #onGone = nothing
  #onDrain = nothing
  readonly #accounting: ReplyAccounting
  /** The last reported number of unread bytes. */
  #unread = 0

  constructor(exchange: HttpExchange, common: ResponseHeaders, accounting: ReplyAccounting) {
    this.#exchange = exchange
    this.#common = common
    this.#accounting = accounting
    exchange.listener = this
  }

  /** The connection closed before the response was complete. */
  left(): void {
    this.#gone = true
    this.#count(0)
    this.#onGone()
  }

  get begun(): boolean {
    return this.#exchange.begun || this.#over
  }

  writeHead(status: number, headers: ResponseHeaders): void {
    if (this.begun) return
    this.#status = status
    this.#headers = headers
  }

  write(piece: TextOrBytes): boolean {
    if (this.#over || this.#gone || piece.length === 0) return true
    if (!this.#exchange.begun) this.#begin()
    const room = this.#exchange.write(piece)
    // Counted only for a slow client: a write that leaves at once costs nothing here.
    if (!room) this.#count(this.#exchange.unsent)
    return room
  }

  /** Releases the headers: a stream may last for minutes. */
  #begin(): void {
    this.#exchange.begin(this.#status, { ...this.#common, ...this.#headers })
    this.#common = NONE
    this.#headers = NONE
  }

  end(text = ''): void {
    if (this.#over) return
    if (this.#gone) {
      this.#over = true
      return
    }
    if (this.#exchange.begun) {
      this.#over = true
      this.#exchange.end(text)
    } else {
      const bodiless = this.#status === 204 || this.#status === 304
      // Throws if a header is invalid; another response can still be sent.
      this.#exchange.answer(this.#status, { ...this.#common, ...this.#headers }, bodiless ? null : text)
      this.#over = true
    }
    const { unsent } = this.#exchange
    if (unsent >= LARGE) this.#count(unsent)
  }

  abort(): void {
    if (this.#over) return
    this.#over = true
    this.#onGone = nothing
    this.#exchange.cut()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onDisconnect(run: () => void): void {
    this.#onGone = run
    if (this.#gone) run()
  }

  drained(): void {
    this.#count(0)
    this.#onDrain()
  }

  finished(): void {
    this.#count(0)
    this.#accounting.done()
  }

  #count(unread: number): void {
    if (unread === this.#unread) return
    this.#unread = unread
    this.#accounting.unread(unread)
  }
}

/** Unsent bytes of a complete response from which on they are counted. */
const LARGE = 64 * 1024
