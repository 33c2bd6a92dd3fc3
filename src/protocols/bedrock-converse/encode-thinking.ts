/** Whether and how the model shall think, decided from everything that bears on it. */
import type { Effort, Extra, GenerationSettings } from '../../core/chat.ts'
import { answersUnthought, type BlockFormat } from '../../core/claude-thinking.ts'
import { isObject, type JsonObject, number } from '../../core/json.ts'
import { BUDGETS, EFFORTS, MIN_BUDGET } from '../shared/claude-thinking.ts'
import type { Losses } from '../shared/losses.ts'
import type { AlternatingTurn } from '../shared/turns.ts'
import type { Family } from './family.ts'

export type Thinking = {
  /** For `additionalModelRequestFields`. */
  readonly fields?: JsonObject
  /** The client's member it came from. */
  readonly at?: string
  /** The model will think: then Claude samples freely and cannot be made to call a tool. */
  readonly on: boolean
}

export type ThinkingFacts = {
  readonly settings: GenerationSettings
  /** The client's own `thinking`, of Anthropic's shape, in a format that has no such member. */
  readonly extra: Extra | undefined
  readonly family: Family
  readonly forced: boolean
  /** Output tokens there can be: the client's limit or the model's, where known. */
  readonly limit: number | undefined
  readonly turns: readonly AlternatingTurn[]
}

type Wish =
  | { readonly kind: 'off'; readonly at: string }
  | { readonly kind: 'free'; readonly at: string }
  | { readonly kind: 'effort'; readonly at: string; readonly effort: Exclude<Effort, 'none'> }
  | { readonly kind: 'budget'; readonly at: string; readonly tokens: number }

const OFF: Thinking = { on: false }

export const decideThinking = (facts: ThinkingFacts, losses: Losses): Thinking => {
  const { settings, family } = facts
  const { reasoningSummary } = settings
  const wish = wished(facts)
  const made = wish ? MAKERS[family.thinks.at(-1) ?? 'never'](wish, facts, losses) : OFF
  // Whoever thinks shows it; only who does not think cannot.
  if (reasoningSummary && !made.on) losses.lose(reasoningSummary.at)
  return made
}

/** A budget is the most exact wish, then the client's own member, then an effort. */
const wished = ({ settings: { effort, thinkingBudget }, extra }: ThinkingFacts): Wish | undefined => {
  if (thinkingBudget) {
    const { value, at } = thinkingBudget
    return value <= 0 ? { kind: 'off', at } : { kind: 'budget', at, tokens: Math.floor(value) }
  }
  const own = extra && ownWish(extra)
  if (own) return own.kind === 'free' && effort && effort.value !== 'none' ? { ...own, ...levelOf(effort) } : own
  if (!effort) return undefined
  return effort.value === 'none' ? { kind: 'off', at: effort.at } : levelOf(effort)
}

const levelOf = ({ value, at }: NonNullable<GenerationSettings['effort']>): Wish =>
  value === 'none' ? { kind: 'off', at } : { kind: 'effort', at, effort: value }

/** A `thinking` member as Anthropic has it; undefined when it is something else. */
const ownWish = ({ at, value }: Extra): Wish | undefined => {
  if (!isObject(value)) return undefined
  const tokens = number(value.budget_tokens)
  if (value.type === 'disabled') return { kind: 'off', at }
  if (value.type === 'adaptive') return { kind: 'free', at }
  if (value.type === 'enabled') return tokens === undefined ? { kind: 'free', at } : { kind: 'budget', at, tokens }
  return undefined
}

/** Whether `thinking` among the client's extras is understood here. */
export const isThinking = (extra: Extra): boolean => extra.name === 'thinking' && ownWish(extra) !== undefined

type Make = (wish: Wish, facts: ThinkingFacts, losses: Losses) => Thinking

/** A model that cannot be told; what it does by itself is not known here, so even "not at all" is a loss. */
const never: Make = (wish, { settings: { effort }, extra }, losses) => {
  for (const at of [wish.at, extra?.at, effort?.at]) if (at !== undefined) losses.lose(at)
  return OFF
}

// ── Claude: `thinking`, and beside it `output_config.effort` in its later generations ────────────────────────────

/** A forced call outweighs thinking, since the two exclude each other and the call is what the client's program waits for. */
const refused = (wish: Wish, { settings: { effort } }: ThinkingFacts, losses: Losses): Thinking => {
  losses.lose(wish.at)
  if (effort && effort.value !== 'none') losses.lose(effort.at)
  return OFF
}

