/** Plans: where a request would be routed. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { listOf } from './fields.ts'
import { LEFT_OUT_REASON } from './shadows.ts'

const plannedTarget = z.looseObject({
  provider: z.string(),
  model: z.string(),
  because: z.string(),
  when: z.string().optional().describe('The condition of the target, which the request meets'),
  override: z.string().optional().describe('What is changed in requests to the target'),
  role: z
    .enum(['target', 'fallback', 'failover'])
    .optional()
    .describe('`fallback`: of the list of the route; `failover`: by the setting `fallback`'),
  share: z.number().optional().describe('Of the requests for which it is first, if requests draw their order'),
  fit: z.boolean().optional().describe('Whether it supports everything the request requires'),
  cache: z
    .looseObject({
      tokens: z.number(),
      chance: z.number().describe('That they are still there, from 0 to 1'),
      expires_in: z.number().nullable().describe('In seconds; null: not documented, or there is nothing'),
      scope: z.string().optional().describe('Whose cache it is, for operators'),
    })
    .optional()
    .describe('What the target has of the session in its cache; absent: the session is not known'),
  if_failed: z
    .looseObject({
      act: z.enum(['key', 'move']),
      cost: z.string().nullable().describe('Dollars more for the prompt; null: a price is not known'),
      seconds: z.number().nullable().describe('Until the first content, more; null: not known'),
    })
    .nullable()
    .optional()
    .describe('What becomes of the request if the target fails; null: nothing follows'),
  keys: z
    .array(
      z.looseObject({
        id: z.string(),
        may_be_tried: z.boolean(),
        because: z.string().optional().describe('Why not'),
        until: time.nullable().optional(),
      }),
    )
    .optional(),
})

/** The plan of a request, as POST /v1/route returns it. */
export const PLAN = z.looseObject({
  model: z.string(),
  by: z.string().describe('How the name was resolved'),
  style: z.string(),
  strategy: z.string().optional().describe('How requests choose among the first targets, if they do'),
  drawn: z
    .boolean()
    .optional()
    .describe('Whether each request draws which of several targets is first: `share` states how often each is'),
  targets: z.array(plannedTarget),
  skipped: z.array(z.looseObject({ provider: z.string(), why: z.string() })),
})

/** The plan for a client. */
export const EXPLANATION = PLAN.extend({
  as: z.strictObject({ id: z.string(), name: z.string(), status: z.string() }).nullable(),
  refused: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  shadow: z
    .strictObject({
      provider: z.string(),
      model: z.string().nullable().describe("Null: the provider's default model"),
      percent: z.number().describe('Of the sessions'),
      left_out: LEFT_OUT_REASON.nullable().describe('Why the request has no copy; null: it may have one'),
    })
    .optional()
    .describe('Where copies of requests of the route go; absent: it has no shadow'),
})
  .describe('The plan, as POST /v1/route returns it')
  .meta({ id: 'Explanation' })

export const TARGET = z.strictObject({ provider: z.string(), model: z.string() })

const ROUTE_PLAN = z
  .looseObject({
    model: z.string().describe('The name of the route'),
    answers: TARGET.nullable().describe('The target that would be tried first; null: none can be tried'),
    before: TARGET.nullable().describe('The same without `assume`'),
    loses: z
      .array(z.string())
      .describe('Capabilities that `before` has and `answers` does not have; empty if the catalogue lacks a model'),
    error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  })
  .describe('The plan of a route, as POST /v1/route returns it')
  .meta({ id: 'RoutePlan' })

/** The plans of all routes. */
export const ROUTE_PLANS = listOf(ROUTE_PLAN)
