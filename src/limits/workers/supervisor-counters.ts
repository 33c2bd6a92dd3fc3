/** The counters of all workers in the supervisor itself. */
import type { CounterSpend } from '../../core/journal.ts'
import type { CounterFigures, SpentSum } from '../../gateway/accounts/budget-counters.ts'
import type { CounterOperation } from '../counter-messages.ts'
import { RestoredBudgets } from '../restored-budgets.ts'
import type { SentBudgetRules } from './account-messages.ts'
import { SharedCounters } from './shared-counters.ts'
import { type AccountsWorker, later, type WorkerCounters, type WorkerCountersOptions } from './worker-counters.ts'

/** ms between two messages with what budgets have spent. */
const FIGURES_INTERVAL = 1_000

export class SupervisorCounters implements WorkerCounters {
  readonly #serving: WorkerCountersOptions['serving']
  readonly #counters = new SharedCounters<AccountsWorker>({ now: () => performance.now(), date: () => Date.now() })
  readonly #restored: RestoredBudgets
  #timer: NodeJS.Timeout | null = null

  constructor({ serving, onRestored, ...options }: WorkerCountersOptions) {
    this.#serving = serving
    this.#restored = new RestoredBudgets({
      ...options,
      accounts: this.#counters.budgets,
      date: () => Date.now(),
      later,
      // The workers are informed of it, and log it.
      onProblem() {},
      onRestored: () => {
        this.#send(serving(), this.#counters.states())
        onRestored()
      },
    })
  }

  async setBudgets(rules: SentBudgetRules): Promise<string | null> {
    this.#counters.setBudgets(rules)
    await this.#restored.changed()
    return this.#restored.problem
  }

  /** Budgets that were set before can be restored now. */
  onRecording(): void {
    void this.#restored.changed()
  }

  run(worker: AccountsWorker, operations: readonly CounterOperation[]): void {
    this.#counters.run(worker, operations, (answers) => worker.send({ type: 'counted', answers }))
    this.#sendLater()
  }

  onExit(worker: AccountsWorker, spending: Promise<readonly CounterSpend[] | null>): void {
    void this.#counters.onExit(worker, spending).then(() => this.#sendLater())
  }

  add(sums: readonly SpentSum[]): void {
    this.#counters.add(sums)
    this.#sendLater()
  }

  sendAll(worker: AccountsWorker): void {
    this.#send(new Set([worker, ...this.#serving()]), this.#counters.states())
  }

  async close(): Promise<void> {}

  /** Sends what has changed, at most once a second: a worker that is left alone shares what was left then. */
  #sendLater(): void {
    if (this.#timer || !this.#counters.hasChanged) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#send(this.#serving(), this.#counters.takeChanged())
    }, FIGURES_INTERVAL).unref()
  }

  #send(workers: Iterable<AccountsWorker>, figures: readonly CounterFigures[]): void {
    for (const worker of workers) worker.send({ type: 'figures', figures, taken: this.#counters.takenBy(worker) })
  }
}
