/** The cost of an attempt from its token counts and the prices of the model, rounded once to whole nano-dollars. */
import type { PriceSource } from '../../core/accounts.ts'
import type { Usage } from '../../core/chat.ts'
import { MAX_NANO, type Nano } from '../../core/money.ts'

/** Prices in nano-dollars per token, which may be fractions: 37.5 is $0.0375 per million tokens. */
export type TokenPrices = {
  readonly input?: number | undefined
  readonly output?: number | undefined
  /** Absent: as other input. So for all prices of parts of the input. */
  readonly cacheRead?: number | undefined
  /** Cache writes that are kept for five minutes, Anthropic's default. */
  readonly cacheWrite?: number | undefined
  /** Cache writes that are kept for an hour. Absent: as other cache writes. */
  readonly cacheWrite1h?: number | undefined
  readonly audioInput?: number | undefined
  readonly imageInput?: number | undefined
  /** Absent: as other output. */
  readonly reasoning?: number | undefined
  /** Absent: as other output. */
  readonly audioOutput?: number | undefined
}

/** All prices of a model at a provider. */
export type PriceList = TokenPrices & {
  /** Prices for requests with more than `above` input tokens. They apply to all tokens of the request. */
  readonly tiers?: readonly (TokenPrices & { readonly above: number })[] | undefined
  /** Factors by service tier: `{ batch: 0.5, priority: 2 }`. A tier that is absent has the factor 1. */
  readonly service?: { readonly [tier: string]: number } | undefined
  /** Nano-dollars per call of a tool that the provider runs, by its name: `{ web_search: 10_000_000 }`. */
  readonly tools?: { readonly [name: string]: number } | undefined
}

/** Prices that an operator sets for a provider instance and a model. They replace those of the catalogue one by one. */
export type PriceOverride = PriceList & {
  /** Multiplies the whole cost: 0.85 for a discount of 15 %. */
  readonly factor?: number | undefined
}

/** Token counts for pricing. Parts are included in `input` and `output`. */
export type PricedUsage = Omit<Usage, 'raw'> & {
  /** The part of `cacheWrite` that is kept for an hour. */
  readonly cacheWrite1h?: number
  readonly audioInput?: number
  readonly imageInput?: number
  readonly audioOutput?: number
  /** Calls of tools that the provider ran, by name. */
  readonly toolCalls?: { readonly [name: string]: number }
}

/** What the cost of an attempt is computed from. */
export type Pricing = {
  readonly usage: PricedUsage
  /** The service tier that the provider used. */
  readonly service?: string | undefined
  /** The cost that the upstream itself reported, in nano-dollars; may be a fraction. */
  readonly reported?: number | undefined
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
export const costOf = ({ usage, service, reported, catalogue, override }: Pricing): AttemptCost => {
  const own = reported === undefined ? null : rounded(reported)
  if (own !== null) return { nano: own, source: 'upstream', version: UPSTREAM }
  const prices = effectivePrices(catalogue?.prices, override?.prices)
  const nano = prices && rounded(exactCost(usage, prices, service))
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
  const tools = Object.entries(usage.toolCalls ?? {}).map(([name, calls]) => priced(calls, own(prices.tools, name)))
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
const tierFor = (input: number, { tiers, ...prices }: PriceList): TokenPrices => {
  let reached: TokenPrices & { readonly above: number } = { above: Number.NEGATIVE_INFINITY }
  for (const tier of tiers ?? []) if (input > tier.above && tier.above > reached.above) reached = tier
  return { ...prices, ...reached }
}

/** Prices each part of the input and the output once. */
const tokenCost = (usage: PricedUsage, prices: TokenPrices): number => {
  const { cacheRead = 0, cacheWrite = 0, cacheWrite1h = 0, audioInput = 0, imageInput = 0 } = usage
  const { reasoning = 0, audioOutput = 0 } = usage
  const written = prices.cacheWrite ?? prices.input
  const parts: readonly (readonly [tokens: number, price: number | undefined])[] = [
    // Parts may overlap, such as cached audio: the rest must not become negative.
    [rest(usage.input, cacheRead + cacheWrite + audioInput + imageInput), prices.input],
    [cacheRead, prices.cacheRead ?? prices.input],
    [rest(cacheWrite, cacheWrite1h), written],
    [cacheWrite1h, prices.cacheWrite1h ?? written],
    [audioInput, prices.audioInput ?? prices.input],
    [imageInput, prices.imageInput ?? prices.input],
    [rest(usage.output, reasoning + audioOutput), prices.output],
    [reasoning, prices.reasoning ?? prices.output],
    [audioOutput, prices.audioOutput ?? prices.output],
  ]
  return parts.map(([tokens, price]) => priced(tokens, price)).reduce(sum, 0)
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
