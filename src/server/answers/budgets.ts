/** Budgets in lists, their counters, and adjustments of both. */
import { z } from 'zod'
import { BUDGET, BUDGET_COUNTER, FORECAST } from '../../records/entities/budget.ts'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf } from './fields.ts'

const names = z.record(z.string(), z.string()).default({}).describe('Of the teams and keys in `data`, by ID')

const OWNERS = z
  .strictObject({
    count: count.describe('Those that have spent something in this period'),
    spent: count.describe('Those that have spent the whole amount'),
    near: count.describe('Those that have spent 80 % of it, but not all'),
    fullest: BUDGET_COUNTER.nullable().describe('null: no owner has spent anything'),
  })
  .meta({ id: 'BudgetOwners' })

export const LISTED_BUDGET = BUDGET.extend({
  owners: OWNERS.nullable().optional().describe('Of a budget with a counter for each owner; null: it has one for all'),
  forecast: FORECAST.nullable().optional().describe('With `forecast=true`; null: it could not be read'),
})

export const BUDGET_LIST = listOf(LISTED_BUDGET).extend({ names })

export const BUDGET_COUNTERS = listOf(BUDGET_COUNTER).extend({ names })

const BUDGET_END = z
  .strictObject({
    object: z.literal('budget_end'),
    budget: z.string(),
    name: z.string().describe('Of the budget'),
    of: z.string().describe('The owner of the counter; empty: one counter for all'),
    team: z.string().nullable().describe('The team whose requests it counts, all of them and no others'),
    amount: dollars,
    spent: dollars,
    forecast: FORECAST,
  })
  .meta({ id: 'BudgetEnd' })

export const BUDGET_ENDS = listOf(BUDGET_END).extend({
  names,
  left_out: count.describe('Counters without an estimate, the least full ones'),
})

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
