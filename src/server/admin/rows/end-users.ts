/** End users that are blocked: those that requests name, of one team or of all. */
import { z } from 'zod'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, list, number, text } from '../../../core/json.ts'
import { blockedUserId, parseBlockedUser } from '../../../policy/accounts/blocked-users.ts'
import { time } from '../../../records/entities/shown.ts'
import { BLOCKED_END_USERS, END_USER_DECISION } from '../../answers/end-users.ts'
import { runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { type AdminCall, row } from '../row.ts'
import { invalid } from '../validation.ts'

const user = z
  .string()
  .min(1)
  .max(256)
  .describe('As requests name it: `user`, `safety_identifier` or `metadata.user_id`')
const team = z.string().min(1).max(200).optional().describe('ID or name; absent: in all teams')

type NamedEndUser = { readonly end_user: string; readonly team?: string | undefined }

/** Blocks or unblocks. */
const decide = async (
  deps: AdminDeps,
  call: AdminCall<unknown, unknown, NamedEndUser>,
  {
    state,
    until,
    reason,
  }: { readonly state: 'blocked' | null; readonly until: string | null; readonly reason: string },
): Promise<Outcome<{ readonly body: z.output<typeof END_USER_DECISION> }>> => {
  const { end_user, team: asked } = call.body
  const { teams } = deps.control.directory()
  const found =
    asked === undefined ? null : (teams.get(asked) ?? [...teams.values()].find(({ name }) => name === asked))
  if (found === undefined)
    return bad(fail('not_found', 'No team has this ID or name. GET /admin/api/v1/teams lists them.'))
  if (until !== null && Date.parse(until) <= deps.gateway.world.date())
    return bad(invalid([{ path: 'until', message: 'The time is in the past.' }]))
  const id = blockedUserId({ team: found?.id ?? null, user: end_user })
  const end = until === null ? null : new Date(until).toISOString()
  const result = await runFor(deps.control, call, { do: 'decide', kind: 'end_user', id, state, until: end, reason })
  if (!result.ok) return result
  const shown = found && { id: found.id, name: found.name }
  return good({ body: { object: 'end_user' as const, end_user, team: shown, blocked: state !== null } })
}

const EXAMPLE = { end_user: 'user-4711', team: { id: 'team_kdvbwqhzmrtc', name: 'search' } }

export const endUserRows = [
  row({
    method: 'GET',
    path: '/end-users/blocked',
    summary: 'List the end users that are blocked, newest first',
    role: 'viewer',
    scope: 'all',
    answer: BLOCKED_END_USERS,
    example: {
      answer: {
        object: 'list',
        data: [{ ...EXAMPLE, until: null, reason: 'abuse', actor: 'ops', at: '2026-11-23T10:00:00.000Z' }],
        has_more: false,
        next: null,
      },
    },
    async handle(deps, call) {
      const found = await runFor<unknown>(deps.control, call, { do: 'decisions' })
      if (!found.ok) return found
      const body = 'body' in found.value ? found.value.body : undefined
      const { teams } = deps.control.directory()
      const rows = list(isObject(body) ? body.data : undefined)
        .filter(isObject)
        .filter(({ kind }) => kind === 'end_user')
        .toSorted((one, other) => (number(other.at) ?? 0) - (number(one.at) ?? 0))
      const data = rows.map((one) => {
        const { team, user } = parseBlockedUser(text(one.id) ?? '')
        const until = number(one.until)
        return {
          end_user: user,
          team: team === null ? null : { id: team, name: teams.get(team)?.name ?? null },
          until: until === undefined ? null : new Date(until).toISOString(),
          reason: text(one.reason) ?? '',
          actor: text(one.actor) ?? '',
          at: new Date(number(one.at) ?? 0).toISOString(),
        }
      })
      return good({ body: { object: 'list' as const, data, has_more: false, next: null } })
    },
  }),
  row({
    method: 'POST',
    path: '/end-users/block',
    summary: 'Block an end user',
    about:
      'Its requests are refused with 403 `end_user_blocked`, in all processes, in one team or in all. Requests in progress are completed. At most 10,000 can be blocked. The audit log has the name.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({
      end_user: user,
      team,
      until: time.nullable().default(null).describe('null: until it is unblocked'),
      reason: z.string().max(1_000).default(''),
    }),
    answer: END_USER_DECISION,
    example: {
      body: { end_user: 'user-4711', reason: 'abuse' },
      answer: { object: 'end_user', end_user: 'user-4711', team: null, blocked: true },
    },
    handle: (deps, call) => decide(deps, call, { state: 'blocked', until: call.body.until, reason: call.body.reason }),
  }),
  row({
    method: 'POST',
    path: '/end-users/unblock',
    summary: 'Unblock an end user',
    about: 'Of one team, or the block for all teams.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({ end_user: user, team }),
    answer: END_USER_DECISION,
    example: {
      body: { end_user: 'user-4711' },
      answer: { object: 'end_user', end_user: 'user-4711', team: null, blocked: false },
    },
    handle: (deps, call) => decide(deps, call, { state: null, until: null, reason: '' }),
  }),
]
