/** Whether and how the model shall think. */
import type { Effort, GenerationSettings } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import type { Family } from './family.ts'

/** Tokens to think with, as Google's own compatible endpoint translates an effort. The last two have no like here. */
const BUDGETS: { readonly [effort in Effort]: number } = {
  none: 0,
  minimal: 1_024,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
}

/** `medium` and `minimal` are not there on every model of this kind, and nobody can be told not to think. */
const LEVELS: { readonly [effort in Effort]: string } = {
  none: 'LOW',
  minimal: 'LOW',
  low: 'LOW',
  medium: 'MEDIUM',
  high: 'HIGH',
  xhigh: 'HIGH',
  max: 'HIGH',
}
const EXACT: ReadonlySet<Effort> = new Set(['low', 'medium', 'high'])

export type Thinking = { readonly config: JsonObject; readonly at: string }

/**
 * `thinkingConfig`, if there is anything to say: a budget outweighs an effort, since the two exclude each other. Whoever
 * asks for thoughts is shown them.
 */
export const decideThinking = (
  { effort, thinkingBudget, reasoningSummary }: GenerationSettings,
  family: Family,
  losses: Losses,
): Thinking | undefined => {
  const wish = thinkingBudget ?? effort ?? reasoningSummary
  if (!wish) return undefined
  if (family.thinks === null) {
    // Not to think is what it does anyway.
    if (thinkingBudget && thinkingBudget.value > 0) losses.lose(thinkingBudget.at)
    if (effort && effort.value !== 'none') losses.lose(effort.at)
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return undefined
  }
  const off = thinkingBudget ? thinkingBudget.value <= 0 : effort?.value === 'none'
  if (off && reasoningSummary) losses.lose(reasoningSummary.at)
  const shown = off ? {} : { includeThoughts: true }
  if (thinkingBudget) {
    if (effort) losses.lose(effort.at)
    const tokens = budgetIn(family, thinkingBudget.value)
    if (tokens !== thinkingBudget.value) losses.lose(thinkingBudget.at)
    return { config: { thinkingBudget: tokens, ...shown }, at: thinkingBudget.at }
  }
  if (!effort) return { config: shown, at: wish.at }
  const tokens = budgetIn(family, BUDGETS[effort.value])
  const exact = EXACT.has(effort.value) || (effort.value === 'none' && family.thinks === 'budget' && tokens === 0)
  if (!exact) losses.lose(effort.at)
  const how = family.thinks === 'level' ? { thinkingLevel: LEVELS[effort.value] } : { thinkingBudget: tokens }
  return { config: { ...how, ...shown }, at: effort.at }
}

const budgetIn = ({ budget: { least, most, off } }: Family, tokens: number): number =>
  tokens <= 0 && off ? 0 : Math.min(most, Math.max(least, Math.floor(tokens)))
