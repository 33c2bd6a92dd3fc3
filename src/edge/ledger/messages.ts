/** Messages between the bookkeeper's client (`client.ts`) and its thread (`thread.ts`). */
import type { BookkeeperEvent, BookkeeperOptions, BookkeeperProgress } from './bookkeeper.ts'
import type { UsageLimits } from './usage-database.ts'

/** The thread answers a query once, with its number. */
export type LedgerQuery = { readonly number: number } & (
  | /** Stores everything that is in the journal. */
  { readonly do: 'flush' }
  | { readonly do: 'sums'; readonly since: number }
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
