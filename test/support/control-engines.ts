/** The engines of the database of keys, so that one suite runs on each. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { CONTROL_FILE, readStoredAccounts } from '../../src/records/store/read-accounts.ts'
import { readSharedAccounts } from '../../src/records/store/read-shared.ts'
import type { ControlPlace, StoredAccounts } from '../../src/records/store/record-operations.ts'
import { SHARED_CONTROL } from '../../src/records/store/storage.ts'
import { PostgresDatabase } from '../../src/storage/sql/postgres/database.ts'
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
export const readPlace = ({ folder, database }: ControlPlace): StoredAccounts | null =>
  database ? readSharedAccounts(database.url) : readStoredAccounts(folder)

/** A connection beside those of the program. The caller closes it. */
export const connectTo = ({ folder, database }: ControlPlace): DatabaseSync | PostgresDatabase =>
  database
    ? PostgresDatabase.open({ url: database.url, schema: SHARED_CONTROL.name })
    : new DatabaseSync(join(folder, CONTROL_FILE))
