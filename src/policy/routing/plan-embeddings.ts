/**
 * Where a request for embeddings may go. Vectors of different models cannot be compared, and clients store them without
 * the model name. So failover uses another key or provider of the same model, never another model. A route may list
 * several models, because the operator chose them.
 */
import type { Route, RouteTarget } from '../../core/config.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { modelName } from '../../core/model-name.ts'
import { nearest } from '../../core/nearest.ts'
import type { Instance } from '../../core/provider.ts'
import type { Candidate, Plan, Skipped } from '../../core/target.ts'
import { instancesNamed, type ModelSources, modelAt, nameIn, prefixOf, routeNamed, usableInstances } from './models.ts'
import { AUTO, candidate, emptyRoute, type PlanDraft, type PlanInput, planDraft, quoted, unconfigured } from './plan.ts'

/** Plans a request for embeddings by its model name. Fails with `unconfigured`, `unsupported` or `unknown_model`. */
export const draftEmbeddings = (input: PlanInput): Outcome<PlanDraft> => {
  const { config } = input
  const model = input.model.trim()
  const all = usableInstances(config)
  if (all.length === 0) return bad(unconfigured())
  const able = all.filter(({ provider }) => provider.embeds)
  const skipped = all.filter(({ provider }) => !provider.embeds).map((instance) => skip(instance, model, UNABLE))
  const route = routeNamed(config, model)
  if (route) return byRoute(input, all, route)

  const head = prefixOf(model)
  const named = head === undefined ? [] : instancesNamed(all, head)
  if (head !== undefined && named.length > 0) {
    const rest = model.slice(head.length + 1).trim()
    const own = named
      .filter(({ provider }) => provider.embeds)
      .flatMap((instance) =>
        candidates(instance, rest || usualModel(input, instance), `the model's name begins with "${head}/"`),
      )
    if (own.length === 0)
      return bad(
        fail(
          'unsupported',
          `The provider ${quoted(head)} does not support embeddings, or no embeddings model of it is known. ${ADD}`,
          {
            param: 'model',
          },
        ),
      )
    const names = rest === '' ? own.map((one) => one.model) : [rest, model]
    return good(planned(input, { by: 'provider', own, others: candidatesWith(input, able, names) }, skipped))
  }
  if (able.length === 0)
    return bad(fail('unsupported', `No configured provider supports embeddings. ${ADD}`, { param: 'model' }))

  if (modelName(model) === AUTO) return byDefault(input, able, skipped)
  const listing = candidatesWith(input, able, [model])
  if (listing.length > 0) return good(planned(input, { by: 'listed', own: listing, others: [] }, skipped))
  // The vectors of the built-in demo provider have no meaning, so it accepts any name.
  if (able.every(({ provider }) => provider.builtin)) return byDefault(input, able, skipped)
  if (config.settings.unknownModel === 'reject') return bad(unknown(input, able))
  // Lists contain mostly chat models, so an unlisted name may exist: it is sent unchanged.
  const asNamed = able.map((instance) => candidate(instance, model, 'in no list: sent by its name'))
  return good(planned(input, { by: 'default', own: asNamed, others: [] }, skipped))
}

const UNABLE = 'it does not support embeddings'
const ADD =
  'Add one that does, such as OPENAI_API_KEY, MISTRAL_API_KEY, GEMINI_API_KEY, COHERE_API_KEY or OLLAMA_BASE_URL.'

const skip = ({ id }: Instance, model: string, why: string): Skipped => ({ provider: id, model, why })

const candidates = (instance: Instance, model: string | undefined, because: string): readonly Candidate[] =>
  model === undefined ? [] : [candidate(instance, model, because)]

/** Whether the name identifies a model for embeddings. */
const isEmbeddingName = (model: string): boolean => /embed/i.test(model)

/** The model used at an instance for a request that names none. A configured model is first, if its name identifies it as one for embeddings. */
const usualModel = ({ lists }: ModelSources, { id, models, provider }: Instance): string | undefined =>
  models.find(isEmbeddingName) ?? provider.embeds?.models[0] ?? lists.get(id)?.find(isEmbeddingName)

const embeddingsAt = (input: PlanInput, instance: Instance, model: string): string | undefined =>
  nameIn(instance.provider.embeds?.models, model) ?? modelAt(input, instance, model)

/** The instances that have one of these names, each with the first name it has. */
const candidatesWith = (
  input: PlanInput,
  instances: readonly Instance[],
  names: readonly string[],
): readonly Candidate[] =>
  instances.flatMap((instance) =>
    candidates(
      instance,
      names.flatMap((name) => embeddingsAt(input, instance, name) ?? [])[0],
      `${instance.id} has it`,
    ),
  )

/** The default model of the first instance, at all instances that have it. Always the same model, so that vectors stay comparable. */
const byDefault = (input: PlanInput, able: readonly Instance[], skipped: readonly Skipped[]): Outcome<PlanDraft> => {
  const first = able.flatMap((instance) => candidates(instance, usualModel(input, instance), 'default route'))[0]
  if (!first)
    return bad(
      fail(
        'unknown_model',
        'No configured provider has a default model for embeddings. Set `model` to one that a provider has.',
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

const byRoute = (input: PlanInput, instances: readonly Instance[], route: Route): Outcome<PlanDraft> => {
  const skipped: Skipped[] = []
  const resolve = (target: RouteTarget, because: string): readonly Candidate[] => {
    const found = instancesNamed(instances, target.provider)
    const out = (why: string) => skipped.push({ provider: target.provider, model: target.model ?? '', why })
    if (found.length === 0) out('this provider is not configured')
    return found.flatMap((instance) => {
      if (!instance.provider.embeds) out(UNABLE)
      const model = instance.provider.embeds && (target.model ?? usualModel(input, instance))
      return model === undefined ? [] : [candidate(instance, model, because, target.weight)]
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

const unknown = ({ model }: PlanInput, able: readonly Instance[]) => {
  const names = able.flatMap(({ id, provider, models }) =>
    [...(provider.embeds?.models ?? []), ...models].flatMap((name) => [name, `${id}/${name}`]),
  )
  const near = nearest(model, names, 3).map(quoted)
  const hint = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : 'Write `provider/model` to choose a provider.'
  return fail('unknown_model', `The model ${quoted(model)} is not known here. ${hint}`, { param: 'model' })
}
