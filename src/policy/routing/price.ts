import type { Usage } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'

/**
 * What an answer cost in nano-dollars, rounded to whole ones. Undefined when a price it needs is not known: unknown is
 * never zero. Cached input without a price of its own costs what input costs.
 */
export const cost = (usage: Usage, facts: ModelFacts | undefined): number | undefined => {
  if (!facts) return undefined
  const { inputPrice, outputPrice, cacheReadPrice = inputPrice, cacheWritePrice = inputPrice } = facts
  const { input, output, cacheRead = 0, cacheWrite = 0 } = usage
  // An upstream may count cached tokens beside its input, against its own format: those cost what they cost, the rest is not negative.
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

/** One figure to compare models by: a prompt three times as long as its answer, the usual way to blend the two prices. */
export const blended = (facts: ModelFacts | undefined): number | undefined =>
  facts?.inputPrice === undefined || facts.outputPrice === undefined
    ? undefined
    : (3 * facts.inputPrice + facts.outputPrice) / 4
