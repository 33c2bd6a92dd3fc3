/** Requests of the ledger with their attempts and kept bodies. */
import { z } from 'zod'
import type { Directory } from '../../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { traceLink } from '../../../observe/otlp/telemetry-settings.ts'
import { time } from '../../../records/entities/shown.ts'
import type { StoredBodies } from '../../../usage/bodies/recorded-calls.ts'
import { REQUESTS_PARAMETERS, RUNNING_PARAMETERS, SEARCH_PARAMETERS } from '../../../usage/reading/parameters.ts'
import type { Facets, FoundRequest } from '../../../usage/reading/queries.ts'
import { count, listOf, named } from '../../answers/fields.ts'
import {
  FOUND_REQUEST,
  FOUND_TEXTS,
  REPLAYED,
  REQUEST_BODIES,
  REQUEST_EXAMPLE,
  REQUESTS_PAGE,
} from '../../answers/requests.ts'
import { noteAudit, noteOnce } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { id } from '../fields.ts'
import { lettersOf } from '../letters.ts'
import { markedPage, searchedPage, unreadable, withMarks } from '../marked-bodies.ts'
import { notReplayable, type ReplayChanges } from '../replay.ts'
import { type AdminCall, row } from '../row.ts'
import { scoped, shown } from '../usage-query.ts'

const running = z
  .strictObject({
    request: z.string().describe('its ID'),
    n: count,
    started_at: time,
    provider: z.string(),
    model: z.string(),
    credential: z.string(),
    key: named,
    team: named,
    output_tokens: count
      .nullable()
      .describe('Of the answer so far, estimated; null: none yet, or another process answers the request'),
  })
  .meta({ id: 'OngoingAttempt' })

/** The names of the teams and keys among the values of filters. */
const namesIn = (facets: Facets, { teams, keys }: Directory): { readonly [id: string]: string } => {
  const named = [
    ...[facets.team ?? []].flat().map((value) => [value, teams.get(value)?.name] as const),
    ...[facets.key ?? []].flat().map((value) => [value, keys.get(value)?.name] as const),
  ]
  return Object.fromEntries(named.flatMap(([value, name]) => (name === undefined ? [] : [[value, name]])))
}

