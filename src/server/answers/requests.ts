/** Requests of the ledger with their attempts, and kept bodies. */
import { z } from 'zod'
import { GUARD_ACTIONS, GUARD_PHASES } from '../../core/guard-verdict.ts'
import { SWITCH_ACTS } from '../../core/switch.ts'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf, named, searchedUntil } from './fields.ts'

const tokens = {
  input: count.nullable(),
  output: count.nullable(),
  cache_read: count.nullable(),
  cache_write: count.nullable(),
  reasoning: count.nullable(),
  source: z.string().nullable().describe('`exact` or `estimated`'),
}

const attempt = z.strictObject({
  n: count,
  provider: z.string(),
  model: z.string(),
  credential: z.string().optional(),
  hedge: z.boolean(),
  outcome: z.string(),
  kind: z.string().nullable(),
  status: z.int().nullable(),
  message: z.string().nullable().describe('why it failed'),
  started_ms: z.number(),
  first_content_ms: z.number().nullable(),
  ended_ms: z.number().nullable(),
  reserved: dollars,
  cost: dollars.nullable(),
  usage: z.strictObject({
    ...tokens,
    cache_write_1h: count.nullable(),
    audio_input: count.nullable(),
    audio_output: count.nullable(),
    unit: z.string().nullable().describe('what is billed where tokens are not: `seconds`, `images/1024x1024/hd`'),
    units: count.nullable(),
  }),
  price: z.strictObject({ source: z.string(), version: z.string().nullable() }),
})
const decision = z
  .strictObject({
    by: z.string().nullable().describe('how the model name was resolved: route, provider, listed or default'),
    plan: z.array(z.string()).describe('targets in their order, as provider/model'),
    more: count.describe('number of targets that `plan` does not list'),
    skipped: z
      .array(z.strictObject({ target: z.string(), key: z.string().nullable(), why: z.string() }))
      .describe('targets without an attempt, and why'),
    dropped: z.array(z.string()).describe('members of the request that were not sent'),
    limit: z.string().nullable().describe('the limit of the client that refused the request'),
    switch: z
      .strictObject({
        act: z.enum(SWITCH_ACTS),
        from: z.string().describe('the provider that its session was at'),
        cold: count.describe('tokens that were cached there and are not at the new target'),
        warm: count.describe('tokens that the new target has'),
        cost: dollars.nullable().describe('what the prompt costs more there; null: a price is not known'),
      })
      .optional()
      .describe('how a failure has moved its session, or that it came back; absent: neither'),
  })
  .meta({ id: 'RoutingDecision' })
/** A request in a list. */
export const VERDICT = z.object({
  guard: z.string(),
  phase: z.enum(GUARD_PHASES),
  action: z.enum([...GUARD_ACTIONS, 'error']).describe('`error`: its service did not answer'),
  counts: z.record(z.string(), z.number()).describe('number of found texts by label'),
})

export const REQUEST = z
  .strictObject({
    object: z.literal('request'),
    id: z.string().describe('Given by the gateway'),
    client_request_id: z
      .string()
      .nullable()
      .describe('Given by the client as `x-request-id`; others may have the same. Null: none'),
    received_at: time,
    ended_at: time.nullable(),
    style: z.string(),
    stream: z.boolean(),
    asked: z.string(),
    route: z.string().nullable(),
    provider: z.string().nullable(),
    model: z.string().nullable(),
    key: named,
    team: named,
    end_user: z.string().nullable(),
    client: z
      .string()
      .nullable()
      .describe('The kind of client, such as `claude-code`, `openai-sdk` or `other`; null: unknown'),
    tags: z.record(z.string(), z.string()),
    outcome: z.string(),
    status: z.int(),
    code: z.string().nullable(),
    message: z.string().nullable().describe('why it failed, as the client received it'),
    trail: z.string().nullable(),
    cache: z.string(),
    first_content_ms: z.number().nullable(),
    total_ms: z.number().nullable(),
    overhead_us: z.number().nullable(),
    usage: z.strictObject(tokens),
    cost: dollars.nullable(),
    saved: dollars,
    require: z.string().nullable().describe('what was required of its data: `region=eu; retention=0`; null: nothing'),
    session: z.string().nullable().describe('the ID of its session: `ses_…`, or `gss_…` if it is guessed; null: none'),
    agent: z.string().nullable().describe('its agent in the session; null: the main one'),
    guards: z.array(VERDICT).describe('verdicts of guards, the strictest first; never with a text'),
    more_guards: z.number().describe('verdicts that the list leaves out'),
    trace: z.string().nullable(),
    node: z.string().optional(),
    decision: decision.nullable(),
    bodies: z
      .boolean()
      .optional()
      .describe('Whether this gateway has kept its bodies; absent in events, and if bodies.db cannot be read'),
    attempts: z.array(attempt),
  })
  .meta({ id: 'Request' })
/** A request as the event at its end has it: without what only the ledger has. */
export const ENDED_REQUEST = REQUEST.omit({ attempts: true }).partial({
  route: true,
  end_user: true,
  tags: true,
  message: true,
  trail: true,
  saved: true,
  require: true,
  session: true,
  agent: true,
  guards: true,
  more_guards: true,
  trace: true,
  decision: true,
})

