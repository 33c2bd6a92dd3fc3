/** A member stores its index in the set; -1: not a member. */
export type Indexed = { place: number }

/**
 * A set for members that change with every request. V8 reallocates the table of a `Set` every few removals, and a table in
 * the old generation keeps all later tables, with their requests, alive until a full garbage collection.
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

  /** Removes a member. Returns whether it was in the set. */
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
