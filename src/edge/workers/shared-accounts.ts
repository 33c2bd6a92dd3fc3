/**
 * Limits, budgets and usage of all workers, in the supervisor: it has the counters and stores the journals of all of them.
 */
import type { Budget } from '../../core/accounts.ts'
import type { CounterSpend } from '../../core/journal.ts'
import type { CounterFigures } from '../../gateway/accounts/budget-counters.ts'
import type { LedgerClient } from '../ledger/client.ts'
import type { MalformedSegment } from '../ledger/malformed-segment.ts'
import type { CountedPeriodOf } from '../ledger/period-count.ts'
import { type BookkeeperProgress, COMMIT, NO_PROGRESS } from '../ledger/progress.ts'
import { RestoredBudgets } from '../ledger/restored-budgets.ts'
import type { LedgerSum } from '../ledger/usage-database.ts'
import type { SharedLedgerOptions, SharedLedgerState, UsageLedgerOptions } from '../ledger/usage-ledger.ts'
import type { AccountsFromSupervisor, AccountsFromWorker, SharedLedgerAnswer, SharedLedgerQuery } from './messages.ts'
import { SharedCounters } from './shared-counters.ts'

/** A worker that can receive messages. */
export type AccountsWorker = { send(message: AccountsFromSupervisor): void }

export type SharedAccountsOptions = {
  /** The workers that serve requests. */
  readonly serving: () => readonly AccountsWorker[]
  /** Why usage cannot be stored; null: it is stored again. */
  readonly report: (problem: string | null) => void
  /** A segment of the journal has unreadable lines. */
  readonly onMalformed: (found: MalformedSegment) => void
  /** Earlier usage of budgets counts, which could not be read before. */
  readonly onRestored: () => void
  readonly onTime: NonNullable<UsageLedgerOptions['onTime']>
}

/** ms between two messages with what budgets have spent. */
const FIGURES_INTERVAL = 1_000

export class SharedAccounts {
  readonly #options: SharedAccountsOptions
  readonly #counters = new SharedCounters<AccountsWorker>({ now: () => performance.now(), date: () => Date.now() })
  readonly #restored: RestoredBudgets
  #ledger: Promise<LedgerClient> | null = null
  /** The names of the workers' processes in the journal. */
  readonly #processes = new Map<AccountsWorker, string>()
  #limits: SharedLedgerOptions['limits'] | null = null
  #state: SharedLedgerState = { problem: null, lagMs: 0 }
  #progress = NO_PROGRESS
  #timer: NodeJS.Timeout | null = null

