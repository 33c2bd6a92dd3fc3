/**
 * Limits, budgets and usage of all workers, in the supervisor: it has the counters, unless gateways share them, and stores the
 * journals of all of them.
 */
import type { Budget } from '../../core/accounts.ts'
import type { CounterSpend } from '../../core/journal.ts'
import type { LeaseReply } from '../../gateway/accounts/counter-store.ts'
import type { LeaseAsk } from '../../policy/accounts/lease.ts'
import type { LedgerClient } from '../../usage/bookkeeper/ledger-client.ts'
import type { LedgerEvent } from '../../usage/bookkeeper/ledger-problems.ts'
import type { CountedPeriodOf, LedgerSum } from '../../usage/bookkeeper/ledger-store.ts'
import { type BookkeeperProgress, COMMIT, NO_PROGRESS } from '../../usage/bookkeeper/progress.ts'
import type { SharedLedgerOptions, SharedLedgerState } from '../../usage/bookkeeper/usage-ledger.ts'
import { sharedName, storedNames } from '../../usage/journal/node-name.ts'
import type { CommonCounters } from '../common-counters.ts'
import { CounterMemory } from '../counter-memory.ts'
import { LedgerSums } from '../ledger-sums.ts'
import { SeededStore, type SeededStoreOptions } from '../seeded-store.ts'
import type {
  AccountsFromSupervisor,
  AccountsFromWorker,
  SentBudgetRules,
  SharedLedgerAnswer,
  SharedLedgerQuery,
  SharedLimitsStore,
} from './account-messages.ts'
import { WorkerLeases } from './worker-leases.ts'
import { WorkerProblems } from './worker-problems.ts'

/** A worker that can receive messages. */
type AccountsWorker = { send(message: AccountsFromSupervisor): void }

export type SharedAccountsOptions = {
  /** The workers that serve requests. */
  readonly serving: () => readonly AccountsWorker[]
  /** The state of the ledger of all workers has changed. */
  readonly report: (event: LedgerEvent, ledger: Pick<SharedLedgerOptions, 'folder' | 'journal' | 'database'>) => void
  /** Earlier usage of budgets counts, which could not be read before. */
  readonly onRestored: () => void
  readonly onTime: (store: 'usage' | 'limits', op: string, ms: number) => void
  /** Why the store in which several gateways share limits cannot be used after an exchange, or null. */
  readonly onLimits: (problem: string | null) => void
}

export class SharedAccounts {
  readonly #options: SharedAccountsOptions
  readonly #sums: LedgerSums
  /** Resolves when the connection to shared counters is loaded. */
  #store: Promise<SeededStore>
  #isShared = false
  #leases = new WorkerLeases<AccountsWorker>('worker')
  #budgets: readonly Budget[] = []
  #servesUnknown = false
  #ledger: Promise<LedgerClient> | null = null
  /** The names of the workers' processes in the journal. */
  readonly #processes = new Map<AccountsWorker, string>()
  #names = storedNames('', false)
  #limits: SharedLedgerOptions['limits'] | null = null
  readonly #problems = new WorkerProblems<AccountsWorker>()
  #state: SharedLedgerState = { problem: null, lagMs: 0, unknown: null }
  #progress = NO_PROGRESS

