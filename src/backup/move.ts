/**
 * Copies `control.db` and `usage.db` of a stopped gateway into an empty shared database, and compares the two. Rows that are
 * there already are not doubled, so a copy that was interrupted can be repeated.
 */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { CONTROL_FILE } from '../records/store/read-accounts.ts'
import { CONTROL_SCHEMA, SHARED_CONTROL } from '../records/store/storage.ts'
import { PASS_FILE, PASS_SCHEMA, SHARED_PASS } from '../storage/pass/pass-schema.ts'
import type { SqlValue } from '../storage/sql/database.ts'
import { readableVersion, type SchemaVersions } from '../storage/sql/migrate.ts'
import { PostgresPool } from '../storage/sql/postgres/pool.ts'
import { Partitions } from '../usage/columns/partitions.ts'
import {
  DAY_USAGE_KEY,
  HOUR_USAGE_KEY,
  SHAPE_DAY_KEY,
  SHARED_USAGE,
  USAGE_SCHEMA,
} from '../usage/columns/usage-schema.ts'
import { USAGE_FILE } from '../usage/journal/file.ts'
import { nodeName, storedNames } from '../usage/journal/node-name.ts'
import { listSegments } from '../usage/journal/segment-files.ts'
import { migrateSchemas } from './schemas.ts'

/** The copy cannot begin. The message is a sentence with a remedy. */
export class MoveError extends Error {}

export type MoveOptions = {
  /** The data folder and the journal of the gateway. */
  readonly folders: { readonly data: string; readonly journal: string }
  readonly url: string
  /** Continues a copy that was interrupted: the target is not empty. */
  readonly resume: boolean
  readonly dryRun: boolean
  /** Called after each table. */
  readonly onTable: (table: string) => void
}

/** `sum`: of the amounts in nano-dollars; null: the table has none. */
type Total = { readonly rows: number; readonly sum: number | null }
/** `target` null: nothing was copied. */
export type MovedTable = { readonly table: string; readonly source: Total; readonly target: Total | null }

type Row = Readonly<Record<string, SqlValue>>

type TableMove = {
  readonly table: string
  readonly key: readonly string[]
  /** The column with amounts. */
  readonly amount?: string
  /** Rows to copy. Default: all columns of the table. */
  readonly rows?: string
  /** A row as it is in the shared database. */
  readonly convert?: (row: Row, node: string) => Row
  /** A row that the target has is replaced, otherwise kept. */
  readonly replaces?: true
}

/** In a file the gateway has no name. */
const LOCAL = 'local'
const withNode = (row: Row, node: string): Row => (row.node === LOCAL ? { ...row, node } : row)

const CONTROL: readonly TableMove[] = [
  { table: 'record', key: ['id'], replaces: true },
  { table: 'secret', key: ['digest'], replaces: true },
  { table: 'key_use', key: ['id'], replaces: true },
  { table: 'decision', key: ['kind', 'id'], replaces: true },
  { table: 'person', key: ['id'], replaces: true },
  { table: 'once', key: ['key'], replaces: true },
  { table: 'audit', key: ['seq'] },
  { table: 'audit_range', key: ['id'], replaces: true },
]
const USAGE: readonly TableMove[] = [
  { table: 'request', key: ['received', 'id'], amount: 'cost', convert: withNode },
  { table: 'usage_day', key: DAY_USAGE_KEY, amount: 'cost' },
  { table: 'usage_hour', key: HOUR_USAGE_KEY, amount: 'cost' },
  { table: 'session', key: ['id'], amount: 'cost' },
  { table: 'shape_day', key: SHAPE_DAY_KEY },
  { table: 'budget_sum', key: ['counter', 'period_start'], amount: 'spent', replaces: true },
  {
    table: 'process_sum',
    key: ['process', 'counter', 'period_start'],
    amount: 'spent',
    // The processes that have spent it have ended.
    rows: "SELECT '' AS process, counter, period_start, spent FROM budget_sum",
    convert: (row, node) => ({ ...row, process: storedNames(node, true).stored(String(row.process)) }),
    replaces: true,
  },
  { table: 'adjustment', key: ['id'], amount: 'amount' },
  {
    table: 'incident',
    key: ['id'],
    convert: (row, node) => ({ ...row, node, process: storedNames(node, true).stored(String(row.process)) }),
  },
  {
    table: 'journal',
    key: ['segment'],
    convert: (row, node) => ({ ...row, segment: storedNames(node, true).stored(String(row.segment)) }),
  },
]

/** A later booking, or an earlier owner, is not undone. */
const PASS: readonly TableMove[] = [
  { table: 'pass_object', key: ['instance', 'id'] },
  { table: 'pass_batch', key: ['instance', 'id'] },
]

