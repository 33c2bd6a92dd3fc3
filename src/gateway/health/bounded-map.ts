/** So many names are remembered at most: clients choose model names, and memory is bounded. */
const MOST = 10_000

/** And so many characters of names: each may be as long as a request. 3,600 names of 100 KB were 2.3 GB. */
const MOST_CHARACTERS = 2_000_000

/**
 * What is kept by name. The newest names are kept; of what has not been set for long only what matters still is.
 *
 * In two generations instead of in the order of setting: nothing is ever taken out of a map and put in again, for which
 * V8 makes a new table every few times.
 */
export class BoundedMap<T> {
  #newer = new Map<string, T>()
  #older: ReadonlyMap<string, T> = new Map()
  readonly #matters: (value: T) => boolean
  /** Of the names in `newer`. */
  #characters = 0

  constructor(matters: (value: T) => boolean = () => false) {
    this.#matters = matters
  }

  get isEmpty(): boolean {
    return this.#newer.size === 0 && this.#older.size === 0
  }

  get(id: string): T | undefined {
    return this.#newer.get(id) ?? this.#older.get(id)
  }

  set(id: string, value: T): void {
    const { size } = this.#newer
    this.#newer.set(id, value)
    if (this.#newer.size > size) this.#characters += id.length
    if (this.#newer.size < MOST / 2 && this.#characters < MOST_CHARACTERS / 2) return
    const mattering = [...this.#older].filter(([id, its]) => !this.#newer.has(id) && this.#matters(its))
    this.#older = this.#newer
    this.#newer = new Map()
    this.#characters = 0
    for (const [id, its] of mattering.slice(-MOST / 4)) {
      if (this.#characters + id.length > MOST_CHARACTERS / 4) continue
      this.#newer.set(id, its)
      this.#characters += id.length
    }
  }

  delete(id: string): void {
    if (this.#newer.delete(id)) this.#characters -= id.length
    if (this.#older.has(id)) this.#older = new Map([...this.#older].filter(([name]) => name !== id))
  }
}
