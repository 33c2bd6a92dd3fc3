/** The text or the bytes of an answer with several readers, each of which reads at its own pace. */
import type { TextOrBytes } from '../../core/encoded-text.ts'

/** Memory for buffered answers, shared by all of them. In bytes. */
export type MemoryQuota = {
  /** Always accepts the bytes. False: the total is above the limit. */
  take(bytes: number): boolean
  give(bytes: number): void
}

/** Characters of small pieces that are joined into one write for a reader that catches up. */
const JOINED = 65_536

export class AnswerBuffer {
  readonly #quota: MemoryQuota
  readonly #limit: number
  #pieces: TextOrBytes[] = []
  #size = 0
  #replayable = true

  /** `limit`: of this answer, in bytes. */
  constructor(quota: MemoryQuota, limit: number) {
    this.#quota = quota
    this.#limit = limit
  }

  /** The answer is here from the beginning. */
  get replayable(): boolean {
    return this.#replayable
  }

  /** Pieces of the answer. */
  get length(): number {
    return this.#pieces.length
  }

  add(piece: TextOrBytes): void {
    const bytes = memoryOf(piece)
    this.#pieces.push(piece)
    this.#size += bytes
    const isWithinLimits = this.#quota.take(bytes) && this.#size <= this.#limit
    if (!isWithinLimits) this.#replayable = false
  }

  /** The next piece for a reader; empty: it has received everything. */
  next(reader: { at: number }): TextOrBytes {
    const from = reader.at
    let to = from
    let length = 0
    while (to < this.#pieces.length) {
      length += this.#pieces[to]?.length ?? 0
      // A long piece is written alone, without a copy, and so are the bytes of a file.
      if (to > from && (length > JOINED || [from, to].some((at) => typeof this.#pieces[at] !== 'string'))) break
      to++
    }
    reader.at = to
    return to === from + 1 ? (this.#pieces[from] ?? '') : this.#pieces.slice(from, to).join('')
  }

  /** All pieces. */
  whole(): Uint8Array<ArrayBuffer> {
    const encoder = new TextEncoder()
    const pieces = this.#pieces.map((piece) => (typeof piece === 'string' ? encoder.encode(piece) : piece))
    const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const piece of pieces) {
      bytes.set(piece, at)
      at += piece.length
    }
    return bytes
  }

  /** No reader will join any more. */
  release(): void {
    this.#replayable = false
  }

  /** Unless replayable, removes what every reader has received, and moves their places. */
  trim(readers: ReadonlySet<{ at: number }>): void {
    if (this.#replayable) return
    const read = Math.min(this.#pieces.length, ...[...readers].map(({ at }) => at))
    if (read === 0) return
    const bytes = this.#pieces.splice(0, read).reduce((sum, piece) => sum + memoryOf(piece), 0)
    for (const reader of readers) reader.at -= read
    this.#size -= bytes
    this.#quota.give(bytes)
  }
}

const memoryOf = (piece: TextOrBytes): number => (typeof piece === 'string' ? bytesOf(piece) : piece.length + 96)

/** Upper bound of a string's memory in V8, in bytes: 1 or 2 a character and a fixed overhead. */
export const bytesOf = (text: string): number => (/[^\0-\xff]/.test(text) ? 2 : 1) * text.length + 48
