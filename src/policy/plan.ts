/**
 * Where a request may go, in order, and because of what. Decided from the model's name and what is configured; whether
 * a target may be tried at this moment (circuits, cool-downs) is asked later, of each in its turn.
 */
import type { Route, RouteTarget } from '../core/config.ts'
import { bad, type Failure, fail, good, type Outcome } from '../core/failure.ts'
import type { JsonObject } from '../core/json.ts'
import { nearest } from '../core/nearest.ts'
import type { Instance } from '../core/provider.ts'
import type { Strategy } from '../core/settings.ts'
import { type Candidate, modelId, type Plan, type Skipped } from '../core/target.ts'
import { defaultModel, factsOf, has, headOf, instancesNamed, type Knowledge, listModels, usable } from './models.ts'
import { order, type View } from './order.ts'
import { blended } from './price.ts'

export type PlanInput = Knowledge & {
  /** The client's own word. */
  readonly model: string
  readonly view: Pick<View, 'latency'>
  readonly random: () => number
}

/** Asks for whatever the gateway finds best. */
export const AUTO = 'auto'

export const plan = (input: PlanInput): Outcome<Plan> => {
  const { config, model } = input
  const instances = usable(config)
  if (instances.length === 0) return bad(unconfigured())
  const claim = claimed(input, instances)
  if (!claim) return bad(unknown(input))
  const ranked = claim.groups.flatMap(({ candidates, strategy }) => ordered(input, candidates, strategy))
  const { candidates, skipped } = withFallback(input, instances, claim, unique(ranked))
  if (candidates.length === 0) return bad(leadsNowhere(model))
  return good({ by: claim.by, candidates, skipped: [...claim.skipped, ...skipped] })
}

/** Candidates of equal claim, to be put in order by a strategy. */
type Group = { readonly candidates: readonly Candidate[]; readonly strategy: Strategy }

/** What the name itself asks for, and the names under which other providers may have the same model. */
type Claim = {
  readonly by: Plan['by']
  readonly groups: readonly Group[]
  readonly sameAs: readonly string[]
  readonly skipped: readonly Skipped[]
}

/** Undefined: nobody knows the name, and such names are to be rejected. */
const claimed = (input: PlanInput, instances: readonly Instance[]): Claim | undefined => {
  const { config, model } = input
  const { strategy, unknownModel } = config.settings
  const route = config.routes.get(model)
  if (route) return byRoute(input, instances, route)

  const one = (by: Plan['by'], candidates: readonly Candidate[], sameAs: readonly string[]): Claim => ({
    by,
    groups: [{ candidates, strategy }],
    sameAs,
    skipped: [],
  })
  const head = headOf(model)
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
    const listing = instances.filter((instance) => has(input, instance, model))
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

const byRoute = (input: PlanInput, instances: readonly Instance[], route: Route): Claim => {
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

/** Adds where else the request may go, or takes away what the setting forbids. */
const withFallback = (
  input: PlanInput,
  instances: readonly Instance[],
  { sameAs }: Claim,
  own: readonly Candidate[],
): Pick<Plan, 'candidates' | 'skipped'> => {
  const { fallback, strategy } = input.config.settings
  const skip = ({ instance, model }: Candidate): Skipped => ({
    provider: instance.id,
    model,
    why: `fallback is "${fallback}"`,
  })
  const only = own[0]?.instance
  const mine = fallback === 'none' ? own.filter(({ instance }) => instance === only) : own
  const taken = own.filter(({ instance }) => fallback === 'none' && instance !== only)
  const others = instances.filter((other) => !own.some(({ instance }) => instance === other))
  const having: Candidate[] = []
  const rest: Candidate[] = []
  for (const instance of others) {
    const same = sameAs.find((name) => has(input, instance, name))
    if (same === undefined) rest.push(candidate(instance, usualModel(input, instance), 'fallback: any'))
    else having.push(candidate(instance, same, `${instance.id} has the same model`))
  }
  const rank = (candidates: readonly Candidate[]) => ordered(input, candidates, strategy)
  switch (fallback) {
    case 'any':
      return { candidates: [...mine, ...rank(having), ...rank(rest)], skipped: [] }
    case 'same-model':
      return { candidates: [...mine, ...rank(having)], skipped: rest.map(skip) }
    case 'none':
      return { candidates: mine, skipped: [...taken, ...having, ...rest].map(skip) }
    default:
      throw new Error(`unknown fallback ${JSON.stringify(fallback satisfies never)}`)
  }
}

export const candidate = (instance: Instance, model: string, because: string, weight = 1): Candidate => ({
  instance,
  model,
  because,
  weight,
})

const usualModel = (input: PlanInput, instance: Instance): string => defaultModel(input, instance) ?? input.model

export const ordered = (
  { catalogue, view, random }: PlanInput,
  candidates: readonly Candidate[],
  strategy: Strategy,
): readonly Candidate[] =>
  order(
    candidates,
    strategy,
    { latency: view.latency, price: ({ instance, model }) => blended(factsOf(catalogue, instance, model)) },
    random,
  )

/** A model at a provider has one place, its first. */
export const unique = (candidates: readonly Candidate[]): readonly Candidate[] => {
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
export const leadsNowhere = (model: string): Failure =>
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
    names.slice(0, MOST_NAMES).map(({ id }) => id),
    3,
  ).map(quoted)
  const hint = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : 'GET /v1/models lists the names that are.'
  return fail('unknown_model', `The model ${quoted(model)} is not known here. ${hint}`, { param: 'model' })
}

/** Comparing with more names than this would make a wrong name dear. */
const MOST_NAMES = 1_000
const LONGEST_QUOTE = 100

/** A client's word in a message: in one line, and not longer than it helps. */
export const quoted = (word: string): string =>
  JSON.stringify(word.length > LONGEST_QUOTE ? `${word.slice(0, LONGEST_QUOTE)}…` : word)

/** The plan as `POST /v1/route` answers it. `now` adds what is known of a candidate at this moment: its circuit, its cool-downs. */
export const explain = (
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
