/** Decides whether and how the model thinks. */
import type { Effort, Extra, GenerationSettings } from '../../core/chat.ts'
import { type BlockFormat, budgetOfEffort, continuesWithoutThinking, fitBudget } from '../../core/claude-thinking.ts'
import { isObject, type JsonObject, number } from '../../core/json.ts'
import { EFFORTS } from '../shared/claude-thinking.ts'
import { effortOf, LEVELS } from '../shared/effort.ts'
import type { Losses } from '../shared/losses.ts'
import type { AlternatingTurn } from '../shared/turns.ts'
import type { ConverseModelFamily } from './family.ts'

/** The thinking members of a request. */
export type ConverseThinking = {
  /** For `additionalModelRequestFields`. */
  readonly fields?: JsonObject
  /** The client's path of the setting. */
  readonly at?: string
  /** The model thinks. For Claude this excludes sampling settings and a forced tool call. */
  readonly on: boolean
}

/** The inputs of the decision. */
export type ConverseThinkingInput = {
  readonly settings: GenerationSettings
  /** A `thinking` member of Anthropic's shape among the client's extras. */
  readonly extra: Extra | undefined
  readonly family: ConverseModelFamily
  readonly forced: boolean
  /** Output limit in tokens: the client's or the model's, if known. */
  readonly limit: number | undefined
  readonly turns: readonly AlternatingTurn[]
}

type ThinkingIntent =
  | { readonly kind: 'off'; readonly at: string }
  | { readonly kind: 'free'; readonly at: string }
  | { readonly kind: 'effort'; readonly at: string; readonly effort: Exclude<Effort, 'none'> }
  | { readonly kind: 'budget'; readonly at: string; readonly tokens: number }

const OFF: ConverseThinking = { on: false }

/** Decides the thinking members. Settings that they cannot represent are reported as losses. */
export const decideThinking = (input: ConverseThinkingInput, losses: Losses): ConverseThinking => {
  const { settings, family } = input
  const { reasoningSummary } = settings
  const intent = thinkingIntent(input)
  const thinking = intent ? ENCODERS[family.thinks.at(-1) ?? 'never'](intent, input, losses) : OFF
  // A model that thinks always returns its reasoning.
  if (reasoningSummary && !thinking.on) losses.lose(reasoningSummary.at)
  return thinking
}

/** In order of precedence: a budget, a `thinking` member, an effort. */
const thinkingIntent = ({
  settings: { effort, thinkingBudget },
  extra,
}: ConverseThinkingInput): ThinkingIntent | undefined => {
  if (thinkingBudget) {
    const { value, at } = thinkingBudget
    return value <= 0 ? { kind: 'off', at } : { kind: 'budget', at, tokens: Math.floor(value) }
  }
  const own = extra && thinkingMember(extra)
  if (own) return own.kind === 'free' && effort && effort.value !== 'none' ? { ...own, ...levelOf(effort) } : own
  if (!effort) return undefined
  return effort.value === 'none' ? { kind: 'off', at: effort.at } : levelOf(effort)
}

const levelOf = ({ value, at }: NonNullable<GenerationSettings['effort']>): ThinkingIntent =>
  value === 'none' ? { kind: 'off', at } : { kind: 'effort', at, effort: value }

/** Reads a `thinking` member of Anthropic's shape; undefined for another shape. */
const thinkingMember = ({ at, value }: Extra): ThinkingIntent | undefined => {
  if (!isObject(value)) return undefined
  const tokens = number(value.budget_tokens)
  if (value.type === 'disabled') return { kind: 'off', at }
  if (value.type === 'adaptive') return { kind: 'free', at }
  if (value.type === 'enabled') return tokens === undefined ? { kind: 'free', at } : { kind: 'budget', at, tokens }
  return undefined
}

/** True for a `thinking` extra that this format supports. */
export const isThinking = (extra: Extra): boolean => extra.name === 'thinking' && thinkingMember(extra) !== undefined

type EncodeThinking = (intent: ThinkingIntent, input: ConverseThinkingInput, losses: Losses) => ConverseThinking

/** A model without a thinking member. Its default is unknown, so even `off` is a loss. */
const never: EncodeThinking = (intent, { settings: { effort }, extra }, losses) => {
  for (const at of [intent.at, extra?.at, effort?.at]) if (at !== undefined) losses.lose(at)
  return OFF
}

// ── Claude: `thinking`, and beside it `output_config.effort` in its later generations ────────────────────────────────

