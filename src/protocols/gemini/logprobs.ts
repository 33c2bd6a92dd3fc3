import { type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'

/** The log probabilities of the tokens of a text, as in chat completions. */
export const logprobsOf = (rawResult: Json | undefined): JsonObject[] => {
  const result = object(rawResult)
  const alternatives = list(result?.topCandidates)
  return list(result?.chosenCandidates).flatMap((chosen, index) => {
    const token = tokenOf(chosen)
    const top_logprobs = list(object(alternatives[index])?.candidates).flatMap((candidate): JsonObject[] => {
      const alternative = tokenOf(candidate)
      return alternative ? [alternative] : []
    })
    return token ? [{ ...token, top_logprobs }] : []
  })
}

const tokenOf = (raw: Json): JsonObject | undefined => {
  const candidate = object(raw)
  const token = text(candidate?.token)
  const logprob = number(candidate?.logProbability)
  if (token === undefined || logprob === undefined) return undefined
  return { token, logprob, bytes: [...new TextEncoder().encode(token)] }
}
