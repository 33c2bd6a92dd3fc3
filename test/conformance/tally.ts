/** Runs a check over many items, collects all failures, and counts the results for the tables of docs/conformance.md. */
import { appendFileSync } from 'node:fs'

/** One row of a table; `npm run conformance` reads it. */
export type Row = {
  readonly table: string
  readonly name: string
  readonly passed: number
  readonly failed: number
  /** Items that were not checked, counted by reason. */
  readonly excluded: Readonly<Record<string, number>>
  /** Items of which a part was not checked, counted by reason. */
  readonly noted: Readonly<Record<string, number>>
}

type Counts = {
  passed: number
  readonly failed: string[]
  readonly excluded: Map<string, number>
  readonly noted: Map<string, number>
}

/** The environment variable with the file that test processes append their rows to, one line of JSON each. */
export const ROWS_VARIABLE = 'HEADGATE_CONFORMANCE'

const increment = (counts: Map<string, number>, why: string): void => {
  counts.set(why, (counts.get(why) ?? 0) + 1)
}

export class Tally {
  readonly #rows = new Map<string, Counts>()
  readonly #table: string | undefined

  /** `table`: the table of docs/conformance.md for these rows; without it they are only printed. */
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

  exclude(row: string, why: string): void {
    increment(this.#row(row).excluded, why)
  }

  note(row: string, why: string): void {
    increment(this.#row(row).noted, why)
  }

  /** Returns one line for each failed item. `check` throws on failure, or returns why the item is excluded. */
  checkEach<T>(
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
        else this.exclude(row, why)
      } catch (error) {
        // The calling test reports every failure; one must not hide the others.
        counts.failed.push(`${name(item)}: ${error instanceof Error ? error.message.slice(0, 1_500) : String(error)}`)
      }
    return counts.failed.length > MAX_SHOWN
      ? [`${counts.failed.length} in total`, ...counts.failed.slice(0, MAX_SHOWN)]
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

  /** One line for each row: passed, failed, and excluded items with the reasons. */
  lines(): readonly string[] {
    const reasonsText = (title: string, counts: Readonly<Record<string, number>>): string => {
      const reasons = Object.entries(counts).map(([why, times]) => `${times} × ${why}`)
      return reasons.length === 0 ? '' : `  ${title}: ${reasons.join('; ')}`
    }
    return this.rows().map(({ name, passed, failed, excluded, noted }) => {
      const counts = `${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed`
      return `${name.padEnd(36)}${counts}${reasonsText('excluded', excluded)}${reasonsText('noted', noted)}`
    })
  }

  print(): void {
    if (this.#rows.size === 0) return
    process.stdout.write(`\n${this.lines().join('\n')}\n\n`)
    const file = process.env[ROWS_VARIABLE]
    if (file === undefined || this.#table === undefined) return
    appendFileSync(
      file,
      this.rows()
        .map((row) => `${JSON.stringify(row)}\n`)
        .join(''),
    )
  }
}

const MAX_SHOWN = 25
