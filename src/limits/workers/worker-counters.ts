/** The counters of limits and budgets of all workers, for the supervisor. */
import type { CounterSpend } from '../../core/journal.ts'
import type { SpentSum } from '../../gateway/accounts/budget-counters.ts'
import type { CounterOperation } from '../counter-messages.ts'
import type { RestoredBudgetsOptions } from '../restored-budgets.ts'
import type { AccountsFromSupervisor, SentBudgetRules } from './account-messages.ts'

/** A worker that can receive messages. */
export type AccountsWorker = { send(message: AccountsFromSupervisor): void }

export type WorkerCounters = {
  /** Resolves when what was spent of the budgets earlier is counted, with the reason if it is not. */
  setBudgets(rules: SentBudgetRules): Promise<string | null>
  /** Usage is recorded from now on. */
  onRecording(): void
  run(worker: AccountsWorker, operations: readonly CounterOperation[]): void
  /** A worker has ended. `spending`: what it has spent in all; null: unknown. */
  onExit(worker: AccountsWorker, spending: Promise<readonly CounterSpend[] | null>): void
  /** Corrections. */
  add(sums: readonly SpentSum[]): void
  /** Sends the figures of all budgets to a worker that has not begun to serve. */
  sendAll(worker: AccountsWorker): void
  close(): Promise<void>
}

export type WorkerCountersOptions = Pick<RestoredBudgetsOptions, 'ledger' | 'isRecorded' | 'onRestored'> & {
  /** The workers that serve requests. */
  readonly serving: () => readonly AccountsWorker[]
}

/** A timer that does not keep the process running. */
export const later = (ms: number, run: () => void): (() => void) => {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}
