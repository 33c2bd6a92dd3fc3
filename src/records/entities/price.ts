/** A price override: prices of models of a provider in place of those of the catalogue. */
import { z } from 'zod'
import type { PriceOverride, PriceRule, TokenPrices } from '../../core/accounts.ts'
import { entryId, instant, TEXT, TIME } from './member.ts'
import { shownAs } from './shown.ts'

/** The prices of tokens, in dollars per million. `price`: how one is written. */
const tokenPrices = <Price extends z.ZodType>(price: (about: string) => Price) => ({
  input: price('input'),
  output: price('output'),
  cacheRead: price('cached input; unset: as other input, and so for all parts of the input'),
  cacheWrite: price('input that is written to a cache'),
  cacheWrite1h: price('input that is written to a cache for an hour'),
  audioInput: price('audio input'),
  imageInput: price('image input'),
  videoInput: price('video input'),
  reasoning: price('reasoning; unset: as other output, and so for all parts of the output'),
  audioOutput: price('audio output'),
  imageOutput: price('image output'),
  videoOutput: price('video output'),
})

const MAX_TIERS = 10
/** The largest amount that is exact in nano-dollars. */
const MOST_DOLLARS = 9_007_199
const FACTOR = z.number().positive().max(1_000)
const ABOVE = z.int().positive()
const TIERS = 'other prices for requests with more than `above` input tokens'
const PER_CALL =
  'dollars per call of a tool that the provider runs, such as { web_search: 0.01 }; with `_prompt` (web_search_prompt) per answer with such calls'

const UNIT_NAME = z.string().regex(/^(?:seconds|characters|queries|images(?:\/[a-z0-9_.:-]{1,40}){0,2})$/)
const PER_UNIT =
  'dollars per second of audio, character, query or image, in place of the prices of tokens, such as { seconds: 0.0001 }; images also by size and quality: { "images/1024x1024/high": 0.167 }'

/** In both forms. */
const provider = TEXT.describe('provider')
const model = TEXT.describe('models of the provider, by name or glob')
const factor = FACTOR.optional().describe('multiplies the whole cost: 0.85 for a discount of 15 %')
const service = z
  .record(z.string(), FACTOR)
  .optional()
  .describe(
    'factors of the prices of tokens by service tier, speed and region, such as { batch: 0.5, fast: 6, us: 1.1 }; they multiply each other',
  )

// ── headgate.yaml: decimal texts, or numbers of which the source text is read ────────────────────────────────────────

const written = z.union([TEXT, z.number()])
const perMillion = z
  .strictObject(
    tokenPrices((about) =>
      written.optional().describe(about).meta({ allowed: 'dollars per million tokens, such as 1.25' }),
    ),
  )
  .optional()
  .describe('prices in dollars per million tokens; they replace those of the catalogue one by one')

export const PRICE_ENTRY = z.strictObject({
  id: entryId(/^prc_[a-z]{12}$/, 'prc'),
  provider,
  model,
  effectiveFrom: instant('applies to requests received from then on; unset: always'),
  factor,
  perMillion,
  tiers: z
    .array(z.strictObject({ above: ABOVE, perMillion }))
    .max(MAX_TIERS)
    .optional()
    .describe(TIERS),
  service,
  perCall: z
    .record(z.string(), written.meta({ allowed: 'dollars per call, such as 0.01' }))
    .optional()
    .describe(PER_CALL),
  perUnit: z
    .record(UNIT_NAME, written.meta({ allowed: 'dollars per unit, such as 0.0001' }))
    .optional()
    .describe(PER_UNIT),
})
export type PriceEntry = z.output<typeof PRICE_ENTRY>

/** In dollars per million tokens; below the least one a price of a token would not be a nano-dollar. */
export const PRICE_RANGE = { least: 0.001, most: 100_000 }

// ── The admin API, and the row of the database: numbers ─────────────────────────────────────────────────────────────

const { least, most } = PRICE_RANGE
const numbers = tokenPrices((about) =>
  z
    .number()
    .min(0)
    .max(most)
    .refine((price) => price === 0 || price >= least, `Write 0, or a number from ${least} to ${most}.`)
    .optional()
    .describe(about),
)

