/**
 * An answer with several readers. The call writes it once; it is buffered and replayed to each reader from its
 * beginning, at the reader's own pace. While the whole answer is buffered, a slow reader delays no other. Above the
 * buffer's limit only text that some reader still needs is kept: then the slowest reader determines the pace, and no
 * reader can join. A single reader applies backpressure as without a buffer.
 */
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { Cancel, World } from '../../core/world.ts'
import { AnswerBuffer, type MemoryQuota } from './answer-buffer.ts'

export type BroadcastOptions = {
  readonly world: World
  readonly quota: MemoryQuota
  /** Largest buffer of this answer, in bytes. */
  readonly limit: number
  /** ms after which a reader that has stopped reading is dropped; 0: never. */
  readonly writeTimeout: number
  /** Called if the last reader left before the end, or if the buffer was dropped without a reader. */
  readonly onNoReaders: () => void
  /** The answer has ended or was cut. */
  readonly onEnd: () => void
}

/** How it ended for a reader: `read` to the end, `cut` off, or it `left`. */
export type ReadOutcome = 'read' | 'cut' | 'left'

type HeaderBlock = { readonly status: number; readonly headers: Readonly<Record<string, string>> }

type BroadcastReader = {
  readonly responseWriter: ResponseWriter
  /** The reader's own headers, which override the answer's. */
  readonly headers: Readonly<Record<string, string>>
  readonly done: (outcome: ReadOutcome) => void
  /** Index of the next piece to write. */
  at: number
  /** Cancels the write timeout of a reader that is not accepting data; null: it accepts data. */
  full: Cancel | null
}

/** An answer that is written once and read by several clients. */
export class BroadcastResponse implements ResponseWriter {
  readonly #options: BroadcastOptions
  readonly #readers = new Set<BroadcastReader>()
  readonly #buffer: AnswerBuffer
  #head: HeaderBlock | null = null
  #end: 'ended' | 'cut' | null = null
  /** The response was abandoned: the call that writes it is cancelled, even if it starts later. */
  #abandoned = false
  /** The call waits for `onDrain`. */
  #paused = false
  #onDrain: () => void = () => {}
  #onGone: () => void = () => {}

  constructor(options: BroadcastOptions) {
    this.#options = options
    this.#buffer = new AnswerBuffer(options.quota, options.limit)
  }

  /** Buffered from the beginning, so that further readers can join. */
  get replayable(): boolean {
    return this.#buffer.replayable
  }

  /** The status of an answer that has ended; null: it is in progress or was cut. */
  get status(): number | null {
    return this.#end === 'ended' ? (this.#head?.status ?? null) : null
  }

  /** The answer that has ended, if it is buffered from its beginning. */
  whole(): (HeaderBlock & { readonly body: Uint8Array<ArrayBuffer> }) | null {
    return this.#head && this.#end === 'ended' && this.replayable ? { ...this.#head, body: this.#buffer.whole() } : null
  }

