/** What counters have spent in Postgres, and what is old of totals. */
import type { PostgresSession } from '../../storage/sql/postgres/pool.ts'

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

/** Deletes old facets and incidents, and the oldest hour that is before a time. Returns whether there was one. */
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
  const { changes } = await tx.query(
    'DELETE FROM usage_hour WHERE hour = (SELECT hour FROM usage_hour WHERE hour < $1 ORDER BY hour LIMIT 1)',
    [until],
  )
  return changes > 0
}
