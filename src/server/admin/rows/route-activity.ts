/** All routes with their targets, and what their requests did. */
import type { z } from 'zod'
import { ANONYMOUS, type Client, type Team } from '../../../core/accounts.ts'
import { bad, good, type Outcome } from '../../../core/failure.ts'
import type { TeamRoute } from '../../../core/route.ts'
import { ownTurn } from '../../../core/steps.ts'
import type { Candidate, Plan } from '../../../core/target.ts'
import { planFor } from '../../../gateway/routing/planner.ts'
import { personClient } from '../../../policy/accounts/person-client.ts'
import { routeNamed } from '../../../policy/routing/models.ts'
import { overrideText } from '../../../policy/routing/override.ts'
import { AUTO, isDrawn } from '../../../policy/routing/plan.ts'
import { conditionText } from '../../../policy/routing/when.ts'
import { ROUTE_TRAFFIC_PARAMETERS } from '../../../usage/reading/parameters.ts'
import type { RoutesTraffic, RouteTraffic, TargetTraffic } from '../../../usage/reading/queries.ts'
import { ROUTES_ACTIVITY } from '../../answers/routes.ts'
import type { AdminDeps } from '../deps.ts'
import { row } from '../row.ts'
import { scoped } from '../usage-query.ts'
import { routeNames } from './explain.ts'

type ShownActivity = z.input<typeof ROUTES_ACTIVITY>['data'][number]
type ShownRouteTarget = ShownActivity['targets'][number]

/** Teams' own routes of an answer. */
const MOST = 500

/** A route of the file (`own` null) or of a team. */
type Listed = { readonly name: string; readonly own: { readonly route: TeamRoute; readonly team: Team } | null }

type AttemptCounts = Omit<TargetTraffic, 'provider' | 'model'>
const NONE: AttemptCounts = { attempts: 0, answered: 0, failed: 0, limited: 0, first_content_p50_ms: null }
const NO_REQUESTS = { requests: 0, answered: 0, cached: 0, refused: 0, failed: 0 }

/** The plan of a route for requests that meet every condition. */
const planOf = ({ gateway }: AdminDeps, { name, own }: Listed): Outcome<Plan> => {
  const client: Client = own ? personClient({ id: '', name: '', email: null }, own.team) : ANONYMOUS
  const request = { model: name, style: 'chat', client, headers: () => undefined, members: {}, shape: null }
  return planFor(gateway, gateway.config(), { ...request, isExpected: true })
}

const placeOf = (provider: string, model: string): string => JSON.stringify([provider, model])

const counted = ({ provider: _provider, model: _model, ...counts }: TargetTraffic): AttemptCounts => counts

const shownTarget = (
  { gateway }: AdminDeps,
  candidate: Candidate,
  odds: Plan['odds'],
  traffic: TargetTraffic | undefined,
): ShownRouteTarget => {
  const { instance, model, when, override, isCanary = false } = candidate
  const end = gateway.health.retirements.of(gateway.catalogue, candidate)
  return {
    provider: instance.id,
    model,
    role: odds?.roles.get(candidate) ?? 'target',
    share: odds && isDrawn(odds) ? (odds.shares.get(candidate) ?? null) : null,
    when: when ? conditionText(when) : null,
    override: override ? overrideText(override) : null,
    is_canary: isCanary,
    retires: end ? new Date(end.at).toISOString() : null,
    ...(traffic ? counted(traffic) : NONE),
  }
}

const shownRoute = (deps: AdminDeps, listed: Listed, traffic: RouteTraffic | undefined): ShownActivity => {
  const { name, own } = listed
  const planned = planOf(deps, listed)
  const { odds, candidates } = planned.ok ? planned.value : { odds: undefined, candidates: [] }
  const byPlace = new Map(traffic?.targets.map((one) => [placeOf(one.provider, one.model), one]))
  const targets = candidates.flatMap((candidate) => {
    const place = placeOf(candidate.instance.id, candidate.model)
    const found = byPlace.get(place)
    // Failover includes all other providers.
    if (odds?.roles.get(candidate) === 'failover' && name !== AUTO && !found) return []
    byPlace.delete(place)
    return [shownTarget(deps, candidate, odds, found)]
  })
  const former = [...byPlace.values()].map((one): ShownRouteTarget => {
    const { provider, model } = one
    const nothing = { share: null, when: null, override: null, is_canary: false, retires: null }
    return { provider, model, role: 'former', ...nothing, ...counted(one) }
  })
  const { requests, answered, cached, refused, failed } = traffic ?? NO_REQUESTS
  return {
    object: 'route_activity',
    name,
    id: own?.route.id ?? null,
    team: own && { id: own.team.id, name: own.team.name },
    strategy: odds?.strategy ?? 'priority',
    drawn: odds !== undefined && isDrawn(odds),
    problem: planned.ok ? null : planned.failure.message,
    ...{ requests, answered, cached, refused, failed },
    targets: [...targets, ...former],
  }
}

