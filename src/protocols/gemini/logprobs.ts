import { type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'

/** The probabilities of a text's tokens, as chat completions have them. */
export const logprobsOf = (result: Json | undefined): JsonObject[] => {
  const told = object(result)
  const tops = list(told?.topCandidates)
  return list(told?.chosenCandidates).flatMap((chosen, index) => {
    const token = tokenOf(chosen)
    const others = list(object(tops[index])?.candidates).flatMap((other): JsonObject[] => {
      const one = tokenOf(other)
      return one ? [one] : []
    })
    return token ? [{ ...token, top_logprobs: others }] : []
  })
}

const tokenOf = (candidate: Json): JsonObject | undefined => {
  const told = object(candidate)
  const token = text(told?.token)
  const logprob = number(told?.logProbability)
  if (token === undefined || logprob === undefined) return undefined
  return { token, logprob, bytes: [...new TextEncoder().encode(token)] }
}
