/** Request IDs. */
import { randomFillSync } from 'node:crypto'
import { isKeyLike } from './mask-path.ts'

const VALID = /^[\w.:-]{1,128}$/

/** A key that was sent as an ID would be shown in headers, errors and the log. */
const isUsable = (presented: string): boolean => VALID.test(presented) && !isKeyLike(presented)

/** Letters of an ID: its time, so that neighbours in time are neighbours in the indexes of `usage.db`, then random ones. */
const LETTERS = { time: 7, random: 13 }

/** A new ID: `req_` and 20 letters. */
export const newRequestId = (): string => `req_${own()}`

/** The IDs of a request (`IncomingRequest`): the client's if it is valid in headers and logs, with one of our own. */
export const requestIds = (presented: string | undefined): { readonly id: string; readonly ownId?: string } =>
  presented !== undefined && isUsable(presented) ? { id: presented, ownId: newRequestId() } : { id: newRequestId() }

/** Random letters for many IDs at once: a system call costs more than the rest of an ID. */
const pool = Buffer.alloc(200 * LETTERS.random)
let used = pool.length
let time = ''

/** The modulo makes some letters slightly more likely; about 61 bits of entropy remain. */
const own = (): string => {
  if (used === pool.length) {
    randomFillSync(pool)
    for (let at = 0; at < pool.length; at++) pool[at] = A + ((pool[at] ?? 0) % 26)
    used = 0
    time = timeLetters(Date.now())
  }
  used += LETTERS.random
  return time + pool.toString('latin1', used - LETTERS.random, used)
}

const A = 97

/** Seconds since 1970 as letters whose order is that of time. */
const timeLetters = (ms: number): string => {
  let letters = ''
  let rest = Math.floor(ms / 1_000)
  for (let at = 0; at < LETTERS.time; at++) {
    letters = String.fromCharCode(A + (rest % 26)) + letters
    rest = Math.floor(rest / 26)
  }
  return letters
}
