/** The state of the ledger of all workers, as one: a full disk stops the journal of each, which is one report. */
import { type LedgerEvent, LedgerProblems } from '../../usage/bookkeeper/ledger-problems.ts'
import type { SharedLedgerState } from '../../usage/bookkeeper/usage-ledger.ts'

export class WorkerProblems<Worker> {
  /** Why workers cannot write their journals. */
  readonly #unwritable = new Map<Worker, string>()
  #problems: LedgerProblems | null = null
  #state: Pick<SharedLedgerState, 'problem' | 'lagMs'> = { problem: null, lagMs: 0 }

  /** Usage is stored from now on. */
  open(report: (event: LedgerEvent) => void): void {
    this.#problems = new LedgerProblems({ date: () => Date.now(), report })
    this.#follow()
  }

  /** Why a worker cannot write its journal; null: it can, or has ended. */
  onJournal(worker: Worker, problem: string | null): void {
    if (problem === null) this.#unwritable.delete(worker)
    else this.#unwritable.set(worker, problem)
    this.#follow()
  }

  /** The state of the bookkeeper. */
  onBookkeeper(state: Pick<SharedLedgerState, 'problem' | 'lagMs'>): void {
    this.#state = state
    this.#follow()
  }

  #follow(): void {
    const [writer = null] = this.#unwritable.values()
    const { problem, lagMs } = this.#state
    this.#problems?.follow({ writer, own: problem, shared: null, lagMs })
  }
}
