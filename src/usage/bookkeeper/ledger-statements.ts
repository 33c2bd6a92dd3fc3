/** The statements of the ledger in `usage.db`. */
import type { DatabaseSync } from 'node:sqlite'
import { runAll, type SqlValue } from '../../storage/sql/database.ts'
import {
  ADD_SESSIONS,
  COUNT_COLUMNS,
  columnsOf,
  DAY_USAGE_KEY,
  type DayUsage,
  HOUR_USAGE_KEY,
  type HourUsage,
  type IncidentRow,
  type JournalRow,
  type OpenCallRow,
  REQUEST_COLUMNS,
  SESSION_COLUMNS,
  SHAPE_DAY_KEY,
  type UsageTables,
} from '../columns/usage-schema.ts'
import type { LedgerBatch } from './fold.ts'

/** Rows deleted per transaction. */
export const DELETED = 2_000
const INCIDENT_COLUMNS = columnsOf<IncidentRow>()(['id', 'began', 'ended', 'ended_by', 'node', 'process', 'details'])
const OPEN_CALL_COLUMNS = columnsOf<OpenCallRow>()(['process', 'call', 'started', 'team', 'running', 'records'])
const DAY_COLUMNS: readonly (keyof DayUsage)[] = [...DAY_USAGE_KEY, ...COUNT_COLUMNS]
const HOUR_COLUMNS: readonly (keyof HourUsage)[] = [...HOUR_USAGE_KEY, ...COUNT_COLUMNS]

/** The values of a row in the order of columns. */
const valuesOf = <Row>(columns: readonly (keyof Row)[], row: Row): SqlValue[] =>
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
  addDays: database.prepare(addTo('usage_day', DAY_USAGE_KEY)),
  addHours: database.prepare(addTo('usage_hour', HOUR_USAGE_KEY)),
  addSum: database.prepare(
    `${insertInto('budget_sum', [...SUM_KEY, 'spent'])} ON CONFLICT (${SUM_KEY.join(', ')}) DO UPDATE SET ${added('budget_sum', ['spent'])}`,
  ),
  addProcessSum: database.prepare(
    `${insertInto('process_sum', [...SUM_KEY, 'spent', 'process'])} ON CONFLICT (process, ${SUM_KEY.join(', ')})
      DO UPDATE SET ${added('process_sum', ['spent'])}`,
  ),
  setPosition: database.prepare(
    `${insertInto('journal', ['segment', 'position', 'malformed'])}
      ON CONFLICT (segment) DO UPDATE SET position = excluded.position, malformed = excluded.malformed`,
  ),
  /** A time at or before which at most a batch was received. */
  batchEnd: database.prepare(
    `SELECT max(received) AS until FROM (SELECT received FROM request ORDER BY received LIMIT ${DELETED}) AS oldest`,
  ),
  oldRequests: database.prepare(
    `DELETE FROM request WHERE (received, id) IN
      (SELECT received, id FROM request WHERE received < ? ORDER BY received LIMIT ${DELETED})`,
  ),
  setIncident: database.prepare(
    `${insertInto('incident', INCIDENT_COLUMNS)} ON CONFLICT (id) DO UPDATE SET began = excluded.began,
      ended = excluded.ended, ended_by = excluded.ended_by, details = excluded.details`,
  ),
  addShapes: database.prepare(
    `${insertInto('shape_day', [...SHAPE_DAY_KEY, 'weight'])} ON CONFLICT (${SHAPE_DAY_KEY.join(', ')})
      DO UPDATE SET ${added('shape_day', ['weight'])}`,
  ),
  addSessions: database.prepare(`${insertInto('session', SESSION_COLUMNS)} ${ADD_SESSIONS}`),
  endIncidents: database.prepare(
    "UPDATE incident SET ended = max(began, ?), ended_by = 'restart' WHERE process = ? AND ended IS NULL",
  ),
})

/** Writes a batch and the positions that it was read up to, within a transaction. */
export const writeBatch = (
  statements: ReturnType<typeof prepareStatements>,
  batch: LedgerBatch,
  positions: readonly JournalRow[],
): void => {
  const now = Date.now()
  runAll(
    statements.setOpenCall,
    batch.open.map((row) => valuesOf(OPEN_CALL_COLUMNS, row)),
  )
  runAll(
    statements.removeOpenCall,
    batch.complete.map(({ process, call }) => [process, call]),
  )
  runAll(
    statements.addDays,
    batch.days.map((row) => valuesOf(DAY_COLUMNS, row)),
  )
  runAll(
    statements.addHours,
    batch.hours.map((row) => valuesOf(HOUR_COLUMNS, row)),
  )
  const sums = batch.sums.map((row): SqlValue[] => [row.counter, row.period_start, row.spent, row.process])
  runAll(
    statements.addSum,
    sums.map(([counter = null, start = null, spent = null]) => [counter, start, spent]),
  )
  runAll(statements.addProcessSum, sums)
  runAll(
    statements.setIncident,
    batch.incidents.map((row) => valuesOf(INCIDENT_COLUMNS, row)),
  )
  runAll(
    statements.addSessions,
    batch.sessions.map((row) => valuesOf(SESSION_COLUMNS, row)),
  )
  runAll(
    statements.addShapes,
    batch.shapes.map((row) => valuesOf([...SHAPE_DAY_KEY, 'weight'], row)),
  )
  runAll(
    statements.endIncidents,
    batch.ended.map((process) => [now, process]),
  )
  runAll(
    statements.setPosition,
    positions.map(({ segment, position, malformed }) => [segment, position, malformed]),
  )
}
