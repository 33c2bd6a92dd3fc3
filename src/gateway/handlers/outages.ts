/** Providers and routes that answer nothing at present, for alerts. */
import type { Config } from '../../core/config.ts'
import type { Instance } from '../../core/provider.ts'
import type { Route } from '../../core/route.ts'
import type { Settings } from '../../core/settings.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import { candidate, deployments, keyStatus, modelCircuit, restingOf, wayCircuit } from './status.ts'

/** IDs of providers and names of routes. */
export type Outages = { readonly providers: readonly string[]; readonly routes: readonly string[] }

/** `modelOf`: the model of a provider for targets without one; undefined: unknown. */
export const outagesOf = (
  health: UpstreamHealth,
  { settings, instances, routes }: Config,
  modelOf: (instance: Instance) => string | undefined,
): Outages => {
  const byId = new Map(instances.map((instance) => [instance.id, instance]))
  const isUsable = ({ provider, model }: Route['targets'][number]): boolean => {
    const instance = byId.get(provider)
    return instance !== undefined && isTargetUsable(health, settings, instance, model ?? modelOf(instance))
  }
  return {
    providers: instances.filter((instance) => isDown(health, settings, instance)).map(({ id }) => id),
    routes: [...routes.values()]
      .filter(({ targets, fallback }) => ![...targets, ...fallback].some(isUsable))
      .map(({ name }) => name),
  }
}

/**
 * The circuit of its base URL is not closed, or none of its models in use has a closed circuit. A model that has not answered
 * within the window of its circuit is not in use: it does not show that the provider works.
 */
const isDown = (health: UpstreamHealth, settings: Settings, instance: Instance): boolean => {
  if (wayCircuit(health, settings, instance).state !== 'closed') return true
  let isAnyOpen = false
  for (const model of health.load.models(instance)) {
    const isClosed = modelCircuit(health, settings, candidate(instance, model)).state === 'closed'
    if (isClosed && hasAnswered(health, settings, instance, model)) return false
    isAnyOpen ||= !isClosed
  }
  return isAnyOpen
}

const hasAnswered = (health: UpstreamHealth, { circuit }: Settings, instance: Instance, model: string): boolean =>
  deployments(instance, model).some((id) => health.circuits.counts(id, circuit).successes > 0)

const isTargetUsable = (
  health: UpstreamHealth,
  settings: Settings,
  instance: Instance,
  model: string | undefined,
): boolean =>
  restingOf(health, instance) === null &&
  wayCircuit(health, settings, instance).state === 'closed' &&
  (model === undefined || modelCircuit(health, settings, candidate(instance, model)).state === 'closed') &&
  instance.keys.some((key) => keyStatus(health, instance, key, model === undefined ? [] : [model]).status === 'active')
