/** Runs a case over many, collects what fails instead of stopping at the first, and keeps the counts for a table. */

type Row = { passed: number; readonly failed: string[]; readonly excluded: Map<string, number> }

export class Board {
  readonly #rows = new Map<string, Row>()

  #row(name: string): Row {
    const known = this.#rows.get(name)
    if (known) return known
    const row: Row = { passed: 0, failed: [], excluded: new Map() }
    this.#rows.set(name, row)
    return row
  }

  excluded(row: string, why: string): void {
    const { excluded } = this.#row(row)
    excluded.set(why, (excluded.get(why) ?? 0) + 1)
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

  /** One line a row: what passed, what failed, and what could not take part, with the reasons. */
  lines(): readonly string[] {
    return [...this.#rows]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { passed, failed, excluded }]) => {
        const reasons = [...excluded].map(([why, times]) => `${times} × ${why}`).join('; ')
        const counts = `${String(passed).padStart(5)} passed ${String(failed.length).padStart(4)} failed`
        return `${name.padEnd(36)}${counts}${reasons === '' ? '' : `  excluded: ${reasons}`}`
      })
  }

  print(): void {
    process.stdout.write(`\n${this.lines().join('\n')}\n\n`)
  }
}

const SHOWN = 25
