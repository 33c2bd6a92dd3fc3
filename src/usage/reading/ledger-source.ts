/**
 * The database of the ledger for reading, without writing anything: `usage.db`, or Postgres. Functions throw the error of the
 * database or of the file system.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { watchMoved } from '../../storage/files/opened-files.ts'
import { dialectOf } from '../../storage/sql/dialect.ts'
import { isReadable, migrateSchema } from '../../storage/sql/migrate.ts'
import { PostgresDatabase } from '../../storage/sql/postgres/database.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
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

/** `begin`: the statement after which all queries read one state. */
type OpenedSource = {
  readonly database: DatabaseSync | PostgresDatabase
  readonly isStale: () => boolean
  readonly begin: string
}

/** Opens the database when it is needed, and again when the file was replaced or the connection is lost. */
export class LedgerSource {
  readonly #open: () => Promise<OpenedSource>
  #opened: OpenedSource | null = null

  constructor(folder: string, shared: SharedDatabase | null) {
    this.#open = shared ? () => openPostgres(shared) : () => openFolder(folder)
  }

  /** Runs queries on one state of the database, whatever is written meanwhile. */
  async read<T>(run: (db: Kysely<UsageTables>) => Promise<T>): Promise<T> {
    const { database, isStale } = await this.#begin()
    try {
      return await run(new Kysely<UsageTables>({ dialect: dialectOf(database) }))
    } finally {
      // A stale one is closed before the next query.
      if (!isStale()) database.exec('ROLLBACK')
    }
  }

  close(): void {
    this.#opened?.database.close()
    this.#opened = null
  }

  async #begin(): Promise<OpenedSource> {
    if (this.#opened?.isStale()) this.close()
    const before = this.#opened
    this.#opened ??= await this.#open()
    const { database, begin, isStale } = this.#opened
    try {
      database.exec(begin)
      return this.#opened
    } catch (error) {
      // A connection that was lost since the last query is noticed here.
      if (!before || !isStale()) throw error
      return this.#begin()
    }
  }
}

// ── usage.db ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const openFolder = async (folder: string): Promise<OpenedSource> => {
  const path = join(folder, USAGE_FILE)
  const database = existsSync(path) ? openFile(path) : null
  return database ? { database, isStale: watchMoved([path]), begin: 'BEGIN' } : nothingRecorded()
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
const nothingRecorded = async (): Promise<OpenedSource> => {
  const database = new DatabaseSync(':memory:')
  await migrateSchema(database, USAGE_SCHEMA)
  return { database, isStale: () => true, begin: 'BEGIN' }
}

// ── Postgres ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const SNAPSHOT = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'

const openPostgres = async ({ url }: SharedDatabase): Promise<OpenedSource> => {
  const database = PostgresDatabase.open({ url, schema: SHARED_USAGE.name })
  try {
    if (isReadable(database, SHARED_USAGE.versions))
      return { database, isStale: () => database.isLost, begin: SNAPSHOT }
    database.close()
    return await nothingRecorded()
  } catch (error) {
    database.close()
    throw error
  }
}
