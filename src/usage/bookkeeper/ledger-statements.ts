/** The statements of the ledger in `usage.db`. */
import type { DatabaseSync } from 'node:sqlite'
import { runAll, type SqlValue } from '../../storage/sql/database.ts'
import {
  type AdjustmentRow,
  COUNT_COLUMNS,
  columnsOf,
  DAY_USAGE_KEY,
  type DayUsage,
  type FacetRow,
  HOUR_USAGE_KEY,
  type HourUsage,
  type IncidentRow,
  type JournalRow,
  type OpenCallRow,
  REQUEST_COLUMNS,
  type UsageTables,
} from '../columns/usage-schema.ts'
import type { LedgerBatch } from './fold.ts'

/** Rows deleted per transaction. */
export const DELETED = 2_000
/** Distinct values listed per facet. */
const FACET_VALUES = 1_000
/** Incidents that are kept. */
const INCIDENTS = 10_000

export const ADJUSTMENT_COLUMNS = columnsOf<AdjustmentRow>()([
  'id',
  'at',
  'budget',
  'counter',
  'period_start',
  'key',
  'amount',
  'reason',
  'actor',
])
const INCIDENT_COLUMNS = columnsOf<IncidentRow>()(['id', 'began', 'ended', 'ended_by', 'node', 'process', 'details'])
const OPEN_CALL_COLUMNS = columnsOf<OpenCallRow>()(['process', 'call', 'started', 'team', 'running', 'records'])
const FACET_COLUMNS = columnsOf<FacetRow>()(['team', 'name', 'value', 'last_seen'])
const DAY_COLUMNS: readonly (keyof DayUsage)[] = [...DAY_USAGE_KEY, ...COUNT_COLUMNS]
const HOUR_COLUMNS: readonly (keyof HourUsage)[] = [...HOUR_USAGE_KEY, ...COUNT_COLUMNS]

/** The values of a row in the order of columns. */
export const valuesOf = <Row>(columns: readonly (keyof Row)[], row: Row): SqlValue[] =>
  // Rows contain texts, numbers and null.
  columns.map((column) => row[column] as SqlValue)

const insertInto = (table: keyof UsageTables, columns: readonly string[]): string =>
  `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`

const added = (table: string, columns: readonly string[]): string =>
  columns.map((column) => `${column} = ${table}.${column} + excluded.${column}`).join(', ')

const addTo = (table: 'usage_day' | 'usage_hour', key: readonly string[]): string =>
  `${insertInto(table, [...key, ...COUNT_COLUMNS])} ON CONFLICT (${key.join(', ')}) DO UPDATE SET ${added(table, COUNT_COLUMNS)}`

const SUM_KEY = ['counter', 'period_start']

