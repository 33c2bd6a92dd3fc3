/** The records in Postgres. */
import { sql } from 'kysely'
import { SHARED_CONNECTIONS } from '../../storage/sql/postgres/connections.ts'
import { PostgresError } from '../../storage/sql/postgres/postgres-error.ts'
import { openShared } from '../../storage/sql/postgres/shared-schema.ts'
import { PostgresStore } from '../../storage/sql/postgres/store.ts'
import type { SharedControl } from './record-operations.ts'
import type { ControlTables } from './schema.ts'
import { type ControlStorage, SHARED_CONTROL } from './storage.ts'

/** The channel of notices about changes. */
export const CONTROL_CHANNEL = 'headgate_control'

/** A table or column is missing: the schema is another one now. */
const OTHER_SCHEMA = /^(?:3F000|42P01|42703)$/

/**
 * Connects. `isKnown`: it was there before; if it is missing, its keys are lost, and a new, empty one would open the gateway.
 * `onNotice`: there may be changes.
 */
export const openSharedStorage = async (
  shared: SharedControl,
  isKnown: boolean,
  onNotice: () => void,
): Promise<ControlStorage> => {
  const pool = await openShared(
    shared,
    { ...SHARED_CONTROL, mayCreate: !isKnown },
    { ...SHARED_CONNECTIONS, notices: { channels: [CONTROL_CHANNEL], onNotice } },
  )
  const store = new PostgresStore<ControlTables>(pool)
  let isLost = false
  const checked = async <T>(result: Promise<T>): Promise<T> => {
    try {
      return await result
    } catch (error) {
      isLost ||= error instanceof PostgresError && (error.isLost || OTHER_SCHEMA.test(error.code ?? ''))
      throw error
    }
  }
  return {
    syntax: store.syntax,
    read: (run) => checked(store.read(run)),
    write: (run) =>
      checked(
        store.write(async (db) => {
          await db.selectFrom('audit_range').select('id').forUpdate().execute()
          const result = await run(db)
          await sql`SELECT pg_notify(${CONTROL_CHANNEL}, '')`.execute(db)
          return result
        }),
      ),
    close: () => store.close(),
    isLost: () => isLost,
    version: () => null,
    name() {},
    settle() {},
  }
}
