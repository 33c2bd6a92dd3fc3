/**
 * Usage and cost by time and dimension. Totals of days have all dimensions, totals of hours those of targets. What is left, such as
 * keys by hour and days of another zone, is added up from the rows of requests, as far back as those are kept; the answer states
 * from when. That takes as long as there are rows: an answer whose time is over states how far it came, and its cursor continues.
 */
import { sql } from 'kysely'
import { formatDollars } from '../../core/money.ts'
import { daysIn } from '../bookkeeper/zone-days.ts'
import { nextWidth, WIDTH } from '../columns/time-slices.ts'
import { NO_COUNTS } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import { DAY, type DayOf, dayAfter, dayStarts, HOUR, type StartOf } from './days.ts'
import type { LedgerReads } from './ledger-source.ts'
import {
  type CursorValues,
  ROW_DIMENSIONS,
  type TimeRange,
  type UsageEntry,
  type UsageQuery,
  type UsageReport,
  type UsageSums,
} from './queries.ts'
import type { KeptReport, ReadCounts, ReportPiece, ReportPlan, SumsRow } from './report-memory.ts'
import { isoTime } from './request-shape.ts'
import { addSums, groupsIn, HOUR_DIMENSIONS, type SummedRows } from './usage-source.ts'

/** Range in ms up to which hours of totals are summed where no buckets are asked for. */
const HOURS_UP_TO = 31 * DAY
/** ms of the shortest buckets. */
const FIVE = 300_000
const widthOf = (bucket: UsageQuery['bucket']): number => (bucket === '5m' ? FIVE : HOUR)
/** Groups of a part that are added up in memory. */
const MOST_GROUPS = 100_000

/** The rows of a page and one more, and the sum of all rows. `until`: later ones are added up; null: all are. */
type FoundRows = {
  readonly range: TimeRange
  readonly rows: readonly SumsRow[]
  readonly total: ReadCounts
  readonly until: number | null
}

export const usageReport = async (reads: LedgerReads, query: UsageQuery): Promise<UsageReport> => {
  const range = askedRange(query, reads)
  const totals = totalsOf(query, range, reads)
  const { rows, total, until, ...found } = totals
    ? await pageOfTotals(reads, query, range, totals)
    : await addUp(reads, query, range)
  const page = rows.slice(0, query.limit)
  const last = page.at(-1)
  const hasMore = rows.length > query.limit && last !== undefined
  const next = hasMore ? sortKey(last, query) : until === null ? null : (query.after ?? [])
  return {
    object: 'list',
    from: isoTime(found.range.from),
    to: isoTime(found.range.to),
    searched_until: until === null ? null : isoTime(until),
    data: page.map((row) => usageEntry(row, query)),
    total: usageSums(total),
    has_more: next !== null,
    next: next && encodeCursor(next),
  }
}

// ── Ranges ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The zone of days. */
const zoneOf = ({ bucket, tz }: UsageQuery, { timezone }: LedgerReads): string =>
  bucket === 'day' ? (tz ?? timezone) : timezone

/** The range, extended to whole hours, or to whole days of the zone. */
const askedRange = (query: UsageQuery, reads: LedgerReads): TimeRange => {
  const { bucket, from, to, sort } = query
  if (sort) return { from, to }
  if (bucket === '5m') return { from: Math.floor(from / FIVE) * FIVE, to: Math.ceil(to / FIVE) * FIVE }
  const hours = { from: Math.floor(from / HOUR) * HOUR, to: Math.ceil(to / HOUR) * HOUR }
  if (bucket === 'hour') return hours
  const startOfDay = dayStarts(daysIn(zoneOf(query, reads)))
  const first = startOfDay(from)
  const days = { from: first, to: to <= from ? first : dayAfter(startOfDay, to - 1) }
  return bucket === 'day' || (first === from && (days.to === to || isOpen(hours, reads))) ? days : hours
}

/** Nothing is recorded after it. The query is read some ms after it was made. */
const isOpen = ({ to }: TimeRange, { now }: LedgerReads): boolean => to >= now

// ── Totals ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const isOfTargets = ({ by, filter }: UsageQuery): boolean =>
  ROW_DIMENSIONS.every((name) => HOUR_DIMENSIONS.includes(name) || !(by.includes(name) || filter[name]))

/** No totals have sessions. */
const isOfRows = ({ by, filter }: UsageQuery): boolean => by.includes('session') || filter.session !== undefined