  constructor(options: SharedAccountsOptions) {
    this.#options = options
    this.#sums = new LedgerSums({
      ledger: { spentSince: (since, counted) => this.#spentSince(since, counted) },
      isRecorded: () => this.#ledger !== null,
      budgets: () => this.#budgets,
      date: () => Date.now(),
      later: (ms, run) => {
        const timer = setTimeout(run, ms).unref()
        return () => clearTimeout(timer)
      },
      // The workers are informed of it, and log it.
      onProblem() {},
      onRestored: () => {
        this.#changed({ ...this.#state, unknown: null })
        options.onRestored()
        void this.#store.then((store) => store.restored())
      },
    })
    this.#store = Promise.resolve(this.#seeded(new CounterMemory(() => performance.now()), { part: null, timeout: 0 }))
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
      case 'journal_problem':
        return this.#problems.onJournal(worker, message.problem)
      case 'ledger_query':
        return void this.#run(message.query).then((answer) =>
          worker.send({ type: 'ledger_answer', id: message.id, answer }),
        )
      case 'budgets':
        return void this.#setBudgets(message).then((problem) => {
          this.#changed({ ...this.#state, unknown: problem })
          worker.send({ type: 'budgets_counted', id: message.id, problem })
        })
      case 'lease':
        return void this.#lease(worker, message.asks).then((reply) =>
          worker.send({ type: 'leased', id: message.id, reply }),
        )
      case 'lease_totals':
        return void this.#store
          .then((store) => (message.of === 'store' ? store.read(message.counters) : store.spent(message.counters)))
          .then((totals) => worker.send({ type: 'totals', id: message.id, totals }))
      case 'lease_known':
        return void this.#store
          .then((store) => store.known())
          .then((counters) => worker.send({ type: 'known', id: message.id, counters }))
      case 'shared_limits':
        if (!this.#isShared) this.#store = this.#openShared(message)
        this.#isShared = true
        return
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  /** The worker's process has ended. */
  onExit(worker: AccountsWorker): void {
    const process = this.#processes.get(worker)
    this.#processes.delete(worker)
    this.#problems.onJournal(worker, null)
    void this.#store.then((store) => this.#leases.onExit(store, worker, this.#spentBy(process)))
  }

  /** Stores the rest of the journal, within 5 s. */
  async close(): Promise<void> {
    await Promise.all([this.#store.then((store) => store.close()), this.#ledger?.then((ledger) => ledger.close())])
  }

  // ── Budgets ────────────────────────────────────────────────────────────────────────────────────────────────────

  async #setBudgets({ budgets, whenUnknown }: SentBudgetRules): Promise<string | null> {
    this.#budgets = budgets
    this.#servesUnknown = whenUnknown === 'serve'
    await this.#sums.changed()
    return this.#sums.problem
  }

  async #lease(worker: AccountsWorker, asks: readonly LeaseAsk[]): Promise<LeaseReply> {
    const store = await this.#store
    const reply = await this.#leases.lease(store, worker, { asks, run: this.#runOf(worker) })
    if (this.#isShared) this.#options.onLimits(reply.problem)
    return reply
  }

  /** The name of a worker's process in the database of the ledger; empty: it records nothing yet. */
  #runOf(worker: AccountsWorker): string {
    const process = this.#processes.get(worker)
    return process === undefined ? '' : this.#names.stored(process)
  }

  #seeded(store: CommonCounters, { part, timeout }: Pick<SeededStoreOptions, 'part' | 'timeout'>): SeededStore {
    const servesUnknown = () => this.#servesUnknown
    return new SeededStore({ store, sums: this.#sums, part, timeout, servesUnknown, now: () => performance.now() })
  }

  /** Several gateways share their limits. No worker has asked for a lease before its budgets are set. */
  async #openShared({ place, node, timeout, isLedgerShared }: SharedLimitsStore): Promise<SeededStore> {
    const { CountersClient } = await import('../counters-client.ts')
    this.#leases = new WorkerLeases(node)
    const client = new CountersClient({ place, timeout, onTime: (op, ms) => this.#options.onTime('limits', op, ms) })
    return this.#seeded(client, { part: isLedgerShared ? null : node, timeout })
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
    if (options.database) this.#names = storedNames(sharedName(options.folder), true)
    const { problem, lagMs, unknown } = this.#state
    if (problem !== null || lagMs > 0 || unknown !== null) worker.send({ type: 'ledger_state', ...this.#state })
    if (this.#ledger) return void this.#ledger.then((ledger) => ledger.limitsChanged())
    this.#ledger = this.#createLedger(options)
    // Budgets that were sent before usage was recorded can be read now.
    void this.#sums.changed()
  }

  async #createLedger({ limits, ...options }: SharedLedgerOptions): Promise<LedgerClient> {
    const [{ LedgerClient }, { thisProcess }] = await Promise.all([
      import('../../usage/bookkeeper/ledger-client.ts'),
      import('../../usage/journal/segment-files.ts'),
    ])
    const report = (event: LedgerEvent) => this.#options.report(event, options)
    const ledger = new LedgerClient({
      ...options,
      process: thisProcess(),
      limits: () => this.#limits ?? limits,
      report: (event) => {
        if (event.event === 'degraded') this.#changed({ ...this.#state, problem: event.reason })
        else if (event.event === 'ok') this.#changed({ ...this.#state, problem: null })
        else report(event)
      },
      onProgress: (progress) => {
        this.#progress = progress
        for (const ms of progress.commits) this.#options.onTime('usage', COMMIT, ms)
        this.#changed({ ...this.#state, lagMs: progress.lagMs })
        this.#problems.onBookkeeper(this.#state)
      },
    })
    ledger.start()
    this.#problems.open(report)
    return ledger
  }

  #changed(state: SharedLedgerState): void {
    const { problem, lagMs, unknown } = this.#state
    if (state.problem === problem && state.lagMs === lagMs && state.unknown === unknown) return
    this.#state = state
    this.#problems.onBookkeeper(state)
    for (const worker of this.#options.serving()) worker.send({ type: 'ledger_state', ...state })
  }

  async #run(query: SharedLedgerQuery): Promise<SharedLedgerAnswer> {
    if (query.do === 'telemetry') return { telemetry: this.#progress.telemetry }
    const ledger = await this.#ledger
    if (!ledger) return { value: 'nothing is recorded yet' }
    if (query.do === 'flush') return { value: await ledger.flush() }
    return { value: await ledger.adjust(query.adjustment) }
  }
}
