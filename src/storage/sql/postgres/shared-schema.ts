/** Opens a schema of the database that several gateways share, and migrates it. */
import { POSTGRES_TYPES } from '../column-types.ts'
import { checkReadable, type FoundVersion, missingStatements, READ_VERSION, type SchemaVersions } from '../migrate.ts'
import type { SharedDatabase } from '../shared-database.ts'
import { PostgresPool, type PostgresPoolOptions, type PostgresSession } from './pool.ts'

/** A schema in Postgres. */
export type SharedSchema = { readonly name: string; readonly versions: SchemaVersions }

/** `mayCreate`: whether a schema that is missing may be created; false where its loss would go unnoticed. */
export type SharedSchemaOptions = SharedSchema & { readonly mayCreate: boolean }

/** ms. `statement`: an index of a large table takes time. `lock`: for a table that is in use; those that wait for it wait too. */
const TIMES = { statement: 600_000, lock: 4_000 }

/**
 * Connects, and migrates the schema if `database.migrate` permits it. Throws with the remedy if it must be migrated first. The
 * caller closes the pool.
 */
export const openShared = async (
  { url, migrate }: SharedDatabase,
  { name, versions, mayCreate }: SharedSchemaOptions,
  options: Omit<PostgresPoolOptions, 'url' | 'schema'>,
): Promise<PostgresPool> => {
  const pool = new PostgresPool({ url, schema: name, ...options })
  try {
    const found = await sharedVersion(pool, versions)
    const needed = versions.migrations.length
    if (found !== null && found >= needed) return pool
    if (found === null && !mayCreate) throw new Error(`the schema ${name} is missing; restore a backup of it`)
    if (migrate === 'never') {
      const state = found === null ? 'does not exist' : `has version ${found} (needed: ${needed})`
      throw new Error(`the schema ${name} ${state}; run: headgate db migrate`)
    }
    await migrateShared(url, { name, versions })
    return pool
  } catch (error) {
    await pool.close()
    throw error
  }
}

/** Creates or upgrades a schema, in one transaction. Returns its version before; null: it did not exist. */
export const migrateShared = async (url: string, { name, versions }: SharedSchema): Promise<number | null> => {
  const options = { url, schema: name, max: 1, applicationName: 'headgate migrate', statementTimeout: TIMES.statement }
  const pool = new PostgresPool(options)
  try {
    return await pool.transaction(async (tx) => {
      // Two gateways must not create the same table at a time. It waits for a migration, and a migration for no other lock for long.
      await tx.query("SELECT pg_advisory_xact_lock(hashtext('headgate migrate'))")
      await tx.query(`SET LOCAL lock_timeout = ${TIMES.lock}`)
      const { rows } = await tx.query('SELECT to_regnamespace($1) IS NOT NULL AS found', [name])
      if (!rows[0]?.found) await tx.query(`CREATE SCHEMA IF NOT EXISTS ${name}`)
      const found = await versionIn(tx, name)
      checkReadable(found, versions, placeOf(name))
      for (const statement of missingStatements(found, versions, POSTGRES_TYPES)) await tx.query(statement)
      return found?.version ?? null
    })
  } finally {
    await pool.close()
  }
}

/** The version of the pool's schema; null: it does not exist. Throws if only a newer program can read it. */
export const sharedVersion = (pool: PostgresPool, versions: SchemaVersions): Promise<number | null> =>
  pool.transaction(async (tx) => {
    const found = await versionIn(tx, pool.schema)
    checkReadable(found, versions, placeOf(pool.schema))
    return found?.version ?? null
  })

const placeOf = (schema: string): string => `the schema ${schema}`

const versionIn = async (tx: PostgresSession, schema: string): Promise<FoundVersion | null> => {
  const { rows } = await tx.query('SELECT to_regclass($1) IS NOT NULL AS found', [`${schema}.schema_version`])
  if (!rows[0]?.found) return null
  const [row] = (await tx.query(READ_VERSION)).rows
  return row ? { version: Number(row.version), oldest_reader: Number(row.oldest_reader) } : null
}
