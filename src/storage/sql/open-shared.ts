/** Opens a schema of the database that several gateways share, for programs that wait for it. */
import { PostgresDatabase } from './postgres/database.ts'
import { openShared as openPool, type SharedSchemaOptions } from './postgres/shared-schema.ts'
import type { SharedDatabase } from './shared-database.ts'

/** See `openShared` of `postgres/shared-schema.ts`. */
export const openShared = async (shared: SharedDatabase, schema: SharedSchemaOptions): Promise<PostgresDatabase> => {
  const pool = await openPool(shared, schema, { max: 1, applicationName: 'headgate' })
  await pool.close()
  return PostgresDatabase.open({ url: shared.url, schema: schema.name })
}
