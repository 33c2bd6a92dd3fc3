/** Reads forms with files: their parts as they arrive, and their bytes into memory or, where they are long, into a file. */
import type { Failure } from '../core/failure.ts'
import { bytesInMemory, type FormStore, type GrowingBytes, type ReceivedForm } from '../core/form.ts'
import { PIECE } from '../core/steps.ts'
import { FormScanner } from '../protocols/framing/form-data.ts'

/** What is read of a form, and where it is kept. */
export type FormRules = {
  /** Bytes up to which it is kept in memory. */
  readonly maxMemory: number
  /** Where a longer one is kept; null: in memory too. */
  readonly store: FormStore | null
}

/** The client that sends the form, and the request that it belongs to. */
export type FormListener = {
  readonly memory: { release(bytes: number): void }
  /** Until `resume`, at most one more part arrives. */
  pause(): void
  resume(): void
  received(form: ReceivedForm): void
  refuse(failure: Failure): void
}

/** Bytes that wait for the disk before the client is paused. */
const MAX_WAITING = 4 * PIECE

/** Bytes of parts that are scanned and stored together: a piece, and a last read of the socket. */
const PIECE_MEMORY = PIECE + 64 * 1024

/**
 * Gives the memory of a part back, unless it is shared. V8 would do so only after some hundred megabytes: a form of that size
 * consists of few objects, so nothing else causes a collection.
 */
const freeMemory = ({ buffer, length }: Uint8Array): void => {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === length && !buffer.detached) buffer.transfer(0)
}

const EMPTY = new Uint8Array(0)

/** Collects one form. `memory` counts its bytes until they are in a file. */
export class FormReader {
  readonly #boundary: string
  readonly #scanner: FormScanner
  readonly #rules: FormRules
  readonly #listener: FormListener
  /** Received, not scanned; and the memory that was reserved for them. */
  #parts: Uint8Array[] = []
  #gathered = 0
  #reserved = 0
  /** Scanned, not in the file; without a file all. */
  #waiting: Uint8Array[] = []
  #waitingBytes = 0
  #size = 0
  #file: GrowingBytes | null = null
  /** Memory of pieces that are in the file, for the next ones. */
  readonly #free: Uint8Array[] = []
  #isWriting = false
  #isPaused = false
  #isEnded = false
  #isOver = false

  constructor(boundary: string, rules: FormRules, listener: FormListener) {
    this.#boundary = boundary
    this.#scanner = new FormScanner(boundary)
    this.#rules = rules
    this.#listener = listener
  }

  /** `reserved`: the memory that was reserved for it. */
  push(part: Uint8Array, reserved: number): void {
    if (this.#isOver) return
    this.#parts.push(part)
    this.#gathered += part.length
    this.#reserved += reserved
    if (this.#gathered >= PIECE) this.#scan()
  }

  end(): void {
    this.#scan()
    this.#isEnded = true
    if (!this.#isWriting) this.#finish()
  }

  /** Drops what was received. The listener is called no more. */
  abandon(): void {
    this.#isOver = true
    this.#parts = []
    this.#waiting = []
    this.#file?.release()
  }

  #refuse(failure: Failure): void {
    if (this.#isOver) return
    this.abandon()
    this.#listener.refuse(failure)
  }

  /** Parts are scanned and stored together: a form can come in chunks of one byte. */
  #scan(): void {
    if (this.#isOver) return
    const piece = this.#joined()
    this.#listener.memory.release(this.#reserved - piece.length)
    this.#parts = []
    this.#gathered = 0
    this.#reserved = 0
    const problem = this.#scanner.push(piece)
    if (problem) return this.#refuse(problem)
    this.#size += piece.length
    this.#waiting.push(piece)
    this.#waitingBytes += piece.length
    const { maxMemory, store } = this.#rules
    if (this.#size > maxMemory) this.#file ??= store?.create() ?? null
    if (this.#file && !this.#isWriting) void this.#write(this.#file)
    if (this.#file && this.#waitingBytes > MAX_WAITING && !this.#isPaused) {
      this.#isPaused = true
      this.#listener.pause()
    }
  }

  #joined(): Uint8Array {
    const memory = this.#file ? (this.#free.pop() ?? new Uint8Array(PIECE_MEMORY)) : EMPTY
    const piece = memory.length >= this.#gathered ? memory.subarray(0, this.#gathered) : new Uint8Array(this.#gathered)
    let at = 0
    for (const part of this.#parts) {
      piece.set(part, at)
      at += part.length
      freeMemory(part)
    }
    return piece
  }

  async #write(file: GrowingBytes): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const [pieces, bytes] = [this.#waiting, this.#waitingBytes]
      this.#waiting = []
      this.#waitingBytes = 0
      const failure = await file.append(pieces)
      if (this.#isOver) return
      if (failure) return this.#refuse(failure)
      for (const { buffer } of pieces) if (buffer.byteLength === PIECE_MEMORY) this.#free.push(new Uint8Array(buffer))
      this.#listener.memory.release(bytes)
    }
    this.#isWriting = false
    if (this.#isEnded) return this.#finish()
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#listener.resume()
  }

  #finish(): void {
    if (this.#isOver) return
    const parts = this.#scanner.end()
    if (!parts.ok) return this.#refuse(parts.failure)
    this.#isOver = true
    const bytes = this.#file ?? bytesInMemory(Buffer.concat(this.#waiting))
    this.#listener.received({ boundary: this.#boundary, parts: parts.value, bytes })
  }
}
