/** What all providers did in a range, and the attempts that are in progress. */
import { sql } from 'kysely'
import { KINDS } from '../../core/failure.ts'
import type { AttemptOpened } from '../../core/journal.ts'
import { decodeLine, decodeOpened } from '../journal/journal-record.ts'
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

/** Providers of a result, latencies that are read for one, kinds of errors for one, attempts in progress, and calls with those. */
const MOST = { providers: 200, sample: 1_000, errors: 20, running: 100, open: 10_000 }
/** Rate limits and quotas. */
export const LIMITED = ['rate_limited', 'token_rate', 'quota']
/** Failures that a circuit counts, and broken streams. */
const UNHEALTHY = Object.entries(KINDS).flatMap(([kind, row]) => (row.charges === null ? [] : [kind]))
/** Upper bounds of the histogram's bars, in ms; the last bar has none. */
const BOUNDS = Array.from({ length: 14 }, (_, power) => 16 * 2 ** power)

/** The kind of an error. */
const KIND = sql`coalesce(kind, outcome)`

/** ms before the range at which requests were received whose attempts are looked for. */
const BEFORE = 3_600_000

/** Attempts of complete requests that began in the range. */
export const attemptsIn = ({ db }: LedgerReads, { from, to }: TimeRange) =>
  db
    .selectFrom('attempt')
    .where('received', '>=', from - BEFORE)
    .where('received', '<', to)
    .where('started', '>=', from)
    .where('started', '<', to)

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
  for (const { provider, start, ...cell } of withOpen(cells, await openIn(reads, query), width)) {
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

type CountedCell = Omit<ActivityCell, 'start'> & { readonly provider: string; readonly start: number }

/** Adds attempts in progress to the cells in which they began. */
const withOpen = (
  cells: readonly CountedCell[],
  open: readonly AttemptOpened[],
  width: number,
): readonly CountedCell[] => {
  if (open.length === 0) return cells
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
