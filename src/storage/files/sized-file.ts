/** SQLite files with a maximum size. Functions throw the error of SQLite or of the file system. */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { migrateSchema, type SchemaVersions } from '../sql/migrate.ts'
import { makeFolder } from './folder.ts'
import { watchMoved } from './opened-files.ts'

/** `moved`: whether the path no longer leads to the open file. */
export type SizedFile = {
  readonly database: DatabaseSync
  readonly moved: () => boolean
  /** Bytes of pages in use, and number of free pages. */
  readonly size: () => { readonly used: number; readonly free: number }
}

/** ms to wait for another process: while opening, and in a transaction. */
const BUSY = 2_000

/**
 * Opens the file of a schema in a folder; both are created if missing. Returns what `use` makes of it, which may throw.
 * `logPages`: pages of the log, of 4 KB, at which SQLite moves it into the file.
 */
export const openSizedFile = async <T>(
  folder: string,
  schema: SchemaVersions,
  logPages: number,
  use: (file: SizedFile) => T,
): Promise<T> => {
  makeFolder(folder)
  const path = join(folder, schema.file)
  const database = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    // SQLite applies auto_vacuum only before the first table.
    database.exec(`PRAGMA busy_timeout = ${BUSY}; PRAGMA auto_vacuum = INCREMENTAL;
      PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${logPages}`)
    migrateSchema(database, schema)
    const pages = database.prepare(
      'SELECT page_count pages, freelist_count free, page_size size FROM pragma_page_count, pragma_freelist_count, pragma_page_size',
    )
    const size = () => {
      const row = pages.get()
      const free = Number(row?.free)
      return { used: (Number(row?.pages) - free) * Number(row?.size), free }
    }
    return use({ database, moved: watchMoved([path]), size })
  } catch (error) {
    database.close()
    throw error
  }
}
