/**
 * The prompt caches that sessions have at targets, from the usage that answers report. A session has up to four; the least recently
 * used is replaced. No text, and no digest of a text, is kept.
 */
import { hash } from '../routing/order.ts'

/**
 * A prompt of a session at a target. `tokens`: 0: it has nothing, and is the last target all the same. `at`: when it was used last;
 * `life`: for how long it is kept after that, 0: not documented. In ms. `isHour`: it was written for an hour, as the request asked.
 */
export type Scope = {
  readonly target: string
  readonly tokens: number
  readonly at: number
  readonly life: number
  readonly isHour: boolean
}

/** What is known of a session. `scopes`: the last used one first. */
export type CachedSession = {
  readonly scopes: readonly Scope[]
  /** The target from which a failure has moved the session; null: it is where its plan wants it. */
  readonly movedFrom: string | null
  /** ms since it was moved; 0: it was not. */
  readonly movedAt: number
  /** Input tokens of its last answer, and the characters of that request. */
  readonly input: number
  readonly size: number
}

/** An answer of a session. `movedFrom`: as of `CachedSession`, from now on. */
export type SessionAnswer = Scope & Pick<CachedSession, 'movedFrom' | 'input' | 'size'>

/** Input below this share of the last one was compacted: what other targets have is not its beginning any more. */
export const COMPACTED = 0.7

const WAYS = 8
const PAGE = 256
/** 131,072 places of 96 bytes: 12.6 MB when all are taken, and 24 KB for each page of which one is. */
const PAGES = 512
const WORDS = 24
/** Words of a place: the two halves of the name, last use, moved from, moved at, input, size, last target; then four scopes of four, whose last word has the life and, in its lowest bit, whether it was written for an hour. */
const AT = { name: 0, used: 2, from: 3, movedAt: 4, input: 5, size: 6, last: 7, first: 8 } as const
const SCOPES = 4
/** Targets that have a number. */
const MOST_TARGETS = 10_000
/** Times are kept in tenths of a second. */
const TICK = 100

export class SessionScopes {
  readonly #pages: (Uint32Array | undefined)[] = Array.from({ length: PAGES })
  #numbers = new Map<string, number>()
  #targets: string[] = ['']
  #isEmpty = true
  /** The last name and its two halves: a request needs them several times. */
  #hashed: { readonly session: string; readonly one: number; readonly other: number } = hashedName('')

  /** No session has been noted. */
  get isEmpty(): boolean {
    return this.#isEmpty
  }

  /** The target that a session used last; null: none. Reads nothing else, since every request of a session needs it. */
  lastTarget(session: string): string | null {
    const place = this.#isEmpty ? null : this.#find(session)
    if (!place) return null
    const { page, base } = place
    return this.#targets[page[base + AT.last] ?? 0] || null
  }

  of(session: string): CachedSession | null {
    const place = this.#isEmpty ? null : this.#find(session)
    if (!place) return null
    const { page, base } = place
    const word = (index: number): number => page[base + index] ?? 0
    const last = this.#targets[word(AT.last)]
    const scopes: Scope[] = []
    for (let index = 0; index < SCOPES; index++) {
      const at = AT.first + index * SCOPES
      const target = this.#targets[word(at)] ?? ''
      if (target === '' || (word(at + 1) === 0 && target !== last)) continue
      const life = word(at + 3)
      scopes.push({
        target,
        tokens: word(at + 1),
        at: word(at + 2) * TICK,
        life: Math.floor(life / 2) * TICK,
        isHour: life % 2 === 1,
      })
    }
    scopes.sort((a, b) => Number(b.target === last) - Number(a.target === last) || b.at - a.at)
    const movedFrom = this.#targets[word(AT.from)] || null
    return { scopes, movedFrom, movedAt: word(AT.movedAt) * TICK, input: word(AT.input), size: word(AT.size) }
  }

