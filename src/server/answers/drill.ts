/** What routes would lose if something failed. */
import { z } from 'zod'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf } from './fields.ts'

const share = z.number().min(0).max(1)

const FINDING = z.strictObject({
  provider: z.string(),
  model: z.string(),
  verdict: z.enum(['ready', 'lossy', 'doubt', 'refused']).describe('`doubt`: unknown; `lossy`: without a part of them'),
  by: z.string().nullable().describe('The part of requests that is refused, or the reason'),
  source: z.enum(['dry', 'live', 'real']).describe('`dry`: nothing was sent'),
  at: time.nullable().describe('When it was seen; null: by what is known now'),
})

const CAUSE = z.strictObject({
  requests: count,
  share,
  text: z.string().describe('As a sentence: `tools are refused by house/m1`'),
  targets: z.array(FINDING).describe('The next targets, in their order; empty: none is left'),
})

const UNIT = z.strictObject({
  unit: z.string().describe('`openai`, `openai/gpt-5-mini`, `openai#a1f3` (a key), `region:eu`'),
  name: z.string(),
  lost: share
    .nullable()
    .describe('The share of the requests of the route that no other target would serve; null: no request is known'),
  unknown: share.nullable().describe('The share of which that is not known'),
  lossy: share.nullable().describe('The share that the next target would serve without a part of the request'),
  causes: z.array(CAUSE).describe('Why requests would be lost, the most frequent first'),
  sentence: z.string(),
})

export const DRILLED_ROUTE = z
  .strictObject({
    object: z.literal('drilled_route'),
    route: z.string(),
    requests: count.describe('Estimated from a sample'),
    allow: z
      .number()
      .nullable()
      .describe('Percent of them that may be lost, as the route states it; null: it states none'),
    units: z.array(UNIT).describe('What can fail'),
  })
  .meta({ id: 'DrilledRoute' })

const LIVE_RUN = z
  .strictObject({
    began: time,
    ended: time.nullable().describe('Null: it is in progress'),
    sent: count.describe('Requests'),
    spent: dollars,
    ready: count.describe('Shapes that a target has accepted'),
    refused: count.describe('Shapes that a target has refused'),
    unsettled: count.describe(
      'Shapes without a verdict: by a rate limit, which are tried on two more days, or as a limit is inside a step of amounts',
    ),
    left: z
      .record(z.string(), z.int())
      .describe(
        'What was left out, by reason: `budget`, `unpriced`, `unavailable` (an open circuit, no key, little quota left), `limits`, `other_gateway`, `stopped`',
      ),
  })
  .meta({ id: 'DrillRun' })

export const DRILL = listOf(DRILLED_ROUTE).extend({
  live: LIVE_RUN.nullable().describe(
    'The live checks in progress, or the last ones since the start; null: there were none',
  ),
  enabled: z.boolean().describe('Whether shapes of requests are counted (`drill.shapes`)'),
  from: time.nullable().describe('Of the requests; null: no drill has run'),
  to: time.nullable(),
})

const DRILL_SHAPE = z
  .strictObject({
    object: z.literal('drill_shape'),
    route: z.string(),
    access: z
      .string()
      .describe('The class of clients: their lists of models and providers, and their data policy; empty: all'),
    shape: z.string().describe('For `headgate drill --shapes`; `other`: not known'),
    requests: count,
    style: z.string().nullable(),
    features: z.array(z.string()).describe('What the requests have'),
    amounts: z.record(z.string(), z.int()).describe('The upper ends of steps; tokens of input and output'),
  })
  .meta({ id: 'DrillShape' })

export const DRILL_SHAPES = listOf(DRILL_SHAPE)
