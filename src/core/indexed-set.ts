/** What can be a member: it knows its place among the others. -1: nowhere. */
export type Indexed = { place: number }

/**
 * Those who come and go with every request. A `Set` would do, but for its garbage: V8 gives it a new table every few
 * removals, each old table points to the next, and once the collector has taken one for long-lived, all that follow it,
 * with the requests in them, live until the next collection of everything.
 */
export class IndexedSet<T extends Indexed> implements Iterable<T> {
  readonly #all: T[] = []

  get size(): number {
    return this.#all.length
  }

  add(one: T): void {
    if (one.place !== -1) return
    one.place = this.#all.length
    this.#all.push(one)
  }

  /** Whether it was one of them. */
  delete(one: T): boolean {
    const { place } = one
    if (place === -1) return false
    one.place = -1
    const last = this.#all.pop()
    if (last === undefined || last === one) return true
    this.#all[place] = last
    last.place = place
    return true
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#all[Symbol.iterator]()
  }
}
