/** Attempts at one provider over time, by credential and model. */
import { sql } from 'kysely'
import type { AttemptOpened } from '../../core/journal.ts'
import { attemptsIn, LIMITED, openIn } from './activity.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketWidth, countWhere } from './outcome-counts.ts'
import type { Lane, LaneCell, Lanes, LanesQuery } from './queries.ts'
import { isoTime } from './request-shape.ts'

/** Most lanes and failures of a result. */
const MOST = { lanes: 200, failures: 200 }

export const lanesOf = async (reads: LedgerReads, query: LanesQuery): Promise<Lanes> => {
  const { provider, from, to } = query
  const width = bucketWidth(query, query.cells)
  const attempts = attemptsIn(reads, query).where('provider', '=', provider)
  const limited = sql`outcome = 'failed' AND coalesce(kind, '') IN (${sql.join(LIMITED)})`
  const cells = await attempts
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
    .orderBy('start')
    .execute()
  reads.checkTime()
  const failures = await attempts
    .select(['started', 'request', 'credential', 'model', 'kind', 'status'])
    .where('outcome', 'in', ['failed', 'interrupted'])
    .orderBy('started', 'desc')
    .limit(MOST.failures)
    .execute()
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
    seconds: width / 1_000,
    data: [...lanes.values()],
    failures: failures.map(({ started, ...failure }) => ({ at: isoTime(started), ...failure })),
  }
}

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
