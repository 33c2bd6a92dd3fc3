/** Reasoning efforts in requests, and an effort in place of a thinking budget. */
import type { ChatRequest, Effort } from '../../core/chat.ts'
import type { EncodeTarget } from '../../core/protocol.ts'

/**
 * The value that selects the model's default effort (Groq), so it needs no setting. Other vendor-specific efforts pass
 * through within one format and are reported as lost in another.
 */
export const DEFAULT_EFFORT = 'default'

/** Efforts in formats that have three levels. */
export const LEVELS = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
} as const satisfies { readonly [effort in Exclude<Effort, 'none'>]: Effort }

/** The effort that approximates a budget in tokens. No vendor publishes such a table. */
export const effortOf = (tokens: number): 'low' | 'medium' | 'high' =>
  tokens < 4_096 ? 'low' : tokens < 16_384 ? 'medium' : 'high'

/**
 * Replaces a thinking budget by an effort, as a chat client would send one, unless the model is known not to reason: it would
 * reject an effort. An explicit effort takes precedence. A budget of 0 is kept, since not every model can switch reasoning off.
 */
export const withEffort = (request: ChatRequest, { reasons }: Pick<EncodeTarget, 'reasons'>): ChatRequest => {
  const { thinkingBudget, ...settings } = request.settings
  if (reasons === false || !thinkingBudget || thinkingBudget.value <= 0 || settings.effort) return request
  const effort = { value: effortOf(thinkingBudget.value), at: thinkingBudget.at }
  return { ...request, settings: { ...settings, effort } }
}
