/**
 * The database of the ledger for the bookkeeper: `usage.db`, or Postgres for several gateways. Writes are prepared statements
 * in one synchronous transaction; kysely creates the schema. Functions throw the error of the database or of the file system.
 */
import { runAll, type SqlDatabase, type SqlValue } from '../../storage/sql/database.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { inTransaction } from '../../storage/sql/transaction.ts'
import {
  type AdjustmentRow,
  ATTEMPT_COLUMNS,
  type AttemptRow,
  type BudgetSumRow,
  columnsOf,
  type IncidentRow,
  type JournalRow,
  NO_COUNTS,
  type OpenedColumn,
  REQUEST_COLUMNS,
  type RollupKey,
  type RollupRow,
  type UsageTables,
} from '../columns/usage-schema.ts'
import { openStorage, type UsageStorage } from '../columns/usage-storage.ts'
import { type StoredNames, storedNames } from '../journal/node-name.ts'
import { endedProcesses, isOfRun, type JournalProcess, processName } from '../journal/segment-files.ts'
import type { LedgerBatch, RequestAddition } from './fold.ts'
import { type CountedPeriodOf, countPeriod } from './period-count.ts'

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
  /** The parts of the gateways that have recorded it: of several only in a shared database. */
  readonly nodes: readonly NodeSum[]
}

/** What one gateway has recorded. `isOwn`: this one. */
export type NodeSum = { readonly node: string; readonly isOwn: boolean; readonly spent: number }

/** What rows of this process are marked with. */
export type LedgerWriter = { readonly node: string; readonly process: JournalProcess }

/** Attempts of requests that are not complete. */
export type UnfinishedAttempts = readonly { readonly row: AttemptRow; readonly opened: OpenedColumn }[]

/** What a bookkeeper continues from. */
export type StoredState = { readonly positions: readonly JournalRow[]; readonly unfinished: UnfinishedAttempts }

const DAY = 86_400_000
const MIB = 1_048_576
/** Rows deleted per transaction. */
const DELETED = 2_000
/**
 * ms after which a gateway that stores nothing is gone. Another one decides that when it has been connected for `wait`, so
 * that after an outage of the database all come back first.
 */
const GONE = { after: DAY, wait: 600_000 }
/** Fraction of the maximum size that remains after rows were deleted. */
const EASED = 0.9
/** Distinct values listed per facet. */
const FACET_VALUES = 1_000
/** Incidents that are kept. */
const INCIDENTS = 10_000

