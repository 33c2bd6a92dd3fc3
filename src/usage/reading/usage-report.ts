/**
 * Usage and cost by time and dimension. Totals answer questions about keys by day, and about models by hour or day. Others are
 * answered from the rows of requests, as far back as those are kept; the answer states from when.
 */
import { sql } from 'kysely'
import { formatDollars } from '../../core/money.ts'
import { DEMO } from '../../core/provider.ts'
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
/** ms of requests that one statement sums up. */
const PART = 6 * HOUR

/** A part of a span with the start of its bucket; undefined: it has hours, or there are no buckets. */
type SpanPart = { readonly start: string | number | undefined; readonly span: SummedRows }

/** How a report is read: at once, or in parts of which each is a bucket, or part of the only one. */
type ReportPlan = { readonly range: TimeRange } & (
  | { readonly span: SummedRows }
  | { readonly parts: readonly SpanPart[] }
)

export const usageReport = async (reads: LedgerReads, query: UsageQuery): Promise<UsageReport> => {
  const report = nameOf(query)
  reads.parts.begin(report, query.after === null)
  const plan = await planOf(query, reads)
  const rows = 'span' in plan ? await pageIn(reads, query, plan.span) : await pageOfParts(reads, query, plan.parts)
  const page = rows.slice(0, query.limit)
  const last = page.at(-1)
  const hasMore = rows.length > query.limit && last !== undefined
  // The rows of a whole report add up to the total.
  const isWhole = query.after === null && !hasMore && !(query.bucket === 'none' && query.by.length === 0)
  const total = usageSums(isWhole ? addSums(page) : await totalOf(reads, query, plan))
  reads.parts.answered(report, hasMore)
  return {
    object: 'list',
    from: isoTime(plan.range.from),
    to: isoTime(plan.range.to),
    data: page.map((row) => usageEntry(row, query)),
    total,
    has_more: hasMore,
    next: hasMore ? encodeCursor(sortKey(last, query)) : null,
  }
}

/** All that decides the groups of a part. */
const nameOf = ({ by, filter, bucket }: UsageQuery): string => JSON.stringify([by, filter, bucket])

// ── Sources ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The dimensions that a report needs, but for leaving out the demo. */
const neededBy = ({ by, filter }: UsageQuery): readonly Dimension[] => [
  ...by,
  ...DIMENSIONS.filter((name) => filter[name] !== undefined),
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
    if (isOfModels && (!isOfKeys || query.filter.demo === false)) return { range, span: { of: 'model days', ...span } }
    const demo = query.filter.demo === false ? await demoDays(reads, span) : NO_DAYS
    return demo.size === 0 ? { range, span: { of: 'key days', ...span } } : planAround(demo, query, reads, range)
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
  return { range: found, parts: inBuckets(query, partsOf(read, zoneDays(zone), 'requests')) }
}

const inBuckets = ({ bucket }: UsageQuery, parts: readonly SpanPart[]): readonly SpanPart[] =>
  bucket === 'day' ? parts : parts.map(({ span }) => ({ start: undefined, span }))

const NO_DAYS: ReadonlySet<string> = new Set()

