import { DatabaseSync } from 'node:sqlite'

/** How long a gateway that creates or migrates the database is waited for, in ms. */
const BUSY = 5_000

/** The schema version of a database file, read without changing it; null: the file has none. Throws if it is not a database. */
export const schemaVersionOf = (path: string): number | null => {
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY })
  try {
    const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'schema_version'").get()
    const row = table && database.prepare('SELECT version FROM schema_version').get()
    return row ? Number(row.version) : null
  } finally {
    database.close()
  }
}
