/** Thinking budgets and efforts of Claude models, on Anthropic's API and on Bedrock. */
import type { Effort } from '../../core/chat.ts'

/** Minimum thinking budget in tokens. */
export const MIN_BUDGET = 1_024

/** Efforts as Claude names them. `minimal` does not exist; `low` replaces it, and the change is reported. */
export const EFFORTS: { readonly [effort in Exclude<Effort, 'none'>]: string } = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
}

/** The thinking budget in tokens of each effort, for models without efforts. No vendor publishes such a table. */
export const BUDGETS: { readonly [effort in Exclude<Effort, 'none'>]: number } = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
  xhigh: 24_576,
  // Opus 4 is limited to 32,000 output tokens in total.
  max: 24_576,
}
