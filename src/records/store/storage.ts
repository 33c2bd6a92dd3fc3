/** What the engines of the database do differently. */
import type { Kysely } from 'kysely'
import type { SharedSchema } from '../../storage/sql/postgres/shared-schema.ts'
import type { SqlStore } from '../../storage/sql/store.ts'
import { CONTROL_FILE } from './read-accounts.ts'
import { CONTROL_MIGRATIONS, type ControlTables } from './schema.ts'

/** An open database of either engine, with the newest schema. */
export type ControlStorage = Pick<SqlStore<ControlTables>, 'syntax' | 'read' | 'close'> & {
  /**
   * Runs a function in a transaction. Those of all processes run one after the other: numbers of changes and of audit rows are
   * committed in their order. Others that look for changes are woken.
   */
  readonly write: <T>(run: (db: Kysely<ControlTables>) => Promise<T>) => Promise<T>
  /** Writes would fail or be lost: the database must be opened again. */
  readonly isLost: () => boolean
  /** Another number after changes of other connections; null: unknown. */
  readonly version: () => number | null
  /** Remembers that a key, team, budget or token was stored; see `isNamed`. A shared database is named by its URL. */
  readonly name: () => void
  /** Moves changes into the main file, so that a copy without its log has them. */
  readonly settle: () => void
}

export const CONTROL_SCHEMA = { file: CONTROL_FILE, migrations: CONTROL_MIGRATIONS, oldestReader: 1 }

export const SHARED_CONTROL: SharedSchema = { name: 'headgate_control', versions: CONTROL_SCHEMA }
