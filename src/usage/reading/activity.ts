/** What all providers did in a range, and the attempts that are in progress. */
import { sql } from 'kysely'
import { KINDS } from '../../core/failure.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketWidth, countWhere } from './outcome-counts.ts'
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

/** Providers of a result, latencies that are read for one, kinds of errors for one, and attempts in progress. */
const MOST = { providers: 200, sample: 1_000, errors: 20, running: 100 }
/** Rate limits and quotas. */
export const LIMITED = ['rate_limited', 'token_rate', 'quota']
/** Failures that a circuit counts, and broken streams. */
const UNHEALTHY = Object.entries(KINDS).flatMap(([kind, row]) => (row.charges === null ? [] : [kind]))
/** Upper bounds of the histogram's bars, in ms; the last bar has none. */
const BOUNDS = Array.from({ length: 14 }, (_, power) => 16 * 2 ** power)

/** The kind of an error. */
const KIND = sql`coalesce(kind, outcome)`

const attemptsIn = ({ db }: LedgerReads, { from, to }: TimeRange) =>
  db.selectFrom('attempt').where('started', '>=', from).where('started', '<', to)

export const activityOf = async (reads: LedgerReads, query: ActivityQuery): Promise<Activity> => {
  const { from, to } = query
  const width = bucketWidth(query, query.cells)
  const isLimited = sql`outcome = 'failed' AND coalesce(kind, '') IN (${sql.join(LIMITED)})`
  const isFailed = sql`outcome = 'interrupted' OR (outcome = 'failed' AND coalesce(kind, '') IN (${sql.join(UNHEALTHY)}))`
  const cells = await attemptsIn(reads, query)
    .select([
      'provider',
      // A bound number would be a fraction.
      sql<number>`started / ${sql.lit(width)} * ${sql.lit(width)}`.as('start'),
      sql<number>`count(*)`.as('attempts'),
      countWhere(isFailed).as('failed'),
      countWhere(isLimited).as('limited'),
      sql<number | null>`max(ended - started)`.as('slowest_ms'),
    ])
    .groupBy(['provider', 'start'])
    .orderBy('provider')
    .orderBy('start')
    .execute()
  reads.checkTime()
  const providers = new Map<string, ActivityCell[]>()
  for (const { provider, start, ...cell } of cells) {
    const known = providers.get(provider)
    if (known) known.push({ start: isoTime(start), ...cell })
    else if (providers.size < MOST.providers) providers.set(provider, [{ start: isoTime(start), ...cell }])
  }
  const data: ProviderActivity[] = []
  for (const [provider, own] of providers) {
    reads.checkTime()
    const sum = (name: 'attempts' | 'failed' | 'limited') => own.reduce((total, cell) => total + cell[name], 0)
    data.push({
      provider,
      attempts: sum('attempts'),
      failed: sum('failed'),
      limited: sum('limited'),
      ...(await latenciesOf(reads, query, provider)),
      errors: await errorsOf(reads, query, provider),
      cells: own,
    })
  }
  return { object: 'activity', from: isoTime(from), to: isoTime(to), seconds: width / 1_000, data }
}

/** Of the newest completed attempts. */
const latenciesOf = async (reads: LedgerReads, range: TimeRange, provider: string) => {
  const sample = await attemptsIn(reads, range)
    .select([sql<number>`ended - started`.as('total'), 'first_content_ms'])
    .where('provider', '=', provider)
    .where('outcome', '=', 'ok')
    .where('ended', 'is not', null)
    .orderBy('started', 'desc')
    .limit(MOST.sample)
    .execute()
  const totals = sample.map(({ total }) => total).sort((one, other) => one - other)
  const firsts = sample.flatMap(({ first_content_ms: ms }) => ms ?? []).sort((one, other) => one - other)
  return {
    p50_ms: quantile(totals, 0.5),
    p95_ms: quantile(totals, 0.95),
    first_content_p50_ms: quantile(firsts, 0.5),
    histogram: await histogramOf(reads, range, provider),
  }
}

/** Of all completed attempts of the range. */
const histogramOf = async (reads: LedgerReads, range: TimeRange, provider: string) => {
  const within = BOUNDS.map((most, index) => countWhere(sql`ended - started <= ${sql.lit(most)}`).as(`b${index}`))
  const found = await attemptsIn(reads, range)
    .select([sql<number>`count(*)`.as('all'), ...within])
    .where('provider', '=', provider)
    .where('outcome', '=', 'ok')
    .where('ended', 'is not', null)
    .executeTakeFirst()
  const counts = new Map(Object.entries(found ?? {}).map(([name, value]) => [name, Number(value)]))
  const upTo = (index: number): number => counts.get(index < BOUNDS.length ? `b${index}` : 'all') ?? 0
  return [...BOUNDS, null].map((most, index) => ({
    most_ms: most,
    attempts: upTo(index) - (index === 0 ? 0 : upTo(index - 1)),
  }))
}

const quantile = (sorted: readonly number[], share: number): number | null =>
  sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null

const errorsOf = (reads: LedgerReads, range: TimeRange, provider: string) =>
  attemptsIn(reads, range)
    .select([
      sql<string>`${KIND}`.as('kind'),
      'status',
      sql<number>`count(*)`.as('count'),
      sql<number>`max(started)`.as('last'),
    ])
    .where('provider', '=', provider)
    .where('outcome', 'in', ['failed', 'interrupted'])
    .groupBy([KIND, sql.ref('status')])
    .orderBy('count', 'desc')
    .orderBy(KIND)
    .limit(MOST.errors)
    .execute()
    .then((rows) => rows.map(({ last, ...row }) => ({ ...row, last_at: isoTime(last) })))

/** The longest first, with the number of all requests that have one. */
export const runningOf = async ({ db }: LedgerReads, { teams }: OngoingQuery): Promise<OngoingAttempts> => {
  let attempts = db.selectFrom('attempt').where('opened', 'is not', null).where('outcome', '=', 'open')
  if (teams !== null) attempts = attempts.where('team', 'in', teams)
  const rows = await attempts
    .select(['request', 'n', 'started', 'provider', 'model', 'credential', 'key', 'team'])
    .orderBy('started')
    .limit(MOST.running + 1)
    .execute()
  const counted =
    rows.length > MOST.running
      ? await attempts.select(sql<number>`count(DISTINCT request)`.as('total')).executeTakeFirst()
      : { total: new Set(rows.map(({ request }) => request)).size }
  return {
    object: 'list',
    data: rows.slice(0, MOST.running).map(({ started, key, team, ...row }) => ({
      ...row,
      started_at: isoTime(started),
      key: key === null ? null : { id: key, name: null },
      team: team === null ? null : { id: team, name: null },
    })),
    total: Number(counted?.total ?? 0),
    has_more: rows.length > MOST.running,
    next: null,
  }
}
