import type { ServerResponse } from 'node:http'
import type { Reply } from '../../core/call.ts'

/**
 * An answer over `node:http`. The head leaves together with what is first written. Once the client has gone, whatever is
 * written is dropped in silence: the one who writes learns it from `onGone`.
 */
export class HttpReply implements Reply {
  readonly #res: ServerResponse
  readonly #held: (by: number) => void
  /** Bytes the client has not taken, as they were last counted. */
  #waiting = 0
  #full = false
  #gone = false
  #over = false
  #onGone: () => void = () => {}
  #onDrain: () => void = () => {}

  /** `common`: headers every answer carries. `held`: told of bytes that wait for a slow client, and of their going. */
  constructor(res: ServerResponse, common: Readonly<Record<string, string>>, held: (by: number) => void = () => {}) {
    this.#res = res
    this.#held = held
    for (const [name, value] of Object.entries(common)) res.setHeader(name, value)
    // An error of the connection is a client that left, which `left` tells.
    res.on('error', () => {})
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

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.begun) return
    this.#res.statusCode = status
    for (const [name, value] of Object.entries(headers)) this.#res.setHeader(name, value)
  }

  write(text: string): boolean {
    if (this.#over || this.#gone || text === '') return true
    const room = this.#res.write(text)
    if (!room) this.#wait()
    return room
  }

  end(text = ''): void {
    if (this.#over) return
    this.#over = true
    if (this.#gone) return
    const { statusCode, headersSent } = this.#res
    if (!headersSent && statusCode !== 204 && statusCode !== 304)
      this.#res.setHeader('content-length', Buffer.byteLength(text))
    this.#res.end(text)
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
}

/** Bytes of a whole answer that are worth counting while they wait. */
const LARGE = 64 * 1024
