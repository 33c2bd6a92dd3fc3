/** Maximum number of names. Clients choose model names, so memory must be bounded. */
const MAX_NAMES = 10_000

/** Maximum total length of names in characters. A name may be as long as a request. */
const MAX_CHARACTERS = 2_000_000

/**
 * A map with bounded memory. It evicts the names that were set least recently, except values that must be retained.
 *
 * Eviction works in two generations, because reordering entries of a `Map` makes V8 rebuild its table often.
 */
export class BoundedMap<T> {
  #newer = new Map<string, T>()
  #older: ReadonlyMap<string, T> = new Map()
  readonly #retains: (value: T) => boolean
  /** Total length of the names in `#newer`. */
  #characters = 0

  readonly #most: number

  /** `retains`: whether to keep a value on eviction. At most a quarter of the limits is kept this way. `most`: names. */
  constructor(retains: (value: T) => boolean = () => false, most = MAX_NAMES) {
    this.#retains = retains
    this.#most = most
  }

  get isEmpty(): boolean {
    return this.#newer.size === 0 && this.#older.size === 0
  }

  get(id: string): T | undefined {
    return this.#newer.get(id) ?? this.#older.get(id)
  }

  /** All names. */
  ids(): ReadonlySet<string> {
    return new Set([...this.#older.keys(), ...this.#newer.keys()])
  }

  set(id: string, value: T): void {
    if (value !== undefined && this.#newer.get(id) === value) return
    const { size } = this.#newer
    this.#newer.set(id, value)
    if (this.#newer.size > size) this.#characters += id.length
    if (this.#newer.size < this.#most / 2 && this.#characters < MAX_CHARACTERS / 2) return
    this.#evict()
  }

  delete(id: string): void {
    if (this.#newer.delete(id)) this.#characters -= id.length
    if (this.#older.has(id)) this.#older = new Map([...this.#older].filter(([name]) => name !== id))
  }

  /** Drops the older generation, except its newest retained values. */
  #evict(): void {
    const retained = [...this.#older].filter(([id, value]) => !this.#newer.has(id) && this.#retains(value))
    this.#older = this.#newer
    this.#newer = new Map()
    this.#characters = 0
    for (const [id, value] of retained.slice(-this.#most / 4)) {
      if (this.#characters + id.length > MAX_CHARACTERS / 4) continue
      this.#newer.set(id, value)
      this.#characters += id.length
    }
  }
}
