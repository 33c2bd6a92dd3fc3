/** Where sums of usage are read: totals of days, totals of hours, or the rows of requests. */
import { type RawBuilder, sql } from 'kysely'
import { MAX_NANO } from '../../core/money.ts'
import { COUNT_COLUMNS, IS_ALONE, NO_COUNTS, type TotalCounts, type UsageTables } from '../columns/usage-schema.ts'
import { FAILED, usageCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import { type CursorValues, type Dimension, ROW_DIMENSIONS, type TimeRange, type UsageFilter } from './queries.ts'
import type { ReadCounts, SumsRow } from './report-memory.ts'

/** Dimensions of the totals of hours. Those of days have all of `DIMENSIONS`. */
export const HOUR_DIMENSIONS: readonly Dimension[] = ['provider', 'model', 'style', 'route', 'client']

/**
 * Which sums are read: days from one to another, hours from one to another, or requests that were received in a range. The end
 * is exclusive. `width`: ms of a period of requests.
 */
export type SummedRows =
  | { readonly of: 'days'; readonly from: string; readonly to: string }
  | ({ readonly of: 'hours' } & TimeRange)
  | ({ readonly of: 'requests'; readonly width: number } & TimeRange)

export type GroupPage = { readonly after: CursorValues | null; readonly limit: number }

/** `period`: whether each day or hour is a group of its own. */
export type Grouping = { readonly by: readonly Dimension[]; readonly period: boolean; readonly filter: UsageFilter }

const isMoney = (name: string): name is 'cost' | 'saved' | 'lost' =>
  name === 'cost' || name === 'saved' || name === 'lost'

/** A sum of nano-dollars stays at the limit, as in `addNano`. */
export const added = (name: keyof TotalCounts) => {
  const sum: RawBuilder<unknown> = sql`sum(${sql.ref(name)})`
  if (name === 'server_error')
    return sql<number>`CASE WHEN count(${sql.ref(name)}) = count(*) THEN coalesce(${sum}, 0) END`.as(name)
  const [most, least] = [sql.lit(MAX_NANO), sql.lit(-MAX_NANO)]
  const limited = sql`CASE WHEN ${sum} > ${most} THEN ${most} WHEN ${sum} < ${least} THEN ${least} ELSE ${sum} END`
  return sql<number>`coalesce(${isMoney(name) ? limited : sum}, 0)`.as(name)
}
const ADDED = COUNT_COLUMNS.map(added)

/** The groups of a span in the order of the period and the dimensions, after a cursor. Without any group: one sum. */
export const groupsIn = async (
  { db }: LedgerReads,
  span: SummedRows,
  { by, period, filter }: Grouping,
  { after, limit }: GroupPage,
): Promise<readonly SumsRow[]> => {
  const column = span.of === 'days' ? 'day' : 'hour'
  const keys = [...(period ? [column] : []), ...by].map((name) => sql.ref(name))
  let rows = sumsIn(db, span)
    .where(usageCondition(filter))
    .select(ADDED)
    .select(by.map((name) => sql<string>`${sql.ref(name)}`.as(name)))
    .select(period ? [sql<string | number>`${sql.ref(column)}`.as('start')] : [])
  if (keys.length > 0) rows = rows.groupBy(keys).orderBy(sql.join(keys)).limit(limit)
  if (after && after.length === keys.length) rows = rows.where(sql<boolean>`(${sql.join(keys)}) > (${sql.join(after)})`)
  return (await rows.execute()) as readonly SumsRow[]
}

/** Totals of hours. */
export const hoursIn = (db: LedgerReads['db'], { from, to }: TimeRange) =>
  db.selectFrom('usage_hour').where('hour', '>=', from).where('hour', '<', to)

/** All have the columns of counts, and those of the dimensions that they are read for. */
const sumsIn = (db: LedgerReads['db'], span: SummedRows) => {
  switch (span.of) {
    case 'days':
      return db
        .selectFrom('usage_day' as keyof UsageTables)
        .where(sql<boolean>`day >= ${span.from} AND day < ${span.to}`)
    case 'hours':
      return hoursIn(db, span) as unknown as ReturnType<typeof db.selectFrom<keyof UsageTables>>
    case 'requests':
      return db.selectFrom(countedRows(span).as('request')) as unknown as ReturnType<
        typeof db.selectFrom<keyof UsageTables>
      >
    default:
      throw new Error(`unknown sums ${JSON.stringify(span satisfies never)}`)
  }
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const textOf = (name: Dimension) => sql`coalesce(${sql.ref(name)}, '') AS ${sql.ref(name)}`
const DIMENSIONS_OF_ROWS = sql.join(ROW_DIMENSIONS.map(textOf))

/** The period of receipt. A bound number would make it a fraction. */
const periodOfRows = (width: number) => sql`received / ${sql.lit(width)} * ${sql.lit(width)} AS hour`

/** What a row of requests, or of attempts, adds to counts. */
const countsOf = (counts: { readonly [name in keyof TotalCounts]?: string }) =>
  sql.join(COUNT_COLUMNS.map((name) => sql`${sql.raw(counts[name] ?? '0')} AS ${sql.ref(name)}`))

const one = (condition: string): string => `CASE WHEN ${condition} THEN 1 ELSE 0 END`
const CACHED = "outcome = 'answered' AND cache IN ('hit', 'shared')"

const REQUEST_COUNTS = {
  requests: '1',
  refused: one("outcome = 'refused'"),
  server_error: one(FAILED),
  interrupted: one("outcome = 'interrupted'"),
  client_gone: one("outcome = 'client_gone'"),
  unknown: one("outcome = 'unknown'"),
  fell_back: one(`outcome = 'answered' AND NOT (${CACHED}) AND attempts > 1 AND failed_attempts > 0`),
  cached: one(CACHED),
  saved: 'saved',
  first_content_sum: 'coalesce(first_content_ms, 0)',
  first_content_count: one('first_content_ms IS NOT NULL'),
  total_sum: 'coalesce(total_ms, 0)',
}

const ATTEMPT_COUNTS = {
  attempts: '1',
  input: 'input',
  output: 'output',
  cache_read: 'cache_read',
  cache_write: 'cache_write',
  reasoning: 'reasoning',
  cost: 'coalesce(cost, 0)',
  estimated: one("usage_source = 'estimated'"),
  unpriced: one('cost IS NULL'),
}

const ifAlone = (value: string): string => `CASE WHEN ${IS_ALONE} THEN ${value} ELSE 0 END`
const OF_REQUEST = countsOf({
  ...REQUEST_COUNTS,
  ...Object.fromEntries(Object.entries(ATTEMPT_COUNTS).map(([name, value]) => [name, ifAlone(value)])),
})
const OF_ATTEMPT = countsOf({
  ...ATTEMPT_COUNTS,
  lost: "CASE WHEN outcome IN ('failed', 'interrupted', 'abandoned', 'unknown') THEN coalesce(cost, 0) ELSE 0 END",
})

/** Counts of requests, with those of an only attempt, and of other attempts, as totals would have them. */
const countedRows = ({
  from,
  to,
  width,
}: TimeRange & { readonly width: number }): RawBuilder<Record<string, unknown>> => {
  const period = periodOfRows(width)
  const isIn = sql`received >= ${from} AND received < ${to}`
  return sql`(SELECT ${period}, ${DIMENSIONS_OF_ROWS}, ${OF_REQUEST} FROM request WHERE ${isIn}
    UNION ALL
    SELECT ${period}, ${DIMENSIONS_OF_ROWS}, ${OF_ATTEMPT} FROM attempt WHERE ${isIn} AND alone = 0)`
}

/** Adds rows of one group. */
export const addSums = (rows: readonly SumsRow[]): ReadCounts => {
  const sums: { -readonly [name in keyof TotalCounts]: number } = { ...NO_COUNTS }
  for (const row of rows)
    for (const name of COUNT_COLUMNS) {
      const total = sums[name] + (row[name] ?? 0)
      sums[name] = isMoney(name) ? Math.max(-MAX_NANO, Math.min(MAX_NANO, total)) : total
    }
  return rows.some((row) => row.server_error === null) ? { ...sums, server_error: null } : sums
}
