/**
 * The plan of a request: an ordered list of candidates with the reason for each, from the model's name and the
 * configuration. Circuits and cooldowns are checked later, when a candidate's turn comes.
 */
import type { Config } from '../../core/config.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import { modelName } from '../../core/model-name.ts'
import { nearest } from '../../core/nearest.ts'
import type { Instance } from '../../core/provider.ts'
import type { Route, RouteTarget } from '../../core/route.ts'
import type { Settings, Strategy } from '../../core/settings.ts'
import type { Skipped } from '../../core/skipped-target.ts'
import { type Candidate, modelId, type Plan, type PlanOdds, type TargetRole } from '../../core/target.ts'
import {
  defaultModel,
  instancesNamed,
  listModels,
  type ModelSources,
  modelAt,
  prefixOf,
  routeNamed,
  usableInstances,
} from './models.ts'
import { type CandidateView, firstShares, orderCandidates } from './order.ts'
import { type KnownEnds, servingModels } from './retirement.ts'
import { usualStickiness } from './stickiness.ts'

/** The input of a plan: the model's name and the sources of model names. */
export type PlanInput = ModelSources & {
  /** The model name as the client sent it. */
  readonly model: string
  /** Ends of models, for routes with `onRetired`; absent: any time, so the plan has what may serve at some time. */
  readonly ends?: KnownEnds
}

/** The input that can differ for each request: current latencies, prices and randomness. */
export type OrderingInput = {
  readonly view: CandidateView
  /** Null: the expected order, to be shown. */
  readonly random: (() => number) | null
}

/** The model name with which clients leave the choice to the gateway. */
export const AUTO = 'auto'

/** A plan without the order within its groups. It is the same for all requests with that model name, so it can be cached. */
export type PlanDraft = {
  readonly by: Plan['by']
  /** As in `Plan`. */
  readonly route?: string
  /** Tried one after another. */
  readonly groups: readonly CandidateGroup[]
  /** Some candidate is listed more than once; only its first place counts. */
  readonly repeats: boolean
  /** Only candidates of the first provider instance are tried (`fallback: none`). */
  readonly onlyFirst: boolean
  readonly skipped: readonly Skipped[]
  /** Some candidate has a condition. */
  readonly isConditional: boolean
  /** As in `Plan`. */
  readonly unmet?: Plan['unmet']
  /** As in `Plan`. */
  readonly furtherRoutes?: Plan['furtherRoutes']
  /** When a model of it ends that another one replaces (ms since 1970): then it is no longer valid. Absent: there is none. */
  readonly until?: number
  /** As in `Plan`. */
  readonly stickiness?: Plan['stickiness']
}

/** Candidates of equal rank, to be ordered by a strategy. */
export type CandidateGroup = {
  readonly candidates: readonly Candidate[]
  readonly strategy: Strategy
  /** The model name refers to them, or they are the default route. Otherwise they are for failover only. */
  readonly own: boolean
  /** For failover, with the model that the name refers to. */
  readonly isSameModel?: true
}

/** Drafts the plan for a model name. Fails with `unconfigured` or `unknown_model`. */
export const draftPlan = (input: PlanInput): Outcome<PlanDraft> => {
  const { config, model } = input
  const all = usableInstances(config)
  if (all.length === 0) return bad(unconfigured())
  const instances = all.filter(isGenerating)
  const wrong = notGenerating(input, all)
  if (wrong) return bad(wrong)
  const resolved = resolveName(input, instances)
  if (!resolved) return bad(unknown(input))
  const { groups, skipped } = withFallback(input, instances, resolved)
  if (groups.every(({ candidates }) => candidates.length === 0)) return bad(emptyRoute(model))
  const draft = planDraft(config, resolved.by, groups, [...resolved.skipped, ...skipped])
  const { route, stickiness = draft.stickiness, until = Number.POSITIVE_INFINITY } = resolved
  if (route === undefined) return good(draft)
  return good({
    ...draft,
    route,
    ...(stickiness && { stickiness }),
    ...(Number.isFinite(until) && { until }),
  })
}

/** Whether it generates text. Some providers have embeddings and relayed endpoints only. */
const isGenerating = ({ speaks }: Instance): boolean => speaks.length > 0

