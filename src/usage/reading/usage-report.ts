/**
 * Usage and cost by time and dimension. Totals answer questions about keys by day, and about models by hour or day. Others are
 * answered from the rows of requests, as far back as those are kept; the answer states from when.
 */
import { sql } from 'kysely'
import { formatDollars } from '../../core/money.ts'
import { daysIn } from '../bookkeeper/zone-days.ts'
import { NO_COUNTS, type TotalCounts } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import type { LedgerReads } from './ledger-source.ts'
import {
  type CursorValues,
  DIMENSIONS,
  type Dimension,
  type TimeRange,
  type UsageEntry,
  type UsageQuery,
  type UsageReport,
  type UsageSums,
} from './queries.ts'
import { isoTime } from './request-shape.ts'
import {
  addSums,
  DAY,
  groupsIn,
  HOUR,
  KEY_DIMENSIONS,
  MODEL_DIMENSIONS,
  type SummedRows,
  type SumsRow,
} from './usage-source.ts'

/** Range in ms above which days are summed where no buckets are asked for. */
const HOURS_UP_TO = 31 * DAY
/** Groups of rows that are added up in memory. */
const MOST_GROUPS = 100_000

/** A part of a span with the start of its bucket; undefined: it has hours, or there are no buckets. */
type SpanPart = { readonly start: string | number | undefined; readonly span: SummedRows }

/** How a report is read: at once, or in parts of which each is a bucket, or part of the only one. */
type ReportPlan = { readonly range: TimeRange } & (
  | { readonly span: SummedRows }
  | { readonly parts: readonly SpanPart[] }
)

export const usageReport = async (reads: LedgerReads, query: UsageQuery): Promise<UsageReport> => {
  const plan = await planOf(query, reads)
  const rows = 'span' in plan ? await pageIn(reads, query, plan.span) : await pageOfParts(reads, query, plan.parts)
  const page = rows.slice(0, query.limit)
  const last = page.at(-1)
  const hasMore = rows.length > query.limit && last !== undefined
  // The rows of a whole report add up to the total.
  const isWhole = query.after === null && !hasMore && !(query.bucket === 'none' && query.by.length === 0)
  return {
    object: 'list',
    from: isoTime(plan.range.from),
    to: isoTime(plan.range.to),
    data: page.map((row) => usageEntry(row, query)),
    total: usageSums(isWhole ? addSums(page) : await totalOf(reads, query, plan)),
    has_more: hasMore,
    next: hasMore ? encodeCursor(sortKey(last, query)) : null,
  }
}

// ── Sources ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The dimensions that a report needs. */
const neededBy = ({ by, filter }: UsageQuery): readonly Dimension[] => [
  ...by,
  ...DIMENSIONS.filter((name) => filter[name] !== undefined),
  ...(filter.demo === false ? (['provider'] as const) : []),
]

const planOf = async (query: UsageQuery, reads: LedgerReads): Promise<ReportPlan> => {
  const { timezone, keepHours, now } = reads
  const { bucket, from, to } = query
  const needed = neededBy(query)
  const isOfKeys = needed.every((name) => KEY_DIMENSIONS.includes(name))
  const isOfModels = needed.every((name) => MODEL_DIMENSIONS.includes(name))
  const zone = bucket === 'day' ? (query.tz ?? timezone) : timezone
  const hours = { from: Math.floor(from / HOUR) * HOUR, to: Math.ceil(to / HOUR) * HOUR }
  const days = wholeDays(query, zone)
  // Nothing is recorded in the future.
  const isWholeDays = days.from === from && (days.to === to || to >= now)
  const hasHours = now - from <= keepHours * DAY && to - from <= HOURS_UP_TO
  const isByHour = bucket === 'hour' || (bucket === 'none' && !isWholeDays && hasHours)
  const range = isByHour ? hours : days
  if (isByHour && isOfModels) return { range, span: { of: 'model hours', ...hours } }
  if (!isByHour && zone === timezone && (isOfKeys || isOfModels)) {
    const dayOf = daysIn(timezone)
    const span = { from: dayOf(range.from), to: dayOf(range.to) }
    return { range, span: { of: isOfKeys ? 'key days' : 'model days', ...span } }
  }
  if (isOfModels) {
    // Hours exist for this long only.
    const kept = wholeDays({ from: Math.max(from, now - keepHours * DAY), to: Math.min(to, now + DAY) }, zone)
    return { range: kept, parts: partsOf(kept, zoneDays(zone), 'model hours') }
  }
  const first = await firstReceived(reads)
  const start = bucketStart(isByHour ? hourOf : zoneDays(zone))
  const rowsFrom = first === null ? range.from : Math.max(range.from, start(first))
  const found = { from: Math.min(rowsFrom, range.to), to: range.to }
  const read = { ...found, to: Math.min(found.to, now + DAY) }
  const parts = partsOf(read, zoneDays(zone), 'requests')
  return { range: found, parts: bucket === 'day' ? parts : parts.map(({ span }) => ({ start: undefined, span })) }
}

