/** What the engines of the database do differently. */
import type { DatabaseSync } from 'node:sqlite'
import type { PostgresDatabase } from '../postgres/database.ts'
import { CONTROL_FILE } from './read-accounts.ts'
import { CONTROL_MIGRATIONS } from './schema.ts'

/** An open database of either engine, with the newest schema. */
export type ControlStorage = {
  readonly database: DatabaseSync | PostgresDatabase
  /** Writes would fail or be lost: the database must be opened again. */
  readonly isLost: () => boolean
  /** Another number after changes of other connections. */
  readonly version: () => number
}

export const CONTROL_SCHEMA = { file: CONTROL_FILE, migrations: CONTROL_MIGRATIONS, oldestReader: 1 }

/** The name of the schema in Postgres. */
export const CONTROL_NAME = 'headgate_control'
