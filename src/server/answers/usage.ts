/** Sums of usage and cost, and their corrections. */
import { z } from 'zod'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf, searchedUntil } from './fields.ts'

const sums = {
  requests: count,
  failed: count.describe('Not answered, save those whose client disconnected'),
  refused: count
    .nullable()
    .describe('Of `failed`, those with a 4xx status, such as a limit; null: not counted in the whole range'),
  attempts: count,
  input: count,
  output: count,
  cache_read: count,
  cache_write: count,
  reasoning: count,
  cost: dollars,
  saved: dollars,
  lost: dollars.describe('The part of `cost` of attempts that delivered no whole answer'),
  estimated: count.describe('Attempts whose usage is estimated'),
  unpriced: count.describe('Attempts without a known price'),
  first_content_ms: z.number().nullable(),
  total_ms: z.number().nullable(),
}

const dimension = z.string().nullable().optional()
export const USAGE_ENTRY = z
  .strictObject({
    start: z.string().optional(),
    team: dimension,
    key: dimension,
    model: dimension,
    provider: dimension,
    tag: dimension,
    style: dimension,
    route: dimension,
    client: dimension,
    session: dimension,
    ...sums,
  })
  .meta({ id: 'UsageEntry' })

export const USAGE_REPORT = z
  .strictObject({
    ...listOf(USAGE_ENTRY).shape,
    from: time,
    to: time,
    searched_until: searchedUntil,
    total: z.strictObject(sums),
    names: z.record(z.string(), z.string()).describe('Of the teams and keys in `data`, by ID; deleted ones included'),
  })
  .meta({ id: 'UsageReport' })

export const END_USER_REPORT = z
  .strictObject({
    ...listOf(
      z
        .strictObject({
          end_user: z.string(),
          requests: count,
          failed: count,
          input: count,
          output: count,
          cost: dollars,
          last_at: time.describe('When its last request was received'),
        })
        .meta({ id: 'EndUserUsage' }),
    ).shape,
    from: time.describe('Where reading began: later than asked for, if the range has too many requests'),
    to: time,
    is_complete: z.boolean().describe('All requests of the range were read'),
  })
  .meta({ id: 'EndUserReport' })

/** The comparison with an invoice. */
export const RECONCILIATION = z
  .strictObject({
    object: z.literal('list'),
    provider: z.string(),
    data: z.array(
      z.strictObject({
        day: z.string().describe('In UTC'),
        model: z.string().nullable().describe('null: the invoice does not state it'),
        ours: dollars,
        adjusted: dollars.describe('Adjustments that were written for this line before'),
        theirs: dollars,
        difference: dollars.describe('What is missing in ours and in the adjustments'),
        estimated: z.int().describe('Attempts of ours whose usage is estimated'),
        unpriced: z.int().describe('Attempts of ours without a known price'),
      }),
    ),
    total: z.strictObject({ ours: dollars, adjusted: dollars, theirs: dollars, difference: dollars }),
    applied: z.int().describe('Adjustments that were written'),
    has_more: z.literal(false),
    next: z.null(),
  })
  .meta({ id: 'Reconciliation' })

/** The comparison with the current prices. */
export const REPRICING = z
  .strictObject({
    object: z.literal('list'),
    from: time,
    to: time,
    data: z.array(
      z.strictObject({
        day: z.string().describe('In UTC'),
        key: z.string().nullable(),
        provider: z.string(),
        model: z.string(),
        attempts: z.int(),
        cost: dollars.describe('As in the ledger'),
        adjusted: dollars.describe('Adjustments that were written for this line before'),
        now: dollars.describe('By the current prices'),
        difference: dollars,
      }),
    ),
    total: z.strictObject({ cost: dollars, adjusted: dollars, now: dollars, difference: dollars }),
    skipped: z.int().describe('Attempts with a cost stated by the upstream, without counts, or without a price now'),
    applied: z.int().describe('Adjustments that were written'),
    has_more: z.literal(false),
    next: z.null(),
  })
  .meta({ id: 'Repricing' })
