import type { Stage } from '../core/stage.ts'

/** Bytes to text. A character cut in two waits for its rest; what is not UTF-8 becomes U+FFFD and nothing is thrown. */
export const utf8 = (): Stage<Uint8Array, string> => {
  const decoder = new TextDecoder()
  const some = (text: string): readonly string[] => (text === '' ? [] : [text])
  return {
    push: (bytes) => some(decoder.decode(bytes, { stream: true })),
    end: () => some(decoder.decode()),
  }
}
