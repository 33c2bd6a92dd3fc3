/** Forms with files, which may be longer than what is kept in memory. */

import type { Failure } from './failure.ts'

/** A part of a form: its name, and the place of its content. */
export type FormPart = {
  readonly name: string
  readonly isFile: boolean
  readonly start: number
  readonly end: number
  /** The content of a field; null: it is a file. */
  readonly value: Uint8Array | null
}

/** A form that was received. */
export type ReceivedForm = {
  readonly boundary: string
  readonly parts: readonly FormPart[]
  readonly bytes: StoredBytes
}

/** Bytes in memory or in a file. They may be read several times, and at once. */
export type StoredBytes = {
  readonly length: number
  /** All of them; null: they are in a file. */
  readonly whole: Uint8Array | null
  /** Begins to read: they stay readable until its end, also after `release`. */
  open(): ByteReading
  /** They are not read again. */
  release(): void
}

export type ByteReading = {
  /** Copies the bytes from an offset on into this memory, up to its length. Returns how many; rejects if they cannot be read. */
  read(into: Uint8Array, from: number): Promise<number>
  end(): void
}

/** Bytes that are being received. `append`: one call at a time; returns why they cannot be stored. */
export type GrowingBytes = StoredBytes & { append(pieces: readonly Uint8Array[]): Promise<Failure | null> }

/** Stores the forms that are longer than what is kept in memory. */
export type FormStore = { create(): GrowingBytes }

/** Bytes in memory. */
export const bytesInMemory = (whole: Uint8Array): StoredBytes => ({
  length: whole.length,
  whole,
  open: () => ({
    async read(into, from) {
      const part = whole.subarray(from, from + into.length)
      into.set(part)
      return part.length
    },
    end() {},
  }),
  release() {},
})

/** Bytes that replace those between two offsets. */
export type ByteChange = { readonly start: number; readonly end: number; readonly value: Uint8Array }

/** Bytes of a stored body that are read at once. */
const PIECE = 256 * 1024

/** A body that is read while it is sent: stored bytes, some of which are replaced. */
export class SpooledBody {
  readonly length: number
  readonly #bytes: StoredBytes
  readonly #changes: readonly ByteChange[]

  /** `changes`: in their order, without overlaps. */
  constructor(bytes: StoredBytes, changes: readonly ByteChange[]) {
    this.#bytes = bytes
    this.#changes = changes
    this.length = changes.reduce((sum, { start, end, value }) => sum + value.length - (end - start), bytes.length)
  }

  /** The body in pieces, each of which is valid until the next one is requested. Throws if it cannot be read. */
  async *pieces(): AsyncGenerator<Uint8Array, undefined> {
    const reading = this.#bytes.open()
    const memory = new Uint8Array(Math.min(PIECE, this.#bytes.length))
    try {
      let at = 0
      for (const { start, end, value } of [...this.#changes, END]) {
        for (const until = Math.min(start, this.#bytes.length); at < until; ) {
          const count = await reading.read(memory.subarray(0, Math.min(memory.length, until - at)), at)
          if (count === 0) throw new Error('The stored body is shorter than it was.')
          yield memory.subarray(0, count)
          at += count
        }
        if (value.length > 0) yield value
        at = end
      }
    } finally {
      reading.end()
    }
  }
}

const END: ByteChange = { start: Number.POSITIVE_INFINITY, end: Number.POSITIVE_INFINITY, value: new Uint8Array(0) }

/** The bytes with changes: in memory, if they are. */
export const withChanges = (bytes: StoredBytes, changes: readonly ByteChange[]): Uint8Array | SpooledBody => {
  const { whole } = bytes
  if (!whole) return new SpooledBody(bytes, changes)
  if (changes.length === 0) return whole
  const growth = changes.reduce((sum, { value, start, end }) => sum + value.length - (end - start), 0)
  const made = new Uint8Array(whole.length + growth)
  let [from, to] = [0, 0]
  for (const { value, start, end } of changes) {
    made.set(whole.subarray(from, start), to)
    made.set(value, to + start - from)
    to += start - from + value.length
    from = end
  }
  made.set(whole.subarray(from), to)
  return made
}