export const requestRows = [
  row({
    method: 'GET',
    path: '/requests',
    summary: 'List requests with their attempts, newest first',
    about:
      'By default of the last 24 hours. `histogram` and `count` add figures for the whole filter. A search ends after a second: `searched_until` states how far it came, and `next` continues it, also after a page without rows.',
    role: 'viewer',
    scope: 'team',
    query: REQUESTS_PARAMETERS,
    answer: REQUESTS_PAGE,
    example: {
      query: { outcome: 'answered', count: 'true', histogram: '60' },
      answer: {
        object: 'list',
        data: [REQUEST_EXAMPLE],
        has_more: false,
        next: null,
        from: '2026-11-22T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
        searched_until: null,
        count: { value: 1, exact: true },
      },
    },
    async handle(deps, { query, teams }) {
      const whole = scoped(deps, query, 'requests', teams)
      return whole.ok ? shown(await markedPage(deps, whole.value)) : whole
    },
  }),
  row({
    method: 'GET',
    path: '/requests/facets',
    summary: 'List the values that filters of requests may have',
    role: 'viewer',
    scope: 'team',
    answer: z
      .object({ object: z.literal('facets'), names: z.record(z.string(), z.string()) })
      .catchall(z.union([z.array(z.string()), z.literal('facets'), z.record(z.string(), z.string())]))
      .meta({ id: 'Facets' }),
    about: '`names`: of the teams and keys among the values, by ID.',
    example: {
      answer: {
        object: 'facets',
        names: { key_1: 'ci' },
        provider: ['groq', 'openai'],
        model: ['gpt-5-mini'],
        key: ['key_1'],
      },
    },
    async handle({ usage, control }, { teams }) {
      const found = await usage.facets({ team: teams })
      return found.ok ? shown(good({ ...found.value, names: namesIn(found.value, control.directory()) })) : found
    },
  }),
  row({
    method: 'GET',
    path: '/requests/search',
    summary: 'Search for a text in the kept bodies, newest first',
    about:
      'By default of the last 24 hours, with the filters of `/requests`. Only bodies that this gateway has kept are searched, as they are stored: redacted and up to `bodies.maxBytes`. A search ends after a second: `searched_until` states how far it came, and `next` continues it, also after a page without rows. Each page is an entry of the audit log, without the text.',
    role: 'operator',
    scope: 'team',
    query: SEARCH_PARAMETERS,
    answer: FOUND_TEXTS,
    example: {
      query: { text: 'my refund was declined' },
      answer: {
        object: 'list',
        data: [REQUEST_EXAMPLE],
        has_more: false,
        next: null,
        from: '2026-11-22T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
        searched_until: null,
        searched_bodies: 812,
      },
    },
    async handle(deps, call) {
      const { text, ...query } = call.query
      const whole = scoped(deps, query, 'requests', call.teams)
      if (!whole.ok) return whole
      const found = await searchedPage(deps, whole.value, { text, teams: call.teams })
      if (!found.ok) return found
      const details = {
        searched: found.value.searched_bodies,
        found: found.value.data.length,
      }
      await noteAudit(deps.control, call, { action: 'body.search', object: 'bodies', details })
      return shown(found)
    },
  }),
  row({
    method: 'GET',
    path: '/requests/running',
    summary: 'List the attempts in progress, the longest first',
    about: 'At most 100. An attempt of a process that was killed is listed until its end is recorded.',
    role: 'viewer',
    scope: 'team',
    query: RUNNING_PARAMETERS,
    answer: z.strictObject({
      ...listOf(running).shape,
      total: count.describe('Requests in progress, also those that are not listed'),
    }),
    example: {},
    async handle({ usage, gateway }, { query, teams }) {
      const found = await usage.running({ ...query, teams })
      if (!found.ok) return found
      const output = gateway.activeCalls.outputOf(new Set(found.value.data.map(({ request }) => request)))
      const data = found.value.data.map((one) => ({ ...one, output_tokens: output.get(one.request) ?? null }))
      return good({ body: { ...found.value, data } })
    },
  }),
  row({
    method: 'GET',
    path: '/requests/{id}',
    summary: 'Show a request with its attempts',
    about: 'By the ID of the gateway, or by the one that the client gave in `x-request-id`: of several, the newest.',
    role: 'viewer',
    scope: 'team',
    params: id,
    answer: FOUND_REQUEST,
    example: {
      params: { id: REQUEST_EXAMPLE.id },
      answer: { ...REQUEST_EXAMPLE, same_client_id: [], limited_by: null, trace_url: null },
    },
    async handle(deps, call) {
      const found = await requestOf(deps, call)
      if (!found.ok) return found
      const { decision } = found.value
      const limitedBy = limiterOf(deps, decision?.limit ?? null)
      const traceUrl = traceLink(deps.configuration.running().settings, found.value)
      const [request = found.value] = await withMarks(deps, [found.value])
      return good({ body: { ...request, limited_by: limitedBy, trace_url: traceUrl } })
    },
  }),
  row({
    method: 'GET',
    path: '/requests/{id}/bodies',
    summary: 'Read the kept bodies of a request',
    about: 'Each read is an entry of the audit log.',
    role: 'operator',
    scope: 'team',
    params: id,
    answer: REQUEST_BODIES,
    example: { params: { id: REQUEST_EXAMPLE.id }, answer: { object: 'request.bodies', bodies: null } },
    async handle(deps, call) {
      const bodies = await readBodies(deps, call)
      return bodies.ok ? good({ body: { object: 'request.bodies' as const, bodies: bodies.value.bodies } }) : bodies
    },
  }),
  row({
    method: 'POST',
    path: '/requests/{id}/replay',
    summary: 'Send a kept request again',
    about:
      'The new request has the client `dashboard` of the default team, and counts like any other. Its bodies are kept, and its answer is only recorded. Texts that were redacted stay so. The audit log has the replay, without text.',
    role: 'operator',
    scope: 'all',
    params: id,
    body: z.strictObject({
      model: z.string().min(1).max(500).optional().describe('Another model or route'),
      edit: z.record(z.string(), z.json()).optional().describe('A JSON Merge Patch of the body'),
    }),
    answer: REPLAYED,
    status: 202,
    example: {
      params: { id: REQUEST_EXAMPLE.id },
      body: { model: 'demo/echo' },
      answer: { id: 'req_kdvbwqhzmrtckdvbwqhz', object: 'request.replay' },
    },
    async handle(deps, call) {
      const bodies = await readBodies(deps, call)
      if (!bodies.ok) return bodies
      if (!bodies.value.bodies)
        return bad(notReplayable('its bodies are not kept (bodies.sample, or logBodies of its key)'))
      const kept = { ...bodies.value, bodies: bodies.value.bodies }
      const replayed = deps.replays.prepare(kept, call.body, repeatableId(call))
      if (!replayed.ok) return replayed
      const { id: started } = replayed.value
      const noted = await noteReplay(deps, call)
      if (!noted.ok) return noted
      const isFirst = noted.value === 'first'
      if (isFirst) deps.replays.start(replayed.value)
      return good({
        body: { id: started, object: 'request.replay' as const },
        ...(!isFirst && { headers: { 'x-headgate-idempotent': 'stored' } }),
      })
    },
  }),
]