/** The totals that answer a query alone. */
const totalsOf = (query: UsageQuery, range: TimeRange, reads: LedgerReads): SummedRows | null => {
  if (isOfRows(query) || query.sort || query.bucket === '5m') return null
  const { timezone, keepHours, now } = reads
  const { bucket, from, to } = query
  const isShort = now - from <= keepHours * DAY && to - from <= HOURS_UP_TO
  const dayOf = daysIn(timezone)
  const isOfDays = bucket !== 'hour' && [range.from, range.to].every((at) => dayStarts(dayOf)(at) === at)
  if (isOfDays && zoneOf(query, reads) === timezone) return { of: 'days', from: dayOf(range.from), to: dayOf(range.to) }
  return bucket !== 'day' && isOfTargets(query) && (bucket === 'hour' || isShort) ? { of: 'hours', ...range } : null
}

const pageOfTotals = async (
  reads: LedgerReads,
  query: UsageQuery,
  range: TimeRange,
  totals: SummedRows,
): Promise<FoundRows> => {
  const { by, filter, bucket, after, limit } = query
  const isSum = bucket === 'none' && by.length === 0
  const grouping = { by, filter, period: bucket !== 'none' }
  const rows = isSum ? [] : await groupsIn(reads, totals, grouping, { after, limit: limit + 1 })
  const isWhole = after === null && rows.length <= limit && !isSum
  const [sum] = isWhole ? [] : await groupsIn(reads, totals, { ...grouping, by: [], period: false }, WHOLE)
  // The rows of a whole report add up to the total.
  return { range, rows, total: isWhole ? addSums(rows) : (sum ?? NO_COUNTS), until: null }
}
const WHOLE = { after: null, limit: 1 }

// ── Pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Adds up the newest piece first, until the time is over. */
const addUp = async (reads: LedgerReads, query: UsageQuery, range: TimeRange): Promise<FoundRows> => {
  const { by, filter, bucket, after, limit, sort } = query
  const end = isOpen(range, reads) || range.to
  const name = JSON.stringify([by, filter, bucket, zoneOf(query, reads), range.from, end, sort])
  const report = await reads.reports.get(name, after === null, reads.now, () => planOf(reads, query, range))
  for (let read = 0; report.left.length > 0 && !(read > 0 && reads.isOver('buckets')); read++) {
    if (read > 0) await reads.turn()
    await addNewest(reads, query, report)
    if (!reads.reports.hasRoom(report)) reads.tooMuch()
  }
  const until = report.left.at(-1)?.range.to ?? null
  const groups = [...report.groups].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
  const total = addSums(groups)
  if (until !== null || (bucket === 'none' && by.length === 0)) return { range: report.range, rows: [], total, until }
  if (sort) {
    reads.reports.answered(name, report, false)
    return { range: report.range, rows: groups.toSorted((a, b) => b.cost - a.cost).slice(0, limit), total, until }
  }
  const rows = groups.filter((row) => isAfter(sortKey(row, query), after)).slice(0, limit + 1)
  reads.reports.answered(name, report, rows.length > limit)
  return { range: report.range, rows, total, until }
}

/** Adds the newest part of what is left. */
const addNewest = async (reads: LedgerReads, { by, filter, bucket }: UsageQuery, report: KeptReport): Promise<void> => {
  const piece = report.left.at(-1)
  if (!piece) return
  const { from, to } = piece.range
  const cut = piece.of === 'requests' ? Math.max(from, to - report.width) : from
  const dayOf = daysIn(reads.timezone)
  const span: SummedRows =
    piece.of === 'days'
      ? { of: 'days', from: dayOf(from), to: dayOf(to) }
      : { of: piece.of, from: cut, to, width: widthOf(bucket) }
  const began = reads.time()
  const grouping = { by, filter, period: bucket === 'hour' || bucket === '5m' }
  const rows = await groupsIn(reads, span, grouping, { after: null, limit: MOST_GROUPS + 1 })
  if (rows.length > MOST_GROUPS) reads.tooMuch()
  // Another query of the same report has added it meanwhile.
  if (report.left.at(-1) !== piece) return
  report.left.pop()
  if (cut > from) report.left.push({ ...piece, range: { from, to: cut } })
  if (piece.of === 'requests') report.width = nextWidth(report.width, reads.time() - began)
  for (const found of rows) {
    // A sum without groups has a row without requests.
    if (found.requests === 0 && found.attempts === 0) continue
    const row = piece.start === undefined ? found : { ...found, start: piece.start }
    const group = [row.start ?? '', ...by.map((dimension) => row[dimension] ?? '')].join('\0')
    const known = report.groups.get(group)
    report.groups.set(group, known ? { ...row, ...addSums([known, row]) } : row)
  }
}

