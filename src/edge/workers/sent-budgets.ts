/** Sends the budgets of a worker to the supervisor, which counts what is spent of them. */
import type { Budget } from '../../core/accounts.ts'
import type { RestoredBudgetsOptions } from '../ledger/restored-budgets.ts'
import type { UsageLedger } from '../ledger/usage-ledger.ts'

export type SentBudgetsOptions = Pick<RestoredBudgetsOptions, 'isRecorded' | 'onProblem'> & {
  readonly budgets: () => readonly Budget[]
  readonly ledger: Pick<UsageLedger, 'open'>
  /** Resolves when earlier usage is counted; a text is the reason why it is not. */
  readonly send: (budgets: readonly Budget[]) => Promise<string | null>
}

export class SentBudgets {
  readonly #options: SentBudgetsOptions

  constructor(options: SentBudgetsOptions) {
    this.#options = options
  }

  /** The budgets may have changed. Resolves when what was spent of them earlier is counted. */
  async changed(): Promise<void> {
    const { budgets, isRecorded, ledger, send, onProblem } = this.#options
    // The supervisor reads the ledger of the first worker that records.
    if (isRecorded() && budgets().length > 0) await ledger.open()
    const sent = budgets()
    const problem = await send(sent)
    if (problem !== null) onProblem(problem, sent)
  }
}
