/**
 * `usage.db` for the bookkeeper. Writes are prepared statements in one synchronous transaction; kysely creates the schema.
 * Functions throw the error of SQLite or of the file system.
 */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { makeFolder } from '../sqlite/folder.ts'
import { migrateSchema } from '../sqlite/migrate.ts'
import { watchMoved } from '../sqlite/opened-files.ts'
import type { LedgerBatch, RequestAddition, UnfinishedAttempt } from './fold.ts'
import {
  type AttemptRow,
  type BudgetSumRow,
  type JournalRow,
  type OpenedColumn,
  type RequestRow,
  type RollupRow,
  USAGE_MIGRATIONS,
  type UsageTables,
} from './usage-schema.ts'

/** The file's name in the data folder. */
export const USAGE_FILE = 'usage.db'

/** Retention. `keepDays`: rows of requests and attempts; `keepHours`: days for which hourly sums are kept. */
export type UsageLimits = { readonly keepDays: number; readonly keepHours: number; readonly maxMegabytes: number }

/** ms to wait for another process: while opening, and in a transaction. */
const BUSY = 2_000
/** Pages of the log (16 MB) at which SQLite moves it into the file. */
const LOG_PAGES = 4_000
const DAY = 86_400_000
const MIB = 1_048_576
/** Rows deleted per transaction, and pages returned to the file system per step. */
const DELETED = { rows: 5_000, pages: 2_000 }
/** Fraction of the maximum size that remains after rows were deleted. */
const EASED = 0.9
/** Distinct values listed per facet. */
const FACET_VALUES = 1_000

const ATTEMPT: readonly (keyof AttemptRow)[] = [
  'request',
  'n',
  'started',
  'ended',
  'provider',
  'model',
  'credential',
  'hedge',
  'outcome',
  'kind',
  'status',
  'first_content_ms',
  'input',
  'output',
  'cache_read',
  'cache_write',
  'cache_write_1h',
  'reasoning',
  'audio_input',
  'audio_output',
  'reserved',
  'cost',
  'usage_source',
  'price_source',
  'price_version',
  'opened',
]
const REQUEST: readonly (keyof RequestRow)[] = [
  'id',
  'received',
  'ended',
  'style',
  'stream',
  'asked',
  'route',
  'provider',
  'model',
  'key',
  'team',
  'person',
  'end_user',
  'tags',
  'outcome',
  'status',
  'code',
  'attempts',
  'trail',
  'cache',
  'first_content_ms',
  'total_ms',
  'overhead_us',
  'input',
  'output',
  'cache_read',
  'cache_write',
  'reasoning',
  'cost',
  'saved',
  'usage_source',
  'trace',
  'node',
]
const ROLLUP_KEY = ['node', 'team', 'key', 'provider', 'model', 'style', 'tag', 'outcome'] as const
const ROLLUP_COUNTS = [
  'requests',
  'attempts',
  'input',
  'output',
  'cache_read',
  'cache_write',
  'reasoning',
  'cost',
  'saved',
  'estimated',
  'unpriced',
  'first_content_sum',
  'first_content_count',
  'total_sum',
] as const

const insertInto = (table: keyof UsageTables, columns: readonly string[]): string =>
  `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`

const addInto = (table: 'usage_hour' | 'usage_day', period: 'hour' | 'day'): string =>
  `${insertInto(table, [period, ...ROLLUP_KEY, ...ROLLUP_COUNTS])} ON CONFLICT DO UPDATE SET ${ROLLUP_COUNTS.map(
    (column) => `${column} = ${column} + excluded.${column}`,
  ).join(', ')}`

const KEPT_IN_PLACE = ['request', 'n', 'started']
const CHANGED = ATTEMPT.filter((column) => !KEPT_IN_PLACE.includes(column))

/** The oldest rows that may be deleted: started before a time, of complete requests. */
const oldest = (table: 'attempt' | 'request'): string => {
  const [time, key, condition] =
    table === 'attempt' ? ['started', 'started, request, n', 'AND opened IS NULL'] : ['received', 'received, id', '']
  return `DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE ${time} < ? ${condition} ORDER BY ${time} LIMIT ${DELETED.rows})`
}

