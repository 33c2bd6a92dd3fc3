/** Budgets in lists, their counters, and adjustments of both. */
import { z } from 'zod'
import { BUDGET, BUDGET_COUNTER, FORECAST } from '../../records/entities/budget.ts'
import { dollars, time } from '../../records/entities/shown.ts'
import { listOf } from './fields.ts'

export const LISTED_BUDGET = BUDGET.extend({
  forecast: FORECAST.nullable().optional().describe('With `forecast=true`; null: it could not be read'),
})

export const BUDGET_COUNTERS = listOf(BUDGET_COUNTER)

export const ADJUSTMENT = z
  .strictObject({
    id: z.string(),
    object: z.literal('adjustment'),
    at: time,
    budget: z.string().nullable(),
    of: z.string().nullable().describe('The counter of a budget; empty: one counter for all'),
    key: z.string().nullable(),
    amount: dollars.describe('Added to what is spent; negative for a credit'),
    reason: z.string(),
    actor: z.string(),
  })
  .meta({ id: 'Adjustment' })

export const ADJUSTED_BUDGET = z
  .strictObject({
    ...ADJUSTMENT.shape,
    counter: BUDGET_COUNTER.nullable().describe('The figures that decide about requests now'),
  })
  .meta({ id: 'AdjustedBudget' })
