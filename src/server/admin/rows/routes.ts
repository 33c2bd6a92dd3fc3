/** Routes that teams make for their own keys. */
import { z } from 'zod'
import { routesYaml } from '../../../config/config-yaml.ts'
import type { Team } from '../../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, type Json } from '../../../core/json.ts'
import { mergePatch } from '../../../core/merge-patch.ts'
import { REQUEST_STYLES } from '../../../core/request-styles.ts'
import type { TeamRoute } from '../../../core/route.ts'
import { parseOnce } from '../../../gateway/handlers/explain.ts'
import { teamNamed } from '../../../policy/accounts/directory.ts'
import { personClient } from '../../../policy/accounts/person-client.ts'
import { NO_ASSUMPTION } from '../../../policy/routing/assumption.ts'
import { routeNamed } from '../../../policy/routing/models.ts'
import { routeProblems } from '../../../policy/routing/team-routes.ts'
import { ROUTE, ROUTE_BODY, type RouteBody, routeFrom } from '../../../records/entities/route.ts'
import { PLAN } from '../../answers/explain.ts'
import { deletedAs, listOf } from '../../answers/fields.ts'
import { checkChange } from '../claims.ts'
import { defined, runFor, withWarning } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { id } from '../fields.ts'
import { patchOf, recordList } from '../records.ts'
import { type AdminCall, type Answered, row } from '../row.ts'
import { invalid } from '../validation.ts'
import { explainedRequest, QUESTION } from './explain.ts'

type ShownRoute = z.input<typeof ROUTE>
type StoredRoute = Omit<ShownRoute, 'shadowed'>

const SPEC = {
  targets: [
    { provider: 'openai', model: 'gpt-5-mini', weight: 1, when: { inputTokens: { below: 50_000 } } },
    { provider: 'openai', model: 'gpt-5', weight: 1, set: { effort: 'low' } },
  ],
  fallback: [],
} as const
const SHOWN = {
  id: 'rte_kdvbwqhzmrtc',
  object: 'route',
  name: 'fast',
  team: 'team_default',
  spec: SPEC,
  status: 'active',
  created_at: '2026-11-28T10:00:00.000Z',
  created_by: 'auth.admin',
  rev: 1,
  managed: 'api',
  shadowed: false,
} as const
const YAML = 'routes:\n  fast:\n    targets:\n      - openai/gpt-5\n'
const yamlAnswer = z.strictObject({ yaml: z.string().describe('The section `routes` of headgate.yaml') })

const isShadowed = ({ gateway }: AdminDeps, name: string): boolean => routeNamed(gateway.config(), name) !== undefined

/** An answer with the routes as they are shown. */
const shownWith = <Before, After>(outcome: Outcome<Answered<Before>>, show: (body: Before) => After) =>
  outcome.ok && !('stream' in outcome.value)
    ? good({ ...outcome.value, body: show(outcome.value.body) })
    : (outcome as Outcome<Answered<After>>)

const shown = (deps: AdminDeps, outcome: Outcome<Answered<StoredRoute>>) =>
  shownWith(outcome, (route): ShownRoute => ({ ...route, shadowed: isShadowed(deps, route.name) }))

type DraftRoute = { readonly team: Team; readonly route: TeamRoute }

/** A route as it would be, if its team may have it. `id`: empty for a new one. */
const draftOf = (
  { gateway, control }: AdminDeps,
  { teams }: Pick<AdminCall, 'teams'>,
  { name, team: named, spec }: RouteBody,
  id = '',
): Outcome<DraftRoute> => {
  const team = teamNamed(control.directory(), named)
  if (!team) return bad(invalid([{ path: 'team', message: `No team has the ID or the name "${named}".` }]))
  if (teams?.includes(team.id) === false)
    return bad(fail('forbidden', 'Your role does not permit this for another team.', { code: 'not_permitted' }))
  const config = gateway.config()
  if (routeNamed(config, name))
    return bad(
      fail('record_conflict', `headgate.yaml has a route for the name "${name}". Choose another name.`, {
        code: 'name_taken',
        param: 'name',
      }),
    )
  const route: TeamRoute = { ...routeFrom(name, spec), id, team: team.id, managed: 'api' }
  const problems = routeProblems({ config, lists: gateway.lists(), catalogue: gateway.catalogue }, team, route)
  return problems.length > 0 ? bad(invalid(problems)) : good({ team, route })
}

