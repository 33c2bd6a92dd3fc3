/** What budget counters have spent, with the parts of processes, from the rows of a database. */
import type { RecordedPart } from '../../policy/accounts/lease.ts'
import type { LedgerSum } from './ledger-store.ts'

type SumRow = { readonly [column: string]: unknown }

/**
 * `sums`: rows of `budget_sum`; `parts`: rows of `process_sum`. `isOwn`: whether the name in the database is of a running process of
 * this gateway.
 */
export const counterSums = (
  sums: readonly SumRow[],
  parts: readonly SumRow[],
  isOwn: (stored: string) => boolean,
): readonly LedgerSum[] => {
  const byCounter = new Map<string, RecordedPart[]>()
  for (const { process, counter, period_start, spent } of parts) {
    const name = nameOf(period_start, counter)
    const part = { run: String(process), spent: Number(spent) }
    const known = byCounter.get(name)
    if (known) known.push(part)
    else byCounter.set(name, [part])
  }
  return sums.map(({ counter, period_start, spent }) => {
    const recorded = byCounter.get(nameOf(period_start, counter)) ?? []
    const own = recorded.reduce((sum, part) => sum + (isOwn(part.run) ? part.spent : 0), 0)
    const earlier = Number(spent) - own
    return { counter: String(counter), period_start: Number(period_start), spent: Number(spent), earlier, recorded }
  })
}

const nameOf = (start: unknown, counter: unknown): string => `${start} ${counter}`