  /** Records an answer. `now`: ms of the monotonic clock. */
  note(session: string, answer: SessionAnswer, now: number): void {
    this.#makeRoom()
    const target = this.#numberOf(answer.target)
    const { page, base } = this.#place(session, now)
    const compacted = answer.input < COMPACTED * (page[base + AT.input] ?? 0)
    const wasMoved = (page[base + AT.from] ?? 0) > 0
    page[base + AT.from] = answer.movedFrom === null ? 0 : this.#numberOf(answer.movedFrom)
    if (answer.movedFrom === null) page[base + AT.movedAt] = 0
    else if (!wasMoved) page[base + AT.movedAt] = ticks(now)
    page[base + AT.input] = answer.input
    page[base + AT.size] = answer.size
    let chosen = -1
    let oldest = Number.POSITIVE_INFINITY
    for (let index = 0; index < SCOPES; index++) {
      const at = base + AT.first + index * SCOPES
      if (page[at] === target) {
        chosen = at
        continue
      }
      if (compacted) page[at + 1] = 0
      const used = page[at] === 0 ? -1 : (page[at + 2] ?? 0)
      if (used < oldest && (chosen === -1 || page[chosen] !== target)) {
        oldest = used
        chosen = at
      }
    }
    page[base + AT.last] = target
    page[chosen] = target
    page[chosen + 1] = answer.tokens
    page[chosen + 2] = ticks(answer.at)
    page[chosen + 3] = ticks(answer.life) * 2 + Number(answer.isHour)
  }

  #halves(session: string) {
    if (this.#hashed.session !== session) this.#hashed = hashedName(session)
    return this.#hashed
  }

  #find(session: string): { readonly page: Uint32Array; readonly base: number } | null {
    const { one, other } = this.#halves(session)
    const page = this.#pages[one % PAGES]
    if (!page) return null
    const base = baseIn(page, one, other)
    return base < 0 ? null : { page, base }
  }

  /** The place of a session. A new one takes that of the least recently used of its eight. */
  #place(session: string, now: number): { readonly page: Uint32Array; readonly base: number } {
    this.#isEmpty = false
    const { one, other } = this.#halves(session)
    const page = this.#pages[one % PAGES] ?? new Uint32Array(PAGE * WORDS)
    this.#pages[one % PAGES] = page
    let base = baseIn(page, one, other)
    if (base < 0) {
      base = oldestIn(page, other)
      page.fill(0, base, base + WORDS)
      page[base] = one
      page[base + 1] = other
    }
    page[base + AT.used] = ticks(now)
    return { page, base }
  }

  /** Room for the two targets of an answer. Operators name targets, so it is full only after many reloads, and then all begin again. */
  #makeRoom(): void {
    if (this.#targets.length + 2 <= MOST_TARGETS) return
    this.#numbers = new Map()
    this.#targets = ['']
    this.#pages.fill(undefined)
  }

  /** A small number for a target. */
  #numberOf(target: string): number {
    const known = this.#numbers.get(target)
    if (known !== undefined) return known
    const number = this.#targets.push(target) - 1
    this.#numbers.set(target, number)
    return number
  }
}

const ticks = (ms: number): number => Math.max(0, Math.round(ms / TICK))

const hashedName = (session: string) => ({ session, one: hash(session, 0x811c9dc5), other: hash(session, 0x9dc5811c) })

const firstOf = (other: number): number => (other % (PAGE / WAYS)) * WAYS * WORDS

const baseIn = (page: Uint32Array, one: number, other: number): number => {
  const first = firstOf(other)
  for (let base = first; base < first + WAYS * WORDS; base += WORDS)
    if (page[base] === one && page[base + 1] === other) return base
  return -1
}

const oldestIn = (page: Uint32Array, other: number): number => {
  const first = firstOf(other)
  let found = first
  for (let base = first; base < first + WAYS * WORDS; base += WORDS) {
    if (page[base] === 0 && page[base + 1] === 0) return base
    if ((page[base + AT.used] ?? 0) < (page[found + AT.used] ?? 0)) found = base
  }
  return found
}
