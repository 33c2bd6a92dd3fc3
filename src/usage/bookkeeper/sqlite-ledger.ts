/** The ledger in `usage.db`. Writes are prepared statements in one transaction. */
import type { DatabaseSync } from 'node:sqlite'
import type { CounterSpend } from '../../core/journal.ts'
import { inTransaction } from '../../storage/sql/transaction.ts'
import type { AdjustmentRow, JournalRow, OpenCallRow } from '../columns/usage-schema.ts'
import { openStorage, type UsageStorage } from '../columns/usage-storage.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import { type StoredNames, storedNames } from '../journal/node-name.ts'
import { endedProcesses, isOfRun, type JournalProcess } from '../journal/segment-files.ts'
import { counterSums } from './counter-sums.ts'
import type { LedgerBatch } from './fold.ts'
import { ADJUSTMENT_COLUMNS, DELETED, prepareStatements, valuesOf, writeBatch } from './ledger-statements.ts'
import {
  type Adjusted,
  type Adjustment,
  type LedgerStore,
  type LedgerSum,
  type LedgerWriter,
  MERGE_AFTER,
  type StoredState,
  type UsageLimits,
} from './ledger-store.ts'
import { type CountedPeriodOf, countPeriod, RunningCounts } from './period-count.ts'

const DAY = 86_400_000
const MIB = 1_048_576
/** Fraction of the maximum size that remains after rows were deleted. */
const EASED = 0.9

export class SqliteLedger implements LedgerStore {
  readonly #storage: UsageStorage
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #process: JournalProcess
  readonly #names: StoredNames
  /** Processes that had ended before the first sweep and have sums of their own; null: not known yet. */
  #endedProcesses: string[] | null = null
  #isShrinking = false
  readonly #counts = new RunningCounts()

  private constructor(storage: UsageStorage, { node, process }: LedgerWriter) {
    this.#storage = storage
    this.#database = storage.database
    this.#process = process
    this.#names = storedNames(node, false)
    this.#statements = prepareStatements(storage.database)
  }

  /** Opens the file in a folder. What is missing is created. */
  static open(folder: string, writer: LedgerWriter): Promise<SqliteLedger> {
    return openStorage(folder, (storage) => new SqliteLedger(storage, writer))
  }

  isStale(): boolean {
    return this.#storage.isStale()
  }

