/**
 * The copy in the data folder of what a serving process needs from a shared database, for starts while Postgres cannot be
 * reached. It contains digests of keys and tokens, and no secret.
 */
import { hash } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StoredAccounts } from './record-operations.ts'
import { completed } from './records.ts'

/** The file's name in the data folder. */
export const SNAPSHOT_FILE = 'control-snapshot.json'
/**
 * A snapshot of another format is not read. Raise it when the types of the records change, save for a member whose schema has a
 * default; a test compares their members.
 */
const FORMAT = 1

/** Returns the snapshot of this database; null: there is none that can be read. */
export const readSnapshot = (folder: string, url: string): StoredAccounts | null => {
  try {
    const { format, database, stored } = JSON.parse(readFileSync(join(folder, SNAPSHOT_FILE), 'utf8'))
    return format === FORMAT && database !== null && database === identityOf(url)
      ? { ...stored, records: completed(stored.records) }
      : null
  } catch {
    return null
  }
}

/** Replaces the snapshot as a whole. Throws the error of the file system. */
export const writeSnapshot = (folder: string, url: string, stored: StoredAccounts): void => {
  const path = join(folder, SNAPSHOT_FILE)
  const draft = `${path}.${process.pid}-${crypto.randomUUID()}`
  try {
    const file = openSync(draft, 'wx', 0o600)
    try {
      writeFileSync(file, JSON.stringify({ format: FORMAT, database: identityOf(url), stored }))
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(draft, path)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

/** The same for one database, whatever the user and the password; null: the URL cannot be read. */
const identityOf = (url: string): string | null => {
  if (!URL.canParse(url)) return null
  const { hostname, port, pathname, searchParams } = new URL(url)
  const place = [hostname, port || '5432', pathname, searchParams.get('host'), searchParams.get('port')]
  return hash('sha256', JSON.stringify(place), 'hex')
}
