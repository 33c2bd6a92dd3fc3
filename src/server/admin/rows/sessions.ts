/** Sessions: the requests of one conversation of an agent and of its sub-agents. */
import { z } from 'zod'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, list, number, text } from '../../../core/json.ts'
import { SESSION_ID } from '../../../core/session.ts'
import { SESSIONS_PARAMETERS } from '../../../usage/reading/parameters.ts'
import { FOUND_SESSION, SESSION_DECISION, SESSION_EXAMPLE, SESSIONS_PAGE } from '../../answers/sessions.ts'
import { runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { type AdminCall, row } from '../row.ts'
import { scoped, shown } from '../usage-query.ts'

/** ms for which a session is stopped: longer than its row is kept, and stops do not add up for ever. */
const STOPPED = 31 * 86_400_000

type SessionCall = AdminCall<{ readonly id: string }>

const decide = async (
  deps: AdminDeps,
  call: SessionCall,
  message: string | null,
): Promise<Outcome<{ readonly body: z.output<typeof SESSION_DECISION> }>> => {
  const { id } = call.params
  const until = message === null ? null : new Date(deps.gateway.world.date() + STOPPED).toISOString()
  const state = message === null ? null : 'stopped'
  const result = await runFor(deps.control, call, {
    do: 'decide',
    kind: 'session',
    id,
    state,
    until,
    reason: message ?? '',
  })
  return result.ok ? good({ body: { object: 'session' as const, id, stopped: message !== null } }) : result
}

/** The stop of a session; null: it is not stopped. */
const stopIn = async (
  { control, gateway }: AdminDeps,
  call: SessionCall,
): Promise<Outcome<z.output<typeof FOUND_SESSION>['stopped']>> => {
  const found = await runFor<unknown>(control, call, { do: 'decisions' })
  if (!found.ok) return found
  const body = 'body' in found.value ? found.value.body : undefined
  const stop = list(isObject(body) ? body.data : undefined)
    .filter(isObject)
    .find(({ kind, id }) => kind === 'session' && id === call.params.id)
  const until = number(stop?.until)
  if (!stop || (until !== undefined && until <= gateway.world.date())) return good(null)
  return good({
    message: text(stop.reason) ?? '',
    until: until === undefined ? null : new Date(until).toISOString(),
    actor: text(stop.actor) ?? '',
    at: new Date(number(stop.at) ?? 0).toISOString(),
  })
}

const params = z.strictObject({ id: z.string().regex(SESSION_ID, 'is not the ID of a session') })

export const sessionRows = [
  row({
    method: 'GET',
    path: '/sessions',
    summary: 'List sessions, newest first',
    about:
      'Those whose last request was in the range, by default in the last 24 hours; sorted by their last request, cost, requests, failures or largest input. A search ends after a second: `searched_until` states how far it came. They are kept for 30 days after their last request.',
    role: 'viewer',
    scope: 'team',
    query: SESSIONS_PARAMETERS,
    answer: SESSIONS_PAGE,
    example: {
      query: { sort: '-cost', limit: '10' },
      answer: {
        object: 'list',
        data: [SESSION_EXAMPLE],
        has_more: false,
        next: null,
        from: '2026-11-22T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
        searched_until: null,
      },
    },
    async handle(deps, { query, teams }) {
      const whole = scoped(deps, query, 'sessions', teams)
      return whole.ok ? shown(await deps.usage.sessions(whole.value)) : whole
    },
  }),
  row({
    method: 'GET',
    path: '/sessions/{id}',
    summary: 'Show a session with its agents',
    about: 'GET /requests?session=ID lists its requests.',
    role: 'viewer',
    scope: 'team',
    params,
    answer: FOUND_SESSION,
    example: {
      params: { id: SESSION_EXAMPLE.id },
      answer: {
        ...SESSION_EXAMPLE,
        by_agent: [
          {
            agent: null,
            requests: 40,
            input: 1_900_000,
            output: 22_000,
            cost: '1.900000000',
            started_at: '2026-11-23T09:00:00.000Z',
            last_at: '2026-11-23T10:00:00.000Z',
          },
        ],
        stopped: null,
      },
    },
    async handle(deps, call) {
      const found = await deps.usage.session({ id: call.params.id, team: call.teams })
      if (!found.ok) return found
      if (!found.value) return bad(NO_SESSION)
      const stopped = await stopIn(deps, call)
      return stopped.ok ? good({ body: { ...found.value, stopped: stopped.value } }) : stopped
    },
  }),
  row({
    method: 'POST',
    path: '/sessions/{id}/stop',
    summary: 'Stop a session',
    about:
      'Its requests are refused with 402 `loop_stopped` at all gateways, until it is resumed, for 31 days. Requests in progress are completed. At most 10,000 sessions can be stopped. The audit log has the message.',
    role: 'operator',
    scope: 'all',
    params,
    body: z.strictObject({ message: z.string().max(500).default('').describe('for the client') }),
    answer: SESSION_DECISION,
    example: {
      params: { id: SESSION_EXAMPLE.id },
      body: { message: 'it repeats the same build' },
      answer: { object: 'session', id: SESSION_EXAMPLE.id, stopped: true },
    },
    handle: (deps, call) => decide(deps, call, call.body.message),
  }),
  row({
    method: 'POST',
    path: '/sessions/{id}/resume',
    summary: 'Serve a stopped session again',
    role: 'operator',
    scope: 'all',
    params,
    answer: SESSION_DECISION,
    example: {
      params: { id: SESSION_EXAMPLE.id },
      answer: { object: 'session', id: SESSION_EXAMPLE.id, stopped: false },
    },
    handle: (deps, call) => decide(deps, call, null),
  }),
]

const NO_SESSION = fail(
  'not_found',
  'No session has this ID. GET /admin/api/v1/sessions lists them; they are kept for 30 days, and appear a second after a request ends.',
)
