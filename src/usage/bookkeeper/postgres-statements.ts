/**
 * The statements that store a batch in Postgres. Each inserts a list of values for each column. What only this gateway writes
 * comes first; rows that other gateways add to as well come last and in the order of their keys, so that no two gateways wait for
 * each other and the locks are held for the end of the transaction only.
 */
import { arrayText } from '../../storage/sql/postgres/array-text.ts'
import type { PostgresSession, PostgresStatement } from '../../storage/sql/postgres/pool.ts'
import {
  ADD_SESSIONS,
  COUNT_COLUMNS,
  DAY_USAGE_KEY,
  HOUR_USAGE_KEY,
  type JournalRow,
  REQUEST_COLUMNS,
  SESSION_COLUMNS,
  SHAPE_DAY_KEY,
  type UsageTables,
} from '../columns/usage-schema.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import type { LedgerBatch } from './fold.ts'

/** ms since 1970, by the clock of the database. */
export const NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint'

/** The types of the columns, by table and column. */
export type ColumnTypes = ReadonlyMap<string, string>

export const readColumnTypes = async (tx: PostgresSession): Promise<ColumnTypes> => {
  const { rows } = await tx.query(
    `SELECT relname || '.' || attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
      JOIN pg_class ON pg_class.oid = attrelid
      WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped`,
  )
  return new Map(rows.map(({ name, type }) => [String(name), String(type)]))
}

type Value = null | number | bigint | string
type NamedRow = { readonly [column: string]: unknown }

/** What a batch is stored with. `before`: the position that a segment has now; null: none. */
export type StoredPlace = {
  readonly node: string
  readonly positions: readonly (JournalRow & { readonly before: number | null })[]
  /** How names of processes and segments are stored. */
  readonly stored: (name: string) => string
  readonly now: number
}

/** SQLSTATEs of the checks in `batchStatements`, which the server makes because all is sent at once. */
export const CHECKS = { gateway: '2201E', position: '22012' }

export class BatchStatements {
  readonly #types: ColumnTypes

  constructor(types: ColumnTypes) {
    this.#types = types
  }

