/** Attempts at one provider over time, by credential and model. */
import { sql } from 'kysely'
import type { AttemptOpened } from '../../core/journal.ts'
import { attemptsIn, LIMITED, openIn, readAttempts, searchedUntil } from './activity.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketWidth, countWhere } from './outcome-counts.ts'
import type { Lane, LaneCell, Lanes, LanesQuery, TimeRange } from './queries.ts'
import { isoTime } from './request-shape.ts'

/** Most lanes and failures of a result. */
const MOST = { lanes: 200, failures: 200 }

export const lanesOf = async (reads: LedgerReads, query: LanesQuery): Promise<Lanes> => {
  const { provider, from, to } = query
  const width = bucketWidth(query, query.cells)
  const found = await readAttempts(reads, query, `lanes ${width} ${provider}`, async (part) => {
    const cells = await cellsOf(reads, part, query, width)
    const hasFailures = cells.some(({ failed, limited }) => failed + limited > 0)
    return { cells, failures: hasFailures ? await failuresOf(reads, part, query) : [] }
  })
  // A cell has attempts of requests of several parts.
  const cells = [
    ...Map.groupBy(
      found.buckets.flatMap(({ value }) => value.cells),
      laneCell,
    ).values(),
  ].flatMap(joined)
  cells.sort((one, other) => one.start - other.start)
  const failures = found.buckets
    .flatMap(({ value }) => value.failures)
    .sort((one, other) => other.started - one.started)
    .slice(0, MOST.failures)
  const lanes = new Map<string, Lane & { readonly cells: LaneCell[] }>()
  const open = openCells(await openIn(reads, query), provider, width)
  for (const { credential, model, start, ...cell } of cells) {
    const name = JSON.stringify([credential, model])
    const lane = lanes.get(name) ?? { credential, model, cells: [] }
    const inCell = `${name} ${start}`
    const running = open.get(inCell)?.running ?? 0
    open.delete(inCell)
    lane.cells.push({ start: isoTime(start), ...cell, attempts: cell.attempts + running, open: running })
    if (lanes.size < MOST.lanes) lanes.set(name, lane)
  }
  for (const { credential, model, start, running } of open.values()) {
    const name = JSON.stringify([credential, model])
    const lane = lanes.get(name) ?? { credential, model, cells: [] }
    lane.cells.push({
      start: isoTime(start),
      attempts: running,
      failed: 0,
      limited: 0,
      open: running,
      slowest_ms: null,
    })
    lane.cells.sort((one, other) => (one.start < other.start ? -1 : 1))
    if (lanes.size < MOST.lanes) lanes.set(name, lane)
  }
  return {
    object: 'lanes',
    provider,
    from: isoTime(from),
    to: isoTime(to),
    searched_until: searchedUntil(found, query),
    seconds: width / 1_000,
    data: [...lanes.values()],
    failures: failures.map(({ started, ...failure }) => ({ at: isoTime(started), ...failure })),
  }
}

type StoredCell = Omit<LaneCell, 'start' | 'open'> & {
  readonly credential: string
  readonly model: string
  readonly start: number
}

const laneCell = ({ credential, model, start }: StoredCell): string => JSON.stringify([credential, model, start])

const joined = (cells: readonly StoredCell[]): readonly StoredCell[] => {
  const [first, ...others] = cells
  if (!first) return []
  const add = (one: StoredCell, other: StoredCell): StoredCell => ({
    ...one,
    attempts: one.attempts + other.attempts,
    failed: one.failed + other.failed,
    limited: one.limited + other.limited,
    slowest_ms:
      one.slowest_ms === null || other.slowest_ms === null
        ? (one.slowest_ms ?? other.slowest_ms)
        : Math.max(one.slowest_ms, other.slowest_ms),
  })
  return [others.reduce(add, first)]
}

const cellsOf = (
  reads: LedgerReads,
  part: TimeRange,
  query: LanesQuery,
  width: number,
): Promise<readonly StoredCell[]> => {
  const limited = sql`outcome = 'failed' AND coalesce(kind, '') IN (${sql.join(LIMITED)})`
  return attemptsIn(reads, part, query)
    .where('provider', '=', query.provider)
    .select([
      'credential',
      'model',
      // A bound number would be a fraction.
      sql<number>`started / ${sql.lit(width)} * ${sql.lit(width)}`.as('start'),
      sql<number>`count(*)`.as('attempts'),
      countWhere(sql`outcome IN ('failed', 'interrupted') AND NOT (${limited})`).as('failed'),
      countWhere(limited).as('limited'),
      sql<number | null>`max(ended - started)`.as('slowest_ms'),
    ])
    .groupBy(['credential', 'model', 'start'])
    .execute()
}

/** The newest. */
const failuresOf = (reads: LedgerReads, part: TimeRange, query: LanesQuery) =>
  attemptsIn(reads, part, query)
    .where('provider', '=', query.provider)
    .select(['started', 'request', 'credential', 'model', 'kind', 'status'])
    .where('outcome', 'in', ['failed', 'interrupted'])
    .orderBy('started', 'desc')
    .limit(MOST.failures)
    .execute()

type OpenCell = { readonly credential: string; readonly model: string; readonly start: number; running: number }

/** Attempts in progress at the provider, by lane and cell. */
const openCells = (attempts: readonly AttemptOpened[], provider: string, width: number): Map<string, OpenCell> => {
  const open = new Map<string, OpenCell>()
  for (const { at, credential, model, provider: tried } of attempts) {
    if (tried !== provider) continue
    const start = Math.floor(at / width) * width
    const name = `${JSON.stringify([credential, model])} ${start}`
    const cell = open.get(name) ?? { credential, model, start, running: 0 }
    cell.running++
    open.set(name, cell)
  }
  return open
}
