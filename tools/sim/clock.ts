/** A virtual clock: a heap of timers, ordered by time and number. */
import type { Cancel } from '../../src/core/world.ts'

/** Maximum ms by which a simulated timer is late. */
export const MAX_LATENESS = 40

type Entry = { readonly at: number; readonly seq: number; run: (() => void) | null }

const before = (a: Entry, b: Entry): boolean => a.at < b.at || (a.at === b.at && a.seq < b.seq)

export class Clock {
  now = 1_000
  /** Pending timers. */
  live = 0
  #seq = 0
  readonly #heap: Entry[] = []

  after(ms: number, run: () => void): Cancel {
    const entry: Entry = { at: this.now + (ms > 0 ? ms : 0), seq: this.#seq++, run }
    this.live++
    this.#up(entry)
    return () => {
      if (!entry.run) return
      entry.run = null
      this.live--
    }
  }

  /** Advances to the next timer and runs it; returns false if there is none. */
  step(): boolean {
    for (;;) {
      const entry = this.#pop()
      if (!entry) return false
      const { run } = entry
      if (!run) continue
      entry.run = null
      this.live--
      if (entry.at > this.now) this.now = entry.at
      run()
      return true
    }
  }

  /** Advances the time. Only without pending timers. */
  jump(to: number): void {
    if (to > this.now) this.now = to
  }

  #up(entry: Entry): void {
    const heap = this.#heap
    let at = heap.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = heap[parent] as Entry // The parent of a position is in the heap.
      if (!before(entry, above)) break
      heap[at] = above
      at = parent
    }
    heap[at] = entry
  }

  #pop(): Entry | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (!first || !last || heap.length === 0) return first
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      if (left >= heap.length) break
      const right = left + 1
      // Both are below the length.
      const child = right < heap.length && before(heap[right] as Entry, heap[left] as Entry) ? right : left
      const below = heap[child] as Entry
      if (!before(below, last)) break
      heap[at] = below
      at = child
    }
    heap[at] = last
    return first
  }
}
