/** So many names are remembered at most: clients choose model names, and memory is bounded. */
const MOST = 10_000

/** What is kept by name. Keeps the newest names; what has not been set longest is forgotten first. */
export class Remembered<T> {
  readonly #values = new Map<string, T>()

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
    const oldest = this.#values.keys().next()
    if (!oldest.done) this.#values.delete(oldest.value)
  }

  delete(id: string): void {
    this.#values.delete(id)
  }
}