const prepareStatements = (database: DatabaseSync) => ({
  insertAttempt: database.prepare(`${insertInto('attempt', ATTEMPT)} ON CONFLICT DO NOTHING`),
  updateAttempt: database.prepare(
    `UPDATE attempt SET ${CHANGED.map((column) => `${column} = ?`).join(', ')} WHERE started = ? AND request = ? AND n = ?`,
  ),
  insertRequest: database.prepare(`${insertInto('request', REQUEST)} ON CONFLICT DO NOTHING`),
  addToRequest:
    database.prepare(`UPDATE request SET input = input + ?, output = output + ?, cache_read = cache_read + ?,
    cache_write = cache_write + ?, reasoning = reasoning + ?,
    cost = CASE WHEN ? IS NULL THEN cost ELSE coalesce(cost, 0) + ? END,
    usage_source = CASE ? WHEN 'estimated' THEN 'estimated' ELSE usage_source END WHERE received = ? AND id = ?`),
  addHour: database.prepare(addInto('usage_hour', 'hour')),
  addDay: database.prepare(addInto('usage_day', 'day')),
  addSum: database.prepare(
    `${insertInto('budget_sum', ['counter', 'period_start', 'node', 'spent'])}
      ON CONFLICT DO UPDATE SET spent = spent + excluded.spent`,
  ),
  setFacet: database.prepare(
    `INSERT INTO facet (name, value, last_seen) SELECT ?1, ?2, ?3
      WHERE EXISTS (SELECT 1 FROM facet WHERE name = ?1 AND value = ?2)
        OR (SELECT count(*) FROM facet WHERE name = ?1) < ${FACET_VALUES}
      ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen)`,
  ),
  setPosition: database.prepare('INSERT OR REPLACE INTO journal (segment, position, malformed) VALUES (?, ?, ?)'),
  removePosition: database.prepare('DELETE FROM journal WHERE segment = ?'),
  positions: database.prepare('SELECT segment, position, malformed FROM journal'),
  unfinished: database.prepare('SELECT * FROM attempt WHERE opened IS NOT NULL'),
  sums: database.prepare('SELECT counter, period_start, node, spent, alerted FROM budget_sum WHERE period_start >= ?'),
  oldAttempts: database.prepare(oldest('attempt')),
  oldRequests: database.prepare(oldest('request')),
  oldHours: database.prepare(
    `DELETE FROM usage_hour WHERE (hour, ${ROLLUP_KEY.join(', ')}) IN
      (SELECT hour, ${ROLLUP_KEY.join(', ')} FROM usage_hour WHERE hour < ? LIMIT ${DELETED.rows})`,
  ),
  oldFacets: database.prepare('DELETE FROM facet WHERE last_seen < ?'),
  pages: database.prepare(
    'SELECT page_count pages, freelist_count free, page_size size FROM pragma_page_count, pragma_freelist_count, pragma_page_size',
  ),
})

export class UsageDatabase {
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  #isShrinking = false
  /** Whether the path no longer leads to the open file. */
  readonly moved: () => boolean

  private constructor(database: DatabaseSync, path: string) {
    this.#database = database
    this.#statements = prepareStatements(database)
    this.moved = watchMoved([path])
  }

  /** Opens the file in a folder. Both are created if missing. */
  static async open(folder: string): Promise<UsageDatabase> {
    makeFolder(folder)
    const path = join(folder, USAGE_FILE)
    const database = new DatabaseSync(path)
    try {
      chmodSync(path, 0o600)
      // SQLite applies auto_vacuum only before the first table.
      database.exec(`PRAGMA busy_timeout = ${BUSY}; PRAGMA auto_vacuum = INCREMENTAL;
        PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${LOG_PAGES}`)
      await migrateSchema(database, { file: USAGE_FILE, migrations: USAGE_MIGRATIONS, oldestReader: 1 })
      return new UsageDatabase(database, path)
    } catch (error) {
      database.close()
      throw error
    }
  }

