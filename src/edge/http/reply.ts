import type { ServerResponse } from 'node:http'
import type { Reply } from '../../core/call.ts'

type Headers = Readonly<Record<string, string>>

/**
 * An answer over `node:http`. The head leaves together with what is first written. Once the client has gone, whatever is
 * written is dropped in silence: the one who writes learns it from `onGone`.
 */
export class HttpReply implements Reply {
  readonly #res: ServerResponse
  /** Every answer carries these. */
  readonly #common: Headers
  #status = 0
  #headers: Headers = {}
  #gone = false
  #over = false
  /** Chunks are framed here (RFC 9112, section 7.1). */
  #frames = false
  #onGone: () => void = () => {}
  #onDrain: () => void = () => {}
  readonly #held: (by: number) => void
  /** Bytes the client has not taken, as they were last counted. */
  #waiting = 0
  #full = false

  /** `held`: told of bytes that wait for a slow client, and of their going. */
  constructor(res: ServerResponse, common: Headers, held: (by: number) => void = ignored) {
    this.#res = res
    this.#held = held
    this.#common = common
    // An error of the connection is a client that left, which `left` tells.
    res.on('error', ignored)
  }

  /** The connection closed before the answer was out. */
  left(): void {
    this.#gone = true
    this.#count(0)
    this.#onGone()
  }

  get begun(): boolean {
    return this.#res.headersSent || this.#over
  }

  head(status: number, headers: Headers): void {
    if (this.begun) return
    this.#status = status
    this.#headers = headers
  }

  write(text: string): boolean {
    if (this.#over || this.#gone || text === '') return true
    if (!this.#res.headersSent) this.#begin()
    const room = this.#res.write(this.#frames ? chunk(text) : text)
    if (!room) this.#wait()
    return room
  }

  end(text = ''): void {
    if (this.#over) return
    if (this.#gone) {
      this.#over = true
      return
    }
    // What cannot be written throws, and then another answer still can be.
    if (!this.#res.headersSent) {
      const bare = this.#status === 204 || this.#status === 304
      this.#res.writeHead(this.#status, this.#list(bare ? undefined : ['content-length', `${Buffer.byteLength(text)}`]))
    }
    this.#over = true
    this.#res.end(this.#frames ? `${text === '' ? '' : chunk(text)}0\r\n\r\n` : text)
    if (this.#res.writableLength >= LARGE) this.#wait()
  }

  cut(): void {
    if (this.#over) return
    this.#over = true
    this.#onGone = () => {}
    this.#res.destroy()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onGone(run: () => void): void {
    this.#onGone = run
    if (this.#gone) run()
  }

  /** The client is slower than we are. Only then is anything counted: a write that leaves at once costs nothing here. */
  #wait(): void {
    this.#count(this.#res.writableLength)
    if (this.#full) return
    this.#full = true
    this.#res.on('drain', () => {
      this.#count(0)
      this.#onDrain()
    })
    this.#res.once('finish', () => this.#count(0))
  }

  #count(waiting: number): void {
    this.#held(waiting - this.#waiting)
    this.#waiting = waiting
  }

  /**
   * Node writes a chunk in four parts; framed by ourselves it is one. The head is made now and leaves with the first
   * chunk; then Node is told that nothing is chunked, so that it adds nothing. To HTTP/1.0 nobody chunks.
   */
  #begin(): void {
    this.#frames = this.#res.useChunkedEncodingByDefault
    this.#res.writeHead(this.#status, this.#list(this.#frames ? ['transfer-encoding', 'chunked'] : undefined))
    if (this.#frames) this.#res.chunkedEncoding = false
  }

  /** Name and value in turn: Node takes such a list as it is, where an object or `setHeader` costs twice as much. */
  #list(more: readonly string[] = []): string[] {
    const headers = { ...this.#common, ...this.#headers }
    const list = [...more]
    for (const name in headers) list.push(name, headers[name] ?? '')
    return list
  }
}

/** Bytes of a whole answer that are worth counting while they wait. */
const LARGE = 64 * 1024

const ignored = () => {}

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
