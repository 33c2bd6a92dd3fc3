/** The records in `control.db`. Several processes of a machine may use the file. */
import { chmodSync, existsSync, linkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeFolder } from '../../storage/files/folder.ts'
import { watchMoved } from '../../storage/files/opened-files.ts'
import { migrateSchema } from '../../storage/sql/migrate.ts'
import { SqliteStore } from '../../storage/sql/sqlite/store.ts'
import { CONTROL_FILE, isNamed, isPresent, NO_TABLES } from './read-accounts.ts'
import type { ControlTables } from './schema.ts'
import { CONTROL_SCHEMA, type ControlStorage } from './storage.ts'

/** ms to wait for another process. */
const BUSY = 2_000

/** Opens the file, or creates it with its schema. `isKnown`: it was there before, and a missing one is not created. */
export const openFileStorage = (folder: string, isKnown: boolean): ControlStorage => {
  const path = join(folder, CONTROL_FILE)
  // A folder that cannot be read has the problem with which the process began.
  if (isKnown && !isPresent(path)) throw new Error(LOST_FILE)
  makeFolder(folder)
  if (!existsSync(path)) create(path)
  const database = openFile(path)
  try {
    migrate(database)
  } catch (error) {
    database.close()
    throw error
  }
  const dataVersion = database.prepare('PRAGMA data_version')
  const settle = () => database.exec('PRAGMA wal_checkpoint(PASSIVE)')
  let isStored = isNamed(database)
  const store = new SqliteStore<ControlTables>(database)
  return {
    syntax: store.syntax,
    read: (run) => store.read(run),
    write: (run) => store.write(run),
    close: () => store.close(),
    isLost: watchMoved([path]),
    version: () => Number(dataVersion.get()?.data_version),
    name() {
      if (isStored) return
      database.exec('PRAGMA user_version = 1')
      settle()
      isStored = true
    },
    settle,
  }
}

/** The keys of the lost file stay valid in memory; a new, empty file would refuse them. */
const LOST_FILE = `${CONTROL_FILE} was deleted, moved or cannot be reached. Restore it, or restart the gateway`

const openFile = (path: string): DatabaseSync => {
  const database = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    database.exec(`PRAGMA busy_timeout = ${BUSY}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

const migrate = (database: DatabaseSync): void => {
  if (!database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'record'").get()) throw new Error(NO_TABLES)
  migrateSchema(database, CONTROL_SCHEMA)
}

/**
 * Creates the file under another name first: an existing file without tables is never one that was just created, but one
 * that has lost its keys, and filling it would open the gateway.
 */
const create = (path: string): void => {
  const draft = `${path}.${process.pid}.new`
  rmSync(draft, { force: true })
  const database = openFile(draft)
  try {
    migrateSchema(database, CONTROL_SCHEMA)
  } finally {
    // The last connection moves the log into the file.
    database.close()
  }
  try {
    linkSync(draft, path)
  } catch (error) {
    // Another process was faster.
    if (!existsSync(path)) throw error
  } finally {
    rmSync(draft, { force: true })
  }
}
