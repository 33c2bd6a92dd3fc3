/** What the engines of the database do differently. */
import type { DatabaseSync } from 'node:sqlite'
import type { SharedSchema } from '../../storage/sql/open-shared.ts'
import type { PostgresDatabase } from '../../storage/sql/postgres/database.ts'
import { CONTROL_FILE } from './read-accounts.ts'
import { CONTROL_MIGRATIONS } from './schema.ts'

/** An open database of either engine, with the newest schema. */
export type ControlStorage = {
  readonly database: DatabaseSync | PostgresDatabase
  /** Writes would fail or be lost: the database must be opened again. */
  readonly isLost: () => boolean
  /** Another number after changes of other connections. */
  readonly version: () => number
  /** Remembers that a key, team, budget or token was stored; see `isNamed`. A shared database is named by its URL. */
  readonly name: () => void
  /** Moves changes into the main file, so that a copy without its log has them. */
  readonly settle: () => void
}

export const CONTROL_SCHEMA = { file: CONTROL_FILE, migrations: CONTROL_MIGRATIONS, oldestReader: 1 }

export const SHARED_CONTROL: SharedSchema = { name: 'headgate_control', versions: CONTROL_SCHEMA }
