/** `usage.db` for reading, without writing anything. Functions throw the error of SQLite or of the file system. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { dialectOf } from '../../sql/dialect.ts'
import { isReadable, migrateSchema } from '../../sql/migrate.ts'
import { watchMoved } from '../../sqlite/opened-files.ts'
import { USAGE_FILE, USAGE_SCHEMA, type UsageTables } from '../usage-schema.ts'
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
  /** For shared answers: past buckets of other queries. Null: everything is read. */
  readonly memory: BucketMemory | null
}

export class TooSlow extends Error {}

/** ms to wait for a lock, which readers need only while the file is created or recovered. */
const BUSY = 1_000
/** KiB of pages in memory. */
const CACHE = 32_768

/** Opens the file when it is needed, and again when another one has taken its place. */
export class UsageFile {
  readonly #folder: string
  #opened: { readonly database: DatabaseSync; readonly isStale: () => boolean } | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Runs queries on one state of the file, whatever is written meanwhile. */
  async read<T>(run: (db: Kysely<UsageTables>) => Promise<T>): Promise<T> {
    const database = await this.#open()
    database.exec('BEGIN')
    try {
      return await run(new Kysely<UsageTables>({ dialect: dialectOf(database) }))
    } finally {
      database.exec('ROLLBACK')
    }
  }

  close(): void {
    this.#opened?.database.close()
    this.#opened = null
  }

  async #open(): Promise<DatabaseSync> {
    if (this.#opened?.isStale()) this.close()
    if (this.#opened) return this.#opened.database
    const path = join(this.#folder, USAGE_FILE)
    const file = existsSync(path) ? openFile(path) : null
    // Nothing was recorded yet: an empty database until the file exists.
    const database = file ?? (await emptyDatabase())
    this.#opened = { database, isStale: file ? watchMoved([path]) : () => true }
    return database
  }
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

const emptyDatabase = async (): Promise<DatabaseSync> => {
  const database = new DatabaseSync(':memory:')
  await migrateSchema(database, USAGE_SCHEMA)
  return database
}