const firstReceived = async ({ db }: LedgerReads): Promise<number | null> => {
  const first = await db.selectFrom('request').select(sql<number | null>`min(received)`.as('at')).executeTakeFirst()
  return first?.at ?? null
}

// ── Ranges ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The range, extended to whole days of a zone; in zones with half-hour offsets to the next whole hour. */
const wholeDays = ({ from, to }: TimeRange, zone: string): TimeRange => {
  const startOfDay = bucketStart(zoneDays(zone))
  const first = startOfDay(from)
  // A day has at most 25 hours.
  const end = to <= from ? first : startOfDay(startOfDay(to - 1) + 26 * HOUR)
  return { from: first, to: end }
}

/** The start of the hour in which a time is, or its day. */
type BucketOf = (at: number) => string | number
const hourOf: BucketOf = (at) => Math.floor(at / HOUR) * HOUR
const zoneDays = (zone: string): BucketOf => daysIn(zone)

/** When the bucket of a time begins. */
const bucketStart =
  (bucketOf: BucketOf) =>
  (at: number): number => {
    const step = HOUR / 4
    const bucket = bucketOf(at)
    let start = Math.floor(at / step) * step
    while (bucketOf(start - 1) === bucket) start -= step
    return start
  }

/** The buckets of a range. An hour of totals belongs to the day in which it begins. */
const partsOf = ({ from, to }: TimeRange, bucketOf: BucketOf, of: 'model hours' | 'requests'): readonly SpanPart[] => {
  const step = of === 'requests' ? HOUR / 4 : HOUR
  const parts: { start: string | number; from: number; to: number }[] = []
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const start = bucketOf(at)
    const last = parts.at(-1)
    if (last?.start === start) last.to = at + step
    else parts.push({ start, from: at, to: at + step })
  }
  return parts.map((part) => ({ start: part.start, span: { of, from: part.from, to: part.to } }))
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const pageIn = (reads: LedgerReads, query: UsageQuery, span: SummedRows): Promise<readonly SumsRow[]> => {
  const { by, filter, bucket, after, limit } = query
  if (bucket === 'none' && by.length === 0) return Promise.resolve([])
  return groupsIn(reads, span, { by, filter, period: bucket !== 'none' }, { after, limit: limit + 1 })
}

const pageOfParts = async (
  reads: LedgerReads,
  query: UsageQuery,
  parts: readonly SpanPart[],
): Promise<readonly SumsRow[]> => {
  const { by, filter, limit } = query
  if (query.bucket === 'none') return by.length === 0 ? [] : mergedPage(reads, query, parts)
  const isByHour = query.bucket === 'hour'
  const rows: SumsRow[] = []
  const [first, ...dimensions] = query.after ?? []
  for (const { start, span } of parts) {
    if (first !== undefined && (start === undefined ? Number(first) >= Number(span.to) : start < first)) continue
    if (first === start && dimensions.length === 0 && start !== undefined) continue
    reads.checkTime()
    const after = isByHour ? query.after : start === first ? dimensions : null
    const page = { after, limit: limit + 1 - rows.length }
    for (const row of await groupsIn(reads, span, { by, filter, period: isByHour }, page))
      if (row.requests > 0 || row.attempts > 0) rows.push({ ...row, ...(start !== undefined && { start }) })
    if (rows.length > limit) break
  }
  return rows
}

/** Groups of all parts, added up. */
const mergedPage = async (
  reads: LedgerReads,
  { by, filter, after, limit }: UsageQuery,
  parts: readonly SpanPart[],
): Promise<readonly SumsRow[]> => {
  const groups = new Map<string, SumsRow>()
  for (const { span } of parts) {
    reads.checkTime()
    const page = { after, limit: MOST_GROUPS }
    for (const row of await groupsIn(reads, span, { by, filter, period: false }, page)) {
      const name = by.map((dimension) => row[dimension] ?? '').join('\0')
      const known = groups.get(name)
      groups.set(name, known ? { ...row, ...addSums([known, row]) } : row)
    }
    if (groups.size > MOST_GROUPS) reads.tooMuch()
  }
  const sorted = [...groups].sort(([one], [other]) => (one < other ? -1 : 1))
  return sorted.slice(0, limit + 1).map(([, row]) => row)
}

/** Read where the filter alone allows it. */
const totalOf = async (reads: LedgerReads, query: UsageQuery, { range }: ReportPlan): Promise<TotalCounts> => {
  const { bucket, filter } = query
  const plan = await planOf({ ...query, ...range, by: [], bucket: bucket === 'hour' ? 'hour' : 'none' }, reads)
  const spans = 'span' in plan ? [plan.span] : plan.parts.map(({ span }) => span)
  const sums: SumsRow[] = []
  for (const span of spans) {
    reads.checkTime()
    sums.push(...(await groupsIn(reads, span, { by: [], filter, period: false }, { after: null, limit: 1 })))
  }
  return sums.length === 0 ? NO_COUNTS : addSums(sums)
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

const usageSums = (row: TotalCounts): UsageSums => ({
  requests: row.requests,
  failed: row.refused + row.interrupted + row.unknown,
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

const average = (sum: number, count: number): number | null => (count === 0 ? null : Math.round(sum / count))
