import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { hasTable } from '../../storage/sql/migrate.ts'
import type { JournalRow } from '../columns/usage-schema.ts'
import { USAGE_FILE } from '../journal/file.ts'

/**
 * Positions up to which `usage.db` contains the segments of a journal. Records that are stored there are not stored again in
 * a shared database.
 */
export const positionsInFile = (folder: string): readonly JournalRow[] => {
  const path = join(folder, USAGE_FILE)
  if (!existsSync(path)) return []
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    if (!hasTable(database, 'journal')) return []
    const rows = database.prepare('SELECT segment, position, malformed FROM journal').all()
    // Only the ledger writes the table.
    return rows as JournalRow[]
  } finally {
    database.close()
  }
}
