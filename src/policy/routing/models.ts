/** Which provider instance has which model: from its own list, the configuration and the catalogue. */

import { type Catalogue, type Config, factsOf, type ModelFacts } from '../../core/config.ts'
import type { Require } from '../../core/data-policy.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import { modelName } from '../../core/model-name.ts'
import type { Instance } from '../../core/provider.ts'
import type { Route } from '../../core/route.ts'
import { combined, lackOf } from '../accounts/data-policy.ts'
import { type Glob, matchesGlob, parseGlob } from '../accounts/glob.ts'
import { allowsName, allowsTarget, type KeyAccessRules, type TargetLists } from '../accounts/key-access.ts'

/** The model lists fetched from providers, by instance id. Absent: not fetched yet, or the provider has no list. */
export type ModelLists = ReadonlyMap<string, readonly string[]>

/** All sources of model names. */
export type ModelSources = {
  readonly config: Config
  readonly lists: ModelLists
  readonly catalogue: Catalogue
}

/** The instances that may answer. The built-in demo provider is used only if no other provider is configured. */
export const usableInstances = ({ instances }: Config): readonly Instance[] => {
  const real = instances.filter(({ provider }) => !provider.builtin)
  return real.length > 0 ? real : instances
}

/**
 * The name of a model at an instance, according to any source; undefined: it has no such model. Names are compared in their
 * normal form. The spelling is that of the list, because some providers distinguish case.
 */
export const modelAt = ({ lists, catalogue }: ModelSources, instance: Instance, model: string): string | undefined =>
  nameIn(instance.models, model) ??
  nameIn(lists.get(instance.id), model) ??
  nameIn(instance.provider.knownModels, model) ??
  (factsOf(catalogue, instance, model) === undefined ? undefined : model)

/** A model's name as a list of names has it; undefined: the list lacks it. */
export const nameIn = (list: readonly string[] | undefined, model: string): string | undefined => {
  if (!list || list.length === 0) return undefined
  const found = normalNames(list).get(modelName(model))
  // Two names of the list may differ only in case.
  return found !== undefined && list.includes(model) ? model : found
}
const normalNames = memoizeBy((list: readonly string[]) => new Map(list.map((name) => [modelName(name), name])))

/**
 * The route with this name. Of two that differ only in case, the one with exactly this name, or else the first. Then routes whose
 * names are globs, the longest first.
 */
export const routeNamed = ({ routes }: Pick<Config, 'routes'>, name: string): Route | undefined => {
  const exact = routes.get(name)
  if (exact || routes.size === 0) return exact
  const normal = modelName(name)
  return normalRoutes(routes).get(normal) ?? globsIn(routes).find(({ glob }) => matchesGlob(glob, normal))?.route
}
const normalRoutes = memoizeBy(
  (routes: Config['routes']) => new Map([...routes].reverse().map(([of, route]) => [modelName(of), route])),
)

type RouteGlob = { readonly glob: Glob; readonly route: Route }

/** Whether the name of a route stands for several names. */
export const isGlobRoute = ({ name }: Pick<Route, 'name'>): boolean => name.includes('*')

/** The routes whose names are globs, the longest first. */
const globsIn = memoizeBy((routes: Config['routes']): readonly RouteGlob[] =>
  [...routes.values()]
    .filter(isGlobRoute)
    .toSorted((a, b) => b.name.length - a.name.length)
    .map((route) => ({ glob: parseGlob(modelName(route.name)), route })),
)

/**
 * Whether a model of this provider instance is named by the configuration, the provider's own list or the catalogue.
 * Unlike `modelAt`, names that only resemble a known one (another date or variant) do not count: their number is unbounded.
 */
