import type { Stage } from '../core/stage.ts'

/** Without a stream's state: for bytes that end with a whole character, as nearly all reads do, in two thirds of the time. */
const whole = new TextDecoder('utf-8', { ignoreBOM: true })

const MARK = 0xfeff

/** Bytes to text. A character cut in two waits for its rest; what is not UTF-8 becomes U+FFFD and nothing is thrown. */
export class Utf8 {
  /** Made when first a character may be cut in two: its state costs more than most answers. */
  #decoder: typeof whole | undefined
  #waiting = false
  #fresh = true

  /** The text of these bytes; empty where there is none yet. */
  read(bytes: Uint8Array): string {
    const { length } = bytes
    if (length === 0) return ''
    const waited = this.#waiting
    this.#waiting = (bytes[length - 1] ?? 0) >= 0x80
    if (!waited && !this.#waiting) return this.#unmarked(whole.decode(bytes))
    this.#decoder ??= new TextDecoder('utf-8', { ignoreBOM: true })
    return this.#unmarked(this.#decoder.decode(bytes, { stream: true }))
  }

  rest(): string {
    return this.#decoder && this.#waiting ? this.#unmarked(this.#decoder.decode()) : ''
  }

  #unmarked(text: string): string {
    if (!this.#fresh || text === '') return text
    this.#fresh = false
    return text.charCodeAt(0) === MARK ? text.slice(1) : text
  }
}

/** The same as a stage. */
export const utf8 = (): Stage<Uint8Array, string> => {
  const text = new Utf8()
  const some = (read: string): readonly string[] => (read === '' ? [] : [read])
  return { push: (bytes) => some(text.read(bytes)), end: () => some(text.rest()) }
}
