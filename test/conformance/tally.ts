/** Runs a case over many, collects what fails instead of stopping at the first, and keeps the counts for a table. */
import { appendFileSync } from 'node:fs'

/** A line of the table, as `npm run conformance` reads it. */
export type Row = {
  readonly table: string
  readonly name: string
  readonly passed: number
  readonly failed: number
  /** What could not take part, by why. */
  readonly excluded: Readonly<Record<string, number>>
  /** What took part all the same, and what of it could not be judged. */
  readonly noted: Readonly<Record<string, number>>
}

type Counts = {
  passed: number
  readonly failed: string[]
  readonly excluded: Map<string, number>
  readonly noted: Map<string, number>
}

/** The file rows are added to, a line of JSON each; the tests of a folder are many processes. */
export const ROWS = 'HEADGATE_CONFORMANCE'

const more = (counts: Map<string, number>, why: string): void => {
  counts.set(why, (counts.get(why) ?? 0) + 1)
}

export class Tally {
  readonly #rows = new Map<string, Counts>()
  readonly #table: string | undefined

  /** `table`: where its rows are kept; without one they are shown and forgotten. */
  constructor(table?: string) {
    this.#table = table
  }

  #row(name: string): Counts {
    const known = this.#rows.get(name)
    if (known) return known
    const row: Counts = { passed: 0, failed: [], excluded: new Map(), noted: new Map() }
    this.#rows.set(name, row)
    return row
  }

  excluded(row: string, why: string): void {
    more(this.#row(row).excluded, why)
  }

  noted(row: string, why: string): void {
    more(this.#row(row).noted, why)
  }

  /** Answers what failed, a line each. `check` throws, or answers why an item cannot do the case. */
  each<T>(
    row: string,
    items: Iterable<T>,
    name: (item: T) => string,
    check: (item: T) => string | undefined,
  ): readonly string[] {
    const counts = this.#row(row)
    for (const item of items)
      try {
        const why = check(item)
        if (why === undefined) counts.passed++
        else this.excluded(row, why)
      } catch (error) {
        // Every failure is shown by the test that asked; one of them must not hide the others.
        counts.failed.push(`${name(item)}: ${error instanceof Error ? error.message.slice(0, 1_500) : String(error)}`)
      }
    return counts.failed.length > SHOWN
      ? [`${counts.failed.length} in all`, ...counts.failed.slice(0, SHOWN)]
      : counts.failed
  }

  rows(): readonly Row[] {
    return [...this.#rows]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { passed, failed, excluded, noted }]) => ({
        table: this.#table ?? '',
        name,
        passed,
        failed: failed.length,
        excluded: Object.fromEntries(excluded),
        noted: Object.fromEntries(noted),
      }))
  }

  /** One line a row: what passed, what failed, and what could not take part, with the reasons. */
  lines(): readonly string[] {
    const said = (title: string, counts: Readonly<Record<string, number>>): string => {
      const reasons = Object.entries(counts).map(([why, times]) => `${times} × ${why}`)
      return reasons.length === 0 ? '' : `  ${title}: ${reasons.join('; ')}`
    }
    return this.rows().map(({ name, passed, failed, excluded, noted }) => {
      const counts = `${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed`
      return `${name.padEnd(36)}${counts}${said('excluded', excluded)}${said('noted', noted)}`
    })
  }

  print(): void {
    if (this.#rows.size === 0) return
    process.stdout.write(`\n${this.lines().join('\n')}\n\n`)
    const file = process.env[ROWS]
    if (file === undefined || this.#table === undefined) return
    appendFileSync(
      file,
      this.rows()
        .map((row) => `${JSON.stringify(row)}\n`)
        .join(''),
    )
  }
}

const SHOWN = 25
