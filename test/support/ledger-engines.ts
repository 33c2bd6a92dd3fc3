/** The engines of the ledger, for suites that run on each: SQLite, and a Postgres server of its own for the test file. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe } from 'node:test'
import { PostgresDatabase } from '../../src/storage/sql/postgres/database.ts'
import type { SharedDatabase } from '../../src/storage/sql/shared-database.ts'
import { SHARED_USAGE } from '../../src/usage/columns/usage-schema.ts'
import { USAGE_FILE } from '../../src/usage/journal/file.ts'
import { type PostgresServer, skipPostgres, startPostgres } from './postgres.ts'

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

const rowsOf = (database: DatabaseSync | PostgresDatabase) => (sql: string) =>
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
    let reader: PostgresDatabase | null = null
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
        if (reader?.isLost === false) {
          try {
            reader.exec('SELECT 1')
          } catch {
            // The server was started again, or the database was made empty.
          }
        }
        if (reader?.isLost !== false) reader = PostgresDatabase.open({ url: running().url, schema: SHARED_USAGE.name })
        return read(rowsOf(reader))
      },
      server: running,
    })
  })
}

const failed = (): never => {
  throw new Error('the server has not started')
}