export const prepareStatements = (database: DatabaseSync) => ({
  // IDs are random, so none comes twice; one that did must not stop all others.
  insertRequest: database.prepare(`${insertInto('request', REQUEST_COLUMNS)} ON CONFLICT DO NOTHING`),
  setOpenCall: database.prepare(
    `${insertInto('open_call', OPEN_CALL_COLUMNS)} ON CONFLICT (process, call) DO UPDATE SET
      running = excluded.running, records = excluded.records`,
  ),
  removeOpenCall: database.prepare('DELETE FROM open_call WHERE process = ? AND call = ?'),
  openCalls: database.prepare(
    'SELECT process, call, started, team, running, records FROM open_call WHERE process >= ? AND process < ?',
  ),
  addDays: database.prepare(addTo('usage_day', DAY_USAGE_KEY)),
  addHours: database.prepare(addTo('usage_hour', HOUR_USAGE_KEY)),
  addSum: database.prepare(
    `${insertInto('budget_sum', [...SUM_KEY, 'spent'])} ON CONFLICT (${SUM_KEY.join(', ')}) DO UPDATE SET ${added('budget_sum', ['spent'])}`,
  ),
  addProcessSum: database.prepare(
    `${insertInto('process_sum', [...SUM_KEY, 'spent', 'process'])} ON CONFLICT (process, ${SUM_KEY.join(', ')})
      DO UPDATE SET ${added('process_sum', ['spent'])}`,
  ),
  setFacet: database.prepare(
    `INSERT INTO facet (team, name, value, last_seen)
      SELECT CAST(?1 AS TEXT), CAST(?2 AS TEXT), CAST(?3 AS TEXT), CAST(?4 AS BIGINT)
      WHERE EXISTS (SELECT 1 FROM facet WHERE team = ?1 AND name = ?2 AND value = ?3)
        OR (SELECT count(*) FROM facet WHERE team = ?1 AND name = ?2) < ${FACET_VALUES}
      ON CONFLICT (team, name, value) DO UPDATE SET last_seen = max(facet.last_seen, excluded.last_seen)`,
  ),
  setPosition: database.prepare(
    `${insertInto('journal', ['segment', 'position', 'malformed'])}
      ON CONFLICT (segment) DO UPDATE SET position = excluded.position, malformed = excluded.malformed`,
  ),
  removePosition: database.prepare('DELETE FROM journal WHERE segment = ?'),
  positions: database.prepare('SELECT segment, position, malformed FROM journal WHERE segment >= ? AND segment < ?'),
  sums: database.prepare(
    'SELECT counter, period_start, spent FROM budget_sum WHERE period_start >= ? ORDER BY counter, period_start',
  ),
  processSums: database.prepare(
    'SELECT process, counter, period_start, spent FROM process_sum WHERE period_start >= ?',
  ),
  spentBy: database.prepare('SELECT counter, period_start, spent FROM process_sum WHERE process = ?'),
  processes: database.prepare('SELECT DISTINCT process FROM process_sum WHERE process >= ? AND process < ?'),
  removeSumsOf: database.prepare(
    `DELETE FROM process_sum WHERE process = ?1 AND (counter, period_start) IN
      (SELECT counter, period_start FROM process_sum WHERE process = ?1 ORDER BY counter, period_start LIMIT ${DELETED})`,
  ),
  insertAdjustment: database.prepare(`${insertInto('adjustment', ADJUSTMENT_COLUMNS)} ON CONFLICT DO NOTHING`),
  adjustment: database.prepare('SELECT amount FROM adjustment WHERE id = ?'),
  spent: database.prepare('SELECT spent FROM budget_sum WHERE counter = ? AND period_start = ?'),
  /** A time at or before which at most a batch was received. */
  batchEnd: database.prepare(
    `SELECT max(received) AS until FROM (SELECT received FROM request ORDER BY received LIMIT ${DELETED}) AS oldest`,
  ),
  oldRequests: database.prepare(
    `DELETE FROM request WHERE (received, id) IN
      (SELECT received, id FROM request WHERE received < ? ORDER BY received LIMIT ${DELETED})`,
  ),
  oldestHour: database.prepare(
    'DELETE FROM usage_hour WHERE hour = (SELECT hour FROM usage_hour WHERE hour < ? ORDER BY hour LIMIT 1)',
  ),
  oldFacets: database.prepare('DELETE FROM facet WHERE last_seen < ?'),
  setIncident: database.prepare(
    `${insertInto('incident', INCIDENT_COLUMNS)} ON CONFLICT (id) DO UPDATE SET began = excluded.began,
      ended = excluded.ended, ended_by = excluded.ended_by, details = excluded.details`,
  ),
  endIncidents: database.prepare(
    "UPDATE incident SET ended = max(began, ?), ended_by = 'restart' WHERE process = ? AND ended IS NULL",
  ),
  oldIncidents: database.prepare(
    `DELETE FROM incident WHERE began < ? OR began <
      (SELECT min(began) FROM (SELECT began FROM incident ORDER BY began DESC LIMIT ${INCIDENTS}) AS newest)`,
  ),
})

type BatchPlace = {
  readonly positions: readonly JournalRow[]
  /** How names of processes and segments are stored. */
  readonly stored: (name: string) => string
}

/** Writes a batch and the positions that it was read up to, within a transaction. */
export const writeBatch = (
  statements: ReturnType<typeof prepareStatements>,
  batch: LedgerBatch,
  { positions, stored }: BatchPlace,
): void => {
  const now = Date.now()
  runAll(
    statements.setOpenCall,
    batch.open.map((row) => valuesOf(OPEN_CALL_COLUMNS, { ...row, process: stored(row.process) })),
  )
  runAll(
    statements.removeOpenCall,
    batch.complete.map(({ process, call }) => [stored(process), call]),
  )
  runAll(
    statements.addDays,
    batch.days.map((row) => valuesOf(DAY_COLUMNS, row)),
  )
  runAll(
    statements.addHours,
    batch.hours.map((row) => valuesOf(HOUR_COLUMNS, row)),
  )
  const sums = batch.sums.map((row): SqlValue[] => [row.counter, row.period_start, row.spent, stored(row.process)])
  runAll(
    statements.addSum,
    sums.map(([counter = null, start = null, spent = null]) => [counter, start, spent]),
  )
  runAll(statements.addProcessSum, sums)
  runAll(
    statements.setFacet,
    batch.facets.map((row) => valuesOf(FACET_COLUMNS, row)),
  )
  runAll(
    statements.setIncident,
    batch.incidents.map((row) => valuesOf(INCIDENT_COLUMNS, { ...row, process: stored(row.process) })),
  )
  runAll(
    statements.endIncidents,
    batch.ended.map((process) => [now, stored(process)]),
  )
  runAll(
    statements.setPosition,
    positions.map(({ segment, position, malformed }) => [stored(segment), position, malformed]),
  )
}
