/** Queries of the reading thread (`reading-thread.ts`), and its options. Plain data. */
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import type { ReadName, ReadQuery, ReadResult } from './queries.ts'

export type NamedQuery = {
  readonly [Name in ReadName]: { readonly name: Name; readonly query: ReadQuery<Name> }
}[ReadName]

/** `now`: ms since 1970. `keepHours`: days for which hourly sums are kept. */
export type AskedQuery = { readonly now: number; readonly keepHours: number; readonly read: NamedQuery }

/** `ms`: how long the query took. `slow`: it has exceeded the time limit. */
export type ReadAnswer = { readonly value: ReadResult; readonly ms: number } | { readonly slow: true }

export type ReadingThreadOptions = {
  /** Folder of `usage.db`. */
  readonly folder: string
  /** Null: usage is in `usage.db`. */
  readonly database: SharedDatabase | null
  /** IANA zone of daily sums. */
  readonly timezone: string
  /** ms per query, and ms after which one that can be continued is answered with what it has found. */
  readonly limit: number
  readonly within: number
}
