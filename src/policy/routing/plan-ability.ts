/**
 * Where a request may go that not every provider can serve: embeddings, and the endpoints that are relayed. Answers of different
 * models cannot be compared, and clients store them without the model name. So failover uses another key or provider of the same
 * model, never another model. A route may list several models, because the operator chose them.
 */

import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { modelName } from '../../core/model-name.ts'
import { nearest } from '../../core/nearest.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import type { Route, RouteTarget } from '../../core/route.ts'
import type { Skipped } from '../../core/skipped-target.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { instancesNamed, modelAt, nameIn, prefixOf, routeNamed, usableInstances } from './models.ts'
import {
  AUTO,
  candidate,
  emptyRoute,
  type PlanDraft,
  type PlanInput,
  planDraft,
  quoted,
  routeCandidate,
  unconfigured,
} from './plan.ts'

/** What a provider must support. */
export type NeededAbility = {
  /** In messages: `embeddings`. */
  readonly name: string
  /** The known models of a provider for it, the default first. Undefined: the provider does not support it. */
  readonly modelsOf: (provider: Provider) => readonly string[] | undefined
  /** Whether the name identifies a model for it. */
  readonly isName: (model: string) => boolean
  /** Which providers to add, as a sentence. */
  readonly remedy: string
}

/** Plans a request by its model name. Fails with `unconfigured`, `unsupported` or `unknown_model`. */
export const draftFor =
  (needed: NeededAbility) =>
  (input: PlanInput): Outcome<PlanDraft> =>
    draft({ ...input, needed })

/** The request for a plan, and what it needs. */
type AblePlanInput = PlanInput & { readonly needed: NeededAbility }

const draft = (input: AblePlanInput): Outcome<PlanDraft> => {
  const { config, needed } = input
  const model = input.model.trim()
  const all = usableInstances(config)
  if (all.length === 0) return bad(unconfigured())
  const isAble = ({ provider }: Instance) => needed.modelsOf(provider) !== undefined
  const able = all.filter(isAble)
  const skipped = all.filter((one) => !isAble(one)).map((instance) => skip(instance, model, unable(needed)))
  const route = routeNamed(config, model)
  if (route) return byRoute(input, all, route)

  const head = prefixOf(model)
  const named = head === undefined ? [] : instancesNamed(all, head)
  if (head !== undefined && named.length > 0) {
    const rest = model.slice(head.length + 1).trim()
    const own = named
      .filter(isAble)
      .flatMap((instance) =>
        candidates(instance, rest || usualModel(input, instance), `the model's name begins with "${head}/"`),
      )
    if (own.length === 0)
      return bad(
        fail(
          'unsupported',
          `The provider ${quoted(head)} does not support ${needed.name}, or no ${needed.name} model of it is known. ${needed.remedy}`,
          {
            param: 'model',
          },
        ),
      )
    const names = rest === '' ? own.map((one) => one.model) : [rest, model]
    return good(planned(input, { by: 'provider', own, others: candidatesWith(input, able, names) }, skipped))
  }
  if (able.length === 0)
    return bad(
      fail('unsupported', `No configured provider supports ${needed.name}. ${needed.remedy}`, { param: 'model' }),
    )

  if (modelName(model) === AUTO) return byDefault(input, able, skipped)
  const listing = candidatesWith(input, able, [model])
  if (listing.length > 0) return good(planned(input, { by: 'listed', own: listing, others: [] }, skipped))
  // The answers of the built-in demo provider have no meaning, so it accepts any name.
  if (able.every(({ provider }) => provider.builtin)) return byDefault(input, able, skipped)
  if (config.settings.unknownModel === 'reject') return bad(unknown(input, able))
  // Lists contain mostly chat models, so an unlisted name may exist: it is sent unchanged.
  const asNamed = able.map((instance) => candidate(instance, model, 'in no list: sent by its name'))
  return good(planned(input, { by: 'default', own: asNamed, others: [] }, skipped))
}

const unable = ({ name }: NeededAbility): string => `it does not support ${name}`

const skip = ({ id }: Instance, model: string, why: string): Skipped => ({ provider: id, model, why })

const candidates = (instance: Instance, model: string | undefined, because: string): readonly Candidate[] =>
  model === undefined ? [] : [candidate(instance, model, because)]

