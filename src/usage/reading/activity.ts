/** What all providers did in a range, and the attempts that are in progress. */
import { sql } from 'kysely'
import { KINDS } from '../../core/failure.ts'
import type { AttemptOpened } from '../../core/journal.ts'
import { decodeLine, decodeOpened } from '../journal/journal-record.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf, bucketWidth, countWhere } from './outcome-counts.ts'
import type {
  Activity,
  ActivityCell,
  ActivityQuery,
  OngoingAttempts,
  OngoingQuery,
  ProviderActivity,
  TimeRange,
} from './queries.ts'
import { isoTime } from './request-shape.ts'
import { type ReadBuckets, readNewest } from './slices.ts'

/** Providers of a result, latencies that are read for one, kinds of errors for one, attempts in progress, and calls with those. */
const MOST = { providers: 200, sample: 1_000, errors: 20, running: 100, open: 10_000 }
/** Rate limits and quotas. */
export const LIMITED = ['rate_limited', 'token_rate', 'quota']
/** Failures that a circuit counts. */
export const UNHEALTHY = Object.entries(KINDS).flatMap(([kind, row]) => (row.charges === null ? [] : [kind]))
/** Upper bounds of the histogram's bars, in ms; the last bar has none. */
const BOUNDS = Array.from({ length: 14 }, (_, power) => 16 * 2 ** power)

/** ms for which attempts of a request begin. */
const LATER = 3_600_000
/** Parts in which attempts are read, and the least width of one in ms. */
const PARTS = { most: 250, width: 300_000 }

/** Attempts that began in the range, of complete requests that were received in a part of it. */
export const attemptsIn = ({ db }: LedgerReads, part: TimeRange, { from, to }: TimeRange) =>
  db
    .selectFrom('attempt')
    .where('received', '>=', part.from)
    .where('received', '<', part.to)
    .where('started', '>=', from)
    .where('started', '<', to)

/**
 * Reads the attempts of a range by the time of receipt of their requests, the newest first. A shared answer may take what an
 * earlier query has read of a bucket, whose attempts are all in the range; `name` contains all that decides it but the bucket.
 */
export const readAttempts = <Value>(
  reads: LedgerReads,
  query: TimeRange,
  name: string,
  read: (part: TimeRange) => Promise<Value>,
): Promise<ReadBuckets<Value>> => {
  const { memory, now } = reads
  const range = { from: query.from - LATER, to: query.to }
  const isInside = (part: TimeRange) =>
    part.from >= query.from && (part.to + LATER <= query.to || (part.to <= query.to && query.to >= now))
  return readNewest(reads, bucketsOf(range, Math.max(PARTS.width, bucketWidth(range, PARTS.most))), (part) =>
    memory && isInside(part) ? memory.get(name, part, now, () => read(part)) : read(part),
  )
}

export const activityOf = async (reads: LedgerReads, query: ActivityQuery): Promise<Activity> => {
  const { from, to } = query
  const width = bucketWidth(query, query.cells)
  const counted = await readAttempts(reads, query, `activity ${width}`, (part) => groupsOf(reads, part, query, width))
  const groups = Map.groupBy(
    counted.buckets.flatMap(({ value }) => value),
    ({ provider }) => provider,
  )
  const samples = await samplesOf(reads, query, counted)
  const cells = [...groups].flatMap(([provider, own]) => cellsOf(provider, own))
  const byProvider = Map.groupBy(withOpen(cells, await openIn(reads, query), width), ({ provider }) => provider)
  const data = [...byProvider].slice(0, MOST.providers).map(([provider, own]): ProviderActivity => {
    const sum = (name: 'attempts' | 'failed' | 'limited') => own.reduce((total, cell) => total + cell[name], 0)
    return {
      provider,
      attempts: sum('attempts'),
      failed: sum('failed'),
      limited: sum('limited'),
      ...latenciesOf(samples.get(provider) ?? []),
      histogram: histogramOf(groups.get(provider) ?? []),
      errors: errorsOf(groups.get(provider) ?? []),
      cells: own.map(({ provider: _, start, ...cell }) => ({ start: isoTime(start), ...cell })),
    }
  })
  return {
    object: 'activity',
    from: isoTime(from),
    to: isoTime(to),
    searched_until: searchedUntil(counted, query),
    seconds: width / 1_000,
    data,
  }
}

/** The time as results state it: null also if only attempts of requests from before the range were left. */
export const searchedUntil = ({ searchedUntil: until }: ReadBuckets<unknown>, { from }: TimeRange): string | null =>
  until === null || until <= from ? null : isoTime(until)

// ── Attempts of a part ───────────────────────────────────────────────────────────────────────────────────────────────

