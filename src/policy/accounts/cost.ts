/** The cost of an attempt from its token counts and the prices of the model, rounded once to whole nano-dollars. */
import type { PriceList, PriceOverride, Service, TokenPrices } from '../../core/accounts.ts'
import type { Usage } from '../../core/chat.ts'
import { MAX_COST, type Nano } from '../../core/money.ts'
import type { PriceSource } from '../../core/price-source.ts'
import { dearestUnitCost, unitCost } from './units.ts'

/** What an attempt used, for pricing. */
export type PricedUsage = Omit<Usage, 'raw'>

/** What the cost of an attempt is computed from. */
export type Pricing = {
  readonly usage: PricedUsage
  readonly catalogue?: { readonly prices: PriceList; readonly version: string } | undefined
  readonly override?: { readonly prices: PriceOverride; readonly version: string } | undefined
  /** Factors of services that the price list does not have. */
  readonly usual?: PriceList['service']
  /** What the request asked for. */
  readonly asked?: Service | undefined
  /** The prices of another model of the provider. */
  readonly pricesOf?: PricesOf | undefined
}

type PricesOf = (model: string) => PriceOverride | undefined

/**
 * The cost of an attempt. `nano`: null if a required price is unknown, a count is invalid or the cost exceeds `MAX_COST`; never 0
 * for that reason.
 */
export type AttemptCost =
  | {
      readonly nano: Nano
      readonly source: Exclude<PriceSource, 'none'>
      readonly version: string
      /** Units were priced, so that the count of tokens does not matter. */
      readonly byUnits?: true
    }
  | { readonly nano: null; readonly source: 'none'; readonly version: null }

const UNKNOWN: AttemptCost = { nano: null, source: 'none', version: null }
/** The version of prices of which only the upstream knows the list. */
const UPSTREAM = 'up'

/** The cost of an attempt: the upstream's own figure, or else by the override, or else by the catalogue. */
export const costOf = ({ usage, catalogue, override, usual, asked, pricesOf }: Pricing): AttemptCost => {
  const { reportedCost, summed } = usage
  if (summed !== undefined) return summed ?? UNKNOWN
  const stated = reportedCost === undefined ? null : rounded(reportedCost)
  if (stated !== null) return { nano: stated, source: 'upstream', version: UPSTREAM }
  const prices = effectivePrices(catalogue?.prices, override?.prices, usual)
  if (!prices) return UNKNOWN
  const ofUnits = unitCost(usage.units, prices)
  const nano = rounded(
    ofUnits === undefined
      ? exactCost(usage, prices, asked) + furtherCost(usage, prices, { asked, pricesOf })
      : ofUnits * (prices.factor ?? 1),
  )
  if (nano === null) return UNKNOWN
  const byUnits = ofUnits === undefined ? undefined : BY_UNITS
  if (override) return { nano, source: 'override', version: override.version, ...byUnits }
  return catalogue ? { nano, source: 'catalogue', version: catalogue.version, ...byUnits } : UNKNOWN
}

const BY_UNITS = { byUnits: true } as const

/**
 * The prices of the catalogue, with those of an override in their place. Undefined if there are neither. `usual`: factors of
 * services that neither has.
 */
export const effectivePrices = (
  catalogue: PriceList | undefined,
  override: PriceOverride | undefined,
  usual?: PriceList['service'],
): PriceOverride | undefined => {
  if (catalogue && !override && usual) return listWithServices(catalogue, usual)
  const prices = catalogue && override ? overridden(catalogue, override) : (override ?? catalogue)
  if (!prices || (!usual && !(catalogue?.service && override?.service))) return prices
  return { ...prices, service: { ...usual, ...catalogue?.service, ...override?.service } }
}

/** A list of the catalogue with the factors of its provider: the usual case. Returns the same object each time. */
const listWithServices = (catalogue: PriceList, usual: NonNullable<PriceList['service']>): PriceList => {
  const known = listsWithServices.get(catalogue)
  if (known?.usual === usual) return known.list
  const list = { ...catalogue, service: { ...usual, ...catalogue.service } }
  listsWithServices.set(catalogue, { usual, list })
  return list
}
const listsWithServices = new WeakMap<
  PriceList,
  { readonly usual: NonNullable<PriceList['service']>; readonly list: PriceList }
>()

const overridden = (catalogue: PriceList, override: PriceOverride): PriceOverride => {
  const set = Object.fromEntries(Object.entries(override).filter(([, value]) => value !== undefined))
  // A tier of the catalogue must not replace a price that the operator has set.
  const tiers = catalogue.tiers?.map((tier) => ({ ...tier, ...set, above: tier.above }))
  // Tokens with a price of the operator are billed, and no units.
  const perUnit = set.input === undefined && set.output === undefined ? catalogue.perUnit : undefined
  return { ...catalogue, perUnit, ...(tiers && { tiers }), ...set }
}

/**
 * The cost to reserve for an attempt, from estimated tokens; rounded up, at most `MAX_COST`. Null if a price is unknown. No part of the input
 * is assumed to be cached.
 */
export const reservationOf = (
  { input, output, audioOutput = 0, units }: Pick<PricedUsage, 'input' | 'output' | 'audioOutput' | 'units'>,
  prices: PriceOverride | undefined,
  asked?: Service,
): Nano | null => {
  const ofUnits = prices && dearestUnitCost(units, prices)
  const ofTokens =
    prices && ofUnits === undefined ? exactCost({ input, output, audioOutput }, prices, asked) : undefined
  const exact = ofUnits === undefined ? ofTokens : ofUnits * (prices?.factor ?? 1)
  return exact === undefined || !(exact >= 0) ? null : Math.min(MAX_COST, Math.ceil(exact - tolerance(exact)))
}