  constructor(options: SharedAccountsOptions) {
    this.#options = options
    this.#restored = new RestoredBudgets({
      accounts: this.#counters.budgets,
      ledger: { spentSince: (since, counted) => this.#spentSince(since, counted) },
      isRecorded: () => this.#ledger !== null,
      date: () => Date.now(),
      later(ms, run) {
        const timer = setTimeout(run, ms).unref()
        return () => clearTimeout(timer)
      },
      // The workers are informed of it, and log it.
      onProblem() {},
      onRestored: () => {
        this.#sendFigures(options.serving(), this.#counters.states())
        options.onRestored()
      },
    })
  }

  /** What the bookkeeper has stored. */
  get progress(): BookkeeperProgress {
    return this.#progress
  }

  onMessage(worker: AccountsWorker, message: AccountsFromWorker): void {
    switch (message.type) {
      case 'ledger':
        this.#processes.set(worker, message.process)
        return this.#openLedger(worker, message.options)
      case 'ledger_query':
        return void this.#answer(worker, message.id, message.query)
      case 'budgets':
        return void this.#setBudgets(message.budgets).then((problem) => {
          this.#sendFigures(new Set([worker, ...this.#options.serving()]), this.#counters.states())
          worker.send({ type: 'budgets_counted', id: message.id, problem })
        })
      case 'counters':
        this.#counters.run(worker, message.operations, (answers) => worker.send({ type: 'counted', answers }))
        return this.#sendLater()
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  /** The worker's process has ended. */
  onExit(worker: AccountsWorker): void {
    const process = this.#processes.get(worker)
    this.#processes.delete(worker)
    void this.#counters.onExit(worker, this.#spentBy(process)).then(() => this.#sendLater())
  }

  /** Stores the rest of the journal, within 5 s. */
  async close(): Promise<void> {
    await (await this.#ledger)?.close()
  }

  // ── Budgets ────────────────────────────────────────────────────────────────────────────────────────────────────

  async #setBudgets(budgets: readonly Budget[]): Promise<string | null> {
    this.#counters.setBudgets(budgets)
    await this.#restored.changed()
    return this.#restored.problem
  }

  /** What an ended process has spent. Null: unknown; without a journal nothing is recorded. */
  async #spentBy(process: string | undefined): Promise<readonly CounterSpend[] | null> {
    const ledger = await this.#ledger
    return process === undefined || !ledger ? null : ledger.spentBy(process)
  }

  /** What earlier processes have spent, after their journals are stored, within 30 s. */
  async #spentSince(since: number, counted: readonly CountedPeriodOf[]): Promise<readonly LedgerSum[] | string | null> {
    const ledger = await this.#ledger
    return ledger ? ((await ledger.flush()) ?? ledger.sums(since, counted)) : null
  }

  /** Sends what has changed, at most once a second: a worker that is left alone shares what was left then. */
  #sendLater(): void {
    if (this.#timer || !this.#counters.hasChanged) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#sendFigures(this.#options.serving(), this.#counters.takeChanged())
    }, FIGURES_INTERVAL).unref()
  }

  #sendFigures(workers: Iterable<AccountsWorker>, figures: readonly CounterFigures[]): void {
    for (const worker of workers) worker.send({ type: 'figures', figures, taken: this.#counters.takenBy(worker) })
  }

  // ── The ledger ─────────────────────────────────────────────────────────────────────────────────────────────────

  #openLedger(worker: AccountsWorker, options: SharedLedgerOptions): void {
    this.#limits = options.limits
    const { problem, lagMs } = this.#state
    if (problem !== null || lagMs > 0) worker.send({ type: 'ledger_state', ...this.#state })
    if (this.#ledger) return void this.#ledger.then((ledger) => ledger.limitsChanged())
    this.#ledger = this.#createLedger(options)
    // Budgets that were sent before usage was recorded can be restored now.
    void this.#restored.changed()
  }

  async #createLedger({ limits, ...options }: SharedLedgerOptions): Promise<LedgerClient> {
    const [{ LedgerClient }, { thisProcess }] = await Promise.all([
      import('../ledger/client.ts'),
      import('../ledger/segment-files.ts'),
    ])
    const ledger = new LedgerClient({
      ...options,
      process: thisProcess(),
      limits: () => this.#limits ?? limits,
      report: (event) => {
        const { lagMs } = this.#state
        if (event.event === 'degraded') this.#changed({ problem: event.reason, lagMs })
        else if (event.event === 'ok') this.#changed({ problem: null, lagMs })
        else this.#options.onMalformed(event)
      },
      onProgress: (progress) => {
        this.#progress = progress
        for (const ms of progress.commits) this.#options.onTime(COMMIT, ms)
        this.#changed({ problem: this.#state.problem, lagMs: progress.lagMs })
      },
    })
    ledger.start()
    return ledger
  }

  #changed(state: SharedLedgerState): void {
    const { problem, lagMs } = this.#state
    if (state.problem === problem && state.lagMs === lagMs) return
    this.#state = state
    if (state.problem !== problem) this.#options.report(state.problem)
    for (const worker of this.#options.serving()) worker.send({ type: 'ledger_state', ...state })
  }

  async #answer(worker: AccountsWorker, id: number, query: SharedLedgerQuery): Promise<void> {
    worker.send({ type: 'ledger_answer', id, answer: await this.#run(query) })
  }

  async #run(query: SharedLedgerQuery): Promise<SharedLedgerAnswer> {
    const ledger = await this.#ledger
    if (!ledger) return { value: 'nothing is recorded yet' }
    if (query.do === 'flush') return { value: await ledger.flush() }
    const { adjustment } = query
    const value = await ledger.adjust(adjustment)
    const { counter, period_start } = adjustment
    if (typeof value !== 'string' && value.isNew && counter !== null && period_start !== null)
      this.#counters.add([{ counter, period_start, spent: value.amount }])
    this.#sendLater()
    return { value }
  }
}
