/** The port to the counters that several processes share: a supervisor, Redis or Postgres has them. */
import type { LeaseAnswer, LeaseAsk } from '../../policy/accounts/lease.ts'

/** What all processes have used and reserved of a counter. */
export type CounterTotals = { readonly used: number; readonly held: number }

export type LeaseReply = {
  /** Why the store cannot be used; null: it has answered. */
  readonly problem: string | null
  /** Processes that lease counters. */
  readonly peers: number
  /** Differs after the store was emptied. */
  readonly epoch: string
  /** One for each question, in their order. */
  readonly answers: readonly LeaseAnswer[]
}

/** Its promises do not reject, and resolve within the time limit of the store. */
export type CounterStore = {
  /** Asks for all counters in one exchange; none: shows that this process is alive. */
  lease(asks: readonly LeaseAsk[]): Promise<LeaseReply>
  /** The totals of counters, in their order; null: the store does not know it. A null reply: it does not answer. */
  read(counters: readonly string[]): Promise<readonly (CounterTotals | null)[] | null>
  /** What the ledger says was spent of counters, for when the store does not answer; null: not known. */
  spent(counters: readonly string[]): Promise<readonly (CounterTotals | null)[] | null>
  /** Counters of budgets (`BudgetCharge`) of which something was spent, also by other processes. */
  known(): Promise<readonly string[]>
}

const BUDGET = 'budget '

/** The counter of a budget, as the ledger names it; null: of a limit. */
export const chargeIn = (counter: string): string | null =>
  counter.startsWith(BUDGET) ? counter.slice(BUDGET.length) : null

/** The counter of a charge, as stores name it. */
export const counterOf = (charge: string): string => `${BUDGET}${charge}`
