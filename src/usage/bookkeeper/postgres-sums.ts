/** What counters have spent in Postgres, and the totals that are old. */
import type { PostgresSession } from '../../storage/sql/postgres/pool.ts'
import { COUNT_COLUMNS, MODEL_USAGE_KEY } from '../columns/usage-schema.ts'

const DAY = 86_400_000
/** Incidents that are kept. */
const INCIDENTS = 10_000

/** Adds to what a process has spent of a counter. */
export const addSum = async (
  tx: PostgresSession,
  {
    process,
    counter,
    periodStart,
    spent,
  }: { readonly process: string; readonly counter: string; readonly periodStart: number; readonly spent: number },
): Promise<void> => {
  await tx.query(
    `INSERT INTO process_sum (process, counter, period_start, spent) VALUES ($1, $2, $3, $4)
      ON CONFLICT (process, counter, period_start) DO UPDATE SET spent = process_sum.spent + excluded.spent`,
    [process, counter, periodStart, spent],
  )
  await tx.query(
    `INSERT INTO budget_sum (counter, period_start, spent) VALUES ($1, $2, $3)
      ON CONFLICT (counter, period_start) DO UPDATE SET spent = budget_sum.spent + excluded.spent`,
    [counter, periodStart, spent],
  )
}

/** Deletes old facets and incidents, and sums up the hours of the oldest day that has any and is over before a time in all zones. Returns whether there was one. */
export const sweepTotals = async (tx: PostgresSession, until: number): Promise<boolean> => {
  // One gateway at a time; the others leave it to that one.
  const lock = await tx.query("SELECT pg_try_advisory_xact_lock(hashtext('headgate sweep')) AS is_ours")
  if (!lock.rows[0]?.is_ours) return false
  await tx.query('DELETE FROM facet WHERE last_seen < $1', [until])
  await tx.query(
    `DELETE FROM incident WHERE began < $1 OR began <
      (SELECT min(began) FROM (SELECT began FROM incident ORDER BY began DESC LIMIT ${INCIDENTS}) AS newest)`,
    [until],
  )
  const last = new Date(until - DAY).toISOString().slice(0, 10)
  const found = await tx.query('SELECT day FROM usage_model WHERE day < $1 AND hour > 0 ORDER BY day LIMIT 1', [last])
  const [oldest] = found.rows
  if (!oldest) return false
  const key = MODEL_USAGE_KEY.filter((column) => column !== 'hour').join(', ')
  const counts = COUNT_COLUMNS.join(', ')
  await tx.query(
    `WITH hours AS (DELETE FROM usage_model WHERE day = $1 AND hour > 0 RETURNING *)
      INSERT INTO usage_model (hour, ${key}, ${counts})
      SELECT 0, ${key}, ${COUNT_COLUMNS.map((column) => `sum(${column})`).join(', ')} FROM hours GROUP BY ${key}
      ON CONFLICT (${MODEL_USAGE_KEY.join(', ')}) DO UPDATE SET
        ${COUNT_COLUMNS.map((column) => `${column} = usage_model.${column} + excluded.${column}`).join(', ')}`,
    [String(oldest.day)],
  )
  return true
}