/** Thinking is dropped, for example for a forced tool call: they exclude each other, and the client needs the call. */
const withoutThinking = (
  intent: ThinkingIntent,
  { settings: { effort } }: ConverseThinkingInput,
  losses: Losses,
): ConverseThinking => {
  losses.lose(intent.at)
  if (effort && effort.value !== 'none') losses.lose(effort.at)
  return OFF
}

const byAdaptive: EncodeThinking = (intent, input, losses) => {
  const { effort, reasoningSummary } = input.settings
  if (intent.kind === 'off') return { fields: { thinking: { type: 'disabled' } }, at: intent.at, on: false }
  if (input.forced) return withoutThinking(intent, input, losses)
  // This generation still supports a budget.
  if (intent.kind === 'budget' && input.family.thinks.includes('budget')) return byBudget(intent, input, losses)
  if (intent.kind === 'budget') losses.lose(intent.at)
  const level = effort && effort.value !== 'none' ? EFFORTS[effort.value] : undefined
  if (effort?.value === 'minimal') losses.lose(effort.at)
  // Generations without budgets return a summary only if requested.
  const shown = reasoningSummary && !input.family.thinks.includes('budget') ? { display: 'summarized' } : {}
  return {
    fields: {
      thinking: { type: 'adaptive', ...shown },
      ...(level !== undefined && { output_config: { effort: level } }),
    },
    at: intent.at,
    on: true,
  }
}

const byBudget: EncodeThinking = (intent, input, losses) => {
  const { effort } = input.settings
  if (intent.kind === 'off') return { fields: { thinking: { type: 'disabled' } }, at: intent.at, on: false }
  // The turn with the calls that were just answered must begin with signed reasoning.
  if (input.forced || continuesWithoutThinking(input.turns, BLOCKS)) return withoutThinking(intent, input, losses)
  const level = effort && effort.value !== 'none' ? effort.value : undefined
  const sized = intent.kind === 'budget' ? undefined : budgetOfEffort(level)
  const requested = intent.kind === 'budget' ? intent.tokens : budgetOfEffort(level).tokens
  const tokens = fitBudget(requested, input.limit ?? Number.POSITIVE_INFINITY)
  if (tokens === null) return withoutThinking(intent, input, losses)
  // The size of a budget for an effort is the gateway's own choice, as at Anthropic.
  if (effort && level && !sized?.exact) losses.lose(effort.at)
  if (intent.kind === 'budget' && tokens !== intent.tokens) losses.lose(intent.at)
  return { fields: { thinking: { type: 'enabled', budget_tokens: tokens } }, at: intent.at, on: true }
}

const BLOCKS: BlockFormat = {
  isThought: ({ reasoningContent }) => reasoningContent !== undefined,
  isResult: ({ toolResult }) => toolResult !== undefined,
  callId: ({ toolUse }) => (isObject(toolUse) ? (toolUse.toolUseId ?? null) : undefined),
}

// ── Others: a level of effort ────────────────────────────────────────────────────────────────────────────────────────

/** The level for an intent. A change is reported as a loss. */
const levelFor = (intent: Exclude<ThinkingIntent, { kind: 'off' }>, losses: Losses): 'low' | 'medium' | 'high' => {
  if (intent.kind === 'effort') {
    const level = LEVELS[intent.effort]
    if (level !== intent.effort) losses.lose(intent.at)
    return level
  }
  losses.lose(intent.at)
  return intent.kind === 'free' ? 'medium' : effortOf(intent.tokens)
}

const byConfig: EncodeThinking = (intent, { settings }, losses) => {
  if (intent.kind === 'off') return { fields: { reasoningConfig: { type: 'disabled' } }, at: intent.at, on: false }
  let level = levelFor(intent, losses)
  // Nova rejects its highest effort together with an output limit or sampling settings.
  const { maxOutputTokens, temperature, topP } = settings
  if (level === 'high' && (maxOutputTokens || temperature || topP)) {
    losses.lose(intent.at)
    level = 'medium'
  }
  return { fields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: level } }, at: intent.at, on: true }
}

const byEffort: EncodeThinking = (intent, _input, losses) => {
  // These models always think.
  if (intent.kind === 'off') losses.lose(intent.at)
  const level = intent.kind === 'off' ? 'low' : levelFor(intent, losses)
  return { fields: { reasoning_effort: level }, at: intent.at, on: true }
}

const ENCODERS = { never, budget: byBudget, adaptive: byAdaptive, config: byConfig, effort: byEffort } as const
