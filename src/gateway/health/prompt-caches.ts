/** The prompts that sessions have in the caches of targets, of this gateway and of those that share its store. */
import { BoundedMap } from '../../core/bounded-map.ts'
import type { Usage } from '../../core/chat.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { promptCacheOf } from '../../core/prompt-cache.ts'
import { modelId, type Target } from '../../core/target.ts'
import { type CachedSession, type Scope, SessionScopes } from '../../policy/switching/scopes.ts'
import {
  chanceOf,
  expectedInput,
  isHourAfter,
  keptTokens,
  LearnedTarget,
  lifeAfter,
  usedAt,
  warmTokens,
} from '../../policy/switching/warmth.ts'

/** An answer of a session. Times in ms of the monotonic clock. `size`: characters of the request. */
export type CachingAnswer = {
  readonly usage: Usage
  readonly size: number
  readonly sent: number
  /** Of the first content; null: none came. */
  readonly opened: number | null
  /** A failure has moved the session with this answer. */
  readonly isMoved: boolean
}

/** What a target has of a request. `expiresIn`: ms; null: not documented, or there is nothing. */
export type Warmth = {
  readonly tokens: number
  readonly chance: number
  readonly expiresIn: number | null
  /** ms for a token that is not cached; null: not known. */
  readonly prefill: number | null
  /** What is written there is kept for an hour. */
  readonly isHour: boolean
}

/** What other gateways should know of a session. Plain JSON data. */
export type KeptPrompt = { readonly tokens: number; readonly input: number; readonly size: number }

/** An owner's name in an answer header is not longer. */
const MAX_OWNER = 100
const HOUR = 3_600_000

export class PromptCaches {
  readonly #now: () => number
  readonly #scopes = new SessionScopes()
  /** By `modelId`. */
  readonly #learned = new BoundedMap<LearnedTarget>()
  /** The owners of keys that answers have named. */
  readonly #owners = new BoundedMap<string>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** The name of the cache of a target: the keys of one owner read what any of them wrote. */
  scopeOf(target: Target): string {
    return `${modelId(target.candidate)} ${this.ownerOf(target)}`
  }

  /** The owner of the key as far as it is known, otherwise the key itself. */
  ownerOf({ candidate, key }: Target): string {
    return key.cacheScope ?? this.#owners.get(`${candidate.instance.id} ${key.id}`) ?? key.id
  }

  /** Reads the owner of a key from the headers of an answer, where there are several keys and the vendor names it. */
  noteOwner({ candidate: { instance, model }, key }: Target, headers: HeaderLookup): void {
    if (instance.keys.length < 2 || key.cacheScope !== undefined) return
    const name = promptCacheOf(instance.provider, model)?.ownerHeader
    const owner = name === undefined ? undefined : headers(name)
    if (owner && owner.length <= MAX_OWNER) this.#owners.set(`${instance.id} ${key.id}`, `${name}=${owner}`)
  }

  /** The cache that a session used last; null: none. */
  lastOf(session: string): string | null {
    return this.#scopes.lastTarget(session)
  }

  /** What is known of a session; null: nothing. */
  of(session: string): CachedSession | null {
    return this.#scopes.of(session)
  }

  /** Records an answer. */
  answered(session: string, target: Target, { usage, size, sent, opened, isMoved }: CachingAnswer): void {
    const { candidate } = target
    const rules = promptCacheOf(candidate.instance.provider, candidate.model)
    const scope = this.scopeOf(target)
    const known = this.#scopes.of(session)
    const before = known?.scopes.find((one) => one.target === scope)
    const learned = this.#learnedOf(modelId(candidate))
    const { input, cacheRead = 0 } = usage
    const expected = before ? warmTokens(before.tokens, input, known?.input ?? 0) : 0
    if (before && expected > 0) learned.saw(sent - before.at, expected, cacheRead)
    if (opened !== null) learned.took(opened - sent, input - cacheRead)
    if (cacheRead > 0) learned.hasRead = true
    const isHour = isHourAfter(usage, before?.isHour === true)
    this.#scopes.note(
      session,
      {
        target: scope,
        tokens: keptTokens(usage, rules, learned.hasRead),
        at: usedAt(rules, sent, this.#now()),
        life: lifeAfter(rules, isHour),
        isHour,
        movedFrom: movedFrom(known, scope, isMoved),
        input,
        size,
      },
      this.#now(),
    )
  }

  /** Another gateway has had an answer of the session, `age` ms ago. */
  learn(session: string, target: Target, { kept, life, age }: LearnedPrompt): void {
    const { instance, model } = target.candidate
    const rules = promptCacheOf(instance.provider, model)
    const at = this.#now() - age
    const isHour = life === HOUR && rules?.life?.most !== HOUR
    const scope = { target: this.scopeOf(target), at, life: rules?.life || isHour ? life : 0, isHour }
    this.#scopes.note(session, { ...kept, ...scope, movedFrom: null }, this.#now())
  }

  /** What a target has of a request with this input. */
  warmth(known: CachedSession, scope: string, target: Pick<Target, 'candidate'>, input: number): Warmth {
    const { candidate } = target
    const learned = this.#learned.get(modelId(candidate))
    const found = known.scopes.find((one) => one.target === scope)
    const { prefill = null } = learned ?? {}
    const isHour = found?.isHour ?? known.scopes.some((one) => one.isHour)
    if (!found) return { tokens: 0, chance: 0, expiresIn: null, prefill, isHour }
    const now = this.#now()
    const rules = promptCacheOf(candidate.instance.provider, candidate.model)
    const chance = chanceOf(found, rules, { now, learned: learned?.chance(now - found.at) ?? null })
    const tokens = chance === 0 ? 0 : warmTokens(found.tokens, input, known.input)
    return { tokens, chance, expiresIn: expiry(found, now, tokens), prefill, isHour }
  }

  /** The input tokens that a request of a session is expected to have. */
  inputOf(known: CachedSession, size: number): number {
    return expectedInput(known, size) ?? known.input
  }

  #learnedOf(name: string): LearnedTarget {
    const known = this.#learned.get(name)
    if (known) return known
    const made = new LearnedTarget()
    this.#learned.set(name, made)
    return made
  }
}

type LearnedPrompt = { readonly kept: KeptPrompt; readonly life: number; readonly age: number }

const expiry = ({ at, life }: Scope, now: number, tokens: number): number | null =>
  life === 0 || tokens === 0 ? null : Math.max(0, at + life - now)

/** The target from which a session is away, after an answer at `scope`. */
const movedFrom = (known: CachedSession | null, scope: string, isMoved: boolean): string | null => {
  const last = known?.scopes[0]?.target ?? null
  if (known?.movedFrom === scope) return null
  if (isMoved) return known?.movedFrom ?? last
  return last === scope ? (known?.movedFrom ?? null) : null
}