/** Why no text is generated: the name begins with a provider that has none, or no other is configured. */
const notGenerating = ({ config, model }: PlanInput, all: readonly Instance[]): Failure | undefined => {
  if (all.every(isGenerating)) return undefined
  const head = routeNamed(config, model.trim()) ? undefined : prefixOf(model.trim())
  const named = head === undefined ? [] : instancesNamed(all, head)
  const asked = named.length > 0 ? named : all
  if (asked.some(isGenerating)) return undefined
  const names = asked.map(({ id }) => quoted(id)).join(', ')
  return fail('unsupported', `${names} cannot generate text. Name a model of another provider, or add one.`, {
    param: 'model',
  })
}

/** Builds a draft from its groups. */
export const planDraft = (
  { settings }: Config,
  by: Plan['by'],
  groups: readonly CandidateGroup[],
  skipped: readonly Skipped[],
): PlanDraft => {
  const all = groups.flatMap(({ candidates }) => candidates)
  return {
    by,
    groups,
    repeats: unique(all).length < all.length,
    onlyFirst: settings.fallback === 'none',
    skipped,
    isConditional: all.some(({ when }) => when !== undefined),
    stickiness: usualStickiness(groups.find(({ candidates }) => candidates.length > 0)?.strategy ?? 'priority'),
  }
}

/** The plan for one request: orders each group of the draft by its strategy. */
export const orderedPlan = (draft: PlanDraft, input: OrderingInput): Plan => {
  const { groups, repeats, onlyFirst, skipped } = draft
  const resolved = {
    by: draft.by,
    ...(draft.stickiness && { stickiness: draft.stickiness }),
    ...(draft.route !== undefined && { route: draft.route }),
    ...(draft.unmet && { unmet: draft.unmet }),
    ...(draft.furtherRoutes && { furtherRoutes: draft.furtherRoutes }),
    ...(input.random === null && { odds: oddsOf(groups, input.view) }),
  }
  const ranked = groups.flatMap(({ candidates, strategy }) => ordered(input, candidates, strategy))
  const candidates = repeats ? unique(ranked) : ranked
  if (!onlyFirst) return { ...resolved, candidates, skipped }
  const only = candidates[0]?.instance
  // A plan to be shown has each target that some request would have.
  const stays = (one: Candidate) => one.instance === only || (resolved.odds?.shares.get(one) ?? 0) > 0
  const taken = candidates.filter((one) => !stays(one))
  return {
    ...resolved,
    candidates: candidates.filter(stays),
    skipped: [...skipped, ...taken.map((one) => skippedFor(one, 'none'))],
  }
}

/** How the first target is chosen among the candidates of the first rank. */
const oddsOf = (groups: PlanDraft['groups'], view: OrderingInput['view']): PlanOdds => {
  const first = groups.find(({ candidates }) => candidates.length > 0)
  const { strategy = 'priority', candidates = [] } = first ?? {}
  const roles = groups.flatMap(({ candidates: all, own }, rank) => {
    const role: TargetRole = own ? (rank === 0 ? 'target' : 'fallback') : 'failover'
    return all.map((one) => [one, role] as const)
  })
  return { strategy, shares: firstShares(candidates, strategy, view), roles: new Map(roles) }
}

/** Whether the plan is the same for all requests, so that it can be cached too. Prices may change at any time. */
export const hasFixedOrder = ({ groups, isConditional }: PlanDraft): boolean =>
  !isConditional && groups.every(({ candidates, strategy }) => candidates.length < 2 || strategy === 'priority')

/** What a model name refers to. `sameAs`: the names under which other providers may have the same model. */
type ResolvedName = {
  readonly by: Plan['by']
  /** The name of the route. */
  readonly route?: string
  /** Absent: as the strategy has it. */
  readonly stickiness?: Plan['stickiness']
  readonly groups: readonly CandidateGroup[]
  readonly sameAs: readonly string[]
  readonly skipped: readonly Skipped[]
  /** As in `PlanDraft`; Infinity: not by time. */
  readonly until?: number
}

