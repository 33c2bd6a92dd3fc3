/** Queries of the reading thread (`reading-thread.ts`), and its options. Plain data. */
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import type { ReadName, ReadQuery, ReadResult } from './queries.ts'

export type NamedQuery = {
  readonly [Name in ReadName]: { readonly name: Name; readonly query: ReadQuery<Name> }
}[ReadName]

/** `now`: ms since 1970. */
export type AskedQuery = { readonly now: number; readonly read: NamedQuery }

/** `ms`: how long the query took. `slow`: it has exceeded the time limit. */
export type ReadAnswer = { readonly value: ReadResult; readonly ms: number } | { readonly slow: true }

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
