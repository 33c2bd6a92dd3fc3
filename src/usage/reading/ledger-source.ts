/**
 * The database of the ledger for reading, without writing anything: `usage.db`, or Postgres. Functions throw the error of the
 * database or of the file system.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Kysely } from 'kysely'
import { watchMoved } from '../../storage/files/opened-files.ts'
import { isOldEnough, isReadable, migrateSchema } from '../../storage/sql/migrate.ts'
import { PostgresError } from '../../storage/sql/postgres/postgres-error.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { SqliteStore } from '../../storage/sql/sqlite/store.ts'
import type { SqlStore } from '../../storage/sql/store.ts'
import { SHARED_USAGE, USAGE_SCHEMA, type UsageTables } from '../columns/usage-schema.ts'
import { USAGE_FILE } from '../journal/file.ts'
import type { BucketMemory } from './bucket-memory.ts'

/** What a query reads from. */
export type LedgerReads = {
  readonly db: Kysely<UsageTables>
  /** Zone of daily sums. */
  readonly timezone: string
  /** Days for which hourly sums are kept. */
  readonly keepHours: number
  readonly now: number
  /** Throws `TooSlow` after the time limit. Called between the statements of a query. */
  readonly checkTime: () => void
  /** Throws `TooSlow`: the answer would take more than the memory that there is for it. */
  readonly tooMuch: () => never
  /** For shared answers: past buckets of other queries. Null: everything is read. */
  readonly memory: BucketMemory | null
}

export class TooSlow extends Error {}

/** ms to wait for a lock, which readers need only while the file is created or recovered. */
const BUSY = 1_000
/** KiB of pages in memory. */
const CACHE = 32_768

type OpenedSource = Pick<SqlStore<UsageTables>, 'read' | 'close'> & { readonly isStale: () => boolean }

/** Opens the database when it is needed, and again when the file was replaced or an error may be that of another schema. */
export class LedgerSource {
  readonly #open: () => Promise<OpenedSource>
  #opened: OpenedSource | null = null
  #opening: Promise<OpenedSource> | null = null

  constructor(folder: string, shared: SharedDatabase | null) {
    this.#open = shared ? () => openPostgres(shared) : async () => openFolder(folder)
  }

  /** Runs queries on one state of the database, whatever is written meanwhile. */
  async read<T>(run: (db: Kysely<UsageTables>) => Promise<T>): Promise<T> {
    if (this.#opened?.isStale()) await this.close()
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null
    })
    this.#opened ??= await this.#opening
    return await this.#opened.read(run)
  }

  async close(): Promise<void> {
    const opened = this.#opened
    this.#opened = null
    await opened?.close()
  }
}

// ── usage.db ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const openFolder = (folder: string): OpenedSource => {
  const path = join(folder, USAGE_FILE)
  const database = existsSync(path) ? openFile(path) : null
  return database ? sourceOf(database, watchMoved([path])) : nothingRecorded()
}

const sourceOf = (database: DatabaseSync, isStale: () => boolean): OpenedSource => {
  const store = new SqliteStore<UsageTables>(database)
  return { read: (run) => store.read(run), close: () => store.close(), isStale }
}

/** Null if the bookkeeper is creating the schema. */
const openFile = (path: string): DatabaseSync | null => {
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY })
  try {
    if (isReadable(database, USAGE_SCHEMA)) {
      database.exec(`PRAGMA cache_size = -${CACHE}; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON`)
      return database
    }
    database.close()
    return null
  } catch (error) {
    database.close()
    throw error
  }
}

/** An empty database until there is another. */
const nothingRecorded = (): OpenedSource => {
  const database = new DatabaseSync(':memory:')
  migrateSchema(database, USAGE_SCHEMA)
  return sourceOf(database, () => true)
}

// ── Postgres ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Connections: a replica has more for reports. */
const MAX = { database: 1, replica: 2 }

/** Loads the client of Postgres only where it is used. */
const openPostgres = async ({ url, readUrl }: SharedDatabase): Promise<OpenedSource> => {
  const [{ PostgresPool }, { PostgresStore }, { sharedVersion }] = await Promise.all([
    import('../../storage/sql/postgres/pool.ts'),
    import('../../storage/sql/postgres/store.ts'),
    import('../../storage/sql/postgres/shared-schema.ts'),
  ])
  const { name: schema, versions } = SHARED_USAGE
  const max = readUrl === undefined ? MAX.database : MAX.replica
  const pool = new PostgresPool({ url: readUrl ?? url, schema, max, applicationName: 'headgate reports' })
  const store = new PostgresStore<UsageTables>(pool)
  try {
    if (!isOldEnough(await sharedVersion(pool, versions), versions)) {
      await pool.close()
      return nothingRecorded()
    }
  } catch (error) {
    await pool.close()
    throw error
  }
  let isStale = false
  const read: OpenedSource['read'] = async (run) => {
    try {
      return await store.read(run)
    } catch (error) {
      isStale ||= error instanceof PostgresError && error.code !== QUERY_CANCELED
      throw error
    }
  }
  return { read, close: () => pool.close(), isStale: () => isStale }
}

/** SQLSTATE of a statement that has exceeded its time limit. */
export const QUERY_CANCELED = '57014'
