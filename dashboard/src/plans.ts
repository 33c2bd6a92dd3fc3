/** Routes and plans of the API: what answers, what a target is, and what changes if providers are down. Pure. */
import type { Shown } from '../../src/records/entities/shown.ts'
import type { ROUTES_ACTIVITY, WHAT_IF } from '../../src/server/answers/routes.ts'
import { addDollars } from './format.ts'

/** All routes with what their requests did. */
export type RoutesActivity = Shown<typeof ROUTES_ACTIVITY>
export type RouteWithTraffic = RoutesActivity['data'][number]
export type TargetOfRoute = RouteWithTraffic['targets'][number]

/** What an assumption means for each name that clients send. */
export type NameEffects = Shown<typeof WHAT_IF>
export type NameEffect = NameEffects['data'][number]

/** A place where a request may go, of `GET /models` and of plans. */
export type PlanPlace = { readonly provider: string; readonly model: string }
type PlanKey = {
  readonly id: string
  readonly may_be_tried: boolean
  readonly because?: string
  readonly until?: string | null
}
export type PlannedTarget = PlanPlace & {
  readonly because: string
  /** The condition of the target, which the request meets. */
  readonly when?: string
  /** What is changed in requests to it. */
  readonly override?: string
  /** Of the requests for which it is first, if they draw that, while all targets are ready. */
  readonly share?: number
  readonly fit: boolean
  readonly unfit_for?: readonly string[]
  readonly only_without?: readonly string[]
  readonly doubts?: readonly { readonly lacks: string }[]
  readonly keys: readonly PlanKey[]
  /** In US dollars; null: the price is unknown. */
  readonly cost_estimate?: string | null
}
/** The plan of a request, as `POST /explain` returns it. */
export type ShownPlan = {
  readonly model: string
  readonly by?: string
  /** How the first target is chosen. */
  readonly strategy?: string
  /** Each request draws which of several targets is first. */
  readonly drawn?: boolean
  readonly targets: readonly PlannedTarget[]
  readonly skipped?: readonly (PlanPlace & { readonly why: string })[]
}
/** The plan of a route, with what answers with and without the assumption. */
export type ShownRoute = ShownPlan & {
  readonly answers: PlanPlace | null
  readonly before: PlanPlace | null
  readonly loses: readonly string[]
  readonly error: { readonly message: string } | null
}

export const placeName = ({ provider, model }: PlanPlace): string => `${provider}/${model}`

const isSame = (one: PlanPlace | null, other: PlanPlace | null): boolean =>
  one === other || (one !== null && other !== null && placeName(one) === placeName(other))

/** The target of a plan at this place. */
export const plannedAt = (plan: ShownPlan | undefined, place: PlanPlace): PlannedTarget | undefined =>
  plan?.targets.find((one) => isSame(one, place))

/** The share of a target in the answers of its route; null: there are none. */
export const answerShare = (
  { targets }: Pick<RouteWithTraffic, 'targets'>,
  { answered }: Pick<TargetOfRoute, 'answered'>,
): number | null => {
  const all = targets.reduce((sum, one) => sum + one.answered, 0)
  return all === 0 ? null : answered / all
}

export const changesTarget = ({ answers, before }: ShownRoute): boolean => !isSame(answers, before)

/** Whether a target may be tried now: `ready`, or why not. */
export type TargetState =
  | { readonly is: 'ready'; readonly key: string }
  | { readonly is: 'unfit' }
  | { readonly is: 'resting'; readonly because: string; readonly until: string | null }

export const stateOf = ({ fit, keys }: PlannedTarget): TargetState => {
  if (!fit) return { is: 'unfit' }
  const free = keys.find((key) => key.may_be_tried)
  if (free) return { is: 'ready', key: free.id }
  const [first] = keys
  return { is: 'resting', because: first?.because ?? 'no_key', until: first?.until ?? null }
}

/** What an assumption does to all routes. `loses`: the names of routes that lose the same capabilities. */
export type Effect = {
  readonly all: number
  readonly left: number
  readonly changed: number
  readonly loses: readonly (readonly [names: readonly string[], what: readonly string[]])[]
  readonly noTarget: readonly string[]
}

export const effectOf = (plans: readonly ShownRoute[]): Effect => {
  const loses = new Map<string, { readonly names: string[]; readonly what: readonly string[] }>()
  for (const { model, loses: what } of plans) {
    if (what.length === 0) continue
    const same = loses.get(what.join(' '))
    if (same) same.names.push(model)
    else loses.set(what.join(' '), { names: [model], what })
  }
  const noTarget = plans.filter(({ answers }) => answers === null).map(({ model }) => model)
  return {
    all: plans.length,
    left: plans.length - noTarget.length,
    changed: plans.filter((plan) => plan.answers !== null && changesTarget(plan)).length,
    loses: [...loses.values()].map(({ names, what }) => [names, what] as const),
    noTarget,
  }
}

/**
 * The models that requests name directly and that lose their target, and the extra cost of substitutes per hour; null: none has a
 * known one. `unknown`: names whose extra cost is unknown although they have a substitute.
 */
export const lossOf = (names: readonly NameEffect[]) => {
  const substituted = names.filter(({ affected, answers }) => affected > 0 && answers !== null)
  const known = substituted.flatMap(({ extra_per_hour: extra }) => extra ?? [])
  return {
    direct: names.filter((one) => one.direct && one.loses_target && one.requests > 0),
    extra: known.length === 0 ? null : addDollars(known),
    unknown: substituted.length - known.length,
  }
}
