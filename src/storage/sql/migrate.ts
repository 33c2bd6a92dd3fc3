/**
 * Schema migrations of a SQLite file or a Postgres schema. The table `schema_version` contains the version of the schema and
 * the oldest version of the program that can use it, so that an older program still runs after an additive migration.
 */
import type { DatabaseSync } from 'node:sqlite'
import { Kysely, PostgresAdapter, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { dialectOf } from './dialect.ts'
import { PostgresDatabase } from './postgres/database.ts'
import { FUNCTIONS, withTypes } from './postgres/translate.ts'
import { inTransaction } from './transaction.ts'

/** Migrations in order; the first is version 1. `oldestReader`: the oldest version of this list that can use the last schema. */
export type SchemaVersions = {
  /** The name of the file, for messages. */
  readonly file: string
  readonly migrations: readonly Migration[]
  readonly oldestReader: number
  /** The oldest schema that this program reads without upgrading it; by default `oldestReader`. */
  readonly read?: number
}

type SchemaVersionTable = {
  readonly schema_version: { readonly id: number; readonly version: number; readonly oldest_reader: number }
}

const CREATE_VERSION = `CREATE TABLE IF NOT EXISTS schema_version
  (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, oldest_reader INTEGER NOT NULL)`

/** Brings the schema to the newest version, in one transaction. Throws if a newer program has made it unreadable for this one. */
export const migrateSchema = async (
  database: DatabaseSync | PostgresDatabase,
  versions: SchemaVersions,
): Promise<void> => {
  const { migrations, oldestReader } = versions
  const newest = migrations.length
  const found = readableVersion(database, versions)
  if (found !== null && found >= newest) return
  const db = new Kysely<SchemaVersionTable>({ dialect: dialectOf(database) })
  const provider = { getMigrations: async () => Object.fromEntries(migrations.map(numbered)) }
  const { error } = await new Migrator({ db, provider, ...prepared(database) }).migrateToLatest()
  if (error) throw error
  // Two gateways that create the same table at a time fail in Postgres.
  inTransaction(database, () => database.exec(CREATE_VERSION))
  const values = { version: newest, oldest_reader: oldestReader }
  await db
    .insertInto('schema_version')
    .values({ id: 1, ...values })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(values))
    .execute()
}

/** The version of the schema; null: it has none. Throws if only a newer program can read it. */
export const readableVersion = (
  database: DatabaseSync | PostgresDatabase,
  { file, migrations }: SchemaVersions,
): number | null => {
  const found = versionOf(database)
  if (found && found.oldest_reader > migrations.length)
    throw new Error(
      `${database instanceof PostgresDatabase ? `the schema ${database.schema}` : file} was written by a newer version of Headgate (schema version ${found.version}, supported: ${migrations.length})`,
    )
  return found?.version ?? null
}

/** Whether there is a schema that this program can read. Throws if only a newer one can. */
export const isReadable = (database: DatabaseSync | PostgresDatabase, versions: SchemaVersions): boolean =>
  (readableVersion(database, versions) ?? -1) >= (versions.read ?? versions.oldestReader)

/** A migration of statements as SQLite understands them. */
export const migrationOf = (statements: readonly string[]): Migration => ({
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
    for (const statement of statements) await sql.raw(isPostgres ? withTypes(statement) : statement).execute(db)
  },
})

/** Runs statements that create tables or views, with types as SQLite names them. */
export const createTables = (database: DatabaseSync | PostgresDatabase, statements: string): void =>
  database.exec(database instanceof PostgresDatabase ? withTypes(statements) : statements)

/** Creates a Postgres schema, with the functions that queries use. Returns options of the migrator. */
const prepared = (database: DatabaseSync | PostgresDatabase): { readonly migrationTableSchema?: string } => {
  if (!(database instanceof PostgresDatabase)) return {}
  const { schema } = database
  const isPresent = database.query('SELECT to_regnamespace($1) AS found', [schema]).rows[0]?.found !== null
  // One message is one transaction. Two gateways must not create the same function at a time.
  database.exec(
    [
      "SELECT pg_advisory_xact_lock(hashtext('headgate migrate'))",
      ...(isPresent ? [] : [`CREATE SCHEMA IF NOT EXISTS ${schema}`]),
      ...FUNCTIONS,
    ].join(';\n'),
  )
  return { migrationTableSchema: schema }
}

/** Names in the order of their numbers. */
const numbered = (migration: Migration, index: number): readonly [string, Migration] => [
  String(index + 1).padStart(4, '0'),
  migration,
]

const versionOf = (
  database: DatabaseSync | PostgresDatabase,
): { readonly version: number; readonly oldest_reader: number } | null => {
  if (!hasTable(database, 'schema_version')) return null
  const row = database.prepare('SELECT version, oldest_reader FROM schema_version').get()
  return row ? { version: Number(row.version), oldest_reader: Number(row.oldest_reader) } : null
}

export const hasTable = (database: DatabaseSync | PostgresDatabase, name: string): boolean =>
  database instanceof PostgresDatabase
    ? database.query('SELECT to_regclass($1) AS found', [`${database.schema}.${name}`]).rows[0]?.found !== null
    : database.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(name) !== undefined
