/** When models end, from the best source: the configuration file, the provider's list, an answer, the catalogue. */
import { BoundedMap } from '../../core/bounded-map.ts'
import { type Catalogue, factsOf } from '../../core/config.ts'
import type { Retirement, RetirementSource } from '../../core/retirement.ts'
import { type Candidate, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import type { ModelPlace } from '../../policy/routing/retirement.ts'

type DatedEnd = Pick<Retirement, 'at' | 'known'>

export class Retirements {
  readonly #world: Pick<World, 'date'>
  readonly #started: number
  /** From the providers' model lists, by instance ID and model. */
  #listed: ReadonlyMap<string, ReadonlyMap<string, DatedEnd>> = new Map()
  /** From answers, by model ID. */
  readonly #answered = new BoundedMap<DatedEnd>()

  constructor(world: Pick<World, 'date'>) {
    this.#world = world
    this.#started = world.date()
  }

  /** Replaces what the instance's own model list states. `ends`: ms since 1970, by model. */
  list(instanceId: string, ends: ReadonlyMap<string, number>): void {
    const before = this.#listed.get(instanceId)
    if (ends.size === 0 && !before) return
    const listed = [...ends].map(([model, at]) => [model, this.#since(before?.get(model), at)] as const)
    this.#listed = new Map(this.#listed).set(instanceId, new Map(listed))
  }

  /** Records the end that an answer of the model has stated. */
  answered(candidate: Candidate, at: number): void {
    const id = modelId(candidate)
    this.#answered.set(id, this.#since(this.#answered.get(id), at))
  }

  /** Null: no end is known. */
  of(catalogue: Catalogue, { instance, model }: ModelPlace): Retirement | null {
    const declared = instance.retirements?.get(model)
    const successor = declared?.successor === undefined ? {} : { successor: declared.successor }
    const ends = (source: RetirementSource, { at, known }: DatedEnd) => ({ at, known, source, ...successor })
    if (declared?.at !== undefined) return ends('file', { at: declared.at, known: this.#started })
    const listed = this.#listed.get(instance.id)?.get(model)
    if (listed) return ends('list', listed)
    const answered = this.#answered.isEmpty ? undefined : this.#answered.get(`${instance.id} ${model}`)
    if (answered) return ends('answer', answered)
    const at = factsOf(catalogue, instance, model)?.retires
    if (at === undefined) return null
    const made = Date.parse(catalogue.date?.() ?? '')
    return ends('catalogue', { at, known: Number.isFinite(made) ? made : this.#started })
  }

  #since(before: DatedEnd | undefined, at: number): DatedEnd {
    return before?.at === at ? before : { at, known: this.#world.date() }
  }
}