/** A request that was asked for by its ID. */
export const FOUND_REQUEST = REQUEST.extend({
  same_client_id: z
    .array(z.strictObject({ id: z.string(), received_at: time }))
    .describe('Others to which the client gave the same ID, the newest first, at most 20'),
  limited_by: z
    .strictObject({ id: z.string(), name: z.string() })
    .nullable()
    .describe('The budget, team or key whose limit refused it, if it still exists'),
  trace_url: z.string().nullable().describe('Its trace in the viewer of `otel.traceUrl`; null: none was exported'),
}).meta({ id: 'FoundRequest' })

const storedBody = z
  .strictObject({
    text: z.string().nullable().describe('Redacted; null: the body is no text'),
    bytes: count.describe('Length of the whole body'),
    truncated: z.boolean().describe('`text` is only its beginning'),
    redacted: count.describe('Number of removed texts'),
    media: count.describe('Number of media that were replaced by type, length and hash'),
    sha256: z.string().optional(),
  })
  .meta({ id: 'StoredBody' })
const keptHeaders = z
  .record(z.string(), z.string())
  .describe(
    'Values of well-known headers, redacted; others are [masked], and unknown ones of received blocks are absent',
  )
const keptEvents = z.strictObject({
  types: z.array(z.string()),
  list: z
    .array(z.tuple([z.number(), count, count]))
    .describe('Of each event: ms since the request was received, bytes, and the index of its type'),
  omitted: count.describe('Number of events that are not in the list'),
})
const KEPT_BODIES = z
  .strictObject({
    path: z.string(),
    headers: keptHeaders,
    request: storedBody,
    response: z
      .strictObject({
        status: z.int(),
        headers: keptHeaders,
        events: keptEvents.nullable().describe('Null: the response was no stream'),
      })
      .nullable()
      .describe('What the client received; null: nothing'),
    attempts: z.array(
      z.strictObject({
        url: z.string(),
        sent: keptHeaders,
        received: keptHeaders,
        request: storedBody,
        status: z.int().nullable().describe('Null: the upstream sent no response'),
        answer: storedBody,
        complete: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'KeptBodies' })

/** The members of a sum of requests by their outcome. */
export const OUTCOMES = {
  answered: count,
  refused: count,
  interrupted: count,
  client_gone: count,
  unknown: count,
  failed: count.nullable().describe('Of `refused`, those with a 5xx status; null: not counted in the whole range'),
  fell_back: count.nullable(),
  cached: count.nullable(),
}
/** The kept bodies of a request. */
export const REQUEST_BODIES = z.strictObject({
  object: z.literal('request.bodies'),
  bodies: KEPT_BODIES.nullable().describe('Null: not kept'),
})

/** A request that was sent again: its ID. */
export const REPLAYED = z.strictObject({ id: z.string(), object: z.literal('request.replay') })

export const REQUESTS_PAGE = z
  .strictObject({
    ...listOf(REQUEST).shape,
    from: time,
    to: time,
    searched_until: searchedUntil,
    count: z.strictObject({ value: count, exact: z.boolean().describe('False: at least so many') }).optional(),
    histogram: z
      .strictObject({
        seconds: z.number(),
        searched_until: searchedUntil,
        data: z.array(z.strictObject({ start: time, ...OUTCOMES })),
      })
      .optional(),
  })
  .meta({ id: 'RequestsPage' })

/** Requests found by a text of their kept bodies. */
export const FOUND_TEXTS = REQUESTS_PAGE.omit({ count: true, histogram: true })
  .extend({ searched_bodies: count.describe('Requests whose bodies were searched for this page') })
  .meta({ id: 'FoundTexts' })

export const REQUEST_EXAMPLE = {
  object: 'request',
  id: 'req_kdvbwqhzmrtckdvbwqhz',
  client_request_id: null,
  received_at: '2026-11-23T10:00:00.000Z',
  ended_at: '2026-11-23T10:00:03.421Z',
  style: 'messages',
  stream: true,
  asked: 'claude-sonnet',
  route: null,
  provider: 'groq',
  model: 'llama-3.3-70b',
  key: { id: 'key_kdvbwqhzmrtc', name: 'search-prod' },
  team: { id: 'team_kdvbwqhzmrtc', name: 'search' },
  end_user: null,
  client: 'claude-code',
  tags: {},
  outcome: 'answered',
  status: 200,
  code: null,
  message: null,
  trail: 'anthropic#77c0:timeout, groq#09be:200',
  cache: 'off',
  first_content_ms: 3097,
  total_ms: 3421,
  overhead_us: 610,
  usage: { input: 812, output: 58, cache_read: 0, cache_write: 0, reasoning: 0, source: 'exact' },
  cost: '0.000251000',
  saved: '0.000000000',
  require: null,
  session: null,
  agent: null,
  guards: [{ guard: 'pii', phase: 'request', action: 'mask', counts: { EMAIL: 2 } }],
  more_guards: 0,
  trace: null,
  node: 'local',
  decision: {
    by: 'default',
    plan: ['anthropic/claude-sonnet', 'groq/llama-3.3-70b', 'openai/gpt-5'],
    more: 0,
    skipped: [],
    dropped: [],
    limit: null,
  },
  attempts: [],
}
