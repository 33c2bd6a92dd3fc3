/** Whether and how long the model shall think. */
import type { Settings } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Losses } from '../losses.ts'
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
export const decideThinking = (settings: Settings, family: Family, losses: Losses): Thinking => {
  const { effort, thinkingBudget, reasoningSummary } = settings
  if (!family.thinks) {
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
  const wish = thinkingBudget ?? effort
  if (!wish) return { on }
  const tokens = thinkingBudget && on ? { token_budget: Math.max(1, Math.floor(thinkingBudget.value)) } : {}
  return { member: { type: on ? 'enabled' : 'disabled', ...tokens }, at: wish.at, on }
}
