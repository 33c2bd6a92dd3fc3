/**
 * `usage.db` for the bookkeeper. Writes are prepared statements in one synchronous transaction; kysely creates the schema.
 * Functions throw the error of SQLite or of the file system.
 */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { inTransaction } from '../sql/transaction.ts'
import { openSizedFile, type SizedFile } from '../sqlite/sized-file.ts'
import type { FoldedAttempt, LedgerBatch, RequestAddition } from './fold.ts'
import { type CountedPeriodOf, countPeriod } from './period-count.ts'
import { endedProcesses, isOfRun, type JournalProcess, processName } from './segment-files.ts'
import {
  type AdjustmentRow,
  ATTEMPT_COLUMNS,
  type AttemptRow,
  type BudgetSumRow,
  type JournalRow,
  NO_COUNTS,
  type OpenedColumn,
  REQUEST_COLUMNS,
  type RequestRow,
  type RollupRow,
  USAGE_SCHEMA,
  type UsageTables,
} from './usage-schema.ts'

/** Retention. `keepDays`: rows of requests and attempts; `keepHours`: days for which hourly sums are kept. */
export type UsageLimits = { readonly keepDays: number; readonly keepHours: number; readonly maxMegabytes: number }

/** An adjustment to be stored. `reset`: minus what the counter has spent. */
export type Adjustment = Omit<AdjustmentRow, 'amount'> & { readonly amount: number | 'reset' }

/** A stored adjustment: its amount in nano-dollars. `isNew`: false if its ID was stored before. */
export type Adjusted = { readonly amount: number; readonly isNew: boolean }

/** What a budget counter has spent in a period. `earlier`: the part that no counter of the running processes contains. */
export type LedgerSum = {
  readonly counter: string
  readonly period_start: number
  readonly spent: number
  readonly earlier: number
}

/** What rows of this process are marked with. */
export type LedgerWriter = { readonly node: string; readonly process: JournalProcess }

/** Pages of the log (16 MB) at which SQLite moves it into the file. */
const LOG_PAGES = 4_000
const DAY = 86_400_000
const MIB = 1_048_576
/** Rows deleted per transaction, and pages returned to the file system per step. */
const DELETED = { rows: 2_000, pages: 1_000 }
/** Fraction of the maximum size that remains after rows were deleted. */
const EASED = 0.9
/** Distinct values listed per facet. */
const FACET_VALUES = 1_000

const ADJUSTMENT: readonly (keyof AdjustmentRow)[] = [
  'id',
  'at',
  'budget',
  'counter',
  'period_start',
  'key',
  'amount',
  'reason',
  'actor',
]
const ROLLUP_KEY = ['node', 'team', 'key', 'provider', 'model', 'style', 'tag', 'route', 'client', 'outcome'] as const
// These are the members of the object.
const ROLLUP_COUNTS = Object.keys(NO_COUNTS) as readonly (keyof typeof NO_COUNTS)[]

const insertInto = (table: keyof UsageTables, columns: readonly string[]): string =>
  `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`

const addInto = (table: 'usage_hour' | 'usage_day', period: 'hour' | 'day'): string =>
  `${insertInto(table, [period, ...ROLLUP_KEY, ...ROLLUP_COUNTS])} ON CONFLICT DO UPDATE SET ${ROLLUP_COUNTS.map(
    (column) => `${column} = ${column} + excluded.${column}`,
  ).join(', ')}`

const KEPT_IN_PLACE = ['request', 'call', 'n', 'started']
const CHANGED = ATTEMPT_COLUMNS.filter((column) => !KEPT_IN_PLACE.includes(column))

/** The oldest rows that may be deleted: started before a time, of complete requests. */
const oldest = (table: 'attempt' | 'request'): string => {
  const [time, key, condition] =
    table === 'attempt' ? ['started', 'started, request, n', 'AND opened IS NULL'] : ['received', 'received, id', '']
  return `DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE ${time} < ? ${condition} ORDER BY ${time} LIMIT ${DELETED.rows})`
}

/** A batch of what a process has spent. */
const SUMS_OF = `SELECT * FROM budget_sum WHERE process = ?
  ORDER BY counter, period_start, node LIMIT ${DELETED.rows}`

