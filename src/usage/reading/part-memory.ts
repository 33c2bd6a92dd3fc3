/**
 * The parts that an incomplete report has read: one that takes too long continues when the query is repeated, and so does its next
 * page.
 */

/** Reports, the values of all of them, and ms for which they are kept. */
const MOST = { reports: 8, values: 100_000, age: 600_000 }

type KeptReport = { readonly since: number; isAnswered: boolean; readonly parts: Map<string, readonly unknown[]> }

export class PartMemory {
  readonly #reports = new Map<string, KeptReport>()
  #values = 0

  /** `report` contains all that decides the values but the part. `now`: ms since 1970. */
  async get<Value>(
    report: string,
    part: string,
    now: number,
    read: () => Promise<readonly Value[]>,
  ): Promise<readonly Value[]> {
    const kept = this.#reportOf(report, now)
    // The report has the kind of the values, and this their type.
    const known = kept.parts.get(part) as readonly Value[] | undefined
    if (known) return known
    const values = await read()
    if (this.#values + values.length > MOST.values || this.#reports.get(report) !== kept) return values
    kept.parts.set(part, values)
    this.#values += values.length
    return values
  }

  /** Begins a query of a report. Its first page reads again what may have been stored since the last answer. */
  begin(report: string, isFirstPage: boolean): void {
    if (isFirstPage && this.#reports.get(report)?.isAnswered) this.#forget(report)
  }

  /** The report is answered. Without a next page its parts are not needed any more. */
  answered(report: string, hasMore: boolean): void {
    const kept = this.#reports.get(report)
    if (!kept) return
    kept.isAnswered = true
    if (!hasMore) this.#forget(report)
  }

  #forget(report: string): void {
    for (const values of this.#reports.get(report)?.parts.values() ?? []) this.#values -= values.length
    this.#reports.delete(report)
  }

  #reportOf(report: string, now: number): KeptReport {
    for (const [name, { since }] of this.#reports) if (Math.abs(now - since) > MOST.age) this.#forget(name)
    const known = this.#reports.get(report)
    if (known) return known
    const [oldest] = this.#reports.keys()
    if (this.#reports.size >= MOST.reports && oldest !== undefined) this.#forget(oldest)
    const kept = { since: now, isAnswered: false, parts: new Map<string, readonly unknown[]>() }
    this.#reports.set(report, kept)
    return kept
  }
}
