/** Databases of keys for tests. */
import { NO_ACCOUNTS } from '../../src/core/accounts.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { ControlDatabase } from '../../src/records/store/control-database.ts'
import type { ControlOperation, ControlPlace } from '../../src/records/store/record-operations.ts'

/** Opens the database of keys as another process: `control.db` in a folder, or a shared one. The caller closes it. `pepper`: of new keys. */
export const openControl = async (place: string | ControlPlace, pepper: string | null = null) => {
  const at = typeof place === 'string' ? { folder: place, database: null } : place
  const database = await ControlDatabase.open(at, { pepper, configured: [], auditDays: 365, file: NO_ACCOUNTS })
  const run = async (operation: ControlOperation): Promise<JsonObject> => {
    const actor = { kind: 'cli', id: 'test', name: 'test' }
    const context = { actor, from: null, requestId: null, teams: null, idempotencyKey: null }
    const result = await database.run(operation, context, Date.now())
    if (!result.ok) throw new Error(JSON.stringify(result.error))
    return result.value
  }
  /** Creates a key; returns its ID and secret. */
  const createKey = async (name: string, more: JsonObject = {}) => {
    const { id, secret } = await run({ do: 'create', kind: 'key', body: { name, ...more } })
    return { id: String(id), secret: String(secret) }
  }
  return { run, createKey, [Symbol.dispose]: () => database.close() }
}
