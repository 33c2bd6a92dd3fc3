/** Usage and cost by time and dimension, from hourly and daily sums alone. */
import { type RawBuilder, sql } from 'kysely'
import { addNano, formatDollars, MAX_NANO } from '../../core/money.ts'
import { daysIn } from '../bookkeeper/zone-days.ts'
import { NO_COUNTS, type UsageTables } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import { usageCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import type {
  CursorValues,
  Dimension,
  TimeRange,
  UsageEntry,
  UsageFilter,
  UsageQuery,
  UsageReport,
  UsageSums,
} from './queries.ts'
import { isoTime } from './request-shape.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** Range in ms above which days are summed where no buckets are asked for. */
const HOURS_UP_TO = 31 * DAY

/** A sum of nano-dollars stays at the limit, as in `addNano`. */
const money = (column: 'cost' | 'saved' | 'lost'): RawBuilder<number> =>
  sql<number>`coalesce(max(min(sum(${sql.ref(column)}), ${sql.lit(MAX_NANO)}), ${sql.lit(-MAX_NANO)}), 0)`.$castTo<number>()
const sum = (column: string): RawBuilder<number> => sql<number>`coalesce(sum(${sql.ref(column)}), 0)`

const NOTHING = { ...NO_COUNTS, failed: 0, lost: 0 }
// These are the members of the object.
const COUNTS = Object.keys(NOTHING) as readonly (keyof typeof NOTHING)[]
const isMoney = (name: string): name is 'cost' | 'saved' | 'lost' =>
  name === 'cost' || name === 'saved' || name === 'lost'

/** Sums of such sums. */
const ADDED = COUNTS.map((name) => (isMoney(name) ? money(name) : sum(name)).as(name))

const SUMS = [
  ...ADDED.filter(({ alias }) => alias !== 'failed' && alias !== 'lost'),
  // Attempts have none of these outcomes with requests counted.
  sql<number>`coalesce(sum(CASE WHEN outcome IN ('refused', 'interrupted', 'unknown') THEN requests END), 0)`.as(
    'failed',
  ),
  // Requests have no cost of their own, only their attempts.
  sql<number>`coalesce(max(min(sum(CASE WHEN outcome IN ('failed', 'interrupted', 'abandoned', 'unknown') THEN cost END),
    ${sql.lit(MAX_NANO)}), ${sql.lit(-MAX_NANO)}), 0)`.as('lost'),
]

/** Columns of the primary key, after the period and the node. */
const KEY_ORDER: readonly Dimension[] = ['team', 'key', 'provider', 'model', 'style', 'tag', 'route', 'client']

/** A row of sums, with the group's `start` and dimensions. */
type SumsRow = { readonly [name in keyof typeof NOTHING]: number } & { readonly [name in Dimension]?: string } & {
  readonly start?: string | number
}

/** Which rows are summed: of one table from a period to another, exclusive. */
type SummedRows =
  | { readonly table: 'usage_hour'; readonly from: number; readonly to: number }
  | { readonly table: 'usage_day'; readonly from: string; readonly to: string }

/** A bucket that its table does not have: a day of another zone. */
type DayOfHours = { readonly start: string; readonly from: number; readonly to: number }

export const usageReport = async (reads: LedgerReads, query: UsageQuery): Promise<UsageReport> => {
  const { span, range } = spanOf(query, reads)
  const isOtherZone = query.bucket === 'day' && span.table === 'usage_hour'
  const rows = isOtherZone
    ? await daysOfHours(reads, query, zoneDays(span, query.tz ?? reads.timezone))
    : await groups(reads, query, span, { after: query.after, limit: query.limit + 1 })
  const page = rows.slice(0, query.limit)
  const last = page.at(-1)
  const hasMore = rows.length > query.limit && last !== undefined
  // The rows of a whole report add up to the total.
  const isWhole = query.after === null && !hasMore && !(query.bucket === 'none' && query.by.length === 0)
  const [total] = isWhole ? [added(page)] : await sumsOf(reads, query.filter, span)
  return {
    object: 'list',
    from: isoTime(range.from),
    to: isoTime(range.to),
    data: page.map((row) => usageEntry(row, query)),
    total: usageSums(total ?? NOTHING),
    has_more: hasMore,
    next: hasMore ? encodeCursor(sortKey(last, query)) : null,
  }
}

// ── Ranges ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const spanOf = (
  query: UsageQuery,
  { timezone, keepHours, now }: LedgerReads,
): { span: SummedRows; range: TimeRange } => {
  const { bucket, from, to } = query
  const hours = { from: Math.floor(from / HOUR) * HOUR, to: Math.ceil(to / HOUR) * HOUR }
  const byHour = { span: { table: 'usage_hour', ...hours }, range: hours } as const
  if (bucket === 'hour') return byHour
  if (bucket === 'day' && query.tz !== null && query.tz !== timezone) {
    // Hours exist for this long only.
    const kept = { from: Math.max(from, now - keepHours * DAY), to: Math.min(to, now + DAY) }
    const range = wholeDays(kept, query.tz)
    return { span: { table: 'usage_hour', ...range }, range }
  }
  const range = wholeDays(query, timezone)
  // Nothing is recorded in the future.
  const isWholeDays = range.from === from && (range.to === to || to >= now)
  const hasHours = now - from <= keepHours * DAY && to - from <= HOURS_UP_TO
  if (bucket === 'none' && !isWholeDays && hasHours) return byHour
  const dayOf = daysIn(timezone)
  return { span: { table: 'usage_day', from: dayOf(range.from), to: dayOf(range.to) }, range }
}

