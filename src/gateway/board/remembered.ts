/** So many names are remembered at most: clients choose model names, and memory is bounded. */
const MOST = 10_000

/**
 * What is kept by name. The newest names are kept; of what has not been set for long only what matters still is.
 *
 * In two generations instead of in the order of setting: nothing is ever taken out of a map and put in again, for which
 * V8 makes a new table every few times.
 */
export class Remembered<T> {
  #newer = new Map<string, T>()
  #older: ReadonlyMap<string, T> = new Map()
  readonly #matters: (value: T) => boolean

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
    this.#newer.set(id, value)
    if (this.#newer.size < MOST / 2) return
    const mattering = [...this.#older].filter(([id, its]) => !this.#newer.has(id) && this.#matters(its))
    this.#older = this.#newer
    this.#newer = new Map(mattering.slice(-MOST / 4))
  }

  delete(id: string): void {
    this.#newer.delete(id)
    if (this.#older.has(id)) this.#older = new Map([...this.#older].filter(([name]) => name !== id))
  }
}
