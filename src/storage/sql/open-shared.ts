/** Opens a schema of the database that several gateways share. */

import { migrateSchema, readableVersion, type SchemaVersions } from './migrate.ts'
import { PostgresDatabase } from './postgres/database.ts'
import type { SharedDatabase } from './shared-database.ts'

/** A schema in Postgres. */
export type SharedSchema = { readonly name: string; readonly versions: SchemaVersions }

/**
 * Connects, and migrates the schema if `database.migrate` permits it. Throws with the remedy if it must be migrated first.
 * `mayCreate`: whether a schema that is missing may be created; false where its loss would go unnoticed.
 */
export const openShared = async (
  { url, migrate }: SharedDatabase,
  { name, versions, mayCreate }: SharedSchema & { readonly mayCreate: boolean },
): Promise<PostgresDatabase> => {
  const database = PostgresDatabase.open({ url, schema: name })
  try {
    const found = readableVersion(database, versions)
    const needed = versions.migrations.length
    if (found !== null && found >= needed) return database
    if (found === null && !mayCreate) throw new Error(`the schema ${name} is missing; restore a backup of it`)
    if (migrate === 'never') {
      const state = found === null ? 'does not exist' : `has version ${found} (needed: ${needed})`
      throw new Error(`the schema ${name} ${state}; run: headgate db migrate`)
    }
    await migrateSchema(database, versions)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}
