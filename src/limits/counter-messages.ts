/**
 * Operations of the workers on the counters of limits and budgets, which the supervisor has for all of them. Plain data; the
 * channel is reliable and keeps the order. Amounts in nano-dollars.
 */
import type { Client } from '../core/accounts.ts'
import type { CounterFigures } from '../gateway/accounts/budget-counters.ts'
import type { Charge, Demand, LimitRefusal } from '../policy/accounts/attempt-admission.ts'

/** Which counters a request uses, and what it needs of them. */
export type CounterClaim = Pick<Client, 'limits'> & {
  readonly budgets: readonly CounterName[]
  readonly demand: Demand
}

/** A counter of a budget in a period (ms since 1970). `client`: the ID of the key that has named an end user. */
type CounterName = readonly [budget: string, owner: string, periodStart: number, client?: string]

/** `ticket`: identifies a reservation of a worker, or a question. */
export type CounterOperation =
  /** `take`: the worker has admitted the request already, since the supervisor did not answer. */
  | { readonly do: 'reserve' | 'check' | 'take'; readonly ticket: number; readonly claim: CounterClaim }
  | { readonly do: 'extend'; readonly ticket: number; readonly of: number; readonly more: number }
  | { readonly do: 'settle'; readonly ticket: number; readonly charge: Charge }
  | { readonly do: 'release'; readonly ticket: number }
  | { readonly do: 'states'; readonly ticket: number }

/** The answer to `reserve`, `check`, `extend` and `states`. */
export type CounterAnswer = {
  readonly ticket: number
  /** Null: granted. `retryAfter` is null in JSON where it is Infinity. */
  readonly refusal: LimitRefusal | null
  /** IDs of soft budgets that are exceeded. */
  readonly exceeded: readonly string[]
  /** Of `reserve` and `check`: the counters of the claim, in its order. */
  readonly counters: CounterValues | null
  /** Of `states`. */
  readonly states: readonly CounterFigures[] | null
}

/** Requests in progress, what is left of rates, and what budgets have spent and reserved; null: there is no such budget. */
export type CounterValues = {
  readonly slots: readonly number[]
  readonly rates: readonly number[]
  readonly budgets: readonly (readonly [used: number, held: number] | null)[]
}
