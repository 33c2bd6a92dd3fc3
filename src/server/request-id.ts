/** Request IDs. */
import { randomFillSync } from 'node:crypto'
import { timeLetters } from '../core/request-time.ts'
import { isKeyLike } from './mask-path.ts'

const VALID = /^[\w.:-]{1,128}$/

/** A key that was sent as an ID would be shown in headers, errors and the log. */
const isUsable = (presented: string): boolean => VALID.test(presented) && !isKeyLike(presented)

/** Random letters of an ID, after those of its time, by which the ledger finds its request. */
const RANDOM = 13

/** A new ID: `req_` and 20 letters. */
export const newRequestId = (): string => `req_${own()}`

/** The IDs of a request (`IncomingRequest`): the client's if it is valid in headers and logs, with one of our own. */
export const requestIds = (presented: string | undefined): { readonly id: string; readonly ownId?: string } =>
  presented !== undefined && isUsable(presented) ? { id: presented, ownId: newRequestId() } : { id: newRequestId() }

/** Random letters for many IDs at once: a system call costs more than the rest of an ID. */
const pool = Buffer.alloc(200 * RANDOM)
let used = pool.length
let second = 0
let time = ''

/** The modulo makes some letters slightly more likely; about 61 bits of entropy remain. */
const own = (): string => {
  if (used === pool.length) {
    randomFillSync(pool)
    for (let at = 0; at < pool.length; at++) pool[at] = A + ((pool[at] ?? 0) % 26)
    used = 0
  }
  const now = Date.now()
  if (now - second >= 1_000 || now < second) {
    second = now - (now % 1_000)
    time = timeLetters(now)
  }
  used += RANDOM
  return time + pool.toString('latin1', used - RANDOM, used)
}

const A = 97