/** The cost before rounding; NaN if a required price is unknown or a count is invalid. */
const exactCost = (reported: PricedUsage, prices: PriceOverride, asked: Service | undefined): number => {
  const usage = withTotals(reported.billed ? { ...reported, ...reported.billed } : reported)
  const tokens = tokenCost(usage, tierFor(usage.input, prices))
  const tools = usage.toolCalls ? toolCost(usage.toolCalls, prices) : 0
  return (tokens * serviceFactor(usage, prices, asked) + tools) * (prices.factor ?? 1)
}

/** A call without a price of its own adds nothing: most are free or cost a fraction of the tokens. */
const toolCost = (toolCalls: NonNullable<PricedUsage['toolCalls']>, prices: PriceOverride): number =>
  Object.entries(toolCalls)
    .map(([name, calls]) => priced(calls, own(prices.tools, name) ?? 0) + (own(prices.tools, `${name}_prompt`) ?? 0))
    .reduce(sum, 0)

/** The cost of steps that the counts of the answer do not include, each priced by its own size, and by its own model if known. */
const furtherCost = (
  usage: PricedUsage,
  prices: PriceOverride,
  { asked, pricesOf }: Pick<Pricing, 'asked' | 'pricesOf'>,
): number => {
  const { further } = usage
  if (!further) return 0
  return further
    .map(({ model, ...step }) => {
      const its = (model === undefined ? undefined : pricesOf?.(model)) ?? prices
      return tokenCost(step, tierFor(step.input, its)) * serviceFactor(usage, its, asked) * (its.factor ?? 1)
    })
    .reduce(sum, 0)
}

const SERVICE = ['serviceTier', 'speed', 'region'] as const

/**
 * How much tokens cost by the service of the answer. Where it does not state one, what was asked for applies if it costs more:
 * a discount has to be confirmed. Calls of tools cost the same at every service.
 */
const serviceFactor = (stated: Service, { service }: PriceOverride, asked: Service | undefined): number => {
  if (!service) return 1
  let factor = 1
  for (const name of SERVICE) {
    const given = stated[name]
    if (given !== undefined) factor *= factorOf(service, name, given)
    else if (asked?.[name] !== undefined) factor *= Math.max(1, factorOf(service, name, asked[name]))
  }
  return factor
}

/**
 * OpenAI calls its tier `priority` `fast` since 2026-07-30, and may answer with either (vercel/ai#18589). Anthropic's speed of this
 * name is another thing.
 */
const factorOf = (
  service: NonNullable<PriceList['service']>,
  name: (typeof SERVICE)[number],
  value: string,
): number => {
  const tier = name === 'serviceTier' && value === 'fast' ? 'priority' : value
  return own(service, tier) ?? 1
}

/** A price list with the prices of tokens multiplied. */
export const timesTokens = <List extends PriceList>(prices: List, factor: number): List => {
  const { tiers } = prices
  const times = (list: TokenPrices): TokenPrices =>
    Object.fromEntries(TOKEN_PRICES.flatMap((name) => (list[name] === undefined ? [] : [[name, list[name] * factor]])))
  return {
    ...prices,
    ...times(prices),
    ...(tiers && { tiers: tiers.map((tier) => ({ ...tier, ...times(tier) })) }),
  }
}

/** The prices of tokens in a list. */
export const TOKEN_PRICES = [
  'input',
  'output',
  'cacheRead',
  'cacheWrite',
  'cacheWrite1h',
  'audioInput',
  'imageInput',
  'videoInput',
  'reasoning',
  'audioOutput',
  'imageOutput',
  'videoOutput',
] as const satisfies readonly (keyof TokenPrices)[]

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
  const { cacheRead = 0, cacheWrite = 0, cacheWrite1h = 0, audioInput = 0, imageInput = 0, videoInput = 0 } = usage
  const { reasoning = 0, audioOutput = 0, imageOutput = 0, videoOutput = 0 } = usage
  const written = prices.cacheWrite ?? prices.input
  // Media may be cached too (370 cached of 504, 256 of an image, recording azure-chat-chat-multimodal-…-grok-4-1--24a03b5d).
  const fresh = rest(usage.input, cacheRead + cacheWrite)
  const audio = Math.min(audioInput, fresh)
  const image = Math.min(imageInput, fresh - audio)
  const video = Math.min(videoInput, fresh - audio - image)
  return (
    priced(rest(usage.input, cacheRead + cacheWrite + audio + image + video), prices.input) +
    priced(cacheRead, prices.cacheRead ?? prices.input) +
    priced(rest(cacheWrite, cacheWrite1h), written) +
    priced(cacheWrite1h, prices.cacheWrite1h ?? written) +
    priced(audio, prices.audioInput ?? prices.input) +
    priced(image, prices.imageInput ?? prices.input) +
    priced(video, prices.videoInput ?? prices.input) +
    priced(rest(usage.output, reasoning + audioOutput + imageOutput + videoOutput), prices.output) +
    priced(reasoning, prices.reasoning ?? prices.output) +
    priced(audioOutput, prices.audioOutput ?? prices.output) +
    priced(imageOutput, prices.imageOutput ?? prices.output) +
    priced(videoOutput, prices.videoOutput ?? prices.output)
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
  return nano >= 0 && whole <= MAX_COST ? whole : null
}

/** The largest error of fifteen sums and products in binary fractions. With it, an exact half is rounded up. */
const tolerance = (nano: number): number => nano * 2 ** -49
