/** The schemas of a shared database: their versions, their rows, and their migration. */
import { SHARED_LIMITS } from '../limits/postgres-schema.ts'
import { SHARED_NEWS } from '../news/news-schema.ts'
import { SHARED_CONTROL } from '../records/store/storage.ts'
import { SHARED_PASS } from '../storage/pass/pass-schema.ts'
import { SHARED_RESPONSES } from '../storage/responses/shared-schema.ts'
import { PostgresPool } from '../storage/sql/postgres/pool.ts'
import { PostgresError } from '../storage/sql/postgres/postgres-error.ts'
import { migrateShared, type SharedSchema, sharedVersion } from '../storage/sql/postgres/shared-schema.ts'
import { problemOf } from '../storage/sql/sqlite/sqlite-problem.ts'
import { Partitions } from '../usage/columns/partitions.ts'
import { SHARED_USAGE } from '../usage/columns/usage-schema.ts'

/** `rows`: a query for a name and a number of rows; null: they are not counted. */
const SCHEMAS: readonly (SharedSchema & { readonly rows: string | null })[] = [
  {
    ...SHARED_CONTROL,
    rows: "SELECT kind AS name, count(*) AS rows FROM record GROUP BY kind UNION ALL SELECT 'audit', count(*) FROM audit",
  },
  // Counting requests takes too long.
  { ...SHARED_USAGE, rows: null },
  { ...SHARED_LIMITS, rows: null },
  { ...SHARED_NEWS, rows: null },
  { ...SHARED_RESPONSES, rows: "SELECT 'response' AS name, count(*) AS rows FROM response" },
  {
    ...SHARED_PASS,
    rows: "SELECT 'object' AS name, count(*) AS rows FROM pass_object UNION ALL SELECT 'batch', count(*) FROM pass_batch",
  },
]

/** `version` null: the schema does not exist. `rows`: by kind of record; empty if they are not counted. */
export type SchemaState = {
  readonly schema: string
  readonly version: number | null
  readonly newest: number
  readonly rows: Readonly<Record<string, number>>
  readonly problem: string | null
}

const APPLICATION = 'headgate cli'

/** The state of each schema; a problem is part of it. */
export const schemaStates = (url: string): Promise<readonly SchemaState[]> =>
  Promise.all(
    SCHEMAS.map(async ({ name: schema, versions, rows }): Promise<SchemaState> => {
      const state = { schema, newest: versions.migrations.length, version: null, rows: {}, problem: null }
      let pool: PostgresPool | null = null
      try {
        pool = new PostgresPool({ url, schema, max: 1, applicationName: APPLICATION })
        const version = await sharedVersion(pool, versions)
        const counts = version === null || rows === null ? [] : (await pool.query(rows)).rows
        return {
          ...state,
          version,
          rows: Object.fromEntries(counts.map((row) => [String(row.name), Number(row.rows)])),
        }
      } catch (error) {
        return { ...state, problem: problemOf(error) }
      } finally {
        await pool?.close()
      }
    }),
  )

export type SchemaMigration = { readonly schema: string; readonly before: number | null; readonly version: number }

/** Creates or upgrades each schema. Throws the error of Postgres. */
export const migrateSchemas = async (url: string): Promise<readonly SchemaMigration[]> => {
  const done: SchemaMigration[] = []
  for (const { name: schema, versions } of SCHEMAS) {
    const before = await migrateShared(url, { name: schema, versions })
    if (schema === SHARED_USAGE.name) await makeDays(url, schema)
    done.push({ schema, before, version: Math.max(before ?? 0, versions.migrations.length) })
  }
  return done
}

/** Days that are made by the owner of the tables, for gateways that may not: run it at least as often. */
const DAYS = 62

const makeDays = async (url: string, schema: string): Promise<void> => {
  const pool = new PostgresPool({ url, schema, max: 1, applicationName: APPLICATION })
  try {
    await new Partitions(pool).makeAhead(Date.now(), DAYS)
  } finally {
    await pool.close()
  }
}

/** The database cannot be reached, or another process migrates it, which may pass: it is not an error of a statement. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof PostgresError && (error.isLost || error.code === '57014' || error.code === '55P03')