const ADJUSTMENT = columnsOf<AdjustmentRow>()([
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
const INCIDENT = columnsOf<IncidentRow>()(['id', 'began', 'ended', 'ended_by', 'node', 'process', 'details'])
const ROLLUP_KEY = columnsOf<RollupKey>()([
  'node',
  'team',
  'key',
  'provider',
  'model',
  'style',
  'tag',
  'route',
  'client',
  'outcome',
])
// These are the members of the object.
const ROLLUP_COUNTS = Object.keys(NO_COUNTS) as readonly (keyof typeof NO_COUNTS)[]

const insertInto = (table: keyof UsageTables, columns: readonly string[]): string =>
  `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`

const addInto = (table: 'usage_hour' | 'usage_day', period: 'hour' | 'day'): string =>
  `${insertInto(table, [period, ...ROLLUP_KEY, ...ROLLUP_COUNTS])}
    ON CONFLICT (${[period, ...ROLLUP_KEY].join(', ')}) DO UPDATE SET ${ROLLUP_COUNTS.map(
      (column) => `${column} = ${table}.${column} + excluded.${column}`,
    ).join(', ')}`

const KEPT_IN_PLACE = ['request', 'call', 'n', 'started']
const CHANGED = ATTEMPT_COLUMNS.filter((column) => !KEPT_IN_PLACE.includes(column))

/** The oldest rows that may be deleted: started before a time, of complete requests. */
const oldest = (table: 'attempt' | 'request'): string => {
  const [time, key, condition] =
    table === 'attempt' ? ['started', 'started, request, n', 'AND opened IS NULL'] : ['received', 'received, id', '']
  return `DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE ${time} < ? ${condition} ORDER BY ${time} LIMIT ${DELETED})`
}

/** A batch of what a process has spent. */
const SUMS_OF = `SELECT * FROM budget_sum WHERE process = ?
  ORDER BY counter, period_start, node LIMIT ${DELETED}`

/** Adds to what a process has spent of a counter. */
const ADD_SUM = `ON CONFLICT (counter, period_start, node, process) DO UPDATE SET spent = budget_sum.spent + excluded.spent`

/** ms since 1970, by the clock of the database. */
const NOW = `CAST(unixepoch('subsec') * 1000 AS BIGINT)`

const prepareStatements = (database: SqlDatabase) => ({
  insertAttempt: database.prepare(`${insertInto('attempt', [...ATTEMPT_COLUMNS, 'opened'])} ON CONFLICT DO NOTHING`),
  updateAttempt: database.prepare(
    `UPDATE attempt SET ${[...CHANGED, 'opened'].map((column) => `${column} = ?`).join(', ')} WHERE started = ? AND request = ? AND n = ?`,
  ),
  insertRequest: database.prepare(`${insertInto('request', REQUEST_COLUMNS)} ON CONFLICT DO NOTHING`),
  lastReceived: database.prepare('SELECT max(received) AS last FROM request WHERE id = ?'),
  lastStarted: database.prepare('SELECT max(started) AS last FROM attempt WHERE request = ?'),
  addToRequest:
    database.prepare(`UPDATE request SET input = input + ?, output = output + ?, cache_read = cache_read + ?,
    cache_write = cache_write + ?, reasoning = reasoning + ?,
    cost = CASE WHEN CAST(? AS BIGINT) IS NULL THEN cost ELSE coalesce(cost, 0) + ? END,
    usage_source = CASE CAST(? AS TEXT) WHEN 'estimated' THEN 'estimated' ELSE usage_source END WHERE (received, id) =
      (SELECT received, id FROM request WHERE id = ? AND call = ? AND received >= ? ORDER BY received LIMIT 1)`),
  addHour: database.prepare(addInto('usage_hour', 'hour')),
  addDay: database.prepare(addInto('usage_day', 'day')),
  addSum: database.prepare(
    `${insertInto('budget_sum', ['counter', 'period_start', 'node', 'process', 'spent'])} ${ADD_SUM}`,
  ),
  setFacet: database.prepare(
    `INSERT INTO facet (name, value, last_seen) SELECT CAST(?1 AS TEXT), CAST(?2 AS TEXT), CAST(?3 AS BIGINT)
      WHERE EXISTS (SELECT 1 FROM facet WHERE name = ?1 AND value = ?2)
        OR (SELECT count(*) FROM facet WHERE name = ?1) < ${FACET_VALUES}
      ON CONFLICT (name, value) DO UPDATE SET last_seen = max(facet.last_seen, excluded.last_seen)`,
  ),
  setPosition: database.prepare(
    `${insertInto('journal', ['segment', 'position', 'malformed'])}
      ON CONFLICT (segment) DO UPDATE SET position = excluded.position, malformed = excluded.malformed`,
  ),
  addPosition: database.prepare(
    `${insertInto('journal', ['segment', 'position', 'malformed'])} ON CONFLICT (segment) DO NOTHING`,
  ),
  removePosition: database.prepare('DELETE FROM journal WHERE segment = ?'),
  positions: database.prepare('SELECT segment, position, malformed FROM journal WHERE segment >= ? AND segment < ?'),
  unfinished: database.prepare('SELECT * FROM attempt WHERE opened IS NOT NULL'),
  sums: database.prepare(
    `SELECT counter, period_start, node, process, spent FROM budget_sum WHERE period_start >= ?
      ORDER BY counter, period_start, node`,
  ),
  processes: database.prepare("SELECT DISTINCT process FROM budget_sum WHERE process <> '' AND node = ?"),
  addSumsOf: database.prepare(
    `INSERT INTO budget_sum SELECT counter, period_start, node, '', spent FROM (${SUMS_OF}) AS part WHERE true ${ADD_SUM}`,
  ),
  removeSumsOf: database.prepare(
    `DELETE FROM budget_sum WHERE (counter, period_start, node, process) IN
      (SELECT counter, period_start, node, process FROM (${SUMS_OF}) AS part)`,
  ),
  insertAdjustment: database.prepare(`${insertInto('adjustment', ADJUSTMENT)} ON CONFLICT DO NOTHING`),
  adjustment: database.prepare('SELECT amount FROM adjustment WHERE id = ?'),
  spent: database.prepare(
    'SELECT coalesce(sum(spent), 0) AS spent FROM budget_sum WHERE counter = ? AND period_start = ?',
  ),
  /** A time at or before which at most a batch of either table began. */
  batchEnd: database.prepare(
    `SELECT min(until) AS until FROM (
      SELECT max(received) AS until FROM (SELECT received FROM request ORDER BY received LIMIT ${DELETED}) AS requests
      UNION ALL
      SELECT max(started) FROM (SELECT started FROM attempt ORDER BY started LIMIT ${DELETED}) AS attempts) AS ends`,
  ),
  oldAttempts: database.prepare(oldest('attempt')),
  oldRequests: database.prepare(oldest('request')),
  oldHours: database.prepare(
    `DELETE FROM usage_hour WHERE (hour, ${ROLLUP_KEY.join(', ')}) IN
      (SELECT hour, ${ROLLUP_KEY.join(', ')} FROM usage_hour WHERE hour < ? LIMIT ${DELETED})`,
  ),
  oldFacets: database.prepare('DELETE FROM facet WHERE last_seen < ?'),
  setIncident: database.prepare(
    `${insertInto('incident', INCIDENT)} ON CONFLICT (id) DO UPDATE SET began = excluded.began, ended = excluded.ended,
      ended_by = excluded.ended_by, details = excluded.details`,
  ),
  endIncidents: database.prepare(
    "UPDATE incident SET ended = max(began, ?), ended_by = 'restart' WHERE process = ? AND ended IS NULL",
  ),
  endIncidentsOf: database.prepare(
    "UPDATE incident SET ended = max(began, ?), ended_by = 'restart' WHERE node = ? AND ended IS NULL",
  ),
  oldIncidents: database.prepare(
    `DELETE FROM incident WHERE began < ? OR began <
      (SELECT min(began) FROM (SELECT began FROM incident ORDER BY began DESC LIMIT ${INCIDENTS}) AS newest)`,
  ),
})

/** Statements on the gateways of a shared database. */
const prepareGatewayStatements = (database: SqlDatabase) => ({
  enter: database.prepare(
    `INSERT INTO gateway (node, since, seen) VALUES (?, ${NOW}, ${NOW})
      ON CONFLICT (node) DO UPDATE SET since = excluded.since, seen = excluded.seen`,
  ),
  known: database.prepare('SELECT 1 FROM gateway WHERE node = ?'),
  beat: database.prepare(`UPDATE gateway SET seen = ${NOW} WHERE node = ?`),
  gone: database.prepare(
    `SELECT node FROM gateway WHERE seen < ${NOW} - ${GONE.after} AND node <> ?1
      AND EXISTS (SELECT 1 FROM gateway WHERE node = ?1 AND since < ${NOW} - ${GONE.wait}) LIMIT 1`,
  ),
  leave: database.prepare('DELETE FROM gateway WHERE node = ?'),
})

/** Rows of one gateway follow each other. */
const addNode = (nodes: readonly NodeSum[], part: NodeSum): readonly NodeSum[] => {
  const last = nodes.at(-1)
  if (last?.node !== part.node) return [...nodes, part]
  return [...nodes.slice(0, -1), { ...part, spent: last.spent + part.spent }]
}

export class UsageDatabase {
  readonly #storage: UsageStorage
  readonly #database: SqlDatabase
  readonly #statements: ReturnType<typeof prepareStatements>
  /** Null: no other gateway stores its usage in this database. */
  readonly #gateways: ReturnType<typeof prepareGatewayStatements> | null
  readonly #process: JournalProcess
  readonly #names: StoredNames
  /** Processes that had ended before the first sweep and have sums of their own; null: not known yet. */
  #endedProcesses: string[] | null = null
  #isShrinking = false

  private constructor(storage: UsageStorage, { node, process }: LedgerWriter) {
    this.#storage = storage
    this.#database = storage.database
    this.#process = process
    this.#names = storedNames(node, storage.isShared)
    this.#statements = prepareStatements(storage.database)
    this.#gateways = storage.isShared ? prepareGatewayStatements(storage.database) : null
  }

  /** Opens the shared database, or the file in a folder. What is missing is created. */
  static open(folder: string, shared: SharedDatabase | null, writer: LedgerWriter): Promise<UsageDatabase> {
    return openStorage(folder, shared, (storage) => new UsageDatabase(storage, writer))
  }

  /** The database must be opened again. */
  isStale(): boolean {
    return this.#storage.isStale()
  }

  /**
   * What a bookkeeper of this gateway continues from: the stored position of each segment, and attempts of unfinished
   * requests. It waits for the transaction of an earlier connection, whose commit may still be on its way. `earlier`: the
   * positions of a gateway that has not stored anything in the shared database.
   */
  begin(earlier: () => readonly JournalRow[] = () => []): StoredState {
    return inTransaction(this.#database, () => {
      const { node, stored } = this.#names
      if (this.#gateways && !this.#gateways.known.get(node))
        runAll(
          this.#statements.addPosition,
          earlier().map(({ segment, position, malformed }) => [stored(segment), position, malformed]),
        )
      this.#gateways?.enter.run(node)
      return { positions: this.#positions(), unfinished: this.#unfinishedOf(this.#names) }
    })
  }

  #positions(): readonly JournalRow[] {
    const { own, range } = this.#names
    return this.#statements.positions.all(...range).map(({ segment, position, malformed }) => ({
      segment: own(String(segment)) ?? '',
      position: Number(position),
      malformed: Number(malformed),
    }))
  }

  #unfinishedOf({ own }: StoredNames): UnfinishedAttempts {
    return this.#statements.unfinished.all().flatMap((found) => {
      // Only this program writes the table.
      const row = found as AttemptRow
      const opened = JSON.parse(row.opened ?? '') as OpenedColumn
      const process = own(opened.process)
      return process === null ? [] : [{ row, opened: { ...opened, process } }]
    })
  }

  /** What each budget counter has spent in periods that began at `since` or later, after `counted` are counted at `at`. */
  sums(since: number, counted: readonly CountedPeriodOf[], at: number): readonly LedgerSum[] {
    return inTransaction(this.#database, () => {
      for (const one of counted) countPeriod(this.#database, one, { node: this.#names.node, at })
      return this.#sums(since)
    })
  }

  #sums(since: number): readonly LedgerSum[] {
    const rows = this.#statements.sums.all(since) as Pick<
      BudgetSumRow,
      'counter' | 'period_start' | 'node' | 'process' | 'spent'
    >[]
    const sums: LedgerSum[] = []
    for (const { counter, period_start, node, process, spent } of rows) {
      const name = this.#names.own(process)
      const earlier = name !== null && isOfRun(name, this.#process) ? 0 : spent
      const part = { node, isOwn: this.#names.isOwn(node), spent }
      const last = sums.at(-1)
      if (last?.counter === counter && last.period_start === period_start)
        sums[sums.length - 1] = {
          ...last,
          spent: last.spent + spent,
          earlier: last.earlier + earlier,
          nodes: addNode(last.nodes, part),
        }
      else sums.push({ counter, period_start, spent, earlier, nodes: [part] })
    }
    return sums
  }

  /**
   * Stores an adjustment and adds it to what its counter has spent; one with a known ID is not stored again. The amount
   * `reset` is minus what the counter has spent in the period.
   */
  adjust({ amount, ...adjustment }: Adjustment): Adjusted {
    const { node, stored: nameOf } = this.#names
    const { adjustment: stored, insertAdjustment, addSum, spent } = this.#statements
    const { counter, period_start } = adjustment
    return inTransaction(this.#database, () => {
      const known = stored.get(adjustment.id)
      if (known) return { amount: Number(known.amount), isNew: false }
      const total = () => -Number(spent.get(counter, period_start)?.spent)
      const row: AdjustmentRow = { ...adjustment, amount: amount === 'reset' ? total() : amount }
      insertAdjustment.run(...valuesOf(ADJUSTMENT, row))
      if (counter !== null && period_start !== null)
        addSum.run(counter, period_start, node, nameOf(processName(this.#process)), row.amount)
      return { amount: row.amount, isNew: true }
    })
  }

  /** Stores a batch and the positions that it was read up to, in one transaction. */
  store(batch: LedgerBatch, positions: readonly JournalRow[]): void {
    inTransaction(this.#database, () => {
      this.#beat()
      this.#write(batch, positions, this.#names)
    })
    for (const attempt of batch.attempts) attempt.stored = true
  }

  #write(batch: LedgerBatch, positions: readonly JournalRow[], { stored }: StoredNames): void {
    const { insertRequest, lastReceived, addToRequest, addHour, addDay, addSum } = this.#statements
    const { setFacet, setIncident, endIncidents, setPosition } = this.#statements
    this.#writeAttempts(batch.attempts, stored)
    insertAll(batch.requests, 'received', {
      insert: (rows) =>
        runAll(
          insertRequest,
          rows.map((row) => valuesOf(REQUEST_COLUMNS, row)),
        ),
      last: ({ id }) => Number(lastReceived.get(id)?.last),
    })
    runAll(addToRequest, batch.additions.map(additionValues))
    runAll(
      addHour,
      batch.hours.map((row) => [row.period, ...rollupValues(row)]),
    )
    runAll(
      addDay,
      batch.days.map((row) => [row.period, ...rollupValues(row)]),
    )
    runAll(
      addSum,
      batch.sums.map((sum) => [sum.counter, sum.period_start, sum.node, stored(sum.process), sum.spent]),
    )
    runAll(
      setFacet,
      batch.facets.map(({ name, value, last_seen }) => [name, value, last_seen]),
    )
    runAll(
      setIncident,
      batch.incidents.map((row) => valuesOf(INCIDENT, { ...row, process: stored(row.process) })),
    )
    const now = Date.now()
    runAll(
      endIncidents,
      batch.ended.map((process) => [now, stored(process)]),
    )
    runAll(
      setPosition,
      positions.map(({ segment, position, malformed }) => [stored(segment), position, malformed]),
    )
  }

  #writeAttempts(attempts: LedgerBatch['attempts'], stored: StoredNames['stored']): void {
    const { insertAttempt, lastStarted, updateAttempt } = this.#statements
    const all = [...attempts].map((attempt) => {
      const opened = { ...attempt.opened, process: stored(attempt.opened.process) }
      return { attempt, row: attempt.row, opened: attempt.isComplete ? null : JSON.stringify(opened) }
    })
    runAll(
      updateAttempt,
      all
        .filter(({ attempt }) => attempt.stored)
        .map(({ row, opened }) => [...valuesOf(CHANGED, row), opened, row.started, row.request, row.n]),
    )
    const added = all.filter(({ attempt }) => !attempt.stored)
    const rows = added.map(({ row, opened }) => ({ ...row, opened }))
    const inserted = insertAll(rows, 'started', {
      insert: (next) =>
        runAll(
          insertAttempt,
          next.map((row) => [...valuesOf(ATTEMPT_COLUMNS, row), row.opened]),
        ),
      last: ({ request }) => Number(lastStarted.get(request)?.last),
    })
    for (const [index, { attempt, row }] of added.entries())
      attempt.row = { ...row, started: inserted[index]?.started ?? row.started }
  }

  /** Throws if another gateway has closed the attempts of this one, which was gone for a day: the state is no longer that. */
  #beat(): void {
    if (this.#gateways?.beat.run(this.#names.node).changes === 0)
      throw new Error('this gateway has stored no usage for 24 hours, so others have closed its attempts')
  }

  /** Waits until the disk has what was stored, so that stored segments can be deleted. */
  checkpoint(): void {
    this.#storage.checkpoint()
  }

  removePosition(segment: string): void {
    this.#statements.removePosition.run(this.#names.stored(segment))
  }

  /**
   * Completes the requests of a gateway that has stored nothing for a day. `complete` returns what that adds. Returns whether
   * there was one.
   */
  closeGone(complete: (node: string, unfinished: UnfinishedAttempts) => LedgerBatch): boolean {
    const gateways = this.#gateways
    if (!gateways?.gone.get(this.#names.node)) return false
    return inTransaction(this.#database, () => {
      const found = gateways.gone.get(this.#names.node)
      if (!found) return false
      const names = storedNames(String(found.node), true)
      const unfinished = this.#unfinishedOf(names)
      if (unfinished.length > 0) this.#write(complete(names.node, unfinished), [], names)
      this.#statements.endIncidentsOf.run(Date.now(), names.node)
      gateways.leave.run(names.node)
      return true
    })
  }

  /** Deletes a batch of old rows and returns free pages to the file system. Returns whether more may be left. */
  sweep(limits: UsageLimits, now: number): boolean {
    const { oldAttempts, oldRequests, oldHours, oldFacets, oldIncidents, batchEnd } = this.#statements
    this.#checkSize(limits)
    // Both tables are cut at the same time, although a request may have several attempts.
    const rowsUntil = this.#isShrinking ? Number(batchEnd.get()?.until ?? 0) + 1 : now - limits.keepDays * DAY
    const hoursUntil = now - limits.keepHours * DAY
    const [hours, attempts, requests] = inTransaction(this.#database, () => {
      this.#beat()
      oldFacets.run(hoursUntil)
      oldIncidents.run(hoursUntil)
      this.#mergeSums()
      return [oldHours.run(hoursUntil), oldAttempts.run(rowsUntil), oldRequests.run(rowsUntil)].map(({ changes }) =>
        Number(changes),
      ) as [number, number, number]
    })
    const rows = hours + attempts + requests
    const isReleasing = this.#storage.release({ requests, attempts })
    if (rows >= DELETED || (rows > 0 && this.#isShrinking) || isReleasing || this.#endedProcesses?.length) return true
    this.checkpoint()
    return false
  }

  close(): void {
    this.#database.close()
  }

  /** Adds a batch of what a process has spent that has ended to one row for each counter. */
  #mergeSums(): void {
    const { processes, addSumsOf, removeSumsOf } = this.#statements
    this.#endedProcesses ??= this.#endedOf(processes.all(this.#names.node).map(({ process }) => String(process)))
    const [process] = this.#endedProcesses
    if (process === undefined) return
    const name = this.#names.stored(process)
    addSumsOf.run(name)
    if (removeSumsOf.run(name).changes < DELETED) this.#endedProcesses.shift()
  }

  /** Counters of this process contain what its own workers have spent, also of those that have ended. */
  #endedOf(processes: readonly string[]): string[] {
    const own = processes.flatMap((process) => this.#names.own(process) ?? [])
    return [...endedProcesses(new Set(own.filter((name) => !isOfRun(name, this.#process))), this.#process)]
  }

  /** Rows are deleted from the maximum size on, until `EASED` of it. */
  #checkSize({ maxMegabytes }: UsageLimits): void {
    const used = this.#storage.used(this.#isShrinking)
    this.#isShrinking = used > maxMegabytes * MIB * (this.#isShrinking ? EASED : 1)
  }
}

/** Statements for rows of one table. `insert` returns the number of added rows for each. */
type Insertion<Row> = {
  readonly insert: (rows: readonly Row[]) => readonly number[]
  /** The last time of the rows with the same ID. */
  readonly last: (row: Row) => number
}

/**
 * Inserts rows. If the key of one is taken, it is moved behind the last one of its ID, so that n equal IDs take n steps: in
 * journals of earlier versions the ID is the client's. Returns the rows as inserted.
 */
const insertAll = <Time extends string, Row extends { readonly [name in Time]: number }>(
  rows: readonly Row[],
  time: Time,
  { insert, last }: Insertion<Row>,
): readonly Row[] => {
  const changes = insert(rows)
  return rows.map((row, index) => {
    if (changes[index] !== 0) return row
    const moved = { ...row, [time]: last(row) + 1 }
    insert([moved])
    return moved
  })
}

const valuesOf = <Row>(columns: readonly (keyof Row)[], row: Row): SqlValue[] =>
  // Rows contain texts, numbers and null.
  columns.map((column) => row[column] as SqlValue)

const rollupValues = (row: RollupRow<unknown>): SqlValue[] => [
  ...valuesOf<RollupRow<unknown>>(ROLLUP_KEY, row),
  ...valuesOf<RollupRow<unknown>>(ROLLUP_COUNTS, row),
]

const additionValues = (of: RequestAddition): SqlValue[] => [
  ...valuesOf(['input', 'output', 'cache_read', 'cache_write', 'reasoning', 'cost', 'cost', 'usage_source'], of),
  ...valuesOf(['id', 'call', 'received'], of),
]
