/** Messages between `client.ts` and the reading thread (`thread.ts`). */
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import type { ReadName, ReadQuery } from './queries.ts'

/** The thread answers each query once, with its number. */
export type ToReadingThread =
  | { readonly do: 'read'; readonly number: number; readonly now: number; readonly read: NamedQuery }
  /** Ends the thread. */
  | { readonly do: 'close' }

export type NamedQuery = {
  readonly [Name in ReadName]: { readonly name: Name; readonly query: ReadQuery<Name> }
}[ReadName]

/** `ms`: how long the query took. `problem` contains no path. `slow`: the time limit was exceeded. */
export type FromReadingThread = { readonly number: number } & (
  | { readonly value: unknown; readonly ms: number }
  | { readonly problem: string; readonly slow: boolean }
)

export type ReadingThreadOptions = {
  /** Folder of `usage.db`. */
  readonly folder: string
  /** Null: usage is in `usage.db`. */
  readonly database: SharedDatabase | null
  /** IANA zone of daily sums. */
  readonly timezone: string
  /** Days for which hourly sums are kept. */
  readonly keepHours: number
  /** ms per query. */
  readonly limit: number
}
