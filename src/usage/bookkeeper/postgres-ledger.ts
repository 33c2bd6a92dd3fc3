/**
 * The ledger in Postgres, which several gateways write at a time. A batch is one exchange of messages, and nothing is locked for all:
 * rows are inserted into the partition of their day, and sums are added in one order.
 */
import type { CounterSpend } from '../../core/journal.ts'
import { PostgresPool, type PostgresSession } from '../../storage/sql/postgres/pool.ts'
import { PostgresError } from '../../storage/sql/postgres/postgres-error.ts'
import { openShared } from '../../storage/sql/postgres/shared-schema.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { Partitions } from '../columns/partitions.ts'
import { type JournalRow, type OpenCallRow, REQUEST_COLUMNS, SHARED_USAGE } from '../columns/usage-schema.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import { type StoredNames, storedNames } from '../journal/node-name.ts'
import { endedProcesses, isOfRun, type JournalProcess } from '../journal/segment-files.ts'
import { counterSums } from './counter-sums.ts'
import type { LedgerBatch } from './fold.ts'
import {
  type Adjusted,
  type Adjustment,
  type CompleteGone,
  type LedgerStore,
  type LedgerSum,
  type LedgerWriter,
  MERGE_AFTER,
  type StoredState,
  type UsageLimits,
} from './ledger-store.ts'
import { type CountedPeriodOf, RunningCounts } from './period-count.ts'
import { countInPostgres } from './postgres-period-count.ts'
import { BatchStatements, CHECKS, NOW, readColumnTypes } from './postgres-statements.ts'
import { addSum, sweepTotals } from './postgres-sums.ts'

const DAY = 86_400_000
/** Rows of sums that are merged per transaction. */
const MERGED = 2_000
/**
 * ms after which a gateway that stores nothing is gone. Another one decides that when it has been connected for `wait`, so
 * that after an outage of the database all come back first.
 */
const GONE = { after: DAY, wait: 600_000 }
const RECEIVED = REQUEST_COLUMNS.indexOf('received')

const PROBLEMS: { readonly [code: string]: string } = {
  [CHECKS.gateway]: 'this gateway has stored no usage for 24 hours, so others have closed its attempts',
  [CHECKS.position]: 'the database has an earlier state of the journal, such as after a failover',
}

export class PostgresLedger implements LedgerStore {
  readonly #pool: PostgresPool
  /** Connects once more. */
  readonly #reading: () => PostgresPool
  readonly #counts = new RunningCounts()
  readonly #partitions: Partitions
  readonly #names: StoredNames
  readonly #process: JournalProcess
  #statements = new BatchStatements(new Map())
  /** Requests of the next batch. */
  #rows: RecordValues[] = []
  /** Positions in the database, by segment. */
  #positions = new Map<string, number>()
  /** Processes that had ended before the first sweep and have sums of their own; null: not known yet. */
  #endedProcesses: string[] | null = null

  private constructor(pool: PostgresPool, { node, process }: LedgerWriter, reading: () => PostgresPool) {
    this.#pool = pool
    this.#reading = reading
    this.#partitions = new Partitions(pool)
    this.#names = storedNames(node, true)
    this.#process = process
  }

  /** Connects; what is missing is created. */
  static async open(shared: SharedDatabase, writer: LedgerWriter): Promise<PostgresLedger> {
    const options = { max: 1, applicationName: 'headgate usage' }
    const pool = await openShared(shared, { ...SHARED_USAGE, mayCreate: true }, options)
    const own = { url: shared.url, schema: SHARED_USAGE.name, applicationName: 'headgate count', isApart: true }
    return new PostgresLedger(pool, writer, () => new PostgresPool({ ...own, max: 1 }))
  }

  /** A lost connection is replaced. */
  isStale(): boolean {
    return false
  }

