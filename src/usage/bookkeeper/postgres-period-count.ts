/** Counts a period in Postgres; see `countPeriod`. */
import type { PostgresValue } from '../../storage/sql/postgres/array-text.ts'
import type { PostgresPool } from '../../storage/sql/postgres/pool.ts'
import { ACTOR, addSpentBy, type CountedPeriodOf, countedId, PART, REASON } from './period-count.ts'
import { addSum } from './postgres-sums.ts'

const SPENT = `SELECT key, team, person, end_user, tags, asked, provider, model, sum(charged) AS spent
  FROM attempt WHERE received >= $1 AND received < $2 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`

/** What counters of a period have been charged by requests, and what was added here before. */
const CHARGED = `SELECT counter, spent - coalesce((SELECT sum(amount) FROM adjustment
    WHERE adjustment.counter = budget_sum.counter AND period_start = $1 AND reason <> $2), 0) AS charged
  FROM budget_sum WHERE period_start = $1 AND counter >= $3 AND counter < $4`

const INSERT = `INSERT INTO adjustment (id, at, budget, counter, period_start, key, amount, reason, actor)
  VALUES ($1, $2, $3, $4, $5, NULL, $6, '${REASON}', '${ACTOR}') ON CONFLICT DO NOTHING`

/**
 * Adds what the counters of a budget lack in the period, unless it was done before. Rows and sums are read in one state, and what is
 * missing is added, whatever was stored meanwhile. `process`: what no running process has spent.
 */
export const countInPostgres = async (
  pool: PostgresPool,
  counted: CountedPeriodOf,
  { at, process }: { readonly at: number; readonly process: string },
): Promise<void> => {
  const { budget, start } = counted
  const id = countedId(counted)
  if ((await pool.query('SELECT 1 FROM adjustment WHERE id = $1', [id])).rows.length > 0) return
  const missing = await pool.transaction(
    async (tx) => {
      const sums = new Map<string, number>()
      for (let from = start; from <= at + PART; from += PART)
        addSpentBy(sums, budget, (await tx.query(SPENT, [from, from + PART])).rows)
      const { rows } = await tx.query(CHARGED, [start, REASON, `${budget.id}:`, `${budget.id};`])
      const charged = new Map(rows.map((row) => [row.counter, Number(row.charged)]))
      return [...sums].map(([owner, spent]) => {
        const counter = `${budget.id}:${owner}`
        return { owner, counter, spent: spent - (charged.get(counter) ?? 0) }
      })
    },
    { readOnly: true, isolation: 'repeatable read' },
  )
  await pool.transaction(async (tx) => {
    const insert = async (...values: readonly PostgresValue[]) => (await tx.query(INSERT, values)).changes > 0
    // Without a counter it only notes that the period is counted. Another gateway may have done it meanwhile.
    if (!(await insert(id, at, budget.id, null, null, 0))) return
    for (const { owner, counter, spent } of missing) {
      if (spent <= 0) continue
      await insert(`${id}_${owner}`, at, budget.id, counter, start, spent)
      await addSum(tx, { process, counter, periodStart: start, spent })
    }
  })
}
