import type { Instance, ProviderKey } from './provider.ts'

/** A model at a provider where a request may go; which of the provider's keys is chosen when it is tried. */
export type Candidate = {
  readonly instance: Instance
  readonly model: string
  /** Because of what it is in the plan: `the route "fast"`, `openai lists it`, `fallback: any`. */
  readonly because: string
  readonly weight: number
}

/** A candidate with its key: what one attempt is made at. */
export type Target = { readonly candidate: Candidate; readonly key: ProviderKey }

/** Where a request may go, in order, and why; and where it may not, and why not. */
export type Plan = {
  /** How the model name was understood: `route`, `provider/model`, `listed`, `default route`. */
  readonly by: 'route' | 'provider' | 'listed' | 'default'
  readonly candidates: readonly Candidate[]
  readonly skipped: readonly Skipped[]
}

export type Skipped = { readonly provider: string; readonly model: string; readonly key?: string; readonly why: string }

/** Names of the things states are kept for. */
export const deploymentId = ({ candidate, key }: Target): string =>
  `${candidate.instance.id} ${key.id} ${candidate.model}`
/** As `deploymentId`, `modelId` and `endpointId` say: made once for a candidate and a key, since every attempt asks several times. */
export type Names = { readonly deployment: string; readonly model: string; readonly endpoint: string }
const known = new WeakMap<Candidate, Map<string, Names>>()
export const namesOf = (target: Target): Names => {
  const { candidate, key } = target
  const keys = known.get(candidate)
  const before = keys?.get(key.id)
  if (before) return before
  const made = {
    deployment: deploymentId(target),
    model: modelId(candidate),
    endpoint: endpointId(candidate.instance),
  }
  if (keys) keys.set(key.id, made)
  else known.set(candidate, new Map([[key.id, made]]))
  return made
}

/** Made once for a candidate: several maps are keyed by it, and a string made for each look-up must be hashed each time. */
export const modelId = (candidate: Candidate): string => {
  const before = models.get(candidate)
  if (before !== undefined) return before
  const made = `${candidate.instance.id} ${candidate.model}`
  models.set(candidate, made)
  return made
}
const models = new WeakMap<Candidate, string>()
export const keyId = (instance: Instance, key: ProviderKey): string => `${instance.id} ${key.id}`
export const endpointId = (instance: Instance): string => instance.baseUrl