  async begin(earlier: () => readonly JournalRow[]): Promise<StoredState> {
    await this.#partitions.makeAhead(Date.now())
    const { node, stored, range, own } = this.#names
    const state = await this.#pool.transaction(async (tx) => {
      // Waits for the transaction of an earlier connection, which has changed the row first.
      const { rows } = await tx.query(
        `INSERT INTO gateway AS known (node, since, seen) VALUES ($1, ${NOW}, ${NOW})
          ON CONFLICT (node) DO UPDATE SET since = excluded.since, seen = excluded.seen RETURNING xmax = 0 AS is_new`,
        [node],
      )
      if (rows[0]?.is_new)
        for (const { segment, position, malformed } of earlier())
          await tx.query('INSERT INTO journal VALUES ($1, $2, $3) ON CONFLICT DO NOTHING', [
            stored(segment),
            position,
            malformed,
          ])
      this.#statements = new BatchStatements(await readColumnTypes(tx))
      const found = await tx.query(
        'SELECT segment, position, malformed FROM journal WHERE segment >= $1 AND segment < $2',
        range,
      )
      const positions = found.rows.map(({ segment, position, malformed }) => ({
        segment: own(String(segment)) ?? '',
        position: Number(position),
        malformed: Number(malformed),
      }))
      return { positions, open: await openCalls(tx, this.#names) }
    })
    this.#positions = new Map(state.positions.map(({ segment, position }) => [segment, position]))
    return state
  }

  addRow(row: RecordValues): void {
    this.#rows.push(row)
  }

