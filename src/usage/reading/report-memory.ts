/**
 * What reports from the rows of requests have added up so far: one whose time is over continues with the next query, and so does its
 * next page.
 */
import type { TotalCounts } from '../columns/usage-schema.ts'
import type { Dimension, TimeRange } from './queries.ts'

/** Reports that are kept, the groups of all of them, and ms for which they are kept. */
const MOST = { reports: 8, groups: 100_000, age: 600_000 }

/** `server_error`: null if a row of the sum was begun before it was counted. */
export type ReadCounts = Omit<TotalCounts, 'server_error'> & { readonly server_error: number | null }

/** Sums, with the group's `start` and dimensions. */
export type SumsRow = ReadCounts & { readonly [name in Dimension]?: string } & { readonly start?: string | number }

/** A part of a report. `start`: of its bucket; undefined: its rows have hours, or there are no buckets. */
export type ReportPiece = {
  readonly of: 'days' | 'hours' | 'requests'
  readonly range: TimeRange
  readonly start: string | undefined
}

/** `left`: what is not added up yet, in the order of time. `width`: of the next part that is read from rows, in ms. */
export type ReportPlan = { readonly range: TimeRange; readonly left: ReportPiece[]; width: number }

/** A report that is added up. `since`: its first query, in ms since 1970. */
export type KeptReport = ReportPlan & {
  readonly since: number
  readonly groups: Map<string, SumsRow>
  /** A complete answer was given. */
  isAnswered: boolean
}

export class ReportMemory {
  readonly #reports = new Map<string, KeptReport>()

  /** `name`: all that decides the report. The first page of one that was answered reads again what may have been stored since. */
  async get(name: string, isFirstPage: boolean, now: number, plan: () => Promise<ReportPlan>): Promise<KeptReport> {
    const known = this.#known(name, isFirstPage, now)
    if (known) return known
    const made: KeptReport = { since: now, ...(await plan()), groups: new Map(), isAnswered: false }
    // Another query may have begun the same report.
    const other = this.#known(name, isFirstPage, now)
    if (other) return other
    this.#reports.delete(name)
    this.#reports.set(name, made)
    return made
  }

  /** Lets the oldest reports go where there are too many groups. Returns whether there is room for those of this one. */
  hasRoom(report: KeptReport): boolean {
    let groups = 0
    for (const one of this.#reports.values()) groups += one.groups.size
    for (const [name, one] of this.#reports) {
      if (groups <= MOST.groups && this.#reports.size <= MOST.reports) break
      if (one === report) continue
      this.#reports.delete(name)
      groups -= one.groups.size
    }
    return report.groups.size <= MOST.groups
  }

  /** The report is answered. Without a next page it is not needed any more. */
  answered(name: string, report: KeptReport, hasMore: boolean): void {
    report.isAnswered = true
    if (!hasMore && this.#reports.get(name) === report) this.#reports.delete(name)
  }

  #known(name: string, isFirstPage: boolean, now: number): KeptReport | null {
    for (const [other, { since }] of this.#reports) if (Math.abs(now - since) > MOST.age) this.#reports.delete(other)
    const known = this.#reports.get(name)
    return known && !(isFirstPage && known.isAnswered) ? known : null
  }
}
