/**
 * The ledger in Postgres, which several gateways write at a time. A batch is one exchange of messages, and nothing is locked for all:
 * rows are inserted into the partition of their day, and sums are added in one order.
 */
import type { CounterSpend } from '../../core/journal.ts'
import type { PostgresPool, PostgresSession, TransactionOptions } from '../../storage/sql/postgres/pool.ts'
import { PostgresError } from '../../storage/sql/postgres/postgres-error.ts'
import { openShared } from '../../storage/sql/postgres/shared-schema.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { Partitions } from '../columns/partitions.ts'
import { type JournalRow, REQUEST_COLUMNS, SHARED_USAGE } from '../columns/usage-schema.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import { type StoredNames, storedNames } from '../journal/node-name.ts'
import { isOfRun, type JournalProcess } from '../journal/segment-files.ts'
import type { LedgerBatch } from './fold.ts'
import {
  adjust,
  EndedSums,
  type LedgerStatement,
  type LedgerSteps,
  type StatementResult,
  spentBy,
  statement,
  storedState,
  sumsSince,
  sweepTotals,
} from './ledger-steps.ts'
import type {
  Adjusted,
  Adjustment,
  CompleteGone,
  CountedPeriodOf,
  LedgerStore,
  LedgerSum,
  LedgerWriter,
  StoredState,
  UsageLimits,
} from './ledger-store.ts'
import { PeriodCounts, type StateQuery } from './period-count.ts'
import { BatchStatements, CHECKS, NOW, readColumnTypes } from './postgres-statements.ts'

const DAY = 86_400_000
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
  readonly #counts: PeriodCounts
  readonly #endedSums: EndedSums
  readonly #partitions: Partitions
  readonly #names: StoredNames
  readonly #process: JournalProcess
  #statements = new BatchStatements(new Map())
  /** Requests of the next batch. */
  #rows: RecordValues[] = []
  /** Positions in the database, by segment. */
  #positions = new Map<string, number>()

  private constructor(pool: PostgresPool, { node, process }: LedgerWriter) {
    this.#pool = pool
    this.#counts = new PeriodCounts({ run: (steps) => this.#run(steps), inState: (read) => readState(pool, read) })
    this.#partitions = new Partitions(pool)
    this.#names = storedNames(node, true)
    this.#endedSums = new EndedSums(this.#names, process)
    this.#process = process
  }

  /** Connects; what is missing is created. */
  static async open(shared: SharedDatabase, writer: LedgerWriter): Promise<PostgresLedger> {
    const options = { max: 1, applicationName: 'headgate usage' }
    const pool = await openShared(shared, { ...SHARED_USAGE, mayCreate: true }, options)
    return new PostgresLedger(pool, writer)
  }

  /** A lost connection is replaced. */
  isStale(): boolean {
    return false
  }

  async begin(earlier: () => readonly JournalRow[]): Promise<StoredState> {
    await this.#partitions.makeAhead(Date.now())
    const { node, stored } = this.#names
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
      return driven(tx, storedState(this.#names))
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
    for (const one of counted) await this.#counts.count(one, at)
    const isOwn = (stored: string) => isOfRun(this.#names.own(stored) ?? '', this.#process)
    return this.#run(() => sumsSince(since, isOwn), { readOnly: true, isolation: 'repeatable read' })
  }

  spentBy(process: string): Promise<readonly CounterSpend[]> {
    return this.#run(() => spentBy(this.#names.stored(process)), { readOnly: true })
  }

  adjust({ process, ...adjustment }: Adjustment): Promise<Adjusted> {
    return this.#run(() => adjust(adjustment, process === '' ? null : this.#names.stored(process)))
  }

  /** A commit that waits for the disk has those before it there too. */
  async checkpoint(): Promise<void> {
    await this.#pool.query(`UPDATE gateway SET seen = ${NOW} WHERE node = $1`, [this.#names.node])
  }

  async removePosition(segment: string): Promise<void> {
    await this.#run(() => statement('DELETE FROM journal WHERE segment = $1', this.#names.stored(segment)))
    this.#positions.delete(segment)
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
      const { open } = await driven(tx, storedState(names))
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
    const isLeft = [
      await this.#partitions.dropOld(limits, now),
      await this.#run(() => this.#endedSums.remove(now)),
      await this.#run(() => alone(sweepTotals(limits, now))),
    ]
    return isLeft.includes(true)
  }

  close(): Promise<void> {
    return this.#pool.close()
  }

  #run<T>(steps: () => LedgerSteps<T>, options?: TransactionOptions): Promise<T> {
    return this.#pool.transaction((tx) => driven(tx, steps()), options)
  }
}

const driven = async <T>(tx: PostgresSession, steps: LedgerSteps<T>): Promise<T> => {
  let step = steps.next()
  while (!step.done) step = steps.next(await tx.query(step.value.text, step.value.values))
  return step.value
}

/** One gateway sweeps at a time; the others leave it to that one. */
function* alone(sweep: LedgerSteps<boolean>): LedgerSteps<boolean> {
  const lock = yield* statement("SELECT pg_try_advisory_xact_lock(hashtext('headgate sweep')) AS is_ours")
  return lock.rows[0]?.is_ours === true && (yield* sweep)
}

/**
 * Whether a row was stored when the snapshot of the third placeholder was taken. Rows are written once, and state their transaction in 32
 * bits: those of the nearest one of 64 bits.
 */
const IS_STORED = `pg_visible_in_snapshot((pg_snapshot_xmax($3::text::pg_snapshot)::text::bigint - 2147483648 +
  ((request.xmin::text::bigint - pg_snapshot_xmax($3::text::pg_snapshot)::text::bigint + 2147483648) % 4294967296 + 4294967296) % 4294967296
  )::text::xid8, $3::text::pg_snapshot)`

/**
 * Reads one state in short transactions: one that lasted for all statements would need a connection of its own, and keep the server from
 * removing old rows.
 */
const readState = <T>(pool: PostgresPool, read: (query: StateQuery) => Promise<T>): Promise<T> => {
  let snapshot: string | null = null
  const first = async ({ text, values }: LedgerStatement): Promise<StatementResult> => {
    const statements = [{ text: 'SELECT pg_current_snapshot()::text AS snapshot' }, { text, values }]
    const [state, result] = await pool.batch(statements, { readOnly: true, isolation: 'repeatable read' })
    snapshot = String(state?.rows[0]?.snapshot)
    return result ?? { rows: [], changes: 0 }
  }
  return read({
    isInState: IS_STORED,
    run: (one) =>
      snapshot === null ? first(one) : pool.query(one.text, [...one.values, snapshot], { readOnly: true }),
  })
}

function* receiptsOf(rows: readonly RecordValues[]): Generator<number> {
  for (const row of rows) yield Number(row[RECEIVED])
}
