/** Reads a shared database for a program that may wait for it: the command line. */
import { isOldEnough } from '../../storage/sql/migrate.ts'
import { PostgresPool } from '../../storage/sql/postgres/pool.ts'
import { sharedVersion } from '../../storage/sql/postgres/shared-schema.ts'
import { PostgresStore } from '../../storage/sql/postgres/store.ts'
import { storedAccounts } from './read-changes.ts'
import type { StoredAccounts } from './record-operations.ts'
import type { ControlTables } from './schema.ts'
import { SHARED_CONTROL } from './storage.ts'

/** Returns all accounts, or null if there is no schema; creates nothing. Throws the error of Postgres. */
export const readSharedAccounts = async (url: string): Promise<StoredAccounts | null> => {
  const { name: schema, versions } = SHARED_CONTROL
  const pool = new PostgresPool({ url, schema, max: 1, applicationName: 'headgate cli' })
  try {
    if (!isOldEnough(await sharedVersion(pool, versions), versions)) return null
    const { stored } = await new PostgresStore<ControlTables>(pool).read(storedAccounts)
    return stored
  } finally {
    await pool.close()
  }
}
