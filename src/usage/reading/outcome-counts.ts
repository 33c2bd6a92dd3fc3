/** Requests by outcome and time: from hourly sums where buckets and filter allow it, otherwise from rows. */
import { type Expression, sql } from 'kysely'
import { MAX_NANO } from '../../core/money.ts'
import type { TotalCounts } from '../columns/usage-schema.ts'
import { FAILED, FELL_BACK, requestCondition, usageCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import type { OutcomeCounts, RequestFilter, TimeRange, UsageFilter } from './queries.ts'
import type { ReadCounts } from './report-memory.ts'
import { added, hoursIn } from './usage-source.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Widths of buckets in ms. */
const WIDTHS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY),
]

/** The width of at most `most` buckets; a range of a day or more has buckets of whole hours. */
export const bucketWidth = ({ from, to }: TimeRange, most: number): number => {
  const least = to - from >= DAY ? HOUR : SECOND
  const isEnough = (width: number) => width >= least && Math.ceil(to / width) - Math.floor(from / width) <= most
  return WIDTHS.find(isEnough) ?? Math.ceil((2 * (to - from)) / most / DAY) * DAY
}

/** Multiples of a width that cover the range. */
export const bucketsOf = ({ from, to }: TimeRange, width: number): readonly TimeRange[] => {
  const buckets: TimeRange[] = []
  for (let start = Math.floor(from / width) * width; start < to; start += width)
    buckets.push({ from: start, to: start + width })
  return buckets
}

/** The number of rows that meet a condition. */
export const countWhere = (condition: Expression<unknown>) => sql<number>`count(*) FILTER (WHERE ${condition})`

/** Counts, and amounts in nano-dollars. */
export type BucketCounts = OutcomeCounts & { readonly cost: number; readonly saved: number }

/** The value of a bucket. A shared answer may take that of an earlier query; `name` states what value it is. */
export const bucketValue = <Value>(
  { memory, now }: LedgerReads,
  { name, bucket, range, filter }: { name: string; bucket: TimeRange; range: TimeRange; filter: RequestFilter },
  read: () => Promise<Value>,
): Promise<Value> =>
  memory && bucket.from >= range.from && bucket.to <= range.to
    ? memory.get(`${name} ${JSON.stringify(filter)}`, bucket, now, read)
    : read()

/** Counts of one bucket. Requests outside `range` do not count. */
export const countOutcomes = (
  reads: LedgerReads,
  bucket: TimeRange,
  range: TimeRange,
  filter: RequestFilter,
): Promise<BucketCounts> =>
  bucketValue(reads, { name: 'counts', bucket, range, filter }, () => readOutcomes(reads, bucket, range, filter))

const readOutcomes = async (
  reads: LedgerReads,
  bucket: TimeRange,
  range: TimeRange,
  filter: RequestFilter,
): Promise<BucketCounts> => {
  const sums = usageFilterOf(filter)
  const from = Math.max(bucket.from, range.from)
  // Nothing was received after now, so that the present hour has its sum too.
  const to = range.to >= reads.now ? bucket.to : Math.min(bucket.to, range.to)
  const [first, last] = [Math.ceil(from / HOUR) * HOUR, Math.floor(to / HOUR) * HOUR]
  const hours = sums && first < last ? { from: first, to: last } : { from: to, to }
  const rows: OutcomeRow[] = []
  if (sums && hours.from < hours.to) rows.push(...(await fromSums(reads, hours, sums)))
  for (const part of [
    { from, to: hours.from },
    { from: hours.to, to },
  ])
    if (part.from < part.to) rows.push(...(await fromRows(reads, part, filter)))
  const counts = { ...NOTHING }
  for (const { outcome, requests, failed, fell_back, cached, cost, saved } of rows) {
    if (isOutcome(outcome)) counts[outcome] += requests
    counts.failed = plus(counts.failed, failed)
    counts.fell_back = plus(counts.fell_back, fell_back)
    counts.cached = plus(counts.cached, cached)
    counts.cost += cost
    counts.saved += saved
  }
  return counts
}

