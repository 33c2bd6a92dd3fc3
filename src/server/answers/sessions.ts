/** Sessions of agents. */
import { z } from 'zod'
import { dollars, time } from '../../records/entities/shown.ts'
import { count, listOf, named, searchedUntil } from './fields.ts'

export const SESSION = z
  .strictObject({
    object: z.literal('session'),
    id: z.string().describe('`ses_…`, or `gss_…` if it is guessed'),
    name: z.string().nullable().describe('As the client names it; null: it is guessed'),
    state: z.enum(['active', 'ended']).describe('`ended`: no request for 24 hours, or for 30 minutes if it is guessed'),
    key: named,
    team: named,
    client: z.string().nullable(),
    started_at: time,
    last_at: time.describe('When its last request was received'),
    requests: count,
    failed: count,
    attempts: count,
    agents: count.describe('With requests that are kept, the main one included'),
    input: count,
    output: count,
    cache_read: count,
    cache_write: count,
    most_input: count.describe('Input tokens of its largest request'),
    cost: dollars,
  })
  .meta({ id: 'AgentSession' })

export const SESSIONS_PAGE = z.strictObject({
  ...listOf(SESSION).shape,
  from: time,
  to: time,
  searched_until: searchedUntil,
})

export const FOUND_SESSION = SESSION.extend({
  by_agent: z
    .array(
      z.strictObject({
        agent: z.string().nullable().describe('null: the main one'),
        requests: count,
        input: count,
        output: count,
        cost: dollars,
        started_at: time,
        last_at: time,
      }),
    )
    .describe('By requests that are kept, the most expensive first, at most 100'),
  stopped: z
    .strictObject({ message: z.string(), until: time.nullable(), actor: z.string(), at: time })
    .nullable()
    .describe('By an operator; null: it is not stopped'),
}).meta({ id: 'AgentSessionDetails' })

export const SESSION_DECISION = z
  .strictObject({ object: z.literal('session'), id: z.string(), stopped: z.boolean() })
  .meta({ id: 'SessionDecision' })

export const SESSION_EXAMPLE = {
  object: 'session',
  id: 'ses_kdvbwqhzmrtc',
  name: '6abc6a22-10e9-42bd-ac97-428b69359906',
  state: 'active',
  key: { id: 'key_kdvbwqhzmrtc', name: 'ci' },
  team: { id: 'team_kdvbwqhzmrtc', name: 'search' },
  client: 'claude-code',
  started_at: '2026-11-23T09:00:00.000Z',
  last_at: '2026-11-23T10:00:00.000Z',
  requests: 64,
  failed: 1,
  attempts: 66,
  agents: 3,
  input: 2_410_000,
  output: 31_000,
  cache_read: 2_100_000,
  cache_write: 240_000,
  most_input: 96_000,
  cost: '2.410000000',
} as const