/** The range, extended to whole days of a zone; in zones with half-hour offsets to the next whole hour. */
const wholeDays = ({ from, to }: TimeRange, zone: string): TimeRange => {
  const dayOf = daysIn(zone)
  const step = HOUR / 4
  const startOfDay = (at: number): number => {
    const day = dayOf(at)
    let start = Math.floor(at / step) * step
    while (dayOf(start - 1) === day) start -= step
    return start
  }
  const first = startOfDay(from)
  // A day has at most 25 hours.
  const end = to <= from ? first : startOfDay(startOfDay(to - 1) + 26 * HOUR)
  return { from: first, to: end }
}

const zoneDays = ({ from, to }: TimeRange, zone: string): readonly DayOfHours[] => {
  const dayOf = daysIn(zone)
  const days: DayOfHours[] = []
  // An hour belongs to the day in which it begins.
  const firstHour = Math.ceil(from / HOUR) * HOUR
  for (let hour = firstHour; hour < to; hour += HOUR) {
    const start = dayOf(hour)
    const last = days.at(-1)
    if (last?.start === start) days[days.length - 1] = { ...last, to: hour + HOUR }
    else days.push({ start, from: hour, to: hour + HOUR })
  }
  return days
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

type GroupPage = { readonly after: CursorValues | null; readonly limit: number }

/** The groups of a span in the order of `start` and the dimensions, after a cursor. */
const groups = async (
  { db }: LedgerReads,
  { by, bucket, filter }: Pick<UsageQuery, 'by' | 'bucket' | 'filter'>,
  span: SummedRows,
  { after, limit }: GroupPage,
): Promise<readonly SumsRow[]> => {
  const period = span.table === 'usage_day' ? 'day' : 'hour'
  const columns = [...(bucket === 'none' ? [] : [period]), ...by]
  if (columns.length === 0) return []
  const keys = columns.map((column) => sql.ref(column))
  // Rows are summed in the order of the primary key first, without sorting them all: it takes less than half the time.
  const inOrder = [
    period,
    'node',
    ...KEY_ORDER.slice(0, 1 + Math.max(-1, ...by.map((name) => KEY_ORDER.indexOf(name)))),
  ]
  let parts = inSpan(db, span)
    .where(usageCondition(filter))
    .select(SUMS)
    .select(inOrder.map((column) => sql<string>`${sql.ref(column)}`.as(column)))
    .groupBy(inOrder.map((column) => sql.ref(column)))
  if (after && after.length === keys.length)
    parts = parts.where(sql<boolean>`(${sql.join(keys)}) > (${sql.join(after)})`)
  const start = bucket === 'none' ? [] : [sql<string | number>`${sql.ref(period)}`.as('start')]
  return db
    .selectFrom(parts.as('part'))
    .select(ADDED)
    .select(by.map((column) => sql<string>`${sql.ref(column)}`.as(column)))
    .select(start)
    .groupBy(columns.map((column) => sql.ref(column)))
    .orderBy(sql.join(keys))
    .limit(limit)
    .execute()
}

const sumsOf = ({ db }: LedgerReads, filter: UsageFilter, span: SummedRows): Promise<readonly SumsRow[]> =>
  inSpan(db, span).where(usageCondition(filter)).select(SUMS).execute()

const inSpan = (db: LedgerReads['db'], span: SummedRows) =>
  db
    .selectFrom(span.table as 'usage_hour' & keyof UsageTables)
    .where(sql.ref(span.table === 'usage_day' ? 'day' : 'hour'), '>=', span.from)
    .where(sql.ref(span.table === 'usage_day' ? 'day' : 'hour'), '<', span.to)

const daysOfHours = async (
  reads: LedgerReads,
  query: UsageQuery,
  days: readonly DayOfHours[],
): Promise<readonly SumsRow[]> => {
  const rows: SumsRow[] = []
  const [first, ...dimensions] = query.after ?? []
  for (const { start, from, to } of days) {
    if (first !== undefined && start < String(first)) continue
    if (first === start && dimensions.length === 0) continue
    reads.checkTime()
    const span = { table: 'usage_hour', from, to } as const
    const limit = query.limit + 1 - rows.length
    const found =
      query.by.length === 0
        ? await sumsOf(reads, query.filter, span)
        : await groups(reads, { ...query, bucket: 'none' }, span, { after: start === first ? dimensions : null, limit })
    rows.push(...found.filter((row) => row.requests > 0 || row.attempts > 0).map((row) => ({ ...row, start })))
    if (rows.length > query.limit) break
  }
  return rows
}

// ── Shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const sortKey = (row: SumsRow, { by, bucket }: UsageQuery): CursorValues => [
  ...(bucket === 'none' ? [] : [row.start ?? '']),
  ...by.map((name) => row[name] ?? ''),
]