  async begin(): Promise<StoredState> {
    const { own, range } = this.#names
    return inTransaction(this.#database, () => {
      const positions = this.#statements.positions.all(...range).map(({ segment, position, malformed }) => ({
        segment: own(String(segment)) ?? '',
        position: Number(position),
        malformed: Number(malformed),
      }))
      return { positions, open: this.#openOf(this.#names) }
    })
  }

  /** Rows are inserted at once: those of a large batch in memory would be copied by the collector. */
  addRow(row: RecordValues): void {
    this.#beginBatch()
    this.#statements.insertRequest.run(...row)
  }

  async store(batch: LedgerBatch, positions: readonly JournalRow[]): Promise<void> {
    this.#beginBatch()
    writeBatch(this.#statements, batch, { positions, stored: this.#names.stored })
    this.#database.exec('COMMIT')
  }

  async spentBy(process: string): Promise<readonly CounterSpend[]> {
    const rows = this.#statements.spentBy.all(this.#names.stored(process))
    return rows.map(({ counter, period_start, spent }) => ({
      counter: String(counter),
      periodStart: Number(period_start),
      spent: Number(spent),
    }))
  }

  async sums(since: number, counted: readonly CountedPeriodOf[], at: number): Promise<readonly LedgerSum[]> {
    const addSpent = (counter: string, periodStart: number, spent: number) =>
      this.#addSum({ process: '', counter, periodStart, spent })
    const file = { database: this.#database, addSpent }
    for (const one of counted) await this.#counts.run(one, () => countPeriod(file, one, at))
    return inTransaction(this.#database, () => this.#sums(since))
  }

  async adjust({ amount, process, ...adjustment }: Adjustment): Promise<Adjusted> {
    const { adjustment: stored, insertAdjustment, spent } = this.#statements
    const { counter, period_start } = adjustment
    return inTransaction(this.#database, () => {
      const known = stored.get(adjustment.id)
      if (known) return { amount: Number(known.amount), isNew: false }
      const total = () => -Number(spent.get(counter, period_start)?.spent ?? 0)
      const row: AdjustmentRow = { ...adjustment, amount: amount === 'reset' ? total() : amount }
      insertAdjustment.run(...valuesOf(ADJUSTMENT_COLUMNS, row))
      if (counter !== null && period_start !== null)
        this.#addSum({ process, counter, periodStart: period_start, spent: row.amount })
      return { amount: row.amount, isNew: true }
    })
  }

  async checkpoint(): Promise<void> {
    this.#storage.checkpoint()
  }

  async removePosition(segment: string): Promise<void> {
    this.#statements.removePosition.run(this.#names.stored(segment))
  }

  async closeGone(): Promise<boolean> {
    return false
  }

  async sweep(limits: UsageLimits, now: number): Promise<boolean> {
    const { oldRequests, oldFacets, oldIncidents, oldestHour, batchEnd } = this.#statements
    this.#checkSize(limits)
    const rowsUntil = this.#isShrinking ? Number(batchEnd.get()?.until ?? 0) + 1 : now - limits.keepDays * DAY
    const hoursUntil = now - limits.keepHours * DAY
    const [requests, hasHours] = inTransaction(this.#database, () => {
      oldFacets.run(hoursUntil)
      oldIncidents.run(hoursUntil)
      if (now - this.#process.start > MERGE_AFTER) this.#mergeSums()
      return [Number(oldRequests.run(rowsUntil).changes), oldestHour.run(hoursUntil).changes > 0] as const
    })
    const isReleasing = this.#storage.release(requests)
    const isDone = requests < DELETED && !(requests > 0 && this.#isShrinking) && !hasHours && !isReleasing
    if (!isDone || this.#endedProcesses?.length) return true
    this.#storage.checkpoint()
    return false
  }

  async close(): Promise<void> {
    this.#database.close()
  }

  // ── State ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #openOf({ own, range }: StoredNames): readonly OpenCallRow[] {
    return this.#statements.openCalls.all(...range).map((found) => {
      // Only this program writes the table.
      const row = found as OpenCallRow
      return { ...row, call: Number(row.call), process: own(row.process) ?? '' }
    })
  }

  #sums(since: number): readonly LedgerSum[] {
    const { sums, processSums } = this.#statements
    return counterSums(sums.all(since), processSums.all(since), (name) => name !== '' && isOfRun(name, this.#process))
  }

  #beginBatch(): void {
    if (!this.#database.isTransaction) this.#database.exec('BEGIN IMMEDIATE')
  }

  // ── Writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** `process` empty: no running process has spent it. */
  #addSum(of: {
    readonly process: string
    readonly counter: string
    readonly periodStart: number
    readonly spent: number
  }): void {
    const { addSum, addProcessSum } = this.#statements
    addSum.run(of.counter, of.periodStart, of.spent)
    if (of.process === '') return
    addProcessSum.run(of.counter, of.periodStart, of.spent, this.#names.stored(of.process))
  }

  // ── Retention ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** A batch of what a process has spent that has ended: no counters contain it any more. */
  #mergeSums(): void {
    const { processes, removeSumsOf } = this.#statements
    const { stored, range } = this.#names
    this.#endedProcesses ??= this.#endedOf(processes.all(...range).map(({ process }) => String(process)))
    const [process] = this.#endedProcesses
    if (process === undefined) return
    if (Number(removeSumsOf.run(stored(process)).changes) < DELETED) this.#endedProcesses.shift()
  }

  /** Counters of this process contain what its own workers have spent, also of those that have ended. */
  #endedOf(processes: readonly string[]): string[] {
    const own = processes.flatMap((process) => this.#names.own(process) || [])
    return [...endedProcesses(new Set(own.filter((name) => !isOfRun(name, this.#process))), this.#process)]
  }

  /** Rows are deleted from the maximum size on, until `EASED` of it. */
  #checkSize({ maxMegabytes }: UsageLimits): void {
    const used = this.#storage.used(this.#isShrinking)
    this.#isShrinking = used > maxMegabytes * MIB * (this.#isShrinking ? EASED : 1)
  }
}
