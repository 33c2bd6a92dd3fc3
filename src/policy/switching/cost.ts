/** The cost and the delay of a request at a target, with what the target has in its cache. */
import type { PriceOverride } from '../../core/accounts.ts'

/** A target for a request. `warm`: tokens that are expected in its cache: what it has, times the chance that it is still there. */
export type WarmTarget = {
  /** Nano-dollars a token; null: a price is unknown. */
  readonly prices: PromptPrices | null
  readonly warm: number
  /** ms for each token that is not cached; null: not known. */
  readonly prefill: number | null
}

export type PromptPrices = {
  readonly read: number
  readonly write: number
  readonly output: number
}

/** The prices of a prompt of this size; null: one is unknown. `isHour`: prompts are written for an hour. */
export const promptPrices = (list: PriceOverride | undefined, input: number, isHour = false): PromptPrices | null => {
  if (list?.input === undefined || list.output === undefined) return null
  // The highest step below the size applies to the whole request.
  const tier = (list.tiers ?? []).filter(({ above }) => input > above).toSorted((a, b) => b.above - a.above)[0]
  const prices = { ...list, ...tier }
  const { factor = 1 } = list
  const whole = prices.input ?? list.input
  const short = prices.cacheWrite ?? whole
  return {
    read: (prices.cacheRead ?? whole) * factor,
    write: (isHour ? (prices.cacheWrite1h ?? short) : short) * factor,
    output: (prices.output ?? list.output) * factor,
  }
}

/** Nano-dollars of a request; null: unknown. */
export const costAt = ({ prices, warm }: WarmTarget, { input, output }: Sizes): number | null =>
  prices && prices.read * warm + prices.write * (input - warm) + prices.output * output

export type Sizes = { readonly input: number; readonly output: number }

/** ms until the first content; null: unknown. */
export const delayAt = ({ warm, prefill }: WarmTarget, { input }: Sizes): number | null =>
  prefill === null ? null : (input - warm) * prefill
