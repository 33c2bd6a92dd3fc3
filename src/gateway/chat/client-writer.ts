/** The connection of a streaming client: its header block, its backpressure, and the time of the last write. */
import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { StreamForm } from '../../core/protocol.ts'
import type { Cancel, World } from '../../core/world.ts'

/** Response headers of a stream of server-sent events. */
const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Disables response buffering in nginx.
  'x-accel-buffering': 'no',
}

/** Response headers of a stream. `mediaType`: absent for server-sent events. */
export const streamHeaders = ({
  mediaType,
}: {
  readonly mediaType?: string | undefined
}): Readonly<Record<string, string>> =>
  mediaType === undefined ? STREAM_HEADERS : { ...STREAM_HEADERS, 'content-type': mediaType }

const NO_HEADERS = {}

export type ClientWriterOptions = {
  readonly responseWriter: ResponseWriter
  /** How the stream is sent. */
  readonly form: StreamForm
  /** Headers of a header block that is sent before a target has answered. */
  readonly headers: Readonly<Record<string, string>>
  /** ms after which a client that reads nothing is given up; 0: never. */
  readonly timeout: number
  /** The client reads again. */
  readonly onDrain: () => void
  readonly onTimeout: () => void
}

/** ms. @google/genai 1.30 raises an error only where it is all that one read returns. */
const APART = 100

export class ClientWriter {
  readonly #world: World
  readonly #responseWriter: ResponseWriter
  readonly #form: StreamForm
  readonly #timeout: number
  readonly #onDrain: () => void
  readonly #onTimeout: () => void
  /** Needed until the header block has been sent. */
  #headers: Readonly<Record<string, string>>
  #headersSent = false
  #lastWrite: number
  /** Cancels the timeout of a client that is not reading; null while it reads. */
  #waiting: Cancel | null = null

  constructor(world: World, { responseWriter, form, headers, timeout, onDrain, onTimeout }: ClientWriterOptions) {
    this.#form = form
    this.#world = world
    this.#responseWriter = responseWriter
    this.#headers = headers
    this.#timeout = timeout
    this.#onDrain = onDrain
    this.#onTimeout = onTimeout
    this.#lastWrite = world.now()
  }

  get headersSent(): boolean {
    return this.#headersSent
  }

  /** Of the monotonic clock, in ms. */
  get lastWrite(): number {
    return this.#lastWrite
  }

  /** The client is not reading what was written. */
  get isFull(): boolean {
    return this.#waiting !== null
  }

  sendHeaders(headers = this.#headers): void {
    this.#responseWriter.writeHead(200, { ...streamHeaders(this.#form), ...headers })
    this.#headersSent = true
    this.#headers = NO_HEADERS
  }

  /** False: pause until `onDrain` is called. */
  write(piece: TextOrBytes): boolean {
    if (piece.length === 0) return true
    this.#lastWrite = this.#world.now()
    const ready = this.#responseWriter.write(piece)
    if (!ready) this.#awaitDrain()
    return ready
  }

  /** No longer waits for the client to read. */
  stopWaiting(): void {
    this.#waiting?.()
    this.#waiting = null
  }

  /** `apart`: sent so late after the text that the client reads it by itself. */
  end(text: string, apart = ''): void {
    if (apart === '') return this.#responseWriter.end(text)
    this.#responseWriter.write(text)
    this.#world.later(APART, () => this.#responseWriter.end(apart))
  }

  /** Writes a comment between two events, if clients of the format skip those. */
  remark(text: string): void {
    if (this.#form.comments) this.write(`: headgate ${text}\n`)
  }

  abort(): void {
    this.#responseWriter.abort()
  }

  #awaitDrain(): void {
    if (this.#waiting) return
    this.#waiting = this.#timeout > 0 ? this.#world.later(this.#timeout, this.#onTimeout) : () => {}
    this.#responseWriter.onDrain(() => {
      this.stopWaiting()
      this.#onDrain()
    })
  }
}
