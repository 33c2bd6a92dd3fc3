/** Messages between the workers and their supervisor about limits, budgets and usage. */
import type { Budget } from '../../core/accounts.ts'
import type { CounterTotals, LeaseReply } from '../../gateway/accounts/counter-store.ts'
import type { LeaseAsk } from '../../policy/accounts/lease.ts'
import type { Adjusted, Adjustment } from '../../usage/bookkeeper/ledger-store.ts'
import type { BookkeeperProgress } from '../../usage/bookkeeper/progress.ts'
import type { SharedLedgerOptions, SharedLedgerState } from '../../usage/bookkeeper/usage-ledger.ts'
import type { CountersPlace } from '../counters-place.ts'

/** A query to the bookkeeper, which the supervisor runs for all workers. */
export type SharedLedgerQuery =
  | { readonly do: 'flush' }
  | { readonly do: 'adjust'; readonly adjustment: Adjustment }
  | { readonly do: 'telemetry' }

/** `value`: as the bookkeeper's client returns it. */
export type SharedLedgerAnswer =
  | { readonly value: Adjusted | string | null }
  | { readonly telemetry: BookkeeperProgress['telemetry'] }

/** Limits, budgets and usage, which the supervisor keeps for all workers. */
export type AccountsFromWorker =
  /** The worker records usage. `process`: its name in the journal. */
  | { readonly type: 'ledger'; readonly process: string; readonly options: SharedLedgerOptions }
  /** Why the worker cannot write its journal; null: it can again. */
  | { readonly type: 'journal_problem'; readonly problem: string | null }
  | { readonly type: 'ledger_query'; readonly id: number; readonly query: SharedLedgerQuery }
  /** The budgets of the configuration, at the start and when they have changed. */
  | ({ readonly type: 'budgets'; readonly id: number } & SentBudgetRules)
  | { readonly type: 'lease'; readonly id: number; readonly asks: readonly LeaseAsk[] }
  /** `of`: what the store has, or the ledger. */
  | {
      readonly type: 'lease_totals'
      readonly id: number
      readonly of: 'store' | 'ledger'
      readonly counters: readonly string[]
    }
  | { readonly type: 'lease_known'; readonly id: number }
  /** Several gateways share their limits. Sent before the budgets. */
  | ({ readonly type: 'shared_limits' } & SharedLimitsStore)

/** `whenUnknown`: whether hard budgets are used before what was spent of them earlier is counted. */
export type SentBudgetRules = { readonly budgets: readonly Budget[]; readonly whenUnknown: 'refuse' | 'serve' }

/**
 * `node`: a name that no other gateway has. `timeout`: ms for an answer. `isLedgerShared`: the ledger has what
 * all gateways have spent.
 */
export type SharedLimitsStore = {
  readonly place: CountersPlace
  readonly node: string
  readonly timeout: number
  readonly isLedgerShared: boolean
}

export type AccountsFromSupervisor =
  | { readonly type: 'ledger_answer'; readonly id: number; readonly answer: SharedLedgerAnswer }
  | ({ readonly type: 'ledger_state' } & SharedLedgerState)
  /** Reply to `budgets`: what was spent of them earlier is known. `problem`: why it is not; null: it is. */
  | { readonly type: 'budgets_counted'; readonly id: number; readonly problem: string | null }
  | { readonly type: 'leased'; readonly id: number; readonly reply: LeaseReply }
  | { readonly type: 'known'; readonly id: number; readonly counters: readonly string[] }
  | { readonly type: 'totals'; readonly id: number; readonly totals: readonly (CounterTotals | null)[] | null }
