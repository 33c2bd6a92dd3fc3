/**
 * Addresses of names, kept for a time. Node asks the operating system for each connection, in a pool of four threads which
 * files share: a name server that does not answer would stop both (nodejs/node#8436).
 */
import { type LookupAddress, lookup as systemLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { Egress } from '../../core/egress.ts'

/** Maximum number of names; the oldest are forgotten. */
const MAX_NAMES = 1_000
/** Share of its time after which an answer in use is refreshed. */
const REFRESHED = 0.8
/** ms to wait for the name server before an old answer is used. */
const PATIENCE = 250

const FAMILIES = { auto: 0, ipv4: 4, ipv6: 6 } as const

type OnAddresses = (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void

/** What answers: the operating system. */
export type SystemLookup = (
  name: string,
  options: { readonly all: true; readonly family: 0 | 4 | 6 },
  done: OnAddresses,
) => void

/** `found` is empty until the first answer. Times are monotonic ms. */
type KeptName = {
  found: readonly LookupAddress[]
  answered: number
  /** Set back to use the answer only while the name server fails. */
  freshUntil: number
  /** When the question that is open was asked; null: none is. */
  asked: number | null
  readonly waiting: Set<OnAddresses>
  uses: number
}

/** The addresses of a destination. */
export type PeerNames = {
  readonly lookup: LookupFunction
  /** No connection could be made: the next one asks again. */
  forget(name: string): void
}

type NameRules = Pick<Egress, 'dns' | 'addresses'>

export class NameCache {
  readonly #entries = new Map<string, KeptName>()
  readonly #system: SystemLookup
  readonly #now: () => number

  constructor(system: SystemLookup = systemLookup, now: () => number = () => performance.now()) {
    this.#system = system
    this.#now = now
  }

  under(rules: NameRules): PeerNames {
    const keyOf = (name: string) => `${rules.addresses} ${name}`
    return {
      lookup: (name, { all }, callback) => {
        const answer: OnAddresses = (error, found) => {
          const [first = { address: '', family: 0 }] = found
          if (all) callback(error, found)
          else callback(error, first.address, first.family)
        }
        this.#find(keyOf(name), { name, rules }, answer)
      },
      forget: (name) => {
        const entry = this.#entries.get(keyOf(name))
        if (entry) entry.freshUntil = 0
      },
    }
  }

  #find(key: string, { name, rules }: { readonly name: string; readonly rules: NameRules }, answer: OnAddresses): void {
    const { keep, stale } = rules.dns
    const entry = this.#entryOf(key)
    const now = this.#now()
    const isFresh = now < entry.freshUntil
    if (entry.asked === null && (!isFresh || now >= entry.answered + keep * REFRESHED))
      this.#ask(entry, { name, rules })
    // A socket expects the answer in a later turn.
    if (isFresh) return process.nextTick(answer, null, inTurn(entry))
    const isUsable = entry.found.length > 0 && now < entry.answered + keep + stale
    if (!isUsable) return void entry.waiting.add(answer)
    const left = (entry.asked ?? now) + PATIENCE - now
    if (left <= 0) return process.nextTick(answer, null, inTurn(entry))
    const settle: OnAddresses = (error, found) => {
      clearTimeout(timer)
      entry.waiting.delete(settle)
      // A name that no longer exists is an answer.
      if (error && error.code !== 'ENOTFOUND') answer(null, inTurn(entry))
      else answer(error, found)
    }
    const timer = setTimeout(() => settle(LATE, []), left).unref()
    entry.waiting.add(settle)
  }

  #ask(entry: KeptName, { name, rules }: { readonly name: string; readonly rules: NameRules }): void {
    entry.asked = this.#now()
    this.#system(name, { all: true, family: FAMILIES[rules.addresses] }, (error, found) => {
      entry.asked = null
      if (!error) {
        entry.found = found
        entry.answered = this.#now()
        entry.freshUntil = entry.answered + rules.dns.keep
      } else if (error.code === 'ENOTFOUND') {
        entry.found = []
        entry.freshUntil = 0
      }
      const waiting = [...entry.waiting]
      entry.waiting.clear()
      for (const answer of waiting) answer(error, error ? [] : inTurn(entry))
    })
  }

  #entryOf(key: string): KeptName {
    const known = this.#entries.get(key)
    if (known) return known
    const entry: KeptName = { found: [], answered: 0, freshUntil: 0, asked: null, waiting: new Set(), uses: 0 }
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size < MAX_NAMES) break
      this.#entries.delete(oldest)
    }
    this.#entries.set(key, entry)
    return entry
  }
}

const LATE: NodeJS.ErrnoException = Object.assign(new Error('The name server did not answer in time.'), {
  code: 'EAI_AGAIN',
})

/**
 * The addresses, of each family another one first: with one answer for many connections, all would go to the first of several
 * servers.
 */
const inTurn = (entry: KeptName): LookupAddress[] => {
  const { found } = entry
  if (found.length < 2) return [...found]
  const use = entry.uses++
  return [...Map.groupBy(found, ({ family }) => family).values()].flatMap((same) => {
    const at = use % same.length
    return [...same.slice(at), ...same.slice(0, at)]
  })
}
