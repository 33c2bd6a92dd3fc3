/** The databases of the data folder: names, and the newest schema that this version can read. */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CONTROL_MIGRATIONS } from '../records/store/schema.ts'
import { PASS_FILE, PASS_SCHEMA } from '../storage/pass/pass-schema.ts'
import { schemaVersionOf } from '../storage/sql/sqlite/schema-version.ts'
import { USAGE_SCHEMA } from '../usage/columns/usage-schema.ts'

/**
 * `newest`: the schema version that this program writes; null: the file has none. `isShared`: with DATABASE_URL its content is
 * in Postgres, and a file that is present is not used.
 */
export const DATABASES: readonly {
  readonly file: string
  readonly newest: number | null
  readonly isShared: boolean
}[] = [
  { file: 'control.db', newest: CONTROL_MIGRATIONS.length, isShared: true },
  { file: 'usage.db', newest: USAGE_SCHEMA.migrations.length, isShared: true },
  { file: 'responses.db', newest: null, isShared: false },
  { file: PASS_FILE, newest: PASS_SCHEMA.migrations.length, isShared: true },
]

/** What an archive of a gateway with DATABASE_URL lacks. */
export const IN_POSTGRES = 'Keys, budgets and usage are in Postgres: back them up with pg_dump.'

export type DatabaseState = {
  readonly file: string
  readonly bytes: number
  readonly version: number | null
  readonly newest: number | null
  readonly problem: string | null
}

/** The databases that exist in a folder. */
export const databasesIn = (folder: string): readonly DatabaseState[] =>
  DATABASES.filter(({ file }) => existsSync(join(folder, file))).map(({ file, newest }) => {
    const path = join(folder, file)
    const state = { file, bytes: statSync(path).size, newest }
    try {
      const version = schemaVersionOf(path)
      const isNewer = version !== null && newest !== null && version > newest
      return { ...state, version, problem: isNewer ? 'was written by a newer version of Headgate' : null }
    } catch (error) {
      return { ...state, version: null, problem: error instanceof Error ? error.message : 'cannot be opened' }
    }
  })
