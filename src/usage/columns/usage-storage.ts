/** The file with the tables of the ledger. */
import type { DatabaseSync } from 'node:sqlite'
import { openSizedFile } from '../../storage/files/sized-file.ts'
import { USAGE_SCHEMA } from './usage-schema.ts'

export type UsageStorage = {
  readonly database: DatabaseSync
  /** The file must be opened again: its path leads to another one. */
  readonly isStale: () => boolean
  /** Bytes that rows and indexes take. `isShrinking`: since the last call only rows were deleted. */
  readonly used: (isShrinking: boolean) => number
  /** Rows of requests were deleted. Returns a part of their space to the file system; whether more is left. */
  readonly release: (requests: number) => boolean
  /** Waits until the disk has what was stored. */
  readonly checkpoint: () => void
}

/** Pages of the log (16 MB) at which SQLite moves it into the file. */
const LOG_PAGES = 4_000
/** Pages returned to the file system per step. */
const RELEASED = 1_000

/** Opens the file; what is missing is created. Returns what `use` makes of it, which may throw. */
export const openStorage = <T>(folder: string, use: (storage: UsageStorage) => T): Promise<T> =>
  openSizedFile(folder, USAGE_SCHEMA, LOG_PAGES, ({ database, moved, size }) =>
    use({
      database,
      isStale: moved,
      used: () => size().used,
      release() {
        // `exec` runs all steps of the pragma; a prepared statement would run one.
        database.exec(`PRAGMA incremental_vacuum(${RELEASED})`)
        return size().free > 0
      },
      // Moves the log into the file.
      checkpoint: () => database.exec('PRAGMA wal_checkpoint(PASSIVE)'),
    }),
  )
