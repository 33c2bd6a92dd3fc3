import { randomFillSync } from 'node:crypto'

const SANE = /^[\w.:-]{1,128}$/

/** The client's own id for its request, if it can be put anywhere; otherwise one of ours, of letters that say nothing. */
export const requestId = (theirs: string | undefined): string =>
  theirs !== undefined && SANE.test(theirs) ? theirs : `req_${letters(20)}`

/** Drawn for many ids at once: asking the system costs more than all the rest of an id. */
const drawn = Buffer.alloc(4_000)
let used = drawn.length

/** Bytes beyond the last multiple of 26 would make some letters likelier; 94 bits are left all the same. */
const letters = (count: number): string => {
  if (used + count > drawn.length) {
    randomFillSync(drawn)
    for (let at = 0; at < drawn.length; at++) drawn[at] = 97 + ((drawn[at] ?? 0) % 26)
    used = 0
  }
  used += count
  return drawn.toString('latin1', used - count, used)
}
