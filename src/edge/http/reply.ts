import type { ServerResponse } from 'node:http'
import type { Reply } from '../../core/call.ts'

/**
 * An answer over `node:http`. The head leaves together with what is first written. Once the client has gone, whatever is
 * written is dropped in silence: the one who writes learns it from `onGone`.
 */
export class HttpReply implements Reply {
  readonly #res: ServerResponse
  #gone = false
  #over = false
  #onGone: () => void = () => {}
  #onDrain: (() => void) | null = null

  /** `common`: headers every answer carries. */
  constructor(res: ServerResponse, common: Readonly<Record<string, string>>) {
    this.#res = res
    for (const [name, value] of Object.entries(common)) res.setHeader(name, value)
    // An error of the connection is a client that left, which `left` tells.
    res.on('error', () => {})
  }

  /** The connection closed before the answer was out. */
  left(): void {
    this.#gone = true
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
    return this.#res.write(text)
  }

  end(text = ''): void {
    if (this.#over) return
    this.#over = true
    if (this.#gone) return
    const { statusCode, headersSent } = this.#res
    if (!headersSent && statusCode !== 204 && statusCode !== 304)
      this.#res.setHeader('content-length', Buffer.byteLength(text))
    this.#res.end(text)
  }

  cut(): void {
    if (this.#over) return
    this.#over = true
    this.#onGone = () => {}
    this.#res.destroy()
  }

  onDrain(run: () => void): void {
    if (!this.#onDrain) this.#res.on('drain', () => this.#onDrain?.())
    this.#onDrain = run
  }

  onGone(run: () => void): void {
    this.#onGone = run
    if (this.#gone) run()
  }
}