  async store(batch: LedgerBatch, positions: readonly JournalRow[]): Promise<void> {
    const rows = this.#rows
    this.#rows = []
    const now = Date.now()
    await this.#partitions.makeFor(receiptsOf(rows), now)
    const { node, stored } = this.#names
    const place = {
      node,
      stored,
      now,
      positions: positions.map((row) => ({ ...row, before: this.#positions.get(row.segment) ?? null })),
    }
    try {
      await this.#pool.batch(this.#statements.of(batch, rows, place))
    } catch (error) {
      const problem = error instanceof PostgresError ? PROBLEMS[error.code ?? ''] : undefined
      throw problem === undefined ? error : new Error(problem)
    }
    for (const { segment, position } of positions) this.#positions.set(segment, position)
  }

  async sums(since: number, counted: readonly CountedPeriodOf[], at: number): Promise<readonly LedgerSum[]> {
    const database = { pool: this.#pool, reading: this.#reading }
    const process = this.#names.stored('')
    for (const one of counted) await this.#counts.run(one, () => countInPostgres(database, one, { at, process }))
    return this.#sums(since)
  }

  adjust({ amount, process, ...adjustment }: Adjustment): Promise<Adjusted> {
    const { id, at, budget, counter, period_start, key, reason, actor } = adjustment
    return this.#pool.transaction(async (tx) => {
      const known = async () => (await tx.query('SELECT amount FROM adjustment WHERE id = $1', [id])).rows[0]
      const spent = async () => {
        const found = await tx.query(
          'SELECT spent FROM budget_sum WHERE counter = $1 AND period_start = $2 FOR UPDATE',
          [counter, period_start],
        )
        return Number(found.rows[0]?.spent ?? 0)
      }
      const value = amount === 'reset' ? -(await spent()) : amount
      const { changes } = await tx.query(
        `INSERT INTO adjustment (id, at, budget, counter, period_start, key, amount, reason, actor)
          VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
        [id, at, budget, counter, period_start, key, value, reason, actor],
      )
      if (changes === 0) return { amount: Number((await known())?.amount), isNew: false }
      if (counter !== null && period_start !== null) {
        const stored = this.#names.stored(process)
        await addSum(tx, { process: stored, counter, periodStart: period_start, spent: value })
      }
      return { amount: value, isNew: true }
    })
  }

  /** A commit that waits for the disk has those before it there too. */
  async checkpoint(): Promise<void> {
    await this.#pool.query(`UPDATE gateway SET seen = ${NOW} WHERE node = $1`, [this.#names.node])
  }

  async removePosition(segment: string): Promise<void> {
    await this.#pool.query('DELETE FROM journal WHERE segment = $1', [this.#names.stored(segment)])
    this.#positions.delete(segment)
  }

  async spentBy(process: string): Promise<readonly CounterSpend[]> {
    const { rows } = await this.#pool.query('SELECT counter, period_start, spent FROM process_sum WHERE process = $1', [
      this.#names.stored(process),
    ])
    return rows.map(({ counter, period_start, spent }) => ({
      counter: String(counter),
      periodStart: Number(period_start),
      spent: Number(spent),
    }))
  }

  closeGone(complete: CompleteGone): Promise<boolean> {
    return this.#pool.transaction(async (tx) => {
      const found = await tx.query(
        `SELECT node FROM gateway WHERE seen < ${NOW} - ${GONE.after} AND node <> $1
          AND EXISTS (SELECT 1 FROM gateway WHERE node = $1 AND since < ${NOW} - ${GONE.wait})
          LIMIT 1 FOR UPDATE SKIP LOCKED`,
        [this.#names.node],
      )
      const [row] = found.rows
      if (!row) return false
      const names = storedNames(String(row.node), true)
      const open = await openCalls(tx, names)
      const { node, stored } = names
      const now = Date.now()
      if (open.length > 0) {
        const added: RecordValues[] = []
        const batch = complete({ node, open }, added)
        for (const { text, values } of this.#statements.of(batch, added, { node, stored, positions: [], now }))
          await tx.query(text, values)
      }
      await tx.query(
        "UPDATE incident SET ended = greatest(began, $1), ended_by = 'restart' WHERE node = $2 AND ended IS NULL",
        [now, node],
      )
      await tx.query('DELETE FROM gateway WHERE node = $1', [node])
      return true
    })
  }

  async sweep(limits: UsageLimits, now: number): Promise<boolean> {
    await this.#partitions.makeAhead(now)
    const hoursUntil = now - limits.keepHours * DAY
    const isLeft = [
      await this.#partitions.dropOld(limits, now),
      now - this.#process.start > MERGE_AFTER && (await this.#mergeSums()),
      await this.#pool.transaction((tx) => sweepTotals(tx, hoursUntil)),
    ]
    return isLeft.includes(true)
  }

  close(): Promise<void> {
    return this.#pool.close()
  }

  async #sums(since: number): Promise<readonly LedgerSum[]> {
    const [sums, parts] = await this.#pool.batch(
      [
        {
          text: 'SELECT counter, period_start, spent FROM budget_sum WHERE period_start >= $1 ORDER BY counter, period_start',
          values: [since],
        },
        {
          text: 'SELECT process, counter, period_start, spent FROM process_sum WHERE period_start >= $1',
          values: [since],
        },
      ],
      { readOnly: true, isolation: 'repeatable read' },
    )
    return counterSums(sums?.rows ?? [], parts?.rows ?? [], (stored) => {
      const own = this.#names.own(stored)
      return own !== null && own !== '' && isOfRun(own, this.#process)
    })
  }

  /** A batch of what a process has spent that has ended: no counters contain it any more. Returns whether more is left. */
  async #mergeSums(): Promise<boolean> {
    const { stored, own, range } = this.#names
    if (this.#endedProcesses === null) {
      const text = 'SELECT DISTINCT process FROM process_sum WHERE process >= $1 AND process < $2'
      const names = (await this.#pool.query(text, range)).rows.flatMap(({ process }) => own(String(process)) || [])
      // Counters of this process contain what its own workers have spent, also of those that have ended.
      const others = new Set(names.filter((name) => !isOfRun(name, this.#process)))
      this.#endedProcesses = [...endedProcesses(others, this.#process)]
    }
    const [process] = this.#endedProcesses
    if (process === undefined) return false
    const { changes } = await this.#pool.query(
      `WITH part AS (
          DELETE FROM process_sum WHERE process = $2 AND (counter, period_start) IN
            (SELECT counter, period_start FROM process_sum WHERE process = $2 ORDER BY counter, period_start LIMIT ${MERGED})
          RETURNING counter, period_start, spent)
        INSERT INTO process_sum (process, counter, period_start, spent) SELECT $1::text, counter, period_start, spent FROM part
        ON CONFLICT (process, counter, period_start) DO UPDATE SET spent = process_sum.spent + excluded.spent`,
      [stored(''), stored(process)],
    )
    if (changes < MERGED) this.#endedProcesses.shift()
    return this.#endedProcesses.length > 0
  }
}

function* receiptsOf(rows: readonly RecordValues[]): Generator<number> {
  for (const row of rows) yield Number(row[RECEIVED])
}

const openCalls = async (tx: PostgresSession, { own, range }: StoredNames): Promise<readonly OpenCallRow[]> => {
  const { rows } = await tx.query(
    'SELECT process, call, started, team, running, records FROM open_call WHERE process >= $1 AND process < $2',
    range,
  )
  return rows.map((found) => {
    // Only this program writes the table.
    const row = found as unknown as OpenCallRow
    return { ...row, process: own(row.process) ?? '' }
  })
}
