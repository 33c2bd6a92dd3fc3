/** What earlier answers show about the next one: lengths of answers, and how far estimates of input differ from counts. */
import {
  correctedInput,
  INITIAL_RATIO,
  type InputRatio,
  OutputLengths,
  updateRatio,
} from '../../policy/accounts/estimate.ts'

/** Names that are kept; 256 lengths take up to 4 KB. */
const MAX_NAMES = 2_000

export class AnswerHistory {
  /** By key and model. */
  readonly #lengths = new RecentMap<OutputLengths>(() => new OutputLengths())
  /** By model. */
  readonly #ratios = new RecentMap<{ value: InputRatio }>(() => ({ value: INITIAL_RATIO }))
  /** The last name, which most calls use again: to join and to hash it costs more than to look it up. */
  #last = { key: '', model: '', name: ' ' }

  /** An estimate of input tokens, corrected by earlier answers of the model. */
  inputOf(model: string, estimated: number): number {
    return correctedInput(estimated, this.#ratios.find(model)?.value ?? INITIAL_RATIO)
  }

  /** The usual output tokens of this key's answers of this model; undefined: too few answers. */
  usualOutput(key: string, model: string): number | undefined {
    return this.#lengths.find(this.#nameOf(key, model))?.usual
  }

  /** Adds an answer that the upstream has counted. `estimated`: its input before correction; 0: it was not estimated. */
  add(
    key: string,
    model: string,
    counted: { readonly input: number; readonly output: number },
    estimated: number,
  ): void {
    this.#lengths.get(this.#nameOf(key, model)).add(counted.output)
    const ratio = this.#ratios.get(model)
    ratio.value = updateRatio(ratio.value, counted.input, estimated)
  }

  #nameOf(key: string, model: string): string {
    if (this.#last.key !== key || this.#last.model !== model) this.#last = { key, model, name: `${key} ${model}` }
    return this.#last.name
  }
}

/** Keeps the names that were used last. */
class RecentMap<T> {
  readonly #values = new Map<string, T>()
  readonly #create: () => T

  constructor(create: () => T) {
    this.#create = create
  }

  find(name: string): T | undefined {
    return this.#values.get(name)
  }

  get(name: string): T {
    const known = this.#values.get(name)
    if (known !== undefined) return known
    if (this.#values.size >= MAX_NAMES) this.#halve()
    const created = this.#create()
    this.#values.set(name, created)
    return created
  }

  /** Drops the older half; those in use are created again. */
  #halve(): void {
    let rest = MAX_NAMES / 2
    for (const name of this.#values.keys()) {
      if (rest-- === 0) break
      this.#values.delete(name)
    }
  }
}
