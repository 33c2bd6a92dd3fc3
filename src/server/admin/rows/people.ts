/** People who sign in with single sign-on. */
import { z } from 'zod'
import { bad, good, type Outcome } from '../../../core/failure.ts'
import type { JsonObject } from '../../../core/json.ts'
import type { ControlOperation } from '../../../records/store/record-operations.ts'
import { listOf } from '../../answers/fields.ts'
import { PERSON, PERSON_BINDINGS } from '../../answers/people.ts'
import { contextOf, defined, failureOf } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { page } from '../fields.ts'
import { type AdminCall, type Answered, row } from '../row.ts'

const ID = z.strictObject({ id: z.string().regex(/^usr_[a-z]{12}$/) })

type Person = z.output<typeof PERSON>

/** As the database has it: without what follows from the settings. */
type StoredPerson = Omit<Person, 'roles' | 'team'>

const shownAs = (deps: Pick<AdminDeps, 'signIn'>, stored: StoredPerson): Person => {
  const { roles, team } = deps.signIn.membershipOf(stored)
  const byGroups = roles.map((one) => ({ ...one, by: one.group === null ? ('everyone' as const) : ('group' as const) }))
  const byHand = stored.bindings.map((one) => ({ ...one, by: 'hand' as const, group: null }))
  return { ...stored, roles: [...byGroups, ...byHand], team }
}

/** Runs an operation whose result is made into an answer. */
const runThen = async <T>(
  { control }: AdminDeps,
  call: AdminCall,
  operation: ControlOperation,
  answerOf: (value: JsonObject) => T,
): Promise<Outcome<Answered<T>>> => {
  const result = await control.run(operation, contextOf(call))
  return result.ok ? good({ body: answerOf(result.value) }) : bad(failureOf(result.error))
}

// The thread returns plain JSON. A test validates the answer of every row by its schema.
const personIn = (value: JsonObject): StoredPerson => value as unknown as StoredPerson

const EXAMPLE: Person = {
  id: 'usr_kdvbwqhzmrtc',
  object: 'person',
  issuer: 'https://corp.okta.com',
  subject: '00u1a2b3c4',
  provider: 'okta',
  email: 'ann@corp.example',
  name: 'Ann Lee',
  status: 'active',
  groups: ['ai-admins'],
  roles: [{ role: 'admin', team: null, by: 'group', group: 'ai-admins' }],
  team: 'team_default',
  bindings: [],
  sessions: 1,
  created_at: '2026-11-23T10:00:00.000Z',
  seen_at: '2026-11-23T10:00:00.000Z',
  rev: 1,
}

export const peopleRows = [
  row({
    method: 'GET',
    path: '/people',
    summary: 'List the people who have signed in, the last one first',
    about: 'With single sign-on (docs/sign-in.md). A person is known after the first sign-in.',
    role: 'admin',
    scope: 'all',
    query: z.strictObject({
      ...page,
      q: z.string().max(320).optional().describe('Part of the name or the e-mail address'),
    }),
    answer: listOf(PERSON),
    example: { answer: { object: 'list', data: [EXAMPLE], has_more: false, next: null } },
    handle: (deps, call) =>
      runThen(deps, call, { do: 'people', query: defined(call.query) }, (value) => {
        const list = value as unknown as { data: StoredPerson[]; has_more: boolean; next: string | null }
        return { ...list, object: 'list' as const, data: list.data.map((one) => shownAs(deps, one)) }
      }),
  }),
  row({
    method: 'GET',
    path: '/people/{id}',
    summary: 'Show a person',
    role: 'admin',
    scope: 'all',
    params: ID,
    answer: PERSON,
    example: { params: { id: EXAMPLE.id }, answer: EXAMPLE },
    handle: (deps, call) =>
      runThen(deps, call, { do: 'person', id: call.params.id }, (value) => shownAs(deps, personIn(value))),
  }),
  row({
    method: 'PATCH',
    path: '/people/{id}',
    summary: 'Block or admit a person, or give roles by hand',
    about:
      'A blocked person is signed out within a second, in all processes. `bindings` are added to the roles of the groups; a team is named by its ID.',
    role: 'admin',
    scope: 'all',
    params: ID,
    body: z.strictObject({ status: z.enum(['active', 'blocked']).optional(), bindings: PERSON_BINDINGS.optional() }),
    answer: PERSON,
    conditional: true,
    example: {
      params: { id: EXAMPLE.id },
      body: { status: 'blocked' },
      answer: { ...EXAMPLE, status: 'blocked', sessions: 0, rev: 2 },
    },
    handle: (deps, call) => {
      const { params, body, revision } = call
      const operation = { do: 'person_patch', id: params.id, rev: revision, patch: body } as const
      return runThen(deps, call, operation, (value) => shownAs(deps, personIn(value)))
    },
  }),
  row({
    method: 'POST',
    path: '/people/{id}/sign-out',
    summary: 'End the sessions of a person',
    about: 'Within a second, in all processes. The person may sign in again.',
    role: 'admin',
    scope: 'all',
    params: ID,
    answer: z.strictObject({ id: z.string(), ended: z.int() }),
    example: { params: { id: EXAMPLE.id }, answer: { id: EXAMPLE.id, ended: 1 } },
    handle: (deps, call) =>
      runThen(deps, call, { do: 'person_sign_out', id: call.params.id }, ({ ended }) => ({
        id: call.params.id,
        ended: Number(ended),
      })),
  }),
]
