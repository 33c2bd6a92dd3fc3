/** The cost of an attempt from its token counts and the prices of the model, rounded once to whole nano-dollars. */
import type { PriceList, PriceOverride, PriceSource, TokenPrices } from '../../core/accounts.ts'
import type { Usage } from '../../core/chat.ts'
import { MAX_NANO, type Nano } from '../../core/money.ts'

/** What an attempt used, for pricing. */
export type PricedUsage = Omit<Usage, 'raw'>

/** What the cost of an attempt is computed from. */
export type Pricing = {
  readonly usage: PricedUsage
  readonly catalogue?: { readonly prices: PriceList; readonly version: string } | undefined
  readonly override?: { readonly prices: PriceOverride; readonly version: string } | undefined
}

/** The cost of an attempt. `nano`: null if a required price is unknown or a count is invalid; never 0 for that reason. */
export type AttemptCost =
  | { readonly nano: Nano; readonly source: Exclude<PriceSource, 'none'>; readonly version: string }
  | { readonly nano: null; readonly source: 'none'; readonly version: null }

const UNKNOWN: AttemptCost = { nano: null, source: 'none', version: null }
/** The version of prices of which only the upstream knows the list. */
const UPSTREAM = 'up'

/** The cost of an attempt: the upstream's own figure, or else by the override, or else by the catalogue. */
export const costOf = ({ usage, catalogue, override }: Pricing): AttemptCost => {
  const { reportedCost, serviceTier } = usage
  const own = reportedCost === undefined ? null : rounded(reportedCost)
  if (own !== null) return { nano: own, source: 'upstream', version: UPSTREAM }
  const prices = effectivePrices(catalogue?.prices, override?.prices)
  const nano = prices && rounded(exactCost(usage, prices, serviceTier))
  if (nano === undefined || nano === null) return UNKNOWN
  if (override) return { nano, source: 'override', version: override.version }
  return catalogue ? { nano, source: 'catalogue', version: catalogue.version } : UNKNOWN
}

/** The prices of the catalogue, with those of an override in their place. Undefined if there are neither. */
export const effectivePrices = (
  catalogue: PriceList | undefined,
  override: PriceOverride | undefined,
): PriceOverride | undefined => {
  if (!override || !catalogue) return override ?? catalogue
  const set = Object.fromEntries(Object.entries(override).filter(([, value]) => value !== undefined))
  // A tier of the catalogue must not replace a price that the operator has set.
  const tiers = catalogue.tiers?.map((tier) => ({ ...tier, ...set, above: tier.above }))
  return { ...catalogue, ...(tiers && { tiers }), ...set }
}

/**
 * The cost to reserve for an attempt, from estimated tokens; rounded up. Null if a price is unknown. No part of the input
 * is assumed to be cached.
 */
export const reservationOf = (input: number, output: number, prices: PriceOverride | undefined): Nano | null => {
  const exact = prices && exactCost({ input, output }, prices, undefined)
  return exact === undefined || !(exact >= 0) || exact > MAX_NANO ? null : Math.ceil(exact - tolerance(exact))
}

/** The cost before rounding; NaN if a required price is unknown or a count is invalid. */
const exactCost = (reported: PricedUsage, prices: PriceOverride, service: string | undefined): number => {
  const usage = withTotals(reported)
  const tokens = tokenCost(usage, tierFor(usage.input, prices))
  // A call without a price of its own adds nothing: most are free or cost a fraction of the tokens.
  const tools = Object.entries(usage.toolCalls ?? {}).map(([name, calls]) =>
    priced(calls, own(prices.tools, name) ?? 0),
  )
  const cost = tokens + tools.reduce(sum, 0)
  return cost * (prices.factor ?? 1) * (service === undefined ? 1 : (own(prices.service, service) ?? 1))
}

/**
 * Adds parts to a total that cannot include them, because they are larger. Seen in recordings: cached tokens of Grok on Azure
 * (7 of input, 161 cached), reasoning of xAI and of Gemini through Vercel (35 of output, 267 of reasoning).
 */
const withTotals = (usage: PricedUsage): PricedUsage => {
  const { input, output, cacheRead = 0, cacheWrite = 0, reasoning = 0 } = usage
  const cached = cacheRead + cacheWrite
  if (cached <= input && reasoning <= output) return usage
  return {
    ...usage,
    input: cached > input ? input + cached : input,
    output: reasoning > output ? output + reasoning : output,
  }
}

/** The prices of a request of this size: those of the highest tier that it exceeds, over the basic ones. */
const tierFor = (input: number, prices: PriceList): TokenPrices => {
  let reached: (TokenPrices & { readonly above: number }) | undefined
  for (const tier of prices.tiers ?? [])
    if (input > tier.above && (!reached || tier.above > reached.above)) reached = tier
  return reached ? { ...prices, ...reached } : prices
}

/** Prices each part of the input and the output once. */
const tokenCost = (usage: PricedUsage, prices: TokenPrices): number => {
  const { cacheRead = 0, cacheWrite = 0, cacheWrite1h = 0, audioInput = 0, imageInput = 0 } = usage
  const { reasoning = 0, audioOutput = 0 } = usage
  const written = prices.cacheWrite ?? prices.input
  return (
    // Parts may overlap, such as cached audio: the rest must not become negative.
    priced(rest(usage.input, cacheRead + cacheWrite + audioInput + imageInput), prices.input) +
    priced(cacheRead, prices.cacheRead ?? prices.input) +
    priced(rest(cacheWrite, cacheWrite1h), written) +
    priced(cacheWrite1h, prices.cacheWrite1h ?? written) +
    priced(audioInput, prices.audioInput ?? prices.input) +
    priced(imageInput, prices.imageInput ?? prices.input) +
    priced(rest(usage.output, reasoning + audioOutput), prices.output) +
    priced(reasoning, prices.reasoning ?? prices.output) +
    priced(audioOutput, prices.audioOutput ?? prices.output)
  )
}

/** What remains of a total. An invalid total is returned as it is, so that the cost becomes unknown. */
const rest = (total: number, parts: number): number => (total >= 0 ? Math.max(0, total - parts) : total)

/** NaN for an invalid count or an unknown price; no price is required for 0 tokens. */
const priced = (count: number, price: number | undefined): number => {
  if (count === 0) return 0
  return count > 0 && price !== undefined && price >= 0 ? count * price : Number.NaN
}

const own = (values: { readonly [name: string]: number } | undefined, name: string): number | undefined =>
  values && Object.hasOwn(values, name) ? values[name] : undefined

const sum = (one: number, other: number): number => one + other

/** Rounds half up. Null: not an amount. */
const rounded = (nano: number): Nano | null => {
  const whole = Math.floor(nano + 0.5 + tolerance(nano))
  return nano >= 0 && whole <= MAX_NANO ? whole : null
}

/** The largest error of ten sums and products in binary fractions. With it, an exact half is rounded up. */
const tolerance = (nano: number): number => nano * 2 ** -49
