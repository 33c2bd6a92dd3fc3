/** Usage by the end users that requests name. Their number has no bound, so no sums are kept, and rows are read. */
import { sql } from 'kysely'
import type { LedgerReads } from './ledger-source.ts'
import { countWhere } from './outcome-counts.ts'
import type { EndUserReport, EndUsersQuery } from './queries.ts'
import { dollars, isoTime } from './request-shape.ts'

/** Requests that are read, the newest of the range. */
const MOST = 100_000

export const endUserReport = async (reads: LedgerReads, query: EndUsersQuery): Promise<EndUserReport> => {
  const { from, to, filter, limit } = query
  const newest = reads.db
    .selectFrom('request')
    .select(['received', 'end_user', 'team', 'key', 'outcome', 'input', 'output', 'cost'])
    .where('received', '>=', from)
    .where('received', '<', to)
    .orderBy('received', 'desc')
    .limit(MOST)
  const { read, since } = await reads.db
    .selectFrom(newest.as('newest'))
    .select([sql<number>`count(*)`.as('read'), sql<number | null>`min(received)`.as('since')])
    .executeTakeFirstOrThrow()
  await reads.turn()
  let sums = reads.db
    .selectFrom(newest.as('newest'))
    .select([
      sql<string>`end_user`.as('end_user'),
      sql<number>`count(*)`.as('requests'),
      countWhere(sql`outcome NOT IN ('answered', 'client_gone')`).as('failed'),
      sql<number>`coalesce(sum(input), 0)`.as('input'),
      sql<number>`coalesce(sum(output), 0)`.as('output'),
      sql<number>`coalesce(sum(cost), 0)`.as('cost'),
      sql<number>`max(received)`.as('last'),
    ])
    .where('end_user', 'is not', null)
    .groupBy('end_user')
    .orderBy('cost', 'desc')
    .orderBy('end_user')
    .limit(limit + 1)
  for (const column of ['team', 'key'] as const) {
    const values = filter[column]
    if (values) sums = sums.where(sql<string>`coalesce(${sql.ref(column)}, '')`, 'in', values)
  }
  const found = await sums.execute()
  return {
    object: 'list',
    data: found
      .slice(0, limit)
      .map(({ cost, last, ...row }) => ({ ...row, cost: dollars(cost) ?? '', last_at: isoTime(last) })),
    has_more: found.length > limit,
    next: null,
    from: isoTime(read === MOST && since !== null ? since : from),
    to: isoTime(to),
    is_complete: read < MOST,
  }
}
