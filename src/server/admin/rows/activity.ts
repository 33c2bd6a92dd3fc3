/** Figures and charts of requests and of the attempts at providers, from the ledger. */
import { z } from 'zod'
import { bad, good } from '../../../core/failure.ts'
import { dollars, time } from '../../../records/entities/shown.ts'
import {
  ACTIVITY_PARAMETERS,
  LANES_PARAMETERS,
  rangeOf,
  SUMMARY_PARAMETERS,
} from '../../../usage/reading/parameters.ts'
import { count, searchedUntil } from '../../answers/fields.ts'
import { OUTCOMES } from '../../answers/requests.ts'
import { id } from '../fields.ts'
import { limitedKeys, transitionsOf } from '../provider-history.ts'
import { row } from '../row.ts'
import { EMPTY_RANGE, scoped, shown, summed } from '../usage-query.ts'

const share = z.number().nullable()
const figures = {
  requests: count,
  per_minute: z.number(),
  answered_share: share.describe('Of requests that were not refused (4xx) and whose client stayed'),
  outcomes: z.strictObject(OUTCOMES),
  p50_ms: share,
  p95_ms: share,
  first_content_p50_ms: share,
  first_content_p95_ms: share,
  overhead_p95_us: share,
  cost: dollars,
  saved: dollars,
}
const summary = z
  .strictObject({
    object: z.literal('summary'),
    from: time,
    to: time,
    searched_until: searchedUntil,
    seconds: z.number(),
    figures: z.strictObject(figures),
    before: z.strictObject(figures).nullable(),
    series: z.array(z.strictObject({ start: time, ...figures })),
  })
  .meta({ id: 'Summary' })

const lanes = z
  .strictObject({
    object: z.literal('lanes'),
    provider: z.string(),
    from: time,
    to: time,
    searched_until: searchedUntil,
    seconds: z.number(),
    data: z.array(
      z.strictObject({
        credential: z.string(),
        model: z.string(),
        cells: z.array(
          z.strictObject({
            start: time,
            attempts: count,
            failed: count,
            limited: count,
            open: count,
            slowest_ms: z.number().nullable(),
          }),
        ),
      }),
    ),
    transitions: z
      .array(
        z.strictObject({
          at: time,
          what: z.enum(['deployment', 'model', 'endpoint', 'proxy', 'answers', 'provider', 'key']),
          credential: z.string().nullable(),
          model: z.string().nullable(),
          from: z.string(),
          to: z.string(),
          why: z.string().nullable().describe('The kind of the failure, or what happened'),
          until: time.nullable(),
          request: z.string().nullable(),
          node: z.string().nullable(),
        }),
      )
      .describe('Changes of its circuits and keys since each process has started, the oldest first'),
    keys: z
      .array(
        z.strictObject({
          credential: z.string(),
          model: z.string().nullable().describe('null: at all models'),
          status: z.string(),
          until: time.nullable(),
          node: z.string().nullable(),
        }),
      )
      .describe('Keys that are not used now, alone or at one model'),
    failures: z.array(
      z.strictObject({
        at: time,
        request: z.string(),
        credential: z.string(),
        model: z.string(),
        kind: z.string().nullable(),
        status: z.int().nullable(),
      }),
    ),
  })
  .meta({ id: 'Lanes' })

const activityCell = z.strictObject({
  start: time,
  attempts: count,
  failed: count.describe('counted by circuits, and broken streams'),
  limited: count.describe('by rate limits and quotas'),
  slowest_ms: z.number().nullable(),
})
const activity = z
  .strictObject({
    object: z.literal('activity'),
    from: time,
    to: time,
    searched_until: searchedUntil,
    seconds: z.number(),
    data: z.array(
      z.strictObject({
        provider: z.string(),
        attempts: count,
        failed: count,
        limited: count,
        p50_ms: z.number().nullable(),
        p95_ms: z.number().nullable(),
        first_content_p50_ms: z.number().nullable(),
        histogram: z.array(z.strictObject({ most_ms: z.number().nullable(), attempts: count })),
        errors: z.array(z.strictObject({ kind: z.string(), status: z.int().nullable(), count, last_at: time })),
        cells: z.array(activityCell).describe('without those that have no attempts'),
      }),
    ),
  })
  .meta({ id: 'Activity' })

export const activityRows = [
  row({
    method: 'GET',
    path: '/summary',
    summary: 'Sum up requests, latencies and cost, with a series for charts',
    about: 'By default of the last hour. `compare` adds the range before.',
    role: 'viewer',
    scope: 'team',
    query: SUMMARY_PARAMETERS,
    answer: summary,
    example: { query: { compare: 'true' } },
    async handle(deps, { query, teams }) {
      const whole = scoped(deps, summed(query, deps.gateway.config()), 'summary', teams)
      return whole.ok ? shown(await deps.usage.summary(whole.value)) : whole
    },
  }),
  row({
    method: 'GET',
    path: '/providers/activity',
    summary: 'Sum up the attempts at each provider over time',
    about: 'By default of the last hour. Providers without attempts are left out.',
    role: 'viewer',
    scope: 'all',
    query: ACTIVITY_PARAMETERS,
    answer: activity,
    example: { query: { cells: '60' } },
    async handle({ usage, gateway }, { query }) {
      const range = rangeOf(query, 'lanes', gateway.world.date())
      if (!range) return bad(EMPTY_RANGE)
      return shown(await usage.activity({ ...query, ...range }))
    },
  }),
  row({
    method: 'GET',
    path: '/providers/{id}/lanes',
    summary: 'Show the attempts at a provider over time, by credential and model',
    role: 'viewer',
    scope: 'all',
    params: id,
    query: LANES_PARAMETERS,
    answer: lanes,
    example: { params: { id: 'openai' }, query: { cells: '60' } },
    async handle(deps, { params, query }) {
      const { usage, gateway } = deps
      const range = rangeOf(query, 'lanes', gateway.world.date())
      if (!range) return bad(EMPTY_RANGE)
      const [found, transitions, keys] = await Promise.all([
        usage.lanes({ ...query, ...range, provider: params.id }),
        transitionsOf(deps, params.id, range),
        limitedKeys(deps, params.id),
      ])
      return found.ok ? good({ body: { ...found.value, transitions, keys } }) : found
    },
  }),
]
