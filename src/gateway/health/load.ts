/** Load, latency and remaining rate limits of upstreams. */

import { BoundedMap } from '../../core/bounded-map.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import { type Candidate, deploymentId, keyId, modelId, type Target } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import { type Ewma, expectedWait, observe, quantiles } from '../../policy/health/latency.ts'
import { mayHaveQuota, type Quota, type QuotaLimit, quotaIn, scarcestLimit } from '../../policy/health/quota.ts'

/** Limits of the models listed for a provider on the status page: number, and characters of a name. Clients choose names. */
const MAX_MODELS = 200
const MAX_NAME_LENGTH = 500

/** Number of recent times to first content from which the status page's quantiles are computed, of an instance and of a model. */
const SAMPLES = { instance: 256, model: 32 }

/** A ring buffer. `next`: the index of the oldest value. */
type Samples = { readonly values: number[]; next: number }

/**
 * Headers with rate limits, and when they arrived. `quota`: what they say; null: not read yet, because only the choice among
 * several keys needs it.
 */
type ReportedQuota = {
  readonly headers: HeaderLookup
  readonly now: number
  readonly date: number
  quota: Quota | null
}

type KeyLoad = { inFlight: number; requests: number }

const addSample = (map: BoundedMap<Samples>, id: string, ms: number, most: number): void => {
  const samples = map.get(id) ?? { values: [], next: 0 }
  samples.values[samples.next] = ms
  samples.next = (samples.next + 1) % most
  map.set(id, samples)
}

/** Load and latency since the start. */
export class UpstreamLoad {
  readonly #world: World
  readonly #load = new Map<string, KeyLoad>()
  /** Requests in flight by instance, over all its keys. */
  readonly #busy = new Map<string, number>()
  readonly #speed = new BoundedMap<Ewma>()
  readonly #samples = new BoundedMap<Samples>()
  /** By model at an instance. */
  readonly #modelSamples = new BoundedMap<Samples>()
  /** Rate limits from the last response headers, by key and model: most providers count them for each model. */
  readonly #quotas = new BoundedMap<ReportedQuota>()
  /** Requested models by instance, newest last. */
  readonly #models = new Map<string, Set<string>>()

  constructor(world: World) {
    this.#world = world
  }

  /** Counts a request as in flight until `end`. */
  begin({ candidate: { instance, model }, key }: Target): void {
    this.#recordModel(instance, model)
    const id = keyId(instance, key)
    const load = this.#load.get(id) ?? { inFlight: 0, requests: 0 }
    this.#load.set(id, load)
    load.inFlight++
    load.requests++
    this.#busy.set(instance.id, this.busy(instance) + 1)
  }

  /** Ends a request counted by `begin`. */
  end({ candidate: { instance }, key }: Target): void {
    const load = this.#load.get(keyId(instance, key))
    if (load) load.inFlight--
    this.#busy.set(instance.id, this.busy(instance) - 1)
  }

  /** Records the time (ms) to the first content. */
  commit({ candidate }: Target, ms: number): void {
    const model = modelId(candidate)
    const { id } = candidate.instance
    this.#speed.set(model, observe(this.#speed.get(model), ms, this.#world.now()))
    addSample(this.#samples, id, ms, SAMPLES.instance)
    addSample(this.#modelSamples, model, ms, SAMPLES.model)
  }

  /** Requests in flight with this key. */
  inFlight(instance: Instance, key: ProviderKey): number {
    return this.#load.get(keyId(instance, key))?.inFlight ?? 0
  }

  /** Requests in flight with all keys of the instance. */
  busy({ id }: Instance): number {
    return this.#busy.get(id) ?? 0
  }

  /** Requests with this key since the start. */
  requests(instance: Instance, key: ProviderKey): number {
    return this.#load.get(keyId(instance, key))?.requests ?? 0
  }

  /** Expected latency of one more request in ms (peak EWMA of the time to first content × load). */
  slowness(candidate: Candidate): number {
    return expectedWait(this.#speed.get(modelId(candidate)), this.busy(candidate.instance), this.#world.now())
  }

  /** Median and 95th percentile of the time to first content in ms, over recent answers; empty before the first. */
  firstContent(instance: Instance): readonly number[] {
    return quantiles(this.#samples.get(instance.id)?.values ?? [], [0.5, 0.95])
  }

  /** Median of the time to first content of a model in ms; undefined before its first answer. */
  firstContentOf(candidate: Candidate): number | undefined {
    return quantiles(this.#modelSamples.get(modelId(candidate))?.values ?? [], [0.5])[0]
  }

  /** Stores the rate limits in the response headers, if there are any. */
  recordQuota(target: Target, headers: HeaderLookup): void {
    if (!mayHaveQuota(headers)) return
    const reported = { headers, now: this.#world.now(), date: this.#world.date(), quota: null }
    this.#quotas.set(deploymentId(target), reported)
  }

  /** The most depleted rate limit of the key at this model; undefined: unknown, or reset since. */
  remainingLimit(target: Target): QuotaLimit | undefined {
    const reported = this.#quotas.get(deploymentId(target))
    if (!reported) return undefined
    const { headers, now, date } = reported
    reported.quota ??= quotaIn(headers, now, date) ?? []
    return scarcestLimit(reported.quota, this.#world.now())
  }

  /** Models requested from this provider since the start, newest last. */
  models(instance: Instance): readonly string[] {
    return [...(this.#models.get(instance.id) ?? [])]
  }

  #recordModel(instance: Instance, model: string): void {
    if (model.length > MAX_NAME_LENGTH) return
    const models = this.#models.get(instance.id) ?? new Set()
    if (models.size === 0) this.#models.set(instance.id, models)
    if (models.has(model)) return
    models.add(model)
    if (models.size <= MAX_MODELS) return
    const [oldest] = models
    if (oldest !== undefined) models.delete(oldest)
  }
}
