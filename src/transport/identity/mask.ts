/** Removes the call's credentials from error responses: some servers quote them. */
import type { Stage } from '../../core/stage.ts'

const MASK = Buffer.from('[key]')

/** Replaces the secrets in a byte stream, wherever chunks are split. Secrets shorter than 12 bytes are not replaced. */
export const masking = (secrets: readonly string[]): Stage<Uint8Array, Uint8Array> => {
  const needles = secrets.filter(({ length }) => length >= 12).map((secret) => Buffer.from(secret))
  const longest = Math.max(1, ...needles.map(({ length }) => length))
  let held = Buffer.alloc(0)

  /** Returns all bytes before the first position where an incomplete secret could begin. */
  const read = (isEnd: boolean): readonly Uint8Array[] => {
    const out: Uint8Array[] = []
    let at = 0
    for (;;) {
      const [found] = needles
        .map((secret) => ({ secret, start: held.indexOf(secret, at) }))
        .filter(({ start }) => start !== -1)
        .sort((a, b) => a.start - b.start)
      if (!found) break
      out.push(held.subarray(at, found.start), MASK)
      at = found.start + found.secret.length
    }
    const end = isEnd ? held.length : Math.max(at, held.length - longest + 1)
    out.push(held.subarray(at, end))
    held = held.subarray(end)
    return out.filter(({ length }) => length > 0)
  }

  return {
    push(bytes) {
      held = Buffer.concat([held, bytes])
      return read(false)
    },
    end: () => read(true),
  }
}
