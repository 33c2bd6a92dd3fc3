/** Shadows of routes, and what was compared. */
import { z } from 'zod'
import { LEFT_OUT, type LeftOut } from '../../core/shadow.ts'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf, processes } from './fields.ts'

const mean = z.number().nullable().describe('Null: no pair has it')

const MEANS = z
  .strictObject({
    first_content_ms: mean,
    total_ms: mean,
    input_tokens: mean,
    output_tokens: mean,
    characters: mean,
    cost: dollars.nullable().describe('Of all pairs whose costs are known together; null: there is none'),
  })
  .meta({ id: 'ShadowMeans' })

const SIDE = z
  .strictObject({
    provider: z.string().nullable(),
    model: z.string().nullable(),
    status: z.int(),
    failure: z.string().nullable().describe('The kind of failure; null: it has answered'),
    first_content_ms: z.number().nullable(),
    total_ms: z.number(),
    input_tokens: z.int().nullable(),
    output_tokens: z.int().nullable(),
    estimated: z.boolean(),
    cost: dollars.nullable().describe('Null: unknown'),
    finish: z.string().nullable(),
    tools: z.array(z.string()),
    characters: z.int(),
  })
  .meta({ id: 'ShadowSide' })

const PAIR = z
  .strictObject({
    id: z.string().describe('Of the request of the client, in /requests'),
    copy: z.string().describe('Of its copy, in /requests'),
    at: time,
    style: z.string(),
    stream: z.boolean(),
    client: SIDE,
    shadow: SIDE,
  })
  .meta({ id: 'ShadowPair' })

// The names of an object of this program.
const REASONS = Object.keys(LEFT_OUT) as [LeftOut, ...LeftOut[]]
export const LEFT_OUT_REASON = z.enum(REASONS)

export const SHADOW = z
  .strictObject({
    object: z.literal('shadow'),
    route: z.string(),
    target: z.string().describe('`provider/model`'),
    percent: z.number(),
    per_minute: z.int().describe('Copies a minute of each process, at most'),
    budget: z.string().describe('The name of its budget, in /budgets'),
    stopped: z.string().nullable().describe('Why no copies are sent any more, in some process; null: they are'),
    sent: count,
    answered: count,
    failed: count,
    waiting: count,
    left_out: z
      .array(z.strictObject({ reason: LEFT_OUT_REASON, count }))
      .describe(`Drawn requests without a copy. ${REASONS.map((name) => `\`${name}\`: ${LEFT_OUT[name]}`).join('; ')}`),
    same_finish: count.describe('Answered pairs that ended for the same reason'),
    same_tools: count.describe('Answered pairs that call the same tools in the same order'),
    priced: count.describe('Answered pairs whose costs are both known'),
    client: MEANS.describe('Of the answers that the clients have received'),
    shadow: MEANS.describe('Of the answers to their copies'),
    recent: z.array(PAIR).describe('The last pairs, the latest first'),
  })
  .meta({ id: 'Shadow' })

export const SHADOWS = listOf(SHADOW).extend({ processes })
