/** Reads a shared database for a program that may wait for it: the command line. */

import { isReadable } from '../../storage/sql/migrate.ts'
import { PostgresDatabase } from '../../storage/sql/postgres/database.ts'
import { storedAccounts } from './read-accounts.ts'
import type { StoredAccounts } from './record-operations.ts'
import { SHARED_CONTROL } from './storage.ts'

/** Returns all accounts, or null if there is no schema; creates nothing. Throws the error of Postgres. */
export const readSharedAccounts = (url: string): StoredAccounts | null => {
  const database = PostgresDatabase.open({ url, schema: SHARED_CONTROL.name })
  try {
    if (!isReadable(database, SHARED_CONTROL.versions)) return null
    database.exec('BEGIN')
    return storedAccounts(database)
  } finally {
    database.close()
  }
}
