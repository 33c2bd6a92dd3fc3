/**
 * Keys of shared counters. All have one hash tag, so that a script may use any of them together. They contain IDs and
 * digests only, never the name of a user.
 */
import { createHash } from 'node:crypto'

const PREFIX = 'hg:{limits}:'
/** The processes that count, by the time of their last beat. */
export const PEERS_KEY = `${PREFIX}peers`

/** IDs that the gateway has generated. Others may be names that a client has sent. */
const OWN_ID = /^(?:[a-z]{3,4}_[a-z]{12})?$/

/** Whether an owner is stored as it is. */
export const isPlain = (id: string): boolean => OWN_ID.test(id)

const partOf = (id: string): string => (isPlain(id) ? id : digestOf(id))

/** A text that no other input has, of 22 characters. `~`: no ID begins with it. */
export const digestOf = (text: string): string =>
  `~${createHash('sha256').update(text).digest('base64url').slice(0, 21)}`

/** `id`: of a key or a team. */
export const slotKey = (id: string): string => `${PREFIX}slot:${partOf(id)}`

export const rateKey = (id: string, unit: 'requests' | 'tokens'): string => `${PREFIX}rate:${partOf(id)}:${unit}`

/** `start`: of the period, in ms since 1970. */
export const budgetKey = (budget: string, owner: string, start: number): string =>
  `${PREFIX}budget:${partOf(budget)}:${partOf(owner)}:${start}`

/** The owners with a counter of a budget in a period, if they are IDs. */
export const ownersKey = (budget: string, start: number): string => `${PREFIX}owners:${partOf(budget)}:${start}`
