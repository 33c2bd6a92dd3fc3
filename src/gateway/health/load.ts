/** What is under way and how it goes: load, speed, and what upstreams say is left. */
import type { HeaderLookup } from '../../core/headers.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import { type Candidate, deploymentId, keyId, modelId, type Target } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import { cost, type Ewma, observe, quantiles } from '../../policy/health/latency.ts'
import { type Limit, leftOf, type Quota, quotaIn } from '../../policy/health/quota.ts'
import { BoundedMap } from './bounded-map.ts'

/** The status page shows so many models of a provider at most, with names of so many characters: clients choose them. */
const MOST_MODELS = 200
const LONGEST_NAME = 500

/** The last so many times to first content are what the status page's quantiles are made of. */
const SAMPLES = 256

/** The oldest is overwritten: `next` is where. */
type Samples = { readonly values: number[]; next: number }

type KeyLoad = { inFlight: number; requests: number }

export class UpstreamLoad {
  readonly #world: World
  readonly #load = new Map<string, KeyLoad>()
  /** Requests under way by instance, whichever its keys. */
  readonly #busy = new Map<string, number>()
  readonly #speed = new BoundedMap<Ewma>()
  readonly #samples = new BoundedMap<Samples>()
  /** What the upstream last said is left of a key's limits, which most count for each model. */
  readonly #quotas = new BoundedMap<Quota>()
  /** Models that were asked for, by instance. */
  readonly #asked = new Map<string, Set<string>>()

  constructor(world: World) {
    this.#world = world
  }

  /** A request is under way until its end is told. */
  begin({ candidate: { instance, model }, key }: Target): void {
    this.#seen(instance, model)
    const id = keyId(instance, key)
    const load = this.#load.get(id) ?? { inFlight: 0, requests: 0 }
    this.#load.set(id, load)
    load.inFlight++
    load.requests++
    this.#busy.set(instance.id, this.busy(instance) + 1)
  }

  end({ candidate: { instance }, key }: Target): void {
    const load = this.#load.get(keyId(instance, key))
    if (load) load.inFlight--
    this.#busy.set(instance.id, this.busy(instance) - 1)
  }

  /** Its first content came after `ms`. */
  commit({ candidate }: Target, ms: number): void {
    const model = modelId(candidate)
    const { id } = candidate.instance
    this.#speed.set(model, observe(this.#speed.get(model), ms, this.#world.now()))
    const samples = this.#samples.get(id) ?? { values: [], next: 0 }
    samples.values[samples.next] = ms
    samples.next = (samples.next + 1) % SAMPLES
    this.#samples.set(id, samples)
  }

  inFlight(instance: Instance, key: ProviderKey): number {
    return this.#load.get(keyId(instance, key))?.inFlight ?? 0
  }

  /** Under way with all its keys. */
  busy({ id }: Instance): number {
    return this.#busy.get(id) ?? 0
  }

  requests(instance: Instance, key: ProviderKey): number {
    return this.#load.get(keyId(instance, key))?.requests ?? 0
  }

  /** Expected cost in time of one more request there (peak-EWMA of first content × load). */
  slowness(candidate: Candidate): number {
    return cost(this.#speed.get(modelId(candidate)), this.busy(candidate.instance), this.#world.now())
  }

  /** Median and 95th percentile in ms, over the last answers of the provider; empty before the first. */
  firstContent(instance: Instance): readonly number[] {
    return quantiles(this.#samples.get(instance.id)?.values ?? [], [0.5, 0.95])
  }

  recordQuota(target: Target, headers: HeaderLookup): void {
    const quota = quotaIn(headers, this.#world.now(), this.#world.date())
    if (quota) this.#quotas.set(deploymentId(target), quota)
  }

  remainingLimit(target: Target): Limit | undefined {
    const quota = this.#quotas.get(deploymentId(target))
    return quota && leftOf(quota, this.#world.now())
  }

  /** Newest last. */
  models(instance: Instance): readonly string[] {
    return [...(this.#asked.get(instance.id) ?? [])]
  }

  #seen(instance: Instance, model: string): void {
    if (model.length > LONGEST_NAME) return
    const models = this.#asked.get(instance.id) ?? new Set()
    if (models.size === 0) this.#asked.set(instance.id, models)
    if (models.has(model)) return
    models.add(model)
    if (models.size <= MOST_MODELS) return
    const [oldest] = models
    if (oldest !== undefined) models.delete(oldest)
  }
}
