/** Efforts of Claude models, on Anthropic's API and on Bedrock. */
import type { Effort } from '../../core/chat.ts'

/** Efforts as Claude names them. `minimal` does not exist; `low` replaces it, and the change is reported. */
export const EFFORTS: { readonly [effort in Exclude<Effort, 'none'>]: string } = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
}
