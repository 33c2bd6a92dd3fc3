/** What of a prompt a target has in its cache, and how probably. */
import type { Usage } from '../../core/chat.ts'
import type { PromptCache } from '../../core/prompt-cache.ts'
import { type CachedSession, COMPACTED, type Scope } from './scopes.ts'

/** Input tokens below which a switch is not considered. */
export const LEAST_INPUT = 4_096

const HOUR = 3_600_000
/** The part of a documented life in which a prompt is kept for sure, where the vendor states no other. */
const SURE = 0.8
/** The chance where nothing is known. */
const UNKNOWN = 0.5

type CachingUsage = Pick<Usage, 'input' | 'cacheRead' | 'cacheWrite'>

/**
 * Tokens that the target has in its cache after an answer. An automatic vendor that reports no writes has the whole input, once it
 * has reported a read of anything (`hasRead`).
 */
export const keptTokens = (
  { input, cacheRead = 0, cacheWrite = 0 }: CachingUsage,
  rules: PromptCache | undefined,
  hasRead: boolean,
): number => {
  const reported = cacheRead + cacheWrite
  const isWhole = rules?.automatic === true && cacheWrite === 0 && (hasRead || cacheRead > 0)
  const kept = isWhole ? Math.max(input, reported) : reported
  return kept < (rules?.least ?? LEAST_INPUT) ? 0 : kept
}

/** Whether the prompt is written for an hour, as a request asked now or before: what was written so stays so when it is read. */
export const isHourAfter = ({ cacheWrite1h = 0 }: Pick<Usage, 'cacheWrite1h'>, before: boolean): boolean =>
  before || cacheWrite1h > 0

/** For how many ms a prompt is kept after its use. 0: not documented. */
export const lifeAfter = (rules: PromptCache | undefined, isHour: boolean): number =>
  isHour ? HOUR : (rules?.life?.most ?? 0)

/** When the use began to count. */
export const usedAt = (rules: PromptCache | undefined, request: number, answer: number): number =>
  rules?.from === 'answer' ? answer : request

/** The chance that a prompt is still kept. `learned`: that of its target for this idle time, where no life is documented. */
export const chanceOf = (
  { at, life }: Pick<Scope, 'at' | 'life'>,
  rules: Pick<PromptCache, 'life'> | undefined,
  { now, learned }: { readonly now: number; readonly learned: number | null },
): number => {
  if (life === 0) return learned ?? UNKNOWN
  const idle = now - at
  if (idle > life) return 0
  const sure = rules?.life?.most === life ? rules.life.sure : SURE * life
  return idle <= sure ? 1 : UNKNOWN
}

/** Of the tokens at a scope, those that this input has again. */
export const warmTokens = (tokens: number, input: number, last: number): number =>
  input < COMPACTED * last ? 0 : Math.min(tokens, input)

/** The input tokens of a request, from its characters and those of the last one. Null: the session is not known. */
export const expectedInput = (
  { input, size }: Pick<CachedSession, 'input' | 'size'>,
  characters: number,
): number | null => (size === 0 ? null : Math.round((input / size) * characters))

/** Upper ends of the idle times for which chances are learned, in ms. */
const BINS = [60_000, 300_000, 600_000, 1_800_000, Number.POSITIVE_INFINITY]
/** Turns from which a learned chance counts. */
const ENOUGH = 20

/** What the answers of a target show: how often its cache was warm, and how long it takes for a token that is not. */
export class LearnedTarget {
  readonly #turns = BINS.map(() => ({ all: 0, warm: 0 }))
  /** It has reported a read. */
  hasRead = false
  /** ms to the first content for each token that was not cached; null: not known. */
  prefill: number | null = null

  chance(idle: number): number | null {
    const bin = this.#binOf(idle)
    return bin && bin.all >= ENOUGH ? bin.warm / bin.all : null
  }

  /** A turn for which `expected` tokens were in the cache, `idle` ms after the last one. */
  saw(idle: number, expected: number, read: number): void {
    const bin = this.#binOf(idle)
    if (!bin) return
    // Older turns count less, so that a vendor may change.
    if (bin.all >= 1_000) {
      bin.all /= 2
      bin.warm /= 2
    }
    bin.all++
    if (read >= expected / 2) bin.warm++
  }

  /** Time to the first content of an answer with this many tokens that were not cached. */
  took(ms: number, tokens: number): void {
    if (tokens < LEAST_INPUT) return
    const one = ms / tokens
    this.prefill = this.prefill === null ? one : this.prefill + (one - this.prefill) / 20
  }

  #binOf(idle: number) {
    return this.#turns[BINS.findIndex((end) => idle <= end)]
  }
}
