/** The attempts at each provider in the last hour, by minute, for strips of its health. In memory, so that they need no ledger. */
import { type Failure, rowOf } from '../core/failure.ts'
import type { TraceSummary } from '../core/trace-summary.ts'

/** One minute. `start`: ms since 1970. */
export type MinuteCell = {
  readonly start: number
  readonly attempts: number
  /** Failures of the provider. */
  readonly failed: number
  /** Attempts that were refused because of a rate limit or a quota. */
  readonly limited: number
  /** Requests that did not try it, because a circuit was open or it was resting. */
  readonly skipped: number
  /** ms until the first content of the slowest attempt; null: none had content. */
  readonly slowest_ms: number | null
}

const MINUTE = 60_000
const MINUTES = 60
/** Providers; names come from the configuration, so there are few. */
const MOST = 1_000
const LIMITS: ReadonlySet<string> = new Set(['rate_limited', 'token_rate', 'quota'])
const OPEN: ReadonlySet<string> = new Set(['circuit', 'warming', 'resting'])

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

export class ProviderMinutes {
  readonly #date: () => number
  /** By provider, the oldest first. Minutes without attempts have no cell. */
  readonly #cells = new Map<string, Mutable<MinuteCell>[]>()

  /** `date`: ms since 1970. */
  constructor(date: () => number) {
    this.#date = date
  }

  /** Counts the attempts of a request that has ended. */
  record({ attempts, skipped, outcome, failure }: TraceSummary): void {
    for (const { provider, end, settled, began, failure: own } of attempts) {
      const cell = this.#cellOf(provider)
      if (!cell) return
      cell.attempts++
      const broke = end === 'committed' && outcome === 'interrupted' ? failure : own
      if (broke && LIMITS.has(broke.kind)) cell.limited++
      else if (broke && isOfProvider(broke)) cell.failed++
      if (end === 'committed' && settled !== undefined)
        cell.slowest_ms = Math.max(cell.slowest_ms ?? 0, Math.round(settled - began))
    }
    for (const { provider, why } of skipped) {
      const cell = OPEN.has(why) ? this.#cellOf(provider) : undefined
      if (cell) cell.skipped++
    }
  }

  /** The last 60 minutes of a provider, the oldest first; the last one is not over. */
  of(provider: string): readonly MinuteCell[] {
    const current = Math.floor(this.#date() / MINUTE) * MINUTE
    const cells = new Map(this.#cells.get(provider)?.map((cell) => [cell.start, cell]))
    return Array.from({ length: MINUTES }, (_, at) => {
      const start = current - (MINUTES - 1 - at) * MINUTE
      return { ...(cells.get(start) ?? emptyCell(start)) }
    })
  }

  #cellOf(provider: string): Mutable<MinuteCell> | undefined {
    const start = Math.floor(this.#date() / MINUTE) * MINUTE
    const cells = this.#cells.get(provider) ?? []
    const last = cells.at(-1)
    if (last?.start === start) return last
    if (cells.length === 0 && this.#cells.size >= MOST) return undefined
    const made = emptyCell(start)
    cells.push(made)
    if (cells.length > MINUTES) cells.shift()
    this.#cells.set(provider, cells)
    return made
  }
}

const isOfProvider = (failure: Failure): boolean => rowOf(failure).side === 'upstream'

const emptyCell = (start: number): MinuteCell => ({
  start,
  attempts: 0,
  failed: 0,
  limited: 0,
  skipped: 0,
  slowest_ms: null,
})
