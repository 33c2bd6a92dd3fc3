/**
 * The port to the process that decides about limits and budgets. `CounterAuthority` has the counters itself: it runs in the
 * only process, or in the supervisor of several. Amounts in nano-dollars, times in ms of the monotonic clock.
 */
import type { Nano } from '../../core/money.ts'
import {
  type Charge,
  type Demand,
  extend,
  type Hold,
  type LimitRefusal,
  refusalOf,
  release,
  reserve,
  settle,
} from '../../policy/accounts/attempt-admission.ts'
import type { BudgetCell, CounterFigures, SpentSum } from './budget-counters.ts'
import type { LimitCells } from './limit-counters.ts'

/**
 * All counters that apply to an attempt. In a process that does not decide, they have the figures of the authority's last
 * answer, for headers and messages.
 */
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

/** A value that is known now, or later if another process decides. Such a promise does not reject. */
export type Eventual<T> = T | Promise<T>

/** Uses a value as soon as it is known. */
export const whenKnown = <T, R>(value: Eventual<T>, use: (value: T) => Eventual<R>): Eventual<R> =>
  value instanceof Promise ? value.then(use) : use(value)

export type Authority = {
  /** The counters are in this process: every answer is known at once. */
  readonly isLocal: boolean
  /** Takes from every counter, or from none. */
  reserve(cells: AccountCells, demand: Demand): Eventual<ReserveResult>
  /** What would refuse this demand, or null. Takes nothing, and updates the figures of the cells. */
  check(cells: AccountCells, demand: Demand): Eventual<LimitRefusal | null>
  /** Reserves `more` in addition. Returns the budget that refuses, or null. */
  extend(reservation: Reservation, more: Nano): Eventual<LimitRefusal | null>
  /** Replaces a reservation by its charge, once. */
  settle(reservation: Reservation, charge: Charge): void
  /** Frees the slots of a request, once. */
  release(reservation: Reservation): void
}

/** Another process decides. */
export type RemoteAuthority = Authority & {
  /** What all counters of budgets have spent and reserved in their current periods. Null: it does not answer. */
  states(): Promise<readonly CounterFigures[] | null>
  /** Passes on figures of budgets that have changed in other processes. */
  follow(show: (figures: readonly CounterFigures[]) => void): void
  /** Adds a correction to what a counter has spent, unless the process that stores it does. */
  adjust(correction: SpentSum): void
}

export class CounterAuthority implements Authority {
  readonly isLocal = true
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  reserve(cells: AccountCells, demand: Demand): ReserveResult {
    const admission = reserve(cells, demand, this.#now())
    if (!admission.admitted) return { refusal: admission.refusal }
    const { hold, exceeded } = admission
    return { reservation: { cells, hold, first: demand.first }, exceeded }
  }

  check(cells: AccountCells, demand: Demand): LimitRefusal | null {
    return refusalOf(cells, demand, this.#now())
  }

  extend(reservation: Reservation, more: Nano): LimitRefusal | null {
    const admission = extend(reservation.cells, reservation.hold, more)
    if (!admission.admitted) return admission.refusal
    reservation.hold = admission.hold
    return null
  }

  settle({ cells, hold }: Reservation, charge: Charge): void {
    settle(cells, hold, charge, this.#now())
  }

  release({ cells }: Reservation): void {
    release(cells)
  }
}
