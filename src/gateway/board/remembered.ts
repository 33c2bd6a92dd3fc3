/** So many names are remembered at most: clients choose model names, and memory is bounded. */
const MOST = 10_000

/** So many of the oldest are looked at for one that may be forgotten. */
const LOOKS = 100

/** What is kept by name. Keeps the newest names; what has not been set longest is forgotten first, save what matters still. */
export class Remembered<T> {
  readonly #values = new Map<string, T>()
  readonly #matters: (value: T) => boolean

  constructor(matters: (value: T) => boolean = () => false) {
    this.#matters = matters
  }

  get isEmpty(): boolean {
    return this.#values.size === 0
  }

  get(id: string): T | undefined {
    return this.#values.get(id)
  }

  set(id: string, value: T): void {
    this.#values.delete(id)
    this.#values.set(id, value)
    if (this.#values.size <= MOST) return
    // Each is another: what matters goes behind all others, and is not looked at again before they have been.
    let looks = 0
    for (const [oldest, its] of this.#values) {
      this.#values.delete(oldest)
      if (++looks === LOOKS || !this.#matters(its)) return
      this.#values.set(oldest, its)
    }
  }

  delete(id: string): void {
    this.#values.delete(id)
  }
}
