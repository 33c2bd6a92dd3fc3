/** Decides whether and how the model thinks. */
import type { Effort, GenerationSettings } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import type { GeminiModelFamily } from './family.ts'

/**
 * The budget in tokens for each effort, as in Google's OpenAI-compatible endpoint. `xhigh` and `max` have no equivalent
 * there.
 */
const BUDGETS: { readonly [effort in Effort]: number } = {
  none: 0,
  minimal: 1_024,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
}

/** The level for each effort. Not every model has `minimal` and `medium`; none can disable thinking. */
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

/** The `thinkingConfig` of a request, and the client's member it came from. */
export type GeminiThinking = { readonly config: JsonObject; readonly at: string }

/**
 * Decides `thinkingConfig`; undefined if no reasoning setting is given. Level and budget exclude each other, so a budget
 * overrides an effort. Thoughts are included unless thinking is disabled.
 */
export const decideThinking = (
  { effort, thinkingBudget, reasoningSummary }: GenerationSettings,
  family: GeminiModelFamily,
  losses: Losses,
): GeminiThinking | undefined => {
  const source = thinkingBudget ?? effort ?? reasoningSummary
  if (!source) return undefined
  if (family.thinks === null) {
    // Disabling thinking has no effect on these models, so it is no loss.
    if (thinkingBudget && thinkingBudget.value > 0) losses.lose(thinkingBudget.at)
    if (effort && effort.value !== 'none') losses.lose(effort.at)
    if (reasoningSummary) losses.lose(reasoningSummary.at)
    return undefined
  }
  const off = thinkingBudget ? thinkingBudget.value <= 0 : effort?.value === 'none'
  if (off && reasoningSummary) losses.lose(reasoningSummary.at)
  const included = off ? {} : { includeThoughts: true }
  if (thinkingBudget) {
    if (effort) losses.lose(effort.at)
    const tokens = clampBudget(family, thinkingBudget.value)
    if (tokens !== thinkingBudget.value) losses.lose(thinkingBudget.at)
    return { config: { thinkingBudget: tokens, ...included }, at: thinkingBudget.at }
  }
  if (!effort) return { config: included, at: source.at }
  const tokens = clampBudget(family, BUDGETS[effort.value])
  const exact = EXACT.has(effort.value) || (effort.value === 'none' && family.thinks === 'budget' && tokens === 0)
  if (!exact) losses.lose(effort.at)
  const amount = family.thinks === 'level' ? { thinkingLevel: LEVELS[effort.value] } : { thinkingBudget: tokens }
  return { config: { ...amount, ...included }, at: effort.at }
}

const clampBudget = ({ budget: { least, most, canDisable } }: GeminiModelFamily, tokens: number): number =>
  tokens <= 0 && canDisable ? 0 : Math.min(most, Math.max(least, Math.floor(tokens)))