type ReplayCall = RequestCall & { readonly body: ReplayChanges }

/** The ID of a replay that a repetition with the same Idempotency-Key has again; undefined: there is no such key. */
const repeatableId = ({ actor, idempotencyKey, params }: RequestCall): string | undefined =>
  actor && idempotencyKey !== null
    ? `req_${lettersOf(JSON.stringify([actor.kind, actor.id, idempotencyKey, params.id]), 20)}`
    : undefined

/** Adds a replay to the audit log, without text of the request: its changes are a digest. */
const noteReplay = async ({ control }: AdminDeps, call: ReplayCall): Promise<Outcome<'first' | 'repeated'>> => {
  const { model = null, edit } = call.body
  const details = { model, edit: edit === undefined ? null : lettersOf(JSON.stringify(edit), 12) }
  const entry = { action: 'request.replay', object: call.params.id, details }
  if (call.idempotencyKey !== null) return await noteOnce(control, call, entry)
  await noteAudit(control, call, entry)
  return good('first')
}

type RequestCall = AdminCall & { readonly params: { readonly id: string } }

/** The budget, team or key that a limit names; null: it names none, or it was deleted. */
const limiterOf = ({ control }: AdminDeps, limit: string | null) => {
  const [, id = ''] = /\bid=((?:bud|team|key)_[a-z0-9]{1,64})/.exec(limit ?? '') ?? []
  const { budgets, teams, keys } = control.directory()
  const found = budgets.get(id) ?? teams.get(id) ?? keys.get(id)
  return found ? { id, name: found.name } : null
}

/** The request, if it is of a team in which the actor has the role. */
const requestOf = async ({ usage }: AdminDeps, { params, teams }: RequestCall): Promise<Outcome<FoundRequest>> => {
  const found = await usage.request({ id: params.id, key: null, team: teams })
  if (!found.ok) return found
  return found.value ? good(found.value) : bad(NO_REQUEST)
}

type ReadBodies = { readonly bodies: StoredBodies | null; readonly require: string | null }

/** The kept bodies of a request; null: not kept. What was required of its data. A read is an entry of the audit log. */
const readBodies = async (deps: AdminDeps, call: RequestCall): Promise<Outcome<ReadBodies>> => {
  const request = await requestOf(deps, call)
  if (!request.ok) return request
  const { id, team, require } = request.value
  if (!team) return good({ bodies: null, require })
  const found = await deps.bodies.read({ id, team: team.id })
  if ('problem' in found) return bad(unreadable(found.problem))
  if (found.value) await noteAudit(deps.control, call, { action: 'body.read', object: id, details: { team: team.id } })
  return good({ bodies: found.value, require })
}

const NO_REQUEST = fail(
  'not_found',
  'No request has this ID. Requests are kept for usage.keepDays, and appear a second after they end.',
)
