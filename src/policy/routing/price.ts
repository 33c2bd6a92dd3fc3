/** The price of an answer, and one figure to compare models by price. */
import type { Usage } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'

/**
 * The cost of an answer in nano-dollars, rounded to an integer. Undefined if a required price is unknown or a count is
 * invalid; an unknown price is never taken as zero. Cached input without a price of its own costs as much as other input.
 */
export const cost = (usage: Usage, facts: ModelFacts | undefined): number | undefined => {
  if (!facts) return undefined
  const { inputPrice, outputPrice, cacheReadPrice = inputPrice, cacheWritePrice = inputPrice } = facts
  const { input, output, cacheRead = 0, cacheWrite = 0 } = usage
  // Some upstreams report cached tokens that are not included in `input`: the uncached rest must not become negative.
  const uncached = Math.max(0, input - cacheRead - cacheWrite)
  const parts = [
    [uncached, inputPrice],
    [cacheRead, cacheReadPrice],
    [cacheWrite, cacheWritePrice],
    [output, outputPrice],
  ] as const
  if (!(input >= 0)) return undefined
  let nano = 0
  for (const [tokens, price] of parts) {
    if (!(tokens >= 0)) return undefined
    if (tokens === 0) continue
    if (price === undefined) return undefined
    nano += tokens * price
  }
  return Number.isFinite(nano) ? Math.round(nano) : undefined
}

/** The price of a model for comparison, in nano-dollars a token: three parts input, one part output. Undefined: unknown. */
export const blended = (facts: ModelFacts | undefined): number | undefined =>
  facts?.inputPrice === undefined || facts.outputPrice === undefined
    ? undefined
    : (3 * facts.inputPrice + facts.outputPrice) / 4
