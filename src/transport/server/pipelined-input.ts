/** The bytes that a client sends before its request in progress is answered. */
import type { Socket } from 'node:net'

const NOTHING = Buffer.alloc(0)

/** Bytes that are kept while a request is served; above, the socket is paused. */
const MAX_PIPELINED = 64 * 1024

export class PipelinedInput {
  readonly #socket: Socket
  readonly #keeps: (bytes: number) => boolean
  #bytes: Buffer = NOTHING
  /** Bytes that belong to no exchange, as last reported. */
  #kept = 0
  #isDeaf = false

  /** `keeps` counts the memory of bytes that belong to no exchange; false: there is none. */
  constructor(socket: Socket, keeps: (bytes: number) => boolean) {
    this.#socket = socket
    this.#keeps = keeps
  }

  /** There was no memory: further bytes are dropped until the connection closes. */
  get isDeaf(): boolean {
    return this.#isDeaf
  }

  get length(): number {
    return this.#bytes.length
  }

  push(part: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? part : Buffer.concat([this.#bytes, part])
    if (this.#isFull()) this.#socket.pause()
  }

  /** Removes all bytes, to read them. `resume` follows. */
  take(): Buffer {
    const bytes = this.#bytes
    this.#bytes = NOTHING
    return bytes
  }

  /** Reports the bytes that belong to no exchange, if they changed. `more`: of a header block. False: there is no memory. */
  report(more: number): boolean {
    const kept = this.#bytes.length + more
    if (kept === this.#kept) return true
    this.#kept = kept
    return this.#keeps(kept)
  }

  /** Drops these bytes and all further ones. */
  deafen(): void {
    this.#isDeaf = true
    this.drop()
  }

  drop(): void {
    this.#bytes = NOTHING
    if (this.#kept > 0) this.#keeps(0)
    this.#kept = 0
  }

  pause(): void {
    this.#socket.pause()
  }

  /** Reads on, unless too much waits. */
  resume(): void {
    if (!this.#isFull()) this.#socket.resume()
  }

  #isFull(): boolean {
    return this.#bytes.length > MAX_PIPELINED
  }
}
