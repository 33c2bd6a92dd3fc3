/** Refuses records with which too many budgets would count one request. */
import { ANONYMOUS, type FileAccounts } from '../../core/accounts.ts'
import { budgetOverlap, MAX_BUDGETS } from '../../policy/accounts/budget-count.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import type { RecordKind } from '../entities/bodies.ts'
import { anyRecord, type RecordSource } from './read-records.ts'
import { recordsOf } from './records.ts'

/**
 * Why a record may not be stored as it is now, or null. In the transaction of the write. Reads the keys that the record
 * concerns: one, those of a team, or all for a budget.
 */
export const overlapProblem = async (
  source: RecordSource,
  file: FileAccounts,
  { kind, id }: { readonly kind: RecordKind; readonly id: string },
): Promise<string | null> => {
  const { count } = await anyRecord(source)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('kind', '=', 'budget')
    .executeTakeFirstOrThrow()
  if (count <= MAX_BUDGETS) return null
  const rows = await source.db
    .selectFrom('record')
    .selectAll()
    .where((where) => {
      const isKey = where('kind', '=', 'key')
      const concerned =
        kind === 'budget' ? isKey : kind === 'team' ? where.and([isKey, where('team', '=', id)]) : where('id', '=', id)
      return where.or([where('kind', 'in', ['team', 'budget']), concerned])
    })
    .execute()
  const overlap = budgetOverlap(buildDirectory(file, recordsOf(rows, []).records))
  if (!overlap) return null
  const { client, budgets: found } = overlap
  const who = client.id === ANONYMOUS.id ? 'clients without a key' : `the key "${client.name}"`
  return `${found.length} budgets would count the same requests of ${who} (limit ${MAX_BUDGETS}): ${found.map(({ name }) => name).join(', ')}. Restrict or delete one of them.`
}