type FileMove = {
  readonly file: string
  readonly versions: SchemaVersions
  readonly schema: string
  readonly tables: readonly TableMove[]
  /** Queries of which each finds a row if the schema in Postgres is in use. */
  readonly used: readonly string[]
}
const FILES: readonly FileMove[] = [
  {
    file: CONTROL_FILE,
    versions: CONTROL_SCHEMA,
    schema: SHARED_CONTROL.name,
    tables: CONTROL,
    used: ["SELECT 1 FROM record WHERE id <> 'team_default' LIMIT 1", 'SELECT 1 FROM audit LIMIT 1'],
  },
  {
    file: USAGE_FILE,
    versions: USAGE_SCHEMA,
    schema: SHARED_USAGE.name,
    tables: USAGE,
    used: ['SELECT 1 FROM request LIMIT 1', 'SELECT 1 FROM usage_day LIMIT 1'],
  },
  {
    file: PASS_FILE,
    versions: PASS_SCHEMA,
    schema: SHARED_PASS.name,
    tables: PASS,
    used: ['SELECT 1 FROM pass_object LIMIT 1', 'SELECT 1 FROM pass_batch LIMIT 1'],
  },
]

/** Rows in a transaction, and rows that are compared at once. */
const PAGE = { copied: 1_000, compared: 50_000 }
/** ms for a statement. */
const STATEMENT = 30_000

/** Copies all tables and compares them. Throws `MoveError`, or the error of a database. */
export const moveToShared = async (options: MoveOptions): Promise<readonly MovedTable[]> => {
  const { data, journal } = options.folders
  const files = FILES.filter(({ file }) => existsSync(join(data, file)))
  if (files.length === 0) throw new MoveError(`There is nothing to move in ${data}.`)
  const opened = files.map((move) => ({ move, source: openSource(join(data, move.file), move) }))
  try {
    const checkJournals = () => {
      for (const { move, source } of opened) if (move.file === USAGE_FILE) checkJournal(source, journal)
    }
    if (options.dryRun) {
      checkJournals()
      const found: MovedTable[] = []
      for (const { move, source } of opened)
        for (const one of move.tables)
          found.push({ table: one.table, source: await totalOf(fromFile(source), one, one.rows), target: null })
      return found
    }
    await migrateSchemas(options.url)
    const node = nodeName(data)
    const targets = opened.map((one) => ({ ...one, target: openTarget(options.url, one.move) }))
    try {
      for (const { move, source, target } of targets) await checkTarget(move, source, target, options.resume)
      // A gateway that uses the target already stores its journal there.
      checkJournals()
      const moved: MovedTable[] = []
      for (const { move, source, target } of targets) {
        for (const one of move.tables) {
          await copy(source, target, one, node)
          options.onTable(one.table)
          const { table } = one
          moved.push({
            table,
            source: await totalOf(fromFile(source), one, one.rows),
            target: await totalOf(fromShared(target), one, undefined),
          })
        }
        if (move.file === CONTROL_FILE) await noteAll(target)
      }
      return moved
    } finally {
      for (const { target } of targets) await target.close()
    }
  } finally {
    for (const { source } of opened) source.close()
  }
}

/** Whether the target has all rows and amounts of the source. */
export const isSame = ({ source, target }: MovedTable): boolean =>
  target === null || (source.rows === target.rows && source.sum === target.sum)

const openSource = (path: string, { file, versions }: FileMove): DatabaseSync => {
  const source = new DatabaseSync(path, { readOnly: true })
  const version = readableVersion(source, versions)
  if (version === versions.migrations.length) return source
  source.close()
  throw new MoveError(
    `${file} has schema version ${version ?? 'none'} (needed: ${versions.migrations.length}). Start this version of the gateway once without DATABASE_URL, stop it, and repeat.`,
  )
}

const openTarget = (url: string, { schema }: FileMove): PostgresPool =>
  new PostgresPool({ url, schema, max: 1, applicationName: 'headgate db move', statementTimeout: STATEMENT })

/** ReadRows rows. Placeholders are `$1`. */
type ReadRows = (query: string, values: readonly SqlValue[]) => Promise<readonly Row[]>

const fromFile =
  (source: DatabaseSync): ReadRows =>
  async (query, values) =>
    source.prepare(query.replaceAll('$', '?')).all(...values)

const fromShared =
  (target: PostgresPool): ReadRows =>
  async (query, values) =>
    // The tables have no other types.
    (await target.query(query, values, { readOnly: true })).rows as readonly Row[]

/** What the journal contains must be in the file: numbers of calls are others in a shared database. */
const checkJournal = (source: DatabaseSync, journal: string): void => {
  const position = source.prepare('SELECT position FROM journal WHERE segment = ?')
  const isUnread = listSegments(journal).some(
    ({ file }) => statSync(join(journal, file)).size > Number(position.get(file)?.position ?? 0),
  )
  const open = source.prepare('SELECT 1 FROM open_call LIMIT 1').get()
  if (isUnread || open)
    throw new MoveError(
      `The journal has records that are not in ${USAGE_FILE}. Start the gateway without DATABASE_URL, stop it after ten seconds, and repeat.`,
    )
}

