import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'

/** The log probability of a piece of text, as in chat completions. For several tokens the log probabilities are added. */
export const logprobsOf = (item: Json | undefined): JsonObject[] => {
  const piece = object(item)
  const token = text(piece?.text)
  const values = list(piece?.logprobs).filter((value) => typeof value === 'number')
  if (token === undefined || values.length === 0) return []
  const logprob = values.reduce((sum, value) => sum + value, 0)
  if (!Number.isFinite(logprob)) return []
  return [{ token, logprob, bytes: [...new TextEncoder().encode(token)], top_logprobs: [] }]
}
