/** Messages between a process and its thread of shared counters. Plain data; amounts in nano-dollars. */
import type { Budget } from '../core/accounts.ts'
import type { CounterSpend } from '../core/journal.ts'
import type { CounterFigures, SpentSum } from '../gateway/accounts/budget-counters.ts'
import type { CounterAnswer, CounterOperation } from './counter-messages.ts'

/** `workerData` of the thread. */
export type CountersThreadOptions = {
  /** A secret. */
  readonly url: string
  /** Name of this gateway, which no other has. */
  readonly node: string
  /** Processes of this gateway that use a share each while Redis does not answer. */
  readonly shares: number
  readonly budgets: readonly Budget[]
}

/** What a gateway has spent of a counter. */
export type NodeSpent = SpentSum & { readonly node: string }

/** `source`: a process whose operations are counted: this one, or one of its workers. */
export type SourceOperations = { readonly source: number; readonly operations: readonly CounterOperation[] }

/** What the ended process has spent in all; null: unknown, and it is charged what it has reserved. */
export type EndedProcess = { readonly source: number; readonly spends: readonly CounterSpend[] | null }

export type CountersEvents = { readonly counted: FromCountersThread }

export type FromCountersThread =
  | { readonly do: 'answers'; readonly source: number; readonly answers: readonly CounterAnswer[] }
  /** `problem`: why Redis cannot be used; null: it is used. Questions without an answer get none. */
  | ({ readonly do: 'state' } & RedisState)
  /** What budgets have spent and reserved. `taken`: the last `take` of each process that is counted. */
  | { readonly do: 'figures'; readonly figures: readonly CounterFigures[]; readonly taken: TakenTickets }
  /** ms that Redis took for a batch of scripts, since the last message. */
  | { readonly do: 'times'; readonly times: readonly number[] }

export type TakenTickets = readonly (readonly [source: number, ticket: number])[]

/** `shares`: processes of all gateways that use a share each while Redis does not answer. */
export type RedisState = { readonly problem: string | null; readonly shares: number }

/** `unknown`: IDs of budgets whose earlier usage is not counted; null: Redis has not answered yet, so none is known. */
export type CountersState = RedisState & { readonly unknown: readonly string[] | null }
