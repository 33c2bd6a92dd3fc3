/** The ledger in `usage.db`. Writes are prepared statements in one transaction. */
import { DatabaseSync } from 'node:sqlite'
import type { CounterSpend } from '../../core/journal.ts'
import { inTransaction } from '../../storage/sql/transaction.ts'
import type { JournalRow } from '../columns/usage-schema.ts'
import { openStorage, type UsageStorage } from '../columns/usage-storage.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import { type StoredNames, storedNames } from '../journal/node-name.ts'
import { isOfRun, type JournalProcess } from '../journal/segment-files.ts'
import type { LedgerBatch } from './fold.ts'
import { DELETED, prepareStatements, writeBatch } from './ledger-statements.ts'
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
  CountedPeriodOf,
  LedgerStore,
  LedgerSum,
  LedgerWriter,
  StoredState,
  UsageLimits,
} from './ledger-store.ts'
import { PeriodCounts, type StateQuery } from './period-count.ts'

const DAY = 86_400_000
const MIB = 1_048_576
/** Fraction of the maximum size that remains after rows were deleted. */
const EASED = 0.9
/** ms to wait for a lock, which readers need only while the file is recovered. */
const BUSY = 2_000

export class SqliteLedger implements LedgerStore {
  readonly #storage: UsageStorage
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #process: JournalProcess
  readonly #names: StoredNames
  readonly #endedSums: EndedSums
  readonly #counts: PeriodCounts
  #isShrinking = false

  private constructor(storage: UsageStorage, { node, process }: LedgerWriter) {
    this.#storage = storage
    this.#database = storage.database
    this.#process = process
    this.#names = storedNames(node, false)
    this.#endedSums = new EndedSums(this.#names, process)
    this.#counts = new PeriodCounts({
      run: (steps) => this.#run(steps()),
      inState: (read) => readState(this.#database.location() ?? '', read),
    })
    this.#statements = prepareStatements(storage.database)
  }

  /** Opens the file in a folder. What is missing is created. */
  static open(folder: string, writer: LedgerWriter): Promise<SqliteLedger> {
    return openStorage(folder, (storage) => new SqliteLedger(storage, writer))
  }

  isStale(): boolean {
    return this.#storage.isStale()
  }

  begin(): Promise<StoredState> {
    return this.#run(storedState(this.#names))
  }

  /** Rows are inserted at once: those of a large batch in memory would be copied by the collector. */
  addRow(row: RecordValues): void {
    this.#beginBatch()
    this.#statements.insertRequest.run(...row)
  }

  async store(batch: LedgerBatch, positions: readonly JournalRow[]): Promise<void> {
    this.#beginBatch()
    writeBatch(this.#statements, batch, positions)
    this.#database.exec('COMMIT')
  }

  async sums(since: number, counted: readonly CountedPeriodOf[], at: number): Promise<readonly LedgerSum[]> {
    for (const one of counted) await this.#counts.count(one, at)
    return this.#run(sumsSince(since, (name) => isOfRun(name, this.#process)))
  }

  spentBy(process: string): Promise<readonly CounterSpend[]> {
    return this.#run(spentBy(process))
  }

  adjust({ process, ...adjustment }: Adjustment): Promise<Adjusted> {
    return this.#run(adjust(adjustment, process || null))
  }

  async checkpoint(): Promise<void> {
    this.#storage.checkpoint()
  }

  async removePosition(segment: string): Promise<void> {
    await this.#run(statement('DELETE FROM journal WHERE segment = $1', segment))
  }

  async closeGone(): Promise<boolean> {
    return false
  }

  async sweep(limits: UsageLimits, now: number): Promise<boolean> {
    const { oldRequests, batchEnd } = this.#statements
    this.#checkSize(limits)
    const rowsUntil = this.#isShrinking ? Number(batchEnd.get()?.until ?? 0) + 1 : now - limits.keepDays * DAY
    const requests = Number(oldRequests.run(rowsUntil).changes)
    const isLeft = [
      requests >= DELETED || (requests > 0 && this.#isShrinking),
      this.#storage.release(requests),
      await this.#run(sweepTotals(limits, now)),
      await this.#run(this.#endedSums.remove(now)),
    ].includes(true)
    if (!isLeft) this.#storage.checkpoint()
    return isLeft
  }

  async close(): Promise<void> {
    this.#database.close()
  }

  /** In one transaction, and at once: nothing comes between the steps. */
  async #run<T>(steps: LedgerSteps<T>): Promise<T> {
    return inTransaction(this.#database, () => {
      let step = steps.next()
      while (!step.done) step = steps.next(resultOf(this.#database, step.value))
      return step.value
    })
  }

  #beginBatch(): void {
    if (!this.#database.isTransaction) this.#database.exec('BEGIN IMMEDIATE')
  }

  /** Rows are deleted from the maximum size on, until `EASED` of it. */
  #checkSize({ maxMegabytes }: UsageLimits): void {
    const used = this.#storage.used(this.#isShrinking)
    this.#isShrinking = used > maxMegabytes * MIB * (this.#isShrinking ? EASED : 1)
  }
}

const resultOf = (database: DatabaseSync, { text, values }: LedgerStatement): StatementResult => {
  const prepared = database.prepare(text)
  const named = Object.fromEntries(values.map((value, at) => [`$${at + 1}`, value]))
  if (prepared.columns().length === 0) return { rows: [], changes: Number(prepared.run(named).changes) }
  const rows = prepared.all(named)
  return { rows, changes: rows.length }
}

/** With a connection of its own. */
const readState = async <T>(path: string, read: (query: StateQuery) => Promise<T>): Promise<T> => {
  const state = new DatabaseSync(path, { readOnly: true, timeout: BUSY })
  try {
    state.exec('BEGIN')
    return await read({ isInState: '1 = 1', run: async (one) => resultOf(state, one) })
  } finally {
    state.close()
  }
}