export const isListedModel = (sources: ModelSources, id: string, model: string): boolean => {
  const { config, lists, catalogue } = sources
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

/**
 * Of several names of one model the first that a route has, that a provider lists, or whose form a provider has (Bedrock's
 * `anthropic.claude-…`). If there is none, the first.
 */
export const firstKnown = (sources: ModelSources, names: readonly string[]): string => {
  const { config } = sources
  const instances = usableInstances(config)
  const isListed = (name: string): boolean =>
    instancesNamed(instances, prefixOf(name) ?? '').length > 0 ||
    instances.some(({ id }) => isListedModel(sources, id, name))
  const hasForm = (name: string): boolean =>
    instances.some(({ speaks }) => speaks.some(({ models }) => models?.test(name)))
  return names.find((name) => routeNamed(config, name)) ?? names.find(isListed) ?? names.find(hasForm) ?? names[0] ?? ''
}

/** The model used at an instance for a request that names no model of it. Undefined: no model of the instance is known. */
export const defaultModel = ({ lists }: ModelSources, { id, models, provider }: Instance): string | undefined =>
  models[0] ?? provider.defaultModel ?? lists.get(id)?.[0] ?? provider.knownModels?.[0]

/** The instances a name refers to: the instance with that id, or else all instances of the provider with that name or alias (`google`). */
export const instancesNamed = (instances: readonly Instance[], name: string): readonly Instance[] => {
  const exact = instances.filter(({ id }) => id === name)
  if (exact.length > 0) return exact
  const normal = modelName(name)
  const same = instances.filter(({ id }) => id.toLowerCase() === normal)
  if (same.length > 0) return same
  return instances.filter(
    ({ provider }) => !provider.generic && (provider.name === normal || (provider.aliases?.includes(normal) ?? false)),
  )
}

/** A name clients may send as `model`. `owner`: the id of the provider instance, or the gateway for a route. */
export type ListedModel = {
  readonly id: string
  readonly owner: string
  readonly facts?: ModelFacts
}

/** The owner of routes in the list. */
const GATEWAY = 'headgate'

/** What restricts the names of a client: the access of its key, and what is required of its data. Null: nothing. */
export type NameLimits = { readonly rules: KeyAccessRules | null; readonly require: Require | null }

const ALL_NAMES: NameLimits = { rules: null, require: null }

/**
 * All names that a plan accepts, without duplicates: routes, then models as `instance/model`, then models without the
 * instance. The owner of a bare name is the first instance that would be tried. `limits`: only names that a client with these
 * may use.
 */
export const listModels = (
  config: Config,
  lists: ModelLists,
  catalogue: Catalogue,
  limits: NameLimits = ALL_NAMES,
): readonly ListedModel[] => {
  const { rules, require } = limits
  const sources = { config, lists, catalogue }
  const instances = usableInstances(config)
  const found = new Map<string, ListedModel>()
  const add = (id: string, owner: string, facts: ModelFacts | undefined) => {
    if (id !== '' && !found.has(id)) found.set(id, { id, owner, ...(facts && { facts }) })
  }
  for (const route of config.routes.values())
    if (!isGlobRoute(route) && mayUseRoute(sources, limits, route)) add(route.name, GATEWAY, undefined)
  if (rules?.routesOnly) return [...found.values()]
  const all = instances.flatMap((instance) =>
    [...modelsOf(sources, instance)]
      .filter((model) => mayUse(config, { rules, require }, { requested: null, instance, model }))
      .map((model) => ({ instance, model, facts: factsOf(catalogue, instance, model) })),
  )
  for (const { instance, model, facts } of all) add(`${instance.id}/${model}`, instance.id, facts)
  // A bare name with the prefix of another provider would be routed to that provider.
  for (const { instance, model, facts } of all)
    if (instancesNamed(instances, prefixOf(model) ?? '').length === 0) add(model, instance.id, facts)
  return [...found.values()]
}

/** Whether a route and one of its targets may be used. */
const mayUseRoute = (sources: ModelSources, { rules, require: own }: NameLimits, route: Route): boolean => {
  const { name, targets, fallback, team } = route
  const require = combined(own, route.require)
  if (!rules && !require) return true
  if (rules && !mayNameRoute(rules, route)) return false
  return [...targets, ...fallback].some(({ provider, model }) =>
    instancesNamed(usableInstances(sources.config), provider).some((instance) =>
      mayUse(
        sources.config,
        { rules, require, own: team === undefined ? null : (rules?.team ?? null) },
        { requested: name, instance, model: model ?? defaultModel(sources, instance) ?? name },
      ),
    ),
  )
}

/**
 * Whether the model alone is the name of a model of another provider: `openai/gpt-5` of OpenRouter, beside a provider `openai`.
 */
export const isOthers = ({ instances }: Pick<Config, 'instances'>, provider: string, model: string): boolean => {
  const prefix = prefixOf(modelName(model))
  return prefix !== undefined && instancesNamed(instances, prefix).some(({ id }) => id !== provider)
}

/** Whether a client may name a route. A team that is limited to routes has none of its own: they would have any target. */
export const mayNameRoute = (
  { routes, team }: KeyAccessRules,
  { name, team: owner }: Pick<Route, 'name' | 'team'>,
): boolean => allowsName(routes, name) && (owner === undefined || !team.routesOnly)

/** Whether a target may be used under the name. `own`: also without the name, as a target of a route that a team has made. */
const mayUse = (
  config: Pick<Config, 'instances'>,
  { rules, require, own = null }: NameLimits & { readonly own?: TargetLists | null },
  {
    requested,
    instance,
    model,
  }: { readonly requested: string | null; readonly instance: Instance; readonly model: string },
): boolean => {
  const allows = (lists: TargetLists | null, name: string | null) =>
    !lists ||
    allowsTarget(lists, {
      requested: name,
      provider: instance.id,
      model,
      isOthers: isOthers(config, instance.id, model),
    })
  return allows(own, null) && allows(rules, requested) && (!require || lackOf(require, { instance, model }) === null)
}

/** The part of a model name before the first slash; undefined if there is none or it is empty. */
export const prefixOf = (name: string): string | undefined => {
  const slash = name.indexOf('/')
  return slash > 0 ? name.slice(0, slash) : undefined
}

const modelsOf = (sources: ModelSources, instance: Instance): ReadonlySet<string> => {
  const usual = defaultModel(sources, instance)
  return new Set([
    ...instance.models,
    ...(usual === undefined ? [] : [usual]),
    ...(sources.lists.get(instance.id) ?? []),
    ...(instance.provider.knownModels ?? []),
  ])
}
