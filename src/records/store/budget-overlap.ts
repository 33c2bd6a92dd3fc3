/** Refuses records with which too many budgets would count one request. */
import { ANONYMOUS, type FileAccounts } from '../../core/accounts.ts'
import { budgetOverlap, MAX_BUDGETS } from '../../policy/accounts/budget-count.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import type { SqlDatabase } from '../../storage/sql/database.ts'
import type { RecordKind } from '../entities/bodies.ts'
import { recordsOf } from './records.ts'
import type { RecordRow } from './schema.ts'

/**
 * Why a record may not be stored as it is now, or null. In the transaction of the write. Reads the keys that the record
 * concerns: one, those of a team, or all for a budget.
 */
export const overlapProblem = (
  database: SqlDatabase,
  file: FileAccounts,
  { kind, id }: { readonly kind: RecordKind; readonly id: string },
): string | null => {
  const budgets = Number(
    database.prepare("SELECT count(*) AS count FROM any_record WHERE kind = 'budget'").get()?.count,
  )
  if (budgets <= MAX_BUDGETS) return null
  const keys = kind === 'budget' ? "kind = 'key'" : kind === 'team' ? "kind = 'key' AND team = ?" : 'id = ?'
  // The columns are those of the table.
  const rows = database
    .prepare(`SELECT * FROM record WHERE kind IN ('team', 'budget') OR (${keys})`)
    .all(...(kind === 'budget' ? [] : [id])) as RecordRow[]
  const overlap = budgetOverlap(buildDirectory(file, recordsOf(rows, []).records))
  if (!overlap) return null
  const { client, budgets: found } = overlap
  const who = client.id === ANONYMOUS.id ? 'clients without a key' : `the key "${client.name}"`
  return `${found.length} budgets would count the same requests of ${who} (limit ${MAX_BUDGETS}): ${found.map(({ name }) => name).join(', ')}. Restrict or delete one of them.`
}
