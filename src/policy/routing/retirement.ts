/** The ends of models in plans: which target replaces one that has ended, and which models in use end soon. Pure. */
import type { Retirement } from '../../core/retirement.ts'
import type { Candidate } from '../../core/target.ts'
import { defaultModel, instancesNamed, type ModelSources, usableInstances } from './models.ts'
import { withShadowTargets } from './shadow.ts'

/** A model at an instance. */
export type ModelPlace = Pick<Candidate, 'instance' | 'model'>

/** What is known of ends. `now`: ms since 1970. */
export type KnownEnds = { readonly now: number; readonly of: (place: ModelPlace) => Retirement | null }

/** Successors that themselves have one. */
const MAX_STEPS = 8

/**
 * The models of an instance that serve a target of a route with `onRetired: successor`: the model itself, or what replaces it
 * after its end. `until`: when that changes; Infinity: not by time. `ends` null: at some time, so all of them.
 */
export const servingModels = (
  place: ModelPlace,
  ends: KnownEnds | null,
): { readonly models: readonly string[]; readonly until: number } => {
  const { instance } = place
  const passed = new Set<string>()
  let { model } = place
  for (let step = 0; step < MAX_STEPS; step++) {
    passed.add(model)
    const successor = instance.retirements?.get(model)?.successor
    if (successor === undefined || passed.has(successor)) break
    const end = ends?.of({ instance, model })?.at ?? Number.POSITIVE_INFINITY
    if (ends && end > ends.now) return { models: [model], until: end }
    model = successor
  }
  return {
    models: ends ? [model] : [...passed, ...(passed.has(model) ? [] : [model])],
    until: Number.POSITIVE_INFINITY,
  }
}

/** A model in use that ends. `routes`: those with a target of it. */
export type RetiringModel = ModelPlace & { readonly retirement: Retirement; readonly routes: readonly string[] }

/**
 * The models that end until a time, or have ended, the earliest first: those that the configuration and its routes name, the usual
 * ones of providers, and those that were used. `used`: by the ID of an instance.
 */
export const retiringModels = (
  sources: ModelSources,
  { of }: Pick<KnownEnds, 'of'>,
  { until, used }: { readonly until: number; readonly used: (instance: string) => Iterable<string> },
): readonly RetiringModel[] => {
  const { config } = sources
  const instances = usableInstances(config)
  const found = new Map<string, RetiringModel>()
  const add = (place: ModelPlace, route?: string) => {
    const id = `${place.instance.id} ${place.model}`
    const known = found.get(id)
    const retirement = known?.retirement ?? of(place)
    if (!retirement || retirement.at > until) return
    const routes = new Set([...(known?.routes ?? []), ...(route === undefined ? [] : [route])])
    found.set(id, { instance: place.instance, model: place.model, retirement, routes: [...routes] })
  }
  for (const instance of instances) {
    const usual = defaultModel(sources, instance)
    for (const model of [...instance.models, ...(usual === undefined ? [] : [usual]), ...used(instance.id)])
      add({ instance, model })
  }
  for (const { name, targets, fallback } of withShadowTargets(config).routes.values())
    for (const { provider, model } of [...targets, ...fallback])
      for (const instance of instancesNamed(instances, provider)) {
        const named = model ?? defaultModel(sources, instance)
        if (named !== undefined) add({ instance, model: named }, name)
      }
  return [...found.values()].toSorted((a, b) => a.retirement.at - b.retirement.at)
}
