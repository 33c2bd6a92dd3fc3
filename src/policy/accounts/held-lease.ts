/** The lease of one counter in the process that uses it. Changed in place, as counters are. */
import { type LeaseAnswer, type LeaseAsk, type LeaseKind, shareOf } from './lease.ts'

/** What a process may use of a counter. `granted`, `used` and `held` are in all since it began to lease it. */
export type HeldLease = {
  readonly counter: string
  readonly kind: LeaseKind
  granted: number
  used: number
  held: number
  /** As in `LeaseAsk`. */
  id: string
  seq: number
  before: number
  left: string
  /** What the store has of this process, as of its last answer. */
  stated: { readonly used: number; readonly held: number }
  /** As of the last answer: what is not granted (with what was returned since), what others were granted and do not use, and how many lease it. */
  room: number
  others: number
  users: number
  /** Another process lacks what this one does not use. */
  isShort: boolean
  /** What others have used and reserved, as of the last answer. */
  othersUsed: number
  othersHeld: number
  /** What the process has used without a grant, because the store does not answer, and no room has covered since. */
  overdrawn: number
  /** The same when it asked its last question. */
  overdrawnAsked: number
  /** What was spent earlier is known. */
  isKnown: boolean
}

export const newLease = (counter: string, kind: LeaseKind): HeldLease => ({
  counter,
  kind,
  granted: 0,
  used: 0,
  held: 0,
  id: '',
  seq: 0,
  before: 0,
  left: '',
  stated: { used: 0, held: 0 },
  room: 0,
  others: 0,
  users: 1,
  isShort: false,
  othersUsed: 0,
  othersHeld: 0,
  overdrawn: 0,
  overdrawnAsked: 0,
  isKnown: kind !== 'budget',
})

/** What may be used now. Negative: charges exceeded their reservations. */
export const freeOf = ({ granted, used, held }: Pick<HeldLease, 'granted' | 'used' | 'held'>): number =>
  granted - used - held

/** Whether the store is known to have all that was used: then a process may leave, and it makes no difference if the answer is lost. */
export const isStated = ({ used, held, stated }: HeldLease): boolean =>
  used === stated.used && held === 0 && stated.held === 0

/** Limits of now, and what requests need. */
export type LeaseTerms = Pick<LeaseAsk, 'limit' | 'refill' | 'need' | 'want' | 'lapse' | 'life' | 'leaves'>

/** The most that is kept free: the same for questions and for what is returned. */
export const targetOf = (
  { room, users, isShort, ...held }: HeldLease,
  { want, leaves }: Pick<LeaseTerms, 'want' | 'leaves'>,
) => (leaves || isShort ? 0 : Math.min(want, shareOf(room + Math.max(0, freeOf(held)), users)))

/** The next question. What is free above the target is returned with it, and is no longer used from now on. */
export const askOf = (held: HeldLease, terms: LeaseTerms): LeaseAsk => {
  const free = freeOf(held)
  const isReturned = terms.need <= 0 && (held.id !== '' || terms.leaves)
  // What was used above the grant is granted: the store has to count it.
  if (free < 0) held.granted -= free
  else if (isReturned) {
    const returned = Math.max(0, free - targetOf(held, terms))
    held.granted -= returned
    held.room += returned
  }
  const { counter, kind, granted, used, held: reserved, id, before, left } = held
  held.seq++
  held.overdrawnAsked = held.overdrawn
  return { counter, kind, ...terms, seq: held.seq, id, granted, used, held: reserved, before, left, seed: null }
}

/** The answer to a question. Returns whether it was the last one. */
export const answered = (held: HeldLease, ask: LeaseAsk, answer: LeaseAnswer): boolean => {
  if (ask.seq !== held.seq) return false
  switch (answer.status) {
    case 'ok': {
      const { granted, sum, used, held: reserved, users, shift } = answer
      held.id = answer.id
      held.isKnown = true
      held.granted += granted - shift
      held.used -= shift
      held.before += shift
      held.stated = { used: ask.used - shift, held: ask.held }
      held.room = Math.max(0, ask.limit - sum)
      held.users = users
      held.isShort = answer.isShort
      held.othersUsed = used - held.stated.used
      held.othersHeld = reserved - ask.held
      held.others = Math.max(0, sum - used - reserved - (ask.granted - ask.used - ask.held) - granted)
      // The rest is still beyond the limit: the next outage begins with it.
      held.overdrawn -= Math.max(0, held.overdrawnAsked - Math.max(0, sum - ask.limit))
      if (ask.leaves) forget(held, null)
      return true
    }
    case 'lapsed':
      forget(held, answer.counted)
      return true
    case 'unseeded':
    case 'restarted':
      held.id = ''
      return true
    case 'lost':
      if (answer.spent !== null && !held.isKnown) {
        held.othersUsed = answer.spent
        held.isKnown = true
      }
      return true
    case 'stale':
      return true
    default:
      throw new Error(`unknown answer ${JSON.stringify(answer satisfies never)}`)
  }
}

/** The store counts the process as gone. What it has not counted (`counted`; null: what was stated last) is stated again. */
const forget = (held: HeldLease, counted: number | null): void => {
  const { used, held: reserved } = held.stated
  const charged = counted === null ? used + (held.kind === 'budget' ? reserved : 0) : counted - held.before
  held.othersUsed += charged
  held.used -= charged
  held.granted = held.used + held.held
  held.before += charged
  held.left = held.id
  held.id = ''
  held.stated = { used: 0, held: 0 }
}

/** Uses more than was granted. The store counts it with the next question. */
export const overdraw = (held: HeldLease, amount: number): void => {
  held.granted += amount
  held.overdrawn += amount
}
