/** Letters of an ID that a repeated request has again. */
import { createHash } from 'node:crypto'

const [A, LETTERS] = ['a'.charCodeAt(0), 26]

/** Lower-case letters from the digest of a text, at most 32. */
export const lettersOf = (text: string, count: number): string =>
  [...createHash('sha256').update(text).digest().subarray(0, count)]
    .map((byte) => String.fromCharCode(A + (byte % LETTERS)))
    .join('')
