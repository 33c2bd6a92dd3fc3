/** Counts a period in Postgres; see `countPeriod`. */
import type { PostgresValue } from '../../storage/sql/postgres/array-text.ts'
import type { PostgresPool } from '../../storage/sql/postgres/pool.ts'
import {
  ACTOR,
  addSpentBy,
  type CountedPeriodOf,
  chargedIn,
  countedId,
  countersOf,
  type MissingSum,
  missingOf,
  partsOfPeriod,
  REASON,
  spentBetween,
} from './period-count.ts'
import { addSum } from './postgres-sums.ts'

const INSERT = `INSERT INTO adjustment (id, at, budget, counter, period_start, key, amount, reason, actor)
  VALUES ($1, $2, $3, $4, $5, NULL, $6, '${REASON}', '${ACTOR}') ON CONFLICT DO NOTHING`

/** `reading`: a connection for the state that is read, so that batches are stored meanwhile; it is closed then. */
type CountedDatabase = { readonly pool: PostgresPool; readonly reading: () => PostgresPool }

/**
 * Adds what the counters of a budget lack in the period, unless it was done before. Rows and sums are read in one state, and what is
 * missing is added, whatever was stored meanwhile. `process`: what no running process has spent.
 */
export const countInPostgres = async (
  { pool, reading }: CountedDatabase,
  counted: CountedPeriodOf,
  { at, process }: { readonly at: number; readonly process: string },
): Promise<void> => {
  const { budget, start } = counted
  const id = countedId(counted)
  if ((await pool.query('SELECT 1 FROM adjustment WHERE id = $1', [id])).rows.length > 0) return
  const missing = await readMissing(reading(), counted, at)
  await pool.transaction(async (tx) => {
    const insert = async (...values: readonly PostgresValue[]) => (await tx.query(INSERT, values)).changes > 0
    // Without a counter it only notes that the period is counted. Another gateway may have done it meanwhile.
    if (!(await insert(id, at, budget.id, null, null, 0))) return
    for (const { owner, counter, spent } of missing) {
      await insert(`${id}_${owner}`, at, budget.id, counter, start, spent)
      await addSum(tx, { process, counter, periodStart: start, spent })
    }
  })
}

const readMissing = async (
  pool: PostgresPool,
  counted: CountedPeriodOf,
  at: number,
): Promise<readonly MissingSum[]> => {
  const { budget, start } = counted
  try {
    return await pool.transaction(
      async (tx) => {
        const charged = await tx.query(chargedIn('$1', '$2', '$3', '$4'), [start, REASON, ...countersOf(budget)])
        const sums = new Map<string, number>()
        for await (const { from, to } of partsOfPeriod(counted, at))
          addSpentBy(sums, budget, (await tx.query(spentBetween('$1', '$2'), [from, to])).rows)
        return missingOf(budget, sums, charged.rows)
      },
      { readOnly: true, isolation: 'repeatable read' },
    )
  } finally {
    await pool.close()
  }
}
