/**
 * Where a request may go, in order, and because of what. Decided from the model's name and what is configured; whether
 * a target may be tried at this moment (circuits, cool-downs) is asked later, of each in its turn.
 */
import type { Config, Route, RouteTarget } from '../../core/config.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import { nearest } from '../../core/nearest.ts'
import type { Instance } from '../../core/provider.ts'
import type { Settings, Strategy } from '../../core/settings.ts'
import { type Candidate, modelId, type Plan, type Skipped } from '../../core/target.ts'
import {
  defaultModel,
  factsOf,
  hasModel,
  instancesNamed,
  listModels,
  type ModelSources,
  prefixOf,
  usableInstances,
} from './models.ts'
import { type CandidateView, orderCandidates } from './order.ts'
import { blended } from './price.ts'

/** What decides where a request may go at all. */
export type PlanInput = ModelSources & {
  /** The client's own word. */
  readonly model: string
}

/** What may be different for each request: how things go just now, and chance. */
export type OrderingInput = Pick<ModelSources, 'catalogue'> & {
  readonly view: Pick<CandidateView, 'latency'>
  readonly random: () => number
}

/** Asks for whatever the gateway finds best. */
export const AUTO = 'auto'

/** A plan of which everything is known but the order within its groups: the same for all requests of that name. */
export type PlanDraft = {
  readonly by: Plan['by']
  /** One after another. */
  readonly groups: readonly CandidateGroup[]
  /** Some model at a provider is there more than once, and has its first place only. */
  readonly repeats: boolean
  /** Nobody is asked but the provider that comes first. */
  readonly onlyFirst: boolean
  readonly skipped: readonly Skipped[]
}

/** Candidates of equal claim, to be put in order by a strategy. */
type CandidateGroup = { readonly candidates: readonly Candidate[]; readonly strategy: Strategy }

/** Where a request of this name may go. */
export const draftPlan = (wanted: PlanInput): Outcome<PlanDraft> => {
  const { config, model } = wanted
  const instances = usableInstances(config)
  if (instances.length === 0) return bad(unconfigured())
  const claim = resolveName(wanted, instances)
  if (!claim) return bad(unknown(wanted))
  const { groups, skipped } = withFallback(wanted, instances, claim)
  if (groups.every(({ candidates }) => candidates.length === 0)) return bad(emptyRoute(model))
  return good(planDraft(config, claim.by, groups, [...claim.skipped, ...skipped]))
}

export const planDraft = (
  { settings }: Config,
  by: Plan['by'],
  groups: readonly CandidateGroup[],
  skipped: readonly Skipped[],
): PlanDraft => {
  const all = groups.flatMap(({ candidates }) => candidates)
  return { by, groups, repeats: unique(all).length < all.length, onlyFirst: settings.fallback === 'none', skipped }
}

/** In which order, this time. */
export const orderedPlan = ({ by, groups, repeats, onlyFirst, skipped }: PlanDraft, moment: OrderingInput): Plan => {
  const ranked = groups.flatMap(({ candidates, strategy }) => ordered(moment, candidates, strategy))
  const candidates = repeats ? unique(ranked) : ranked
  if (!onlyFirst) return { by, candidates, skipped }
  const only = candidates[0]?.instance
  const taken = candidates.filter(({ instance }) => instance !== only)
  return {
    by,
    candidates: candidates.filter(({ instance }) => instance === only),
    skipped: [...skipped, ...taken.map((one) => skippedFor(one, 'none'))],
  }
}

/** Whether settling it again could come to something else. */
export const hasFixedOrder = ({ groups }: PlanDraft): boolean =>
  groups.every(({ candidates, strategy }) => candidates.length < 2 || strategy === 'priority' || strategy === 'cost')

/** What the name itself asks for, and the names under which other providers may have the same model. */
type ResolvedName = {
  readonly by: Plan['by']
  readonly groups: readonly CandidateGroup[]
  readonly sameAs: readonly string[]
  readonly skipped: readonly Skipped[]
}

