/** Prices of models. */
import { z } from 'zod'
import { count, listOf } from './fields.ts'

const perMillion = z.number().optional().describe('Dollars per million tokens')

/** What applies to a model now. */
const PRICES_NOW = {
  prices: z
    .looseObject({ input: perMillion, output: perMillion, cacheRead: perMillion, cacheWrite: perMillion })
    .nullable()
    .describe('As in `POST /prices`; null: no price is known'),
  source: z.enum(['catalogue', 'override', 'none']),
  rule: z.string().nullable().describe('The ID of the price override'),
}

export const PRICED_MODELS = z
  .strictObject({
    ...listOf(z.strictObject({ provider: z.string(), model: z.string(), ...PRICES_NOW })).shape,
    catalogue: z.string().nullable().describe('The date of the catalogue'),
    total: count.describe('Models that match'),
  })
  .meta({ id: 'PricedModels' })

const day = z.string().nullable()

export const UNPRICED_MODELS = listOf(
  z
    .strictObject({
      provider: z.string(),
      model: z.string(),
      attempts: count.describe('Attempts without a known price'),
      since: day.describe('The first day with such an attempt'),
      last: day.describe('The last one'),
      ...PRICES_NOW,
    })
    .meta({ id: 'UnpricedModel' }),
)
