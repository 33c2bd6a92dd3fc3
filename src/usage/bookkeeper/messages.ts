/** Messages between the bookkeeper's client (`client.ts`) and its thread (`thread.ts`). */
import type { BookkeeperEvent, BookkeeperOptions } from './bookkeeper.ts'
import type { CountedPeriodOf } from './period-count.ts'
import type { BookkeeperProgress } from './progress.ts'
import type { Adjustment, UsageLimits } from './usage-database.ts'

/** The thread answers a query once, with its number. */
export type LedgerQuery = { readonly number: number } & (
  | /** Stores everything that is in the journal. */
  { readonly do: 'flush' } /** First counts the periods of these budgets, whose rows must be stored. */
  | { readonly do: 'sums'; readonly since: number; readonly counted: readonly CountedPeriodOf[] }
  /** What an ended process has spent, after everything that is in the journal is stored. */
  | { readonly do: 'spent'; readonly process: string }
  /** Stores an adjustment after everything that is in the journal. */
  | { readonly do: 'adjust'; readonly adjustment: Adjustment }
)

export type ToLedgerThread =
  | LedgerQuery
  | { readonly do: 'limits'; readonly limits: UsageLimits }
  /** Stores everything that is in the journal and ends the thread. */
  | { readonly do: 'close' }

/** `problem` contains no path. */
export type LedgerAnswer = { readonly number: number } & ({ readonly value: unknown } | { readonly problem: string })

export type FromLedgerThread = BookkeeperEvent | LedgerAnswer | { readonly progress: BookkeeperProgress }

export type LedgerThreadOptions = BookkeeperOptions & { readonly limits: UsageLimits }
