/** Routes with what they did. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { count, listOf, named, searchedUntil } from './fields.ts'

const ROUTE_TARGET = z.strictObject({
  provider: z.string(),
  model: z.string(),
  role: z
    .enum(['target', 'fallback', 'failover', 'former'])
    .describe(
      '`fallback`: of the list of the route; `failover`: by the setting `fallback`, only with attempts; `former`: it has attempts and is no longer a target',
    ),
  share: z.number().nullable().describe('How often it is first, if requests draw that; null: they do not'),
  when: z.string().nullable().describe('The condition that requests must meet'),
  override: z.string().nullable().describe('What is changed in requests to it'),
  is_canary: z.boolean(),
  retires: time.nullable().describe('When its model ends; null: no end is known'),
  attempts: count,
  answered: count.describe('Attempts that succeeded'),
  failed: count.describe('Attempts counted by circuits, and broken streams'),
  limited: count.describe('Attempts refused by rate limits and quotas'),
  first_content_p50_ms: z.number().nullable().describe('Of the newest answers, 200 of each five minutes'),
})

const ROUTE_ACTIVITY = z
  .strictObject({
    object: z.literal('route_activity'),
    name: z.string().describe('The name of the route, or `auto`: the default route'),
    id: z.string().nullable().describe("The ID of a team's own route; null: it is of headgate.yaml"),
    team: named.describe('The team whose own route it is'),
    strategy: z.string().describe('How the order of its targets is chosen'),
    drawn: z.boolean().describe('Whether each request draws which target is first'),
    problem: z.string().nullable().describe('Why it has no target now'),
    requests: count,
    answered: count,
    cached: count.describe('The part of `answered` that came from a cache'),
    refused: count.describe('With a 4xx status'),
    failed: count.describe('With a 5xx status, or a broken stream'),
    targets: z.array(ROUTE_TARGET),
  })
  .meta({ id: 'RouteActivity' })

export const ROUTES_ACTIVITY = listOf(ROUTE_ACTIVITY).extend({ from: time, to: time, searched_until: searchedUntil })
