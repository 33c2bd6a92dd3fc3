/** Who is signed in, and sessions of browsers. */
import { z } from 'zod'
import { bad, good } from '../../../core/failure.ts'
import { time } from '../../../records/entities/shown.ts'
import { ROLES } from '../actor.ts'
import type { Authenticated } from '../authentication.ts'
import { noteAudit } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { row } from '../row.ts'
import { signInUrl } from '../sign-in/steps.ts'

const binding = z.strictObject({
  role: z.enum(ROLES),
  team: z.string().nullable().describe('The ID of a team; null: all teams'),
})

const session = z
  .strictObject({
    object: z.literal('session'),
    actor: z.strictObject({
      kind: z.enum(['token', 'bootstrap', 'local', 'person']),
      id: z.string(),
      name: z.string(),
    }),
    roles: z.array(binding),
    csrf: z
      .string()
      .nullable()
      .describe('Send it as x-headgate-csrf with every write; null: the request has no session, and needs none'),
    expires_at: time.nullable(),
    person: z
      .strictObject({
        provider: z.string().describe('The name of the identity provider'),
        email: z.string().nullable(),
        name: z.string().nullable(),
        groups: z.array(z.string()),
        team: z.string().nullable().describe('The ID of the team that pays for model calls; null: none'),
      })
      .nullable()
      .describe('With single sign-on'),
    version: z.string(),
    tape: z
      .enum(['record', 'replay', 'strict'])
      .nullable()
      .describe('Calls are recorded or answered from tapes (`HEADGATE_TAPE`); null: they are not'),
  })
  .meta({ id: 'Session' })

const personOf = (person: Authenticated['person'], { signIn }: AdminDeps) => {
  if (!person) return null
  const { provider, email, name, groups } = person
  return { provider, email, name, groups, team: signIn.membershipOf(person).team }
}

const answerOf = ({ actor, session: current, person }: Authenticated, deps: AdminDeps) => ({
  object: 'session' as const,
  actor: { kind: actor.kind, id: actor.id, name: actor.name },
  roles: actor.bindings.map(({ role, team }) => ({ role, team })),
  csrf: current?.csrf ?? null,
  expires_at: current ? new Date(current.until).toISOString() : null,
  person: personOf(person ?? current?.person?.is, deps),
  version: deps.process.version,
  tape: deps.tape.mode,
})

const EXAMPLE = {
  object: 'session',
  actor: { kind: 'bootstrap', id: 'bootstrap', name: 'auth.admin' },
  roles: [{ role: 'admin', team: null }],
  csrf: null,
  expires_at: null,
  person: null,
  version: '0.1.0',
  tape: null,
}

export const sessionRows = [
  row({
    method: 'GET',
    path: '/session',
    summary: 'Show who is signed in',
    role: null,
    scope: 'any',
    answer: session,
    example: { answer: EXAMPLE },
    async handle(deps, { request }) {
      const found = await deps.authentication.authenticate(request)
      return found.ok ? good({ body: answerOf(found.value, deps) }) : found
    },
  }),
  row({
    method: 'GET',
    path: '/sign-in',
    summary: 'List the identity providers',
    about: 'A browser opens `url` to sign in, and may add `&return=` with a path of the dashboard.',
    role: null,
    scope: 'any',
    answer: z
      .strictObject({
        object: z.literal('list'),
        data: z.array(z.strictObject({ provider: z.string(), url: z.string() })),
      })
      .meta({ id: 'SignInList' }),
    example: { answer: { object: 'list', data: [] } },
    handle({ configuration }) {
      const { sso } = configuration.running()
      const data = (sso?.providers ?? []).flatMap(({ name }) =>
        sso ? [{ provider: name, url: signInUrl(sso, name) }] : [],
      )
      return good({ body: { object: 'list', data } })
    },
  }),
  row({
    method: 'POST',
    path: '/session',
    summary: 'Sign in with an admin token',
    about:
      'For browsers. Sets an HttpOnly cookie: `__Host-headgate` over https, `headgate-PORT` on a loopback address. The session ends 8 hours after its last use, at logout, or with its token; restarts do not end it. Twenty wrong tokens in a minute from one address are followed by status 429.',
    role: null,
    scope: 'any',
    body: z.strictObject({ token: z.string().min(1).max(1_000) }),
    answer: session,
    status: 201,
    example: {
      body: { token: 'hga_0123456789abcdefghijABCDEFGHIJ01aaaaaa' },
      answer: {
        ...EXAMPLE,
        csrf: 'pJ1Vb7WbJZcRb0uYzv3k3Q8m',
        expires_at: '2026-11-23T18:00:00.000Z',
      },
    },
    async handle(deps, call) {
      const { body, request } = call
      const begun = await deps.authentication.begin(body.token, request)
      if (!begun.ok) return bad(begun.failure)
      const { actor, cookie } = begun.value
      await noteAudit(deps.control, { ...call, actor }, { action: 'session.create', object: actor.id, details: {} })
      return good({ body: answerOf(begun.value, deps), headers: { 'set-cookie': cookie } })
    },
  }),
  row({
    method: 'POST',
    path: '/session/logout',
    summary: 'Sign out',
    about:
      'Ends the session of the cookie, and removes the cookie. After single sign-on, `end_session` is the address at which a browser also ends the session at the identity provider.',
    role: null,
    scope: 'any',
    answer: z.strictObject({ object: z.literal('signed_out'), end_session: z.string().nullable() }),
    example: { answer: { object: 'signed_out', end_session: null } },
    async handle(deps, call) {
      const { request } = call
      const found = await deps.authentication.authenticate(request)
      if (!found.ok) return found
      const { actor, session: current } = found.value
      const cookie = await deps.authentication.end(request)
      const action = current?.person ? 'logout' : 'session.end'
      await noteAudit(deps.control, { ...call, actor }, { action, object: actor.id, details: {} })
      const { is, login } = current?.person ?? {}
      const end_session = is && login ? await deps.signIn.endSession(is, login) : null
      return good({ body: { object: 'signed_out' as const, end_session }, headers: { 'set-cookie': cookie } })
    },
  }),
]
