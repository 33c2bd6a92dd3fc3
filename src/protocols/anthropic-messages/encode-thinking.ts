/** Whether and how the model shall think, decided from everything that bears on it. */

import type { Effort, Extra, GenerationSettings } from '../../core/chat.ts'
import { answersUnthought, MESSAGES_BLOCKS } from '../../core/claude-thinking.ts'
import { isObject, type JsonObject, number } from '../../core/json.ts'
import { BUDGETS, EFFORTS, MIN_BUDGET } from '../shared/claude-thinking.ts'
import type { Losses } from '../shared/losses.ts'
import type { AlternatingTurn } from '../shared/turns.ts'

export type Thinking = {
  /** The member `thinking`, if there shall be one. */
  readonly member?: JsonObject
  /** The client's member it came from. */
  readonly at?: string
  /** `output_config.effort`. */
  readonly effort?: string
  /** The model will think: then it samples freely and cannot be made to call a tool. */
  readonly on: boolean
}

export type ThinkingFacts = {
  readonly settings: GenerationSettings
  /** The client's own `thinking`, of this format's shape, in a format that has no such member. */
  readonly extra: Extra | undefined
  readonly maxTokens: number
  /** The model takes a budget, and neither an effort nor adaptive thinking. */
  readonly byBudget: boolean
  readonly forced: boolean
  readonly turns: readonly AlternatingTurn[]
}

const EXACT: ReadonlySet<Effort> = new Set(['low', 'medium', 'high'])

/**
 * A forced call outweighs thinking, since the two exclude each other and the call is what the client's program waits
 * for. Thinking outweighs sampling, which models that think ignore elsewhere.
 */
export const decideThinking = (facts: ThinkingFacts, losses: Losses): Thinking => {
  const { effort, thinkingBudget, reasoningSummary } = facts.settings
  const wish = facts.byBudget ? asBudget(wished(facts), effort) : wished(facts)
  const level = effort && effort.value !== 'none' && !facts.byBudget ? { effort: EFFORTS[effort.value] } : {}
  if (effort && (facts.byBudget ? isGivenUp(effort, wish) : effort.value === 'minimal')) losses.lose(effort.at)
  if (!wish) {
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return { ...level, on: false }
  }
  const { at } = wish
  if (wish.kind === 'off') return { member: { type: 'disabled' }, at, ...level, on: false }
  const refuse = (): Thinking => {
    // An effort still steers how much the model writes; a budget has nothing left to say.
    if (wish.kind === 'budget' || !effort) losses.lose(at)
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return { ...level, on: false }
  }
  if (facts.forced) return refuse()
  const display = wish.display ?? (reasoningSummary && 'summarized')
  // There is one kind of summary here; which one was wanted cannot be said.
  if (reasoningSummary && reasoningSummary.value !== 'auto') losses.lose(reasoningSummary.at)
  const shown = display === undefined ? {} : { display }
  if (wish.kind === 'adaptive') return { member: { type: 'adaptive', ...shown }, at, ...level, on: true }
  // The older way to think demands that the calls just answered were thought about, with proof.
  if (answersUnthought(facts.turns, MESSAGES_BLOCKS)) return refuse()
  const room = Math.max(MIN_BUDGET, Math.floor(facts.maxTokens / 2))
  const tokens = Math.max(MIN_BUDGET, wish.tokens < facts.maxTokens ? wish.tokens : room)
  if (tokens >= facts.maxTokens) return refuse()
  if (tokens !== wish.tokens) losses.lose(thinkingBudget?.at ?? at)
  return { member: { type: 'enabled', budget_tokens: tokens, ...shown }, at, ...level, on: true }
}

/** A wish to think as a budget of as many tokens as the effort stands for. */
const asBudget = (wish: Wish | undefined, effort: GenerationSettings['effort']): Wish | undefined => {
  if (wish?.kind !== 'adaptive') return wish
  const level = effort && effort.value !== 'none' ? effort.value : 'medium'
  return { ...wish, kind: 'budget', tokens: BUDGETS[level] }
}

/** Whether an effort is not what the budget stands for: another member has set that, or there is no budget for it. */
const isGivenUp = ({ value, at }: NonNullable<GenerationSettings['effort']>, wish: Wish | undefined): boolean =>
  value !== 'none' && (wish?.at !== at || !EXACT.has(value))

type Wish =
  | { readonly kind: 'off'; readonly at: string }
  | { readonly kind: 'adaptive'; readonly at: string; readonly display?: string }
  | { readonly kind: 'budget'; readonly at: string; readonly tokens: number; readonly display?: string }

const wished = ({ settings, extra }: ThinkingFacts): Wish | undefined => {
  const { effort, thinkingBudget } = settings
  if (thinkingBudget) {
    const { value, at } = thinkingBudget
    return value <= 0 ? { kind: 'off', at } : { kind: 'budget', at, tokens: value, ...displayIn(extra) }
  }
  const own = extra && ownWish(extra)
  if (own) return own
  if (!effort) return undefined
  return effort.value === 'none' ? { kind: 'off', at: effort.at } : { kind: 'adaptive', at: effort.at }
}

const displayIn = (extra: Extra | undefined): { display?: string } => {
  const display = isObject(extra?.value) ? extra.value.display : undefined
  return display === 'summarized' || display === 'omitted' ? { display } : {}
}

/** A `thinking` member as this format has it; undefined when it is something else. */
const ownWish = (extra: Extra): Wish | undefined => {
  const { at, value } = extra
  if (!isObject(value)) return undefined
  const tokens = number(value.budget_tokens)
  if (value.type === 'disabled') return { kind: 'off', at }
  if (value.type === 'adaptive') return { kind: 'adaptive', at, ...displayIn(extra) }
  // Z.ai, Moonshot and others have the same member, without a budget.
  if (value.type === 'enabled')
    return tokens === undefined
      ? { kind: 'adaptive', at, ...displayIn(extra) }
      : { kind: 'budget', at, tokens, ...displayIn(extra) }
  return undefined
}

/** Whether `thinking` among the client's extras is understood here. */
export const isThinking = (extra: Extra): boolean => extra.name === 'thinking' && ownWish(extra) !== undefined
