/** The records in a Postgres database that several gateways share. */
import { openShared } from '../../storage/sql/open-shared.ts'
import type { SharedControl } from './messages.ts'
import { lastSeq } from './read-accounts.ts'
import { type ControlStorage, SHARED_CONTROL } from './storage.ts'

/** Connects. If a schema that was there before is missing, its keys are lost: a new, empty one would open the gateway. */
export const openPostgresStorage = async (shared: SharedControl, isKnown: boolean): Promise<ControlStorage> => {
  const database = await openShared(shared, { ...SHARED_CONTROL, mayCreate: !isKnown })
  return { database, isLost: () => database.isLost, version: () => lastSeq(database), name() {}, settle() {} }
}
