/**
 * The port to what decides about limits and budgets. `Reservations` decides in this process: with its own counters, or with
 * what it was granted of counters that several processes share. Amounts in nano-dollars.
 */
import type { BudgetCharge } from '../../core/journal.ts'
import type { Nano } from '../../core/money.ts'
import type { Charge, Demand, Hold, LimitRefusal } from '../../policy/accounts/attempt-admission.ts'
import type { BudgetCell, SpentSum } from './budget-counters.ts'
import type { LimitCells } from './limit-counters.ts'

/** All counters that apply to an attempt. */
export type AccountCells = LimitCells & { readonly budgets: readonly BudgetCell[] }

/** What an attempt has taken from its counters. */
export type Reservation = {
  readonly cells: AccountCells
  /** Changed when the reservation is extended. */
  hold: Hold
  /** Whether it occupies the slots of its request. */
  readonly first: boolean
}

/** `exceeded`: IDs of soft budgets that are exceeded. */
export type ReserveResult =
  | { readonly reservation: Reservation; readonly exceeded: readonly string[] }
  | { readonly refusal: LimitRefusal }

/** A value that is known now, or after a lease was refilled. Such a promise does not reject. */
export type Eventual<T> = T | Promise<T>

/** Uses a value as soon as it is known. */
export const whenKnown = <T, R>(value: Eventual<T>, use: (value: T) => Eventual<R>): Eventual<R> =>
  value instanceof Promise ? value.then(use) : use(value)

export type Authority = {
  /** Takes from every counter, or from none. */
  reserve(cells: AccountCells, demand: Demand): Eventual<ReserveResult>
  /** A reservation of nothing, for what was used already: nothing refuses it. */
  owe(budgets: readonly BudgetCell[]): Reservation
  /** What certainly refuses this demand, or null. Takes nothing. */
  check(cells: AccountCells, demand: Demand): LimitRefusal | null
  /** The same after leases are refilled. */
  checked(cells: AccountCells, demand: Demand): Promise<LimitRefusal | null>
  /** Reserves `more` in addition. Returns the budget that refuses, or null. */
  extend(reservation: Reservation, more: Nano): Eventual<LimitRefusal | null>
  /** Replaces a reservation by its charge, once. */
  settle(reservation: Reservation, charge: Charge): void
  /** Frees the slots of a request, once. */
  release(reservation: Reservation): void
  /** Corrects what a counter has spent, at once in this process. Resolves when all processes decide by it. */
  adjust(cell: BudgetCell, amount: SpentSum['spent']): Promise<void>
  /** Counters of which other processes have spent something. */
  known(): Promise<readonly BudgetCharge[]>
  /** Reads what all processes have spent and reserved of these counters. False: the store does not answer. */
  refresh(cells: readonly BudgetCell[]): Promise<boolean>
}