const prepareStatements = (database: DatabaseSync) => ({
  insertAttempt: database.prepare(`${insertInto('attempt', [...ATTEMPT_COLUMNS, 'opened'])} ON CONFLICT DO NOTHING`),
  updateAttempt: database.prepare(
    `UPDATE attempt SET ${[...CHANGED, 'opened'].map((column) => `${column} = ?`).join(', ')} WHERE started = ? AND request = ? AND n = ?`,
  ),
  insertRequest: database.prepare(`${insertInto('request', REQUEST_COLUMNS)} ON CONFLICT DO NOTHING`),
  addToRequest:
    database.prepare(`UPDATE request SET input = input + ?, output = output + ?, cache_read = cache_read + ?,
    cache_write = cache_write + ?, reasoning = reasoning + ?,
    cost = CASE WHEN ? IS NULL THEN cost ELSE coalesce(cost, 0) + ? END,
    usage_source = CASE ? WHEN 'estimated' THEN 'estimated' ELSE usage_source END WHERE (received, id) =
      (SELECT received, id FROM request WHERE id = ? AND call = ? AND received >= ? ORDER BY received LIMIT 1)`),
  addHour: database.prepare(addInto('usage_hour', 'hour')),
  addDay: database.prepare(addInto('usage_day', 'day')),
  addSum: database.prepare(
    `${insertInto('budget_sum', ['counter', 'period_start', 'node', 'process', 'spent'])}
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
  sums: database.prepare(
    `SELECT counter, period_start, process, spent FROM budget_sum WHERE period_start >= ? ORDER BY counter, period_start`,
  ),
  processes: database.prepare("SELECT DISTINCT process FROM budget_sum WHERE process <> ''"),
  addSumsOf: database.prepare(
    `INSERT INTO budget_sum SELECT counter, period_start, node, '', spent FROM (${SUMS_OF}) WHERE true
      ON CONFLICT DO UPDATE SET spent = spent + excluded.spent`,
  ),
  removeSumsOf: database.prepare(
    `DELETE FROM budget_sum WHERE (counter, period_start, node, process) IN
      (SELECT counter, period_start, node, process FROM (${SUMS_OF}))`,
  ),
  insertAdjustment: database.prepare(`${insertInto('adjustment', ADJUSTMENT)} ON CONFLICT DO NOTHING`),
  adjustment: database.prepare('SELECT amount FROM adjustment WHERE id = ?'),
  spent: database.prepare(
    'SELECT coalesce(sum(spent), 0) spent FROM budget_sum WHERE counter = ? AND period_start = ?',
  ),
  /** A time at or before which at most a batch of either table began. */
  batchEnd: database.prepare(
    `SELECT min(until) until FROM (
      SELECT max(received) until FROM (SELECT received FROM request ORDER BY received LIMIT ${DELETED.rows})
      UNION ALL
      SELECT max(started) FROM (SELECT started FROM attempt ORDER BY started LIMIT ${DELETED.rows}))`,
  ),
  oldAttempts: database.prepare(oldest('attempt')),
  oldRequests: database.prepare(oldest('request')),
  oldHours: database.prepare(
    `DELETE FROM usage_hour WHERE (hour, ${ROLLUP_KEY.join(', ')}) IN
      (SELECT hour, ${ROLLUP_KEY.join(', ')} FROM usage_hour WHERE hour < ? LIMIT ${DELETED.rows})`,
  ),
  oldFacets: database.prepare('DELETE FROM facet WHERE last_seen < ?'),
})

export class UsageDatabase {
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #writer: LedgerWriter
  /** Processes that had ended before the first sweep and have sums of their own; null: not known yet. */
  #endedProcesses: string[] | null = null
  #isShrinking = false
  readonly #size: SizedFile['size']
  /** Whether the path no longer leads to the open file. */
  readonly moved: () => boolean

  private constructor({ database, moved, size }: SizedFile, writer: LedgerWriter) {
    this.#database = database
    this.#writer = writer
    this.#statements = prepareStatements(database)
    this.#size = size
    this.moved = moved
  }

  /** Opens the file in a folder. Both are created if missing. */
  static open(folder: string, writer: LedgerWriter): Promise<UsageDatabase> {
    return openSizedFile(folder, USAGE_SCHEMA, LOG_PAGES, (file) => new UsageDatabase(file, writer))
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

  /** What each budget counter has spent in periods that began at `since` or later, after `counted` are counted at `at`. */
  sums(since: number, counted: readonly CountedPeriodOf[], at: number): readonly LedgerSum[] {
    return inTransaction(this.#database, () => {
      for (const one of counted) countPeriod(this.#database, one, { node: this.#writer.node, at })
      return this.#sums(since)
    })
  }

  #sums(since: number): readonly LedgerSum[] {
    const { process: own } = this.#writer
    const rows = this.#statements.sums.all(since) as Pick<
      BudgetSumRow,
      'counter' | 'period_start' | 'process' | 'spent'
    >[]
    const sums: LedgerSum[] = []
    for (const { counter, period_start, process, spent } of rows) {
      const earlier = process !== '' && isOfRun(process, own) ? 0 : spent
      const last = sums.at(-1)
      if (last?.counter === counter && last.period_start === period_start)
        sums[sums.length - 1] = { ...last, spent: last.spent + spent, earlier: last.earlier + earlier }
      else sums.push({ counter, period_start, spent, earlier })
    }
    return sums
  }

  /**
   * Stores an adjustment and adds it to what its counter has spent; one with a known ID is not stored again. The amount
   * `reset` is minus what the counter has spent in the period.
   */
  adjust({ amount, ...adjustment }: Adjustment): Adjusted {
    const { node, process } = this.#writer
    const { adjustment: stored, insertAdjustment, addSum, spent } = this.#statements
    const { counter, period_start } = adjustment
    return inTransaction(this.#database, () => {
      const known = stored.get(adjustment.id)
      if (known) return { amount: Number(known.amount), isNew: false }
      const total = () => -Number(spent.get(counter, period_start)?.spent)
      const row: AdjustmentRow = { ...adjustment, amount: amount === 'reset' ? total() : amount }
      insertAdjustment.run(...valuesOf(ADJUSTMENT, row))
      if (counter !== null && period_start !== null)
        addSum.run(counter, period_start, node, processName(process), row.amount)
      return { amount: row.amount, isNew: true }
    })
  }

  /** Stores a batch and the positions that it was read up to, in one transaction. */
  store(batch: LedgerBatch, positions: readonly JournalRow[]): void {
    const { addHour, addDay, addSum, setFacet, setPosition } = this.#statements
    inTransaction(this.#database, () => {
      for (const attempt of batch.attempts) this.#storeAttempt(attempt)
      for (const row of batch.requests) this.#storeRequest(row)
      for (const addition of batch.additions) this.#addToRequest(addition)
      for (const row of batch.hours) addHour.run(row.period, ...rollupValues(row))
      for (const row of batch.days) addDay.run(row.period, ...rollupValues(row))
      for (const { counter, period_start, node, process, spent } of batch.sums)
        addSum.run(counter, period_start, node, process, spent)
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
    const { oldAttempts, oldRequests, oldHours, oldFacets, batchEnd } = this.#statements
    this.#checkSize(limits)
    // Both tables are cut at the same time, although a request may have several attempts.
    const rowsUntil = this.#isShrinking ? Number(batchEnd.get()?.until ?? 0) + 1 : now - limits.keepDays * DAY
    const hoursUntil = now - limits.keepHours * DAY
    const rows = inTransaction(this.#database, () => {
      oldFacets.run(hoursUntil)
      this.#mergeSums()
      const hours = Number(oldHours.run(hoursUntil).changes)
      return hours + Number(oldAttempts.run(rowsUntil).changes) + Number(oldRequests.run(rowsUntil).changes)
    })
    // `exec` runs all steps of the pragma; a prepared statement would run one.
    this.#database.exec(`PRAGMA incremental_vacuum(${DELETED.pages})`)
    const { free } = this.#size()
    if (rows >= DELETED.rows || (rows > 0 && this.#isShrinking) || free > 0 || this.#endedProcesses?.length) return true
    this.checkpoint()
    return false
  }

  close(): void {
    this.#database.close()
  }

  /** Adds a batch of what a process has spent that has ended to one row for each counter. */
  #mergeSums(): void {
    const { processes, addSumsOf, removeSumsOf } = this.#statements
    this.#endedProcesses ??= this.#endedOf(processes.all().map(({ process }) => String(process)))
    const [process] = this.#endedProcesses
    if (process === undefined) return
    addSumsOf.run(process)
    if (removeSumsOf.run(process).changes < DELETED.rows) this.#endedProcesses.shift()
  }

  /** Counters of this process contain what its own workers have spent, also of those that have ended. */
  #endedOf(processes: readonly string[]): string[] {
    const { process: own } = this.#writer
    return [...endedProcesses(new Set(processes.filter((name) => !isOfRun(name, own))), own)]
  }

  #storeAttempt(attempt: FoldedAttempt): void {
    const { insertAttempt, updateAttempt } = this.#statements
    const { row } = attempt
    const opened = attempt.isComplete ? null : JSON.stringify(attempt.opened)
    if (attempt.stored) updateAttempt.run(...valuesOf(CHANGED, row), opened, row.started, row.request, row.n)
    else
      attempt.row = insertNext(
        row,
        'started',
        (next) => insertAttempt.run(...valuesOf(ATTEMPT_COLUMNS, next), opened).changes,
      )
  }

  #storeRequest(row: RequestRow): void {
    insertNext(
      row,
      'received',
      (next) => this.#statements.insertRequest.run(...valuesOf(REQUEST_COLUMNS, next)).changes,
    )
  }

  #addToRequest(of: RequestAddition): void {
    const { input, output, cache_read, cache_write, reasoning, cost, usage_source, received, id, call } = of
    this.#statements.addToRequest.run(
      input,
      output,
      cache_read,
      cache_write,
      reasoning,
      cost,
      cost,
      usage_source,
      id,
      call,
      received,
    )
  }

  /** Rows are deleted from the maximum size on, until `EASED` of it. */
  #checkSize({ maxMegabytes }: UsageLimits): void {
    const { used } = this.#size()
    this.#isShrinking = used > maxMegabytes * MIB * (this.#isShrinking ? EASED : 1)
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