/** Resolves the model name. Undefined: the name is unknown and the settings reject unknown names. */
const resolveName = (input: PlanInput, instances: readonly Instance[]): ResolvedName | undefined => {
  const { config } = input
  const model = input.model.trim()
  const { strategy, unknownModel } = config.settings
  const route = routeNamed(config, model)
  if (route) return byRoute(input, instances, route)

  const one = (by: Plan['by'], candidates: readonly Candidate[], sameAs: readonly string[]): ResolvedName => ({
    by,
    groups: [{ candidates, strategy, own: true }],
    sameAs,
    skipped: [],
  })
  const head = prefixOf(model)
  const named = head === undefined ? [] : instancesNamed(instances, head)
  if (head !== undefined && named.length > 0) {
    const rest = model.slice(head.length + 1).trim()
    const because = `the model's name begins with "${head}/"`
    const candidates = named.map((instance) =>
      candidate(instance, rest === '' ? usualModel(input, instance) : rest, because),
    )
    // Other providers may list it with or without the maker's name as a prefix.
    return one('provider', candidates, rest === '' ? [] : [rest, model])
  }
  if (modelName(model) !== AUTO) {
    const listing = instances.flatMap((instance) => {
      const name = modelAt(input, instance, model)
      return name === undefined ? [] : candidate(instance, name, `${instance.id} has it`)
    })
    if (listing.length > 0) return one('listed', listing, [model])
    if (unknownModel === 'reject') return undefined
  }
  return one(
    'default',
    instances.map((instance) => candidate(instance, usualModel(input, instance), 'default route')),
    [],
  )
}

const byRoute = (input: PlanInput, instances: readonly Instance[], route: Route): ResolvedName => {
  const skipped: Skipped[] = []
  let until = Number.POSITIVE_INFINITY
  const resolve = (target: RouteTarget, because: string): readonly Candidate[] => {
    const found = instancesNamed(instances, target.provider)
    if (found.length === 0) {
      const isConfigured = instancesNamed(usableInstances(input.config), target.provider).length > 0
      const why = isConfigured ? 'it generates no text' : 'this provider is not configured'
      skipped.push({ provider: target.provider, model: target.model ?? '', why })
    }
    return found.flatMap((instance) => {
      const model = target.model ?? usualModel(input, instance)
      if (route.onRetired === undefined) return routeCandidate({ instance, model, because }, target, route)
      const serving = servingModels({ instance, model }, input.ends ?? null)
      until = Math.min(until, serving.until)
      return serving.models.map((name) => {
        const reason = name === model ? because : `${because}, in place of ${model}`
        return routeCandidate({ instance, model: name, because: reason }, target, route)
      })
    })
  }
  const targets = route.targets.flatMap((target) => resolve(target, `the route "${route.name}"`))
  const fallback = route.fallback.flatMap((target) => resolve(target, `the fallback of the route "${route.name}"`))
  return {
    by: 'route',
    route: route.name,
    ...(route.stickiness && { stickiness: route.stickiness }),
    groups: [
      { candidates: targets, strategy: route.strategy ?? input.config.settings.strategy, own: true },
      { candidates: fallback, strategy: 'priority', own: true },
    ],
    sameAs: [],
    skipped,
    until,
  }
}

/** Adds candidates for failover according to the setting `fallback`; the others are reported as skipped. */
const withFallback = (
  input: PlanInput,
  instances: readonly Instance[],
  { groups, sameAs }: ResolvedName,
): { readonly groups: readonly CandidateGroup[]; readonly skipped: readonly Skipped[] } => {
  const { fallback, strategy } = input.config.settings
  const own = new Set(groups.flatMap(({ candidates }) => candidates.map(({ instance }) => instance)))
  const having: Candidate[] = []
  const rest: Candidate[] = []
  for (const instance of instances) {
    if (own.has(instance)) continue
    const [same] = sameAs.flatMap((name) => modelAt(input, instance, name) ?? [])
    if (same === undefined) rest.push(candidate(instance, usualModel(input, instance), 'fallback: any'))
    else having.push(candidate(instance, same, `${instance.id} has the same model`))
  }
  const skip = (one: Candidate) => skippedFor(one, fallback)
  const same: CandidateGroup = { candidates: having, strategy, own: false, isSameModel: true }
  switch (fallback) {
    case 'any':
      return {
        groups: [...groups, same, { candidates: rest, strategy, own: false }],
        skipped: [],
      }
    case 'same-model':
      return { groups: [...groups, same], skipped: rest.map(skip) }
    case 'none':
      return { groups, skipped: [...having, ...rest].map(skip) }
    default:
      throw new Error(`unknown fallback ${JSON.stringify(fallback satisfies never)}`)
  }
}

const skippedFor = ({ instance, model }: Candidate, fallback: Settings['fallback']): Skipped => ({
  provider: instance.id,
  model,
  why: `fallback is "${fallback}"`,
})