  /** The stored position of each segment. */
  positions(): readonly JournalRow[] {
    return this.#statements.positions.all().map(({ segment, position, malformed }) => ({
      segment: String(segment),
      position: Number(position),
      malformed: Number(malformed),
    }))
  }

  /** Attempts of unfinished requests. */
  unfinished(): readonly { readonly row: AttemptRow; readonly opened: OpenedColumn }[] {
    return this.#statements.unfinished.all().map((found) => {
      // Only this file writes the table.
      const row = found as AttemptRow
      return { row, opened: JSON.parse(row.opened ?? '') as OpenedColumn }
    })
  }

  /** What each budget counter has spent in periods that began at `since` or later. */
  sums(since: number): readonly BudgetSumRow[] {
    return this.#statements.sums.all(since) as BudgetSumRow[]
  }

  /** Stores a batch and the positions that it was read up to, in one transaction. */
  store(batch: LedgerBatch, positions: readonly JournalRow[]): void {
    const { addHour, addDay, addSum, setFacet, setPosition } = this.#statements
    this.#transaction(() => {
      for (const attempt of batch.attempts) this.#storeAttempt(attempt)
      for (const row of batch.requests) this.#storeRequest(row)
      for (const addition of batch.additions) this.#addToRequest(addition)
      for (const row of batch.hours) addHour.run(row.period, ...rollupValues(row))
      for (const row of batch.days) addDay.run(row.period, ...rollupValues(row))
      for (const { counter, period_start, node, spent } of batch.sums) addSum.run(counter, period_start, node, spent)
      for (const { name, value, last_seen } of batch.facets) setFacet.run(name, value, last_seen)
      for (const { segment, position, malformed } of positions) setPosition.run(segment, position, malformed)
    })
    for (const attempt of batch.attempts) attempt.stored = true
  }

  /** Moves the log into the file and waits for the disk, so that stored segments can be deleted. */
  checkpoint(): void {
    this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)')
  }

  removePosition(segment: string): void {
    this.#statements.removePosition.run(segment)
  }

  /** Deletes a batch of old rows and returns free pages to the file system. Returns whether more may be left. */
  sweep(limits: UsageLimits, now: number): boolean {
    const { oldAttempts, oldRequests, oldHours, oldFacets } = this.#statements
    this.#checkSize(limits)
    const rowsUntil = this.#isShrinking ? Number.MAX_SAFE_INTEGER : now - limits.keepDays * DAY
    const hoursUntil = now - limits.keepHours * DAY
    const rows = this.#transaction(() => {
      oldFacets.run(hoursUntil)
      const hours = Number(oldHours.run(hoursUntil).changes)
      return hours + Number(oldAttempts.run(rowsUntil).changes) + Number(oldRequests.run(rowsUntil).changes)
    })
    // `exec` runs all steps of the pragma; a prepared statement would run one.
    this.#database.exec(`PRAGMA incremental_vacuum(${DELETED.pages})`)
    const { free } = this.#size()
    if (rows >= DELETED.rows || (rows > 0 && this.#isShrinking) || free > 0) return true
    this.checkpoint()
    return false
  }

  close(): void {
    this.#database.close()
  }

  #transaction<T>(run: () => T): T {
    this.#database.exec('BEGIN IMMEDIATE')
    try {
      const result = run()
      this.#database.exec('COMMIT')
      return result
    } catch (error) {
      // On a full disk SQLite has rolled back already; another rollback would replace that error.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      throw error
    }
  }

  #storeAttempt(attempt: UnfinishedAttempt): void {
    const { insertAttempt, updateAttempt } = this.#statements
    const { row } = attempt
    if (attempt.stored) updateAttempt.run(...valuesOf(CHANGED, row), row.started, row.request, row.n)
    else attempt.row = insertNext(row, 'started', (next) => insertAttempt.run(...valuesOf(ATTEMPT, next)).changes)
  }

  #storeRequest(row: RequestRow): void {
    insertNext(row, 'received', (next) => this.#statements.insertRequest.run(...valuesOf(REQUEST, next)).changes)
  }

  #addToRequest(of: RequestAddition): void {
    const { input, output, cache_read, cache_write, reasoning, cost, usage_source, received, id } = of
    this.#statements.addToRequest.run(
      input,
      output,
      cache_read,
      cache_write,
      reasoning,
      cost,
      cost,
      usage_source,
      received,
      id,
    )
  }

  /** Rows are deleted from the maximum size on, until `EASED` of it. */
  #checkSize({ maxMegabytes }: UsageLimits): void {
    const { used } = this.#size()
    this.#isShrinking = used > maxMegabytes * MIB * (this.#isShrinking ? EASED : 1)
  }

  #size(): { readonly used: number; readonly free: number } {
    const row = this.#statements.pages.get()
    const [pages, free] = [Number(row?.pages), Number(row?.free)]
    return { used: (pages - free) * Number(row?.size), free }
  }
}

/**
 * Inserts a row. If its key is taken, its time is moved by 1 ms until it is free: clients can send one request ID several
 * times in a millisecond. Returns the row as inserted.
 */
const insertNext = <Time extends string, Row extends { readonly [name in Time]: number }>(
  row: Row,
  time: Time,
  insert: (row: Row) => number | bigint,
): Row => {
  let next = row
  while (Number(insert(next)) === 0) next = { ...next, [time]: next[time] + 1 }
  return next
}

const valuesOf = <Row>(columns: readonly (keyof Row)[], row: Row): SQLInputValue[] =>
  // Rows contain texts, numbers and null.
  columns.map((column) => row[column] as SQLInputValue)

const rollupValues = (row: RollupRow<unknown>): SQLInputValue[] => [
  ...valuesOf<RollupRow<unknown>>(ROLLUP_KEY, row),
  ...valuesOf<RollupRow<unknown>>(ROLLUP_COUNTS, row),
]
