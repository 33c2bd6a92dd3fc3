/** Providers with their health, models, and decisions about both. */
import { z } from 'zod'
import { RETIREMENT_SOURCES } from '../../core/retirement.ts'
import { time } from '../../records/entities/shown.ts'
import { count, listOf, processes } from './fields.ts'

const circuit = z.looseObject({ state: z.enum(['closed', 'open', 'half_open']), retry_at: time.nullable() })
const status = z.enum(['available', 'degraded', 'unavailable'])

export const PROVIDER = z
  .looseObject({
    id: z.string(),
    node: z.string().nullable().describe('The process, such as `1/2`; each has its own circuits. null: the only one'),
    kind: z.string(),
    status,
    circuit,
    resting: z
      .strictObject({ until: time.nullable(), reason: z.string() })
      .nullable()
      .describe('An operator takes the provider out of use'),
    endpoint: z.looseObject({ status }).describe('The base URL, which all keys share'),
    keys: z.array(
      z.looseObject({
        id: z.string().describe('A fingerprint; the key itself is never shown'),
        status: z.string(),
        in_flight: z.int(),
        requests: z.int(),
        until: time.nullable(),
        reason: z.string().optional().describe('Why an operator disabled it'),
      }),
    ),
    models: z.array(
      z.looseObject({
        id: z.string(),
        status,
        circuit,
        latency_ms: z
          .strictObject({ first_content_p50: z.number().nullable() })
          .describe('Median of its own last answers; null: none yet'),
        keys: z
          .array(z.looseObject({ id: z.string(), status: z.string(), until: time.nullable(), circuit }))
          .describe('The state of each key at this model'),
      }),
    ),
    minutes: z
      .array(
        z.strictObject({
          start: time,
          attempts: z.int(),
          failed: z.int().describe('Failures of the provider'),
          limited: z.int().describe('Refused because of a rate limit or a quota'),
          skipped: z.int().describe('Requests that did not try it: a circuit was open, or it was resting'),
          slowest_ms: z.number().nullable().describe('Until the first content'),
        }),
      )
      .describe('The last 60 minutes in this process, the oldest first'),
    latency_ms: z.strictObject({
      first_content_p50: z.number().nullable(),
      first_content_p95: z.number().nullable(),
    }),
    last_error: z
      .strictObject({
        at: time,
        kind: z.string(),
        code: z.string(),
        status: z.int().nullable(),
        message: z.string(),
      })
      .nullable(),
  })
  .meta({ id: 'Provider' })

export const MODEL = z
  .looseObject({
    id: z.string().describe('`provider/model`, or the name of a route'),
    owned_by: z.string(),
    display_name: z.string(),
    context_window: z.int().optional(),
    max_output_tokens: z.int().optional(),
    capabilities: z.array(z.string()).optional(),
    pricing: z
      .looseObject({
        currency: z.literal('USD'),
        per: z.literal('1M tokens'),
        input: z.number(),
        output: z.number().optional(),
      })
      .optional()
      .describe('Absent: no price is known'),
  })
  .meta({ id: 'Model' })

/** A model that its provider ends. */
const RETIRING_MODEL = z
  .strictObject({
    provider: z.string(),
    model: z.string(),
    retires: time,
    days: z.int().describe('Whole days until then; negative: it has ended'),
    source: z.enum(RETIREMENT_SOURCES).describe('`list`: of the provider; `answer`: of the model itself'),
    successor: z.string().nullable().describe('The model of the same provider that replaces it, as the file states'),
    routes: z.array(z.string()).describe('The routes with a target of it'),
    requests: count.describe('In the last 30 days'),
    teams: z
      .array(z.strictObject({ id: z.string(), name: z.string().nullable(), requests: count }))
      .describe('The teams of these requests, the most requests first; `name` null: the team was deleted'),
  })
  .meta({ id: 'RetiringModel' })

export const RETIRING = listOf(RETIRING_MODEL)

/** A decision about a key of a provider. */
export const CREDENTIAL_DECISION = z
  .strictObject({
    kind: z.literal('credential'),
    id: z.string().describe('The ID of the provider and the fingerprint of the key'),
    state: z.literal('disabled').nullable().describe('null: the key is used'),
    until: time.nullable().describe('null: until it is enabled'),
    reason: z.string(),
  })
  .meta({ id: 'CredentialDecision' })

export const CIRCUIT_ACTION = z
  .strictObject({
    object: z.literal('circuit'),
    provider: z.string(),
    action: z.enum(['open', 'close', 'probe']),
    resting: z.strictObject({ until: time, reason: z.string() }).nullable(),
    changed: z
      .int()
      .describe('Circuits that were closed and rests that were ended, or circuits that admit a probe now'),
    processes,
  })
  .meta({ id: 'CircuitAction' })
