/** The records in a Postgres database that several gateways share. */
import { openShared } from '../sql/open-shared.ts'
import type { SharedControl } from './messages.ts'
import { lastSeq } from './read-accounts.ts'
import { CONTROL_NAME, CONTROL_SCHEMA, type ControlStorage } from './storage.ts'

/** Connects. If a schema that was there before is missing, its keys are lost: a new, empty one would open the gateway. */
export const openPostgresStorage = async (shared: SharedControl): Promise<ControlStorage> => {
  const schema = { name: CONTROL_NAME, versions: CONTROL_SCHEMA, mayCreate: !shared.isKnown }
  const database = await openShared(shared, schema)
  return { database, isLost: () => database.isLost, version: () => lastSeq(database) }
}