/** Whether a row comes after that of a cursor. Keys of one list have values of the same types. */
const isAfter = (key: CursorValues, after: CursorValues | null): boolean => {
  if (after?.length !== key.length) return true
  for (const [index, value] of key.entries()) {
    const other = after[index] ?? ''
    if (value !== other) return value > other
  }
  return false
}

const planOf = async (reads: LedgerReads, query: UsageQuery, asked: TimeRange): Promise<ReportPlan> => {
  const { keepHours, now } = reads
  const width = WIDTH.first
  // Nothing is recorded in the future.
  const range = { from: asked.from, to: Math.max(asked.from, Math.min(asked.to, now + DAY)) }
  const zone = daysIn(zoneOf(query, reads))
  if (query.bucket === 'day' && isOfTargets(query)) {
    const kept = { ...range, from: Math.max(range.from, dayAfter(dayStarts(zone), now - keepHours * DAY)) }
    return { range: { ...asked, from: kept.from }, left: daysOf(kept, zone, 'hours'), width }
  }
  const first = await firstReceived(reads)
  if (query.bucket === 'none' && !isOfRows(query))
    // The most expensive are those of exactly the range, as far as its rows are kept.
    return { ...withEdges(asked, zone, isOpen(asked, reads), query.sort ? 0 : first), width }
  const startOf: StartOf =
    query.bucket === 'day' ? dayStarts(zone) : (at) => Math.floor(at / widthOf(query.bucket)) * widthOf(query.bucket)
  const found = { ...range, from: Math.min(range.to, first === null ? range.to : Math.max(range.from, startOf(first))) }
  const whole: ReportPiece = { of: 'requests', range: found, start: undefined }
  const left = query.bucket !== 'day' ? [whole] : daysOf(found, zone, 'requests')
  return { range: { ...asked, from: found.from }, left, width }
}

const firstReceived = async ({ db }: LedgerReads): Promise<number | null> => {
  const first = await db.selectFrom('request').select(sql<number | null>`min(received)`.as('at')).executeTakeFirst()
  return first?.at ?? null
}

/** The days of a range. An hour of totals belongs to the day in which it begins. */
const daysOf = ({ from, to }: TimeRange, dayOf: DayOf, of: 'hours' | 'requests'): ReportPiece[] => {
  const step = of === 'requests' ? HOUR / 4 : HOUR
  const days: ReportPiece[] = []
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const start = dayOf(at)
    const last = days.at(-1)
    if (last?.start === start) days.pop()
    days.push({ of, start, range: { from: last?.start === start ? last.range.from : at, to: at + step } })
  }
  return days
}

/**
 * A range as whole days of totals, with the rest of its first and of its last day from the rows. Where these are not kept any more,
 * the whole day.
 */
const withEdges = (
  range: TimeRange,
  dayOf: DayOf,
  isEndless: boolean,
  first: number | null,
): Omit<ReportPlan, 'width'> => {
  const startOfDay = dayStarts(dayOf)
  const isKept = (at: number): boolean => first !== null && first <= at
  const [start, last] = [startOfDay(range.from), startOfDay(range.to)]
  const from = start === range.from || !isKept(range.from) ? start : dayAfter(startOfDay, start)
  const isWholeDay = last === range.to || (!isEndless && isKept(last))
  const to = isWholeDay ? last : dayAfter(startOfDay, last)
  const piece = (of: ReportPiece['of'], from: number, to: number): ReportPiece[] =>
    from < to ? [{ of, range: { from, to }, start: undefined }] : []
  return {
    range: { from: Math.min(range.from, from), to: isEndless ? range.to : Math.max(range.to, to) },
    left: [
      ...piece('requests', range.from, Math.min(from, range.to)),
      ...piece('days', from, to),
      ...piece('requests', Math.max(from, to), range.to),
    ],
  }
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

const usageSums = (row: ReadCounts): UsageSums => ({
  requests: row.requests,
  failed: row.refused + row.interrupted + row.unknown,
  refused: row.server_error === null ? null : row.refused - row.server_error,
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
