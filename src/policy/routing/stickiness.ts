/**
 * Stickiness: later requests of a session go to the target that has the beginning of its prompt in its cache, as long as the vendor
 * keeps it.
 */
import type { Usage } from '../../core/chat.ts'
import type { PromptCache } from '../../core/prompt-cache.ts'
import type { Stickiness } from '../../core/route.ts'
import type { Strategy } from '../../core/settings.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { hash } from './order.ts'

/** A target by its IDs. Plain JSON data. */
export type StickyTarget = { readonly instance: string; readonly key: string; readonly model: string }

/** The stickiness of routes that state none. A strategy other than the written order may choose any provider. */
export const usualStickiness = (strategy: Strategy): Stickiness => (strategy === 'priority' ? 'key' : 'provider')

/** Vendors cache prompts of at least this many tokens (platform.claude.com and developers.openai.com, prompt caching, 2026-11-28). */
const LEAST_TOKENS = 1_024
/** Characters below which a request has fewer tokens, in every language. */
export const LEAST_LENGTH = LEAST_TOKENS

const HOUR = 3_600_000
/** ms without use after which most vendors drop a cached prompt (developers.openai.com, prompt caching: "5-10 minutes", 2026-11-28). */
const USUAL_LIFETIME = 600_000

/** For how many ms a target with these rules has the prompt in its cache, after an answer with this usage; 0: it has not. */
export const cachedFor = (
  { cacheRead = 0, cacheWrite = 0, cacheWrite1h = 0 }: Pick<Usage, 'cacheRead' | 'cacheWrite' | 'cacheWrite1h'>,
  rules: Pick<PromptCache, 'life'> | undefined,
): number => {
  if (cacheRead + cacheWrite < LEAST_TOKENS) return 0
  return cacheWrite1h > 0 ? HOUR : (rules?.life?.most ?? USUAL_LIFETIME)
}

/** Whether stickiness can change anything: there is another provider, or another key. */
export const hasChoice = ({ stickiness, candidates }: Pick<Plan, 'stickiness' | 'candidates'>): boolean => {
  if (stickiness === undefined || stickiness === 'off') return false
  return (
    (stickiness === 'provider' && candidates.length > 1) || candidates.some(({ instance }) => instance.keys.length > 1)
  )
}

/** The name under which the target of a conversation is remembered: short, and without any of its text. */
export const conversationName = (client: string, conversation: string, model: string): string => {
  const source = `${client} ${model} ${conversation}`
  return `${hash(source, 0x811c9dc5).toString(36)}${hash(source, 0x9dc5811c).toString(36)}`
}

/** The plan with what is remembered first, as far as the plan has it. The order of the others stays. */
export const stickyPlan = (plan: Plan, remembered: StickyTarget): Plan => {
  const isIt = ({ instance, model }: Candidate) => instance.id === remembered.instance && model === remembered.model
  const at = plan.candidates.findIndex(isIt)
  const candidate = plan.candidates[at]
  if (!candidate) return plan
  const sticky = { candidate, key: remembered.key }
  if (plan.stickiness !== 'provider' || at === 0) return { ...plan, sticky }
  return { ...plan, sticky, candidates: [candidate, ...plan.candidates.filter((one) => one !== candidate)] }
}

/** Numbers from 0 up to 1 that are the same for all requests of a session, at every gateway (mulberry32). */
export const sessionRandom = (session: string): (() => number) => {
  let state = hash(session, 0x811c9dc5)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