/** Adds the counts of several buckets. */
export const addCounts = (counts: readonly BucketCounts[]): BucketCounts =>
  counts.reduce(
    (sum, one) => ({
      answered: sum.answered + one.answered,
      refused: sum.refused + one.refused,
      interrupted: sum.interrupted + one.interrupted,
      client_gone: sum.client_gone + one.client_gone,
      unknown: sum.unknown + one.unknown,
      failed: plus(sum.failed, one.failed),
      fell_back: plus(sum.fell_back, one.fell_back),
      cached: plus(sum.cached, one.cached),
      cost: Math.min(MAX_NANO, sum.cost + one.cost),
      saved: Math.min(MAX_NANO, sum.saved + one.saved),
    }),
    NOTHING,
  )

/** The counts without the amounts. */
export const outcomesOf = ({ cost: _cost, saved: _saved, ...counts }: BucketCounts): OutcomeCounts => counts

/** The share of requests that were answered, of those that the gateway could answer; null: there was none, or it is unknown. */
export const answeredShare = ({ answered, failed, interrupted, unknown }: OutcomeCounts): number | null => {
  if (failed === null) return null
  const answerable = answered + failed + interrupted + unknown
  return answerable === 0 ? null : answered / answerable
}

export const requestsIn = ({ answered, refused, interrupted, client_gone, unknown }: OutcomeCounts): number =>
  answered + refused + interrupted + client_gone + unknown

const NOTHING: BucketCounts = {
  answered: 0,
  refused: 0,
  interrupted: 0,
  client_gone: 0,
  unknown: 0,
  failed: 0,
  fell_back: 0,
  cached: 0,
  cost: 0,
  saved: 0,
}

const OUTCOMES = ['answered', 'refused', 'interrupted', 'client_gone', 'unknown'] as const
const isOutcome = (outcome: string): outcome is (typeof OUTCOMES)[number] => OUTCOMES.some((known) => known === outcome)
const plus = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? null : one + other

type OutcomeRow = {
  readonly outcome: string
  readonly requests: number
  readonly failed: number | null
  readonly fell_back: number | null
  readonly cached: number | null
  readonly cost: number
  readonly saved: number
}

/** The filter as one of hourly sums; null if they do not have one of its columns. */
const usageFilterOf = (filter: RequestFilter): UsageFilter | null => {
  const { provider, model, style, route, client, demo } = filter
  const sums = { provider, model, style, route, client, demo }
  if (Object.entries(filter).some(([name, value]) => value !== undefined && !(name in sums))) return null
  return Object.fromEntries(Object.entries(sums).filter(([, value]) => value !== undefined))
}

const fromSums = async (
  { db }: LedgerReads,
  { from, to }: TimeRange,
  filter: UsageFilter,
): Promise<readonly OutcomeRow[]> => {
  const sum = (name: keyof TotalCounts) => sql<number>`coalesce(sum(${sql.ref(name)}), 0)`.as(name)
  const found = await hoursIn(db, { from, to })
    .where(usageCondition(filter))
    .select(['requests', 'refused', 'interrupted', 'client_gone', 'unknown'].map((name) => sum(name as 'requests')))
    .select(added('server_error'))
    .select([sum('fell_back'), sum('cached'), sum('cost'), sum('saved')])
    .executeTakeFirst()
  if (!found) return []
  const { requests, server_error: failed, fell_back, cached, cost, saved, ...others } = found as ReadCounts
  const none = { failed: 0, fell_back: 0, cached: 0, cost: 0, saved: 0 }
  const answered = requests - others.refused - others.interrupted - others.client_gone - others.unknown
  return [
    { outcome: 'answered', requests: answered, failed, fell_back, cached, cost, saved },
    ...OUTCOMES.flatMap((outcome) => (outcome === 'answered' ? [] : [{ outcome, requests: others[outcome], ...none }])),
  ]
}

const fromRows = (
  { db }: LedgerReads,
  { from, to }: TimeRange,
  filter: RequestFilter,
): Promise<readonly OutcomeRow[]> =>
  db
    .selectFrom('request')
    .where('received', '>=', from)
    .where('received', '<', to)
    .where(requestCondition(filter))
    .groupBy('outcome')
    .select([
      'outcome',
      sql<number>`count(*)`.as('requests'),
      countWhere(sql.raw(FAILED)).as('failed'),
      countWhere(FELL_BACK).as('fell_back'),
      countWhere(sql`cache IN ('hit', 'shared')`).as('cached'),
      sql<number>`coalesce(sum(cost), 0)`.as('cost'),
      sql<number>`sum(saved)`.as('saved'),
    ])
    .execute()
