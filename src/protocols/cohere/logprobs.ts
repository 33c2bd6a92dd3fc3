import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'

/** The probability of a piece of text, as chat completions have it. A piece of several tokens has that of all of them. */
export const logprobsOf = (item: Json | undefined): JsonObject[] => {
  const told = object(item)
  const token = text(told?.text)
  const each = list(told?.logprobs).filter((one) => typeof one === 'number')
  if (token === undefined || each.length === 0) return []
  const logprob = each.reduce((sum, one) => sum + one, 0)
  if (!Number.isFinite(logprob)) return []
  return [{ token, logprob, bytes: [...new TextEncoder().encode(token)], top_logprobs: [] }]
}
