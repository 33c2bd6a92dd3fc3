/**
 * Schema migrations of a SQLite file or a Postgres schema. The table `schema_version` contains the version of the schema and
 * the oldest version of the program that can use it, so that an older program still runs after an additive migration.
 */
import type { DatabaseSync } from 'node:sqlite'
import { SQLITE_TYPES, type SqlTypes } from './column-types.ts'
import { inTransaction } from './transaction.ts'

/** The statements of a migration. */
export type Migration = (types: SqlTypes) => readonly string[]

/** Migrations in order; the first is version 1. `oldestReader`: the oldest version of this list that can use the last schema. */
export type SchemaVersions = {
  /** The name of the file, for messages. */
  readonly file: string
  readonly migrations: readonly Migration[]
  readonly oldestReader: number
  /** The oldest schema that this program reads without upgrading it; by default `oldestReader`. */
  readonly read?: number
}

/** The version of a schema that exists, and the oldest version that can use it. */
export type FoundVersion = { readonly version: number; readonly oldest_reader: number }

export const READ_VERSION = 'SELECT version, oldest_reader FROM schema_version'

/** The statements that bring a schema to the newest version. None: it has it. */
export const missingStatements = (
  found: FoundVersion | null,
  { migrations, oldestReader }: SchemaVersions,
  types: SqlTypes,
): readonly string[] => {
  const newest = migrations.length
  if (found && found.version >= newest) return []
  return [
    ...migrations.slice(found?.version ?? 0).flatMap((migration) => migration(types)),
    `CREATE TABLE IF NOT EXISTS schema_version (id ${types.integer} PRIMARY KEY CHECK (id = 1), version ${types.integer} NOT NULL,
      oldest_reader ${types.integer} NOT NULL)`,
    `INSERT INTO schema_version VALUES (1, ${newest}, ${oldestReader})
      ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest_reader = excluded.oldest_reader`,
  ]
}

/** Throws if only a newer program can read the schema. `place`: the file or the schema, for the message. */
export const checkReadable = (found: FoundVersion | null, { migrations }: SchemaVersions, place: string): void => {
  if (found && found.oldest_reader > migrations.length)
    throw new Error(
      `${place} was written by a newer version of Headgate (schema version ${found.version}, supported: ${migrations.length})`,
    )
}

/** Whether this program can read a schema of this version without upgrading it. */
export const isOldEnough = (version: number | null, versions: SchemaVersions): boolean =>
  (version ?? -1) >= (versions.read ?? versions.oldestReader)

/** Brings the schema of a file to the newest version, in one transaction. Throws if a newer program has made it unreadable for this one. */
export const migrateSchema = (database: DatabaseSync, versions: SchemaVersions): void => {
  if ((readableVersion(database, versions) ?? 0) >= versions.migrations.length) return
  inTransaction(database, () => {
    // Another process may have been faster.
    for (const statement of missingStatements(versionOf(database), versions, SQLITE_TYPES)) database.exec(statement)
  })
}

/** The version of the schema; null: it has none. Throws if only a newer program can read it. */
export const readableVersion = (database: DatabaseSync, versions: SchemaVersions): number | null => {
  const found = versionOf(database)
  checkReadable(found, versions, versions.file)
  return found?.version ?? null
}

/** Whether there is a schema that this program can read. Throws if only a newer one can. */
export const isReadable = (database: DatabaseSync, versions: SchemaVersions): boolean =>
  isOldEnough(readableVersion(database, versions), versions)

const versionOf = (database: DatabaseSync): FoundVersion | null => {
  if (!hasTable(database, 'schema_version')) return null
  const row = database.prepare(READ_VERSION).get()
  return row ? { version: Number(row.version), oldest_reader: Number(row.oldest_reader) } : null
}

export const hasTable = (database: DatabaseSync, name: string): boolean =>
  database.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(name) !== undefined
