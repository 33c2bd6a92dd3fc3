/** Requests of a range by the name that clients gave: of a route, or of a model that they named directly, with what they used. */
import { type SqlBool, sql } from 'kysely'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf, bucketWidth } from './outcome-counts.ts'
import type { NamesUsage, NameUsage, NameUsageQuery, TimeRange } from './queries.ts'
import { isoTime } from './request-shape.ts'
import { ROUTE, TEAM } from './route-traffic.ts'
import { readNewest } from './slices.ts'

/** Rows of a result, those of the most requests. Clients choose names. */
const MOST = 5_000
/** Parts that are read one after another, and the least width of one in ms. */
const PARTS = { most: 120, width: 900_000 }

const SUMS = ['requests', 'unpriced', 'cost', 'input', 'output', 'cache_read', 'cache_write', 'reasoning'] as const

export const namesUsage = async (reads: LedgerReads, query: NameUsageQuery): Promise<NamesUsage> => {
  const { from, to, filter, own } = query
  const { memory, now } = reads
  const width = Math.max(PARTS.width, bucketWidth(query, PARTS.most))
  const { buckets, searchedUntil } = await readNewest(reads, bucketsOf(query, width), (part) => {
    const read = () => partOf(reads, { from: Math.max(part.from, from), to: Math.min(part.to, to) }, query)
    const isInside = part.from >= from && part.to <= to
    return memory && isInside ? memory.get(`names ${JSON.stringify(filter)}`, part, now, read) : read()
  })
  const names = new Set(own)
  const rows = buckets
    .flatMap(({ value }) => value)
    .map((row) => ({ ...row, team: row.route !== null && names.has(row.route) ? row.team : null }))
  const data = [
    ...Map.groupBy(rows, ({ route, team, asked, style, provider, model }) =>
      JSON.stringify([route, team, asked, style, provider, model]),
    ).values(),
  ].flatMap(([first, ...others]): readonly NameUsage[] => {
    if (!first) return []
    const sums = SUMS.map((name) => [name, [first, ...others].reduce((sum, row) => sum + Number(row[name]), 0)])
    // The names are those of the members.
    return [{ ...first, ...(Object.fromEntries(sums) as Pick<NameUsage, (typeof SUMS)[number]>) }]
  })
  const first = buckets.find(({ value }) => value.length > 0)
  return {
    from: isoTime(from),
    to: isoTime(to),
    searched_until: searchedUntil === null || searchedUntil <= from ? null : isoTime(searchedUntil),
    since: first ? isoTime(Math.max(from, first.range.from)) : null,
    data: data.toSorted((one, other) => other.requests - one.requests).slice(0, MOST),
    has_more: data.length > MOST,
  }
}

/** Without requests for names that nothing has. */
const partOf = ({ db }: LedgerReads, part: TimeRange, { filter }: NameUsageQuery): Promise<readonly NameUsage[]> => {
  const isOfTeam = filter.team ? sql<SqlBool>`team IN (${sql.join(filter.team)})` : sql<SqlBool>`1 = 1`
  const named = sql<string | null>`CASE WHEN ${ROUTE} IS NULL THEN asked END`
  const sum = (name: 'cost' | 'input' | 'output' | 'cache_read' | 'cache_write' | 'reasoning') =>
    sql<number>`coalesce(sum(${sql.ref(name)}), 0)`.as(name)
  return db
    .selectFrom('request')
    .where('received', '>=', part.from)
    .where('received', '<', part.to)
    .where(isOfTeam)
    .where(sql<SqlBool>`coalesce(code, '') <> 'model_not_found'`)
    .groupBy([ROUTE, TEAM, named, 'style', 'provider', 'model'])
    .select([
      ROUTE.as('route'),
      TEAM.as('team'),
      named.as('asked'),
      'style',
      'provider',
      'model',
      sql<number>`count(*)`.as('requests'),
      sql<number>`count(*) FILTER (WHERE cost IS NULL)`.as('unpriced'),
      ...(['cost', 'input', 'output', 'cache_read', 'cache_write', 'reasoning'] as const).map(sum),
    ])
    .execute()
}
