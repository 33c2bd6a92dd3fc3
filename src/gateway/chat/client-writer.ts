/** The connection of a streaming client: its header block, its backpressure, and the time of the last write. */
import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { StreamForm } from '../../core/protocol.ts'
import type { World } from '../../core/world.ts'
import { ClientPace, type ClientPaceOptions } from '../call/client-pace.ts'

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

export type ClientWriterOptions = ClientPaceOptions & {
  readonly responseWriter: ResponseWriter
  /** How the stream is sent. */
  readonly form: StreamForm
  /** Headers of a header block that is sent before a target has answered. */
  readonly headers: Readonly<Record<string, string>>
}

/** ms. @google/genai 1.30 raises an error only where it is all that one read returns. */
const APART = 100

export class ClientWriter {
  readonly #world: World
  readonly #responseWriter: ResponseWriter
  readonly #form: StreamForm
  readonly #pace: ClientPace
  /** Needed until the header block has been sent. */
  #headers: Readonly<Record<string, string>>
  #headersSent = false
  #lastWrite: number

  constructor(world: World, { form, headers, ...paced }: ClientWriterOptions) {
    this.#form = form
    this.#world = world
    this.#responseWriter = paced.responseWriter
    this.#headers = headers
    this.#pace = new ClientPace(world, paced)
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
    return this.#pace.isWaiting
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
    if (!ready) this.#pace.wait()
    return ready
  }

  /** No longer waits for the client to read. */
  stopWaiting(): void {
    this.#pace.stop()
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
}
