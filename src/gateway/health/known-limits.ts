/** The limits of models from the best source: the configuration file, a refusal, the provider's list, the catalogue. */

import { BoundedMap } from '../../core/bounded-map.ts'
import { type Catalogue, factsOf, type ModelFacts } from '../../core/config.ts'
import type { ModelLimits } from '../../core/provider.ts'
import { type Candidate, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'

/** Lifetime of a learned limit in ms. A local server may be started again with another context window. */
const LIFETIME = 600_000

type Learned = ModelLimits & { readonly until: number }

/** What is known of each model's context window and output limit. Learned limits are kept for ten minutes. */
export class KnownLimits {
  readonly #world: World
  readonly #learned = new BoundedMap<Learned>()
  /** From the providers' model lists, by instance id and model. */
  #listed: ReadonlyMap<string, ReadonlyMap<string, ModelLimits>> = new Map()

  constructor(world: World) {
    this.#world = world
  }

  /** Replaces what the instance's own model list states. */
  list(instanceId: string, limits: ReadonlyMap<string, ModelLimits>): void {
    this.#listed = new Map(this.#listed).set(instanceId, limits)
  }

  /** Records the limits that a refusal of this model stated. */
  learn(candidate: Candidate, limits: ModelLimits): void {
    const id = modelId(candidate)
    this.#learned.set(id, { ...this.#recent(id), ...limits, until: this.#world.now() + LIFETIME })
  }

  /** The facts about a model, with its limits from the best source. Undefined: nothing is known. */
  factsOf(catalogue: Catalogue, candidate: Candidate): ModelFacts | undefined {
    const { instance, model } = candidate
    const facts = factsOf(catalogue, instance, model)
    const listed = this.#listed.get(instance.id)?.get(model)
    const learned = this.#learned.isEmpty ? undefined : this.#recent(modelId(candidate))
    const fixed = instance.limits?.get(model)
    if (!listed && !learned && !fixed) return facts
    const stated = { ...listed, ...learned, ...fixed }
    return { ...facts, ...stated, stated }
  }

  /** The context window of a model in tokens. Undefined: unknown. */
  windowOf(catalogue: Catalogue, candidate: Candidate): number | undefined {
    return this.factsOf(catalogue, candidate)?.contextWindow
  }

  #recent(id: string): ModelLimits | undefined {
    const learned = this.#learned.get(id)
    if (!learned || learned.until <= this.#world.now()) return undefined
    const { until: _, ...limits } = learned
    return limits
  }
}
