/** Takes what a call was signed in with out of the answer: some servers quote it in their errors. */
import type { Stage } from '../../core/stage.ts'

const MASK = Buffer.from('[key]')

/** Bytes in, the same out without the secrets, wherever the slices are cut. Shorter secrets than 12 bytes are none. */
export const masking = (secrets: readonly string[]): Stage<Uint8Array, Uint8Array> => {
  const wanted = secrets.filter(({ length }) => length >= 12).map((secret) => Buffer.from(secret))
  const longest = Math.max(1, ...wanted.map(({ length }) => length))
  let held = Buffer.alloc(0)

  /** Everything up to where a secret that goes on could begin. */
  const read = (over: boolean): readonly Uint8Array[] => {
    const out: Uint8Array[] = []
    let at = 0
    for (;;) {
      const [found] = wanted
        .map((secret) => ({ secret, start: held.indexOf(secret, at) }))
        .filter(({ start }) => start !== -1)
        .sort((a, b) => a.start - b.start)
      if (!found) break
      out.push(held.subarray(at, found.start), MASK)
      at = found.start + found.secret.length
    }
    const end = over ? held.length : Math.max(at, held.length - longest + 1)
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