/** Builds a candidate. `because`: the reason, shown by `POST /v1/route`. */
export const candidate = (instance: Instance, model: string, because: string, weight = 1): Candidate => ({
  instance,
  model,
  because,
  weight,
})

/** Builds a candidate for a target of a route. */
export const routeCandidate = (
  place: Pick<Candidate, 'instance' | 'model' | 'because'>,
  target: RouteTarget,
  { canary, targets, shadow }: Pick<Route, 'canary' | 'targets' | 'shadow'>,
): Candidate => {
  const { weight, when, override } = target
  const isCanary = canary !== undefined && target === targets[canary.target]
  const isShadow = shadow !== undefined && target === shadow.target
  return {
    ...place,
    weight,
    ...(when && { when }),
    ...(override && { override }),
    ...(isCanary && { isCanary }),
    ...(isShadow && { isShadow }),
  }
}

const usualModel = (input: PlanInput, instance: Instance): string => defaultModel(input, instance) ?? input.model

const ordered = (
  { view, random }: OrderingInput,
  candidates: readonly Candidate[],
  strategy: Strategy,
): readonly Candidate[] => orderCandidates(candidates, strategy, view, random)

/** Removes duplicates: a model at an instance keeps its first place. */
const unique = (candidates: readonly Candidate[]): readonly Candidate[] => {
  const seen = new Set<string>()
  return candidates.filter((one) => {
    const id = modelId(one)
    if (seen.has(id)) return false
    seen.add(id)
    return true
  })
}

/** The failure when no provider is configured. */
export const unconfigured = (): Failure =>
  fail(
    'unconfigured',
    'No provider is configured. Set a key such as OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or OLLAMA_BASE_URL for a local model, and start the gateway again.',
  )

/** The failure of a route without a configured target. */
export const emptyRoute = (model: string): Failure =>
  fail(
    'unknown_model',
    `The route ${quoted(model)} leads to no configured provider. Add its providers, or correct its targets.`,
    { param: 'model' },
  )

const unknown = ({ config, lists, catalogue, model }: PlanInput): Failure =>
  unknownModel(
    model,
    listModels(config, lists, catalogue).map(({ id }) => id),
  )

/** The failure of an unknown model name, with the nearest of these names. */
export const unknownModel = (model: string, names: readonly string[]): Failure => {
  const near = nearestModels(model, names)
  const hint = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : 'GET /v1/models lists the known names.'
  return fail('unknown_model', `The model ${quoted(model)} is not known here. ${hint}`, { param: 'model' })
}

/** At most three similar names, quoted. A name without a slash is compared only with names without one: this halves the work. */
export const nearestModels = (model: string, names: readonly string[]): readonly string[] => {
  const comparable = names.filter((name) => name.includes('/') === model.includes('/'))
  return nearest(model, comparable.slice(0, MAX_NAMES), 3).map(quoted)
}

/** How many names an unknown name is compared with: bounds the cost of such a request. */
const MAX_NAMES = 1_000
const MAX_QUOTE = 100

/** Quotes text from a client for an error message: JSON-escaped, at most 100 characters. */
export const quoted = (word: string): string =>
  JSON.stringify(word.length > MAX_QUOTE ? `${word.slice(0, MAX_QUOTE)}…` : word)

/** Whether each request draws which of several targets is first. */
export const isDrawn = ({ shares }: PlanOdds): boolean => [...shares.values()].filter((share) => share > 0).length > 1

/** The plan as `POST /v1/route` returns it. `now` adds the current state of a candidate: its circuit and cooldowns. */
export const explainPlan = (
  model: string,
  { by, candidates, skipped, odds }: Plan,
  now: (candidate: Candidate) => JsonObject = () => ({}),
): JsonObject => ({
  object: 'route',
  model,
  by,
  ...(odds && { strategy: odds.strategy, drawn: isDrawn(odds) }),
  targets: candidates.map((one) => ({
    provider: one.instance.id,
    model: one.model,
    because: one.because,
    weight: one.weight,
    ...(odds && { role: odds.roles.get(one) ?? 'target' }),
    ...(odds?.shares.has(one) && { share: odds.shares.get(one) ?? 0 }),
    ...now(one),
  })),
  skipped: skipped.map((one) => ({ ...one })),
})
