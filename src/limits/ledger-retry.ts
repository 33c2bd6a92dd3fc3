/** Why the ledger cannot be read, and the next try. */
import type { Budget } from '../core/accounts.ts'
import type { World } from '../core/world.ts'

export type LedgerRetryOptions = {
  readonly later: World['later']
  /** Called once, until the problem is solved. */
  readonly onProblem: (reason: string, budgets: readonly Budget[]) => void
  /** Reads the ledger again. */
  readonly again: () => void
}

/** ms until the ledger is read again after a problem. */
const RETRY = 1_000

export class LedgerRetry {
  readonly #options: LedgerRetryOptions
  #problem: string | null = null
  #isDue = false

  constructor(options: LedgerRetryOptions) {
    this.#options = options
  }

  get problem(): string | null {
    return this.#problem
  }

  failed(reason: string, budgets: readonly Budget[]): void {
    const { later, onProblem, again } = this.#options
    if (this.#problem === null) onProblem(reason, budgets)
    this.#problem = reason
    // Reads that were asked for meanwhile have failed too: one retry serves all.
    if (this.#isDue) return
    this.#isDue = true
    later(RETRY, () => {
      this.#isDue = false
      again()
    })
  }

  /** The ledger was read. Returns whether there was a problem. */
  solved(): boolean {
    const wasProblem = this.#problem !== null
    this.#problem = null
    return wasProblem
  }
}
