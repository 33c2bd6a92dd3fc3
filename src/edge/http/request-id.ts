import { randomBytes } from 'node:crypto'

const SANE = /^[\w.:-]{1,128}$/

/** The client's own id for its request, if it can be put anywhere; otherwise one of ours, of letters that say nothing. */
export const requestId = (theirs: string | undefined): string =>
  theirs !== undefined && SANE.test(theirs) ? theirs : `req_${letters(20)}`

/** Bytes beyond the last multiple of 26 would make some letters likelier; 94 bits are left all the same. */
const letters = (count: number): string =>
  Array.from(randomBytes(count), (byte) => String.fromCharCode(97 + (byte % 26))).join('')
