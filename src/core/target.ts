import type { Require } from './data-policy.ts'
import type { Instance, ProviderKey } from './provider.ts'
import type { Stickiness } from './route.ts'
import type { Strategy } from './settings.ts'
import type { Skipped, SkippedTarget } from './skipped-target.ts'
import type { TargetCondition } from './target-condition.ts'
import type { TargetOverride } from './target-override.ts'

/** A model of a provider instance that may serve a request. The key is chosen for each attempt. */
export type Candidate = {
  readonly instance: Instance
  readonly model: string
  /** Why it is in the plan: `the route "fast"`, `openai lists it`, `fallback: any`. */
  readonly because: string
  readonly weight: number
  /** What a request must be to reach it; absent: anything. Those of a plan are met. */
  readonly when?: TargetCondition
  /** What is changed in requests to it; absent: nothing. */
  readonly override?: TargetOverride
  /** It is the canary of its route. */
  readonly isCanary?: true
  /** It is the target of the shadow of its route: it receives copies alone. */
  readonly isShadow?: true
  /** The request states which targets may serve it; absent: it does not. */
  readonly preference?: CandidatePreference
}

/** What becomes of the members by which a request states its targets, at one of them. */
export type CandidatePreference = {
  /** Outermost members that it does not receive, because the gateway has read them. */
  readonly without: readonly string[]
  /** Paths that are not followed; they are named as dropped. */
  readonly ignored: readonly string[]
  /** It must take all members of the request (`provider.require_parameters`). */
  readonly isStrict: boolean
}

/** A candidate with a key: the target of one attempt. */
export type Target = { readonly candidate: Candidate; readonly key: ProviderKey }

/** The candidates of a request in order, and the skipped ones with the reasons. */
export type Plan = {
  /** How the model name was resolved: `route`, `provider/model`, a provider's model list, or the default route. */
  readonly by: 'route' | 'provider' | 'listed' | 'default'
  /** The name of the route; absent: the name is not that of a route. */
  readonly route?: string
  /** Names of routes among the further models of the request; absent: there are none. */
  readonly furtherRoutes?: readonly string[]
  readonly candidates: readonly Candidate[]
  readonly skipped: readonly Skipped[]
  /** Targets whose condition the request does not meet, for the trail; absent: there are none. */
  readonly unmet?: readonly SkippedTarget[]
  /** What every target must satisfy; absent: nothing. */
  readonly require?: Require
  /** What later requests of its conversation stay with; absent: nothing. */
  readonly stickiness?: Stickiness
  /** The target that has the beginning of the prompt in its cache, with the ID of the key; absent: it is not known. */
  readonly sticky?: { readonly candidate: Candidate; readonly key: string }
  /** Of a plan in the expected order, to be shown. */
  readonly odds?: PlanOdds
}

/** What a name refers to, or for which reason else a target is in its plan: the list of the route, or the setting `fallback`. */
export type TargetRole = 'target' | 'fallback' | 'failover'

/** How the first target of requests is chosen. `shares`: how often each is first, where requests draw that; empty: they do not. */
export type PlanOdds = {
  readonly strategy: Strategy
  readonly shares: ReadonlyMap<Candidate, number>
  readonly roles: ReadonlyMap<Candidate, TargetRole>
}

/** ID of a deployment (instance, key and model) in health state. */
export const deploymentId = ({ candidate, key }: Target): string =>
  `${candidate.instance.id} ${key.id} ${candidate.model}`
/** The IDs of a target: `deploymentId`, `modelId`, `endpointId` and `proxyId`. */
export type Names = {
  readonly deployment: string
  readonly model: string
  readonly endpoint: string
  readonly proxy: string | null
}
const known = new WeakMap<Candidate, Map<string, Names>>()
/** Returns the IDs of a target. Cached per candidate and key, because each attempt needs them several times. */
export const namesOf = (target: Target): Names => {
  const { candidate, key } = target
  const keys = known.get(candidate)
  const before = keys?.get(key.id)
  if (before) return before
  const made = {
    deployment: deploymentId(target),
    model: modelId(candidate),
    endpoint: endpointId(candidate.instance),
    proxy: proxyId(candidate.instance),
  }
  if (keys) keys.set(key.id, made)
  else known.set(candidate, new Map([[key.id, made]]))
  return made
}

/** ID of a model at an instance. Cached, because a new string would be hashed for each map lookup. */
export const modelId = (candidate: Candidate): string => {
  const before = models.get(candidate)
  if (before !== undefined) return before
  const made = `${candidate.instance.id} ${candidate.model}`
  models.set(candidate, made)
  return made
}
const models = new WeakMap<Candidate, string>()
/** ID of a key at an instance. */
export const keyId = (instance: Instance, key: ProviderKey): string => `${instance.id} ${key.id}`
/** ID of an endpoint: the base URL, which several instances may share. */
export const endpointId = (instance: Instance): string => instance.baseUrl
/** ID of the proxy that leads to an endpoint; null: it is reached directly. */
export const proxyId = ({ proxy }: Instance): string | null => (proxy === undefined ? null : `proxy ${proxy}`)
