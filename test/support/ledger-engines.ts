/** The engines of the ledger, for suites that run on each: SQLite, and a Postgres server of its own for the test file. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe } from 'node:test'
import type { SharedDatabase } from '../../src/storage/sql/shared-database.ts'
import { SHARED_USAGE } from '../../src/usage/columns/usage-schema.ts'
import { USAGE_FILE } from '../../src/usage/journal/file.ts'
import { type PostgresServer, skipPostgres, startPostgres } from './postgres.ts'
import { openPostgresRows, type PostgresRows } from './postgres-rows.ts'

export type StoredRow = Readonly<Record<string, unknown>>

export type LedgerEngine = {
  readonly name: 'SQLite' | 'Postgres'
  /** The option of bookkeepers and readers. */
  readonly database: () => SharedDatabase | null
  /** Makes the shared database empty. The next connections see it. */
  readonly clear: () => void
  /** Reads, or writes rows of a test, with plain SQL as another process does. */
  readonly reading: <T>(folder: string, read: (all: (sql: string) => readonly StoredRow[]) => T) => T
  /** The server of Postgres. */
  readonly server: () => PostgresServer
}

const rowsOf = (database: DatabaseSync) => (sql: string) =>
  database
    .prepare(sql)
    .all()
    .map((row) => ({ ...row }))

export const SQLITE: LedgerEngine = {
  name: 'SQLite',
  database: () => null,
  clear() {},
  reading(folder, read) {
    const database = new DatabaseSync(join(folder, USAGE_FILE))
    try {
      return read(rowsOf(database))
    } finally {
      database.close()
    }
  },
  server: () => {
    throw new Error('SQLite has no server')
  },
}

/** Runs a suite on each engine. */
export const onEachEngine = (suite: (engine: LedgerEngine) => void): void => {
  describe('SQLite', () => suite(SQLITE))
  onPostgres(suite)
}

/** Runs a suite on Postgres. */
export const onPostgres = (suite: (engine: LedgerEngine) => void): void => {
  describe('Postgres', { skip: skipPostgres }, () => {
    let server: PostgresServer | undefined
    let reader: PostgresRows | null = null
    const running = () => server ?? failed()
    before(async () => {
      server = await startPostgres()
    })
    after(async () => {
      reader?.close()
      await server?.remove()
    })
    suite({
      name: 'Postgres',
      database: () => ({ url: running().url, migrate: 'auto' }),
      clear: () => running().recreate(),
      reading(_, read) {
        try {
          reader?.all('SELECT 1')
        } catch {
          // The server was started again, or the database was made empty.
          reader?.close()
          reader = null
        }
        reader ??= openPostgresRows(running().url, SHARED_USAGE.name)
        return read(reader.all)
      },
      server: running,
    })
  })
}

const failed = (): never => {
  throw new Error('the server has not started')
}
