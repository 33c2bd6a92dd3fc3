/**
 * Reads `control.db` for the start of a process: with `node:sqlite` alone, because kysely takes longer to load than all
 * rows take to read.
 */
import { lstatSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { type AccountRecords, NO_ACCOUNTS } from '../../core/accounts.ts'
import type { ControlPlace, Decision, StoredAccounts } from './record-operations.ts'
import { recordsOf } from './records.ts'
import type { RecordRow, SecretRow } from './schema.ts'
import { readSnapshot, SNAPSHOT_FILE } from './snapshot.ts'

/** The file's name in the data folder. */
export const CONTROL_FILE = 'control.db'

/** The number of migrations in `schema.ts`, which is not loaded here; a test compares them. */
export const SCHEMA_VERSION = 5

/** The problem of a file that has lost its contents. */
export const NO_TABLES = `${CONTROL_FILE} contains no tables. Restore a backup, or delete the file`

/** ms to wait for another process. */
const BUSY = 500

/** Whether a path leads to something. Throws the error of the file system if that cannot be found out. */
export const isPresent = (path: string): boolean => {
  // `existsSync` is false for a folder that may not be read, too.
  if (statSync(path, { throwIfNoEntry: false })) return true
  if (lstatSync(path, { throwIfNoEntry: false }))
    throw new Error('a symbolic link to the data folder or its database leads nowhere')
  return false
}

/**
 * Whether there certainly is no database. Throws if one is missing that was there: the gateway must not take it for one that
 * never had a key.
 */
const isAbsent = (folder: string): boolean => {
  for (let above = folder; !isPresent(above) && above !== dirname(above); ) above = dirname(above)
  if (isPresent(join(folder, CONTROL_FILE))) return false
  if (isPresent(join(folder, `${CONTROL_FILE}-wal`))) throw new Error(MISSING_MAIN)
  if (isPresent(join(folder, SNAPSHOT_FILE))) throw new Error(NO_SHARED)
  return true
}

const MISSING_MAIN = `${CONTROL_FILE} is missing beside its log ${CONTROL_FILE}-wal. Restore a backup`
const NO_SHARED = `the keys are in a shared database (${SNAPSHOT_FILE}), and DATABASE_URL is not set. Set it; to begin without them, delete ${SNAPSHOT_FILE}`

/**
 * Returns all accounts, or null if there is no file; creates nothing. Throws the error of SQLite or of the file system if
 * the file cannot be read, or if it cannot be found out whether there is one.
 */
export const readStoredAccounts = (folder: string): StoredAccounts | null => {
  if (isAbsent(folder)) return null
  const path = join(folder, CONTROL_FILE)
  // Loaded only if there is a database.
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY })
  try {
    checkVersion(database)
    database.exec('BEGIN')
    return { ...storedAccounts(database), isNamed: isNamed(database) }
  } finally {
    database.close()
  }
}

/** What can be read without waiting for a network: the file, or the snapshot of a shared database. Null: there is none. */
export const readAtStart = ({ folder, database }: ControlPlace): StoredAccounts | null =>
  database ? readSnapshot(folder, database.url) : readStoredAccounts(folder)

/** The records that can be read at the start: empty without a file, null if they are unknown. */
export const recordsAtStart = (
  place: ControlPlace,
  read: (place: ControlPlace) => StoredAccounts | null = readAtStart,
): AccountRecords | null => {
  try {
    return read(place)?.records ?? (place.database ? null : NO_ACCOUNTS)
  } catch {
    return null
  }
}

/** Whether a key, team, budget or token was ever stored in the file. Budgets leave no row when they are deleted. */
export const isNamed = (database: DatabaseSync): boolean =>
  Number(database.prepare('PRAGMA user_version').get()?.user_version) > 0

const checkVersion = (database: DatabaseSync): void => {
  const row = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'schema_version'").get()
  if (!row) throw new Error(NO_TABLES)
  const version = database.prepare('SELECT version, oldest_reader FROM schema_version').get()
  if (Number(version?.oldest_reader) > SCHEMA_VERSION)
    throw new Error(
      `${CONTROL_FILE} was written by a newer version of Headgate (schema version ${version?.version}, supported: ${SCHEMA_VERSION})`,
    )
}

/** All accounts. In a transaction, so that `seq` belongs to the rows. */
const storedAccounts = (database: DatabaseSync): StoredAccounts => {
  // The columns are those of the tables.
  const rows = database.prepare('SELECT * FROM record').all() as RecordRow[]
  const secrets = database.prepare('SELECT * FROM secret').all() as SecretRow[]
  const decisions = database.prepare('SELECT kind, id, state, until, reason FROM decision').all() as Decision[]
  const seq = Number(database.prepare('SELECT coalesce(max(seq), 0) AS seq FROM change').get()?.seq)
  return { seq, ...recordsOf(rows, secrets), decisions }
}
