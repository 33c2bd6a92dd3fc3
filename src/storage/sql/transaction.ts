import type { DatabaseSync } from 'node:sqlite'

/** Runs a function in one transaction, which is rolled back if it throws. */
export const inTransaction = <T>(database: DatabaseSync, run: () => T): T => {
  database.exec('BEGIN IMMEDIATE')
  try {
    const result = run()
    database.exec('COMMIT')
    return result
  } catch (error) {
    // On a full disk SQLite has rolled back already; another rollback would replace that error.
    if (database.isTransaction) database.exec('ROLLBACK')
    throw error
  }
}