/** The days on which the demo was used. Totals by key do not have the provider. */
const demoDays = async (
  { db }: LedgerReads,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<ReadonlySet<string>> => {
  const days = await db
    .selectFrom('usage_model')
    .select('day')
    .distinct()
    .where('day', '>=', from)
    .where('day', '<', to)
    .where('provider', '=', DEMO)
    .execute()
  return new Set(days.map(({ day }) => day))
}

/** Days of totals by key, but for those on which the demo was used, which are read from rows. */
const planAround = async (
  demo: ReadonlySet<string>,
  query: UsageQuery,
  reads: LedgerReads,
  range: TimeRange,
): Promise<ReportPlan> => {
  const dayOf = daysIn(reads.timezone)
  const first = await firstReceived(reads)
  const isKept = first === null || [...demo].every((day) => day >= dayOf(first))
  const found = { ...range, from: isKept ? range.from : Math.min(range.to, bucketStart(dayOf)(first)) }
  const days = partsOf({ ...found, to: Math.min(found.to, reads.now + DAY) }, dayOf, 'requests')
  const parts = days.map(({ start, span }): SpanPart => {
    const [from, to] = [dayOf(Number(span.from)), dayOf(Number(span.to))]
    return demo.has(from) ? { start, span } : { start, span: { of: 'key days', from, to } }
  })
  return { range: found, parts: inBuckets(query, parts) }
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
  const { by, limit, after } = query
  if (query.bucket === 'none') return by.length === 0 ? [] : mergedPage(reads, query, parts)
  const rows: SumsRow[] = []
  const [first] = after ?? []
  for (const { start, span } of parts) {
    if (first !== undefined && (start === undefined ? Number(first) >= Number(span.to) : start < first)) continue
    for (const row of await groupsOfPart(reads, query, span)) {
      const shown = { ...row, ...(start !== undefined && { start }) }
      if ((row.requests > 0 || row.attempts > 0) && isAfter(sortKey(shown, query), after)) rows.push(shown)
    }
    if (rows.length > limit) break
  }
  return rows.slice(0, limit + 1)
}

/** Whether a row comes after that of a cursor. Keys of one list have values of the same types. */
const isAfter = (key: CursorValues, after: CursorValues | null): boolean => {
  if (after?.length !== key.length) return after === null
  for (const [index, value] of key.entries()) {
    const other = after[index] ?? ''
    if (value !== other) return value > other
  }
  return false
}

/** All groups of a part of a report, in their order. Those of rows are kept while the report is not complete. */
const groupsOfPart = async (reads: LedgerReads, query: UsageQuery, span: SummedRows): Promise<readonly SumsRow[]> => {
  const { by, filter, bucket } = query
  const read = async (part: SummedRows) => {
    await reads.turn()
    const grouping = { by, filter, period: bucket === 'hour' }
    const groups = await groupsIn(reads, part, grouping, { after: null, limit: MOST_GROUPS + 1 })
    return groups.length > MOST_GROUPS ? reads.tooMuch() : groups
  }
  if (span.of !== 'requests') return read(span)
  const parts: (readonly SumsRow[])[] = []
  for (let { from } = span; from < span.to; from += PART) {
    const part = { ...span, from, to: Math.min(span.to, from + PART) }
    parts.push(await reads.parts.get(nameOf(query), `${part.from} ${part.to}`, reads.now, () => read(part)))
  }
  return joined(parts, query)
}

/** The groups of parts, added up. Names of groups are in the order of the text. */
const joined = (parts: readonly (readonly SumsRow[])[], { by }: UsageQuery): readonly SumsRow[] => {
  const [first, ...others] = parts
  if (others.length === 0) return first ?? []
  const groups = new Map<string, SumsRow>()
  for (const row of parts.flat()) {
    const name = [row.start ?? '', ...by.map((dimension) => row[dimension] ?? '')].join('\0')
    const known = groups.get(name)
    groups.set(name, known ? { ...row, ...addSums([known, row]) } : row)
  }
  return [...groups].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
}

/** Groups of all parts, added up. */
const mergedPage = async (
  reads: LedgerReads,
  query: UsageQuery,
  parts: readonly SpanPart[],
): Promise<readonly SumsRow[]> => {
  const { after, limit } = query
  let groups: readonly SumsRow[] = []
  for (const { span } of parts) {
    groups = joined([groups, await groupsOfPart(reads, query, span)], query)
    if (groups.length > MOST_GROUPS) reads.tooMuch()
  }
  return groups.filter((row) => isAfter(sortKey(row, query), after)).slice(0, limit + 1)
}

/** Read where the filter alone allows it. Otherwise the groups of all parts are added up. */
const totalOf = async (reads: LedgerReads, query: UsageQuery, { range }: ReportPlan): Promise<TotalCounts> => {
  const { bucket, filter } = query
  const plan = await planOf({ ...query, ...range, by: [], bucket: bucket === 'hour' ? 'hour' : 'none' }, reads)
  if ('span' in plan) {
    const [total] = await groupsIn(reads, plan.span, { by: [], filter, period: false }, { after: null, limit: 1 })
    return total ?? NO_COUNTS
  }
  const sums: SumsRow[] = []
  for (const { span } of plan.parts) sums.push(...(await groupsOfPart(reads, query, span)))
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
