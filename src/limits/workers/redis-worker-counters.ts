/** The counters of all workers in Redis, which other gateways share. Runs in the supervisor. */
import type { Budget } from '../../core/accounts.ts'
import type { CounterSpend } from '../../core/journal.ts'
import type { SpentSum } from '../../gateway/accounts/budget-counters.ts'
import type { CounterOperation } from '../counter-messages.ts'
import { CountersClient } from '../counters-client.ts'
import type { CountersState, CountersThreadOptions } from '../counters-thread-messages.ts'
import { SeededBudgets } from '../seeded-budgets.ts'
import type { SentBudgetRules } from './account-messages.ts'
import { type AccountsWorker, later, type WorkerCounters, type WorkerCountersOptions } from './worker-counters.ts'

export type RedisWorkerCountersOptions = WorkerCountersOptions &
  Pick<CountersThreadOptions, 'url' | 'node' | 'shares'> & {
    readonly onState: (state: CountersState) => void
    readonly onTime: (op: string, ms: number) => void
  }

export class RedisWorkerCounters implements WorkerCounters {
  readonly #client: CountersClient
  readonly #seeded: SeededBudgets
  /** The number of each worker's process: another process of a worker has another one. */
  readonly #sources = new Map<AccountsWorker, number>()
  readonly #workers = new Map<number, AccountsWorker>()
  #count = 0
  #budgets: readonly Budget[] = []

  constructor({ url, node, shares, serving, onState, onTime, ...options }: RedisWorkerCountersOptions) {
    this.#client = new CountersClient({
      url,
      node,
      shares,
      onTime,
      onAnswers: (source, answers) => this.#workers.get(source)?.send({ type: 'counted', answers }),
      onFigures: (figures, takenBy) => {
        for (const worker of serving()) {
          const source = this.#sources.get(worker)
          const taken = takenBy && (source === undefined ? 0 : takenBy(source))
          worker.send({ type: 'figures', figures, taken })
        }
      },
      onState: (state) => {
        onState(state)
        for (const worker of serving()) worker.send({ type: 'limits_state', ...state })
      },
      onRestart: () => void this.#seeded.restarted(),
    })
    this.#seeded = new SeededBudgets({
      ...options,
      counters: this.#client,
      budgets: () => this.#budgets,
      date: () => Date.now(),
      later,
      // The workers are informed of it, and log it.
      onProblem() {},
    })
  }

  async setBudgets({ budgets }: SentBudgetRules): Promise<string | null> {
    this.#budgets = budgets
    await this.#seeded.changed()
    return this.#seeded.problem
  }

  onRecording(): void {
    void this.#seeded.changed()
  }

  run(worker: AccountsWorker, operations: readonly CounterOperation[]): void {
    this.#client.run(this.#sourceOf(worker), operations)
  }

  onExit(worker: AccountsWorker, spending: Promise<readonly CounterSpend[] | null>): void {
    const source = this.#sources.get(worker)
    if (source === undefined) return
    this.#sources.delete(worker)
    this.#workers.delete(source)
    void this.#client.exit(source, spending)
  }

  add(sums: readonly SpentSum[]): void {
    this.#seeded.corrected()
    this.#client.add(sums)
  }

  sendAll(worker: AccountsWorker): void {
    worker.send({ type: 'limits_state', ...this.#client.state })
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  #sourceOf(worker: AccountsWorker): number {
    const known = this.#sources.get(worker)
    if (known !== undefined) return known
    const source = ++this.#count
    this.#sources.set(worker, source)
    this.#workers.set(source, worker)
    return source
  }
}
