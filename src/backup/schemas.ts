/** The schemas of a shared database: their versions, their rows, and their migration. */
import { SHARED_NEWS } from '../news/news-schema.ts'
import { SHARED_CONTROL } from '../records/store/storage.ts'
import { migrateSchema, readableVersion } from '../storage/sql/migrate.ts'
import type { SharedSchema } from '../storage/sql/open-shared.ts'
import { PostgresDatabase } from '../storage/sql/postgres/database.ts'
import { PostgresError } from '../storage/sql/postgres/postgres-error.ts'
import { problemOf } from '../storage/sql/sqlite/sqlite-problem.ts'
import { SHARED_USAGE } from '../usage/columns/usage-schema.ts'

/** `rows`: a query for a name and a number of rows; null: they are not counted. */
const SCHEMAS: readonly (SharedSchema & { readonly rows: string | null })[] = [
  {
    ...SHARED_CONTROL,
    rows: "SELECT kind AS name, count(*) AS rows FROM record GROUP BY kind UNION ALL SELECT 'audit', count(*) FROM audit",
  },
  // Counting requests takes too long.
  { ...SHARED_USAGE, rows: null },
  { ...SHARED_NEWS, rows: null },
]

/** `version` null: the schema does not exist. `rows`: by kind of record; empty if they are not counted. */
export type SchemaState = {
  readonly schema: string
  readonly version: number | null
  readonly newest: number
  readonly rows: Readonly<Record<string, number>>
  readonly problem: string | null
}

const inSchema = async <T>(url: string, schema: string, run: (database: PostgresDatabase) => T | Promise<T>) => {
  const database = PostgresDatabase.open({ url, schema })
  try {
    return await run(database)
  } finally {
    database.close()
  }
}

/** The state of each schema; a problem is part of it. */
export const schemaStates = (url: string): Promise<readonly SchemaState[]> =>
  Promise.all(
    SCHEMAS.map(async ({ name: schema, versions, rows }): Promise<SchemaState> => {
      const state = { schema, newest: versions.migrations.length, version: null, rows: {}, problem: null }
      try {
        return await inSchema(url, schema, (database) => {
          const version = readableVersion(database, versions)
          const counts = version === null || rows === null ? [] : database.prepare(rows).all()
          return {
            ...state,
            version,
            rows: Object.fromEntries(counts.map((row) => [String(row.name), Number(row.rows)])),
          }
        })
      } catch (error) {
        return { ...state, problem: problemOf(error) }
      }
    }),
  )

export type SchemaMigration = { readonly schema: string; readonly before: number | null; readonly version: number }

/** Creates or upgrades each schema. Throws the error of Postgres. */
export const migrateSchemas = async (url: string): Promise<readonly SchemaMigration[]> => {
  const done: SchemaMigration[] = []
  for (const { name: schema, versions } of SCHEMAS)
    done.push(
      await inSchema(url, schema, async (database) => {
        const before = readableVersion(database, versions)
        await migrateSchema(database, versions)
        return { schema, before, version: readableVersion(database, versions) ?? 0 }
      }),
    )
  return done
}

/** The database cannot be reached, or another process migrates it, which may pass: it is not an error of a statement. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof PostgresError && (error.isLost || error.code === '57014')
