/** Adjustments, newest first. */
import { sql } from 'kysely'
import { formatDollars } from '../../core/money.ts'
import { encodeCursor } from './cursor.ts'
import type { LedgerReads } from './ledger-source.ts'
import type { AdjustmentEntry, AdjustmentsQuery, ListPage } from './queries.ts'
import { isoTime } from './request-shape.ts'

export const adjustmentsPage = async (
  { db }: LedgerReads,
  { from, to, budget, reason, limit, after }: AdjustmentsQuery,
): Promise<ListPage<AdjustmentEntry>> => {
  let rows = db
    .selectFrom('adjustment')
    .selectAll()
    .where('at', '>=', from)
    .where('at', '<', to)
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (budget) rows = rows.where('budget', 'in', budget)
  // Of the whole table, which has a row per decision of a person.
  if (reason !== null) rows = rows.where(sql<boolean>`substr(reason, 1, ${reason.length}) = ${reason}`)
  if (after) rows = rows.where(sql<boolean>`(at, id) < (${sql.join(after)})`)
  const found = await rows.execute()
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const hasMore = found.length > limit && last !== undefined
  return {
    object: 'list',
    data: page.map(({ period_start, counter, at, amount, ...row }) => ({
      id: row.id,
      object: 'adjustment',
      at: isoTime(at),
      budget: row.budget,
      of: counter === null ? null : counter.slice(counter.indexOf(':') + 1),
      key: row.key,
      amount: formatDollars(amount),
      reason: row.reason,
      actor: row.actor,
    })),
    has_more: hasMore,
    next: hasMore ? encodeCursor([last.at, last.id]) : null,
  }
}
