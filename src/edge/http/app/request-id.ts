/** Request IDs. */
import { randomFillSync } from 'node:crypto'

const VALID = /^[\w.:-]{1,128}$/

/** The client's ID if it is valid in headers and logs, otherwise `req_` and 20 random letters. */
export const requestId = (presented: string | undefined): string =>
  presented !== undefined && VALID.test(presented) ? presented : `req_${letters(20)}`

/** Random letters for many IDs at once: a system call costs more than the rest of an ID. */
const pool = Buffer.alloc(4_000)
let used = pool.length

/** The modulo makes some letters slightly more likely; about 94 bits of entropy remain. */
const letters = (count: number): string => {
  if (used + count > pool.length) {
    randomFillSync(pool)
    for (let at = 0; at < pool.length; at++) pool[at] = 97 + ((pool[at] ?? 0) % 26)
    used = 0
  }
  used += count
  return pool.toString('latin1', used - count, used)
}