  /** `INSERT INTO … SELECT * FROM unnest(…)`, and what follows; null: there are no rows. */
  #insert(table: keyof UsageTables, columns: readonly string[], rows: readonly NamedRow[], rest: string) {
    return rows.length === 0
      ? null
      : {
          text: `INSERT INTO ${table} (${columns.join(', ')}) SELECT * FROM ${this.#lists(table, columns)} ${rest}`,
          values: listsOf(columns, rows),
        }
  }

  #lists(table: keyof UsageTables, columns: readonly string[]): string {
    return `unnest(${columns.map((column, at) => `$${at + 1}::${this.#types.get(`${table}.${column}`)}[]`).join(', ')})`
  }

  /**
   * All of a batch. The first statement fails with `CHECKS.gateway` if others have closed the calls of this gateway, and the
   * second with `CHECKS.position` if the database has another position, such as after a failover to an earlier state.
   */
  of(
    batch: LedgerBatch,
    rows: readonly RecordValues[],
    { node, positions, stored, now }: StoredPlace,
  ): readonly PostgresStatement[] {
    const named = <R extends { readonly process: string }>(rows: readonly R[]) =>
      rows.map((row) => ({ ...row, process: stored(row.process) }))
    const set = (columns: readonly string[]) => columns.map((one) => `${one} = excluded.${one}`).join(', ')
    const ended = batch.ended.map((process) => ({ process: stored(process) }))
    const complete = named(batch.complete)
    const sums = named(batch.sums)
    return [
      // What is lost with the server is read again from the journal, which `checkpoint` keeps until then.
      { text: 'SET LOCAL synchronous_commit = off' },
      beatOf(node),
      positionsOf(positions, stored),
      this.#requests(rows),
      this.#insert(
        'open_call',
        ['process', 'call', 'started', 'team', 'running', 'records'],
        named(batch.open),
        `ON CONFLICT (process, call) DO UPDATE SET ${set(['running', 'records'])}`,
      ),
      complete.length === 0
        ? null
        : {
            text: `DELETE FROM open_call USING unnest($1::text[], $2::bigint[]) AS gone (process, call)
              WHERE open_call.process = gone.process AND open_call.call = gone.call`,
            values: listsOf(['process', 'call'], complete),
          },
      this.#insert(
        'incident',
        ['id', 'began', 'ended', 'ended_by', 'node', 'process', 'details'],
        named(batch.incidents),
        `ON CONFLICT (id) DO UPDATE SET ${set(['began', 'ended', 'ended_by', 'details'])}`,
      ),
      ended.length === 0
        ? null
        : {
            text: `UPDATE incident SET ended = greatest(began, $2::bigint), ended_by = 'restart'
              WHERE process = ANY($1::text[]) AND ended IS NULL`,
            values: [...listsOf(['process'], ended), now],
          },
      this.#add('process_sum', ['process', ...SUM_KEY], ['spent'], sums),
      this.#add('usage_day', DAY_USAGE_KEY, COUNT_COLUMNS, batch.days),
      this.#insert('session', SESSION_COLUMNS, batch.sessions, ADD_SESSIONS),
      this.#add('shape_day', SHAPE_DAY_KEY, ['weight'], batch.shapes),
      this.#add('usage_hour', HOUR_USAGE_KEY, COUNT_COLUMNS, batch.hours),
      this.#add('budget_sum', SUM_KEY, ['spent'], sums),
    ].filter((one) => one !== null)
  }

  /** IDs are random, so none comes twice; one that did must not stop all others. */
  #requests(rows: readonly RecordValues[]): PostgresStatement | null {
    if (rows.length === 0) return null
    const values = REQUEST_COLUMNS.map((_, at) => arrayText(rows.map((row) => row[at] ?? null)))
    const columns = REQUEST_COLUMNS.join(', ')
    return {
      text: `INSERT INTO request (${columns}) SELECT * FROM ${this.#lists('request', REQUEST_COLUMNS)} ON CONFLICT DO NOTHING`,
      values,
    }
  }

  /**
   * Adds to rows that other gateways add to, in the order of their keys. Texts may be the same only in the database, which has no
   * NUL: such rows are one.
   */
  #add(table: keyof UsageTables, key: readonly string[], columns: readonly string[], rows: readonly NamedRow[]) {
    const all = [...key, ...columns]
    const names = key.join(', ')
    return rows.length === 0
      ? null
      : {
          text: `INSERT INTO ${table} (${all.join(', ')})
            SELECT ${names}, ${columns.map((one) => `sum(${one})`).join(', ')}
            FROM ${this.#lists(table, all)} AS given (${all.join(', ')}) GROUP BY ${names} ORDER BY ${names}
            ON CONFLICT (${names}) DO UPDATE SET ${columns.map((one) => `${one} = ${table}.${one} + excluded.${one}`).join(', ')}`,
          values: listsOf(all, rows),
        }
  }
}

const SUM_KEY = ['counter', 'period_start'] as const

/** A list of values for each column. Rows contain texts, numbers and null. */
const listsOf = (columns: readonly string[], rows: readonly NamedRow[]): string[] =>
  columns.map((column) => arrayText(rows.map((row) => (row[column] ?? null) as Value)))

/** This gateway stores usage. */
const beatOf = (node: string): PostgresStatement => ({
  text: `WITH beat AS (UPDATE gateway SET seen = ${NOW} WHERE node = $1 RETURNING 1) SELECT ln(count(*)) FROM beat`,
  values: [node],
})

const positionsOf = (positions: StoredPlace['positions'], stored: StoredPlace['stored']): PostgresStatement | null =>
  positions.length === 0
    ? null
    : {
        text: `WITH given AS (
            SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS given (segment, position, malformed, before)),
          changed AS (
            UPDATE journal SET position = given.position, malformed = given.malformed FROM given
            WHERE journal.segment = given.segment AND journal.position = given.before RETURNING 1),
          added AS (
            INSERT INTO journal (segment, position, malformed)
            SELECT segment, position, malformed FROM given WHERE before IS NULL ON CONFLICT DO NOTHING RETURNING 1)
          SELECT 1 / ((SELECT count(*) FROM changed) + (SELECT count(*) FROM added) = $5::bigint)::int`,
        values: [
          ...listsOf(
            ['segment', 'position', 'malformed', 'before'],
            positions.map((row) => ({ ...row, segment: stored(row.segment) })),
          ),
          positions.length,
        ],
      }
