/** Reads a shared database for a program that may wait for it: the command line. */
import { PostgresDatabase } from '../postgres/database.ts'
import { isReadable } from '../sql/migrate.ts'
import type { StoredAccounts } from './messages.ts'
import { storedAccounts } from './read-accounts.ts'
import { CONTROL_NAME, CONTROL_SCHEMA } from './storage.ts'

/** Returns all accounts, or null if there is no schema; creates nothing. Throws the error of Postgres. */
export const readSharedAccounts = (url: string): StoredAccounts | null => {
  const database = PostgresDatabase.open({ url, schema: CONTROL_NAME })
  try {
    if (!isReadable(database, CONTROL_SCHEMA)) return null
    database.exec('BEGIN')
    return storedAccounts(database)
  } finally {
    database.close()
  }
}
