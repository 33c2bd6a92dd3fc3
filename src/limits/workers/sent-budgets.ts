/** Sends the budgets of a worker to the supervisor, which counts what is spent of them. */

import type { LedgerProblem } from '../../usage/bookkeeper/ledger-problems.ts'
import type { UsageLedger } from '../../usage/bookkeeper/usage-ledger.ts'
import type { RestoredBudgetsOptions } from '../restored-budgets.ts'
import type { SentBudgetRules } from './account-messages.ts'

export type SentBudgetsOptions = Pick<RestoredBudgetsOptions, 'isRecorded' | 'onProblem'> & {
  readonly rules: () => SentBudgetRules
  readonly ledger: Pick<UsageLedger, 'open' | 'unknownBudgets'>
  /** Resolves when earlier usage is counted; a text is the reason why it is not. */
  readonly send: (rules: SentBudgetRules) => Promise<string | null>
}

export class SentBudgets {
  readonly #options: SentBudgetsOptions

  constructor(options: SentBudgetsOptions) {
    this.#options = options
  }

  /** The budgets may have changed. Resolves when what was spent of them earlier is counted. */
  async changed(): Promise<void> {
    const { rules, isRecorded, ledger, send, onProblem } = this.#options
    // The supervisor reads the ledger of the first worker that records.
    if (isRecorded() && rules().budgets.length > 0) await ledger.open()
    const sent = rules()
    const problem = await send(sent)
    if (problem !== null) onProblem(problem, sent.budgets)
  }

  /** Why earlier usage is not counted, and since when; null: it is. */
  unknown(): LedgerProblem | null {
    return this.#options.ledger.unknownBudgets()
  }
}
