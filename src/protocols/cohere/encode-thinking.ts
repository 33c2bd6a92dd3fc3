/** Decides whether the model thinks, and with which budget. */
import type { ChatRequest, Extra } from '../../core/chat.ts'
import { isObject, type JsonObject, number } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import type { CohereModelFamily } from './family.ts'

export type CohereThinking = {
  /** The member `thinking`, if it is needed. */
  readonly member?: JsonObject
  /** The client's member it came from. */
  readonly at?: string
  /** The model thinks, and accepts its earlier thinking. */
  readonly on: boolean
}

/**
 * Decides the `thinking` member. Reasoning models think unless disabled, and have no effort. Cohere's OpenAI-compatible
 * endpoint accepts only the efforts `none` and `high`, so any other is reported as a loss. A budget overrides an effort.
 */
export const decideThinking = (
  { settings, extras }: ChatRequest,
  family: CohereModelFamily,
  losses: Losses,
): CohereThinking => {
  const { effort, thinkingBudget, reasoningSummary } = settings
  const own = extras.find(isThinking)
  if (!family.thinks) {
    if (own) losses.loseExtra(own)
    // Disabling thinking has no effect on these models, so it is no loss.
    if (thinkingBudget && thinkingBudget.value > 0) losses.lose(thinkingBudget.at)
    if (effort && effort.value !== 'none') losses.lose(effort.at)
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return { on: false }
  }
  const on = thinkingBudget ? thinkingBudget.value > 0 : effort?.value !== 'none'
  // A model that thinks always returns its thinking.
  if (reasoningSummary && !on) losses.lose(reasoningSummary.at)
  if (effort && (thinkingBudget || (on && effort.value !== 'high'))) losses.lose(effort.at)
  const source = thinkingBudget ?? effort ?? own
  if (!source) return { on }
  const budget = thinkingBudget?.value ?? budgetIn(own)
  const tokens = budget !== undefined && on ? { token_budget: Math.max(1, Math.floor(budget)) } : {}
  return { member: { type: on ? 'enabled' : 'disabled', ...tokens }, at: source.at, on }
}

/** Whether an extra is a `thinking` member that enables thinking: Cohere's own, or Anthropic's `adaptive`. */
export const isThinking = ({ name, value }: Extra): boolean =>
  name === 'thinking' && isObject(value) && (value.type === 'enabled' || value.type === 'adaptive')

const budgetIn = (own: Extra | undefined): number | undefined =>
  isObject(own?.value) ? number(own.value.token_budget) : undefined
