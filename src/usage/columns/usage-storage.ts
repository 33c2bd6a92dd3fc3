/** The tables of the ledger in `usage.db` or in Postgres: what differs between the two. */
import type { DatabaseSync } from 'node:sqlite'
import { openSizedFile } from '../../storage/files/sized-file.ts'
import type { PostgresDatabase } from '../../storage/sql/postgres/database.ts'
import { openBlocking } from '../../storage/sql/postgres/shared-schema.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { SHARED_USAGE, USAGE_SCHEMA } from './usage-schema.ts'

export type UsageStorage = {
  readonly database: DatabaseSync | PostgresDatabase
  /** Several gateways store their usage in it. */
  readonly isShared: boolean
  /** The database must be opened again: its path leads to another file, or the connection is lost. */
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

/** Opens the database; what is missing is created. Returns what `use` makes of it, which may throw. */
export const openStorage = <T>(
  folder: string,
  shared: SharedDatabase | null,
  use: (storage: UsageStorage) => T,
): Promise<T> => (shared ? openPostgres(shared, use) : openFile(folder, use))

// ── usage.db ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const openFile = <T>(folder: string, use: (storage: UsageStorage) => T): Promise<T> =>
  openSizedFile(folder, USAGE_SCHEMA, LOG_PAGES, ({ database, moved, size }) =>
    use({
      database,
      isShared: false,
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

// ── Postgres ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const openPostgres = async <T>(shared: SharedDatabase, use: (storage: UsageStorage) => T): Promise<T> => {
  const database = await openBlocking(shared, { ...SHARED_USAGE, mayCreate: true })
  try {
    const size = sizeOf(database)
    return use({
      database,
      isShared: true,
      isStale: () => database.isLost,
      used: size.used,
      release: size.release,
      // A transaction is on the disk when it ends.
      checkpoint() {},
    })
  } catch (error) {
    database.close()
    throw error
  }
}

const TABLES_SIZE = `SELECT coalesce(sum(pg_total_relation_size(oid)), 0) AS bytes FROM pg_class
  WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`
const LIVE_ROWS = `SELECT n_live_tup AS rows FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname = ?`
const NEWEST_BYTES = `SELECT coalesce(avg(pg_column_size(newest.*)), 0) AS bytes
  FROM (SELECT * FROM request ORDER BY received DESC LIMIT 200) AS newest`
/** Bytes of a row's entries in the indexes, and of its place in a page. */
const OVERHEAD = 120

/**
 * Files of tables do not shrink: Postgres uses the space of deleted rows again. So the size is that of the files, or an
 * estimate from the number of rows where that is less. Postgres updates the numbers about each second, so while rows are
 * deleted it is not measured again.
 */
const sizeOf = (database: PostgresDatabase): Pick<UsageStorage, 'used' | 'release'> => {
  const number = (row: { readonly [name in string]: unknown } | undefined, name: string) => Number(row?.[name] ?? 0)
  let used = 0
  let bytes = 0
  const measured = (): number => {
    bytes = Math.round(number(database.prepare(NEWEST_BYTES).get(), 'bytes')) + OVERHEAD
    const files = number(database.prepare(TABLES_SIZE).get(), 'bytes')
    return Math.min(files, number(database.prepare(LIVE_ROWS).get('request'), 'rows') * bytes)
  }
  return {
    used(isShrinking) {
      if (!isShrinking) used = measured()
      return used
    },
    release(requests) {
      used -= requests * bytes
      return false
    },
  }
}
