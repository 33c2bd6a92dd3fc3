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
import type { ReportMemory } from './report-memory.ts'

/** Parts of an answer that end when their time is over, unless they are complete. */
export type TimedPart = 'list' | 'count' | 'buckets' | 'samples'

/** What a query reads from. */
export type LedgerReads = {
  /** Each statement reads a state of its own: what is stored meanwhile may be in the next one. */
  readonly db: Kysely<UsageTables>
  /** Zone of daily sums. */
  readonly timezone: string
  /** Days for which hourly sums are kept. */
  readonly keepHours: number
  readonly now: number
  /** ms that the query has taken. */
  readonly time: () => number
  /** Whether the time for a part of the answer is over. */
  readonly isOver: (part: TimedPart) => boolean
  /** Lets other queries run. Called between the statements of a query. Throws `TooSlow` after the time limit. */
  readonly turn: () => Promise<void>
  /** Throws `TooSlow`: the answer would take more than the memory that there is for it. */
  readonly tooMuch: () => never
  /** For shared answers: past buckets of other queries. Null: everything is read. */
  readonly memory: BucketMemory | null
  readonly reports: ReportMemory
}

export class TooSlow extends Error {}

/** ms to wait for a lock, which readers need only while the file is created or recovered. */
const BUSY = 1_000
/** KiB of pages in memory. */
const CACHE = 32_768

type OpenedSource = Pick<SqlStore<UsageTables>, 'single' | 'close'> & {
  readonly isStale: () => boolean
  /** A query has failed. */
  readonly failed?: (error: unknown) => void
}

/** A source, with the number of queries that read it. */
type UsedSource = { readonly source: OpenedSource; queries: number; isLeft: boolean }

/** Opens the database when it is needed, and again when the file was replaced or an error may be that of another schema. */
export class LedgerSource {
  readonly #open: () => Promise<OpenedSource>
  #opened: UsedSource | null = null
  #opening: Promise<UsedSource> | null = null

  constructor(folder: string, shared: SharedDatabase | null) {
    this.#open = shared ? () => openPostgres(shared) : async () => openFolder(folder)
  }

  /** Runs a query. Several run at a time, one statement after the other. */
  async read<T>(run: (db: Kysely<UsageTables>) => Promise<T>): Promise<T> {
    if (this.#opened?.source.isStale()) await this.close()
    const used = this.#opened ?? (await this.#openOnce())
    used.queries++
    try {
      return await run(used.source.single)
    } catch (error) {
      used.source.failed?.(error)
      throw error
    } finally {
      used.queries--
      if (used.isLeft && used.queries === 0) await used.source.close()
    }
  }

  /** Queries that run are completed first. */
  async close(): Promise<void> {
    const opened = this.#opened
    this.#opened = null
    if (!opened) return
    opened.isLeft = true
    if (opened.queries === 0) await opened.source.close()
  }

  #openOnce(): Promise<UsedSource> {
    this.#opening ??= this.#open()
      .then((source) => {
        this.#opened = { source, queries: 0, isLeft: false }
        return this.#opened
      })
      .finally(() => {
        this.#opening = null
      })
    return this.#opening
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
  return { single: store.single, close: () => store.close(), isStale }
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
  return {
    single: store.single,
    close: () => pool.close(),
    isStale: () => isStale,
    failed(error) {
      isStale ||= error instanceof PostgresError && error.code !== QUERY_CANCELED
    },
  }
}

/** SQLSTATE of a statement that has exceeded its time limit. */
export const QUERY_CANCELED = '57014'
