/** Whether and how long the model shall think. */
import type { ChatRequest, Extra } from '../../core/chat.ts'
import { isObject, type JsonObject, number } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import type { Family } from './family.ts'

export type Thinking = {
  /** The member `thinking`, if there is anything to say. */
  readonly member?: JsonObject
  readonly at?: string
  /** The model will think, and reads what it thought before. */
  readonly on: boolean
}

/**
 * Models that can think do, unless told not to; how hard has no word here. Cohere's own compatible endpoint takes only
 * `none` and `high` as efforts, so any other is told as changed. A budget outweighs an effort.
 */
export const decideThinking = ({ settings, extras }: ChatRequest, family: Family, losses: Losses): Thinking => {
  const { effort, thinkingBudget, reasoningSummary } = settings
  const own = extras.find(isThinking)
  if (!family.thinks) {
    if (own) losses.loseExtra(own)
    // Not to think is what it does anyway.
    if (thinkingBudget && thinkingBudget.value > 0) losses.lose(thinkingBudget.at)
    if (effort && effort.value !== 'none') losses.lose(effort.at)
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return { on: false }
  }
  const on = thinkingBudget ? thinkingBudget.value > 0 : effort?.value !== 'none'
  // Thoughts that are there are shown.
  if (reasoningSummary && !on) losses.lose(reasoningSummary.at)
  if (effort && (thinkingBudget || (on && effort.value !== 'high'))) losses.lose(effort.at)
  const wish = thinkingBudget ?? effort ?? own
  if (!wish) return { on }
  const most = thinkingBudget?.value ?? budgetIn(own)
  const tokens = most !== undefined && on ? { token_budget: Math.max(1, Math.floor(most)) } : {}
  return { member: { type: on ? 'enabled' : 'disabled', ...tokens }, at: wish.at, on }
}

/**
 * A `thinking` the middle has no word for: Anthropic's "as you see fit", or this format's own. To be told not to think is
 * a setting.
 */
export const isThinking = ({ name, value }: Extra): boolean =>
  name === 'thinking' && isObject(value) && (value.type === 'enabled' || value.type === 'adaptive')

const budgetIn = (own: Extra | undefined): number | undefined =>
  isObject(own?.value) ? number(own.value.token_budget) : undefined
