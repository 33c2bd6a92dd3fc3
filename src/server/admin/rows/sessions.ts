/** Sessions: the requests of one conversation of an agent and of its sub-agents. */
import { z } from 'zod'
import { bad, fail, good } from '../../../core/failure.ts'
import { SESSION_ID } from '../../../core/session.ts'
import { SESSIONS_PARAMETERS } from '../../../usage/reading/parameters.ts'
import { FOUND_SESSION, SESSION_EXAMPLE, SESSIONS_PAGE } from '../../answers/sessions.ts'
import { row } from '../row.ts'
import { scoped, shown } from '../usage-query.ts'

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
      },
    },
    async handle({ usage }, { params: { id }, teams }) {
      const found = await usage.session({ id, team: teams })
      if (!found.ok) return found
      return found.value ? good({ body: found.value }) : bad(NO_SESSION)
    },
  }),
]

const NO_SESSION = fail(
  'not_found',
  'No session has this ID. GET /admin/api/v1/sessions lists them; they are kept for 30 days, and appear a second after a request ends.',
)
