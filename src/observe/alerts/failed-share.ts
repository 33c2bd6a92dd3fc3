/** Requests of the last hour and how many failed, for the rule `failedShare`. */
import type { TraceSummary } from '../../core/trace-summary.ts'

/** The length of a part of the window in ms, and how many are kept. */
const PART = 10_000
const PARTS = 360

type CountedSpan = { readonly number: number; all: number; failed: number }

export class FailedShare {
  #parts: CountedSpan[] = []

  /** Counts an ended request. Requests that the gateway refused (4xx), and those whose client left, show nothing about providers. */
  add(now: number, { outcome, status }: Pick<TraceSummary, 'outcome' | 'status'>): void {
    const hasFailed = outcome === 'interrupted' || (outcome === 'refused' && status >= 500)
    if (!hasFailed && outcome !== 'answered') return
    const number = Math.floor(now / PART)
    let part = this.#parts.at(-1)
    if (part?.number !== number) {
      part = { number, all: 0, failed: 0 }
      this.#parts = [...this.#parts.slice(1 - PARTS), part]
    }
    part.all++
    if (hasFailed) part.failed++
  }

  /** The requests of the last `window` ms, to 10 s. */
  sum(now: number, window: number): { readonly all: number; readonly failed: number } {
    const from = Math.floor((now - window) / PART)
    let all = 0
    let failed = 0
    for (const part of this.#parts)
      if (part.number > from) {
        all += part.all
        failed += part.failed
      }
    return { all, failed }
  }
}
