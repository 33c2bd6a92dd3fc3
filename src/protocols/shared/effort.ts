/** A thinking budget as an effort, for formats that have no budget. */
import type { ChatRequest, Effort } from '../../core/chat.ts'
import type { EncodeTarget } from '../../core/protocol.ts'

/** The effort a budget in tokens stands for. No vendor has published such a table. */
const effortOf = (tokens: number): Effort => (tokens < 4_096 ? 'low' : tokens < 16_384 ? 'medium' : 'high')

/**
 * The request with an effort in place of its budget, for a model known to reason: others refuse an effort. An effort of
 * the client's own stays, and a budget of 0 too, since reasoning cannot be switched off for every model.
 */
export const withEffort = (request: ChatRequest, { reasons }: Pick<EncodeTarget, 'reasons'>): ChatRequest => {
  const { thinkingBudget, ...settings } = request.settings
  if (!reasons || !thinkingBudget || thinkingBudget.value <= 0 || settings.effort) return request
  const effort = { value: effortOf(thinkingBudget.value), at: thinkingBudget.at }
  return { ...request, settings: { ...settings, effort } }
}