/** Attempts at a provider in a cell with the same outcome. `within`: those that took at most so long (`BOUNDS`), if they succeeded. */
type AttemptGroup = {
  readonly provider: string
  readonly start: number
  readonly outcome: string
  readonly kind: string | null
  readonly status: number | null
  readonly attempts: number
  readonly last: number
  readonly slowest_ms: number | null
  readonly within: readonly number[]
  readonly completed: number
}

const groupsOf = async (
  reads: LedgerReads,
  part: TimeRange,
  range: TimeRange,
  width: number,
): Promise<readonly AttemptGroup[]> => {
  const isOf = (most: number) => sql`outcome = 'ok' AND took <= ${sql.lit(most)}`
  const rows = await reads.db
    // An attempt is a text that is parsed: once for all of these.
    .with(
      (cte) => cte('taken').materialized(),
      () =>
        attemptsIn(reads, part, range).select([
          'provider',
          'outcome',
          'kind',
          'status',
          'started',
          sql<number | null>`ended - started`.as('took'),
        ]),
    )
    .selectFrom('taken')
    .select([
      'provider',
      // A bound number would be a fraction.
      sql<number>`started / ${sql.lit(width)} * ${sql.lit(width)}`.as('start'),
      'outcome',
      'kind',
      'status',
      sql<number>`count(*)`.as('attempts'),
      sql<number>`max(started)`.as('last'),
      sql<number | null>`max(took)`.as('slowest_ms'),
      countWhere(sql`outcome = 'ok' AND took IS NOT NULL`).as('completed'),
      ...BOUNDS.map((most, index) => countWhere(isOf(most)).as(`b${index}`)),
    ])
    .groupBy(['provider', 'start', 'outcome', 'kind', 'status'])
    .execute()
  return rows.map(({ provider, start, outcome, kind, status, attempts, last, slowest_ms, completed, ...bars }) => {
    const counts = new Map(Object.entries(bars))
    const within = BOUNDS.map((_, index) => Number(counts.get(`b${index}`)))
    return { provider, start, outcome, kind, status, attempts, last, slowest_ms, completed, within }
  })
}

const isLimited = ({ outcome, kind }: AttemptGroup) => outcome === 'failed' && LIMITED.includes(kind ?? '')
const isFailed = ({ outcome, kind }: AttemptGroup) =>
  outcome === 'interrupted' || (outcome === 'failed' && UNHEALTHY.includes(kind ?? ''))

const cellsOf = (provider: string, groups: readonly AttemptGroup[]): readonly CountedCell[] => {
  const cells = new Map<number, CountedCell>()
  for (const group of groups) {
    const { start, attempts, slowest_ms } = group
    const known = cells.get(start) ?? { provider, start, attempts: 0, failed: 0, limited: 0, slowest_ms: null }
    cells.set(start, {
      ...known,
      attempts: known.attempts + attempts,
      failed: known.failed + (isFailed(group) ? attempts : 0),
      limited: known.limited + (isLimited(group) ? attempts : 0),
      slowest_ms: slowest_ms === null ? known.slowest_ms : Math.max(slowest_ms, known.slowest_ms ?? 0),
    })
  }
  return [...cells.values()]
}

/** All completed attempts by duration. */
const histogramOf = (groups: readonly AttemptGroup[]): ProviderActivity['histogram'] => {
  const upTo = (index: number): number =>
    groups.reduce((sum, { within, completed }) => sum + (within[index] ?? completed), 0)
  return [...BOUNDS, null].map((most_ms, index) => ({
    most_ms,
    attempts: upTo(index) - (index === 0 ? 0 : upTo(index - 1)),
  }))
}

const errorsOf = (groups: readonly AttemptGroup[]): ProviderActivity['errors'] => {
  const failures = groups.filter(({ outcome }) => outcome === 'failed' || outcome === 'interrupted')
  const errors = Map.groupBy(failures, ({ kind, outcome, status }) => JSON.stringify([kind ?? outcome, status]))
  return [...errors.values()]
    .flatMap((same) => {
      const [one] = same
      if (!one) return []
      const count = same.reduce((sum, { attempts }) => sum + attempts, 0)
      const last_at = isoTime(Math.max(...same.map(({ last }) => last)))
      return [{ kind: one.kind ?? one.outcome, status: one.status, count, last_at }]
    })
    .sort((one, other) => other.count - one.count || (one.kind < other.kind ? -1 : 1))
    .slice(0, MOST.errors)
}

// ── Latencies ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Sample = { readonly total: number; readonly first_content_ms: number | null }

