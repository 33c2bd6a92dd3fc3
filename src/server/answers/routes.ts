/** Routes with what they did. */
import { z } from 'zod'
import { dollars, time } from '../../records/entities/shown.ts'
import { TARGET } from './explain.ts'
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

const perHour = dollars.nullable()
const WHAT_IF_NAME = z
  .strictObject({
    object: z.literal('what_if_name'),
    name: z.string().describe('Of a route, or the model as clients name it'),
    direct: z.boolean().describe('A model that requests name directly'),
    team: named.describe('The team whose own route it is'),
    style: z.string(),
    requests: count.describe('For this name'),
    before: TARGET.nullable().describe('The target that is tried first now; null: none can be tried'),
    answers: TARGET.nullable().describe('The same under the assumption'),
    loses_target: z.boolean(),
    loses: z.array(z.string()).describe('Capabilities that `before` has and `answers` does not have'),
    affected: count.describe('Requests that the missing providers answered'),
    cost_per_hour: perHour.describe('What these cost; null: the cost of one is unknown'),
    substitute_per_hour: perHour.describe('What their tokens would cost at `answers`; null: its price is unknown'),
    extra_per_hour: perHour.describe('The difference'),
  })
  .meta({ id: 'WhatIfName' })

export const WHAT_IF = listOf(WHAT_IF_NAME).extend({
  from: time,
  to: time,
  searched_until: searchedUntil,
  hours: z.number().describe('Hours by which costs are divided: since the first of these requests'),
})
