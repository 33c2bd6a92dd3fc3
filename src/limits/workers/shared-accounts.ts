/**
 * Limits, budgets and usage of all workers, in the supervisor: it has the counters, unless Redis has them, and stores the
 * journals of all of them.
 */
import type { CounterSpend } from '../../core/journal.ts'
import type { LedgerClient } from '../../usage/bookkeeper/ledger-client.ts'
import type { LedgerSum } from '../../usage/bookkeeper/ledger-store.ts'
import type { CountedPeriodOf } from '../../usage/bookkeeper/period-count.ts'
import { type BookkeeperProgress, COMMIT, NO_PROGRESS } from '../../usage/bookkeeper/progress.ts'
import type { SharedLedgerOptions, SharedLedgerState } from '../../usage/bookkeeper/usage-ledger.ts'
import type { MalformedSegment } from '../../usage/journal/malformed-segment.ts'
import type { CountersState } from '../counters-thread-messages.ts'
import type {
  AccountsFromWorker,
  SentBudgetRules,
  SharedLedgerAnswer,
  SharedLedgerQuery,
  SharedLimitsStore,
} from './account-messages.ts'
import { SupervisorCounters } from './supervisor-counters.ts'
import type { AccountsWorker, WorkerCounters, WorkerCountersOptions } from './worker-counters.ts'

export type SharedAccountsOptions = {
  /** The workers that serve requests. */
  readonly serving: () => readonly AccountsWorker[]
  /** Why usage cannot be stored; null: it is stored again. */
  readonly report: (problem: string | null) => void
  /** A segment of the journal has unreadable lines. */
  readonly onMalformed: (found: MalformedSegment) => void
  /** Earlier usage of budgets counts, which could not be read before. */
  readonly onRestored: () => void
  readonly onTime: (store: 'usage' | 'limits', op: string, ms: number) => void
  /** Number of workers. */
  readonly workers: number
  /** Redis, in which several gateways share limits, cannot be used, or is used again. */
  readonly onLimitsState: (state: CountersState) => void
}

export class SharedAccounts {
  readonly #options: SharedAccountsOptions
  #counters: WorkerCounters
  /** Resolves when the shared counters are loaded. */
  #opening: Promise<void> | null = null
  #ledger: Promise<LedgerClient> | null = null
  /** The names of the workers' processes in the journal. */
  readonly #processes = new Map<AccountsWorker, string>()
  #limits: SharedLedgerOptions['limits'] | null = null
  #state: SharedLedgerState = { problem: null, lagMs: 0, unknown: null }
  #progress = NO_PROGRESS

  constructor(options: SharedAccountsOptions) {
    this.#options = options
    this.#counters = new SupervisorCounters(this.#counterOptions())
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
        return void this.#setBudgets(message).then((problem) => {
          this.#changed({ ...this.#state, unknown: problem })
          this.#counters.sendAll(worker)
          worker.send({ type: 'budgets_counted', id: message.id, problem })
        })
      case 'counters':
        return this.#counters.run(worker, message.operations)
      case 'shared_limits':
        this.#opening ??= this.#openShared(message)
        return
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  /** The worker's process has ended. */
  onExit(worker: AccountsWorker): void {
    const process = this.#processes.get(worker)
    this.#processes.delete(worker)
    this.#counters.onExit(worker, this.#spentBy(process))
  }

  /** Stores the rest of the journal, within 5 s. */
  async close(): Promise<void> {
    await Promise.all([this.#counters.close(), this.#ledger?.then((ledger) => ledger.close())])
  }

  // ── Budgets ────────────────────────────────────────────────────────────────────────────────────────────────────

  async #setBudgets({ budgets, whenUnknown }: SentBudgetRules): Promise<string | null> {
    await this.#opening
    return this.#counters.setBudgets({ budgets, whenUnknown })
  }

  #counterOptions(): WorkerCountersOptions {
    const { serving, onRestored } = this.#options
    return {
      serving,
      onRestored: () => {
        this.#changed({ ...this.#state, unknown: null })
        onRestored()
      },
      ledger: { spentSince: (since, counted) => this.#spentSince(since, counted) },
      isRecorded: () => this.#ledger !== null,
    }
  }

  /** Several gateways share their limits. No worker has sent operations before its budgets are set. */
  async #openShared({ url, node }: SharedLimitsStore): Promise<void> {
    const { RedisWorkerCounters } = await import('./redis-worker-counters.ts')
    const { workers, onLimitsState, onTime } = this.#options
    this.#counters = new RedisWorkerCounters({
      ...this.#counterOptions(),
      url,
      node,
      shares: workers,
      onState: onLimitsState,
      onTime: (op, ms) => onTime('limits', op, ms),
    })
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

  // ── The ledger ─────────────────────────────────────────────────────────────────────────────────────────────────

  #openLedger(worker: AccountsWorker, options: SharedLedgerOptions): void {
    this.#limits = options.limits
    const { problem, lagMs, unknown } = this.#state
    if (problem !== null || lagMs > 0 || unknown !== null) worker.send({ type: 'ledger_state', ...this.#state })
    if (this.#ledger) return void this.#ledger.then((ledger) => ledger.limitsChanged())
    this.#ledger = this.#createLedger(options)
    // Budgets that were sent before usage was recorded can be restored now.
    this.#counters.onRecording()
  }

  async #createLedger({ limits, ...options }: SharedLedgerOptions): Promise<LedgerClient> {
    const [{ LedgerClient }, { thisProcess }] = await Promise.all([
      import('../../usage/bookkeeper/ledger-client.ts'),
      import('../../usage/journal/segment-files.ts'),
    ])
    const ledger = new LedgerClient({
      ...options,
      process: thisProcess(),
      limits: () => this.#limits ?? limits,
      report: (event) => {
        if (event.event === 'degraded') this.#changed({ ...this.#state, problem: event.reason })
        else if (event.event === 'ok') this.#changed({ ...this.#state, problem: null })
        else this.#options.onMalformed(event)
      },
      onProgress: (progress) => {
        this.#progress = progress
        for (const ms of progress.commits) this.#options.onTime('usage', COMMIT, ms)
        this.#changed({ ...this.#state, lagMs: progress.lagMs })
      },
    })
    ledger.start()
    return ledger
  }

  #changed(state: SharedLedgerState): void {
    const { problem, lagMs, unknown } = this.#state
    if (state.problem === problem && state.lagMs === lagMs && state.unknown === unknown) return
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
    return { value }
  }
}