const byItself: Make = (wish, facts, losses) => {
  const { effort, reasoningSummary } = facts.settings
  if (wish.kind === 'off') return { fields: { thinking: { type: 'disabled' } }, at: wish.at, on: false }
  if (facts.forced) return refused(wish, facts, losses)
  // This generation still takes a budget.
  if (wish.kind === 'budget' && facts.family.thinks.includes('budget')) return byBudget(wish, facts, losses)
  if (wish.kind === 'budget') losses.lose(wish.at)
  const level = effort && effort.value !== 'none' ? EFFORTS[effort.value] : undefined
  if (effort?.value === 'minimal') losses.lose(effort.at)
  // The generations that take no budget any more show their thoughts only to who asks.
  const shown = reasoningSummary && !facts.family.thinks.includes('budget') ? { display: 'summarized' } : {}
  return {
    fields: {
      thinking: { type: 'adaptive', ...shown },
      ...(level !== undefined && { output_config: { effort: level } }),
    },
    at: wish.at,
    on: true,
  }
}

const byBudget: Make = (wish, facts, losses) => {
  const { effort } = facts.settings
  if (wish.kind === 'off') return { fields: { thinking: { type: 'disabled' } }, at: wish.at, on: false }
  // The turn of calls that were just answered has to begin with a signed thought.
  if (facts.forced || answersUnthought(facts.turns, BLOCKS)) return refused(wish, facts, losses)
  if (effort && effort.value !== 'none') losses.lose(effort.at)
  if (wish.kind === 'free') losses.lose(wish.at)
  const wanted = wish.kind === 'budget' ? wish.tokens : BUDGETS[wish.kind === 'effort' ? wish.effort : 'medium']
  // Thoughts count as output, so the limit has to leave room for an answer.
  const most = facts.limit ?? Number.POSITIVE_INFINITY
  const tokens = Math.max(MIN_BUDGET, wanted < most ? wanted : Math.floor(most / 2))
  if (tokens >= most) return refused(wish, facts, losses)
  if (wish.kind === 'budget' && tokens !== wish.tokens) losses.lose(wish.at)
  return { fields: { thinking: { type: 'enabled', budget_tokens: tokens } }, at: wish.at, on: true }
}

const BLOCKS: BlockFormat = {
  isThought: ({ reasoningContent }) => reasoningContent !== undefined,
  isResult: ({ toolResult }) => toolResult !== undefined,
  callId: ({ toolUse }) => (isObject(toolUse) ? (toolUse.toolUseId ?? null) : undefined),
}

// ── Others: a word for the effort ────────────────────────────────────────────────────────────────────────────────

const LEVELS: { readonly [effort in Exclude<Effort, 'none'>]: 'low' | 'medium' | 'high' } = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** The word for a wish; a change is told. */
const wordFor = (wish: Exclude<Wish, { kind: 'off' }>, losses: Losses): 'low' | 'medium' | 'high' => {
  if (wish.kind === 'effort') {
    const level = LEVELS[wish.effort]
    if (level !== wish.effort) losses.lose(wish.at)
    return level
  }
  losses.lose(wish.at)
  if (wish.kind === 'free') return 'medium'
  return wish.tokens < 4_096 ? 'low' : wish.tokens < 16_384 ? 'medium' : 'high'
}

const byConfig: Make = (wish, { settings }, losses) => {
  if (wish.kind === 'off') return { fields: { reasoningConfig: { type: 'disabled' } }, at: wish.at, on: false }
  let level = wordFor(wish, losses)
  // Nova's highest effort takes neither a limit nor sampling beside it.
  const { maxOutputTokens, temperature, topP } = settings
  if (level === 'high' && (maxOutputTokens || temperature || topP)) {
    losses.lose(wish.at)
    level = 'medium'
  }
  return { fields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: level } }, at: wish.at, on: true }
}

const byEffort: Make = (wish, _facts, losses) => {
  // These always think.
  if (wish.kind === 'off') losses.lose(wish.at)
  const level = wish.kind === 'off' ? 'low' : wordFor(wish, losses)
  return { fields: { reasoning_effort: level }, at: wish.at, on: true }
}

const MAKERS = { never, budget: byBudget, adaptive: byItself, config: byConfig, effort: byEffort } as const