/** Writes a route that its team may have, if no claim about the data policy prevents it. */
const written = async (
  deps: AdminDeps,
  call: AdminCall,
  draft: Outcome<DraftRoute>,
  write: () => Promise<Outcome<Answered<StoredRoute>>>,
): Promise<Outcome<Answered<ShownRoute>>> => {
  if (!draft.ok) return draft
  const checked = await checkChange(deps, call, { kind: 'route', route: draft.value.route })
  if (!checked.ok) return checked
  const answered = shown(deps, await write())
  return checked.value === null ? answered : withWarning(answered, checked.value)
}

const get = (deps: AdminDeps, call: AdminCall, id: string) =>
  runFor<StoredRoute>(deps.control, call, { do: 'get', kind: 'route', id })

/** The body of a stored route after a patch; null: the write itself refuses it. */
const patched = ({ name, team, spec }: StoredRoute, patch: unknown): RouteBody | null => {
  // Records and patches are plain JSON data.
  const [before, change]: Json[] = JSON.parse(JSON.stringify([{ name, team, spec }, patch]))
  if (!isObject(before) || !isObject(change)) return null
  const read = ROUTE_BODY.safeParse(mergePatch(before, change))
  return read.success ? read.data : null
}

export const routeRows = [
  row({
    method: 'GET',
    path: '/routes',
    summary: 'List the routes of teams',
    about: 'Those of headgate.yaml are in `GET /config/effective`.',
    role: 'viewer',
    scope: 'team',
    query: z.strictObject({ ...recordList, team: z.array(z.string()).optional().describe('IDs of teams') }),
    answer: listOf(ROUTE),
    example: { query: { limit: '20' }, answer: { object: 'list', data: [SHOWN], has_more: false, next: null } },
    async handle(deps, call) {
      type RoutePage = { object: 'list'; data: StoredRoute[]; has_more: boolean; next: string | null }
      const listed = await runFor<RoutePage>(deps.control, call, {
        do: 'list',
        kind: 'route',
        query: defined(call.query),
      })
      const show = (route: StoredRoute) => ({ ...route, shadowed: isShadowed(deps, route.name) })
      return shownWith(listed, (page) => ({ ...page, data: page.data.map(show) }))
    },
  }),
  row({
    method: 'POST',
    path: '/routes',
    summary: 'Create a route of a team',
    about:
      'For requests of the keys of that team; other teams do not know the name. Its targets are within the access of the team, now and at each request. A name that headgate.yaml routes is refused; if the file takes it later, the file applies. At most 200 for each team.',
    role: 'admin',
    scope: 'team',
    body: ROUTE_BODY,
    answer: ROUTE,
    status: 201,
    example: { body: { name: 'fast', team: 'default', spec: SPEC }, answer: SHOWN },
    handle: (deps, call) =>
      written(deps, call, draftOf(deps, call, call.body), () =>
        runFor(deps.control, call, { do: 'create', kind: 'route', body: call.body }),
      ),
  }),
  row({
    method: 'POST',
    path: '/routes/test',
    summary: 'Show the plan of a route before it is stored',
    about:
      'Checked as a route that is created, and planned as POST /explain does for a key of the team. Stores nothing.',
    role: 'viewer',
    scope: 'team',
    body: z.strictObject({
      ...ROUTE_BODY.shape,
      name: ROUTE_BODY.shape.name.default('draft'),
      request: z.record(z.string(), z.json()).optional().describe('The body of a model call; its model is the route'),
      style: z.enum(REQUEST_STYLES).optional().describe('The style of the body; default: recognised by its members'),
    }),
    answer: PLAN,
    example: { body: { team: 'default', spec: SPEC } },
    handle(deps, call) {
      const { request = QUESTION, style, ...body } = call.body
      const draft = draftOf(deps, call, body)
      if (!draft.ok) return draft
      const { team, route } = draft.value
      const others = [...deps.control.directory().routes].filter(([, one]) => one.team !== team.id)
      const gateway = { ...deps.gateway, teamRoutes: () => new Map([...others, ['', route]]) }
      const client = personClient({ id: '', name: '', email: null }, team)
      const asked = explainedRequest({ id: call.request.id, client, style }, { ...request, model: route.name })
      const parsed = parseOnce(gateway, { received: asked, audience: 'operator' })
      const explained = parsed.ok ? parsed.value(NO_ASSUMPTION) : parsed
      // `explainPlan` returns plain JSON without the types of its members.
      return explained.ok ? good({ body: explained.value as unknown as z.input<typeof PLAN> }) : explained
    },
  }),
  row({
    method: 'GET',
    path: '/routes/export',
    summary: 'Write the routes of teams as YAML',
    about: 'A name that two teams have is written once: that of the first team by its ID.',
    role: 'viewer',
    scope: 'team',
    query: z.strictObject({ team: z.string().optional().describe('The ID or name of a team; default: all') }),
    answer: yamlAnswer,
    example: { answer: { yaml: YAML } },
    handle({ control }, { query, teams }) {
      const directory = control.directory()
      const wanted = query.team === undefined ? null : (teamNamed(directory, query.team)?.id ?? '')
      const routes = [...directory.routes.values()]
        .filter(({ team }) => (wanted ?? team) === team && teams?.includes(team) !== false)
        .toSorted((a, b) => (a.name === b.name ? (b.team < a.team ? -1 : 1) : a.name < b.name ? -1 : 1))
      return good({ body: { yaml: routesYaml(routes) } })
    },
  }),
  row({
    method: 'GET',
    path: '/routes/{id}',
    summary: 'Show a route of a team',
    role: 'viewer',
    scope: 'team',
    params: id,
    answer: ROUTE,
    example: { params: { id: SHOWN.id }, answer: SHOWN },
    handle: async (deps, call) => shown(deps, await get(deps, call, call.params.id)),
  }),
  row({
    method: 'PATCH',
    path: '/routes/{id}',
    summary: 'Change a route of a team',
    role: 'admin',
    scope: 'team',
    params: id,
    body: patchOf(ROUTE_BODY.omit({ team: true })),
    answer: ROUTE,
    conditional: true,
    example: {
      params: { id: SHOWN.id },
      body: { spec: { targets: ['openai/gpt-5'] } },
      answer: { ...SHOWN, spec: { ...SPEC, targets: ['openai/gpt-5'] }, rev: 2 },
    },
    async handle(deps, call) {
      const { id: changed } = call.params
      const write = () =>
        runFor<StoredRoute>(deps.control, call, {
          do: 'patch',
          kind: 'route',
          id: changed,
          patch: call.body,
          rev: call.revision,
        })
      const before = await get(deps, call, changed)
      const body = before.ok && !('stream' in before.value) ? patched(before.value.body, call.body) : null
      return body ? written(deps, call, draftOf(deps, call, body, changed), write) : shown(deps, await write())
    },
  }),
  row({
    method: 'DELETE',
    path: '/routes/{id}',
    summary: 'Delete a route of a team',
    role: 'admin',
    scope: 'team',
    params: id,
    conditional: true,
    answer: deletedAs('route'),
    example: { params: { id: SHOWN.id }, answer: { id: SHOWN.id, object: 'route', deleted: true } },
    handle: ({ control }, call) =>
      runFor(control, call, { do: 'delete', kind: 'route', id: call.params.id, rev: call.revision }),
  }),
  row({
    method: 'POST',
    path: '/routes/{id}/adopt',
    summary: 'Write a route of a team as YAML for headgate.yaml',
    about:
      'Changes nothing. A route of the file is for all teams. Once the file has it, the stored one is `shadowed` and can be deleted.',
    role: 'admin',
    scope: 'team',
    params: id,
    answer: yamlAnswer,
    example: { params: { id: SHOWN.id }, answer: { yaml: YAML } },
    async handle(deps, call) {
      const found = await get(deps, call, call.params.id)
      return shownWith(found, ({ name, spec }) => ({ yaml: routesYaml([routeFrom(name, spec as RouteBody['spec'])]) }))
    },
  }),
]