export const PRICE_BODY = z.strictObject({
  provider,
  model,
  effective_from: TIME.describe('applies to requests received from then on; null: always'),
  prices: z
    .strictObject({
      ...numbers,
      factor,
      tiers: z
        .array(z.strictObject({ above: ABOVE, ...numbers }))
        .max(MAX_TIERS)
        .optional()
        .describe(TIERS),
      service,
      perCall: z.record(z.string(), z.number().min(0).max(MOST_DOLLARS)).optional().describe(PER_CALL),
      perUnit: z.record(UNIT_NAME, z.number().min(0).max(MOST_DOLLARS)).optional().describe(PER_UNIT),
    })
    .refine((prices) => Object.keys(prices).length > 0, 'Set at least one price or a factor.')
    .describe('in dollars per million tokens; they replace those of the catalogue one by one'),
})
export type PriceBody = z.output<typeof PRICE_BODY>

export const PRICE = shownAs('price', PRICE_BODY.shape, {}).meta({ id: 'Price' })

const NANO = 1_000_000_000
const TOKENS = 1_000_000

type PartPrices = { readonly [part in keyof TokenPrices]: number | undefined }

const eachPart = (parts: PartPrices, convert: (price: number) => number): TokenPrices =>
  Object.fromEntries(
    Object.entries(parts).flatMap(([part, price]) => (price === undefined ? [] : [[part, convert(price)]])),
  )
/** Whole nano-dollars for a million tokens: 1.1 is not exact in binary, and the file reads its decimals. */
const perToken = (dollars: number): number => Math.round(dollars * NANO) / TOKENS
const inDollars = (nano: number): number => Math.round(nano * TOKENS) / NANO

const eachValue = (values: Readonly<Record<string, number>>, convert: (price: number) => number) =>
  Object.fromEntries(Object.entries(values).map(([name, price]) => [name, convert(price)]))

/** The rule of a stored body. */
export const priceRuleOf = ({
  provider: instance,
  model: models,
  effective_from,
  prices,
}: PriceBody): Omit<PriceRule, 'id' | 'managed'> => {
  const { factor: whole, tiers, service: factors, perCall, perUnit, ...parts } = prices
  const override: PriceOverride = {
    ...eachPart(parts, perToken),
    ...(tiers && { tiers: tiers.map(({ above, ...rest }) => ({ above, ...eachPart(rest, perToken) })) }),
    ...(factors && { service: factors }),
    ...(perCall && { tools: eachValue(perCall, (dollars) => Math.round(dollars * NANO)) }),
    ...(perUnit && { perUnit: eachValue(perUnit, (dollars) => Math.round(dollars * NANO)) }),
    ...(whole !== undefined && { factor: whole }),
  }
  return {
    provider: instance,
    model: models,
    effectiveFrom: effective_from === null ? 0 : Date.parse(effective_from),
    prices: override,
  }
}

/** The body of a rule. */
export const priceBodyOf = ({
  provider: instance,
  model: models,
  effectiveFrom,
  prices,
}: Omit<PriceRule, 'id' | 'managed'>): PriceBody => {
  const { factor: whole, tiers, service: factors, tools, perUnit, ...parts } = prices
  return {
    provider: instance,
    model: models,
    effective_from: effectiveFrom === 0 ? null : new Date(effectiveFrom).toISOString(),
    prices: {
      ...eachPart(parts, inDollars),
      ...(whole !== undefined && { factor: whole }),
      ...(tiers && { tiers: tiers.map(({ above, ...rest }) => ({ above, ...eachPart(rest, inDollars) })) }),
      ...(factors && { service: { ...factors } }),
      ...(tools && { perCall: eachValue(tools, (nano) => nano / NANO) }),
      ...(perUnit && { perUnit: eachValue(perUnit, (nano) => nano / NANO) }),
    },
  }
}

/** The name of a price rule: unique for what it applies to, however its time is written. */
export const priceName = (body: PriceBody): string => {
  const { provider: instance, model: models, effective_from } = priceBodyOf(priceRuleOf(body))
  return `${instance}/${models}${effective_from === null ? '' : ` from ${effective_from}`}`
}