const checkTarget = async (
  { file, schema, used }: FileMove,
  source: DatabaseSync,
  target: PostgresPool,
  resume: boolean,
): Promise<void> => {
  if (!resume) {
    for (const query of used)
      if ((await target.query(query)).rows.length > 0)
        throw new MoveError(`The schema ${schema} is not empty. Pass --resume to continue a move that was interrupted.`)
    return
  }
  if (file !== CONTROL_FILE) return
  // Each write of a gateway adds an audit row: such changes would be undone.
  const [last] = (await target.query('SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1')).rows
  const same =
    last && source.prepare('SELECT 1 FROM audit WHERE seq = ? AND hash = ?').get(Number(last.seq), String(last.hash))
  if (last && !same)
    throw new MoveError(`A gateway has changed the schema ${schema} since. What it has changed would be lost.`)
}

const copy = async (source: DatabaseSync, target: PostgresPool, one: TableMove, node: string): Promise<void> => {
  const { table, rows = `SELECT * FROM ${table}`, convert } = one
  let columns: readonly string[] = []
  let page: SqlValue[][] = []
  const partitions = table === 'request' ? new Partitions(target) : null
  const store = async () => {
    const at = columns.indexOf('received')
    await partitions?.makeFor(
      page.map((row) => Number(row[at])),
      Date.now(),
    )
    await insert(target, one, columns, page)
  }
  for (const found of source.prepare(rows).iterate()) {
    const row = convert ? convert(found, node) : found
    if (columns.length === 0) columns = Object.keys(row)
    page.push(columns.map((column) => row[column] ?? null))
    if (page.length < PAGE.copied) continue
    await store()
    page = []
  }
  if (page.length > 0) await store()
}

/** Inserts a page in one statement: a list of values for each column. */
const insert = async (
  target: PostgresPool,
  { table, key, replaces }: TableMove,
  columns: readonly string[],
  page: readonly (readonly SqlValue[])[],
): Promise<void> => {
  const others = columns.filter((column) => !key.includes(column))
  const set = others.map((column) => `${column} = excluded.${column}`).join(', ')
  const conflict = replaces && others.length > 0 ? `(${key.join(', ')}) DO UPDATE SET ${set}` : 'DO NOTHING'
  await target.transaction(async (tx) => {
    const found = await tx.query(
      `SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
        WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`,
      [table],
    )
    const types = new Map(found.rows.map(({ name, type }) => [name, type]))
    const lists = columns.map((column, at) => `$${at + 1}::${types.get(column)}[]`)
    await tx.query(
      `INSERT INTO ${table} (${columns.join(', ')}) SELECT * FROM unnest(${lists.join(', ')}) ON CONFLICT ${conflict}`,
      columns.map((_, at) => page.map((row) => row[at] ?? null)),
    )
  })
}

/** ReadRows in parts, because a statement has a time limit. `rows`: what is copied, if not the table. */
const totalOf = async (read: ReadRows, { table, key, amount }: TableMove, rows: string | undefined): Promise<Total> => {
  const sumOf = amount === undefined ? 'NULL' : `coalesce(sum(${amount}), 0)`
  const columns = key.join(', ')
  const marks = (first: number) => key.map((_, at) => `$${first + at}`).join(', ')
  const from = rows === undefined ? table : `(${rows}) AS copied`
  let count = 0
  let sum = 0
  let after: readonly SqlValue[] = []
  for (;;) {
    const start = after.length > 0 ? `(${columns}) > (${marks(1)})` : '1 = 1'
    const [end] = await read(
      `SELECT ${columns} FROM ${from} WHERE ${start} ORDER BY ${columns} LIMIT 1 OFFSET ${PAGE.compared - 1}`,
      after,
    )
    const last = end && key.map((column) => end[column] ?? null)
    const [part] = await read(
      `SELECT count(*) AS rows, ${sumOf} AS total FROM ${from} WHERE ${start}${last ? ` AND (${columns}) <= (${marks(after.length + 1)})` : ''}`,
      [...after, ...(last ?? [])],
    )
    count += Number(part?.rows)
    sum += Number(part?.total)
    if (!last) return { rows: count, sum: amount === undefined ? null : sum }
    after = last
  }
}

/** Gateways that are connected read everything: the changes before the newest one are missing. */
const noteAll = async (target: PostgresPool): Promise<void> => {
  const at = Date.now()
  await target.transaction(async (tx) => {
    await tx.query(
      "INSERT INTO change (kind, id, at) SELECT 'team', 'team_default', $1::bigint FROM generate_series(1, 2)",
      [at],
    )
    await tx.query('DELETE FROM change WHERE seq < (SELECT max(seq) FROM change)')
    await tx.query("SELECT pg_notify('headgate_control', '')")
  })
}
