/** Live checks of the fallback drill, and what they have found. */
import { z } from 'zod'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf } from './fields.ts'

const LIVE_RUN = z
  .strictObject({
    began: time,
    ended: time.nullable().describe('Null: it is in progress'),
    sent: count.describe('Requests'),
    spent: dollars,
    ready: count.describe('Shapes that a target has accepted'),
    refused: count.describe('Shapes that a target has refused'),
    unsettled: count.describe('Shapes without a verdict, such as by a rate limit: they are tried on two more days'),
    left: z
      .record(z.string(), z.int())
      .describe(
        'What was left out, by reason: `budget`, `unpriced`, `unavailable` (an open circuit, no key, little quota left), `limits`, `other_gateway`, `stopped`',
      ),
  })
  .meta({ id: 'DrillRun' })

const LIVE_RESULT = z
  .strictObject({
    object: z.literal('live_check'),
    provider: z.string(),
    model: z.string(),
    style: z.string(),
    features: z.array(z.string()).describe('What the requests have'),
    verdict: z.enum(['ready', 'refused', 'unsettled']),
    by: z
      .string()
      .nullable()
      .describe('What is refused: `tool.pattern`, `tools.128`, `image.png`; `target`: every request; null: nothing'),
    at: time,
  })
  .meta({ id: 'LiveCheck' })

export const LIVE_CHECKS = listOf(LIVE_RESULT).extend({
  run: LIVE_RUN.nullable().describe('The one in progress, or the last one since the start; null: there was none'),
})
