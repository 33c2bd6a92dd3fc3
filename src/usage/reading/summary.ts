/** Figures of the overview: requests by outcome, latencies and cost, over time and in total. */
import { formatDollars } from '../../core/money.ts'
import { requestCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import {
  addCounts,
  answeredShare,
  type BucketCounts,
  bucketsOf,
  bucketValue,
  bucketWidth,
  countOutcomes,
  outcomesOf,
  requestsIn,
} from './outcome-counts.ts'
import type { RequestFilter, Summary, SummaryFigures, SummaryQuery, TimeRange } from './queries.ts'
import { isoTime } from './request-shape.ts'
import { readNewest } from './slices.ts'

/** Points of the series, and of the range before. */
const POINTS = { series: 120, before: 24 }
/** Requests per point whose latencies are read. */
const SAMPLE = 400

/** A point: its counts, and a sample of its latencies. */
type SummaryPoint = { readonly range: TimeRange; readonly counts: BucketCounts; readonly sample: readonly Latencies[] }
type Latencies = {
  readonly total_ms: number | null
  readonly first_content_ms: number | null
  readonly overhead_us: number | null
}

export const summaryOf = async (reads: LedgerReads, query: SummaryQuery): Promise<Summary> => {
  const { from, to, filter } = query
  const width = bucketWidth(query, POINTS.series)
  const { points, searchedUntil } = await pointsIn(reads, query, filter, width)
  const earlier = { from: from - (to - from), to: from }
  const read = { from: searchedUntil ?? from, to }
  const before =
    query.compare && searchedUntil === null
      ? await pointsIn(reads, earlier, filter, bucketWidth(earlier, POINTS.before))
      : null
  return {
    object: 'summary',
    from: isoTime(from),
    to: isoTime(to),
    searched_until: searchedUntil === null ? null : isoTime(searchedUntil),
    seconds: width / 1_000,
    figures: figuresOf(points, read),
    before: before?.searchedUntil === null ? figuresOf(before.points, earlier) : null,
    series: points.map((point) => ({ start: isoTime(point.range.from), ...figuresOf([point], point.range) })),
  }
}

const pointsIn = async (
  reads: LedgerReads,
  range: TimeRange,
  filter: RequestFilter,
  width: number,
): Promise<{ readonly points: readonly SummaryPoint[]; readonly searchedUntil: number | null }> => {
  const { buckets, searchedUntil } = await readNewest(reads, bucketsOf(range, width), async (bucket) => {
    const counts = await countOutcomes(reads, bucket, range, filter)
    const sample = requestsIn(counts) === 0 ? [] : await sampleOf(reads, bucket, range, filter)
    return { counts, sample }
  })
  return { points: buckets.map(({ range, value }) => ({ range, ...value })), searchedUntil }
}

const sampleOf = (
  reads: LedgerReads,
  bucket: TimeRange,
  range: TimeRange,
  filter: RequestFilter,
): Promise<readonly Latencies[]> =>
  bucketValue(reads, { name: 'latencies', bucket, range, filter }, () => readSample(reads, bucket, range, filter))

const readSample = (
  { db }: LedgerReads,
  bucket: TimeRange,
  range: TimeRange,
  filter: RequestFilter,
): Promise<readonly Latencies[]> =>
  db
    .selectFrom('request')
    .select(['total_ms', 'first_content_ms', 'overhead_us'])
    .where('received', '>=', Math.max(bucket.from, range.from))
    .where('received', '<', Math.min(bucket.to, range.to))
    .where('outcome', '=', 'answered')
    .where(requestCondition(filter))
    .orderBy('received', 'desc')
    .limit(SAMPLE)
    .execute()

const figuresOf = (points: readonly SummaryPoint[], { from, to }: TimeRange): SummaryFigures => {
  const counts = addCounts(points.map((point) => point.counts))
  const requests = requestsIn(counts)
  const quantile = (name: keyof Latencies, share: number) => weightedQuantile(points, name, share)
  return {
    requests,
    per_minute: Math.round((requests / Math.max(1, (to - from) / 60_000)) * 100) / 100,
    answered_share: answeredShare(counts),
    outcomes: outcomesOf(counts),
    p50_ms: quantile('total_ms', 0.5),
    p95_ms: quantile('total_ms', 0.95),
    first_content_p50_ms: quantile('first_content_ms', 0.5),
    first_content_p95_ms: quantile('first_content_ms', 0.95),
    overhead_p95_us: quantile('overhead_us', 0.95),
    cost: formatDollars(counts.cost),
    saved: formatDollars(counts.saved),
  }
}

/** The quantile of a latency of answered requests. Each sampled value counts for as many as it was taken from. */
const weightedQuantile = (points: readonly SummaryPoint[], name: keyof Latencies, share: number): number | null => {
  const values = points.flatMap(({ counts, sample }) => {
    const weight = Math.max(1, counts.answered / Math.max(1, sample.length))
    return sample.flatMap((latencies) => {
      const value = latencies[name]
      return value === null ? [] : [{ value, weight }]
    })
  })
  values.sort((one, other) => one.value - other.value)
  let left = share * values.reduce((sum, { weight }) => sum + weight, 0)
  for (const { value, weight } of values) {
    left -= weight
    if (left <= 0) return value
  }
  return values.at(-1)?.value ?? null
}
