/** The engines of the database of keys, so that one suite runs on each. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { CONTROL_FILE, readStoredAccounts } from '../../src/records/store/read-accounts.ts'
import { readSharedAccounts } from '../../src/records/store/read-shared.ts'
import type { ControlPlace, StoredAccounts } from '../../src/records/store/record-operations.ts'
import { SHARED_CONTROL } from '../../src/records/store/storage.ts'
import { PostgresPool } from '../../src/storage/sql/postgres/pool.ts'
import { type PostgresServer, skipPostgres, startPostgres } from './postgres.ts'

/** An engine that was started. */
export type ControlEngine = {
  /** A place without a database. */
  readonly newPlace: (folder: string) => ControlPlace
  readonly remove: () => Promise<void>
}

export const CONTROL_ENGINES: readonly {
  readonly name: string
  readonly skip: string | false
  readonly start: () => Promise<ControlEngine>
}[] = [
  {
    name: 'SQLite',
    skip: false,
    start: async () => ({ newPlace: (folder) => ({ folder, database: null }), remove: async () => {} }),
  },
  {
    name: 'Postgres',
    skip: skipPostgres,
    start: async () => {
      const server: PostgresServer = await startPostgres()
      return {
        newPlace: (folder) => ({
          folder,
          database: { url: server.newDatabase(), migrate: 'auto', snapshot: false },
        }),
        remove: () => server.remove(),
      }
    },
  },
]

/** What the database contains; null: there is none. */
export const readPlace = async ({ folder, database }: ControlPlace): Promise<StoredAccounts | null> =>
  database ? readSharedAccounts(database.url) : readStoredAccounts(folder)

/** A connection beside those of the program. */
export type OutsideConnection = {
  readonly rows: (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>
  /** Runs statements in one transaction. */
  readonly run: (sql: string) => Promise<void>
  readonly close: () => Promise<void>
}

export const connectTo = ({ folder, database }: ControlPlace): OutsideConnection => {
  if (database) {
    const pool = new PostgresPool({ url: database.url, schema: SHARED_CONTROL.name, max: 1, applicationName: 'test' })
    return {
      rows: async (sql) => (await pool.query(sql)).rows,
      run: async (sql) => void (await pool.query(sql)),
      close: () => pool.close(),
    }
  }
  const file = new DatabaseSync(join(folder, CONTROL_FILE))
  return {
    rows: async (sql) => file.prepare(sql).all(),
    run: async (sql) => file.exec(`BEGIN IMMEDIATE; ${sql}; COMMIT`),
    close: async () => file.close(),
  }
}
