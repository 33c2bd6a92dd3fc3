/** Adds up the shapes of requests by day, for one transaction. */
import type { ShapeNoted } from '../../core/journal.ts'
import { OTHER, type ShapeDayRow } from '../columns/usage-schema.ts'

/** Rows of a transaction. Further shapes are `OTHER`. */
const MOST = 5_000

export class BatchShapes {
  readonly #dayOf: (at: number) => string
  #rows = new Map<string, ShapeDayRow>()

  /** `dayOf`: the date of a time in the zone of daily sums. */
  constructor(dayOf: (at: number) => string) {
    this.#dayOf = dayOf
  }

  add({ at, route, access, provider, shape, weight }: ShapeNoted): void {
    const key = { day: this.#dayOf(at), route, access, provider: provider ?? '', shape }
    const name = JSON.stringify(Object.values(key))
    const known = this.#rows.get(name)
    if (known || this.#rows.size < MOST) this.#rows.set(name, { ...key, weight: weight + (known?.weight ?? 0) })
    else if (shape !== OTHER) this.add({ type: 'shape', at, route, access, provider, shape: OTHER, weight })
    else this.#rows.set(name, { ...key, weight })
  }

  /** In the order of their keys, so that gateways which add to the same ones do not wait for each other. */
  take(): readonly ShapeDayRow[] {
    const rows = [...this.#rows].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
    this.#rows = new Map()
    return rows
  }
}