/** The newest completed attempts of each provider, at most `MOST.sample`, of parts that have any. */
const samplesOf = async (
  reads: LedgerReads,
  range: TimeRange,
  { buckets }: ReadBuckets<readonly AttemptGroup[]>,
): Promise<ReadonlyMap<string, readonly Sample[]>> => {
  const samples = new Map<string, Sample[]>()
  const isLacking = (provider: string) => (samples.get(provider)?.length ?? 0) < MOST.sample
  for (const { range: part, value } of buckets.toReversed()) {
    const lacking = value.flatMap(({ provider, completed }) => (completed > 0 && isLacking(provider) ? [provider] : []))
    if (lacking.length === 0) continue
    if (samples.size > 0 && reads.isOver('samples')) break
    await reads.turn()
    const newest = attemptsIn(reads, part, range)
      .select([
        'provider',
        'first_content_ms',
        sql<number>`ended - started`.as('total'),
        sql<number>`row_number() OVER (PARTITION BY provider ORDER BY started DESC)`.as('rank'),
      ])
      .where('provider', 'in', [...new Set(lacking)])
      .where('outcome', '=', 'ok')
      .where('ended', 'is not', null)
    const found = await reads.db
      .selectFrom(newest.as('newest'))
      .select(['provider', 'total', 'first_content_ms'])
      .where('rank', '<=', MOST.sample)
      .orderBy('provider')
      .orderBy('rank')
      .execute()
    for (const [provider, rows] of Map.groupBy(found, (row) => row.provider)) {
      const known = samples.get(provider) ?? []
      samples.set(provider, [...known, ...rows].slice(0, MOST.sample))
    }
  }
  return samples
}

const latenciesOf = (sample: readonly Sample[]) => {
  const totals = sample.map(({ total }) => total).sort((one, other) => one - other)
  const firsts = sample.flatMap(({ first_content_ms: ms }) => ms ?? []).sort((one, other) => one - other)
  return {
    p50_ms: quantile(totals, 0.5),
    p95_ms: quantile(totals, 0.95),
    first_content_p50_ms: quantile(firsts, 0.5),
  }
}

export const quantile = (sorted: readonly number[], share: number): number | null =>
  sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null

// ── Attempts in progress ─────────────────────────────────────────────────────────────────────────────────────────────

type CountedCell = Omit<ActivityCell, 'start'> & { readonly provider: string; readonly start: number }

/** Adds attempts in progress to the cells in which they began. In the order of providers and time. */
const withOpen = (
  cells: readonly CountedCell[],
  open: readonly AttemptOpened[],
  width: number,
): readonly CountedCell[] => {
  const found = new Map(cells.map((cell) => [`${cell.start} ${cell.provider}`, cell]))
  for (const { provider, at } of open) {
    const start = Math.floor(at / width) * width
    const known = found.get(`${start} ${provider}`)
    const cell = known ?? { provider, start, attempts: 0, failed: 0, limited: 0, slowest_ms: null }
    found.set(`${start} ${provider}`, { ...cell, attempts: cell.attempts + 1 })
  }
  return [...found.values()].sort((one, other) =>
    one.provider === other.provider ? one.start - other.start : one.provider < other.provider ? -1 : 1,
  )
}

/** Attempts in progress that began in the range. */
export const openIn = async ({ db }: LedgerReads, { from, to }: TimeRange): Promise<readonly AttemptOpened[]> => {
  const calls = await db.selectFrom('open_call').select('records').where('running', '>', 0).limit(MOST.open).execute()
  return calls.flatMap(({ records }) => runningIn(records)).filter(({ at }) => at >= from && at < to)
}

/** The longest first, with the number of all requests that have one. */
export const runningOf = async ({ db }: LedgerReads, { teams }: OngoingQuery): Promise<OngoingAttempts> => {
  let calls = db.selectFrom('open_call').where('running', '>', 0)
  if (teams !== null) calls = calls.where('team', 'in', teams)
  const rows = await calls
    .select('records')
    .orderBy('started')
    .limit(MOST.running + 1)
    .execute()
  const total =
    rows.length > MOST.running
      ? await calls.select(sql<number>`count(*)`.as('total')).executeTakeFirst()
      : { total: rows.length }
  const attempts = rows.flatMap(({ records }) => runningIn(records)).sort((one, other) => one.at - other.at)
  return {
    object: 'list',
    data: attempts.slice(0, MOST.running).map(({ request, attempt, at, provider, model, credential, key, team }) => ({
      request,
      n: attempt,
      started_at: isoTime(at),
      provider,
      model,
      credential,
      key: key === null ? null : { id: key, name: null },
      team: team === null ? null : { id: team, name: null },
    })),
    total: Number(total?.total ?? 0),
    has_more: attempts.length > MOST.running,
    next: null,
  }
}

/** The attempts in progress that the records of an open call state. */
const runningIn = (records: string): readonly AttemptOpened[] => {
  const running = new Map<number, string>()
  for (const text of records.split('\n')) {
    const line = decodeLine(text)
    if (line?.type === 'opened') running.set(line.attempt, text)
    if (line?.type === 'closed') running.delete(line.attempt)
    if (line?.type === 'ended') for (const [n] of line.attempts) running.delete(Number(n))
  }
  return [...running.values()].map(decodeOpened)
}