  /** Writes the answer to this writer, from its beginning. `done` is called once. Throws if it is not replayable. */
  read(
    responseWriter: ResponseWriter,
    headers: Readonly<Record<string, string>>,
    done: (outcome: ReadOutcome) => void,
  ): void {
    if (!this.#buffer.replayable) throw new Error('the beginning of this answer is no longer buffered')
    const reader: BroadcastReader = { responseWriter, headers, done, at: 0, full: null }
    this.#readers.add(reader)
    responseWriter.onDisconnect(() => this.#remove(reader, 'left'))
    if (!this.#readers.has(reader)) return
    if (this.#head) responseWriter.writeHead(this.#head.status, { ...this.#head.headers, ...headers })
    if (this.#end === 'cut') this.#cutOff(reader)
    else this.#writeTo(reader)
    this.#resume()
  }

  /** No reader will join any more: keeps only text that present readers still need. */
  release(): void {
    this.#buffer.release()
    this.#trim()
  }

  /** Cancels the call that writes it, as if its client had disconnected. */
  abandon(): void {
    if (this.#end || this.#abandoned) return
    this.#abandoned = true
    this.#onGone()
  }

  // ── Written by the call ────────────────────────────────────────────────────────────────────────────────────────

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#head) return
    this.#head = { status, headers }
    for (const reader of this.#readers) reader.responseWriter.writeHead(status, { ...headers, ...reader.headers })
  }

  write(piece: TextOrBytes): boolean {
    if (this.#end || piece.length === 0) return true
    this.#add(keptPiece(piece, this.#head))
    this.#paused = !this.#hasRoom()
    return !this.#paused
  }

  end(text = ''): void {
    if (this.#end) return
    this.#end = 'ended'
    this.#add(text)
    this.#options.onEnd()
  }

  abort(): void {
    if (this.#end) return
    this.#end = 'cut'
    for (const reader of [...this.#readers]) this.#cutOff(reader)
    this.#options.onEnd()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onDisconnect(run: () => void): void {
    this.#onGone = run
    if (this.#abandoned) run()
  }

  // ── Written to the readers ─────────────────────────────────────────────────────────────────────────────────────

  #add(piece: TextOrBytes): void {
    if (piece.length > 0) this.#buffer.add(piece)
    for (const reader of [...this.#readers]) this.#writeTo(reader)
    this.#trim()
    if (!this.#buffer.replayable && !this.#end && this.#readers.size === 0) this.#options.onNoReaders()
  }

  /** Writes everything the reader has not received, until it is full. */
  #writeTo(reader: BroadcastReader): void {
    const { responseWriter } = reader
    while (!reader.full && this.#readers.has(reader)) {
      const piece = this.#buffer.next(reader)
      if (this.#end === 'ended' && reader.at === this.#buffer.length) {
        endWith(responseWriter, piece)
        return this.#remove(reader, 'read')
      }
      if (piece.length === 0) return
      if (!responseWriter.write(piece)) this.#awaitDrain(reader)
    }
  }

  #awaitDrain(reader: BroadcastReader): void {
    const { world, writeTimeout } = this.#options
    const onTimeout = () => this.#cutOff(reader, 'left')
    reader.full = writeTimeout > 0 ? world.later(writeTimeout, onTimeout) : () => {}
    reader.responseWriter.onDrain(() => {
      reader.full?.()
      reader.full = null
      this.#writeTo(reader)
      this.#trim()
      this.#resume()
    })
  }

  #cutOff(reader: BroadcastReader, outcome: ReadOutcome = 'cut'): void {
    reader.responseWriter.abort()
    this.#remove(reader, outcome)
  }

  #remove(reader: BroadcastReader, outcome: ReadOutcome): void {
    if (!this.#readers.delete(reader)) return
    reader.full?.()
    reader.responseWriter.onDisconnect(() => {})
    reader.done(outcome)
    this.#trim()
    if (this.#end) return
    if (this.#readers.size === 0) this.#options.onNoReaders()
    this.#resume()
  }

  /** While replayable one ready reader is enough; afterwards all must be ready. */
  #hasRoom(): boolean {
    if (this.#readers.size === 0) return true
    const readers = [...this.#readers]
    return this.#buffer.replayable ? readers.some(({ full }) => !full) : readers.every(({ full }) => !full)
  }

  #resume(): void {
    if (!this.#paused || this.#end || !this.#hasRoom()) return
    this.#paused = false
    this.#onDrain()
  }

  #trim(): void {
    this.#buffer.trim(this.#readers)
  }
}

/** The bytes of a text are kept as text, which can be joined. Those of a file are copied: they are valid during the call only. */
const keptPiece = (piece: TextOrBytes, head: HeaderBlock | null): TextOrBytes =>
  typeof piece === 'string' || !isFile(head) ? textOf(piece) : new Uint8Array(piece)

const isFile = (head: HeaderBlock | null): boolean =>
  /^(?:audio\/|application\/octet-stream)/.test(head?.headers['content-type'] ?? '')

const endWith = (responseWriter: ResponseWriter, piece: TextOrBytes): void => {
  if (typeof piece === 'string') return responseWriter.end(piece)
  responseWriter.write(piece)
  responseWriter.end()
}
