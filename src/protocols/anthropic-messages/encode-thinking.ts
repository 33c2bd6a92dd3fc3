/** Decides whether and how the model thinks. */

import type { Extra, GenerationSettings } from '../../core/chat.ts'
import { budgetOfEffort, continuesWithoutThinking, fitBudget, MESSAGES_BLOCKS } from '../../core/claude-thinking.ts'
import { isObject, type JsonObject, number } from '../../core/json.ts'
import { EFFORTS } from '../shared/claude-thinking.ts'
import type { Losses } from '../shared/losses.ts'
import type { AlternatingTurn } from '../shared/turns.ts'

/** The thinking members of a request. */
export type MessagesThinking = {
  /** The member `thinking`, if it is written. */
  readonly member?: JsonObject
  /** The client's path of the setting. */
  readonly at?: string
  /** `output_config.effort`. */
  readonly effort?: string
  /** The model thinks. This excludes sampling settings and a forced tool call. */
  readonly on: boolean
}

/** The inputs of the decision. */
export type MessagesThinkingInput = {
  readonly settings: GenerationSettings
  /** A `thinking` member of this format's shape among the client's extras. */
  readonly extra: Extra | undefined
  readonly maxTokens: number
  /** The model supports a budget only, no effort and no adaptive thinking. */
  readonly byBudget: boolean
  readonly forced: boolean
  readonly turns: readonly AlternatingTurn[]
}

/**
 * Thinking and a forced tool call exclude each other. The call takes precedence, because the client needs it. Sampling
 * settings are dropped while the model thinks; reasoning models of other formats ignore them.
 */
export const decideThinking = (input: MessagesThinkingInput, losses: Losses): MessagesThinking => {
  const { effort } = input.settings
  const requested = requestedThinking(input)
  if (!input.byBudget) {
    if (effort?.value === 'minimal') losses.lose(effort.at)
    const level = effort && effort.value !== 'none' ? { effort: EFFORTS[effort.value] } : {}
    return { ...thinkingFor(requested, input, losses), ...level }
  }
  if (requested?.kind !== 'adaptive') {
    if (effort && effort.value !== 'none') losses.lose(effort.at)
    return thinkingFor(requested, input, losses)
  }
  // The effort, or its default, sets the size of the budget.
  const level = effort && effort.value !== 'none' ? effort.value : undefined
  const { tokens, exact } = budgetOfEffort(level)
  const thinking = thinkingFor({ ...requested, kind: 'budget', tokens, sized: true }, input, losses)
  if (effort && level && !(exact && thinking.member?.budget_tokens === tokens)) losses.lose(effort.at)
  return thinking
}

const thinkingFor = (
  requested: ThinkingRequest | undefined,
  input: MessagesThinkingInput,
  losses: Losses,
): MessagesThinking => {
  const { effort, thinkingBudget, reasoningSummary } = input.settings
  if (!requested) {
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return { on: false }
  }
  const { at } = requested
  if (requested.kind === 'off') return { member: { type: 'disabled' }, at, on: false }
  const withoutThinking = (): MessagesThinking => {
    // An effort still controls the length of the answer; a budget has no effect without thinking.
    if (requested.kind === 'budget' || !effort) losses.lose(at)
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return { on: false }
  }
  if (input.forced) return withoutThinking()
  const display = requested.display ?? (reasoningSummary && 'summarized')
  // This format has one kind of summary, so any other value is a loss.
  if (reasoningSummary && reasoningSummary.value !== 'auto') losses.lose(reasoningSummary.at)
  const shown = display === undefined ? {} : { display }
  if (requested.kind === 'adaptive') return { member: { type: 'adaptive', ...shown }, at, on: true }
  // Budget thinking requires signed thinking before the tool calls that were just answered.
  if (continuesWithoutThinking(input.turns, MESSAGES_BLOCKS)) return withoutThinking()
  const tokens = fitBudget(requested.tokens, input.maxTokens)
  if (tokens === null) return withoutThinking()
  if (tokens !== requested.tokens && !requested.sized) losses.lose(thinkingBudget?.at ?? at)
  return { member: { type: 'enabled', budget_tokens: tokens, ...shown }, at, on: true }
}

type ThinkingRequest =
  | { readonly kind: 'off'; readonly at: string }
  | { readonly kind: 'adaptive'; readonly at: string; readonly display?: string }
  /** `sized`: by the gateway, which may make it smaller. */
  | {
      readonly kind: 'budget'
      readonly at: string
      readonly tokens: number
      readonly sized?: true
      readonly display?: string
    }

const requestedThinking = ({ settings, extra }: MessagesThinkingInput): ThinkingRequest | undefined => {
  const { effort, thinkingBudget } = settings
  if (thinkingBudget) {
    const { value, at } = thinkingBudget
    return value <= 0 ? { kind: 'off', at } : { kind: 'budget', at, tokens: value, ...displayIn(extra) }
  }
  const own = extra && thinkingMember(extra)
  if (own) return own
  if (!effort) return undefined
  return effort.value === 'none' ? { kind: 'off', at: effort.at } : { kind: 'adaptive', at: effort.at }
}

const displayIn = (extra: Extra | undefined): { display?: string } => {
  const display = isObject(extra?.value) ? extra.value.display : undefined
  return display === 'summarized' || display === 'omitted' ? { display } : {}
}

/** Reads a `thinking` member of this format; undefined for another shape. */
const thinkingMember = (extra: Extra): ThinkingRequest | undefined => {
  const { at, value } = extra
  if (!isObject(value)) return undefined
  const tokens = number(value.budget_tokens)
  if (value.type === 'disabled') return { kind: 'off', at }
  if (value.type === 'adaptive') return { kind: 'adaptive', at, ...displayIn(extra) }
  // Z.ai, Moonshot and others use the same member without a budget.
  if (value.type === 'enabled')
    return tokens === undefined
      ? { kind: 'adaptive', at, ...displayIn(extra) }
      : { kind: 'budget', at, tokens, ...displayIn(extra) }
  return undefined
}

/** True for a `thinking` extra that this format supports. */
export const isThinking = (extra: Extra): boolean => extra.name === 'thinking' && thinkingMember(extra) !== undefined