const trafficId = (name: string, team: string | null): string => JSON.stringify([name, team])

/** Own routes of teams that apply: no route of the file has their name. */
const ownRoutes = ({ gateway, control }: AdminDeps, teams: ReadonlySet<string> | null): readonly Listed[] => {
  const config = gateway.config()
  const directory = control.directory()
  return [...directory.routes.values()].flatMap((route) => {
    const team = directory.teams.get(route.team)
    if (!team || teams?.has(team.id) === false || routeNamed(config, route.name)) return []
    return [{ name: route.name, own: { route, team } }]
  })
}

/** Names of teams' own routes. */
export const ownNames = (deps: AdminDeps, teams: ReadonlySet<string> | null): readonly string[] => [
  ...new Set(ownRoutes(deps, teams).map(({ name }) => name)),
]

const answerOf = async (
  deps: AdminDeps,
  { data, from, to, searched_until }: RoutesTraffic,
  own: readonly Listed[],
): Promise<z.input<typeof ROUTES_ACTIVITY>> => {
  const found = new Map(data.map((one) => [trafficId(one.route, one.team), one]))
  const trafficOf = ({ name, own: mine }: Listed) => found.get(trafficId(name, mine?.team.id ?? null))
  const used = own
    .map((listed) => ({ listed, requests: trafficOf(listed)?.requests ?? 0 }))
    .sort((one, other) => other.requests - one.requests)
    .map(({ listed }) => listed)
  const ofFile = [...routeNames(deps.gateway.config())].map((name): Listed => ({ name, own: null }))
  const shown: ShownActivity[] = []
  for (const listed of [...ofFile, ...used.slice(0, MOST)]) {
    await ownTurn(deps.gateway.world.turn)
    shown.push(shownRoute(deps, listed, trafficOf(listed)))
  }
  return { object: 'list', from, to, searched_until, data: shown, has_more: used.length > MOST, next: null }
}

const SHOWN = {
  object: 'route_activity',
  name: 'fast',
  id: null,
  team: null,
  strategy: 'weighted',
  drawn: true,
  problem: null,
  requests: 412,
  answered: 410,
  cached: 0,
  refused: 1,
  failed: 1,
  targets: [
    {
      provider: 'openai',
      model: 'gpt-5-mini',
      role: 'target',
      share: 0.7,
      when: 'inputTokens below 50,000',
      override: 'set effort low',
      is_canary: false,
      retires: null,
      attempts: 290,
      answered: 288,
      failed: 2,
      limited: 0,
      first_content_p50_ms: 412,
    },
  ],
} as const

export const routeActivityRows = [
  row({
    method: 'GET',
    path: '/routes/activity',
    summary: 'List all routes with their targets, and what their requests did',
    about:
      'By default of the last hour. All routes of headgate.yaml with `auto`, then those of teams, the most requests first (at most 500; `has_more` states that there are others). Requests are counted for the route that they were planned with, attempts in the request that made them. `team` counts the requests of some teams, and lists their own routes only.',
    role: 'viewer',
    scope: 'team',
    query: ROUTE_TRAFFIC_PARAMETERS,
    answer: ROUTES_ACTIVITY,
    example: {
      answer: {
        ...{ object: 'list', from: '2026-11-28T09:00:00.000Z', to: '2026-11-28T10:00:00.000Z', searched_until: null },
        ...{ data: [SHOWN], has_more: false, next: null },
      },
    },
    async handle(deps, { query, teams }) {
      const whole = scoped(deps, query, 'lanes', teams)
      if (!whole.ok) return bad(whole.failure)
      const { team } = whole.value.filter
      const own = ownRoutes(deps, team ? new Set(team) : null)
      const found = await deps.usage.routeTraffic({ ...whole.value, own: [...new Set(own.map(({ name }) => name))] })
      return found.ok ? good({ body: await answerOf(deps, found.value, own) }) : found
    },
  }),
]
