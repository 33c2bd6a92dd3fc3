/** The records in a Postgres database that several gateways share. */
import { PostgresDatabase } from '../postgres/database.ts'
import { migrateSchema, readableVersion } from '../sql/migrate.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import { lastSeq } from './read-accounts.ts'
import { CONTROL_NAME, CONTROL_SCHEMA, type ControlStorage } from './storage.ts'

/** Connects, and creates or upgrades the schema if that is permitted. */
export const openPostgresStorage = async ({ url, migrate }: SharedDatabase): Promise<ControlStorage> => {
  const database = PostgresDatabase.open({ url, schema: CONTROL_NAME })
  try {
    if (migrate === 'auto') await migrateSchema(database, CONTROL_SCHEMA)
    else checkSchema(database)
  } catch (error) {
    database.close()
    throw error
  }
  return { database, isLost: () => database.isLost, version: () => lastSeq(database) }
}

const checkSchema = (database: PostgresDatabase): void => {
  const version = readableVersion(database, CONTROL_SCHEMA)
  const newest = CONTROL_SCHEMA.migrations.length
  if (version !== null && version >= newest) return
  const found = version === null ? 'does not exist' : `has version ${version} (required: ${newest})`
  throw new Error(`the schema ${CONTROL_NAME} ${found}, and database.migrate is never. Run \`headgate db migrate\``)
}
