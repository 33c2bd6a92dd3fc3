/**
 * Schema migrations of a SQLite file. The table `schema_version` contains the version of the schema and the oldest version
 * of the program that can use it, so that an older program still runs after an additive migration.
 */
import type { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { nodeSqliteDialect } from './dialect.ts'

/** Migrations in order; the first is version 1. `oldestReader`: the oldest version of this list that can use the last schema. */
export type SchemaVersions = {
  /** The file's name, for messages. */
  readonly file: string
  readonly migrations: readonly Migration[]
  readonly oldestReader: number
}

type SchemaVersionTable = {
  readonly schema_version: { readonly id: number; readonly version: number; readonly oldest_reader: number }
}

const CREATE_VERSION = `CREATE TABLE IF NOT EXISTS schema_version
  (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, oldest_reader INTEGER NOT NULL)`

/** Brings the schema to the newest version, in one transaction. Throws if a newer program has made it unreadable for this one. */
export const migrateSchema = async (
  database: DatabaseSync,
  { file, migrations, oldestReader }: SchemaVersions,
): Promise<void> => {
  const newest = migrations.length
  const found = versionOf(database)
  if (found && found.oldest_reader > newest) throw newer(file, found.version, newest)
  if (found && found.version >= newest) return
  const db = new Kysely<SchemaVersionTable>({ dialect: nodeSqliteDialect(database) })
  const provider = { getMigrations: async () => Object.fromEntries(migrations.map(numbered)) }
  const { error } = await new Migrator({ db, provider }).migrateToLatest()
  if (error) throw error
  database.exec(CREATE_VERSION)
  const row = { id: 1, version: newest, oldest_reader: oldestReader }
  await db.replaceInto('schema_version').values(row).execute()
}

/** Whether the file has a schema that this program can read. Throws if only a newer one can. */
export const isReadable = (database: DatabaseSync, { file, migrations, oldestReader }: SchemaVersions): boolean => {
  const found = versionOf(database)
  if (found && found.oldest_reader > migrations.length) throw newer(file, found.version, migrations.length)
  return found !== null && found.version >= oldestReader
}

const newer = (file: string, found: number, supported: number): Error =>
  new Error(`${file} was written by a newer version of Headgate (schema version ${found}, supported: ${supported})`)

/** Names in the order of their numbers. */
const numbered = (migration: Migration, index: number): readonly [string, Migration] => [
  String(index + 1).padStart(4, '0'),
  migration,
]

const versionOf = (database: DatabaseSync): { readonly version: number; readonly oldest_reader: number } | null => {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'schema_version'").get()
  if (!table) return null
  const row = database.prepare('SELECT version, oldest_reader FROM schema_version').get()
  return row ? { version: Number(row.version), oldest_reader: Number(row.oldest_reader) } : null
}