const usageEntry = (row: SumsRow, { by }: UsageQuery): UsageEntry => ({
  ...(row.start !== undefined && { start: typeof row.start === 'number' ? isoTime(row.start) : row.start }),
  ...Object.fromEntries(by.map((name) => [name, row[name] || null])),
  ...usageSums(row),
})

const usageSums = (row: SumsRow): UsageSums => ({
  requests: row.requests,
  failed: row.failed,
  attempts: row.attempts,
  input: row.input,
  output: row.output,
  cache_read: row.cache_read,
  cache_write: row.cache_write,
  reasoning: row.reasoning,
  cost: formatDollars(row.cost),
  saved: formatDollars(row.saved),
  lost: formatDollars(row.lost),
  estimated: row.estimated,
  unpriced: row.unpriced,
  first_content_ms: average(row.first_content_sum, row.first_content_count),
  total_ms: average(row.total_sum, row.requests),
})

const added = (rows: readonly SumsRow[]): SumsRow => {
  const sums: { -readonly [name in keyof typeof NOTHING]: number } = { ...NOTHING }
  for (const row of rows)
    for (const name of COUNTS) sums[name] = isMoney(name) ? addNano(sums[name], row[name]) : sums[name] + row[name]
  return sums
}

const average = (sum: number, count: number): number | null => (count === 0 ? null : Math.round(sum / count))
