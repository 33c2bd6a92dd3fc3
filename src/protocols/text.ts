import type { Stage } from '../core/stage.ts'

/** For bytes that neither begin nor end within a character: without a stream's state it takes two thirds of the time. */
const whole = new TextDecoder('utf-8', { ignoreBOM: true })

/** Bytes to text. A character cut in two waits for its rest; what is not UTF-8 becomes U+FFFD and nothing is thrown. */
export const utf8 = (): Stage<Uint8Array, string> => {
  const decoder = new TextDecoder()
  /** A byte order mark may come, or the rest of a character. */
  let waiting = true
  const some = (text: string): readonly string[] => (text === '' ? [] : [text])
  return {
    push(bytes) {
      const last = bytes.at(-1)
      if (last === undefined) return []
      const waited = waiting
      waiting = last >= 0x80
      return some(waited || waiting ? decoder.decode(bytes, { stream: true }) : whole.decode(bytes))
    },
    end: () => some(decoder.decode()),
  }
}
