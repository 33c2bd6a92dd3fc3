/** Options and events of the bookkeeper's thread. Plain data. */
import type { BookkeeperEvent, BookkeeperOptions } from './bookkeeper.ts'
import type { BookkeeperProgress } from './progress.ts'
import type { UsageLimits } from './usage-database.ts'

export type LedgerThreadOptions = BookkeeperOptions & { readonly limits: UsageLimits }

export type LedgerEvents = { readonly event: BookkeeperEvent; readonly progress: BookkeeperProgress }