/** Undefined: nobody knows the name, and such names are to be rejected. */
const resolveName = (input: PlanInput, instances: readonly Instance[]): ResolvedName | undefined => {
  const { config, model } = input
  const { strategy, unknownModel } = config.settings
  const route = config.routes.get(model)
  if (route) return byRoute(input, instances, route)

  const one = (by: Plan['by'], candidates: readonly Candidate[], sameAs: readonly string[]): ResolvedName => ({
    by,
    groups: [{ candidates, strategy }],
    sameAs,
    skipped: [],
  })
  const head = prefixOf(model)
  const named = head === undefined ? [] : instancesNamed(instances, head)
  if (head !== undefined && named.length > 0) {
    const rest = model.slice(head.length + 1)
    const because = `the model's name begins with "${head}/"`
    const candidates = named.map((instance) =>
      candidate(instance, rest === '' ? usualModel(input, instance) : rest, because),
    )
    // Others may list it with the maker's name in front, or without.
    return one('provider', candidates, rest === '' ? [] : [rest, model])
  }
  if (model !== AUTO) {
    const listing = instances.filter((instance) => hasModel(input, instance, model))
    if (listing.length > 0)
      return one(
        'listed',
        listing.map((instance) => candidate(instance, model, `${instance.id} has it`)),
        [model],
      )
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
  const resolve = (target: RouteTarget, because: string): readonly Candidate[] => {
    const found = instancesNamed(instances, target.provider)
    if (found.length === 0)
      skipped.push({ provider: target.provider, model: target.model ?? '', why: 'this provider is not configured' })
    return found.map((instance) =>
      candidate(instance, target.model ?? usualModel(input, instance), because, target.weight),
    )
  }
  return {
    by: 'route',
    groups: [
      {
        candidates: route.targets.flatMap((target) => resolve(target, `the route "${route.name}"`)),
        strategy: route.strategy ?? input.config.settings.strategy,
      },
      {
        candidates: route.fallback.flatMap((target) => resolve(target, `the fallback of the route "${route.name}"`)),
        strategy: 'priority',
      },
    ],
    sameAs: [],
    skipped,
  }
}

/** The groups of a claim and where else the request may go, as the setting has it. */
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
    const same = sameAs.find((name) => hasModel(input, instance, name))
    if (same === undefined) rest.push(candidate(instance, usualModel(input, instance), 'fallback: any'))
    else having.push(candidate(instance, same, `${instance.id} has the same model`))
  }
  const skip = (one: Candidate) => skippedFor(one, fallback)
  switch (fallback) {
    case 'any':
      return { groups: [...groups, { candidates: having, strategy }, { candidates: rest, strategy }], skipped: [] }
    case 'same-model':
      return { groups: [...groups, { candidates: having, strategy }], skipped: rest.map(skip) }
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

export const candidate = (instance: Instance, model: string, because: string, weight = 1): Candidate => ({
  instance,
  model,
  because,
  weight,
})

const usualModel = (input: PlanInput, instance: Instance): string => defaultModel(input, instance) ?? input.model

const ordered = (
  { catalogue, view, random }: OrderingInput,
  candidates: readonly Candidate[],
  strategy: Strategy,
): readonly Candidate[] =>
  orderCandidates(
    candidates,
    strategy,
    { latency: view.latency, price: ({ instance, model }) => blended(factsOf(catalogue, instance, model)) },
    random,
  )

/** A model at a provider has one place, its first. */
const unique = (candidates: readonly Candidate[]): readonly Candidate[] => {
  const seen = new Set<string>()
  return candidates.filter((one) => {
    const id = modelId(one)
    if (seen.has(id)) return false
    seen.add(id)
    return true
  })
}

export const unconfigured = (): Failure =>
  fail(
    'unconfigured',
    'No provider is configured. Set a key such as OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or OLLAMA_BASE_URL for a local model, and start the gateway again.',
  )

/** A route none of whose targets can be asked. */
export const emptyRoute = (model: string): Failure =>
  fail(
    'unknown_model',
    `The route ${quoted(model)} leads to no configured provider. Add its providers, or correct its targets.`,
    { param: 'model' },
  )

const unknown = ({ config, lists, catalogue, model }: PlanInput): Failure => {
  // Who writes no slash means none: half the names need not be compared.
  const names = listModels(config, lists, catalogue).filter(({ id }) => id.includes('/') === model.includes('/'))
  const near = nearest(
    model,
    names.slice(0, MAX_NAMES).map(({ id }) => id),
    3,
  ).map(quoted)
  const hint = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : 'GET /v1/models lists the names that are.'
  return fail('unknown_model', `The model ${quoted(model)} is not known here. ${hint}`, { param: 'model' })
}

/** Comparing with more names than this would make a wrong name dear. */
const MAX_NAMES = 1_000
const MAX_QUOTE = 100

/** A client's word in a message: in one line, and not longer than it helps. */
export const quoted = (word: string): string =>
  JSON.stringify(word.length > MAX_QUOTE ? `${word.slice(0, MAX_QUOTE)}…` : word)

/** The plan as `POST /v1/route` answers it. `now` adds what is known of a candidate at this moment: its circuit, its cool-downs. */
export const explainPlan = (
  model: string,
  { by, candidates, skipped }: Plan,
  now: (candidate: Candidate) => JsonObject = () => ({}),
): JsonObject => ({
  object: 'route',
  model,
  by,
  targets: candidates.map((one) => ({
    provider: one.instance.id,
    model: one.model,
    because: one.because,
    weight: one.weight,
    ...now(one),
  })),
  skipped: skipped.map((one) => ({ ...one })),
})