/** The model used at an instance for a request that names none. A configured model is first, if its name identifies it. */
const usualModel = ({ lists, needed }: AblePlanInput, { id, models, provider }: Instance): string | undefined =>
  models.find(needed.isName) ?? needed.modelsOf(provider)?.[0] ?? lists.get(id)?.find(needed.isName)

const ableModelAt = (input: AblePlanInput, instance: Instance, model: string): string | undefined =>
  nameIn(input.needed.modelsOf(instance.provider), model) ?? modelAt(input, instance, model)

/** The instances that have one of these names, each with the first name it has. */
const candidatesWith = (
  input: AblePlanInput,
  instances: readonly Instance[],
  names: readonly string[],
): readonly Candidate[] =>
  instances.flatMap((instance) =>
    candidates(instance, names.flatMap((name) => ableModelAt(input, instance, name) ?? [])[0], `${instance.id} has it`),
  )

/** The default model of the first instance, at all instances that have it. Always the same model, so that answers stay comparable. */
const byDefault = (
  input: AblePlanInput,
  able: readonly Instance[],
  skipped: readonly Skipped[],
): Outcome<PlanDraft> => {
  const first = able.flatMap((instance) => candidates(instance, usualModel(input, instance), 'default route'))[0]
  if (!first)
    return bad(
      fail(
        'unknown_model',
        `No configured provider has a default model for ${input.needed.name}. Set \`model\` to one that a provider has.`,
        {
          param: 'model',
        },
      ),
    )
  return good(
    planned(input, { by: 'default', own: [first], others: candidatesWith(input, able, [first.model]) }, skipped),
  )
}

/** The candidates of a plan. `others`: targets for failover after `own`. */
type ChosenCandidates = {
  readonly by: Plan['by']
  readonly own: readonly Candidate[]
  readonly others: readonly Candidate[]
}

const planned = (
  { config }: PlanInput,
  { by, own, others }: ChosenCandidates,
  skipped: readonly Skipped[],
): PlanDraft => {
  const { strategy } = config.settings
  const groups = [
    { candidates: own, strategy, own: true },
    { candidates: others, strategy, own: false },
  ]
  return planDraft(config, by, groups, skipped)
}

const byRoute = (input: AblePlanInput, instances: readonly Instance[], route: Route): Outcome<PlanDraft> => {
  const skipped: Skipped[] = []
  const resolve = (target: RouteTarget, because: string): readonly Candidate[] => {
    const found = instancesNamed(instances, target.provider)
    const out = (why: string) => skipped.push({ provider: target.provider, model: target.model ?? '', why })
    if (found.length === 0) out('this provider is not configured')
    return found.flatMap((instance) => {
      const isAble = input.needed.modelsOf(instance.provider) !== undefined
      if (!isAble) out(unable(input.needed))
      const model = isAble ? (target.model ?? usualModel(input, instance)) : undefined
      return model === undefined ? [] : [routeCandidate({ instance, model, because }, target, route)]
    })
  }
  const { strategy = input.config.settings.strategy } = route
  const first = route.targets.flatMap((target) => resolve(target, `the route "${route.name}"`))
  const then = route.fallback.flatMap((target) => resolve(target, `the fallback of the route "${route.name}"`))
  if (first.length + then.length === 0) return bad(emptyRoute(route.name))
  const groups = [
    { candidates: first, strategy, own: true },
    { candidates: then, strategy: 'priority' as const, own: true },
  ]
  // The setting `fallback: none` does not remove targets that the operator listed in a route.
  return good({ ...planDraft(input.config, 'route', groups, skipped), route: route.name, onlyFirst: false })
}

const unknown = ({ model, needed }: AblePlanInput, able: readonly Instance[]) => {
  const names = able.flatMap(({ id, provider, models }) =>
    [...(needed.modelsOf(provider) ?? []), ...models].flatMap((name) => [name, `${id}/${name}`]),
  )
  const near = nearest(model, names, 3).map(quoted)
  const hint = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : 'Write `provider/model` to choose a provider.'
  return fail('unknown_model', `The model ${quoted(model)} is not known here. ${hint}`, { param: 'model' })
}
