/** Thinking budgets and efforts of Claude models, on Anthropic's API and on Bedrock. */
import type { Effort } from '../../core/chat.ts'

export const MIN_BUDGET = 1_024

/** `minimal` has no like here; the nearest is `low`, and the change is told. */
export const EFFORTS: { readonly [effort in Exclude<Effort, 'none'>]: string } = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
}

/** Tokens for an effort, for models that take a budget only. No vendor has published such a table. */
export const BUDGETS: { readonly [effort in Exclude<Effort, 'none'>]: number } = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 24_576,
  // Opus 4 writes 32 000 in all.
  max: 24_576,
}
