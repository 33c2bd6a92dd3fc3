/** Which provider has which model, as far as is known: its own list, the operator's, the catalogue's. */
import type { Catalogue, Config, ModelFacts } from '../../core/config.ts'
import type { Instance } from '../../core/provider.ts'

/** The providers' own lists as last fetched, by instance. Absent: not fetched yet, or none to fetch. */
export type ModelLists = ReadonlyMap<string, readonly string[]>

export type Knowledge = {
  readonly config: Config
  readonly lists: ModelLists
  readonly catalogue: Catalogue
}

/** The providers that may answer: what is built in only shows how things work, and never stands beside a real one. */
export const usableInstances = ({ instances }: Config): readonly Instance[] => {
  const real = instances.filter(({ provider }) => !provider.builtin)
  return real.length > 0 ? real : instances
}

export const factsOf = (catalogue: Catalogue, { provider }: Instance, model: string): ModelFacts | undefined =>
  catalogue(provider.catalogue ?? provider.name, model)

export const hasModel = ({ lists, catalogue }: Knowledge, instance: Instance, model: string): boolean =>
  instance.models.includes(model) ||
  (lists.get(instance.id)?.includes(model) ?? false) ||
  (instance.provider.knownModels?.includes(model) ?? false) ||
  factsOf(catalogue, instance, model) !== undefined

/**
 * Whether a model of this provider instance is named by the configuration, the provider's own list or the catalogue.
 * Unlike `has`, a name that only resembles a known one (another date, another variant) is not: there is no end of those.
 */
export const isListedModel = (knowledge: Knowledge, id: string, model: string): boolean => {
  const { config, lists, catalogue } = knowledge
  const instance = config.instances.find((one) => one.id === id)
  if (!instance) return false
  const { provider } = instance
  return (
    instance.models.includes(model) ||
    provider.defaultModel === model ||
    (lists.get(id)?.includes(model) ?? false) ||
    (provider.knownModels?.includes(model) ?? false) ||
    (catalogue.lists?.(provider.catalogue ?? provider.name, model) ?? false) ||
    config.routes.values().some(({ targets, fallback }) => [...targets, ...fallback].some((to) => to.model === model))
  )
}

/** What an instance is asked for when the request names nothing it has. Undefined: nothing is known of it at all. */
export const defaultModel = ({ lists }: Knowledge, { id, models, provider }: Instance): string | undefined =>
  models[0] ?? provider.defaultModel ?? lists.get(id)?.[0] ?? provider.knownModels?.[0]

/**
 * The instances a name stands for: the one of that id, otherwise every one of the provider of that name, by which it
 * may also be called otherwise (`google`).
 */
export const instancesNamed = (instances: readonly Instance[], name: string): readonly Instance[] => {
  const exact = instances.filter(({ id }) => id === name)
  if (exact.length > 0) return exact
  return instances.filter(
    ({ provider }) => !provider.generic && (provider.name === name || (provider.aliases?.includes(name) ?? false)),
  )
}

/** A name clients may send as `model`. `owner`: the provider's instance, or the gateway for a route. */
export type ListedModel = {
  readonly id: string
  readonly owner: string
  readonly facts?: ModelFacts
}

/** Whom a route belongs to in the list. */
const GATEWAY = 'headgate'

/**
 * Every name that leads somewhere, once: routes, then each provider's models with the provider in front, then the same
 * without it, owned by whoever would be asked first.
 */
export const listModels = (config: Config, lists: ModelLists, catalogue: Catalogue): readonly ListedModel[] => {
  const instances = usableInstances(config)
  const found = new Map<string, ListedModel>()
  const add = (id: string, owner: string, facts: ModelFacts | undefined) => {
    if (id !== '' && !found.has(id)) found.set(id, { id, owner, ...(facts && { facts }) })
  }
  for (const name of config.routes.keys()) add(name, GATEWAY, undefined)
  const all = instances.flatMap((instance) =>
    [...modelsOf({ config, lists, catalogue }, instance)].map((model) => ({
      instance,
      model,
      facts: factsOf(catalogue, instance, model),
    })),
  )
  for (const { instance, model, facts } of all) add(`${instance.id}/${model}`, instance.id, facts)
  // A bare name that reads as `provider/model` of somebody else would lead there instead.
  for (const { instance, model, facts } of all)
    if (instancesNamed(instances, prefixOf(model) ?? '').length === 0) add(model, instance.id, facts)
  return [...found.values()]
}

/** What stands before the first slash, if there is one with something before it. */
export const prefixOf = (name: string): string | undefined => {
  const slash = name.indexOf('/')
  return slash > 0 ? name.slice(0, slash) : undefined
}

const modelsOf = (knowledge: Knowledge, instance: Instance): ReadonlySet<string> => {
  const usual = defaultModel(knowledge, instance)
  return new Set([
    ...instance.models,
    ...(usual === undefined ? [] : [usual]),
    ...(knowledge.lists.get(instance.id) ?? []),
    ...(instance.provider.knownModels ?? []),
  ])
}
