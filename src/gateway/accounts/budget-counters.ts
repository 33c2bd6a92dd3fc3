/**
 * What is spent and reserved of each budget. One counter for each budget, period and owner. Amounts in
 * nano-dollars, times in ms since 1970.
 */
import type { Budget, Client } from '../../core/accounts.ts'
import { type BudgetCharge, budgetCharge, parseCharge } from '../../core/journal.ts'
import { addNano, type Nano } from '../../core/money.ts'
import { type BudgetCounter, remainingOf } from '../../policy/accounts/attempt-admission.ts'
import { type BudgetScope, counterOwner, countsClient, type NamedOwners } from '../../policy/accounts/budget-scope.ts'
import { type AccessTarget, countsTarget } from '../../policy/accounts/key-access.ts'
import { type Period, periodAt } from '../../policy/accounts/period.ts'
import { ClientBudgets } from './client-budgets.ts'
import { OwnerCells } from './owner-cells.ts'

/** What was spent of a counter in earlier runs, as stored in the ledger. */
export type SpentSum = { readonly counter: string; readonly period_start: number; readonly spent: Nano }

/** The state of one counter in its current period. */
export type BudgetState = {
  readonly budget: Budget
  /** Empty: one counter for all. Otherwise the ID of a team or key, or the name of a user. */
  readonly owner: string
  readonly periodStart: number
  readonly periodEnd: number
  readonly spent: Nano
  readonly reserved: Nano
  readonly remaining: Nano
}

/** One counter. `budget` is replaced when the budget is changed. */
export type BudgetCell = BudgetCounter & {
  readonly charge: BudgetCharge
  readonly owner: string
  /** The ID of the key that has named this end user first; empty: unknown, or the owner is no end user. */
  client: string
  /** As in `OwnerCell`. */
  isDropped: boolean
  readonly periodStart: number
  readonly periodEnd: number
  budget: Budget
}

/** What a counter had used at some time. */
export type CounterUse = { readonly cell: BudgetCell; readonly used: Nano }

/** Counters of a budget that lack what was spent before they were created, until they are restored. */
export type UnrestoredCounters = {
  readonly budget: Budget
  /** The budget had other counters before: another period, zone, first day or owner. */
  readonly isChanged: boolean
  /** The counters have all that this process has spent of the budget. */
  readonly isComplete: boolean
}

/**
 * Counters of one budget, shared by its clients. When they are all in use, an unseen owner of a client that has its share is
 * refused (hard) or counted with others (soft).
 */
export const MAX_OWNERS = 100_000
/** The owner of what is counted together. */
const OTHERS = '*'
/** Periods with counters: a request is charged to the period in which it was received. */
const MAX_PERIODS = 3

/** Counters that are kept of budgets that were removed or are counted by another period or owner now. */
const MAX_KEPT = 1_000

/** `servesUnknown`: hard budgets are used before what was spent earlier is counted. */
export type BudgetCountersOptions = { readonly maxOwners?: number; readonly servesUnknown?: () => boolean }

type CountedPeriod = Period & { readonly cells: OwnerCells<BudgetCell> }
/** The counters of one budget, as long as it is counted the same way. The latest period is the last one. */
type CountedBudget = {
  scope: BudgetScope
  periods: CountedPeriod[]
  readonly isChanged: boolean
  isComplete: boolean
  isRestored: boolean
}

export class BudgetCounters {
  readonly #scopes: () => readonly BudgetScope[]
  readonly #maxOwners: number
  readonly #servesUnknown: () => boolean
  /** By the ID of the budget, also of removed ones. */
  readonly #counted = new Map<string, CountedBudget>()
  /**
   * All counters, by `countedBy`; those that were removed longest ago are first. They are kept because a budget may come
   * back, and attempts in progress still use them.
   */
  readonly #kept = new Map<string, CountedBudget>()
  /** Whether some counters were dropped: those of a budget that comes back do not have what it has spent. */
  #hasDropped = false
  #byClient = new WeakMap<Client, ClientBudgets<BudgetCell>>()
  /** The scopes that `#counted` follows. */
  #followed: readonly BudgetScope[] = []

  constructor(
    scopes: () => readonly BudgetScope[],
    { maxOwners = MAX_OWNERS, servesUnknown = () => true }: BudgetCountersOptions = {},
  ) {
    this.#scopes = scopes
    this.#maxOwners = maxOwners
    this.#servesUnknown = servesUnknown
  }

  /** Whether there is no budget. */
  get isEmpty(): boolean {
    return this.#current().length === 0
  }

  /**
   * The counters that pay for an attempt at this target. Null as target: those that pay for every target. `received`: the
   * period. Returns a budget without a free counter instead, if it is hard.
   */
  cellsFor(
    client: Client,
    named: NamedOwners,
    target: AccessTarget | null,
    received: number,
  ): readonly BudgetCell[] | Budget {
    const budgets = this.#budgetsOf(client)
    if (budgets.scopes.length === 0) return NO_CELLS
    const known = budgets.find(target, named, received)
    if (known) return known
    const cells: BudgetCell[] = []
    for (const scope of budgets.scopes) {
      const { budget, models, providers } = scope
      if (models.length + providers.length > 0 && !(target && countsTarget(scope, target))) continue
      const owner = counterOwner(budget, client, named)
      if (owner === null) continue
      const cell = this.#cell(this.#countedOf(scope), owner, received, client.id)
      if (!cell) return budget
      cells.push(cell)
    }
    budgets.keep(target, named, cells)
    return cells
  }

  /** The counters that count a client at some target. Those of its end users and sessions are left out. */
  cellsOf(client: Client, received: number): readonly BudgetCell[] {
    return this.#budgetsOf(client).scopes.flatMap((scope) => {
      if (isNamedByRequests(scope.budget)) return []
      const owner = counterOwner(scope.budget, client, NO_OWNERS)
      return (owner !== null && this.#cell(this.#countedOf(scope), owner, received)) || []
    })
  }

  /** The counters of current periods. */
  current(now: number): readonly BudgetCell[] {
    return this.#current().flatMap((scope) => {
      const counted = this.#countedOf(scope)
      const { cells } = this.#periodAt(counted, now)
      if (scope.budget.per === 'all') this.#cell(counted, '', now)
      return [...cells.values()]
    })
  }

  /** The counters of current budgets that are not restored. */
  unrestored(): readonly UnrestoredCounters[] {
    return this.#current().flatMap((scope) => {
      const counted = this.#countedOf(scope)
      const { isRestored, isChanged, isComplete } = counted
      return isRestored ? [] : { budget: scope.budget, isChanged, isComplete }
    })
  }

  /** What the counters of this budget have used now. */
  usesOf({ budget }: UnrestoredCounters): readonly CounterUse[] {
    const periods = this.#kept.get(countedBy(budget))?.periods ?? []
    return periods.flatMap(({ cells }) => [...cells.values()].map((cell) => ({ cell, used: cell.used })))
  }

  /** Adds what the ledger contains to counters that are not restored. `recorded`: uses that it contains too. */
  restore({ budget }: UnrestoredCounters, sums: readonly SpentSum[], recorded: readonly CounterUse[]): void {
    const counted = this.#kept.get(countedBy(budget))
    if (!counted || counted.isRestored) return
    counted.isRestored = true
    for (const { cell, used } of recorded) addUsed(cell, -used)
    for (const sum of sums) if (splitCounter(sum.counter)[0] === budget.id) this.#addSum(counted, sum)
  }

  /** Creates the counters of these charges that are of current periods. */
  know(charges: readonly BudgetCharge[], now: number): void {
    this.#current()
    for (const charge of charges) {
      const { counter, periodStart } = parseCharge(charge)
      const [id, owner] = splitCounter(counter)
      const counted = this.#counted.get(id)
      if (counted && this.#periodAt(counted, now).start === periodStart) this.#cell(counted, owner, now)
    }
  }

  /** The counter of a sum; null: its budget is gone, or is counted by another period. */
  cellOfSum({ counter, period_start }: Pick<SpentSum, 'counter' | 'period_start'>): BudgetCell | null {
    this.#current()
    const [id, owner] = splitCounter(counter)
    const counted = this.#counted.get(id)
    const cell = counted ? this.#cell(counted, owner, period_start) : null
    return cell?.periodStart === period_start ? cell : null
  }

  /** The budgets that count a client at some target. */
  #budgetsOf(client: Client): ClientBudgets<BudgetCell> {
    const scopes = this.#current()
    if (scopes.length === 0) return NO_BUDGETS
    const known = this.#byClient.get(client)
    if (known) return known
    const found = new ClientBudgets<BudgetCell>(scopes.filter(({ budget }) => countsClient(budget, client)))
    this.#byClient.set(client, found)
    return found
  }

  /** The scopes now. Changed budgets keep what is spent. */
  #current(): readonly BudgetScope[] {
    const scopes = this.#scopes()
    if (scopes === this.#followed) return scopes
    this.#followed = scopes
    this.#byClient = new WeakMap()
    for (const scope of scopes) this.#follow(scope)
    this.#dropKept(scopes)
    return scopes
  }

  #follow(scope: BudgetScope): void {
    const { budget } = scope
    const name = countedBy(budget)
    const known = this.#kept.get(name)
    const isChanged = this.#counted.has(budget.id)
    const isComplete = !isChanged && !this.#hasDropped
    const counted = known ?? { scope, periods: [], isChanged, isComplete, isRestored: false }
    this.#counted.set(budget.id, counted)
    this.#kept.delete(name)
    this.#kept.set(name, counted)
    if (!known) return
    // The ledger has what was spent in the period before the budget was created: all is counted from it again.
    if (budget.countFrom === 'period' && known.scope.budget.countFrom !== 'period') {
      counted.isRestored = false
      counted.isComplete = false
    }
    counted.scope = scope
    // Attempts in progress hold the counters, so they are changed in place.
    for (const { cells } of counted.periods)
      for (const cell of cells.values()) {
        cell.budget = budget
        cell.mode = budget.mode
        cell.granted = budget.amount
        cell.isKnown = this.#isKnown(counted)
      }
  }

  #dropKept(scopes: readonly BudgetScope[]): void {
    // Those of current budgets are last.
    for (const [name, counted] of this.#kept) {
      if (this.#kept.size <= scopes.length + MAX_KEPT) return
      this.#kept.delete(name)
      this.#hasDropped = true
      const { id } = counted.scope.budget
      if (this.#counted.get(id) === counted) this.#counted.delete(id)
    }
  }

  #countedOf({ budget }: BudgetScope): CountedBudget {
    const counted = this.#counted.get(budget.id)
    if (!counted) throw new Error(`the budget ${budget.id} has no counters`)
    return counted
  }

  #addSum(counted: CountedBudget, { counter, period_start, spent }: SpentSum): BudgetCell | null {
    const cell = this.#cell(counted, splitCounter(counter)[1], period_start)
    if (cell?.periodStart !== period_start) return null
    addUsed(cell, spent)
    return cell
  }

  #cell(counted: CountedBudget, owner: string, received: number, key = ''): BudgetCell | null {
    const { budget } = counted.scope
    // The other owners are those of the configuration.
    const client = isNamedByRequests(budget) ? key : ''
    const period = this.#periodAt(counted, received)
    const { cells } = period
    const known = cells.get(owner, client)
    if (known) {
      if (!known.isKnown) known.isKnown = this.#isKnown(counted)
      return known
    }
    if (owner !== OTHERS && !cells.hasRoom(client))
      return budget.mode === 'hard' ? null : this.#cell(counted, OTHERS, received)
    const cell: BudgetCell = {
      budget,
      owner,
      client,
      isDropped: false,
      charge: budgetCharge(`${budget.id}:${owner}`, period.start),
      periodStart: period.start,
      periodEnd: period.end,
      id: budget.id,
      mode: budget.mode,
      granted: budget.amount,
      used: 0,
      held: 0,
      isKnown: this.#isKnown(counted),
      lease: null,
    }
    cells.add(cell)
    return cell
  }

  #isKnown({ isRestored }: CountedBudget): boolean {
    return isRestored || this.#servesUnknown()
  }

  /** A clock that goes back does not return to an earlier period: only a new period replaces the latest one. */
  #periodAt(counted: CountedBudget, at: number): CountedPeriod {
    const { periods } = counted
    for (const period of periods) if (period.start <= at && at < period.end) return period
    const [oldest] = periods
    // The clock went back, or the request was received longer ago than periods are kept.
    if (oldest && at < oldest.start) return oldest
    const made: CountedPeriod = { ...periodAt(counted.scope.budget, at), cells: new OwnerCells(this.#maxOwners) }
    counted.periods = [...periods, made].sort((a, b) => a.start - b.start).slice(-MAX_PERIODS)
    return made
  }
}

/** The state of a counter. */
export const stateOf = (cell: BudgetCell): BudgetState => ({
  budget: cell.budget,
  owner: cell.owner,
  periodStart: cell.periodStart,
  periodEnd: cell.periodEnd,
  spent: cell.used,
  reserved: cell.held,
  remaining: remainingOf(cell),
})

/** Budgets with the same text are counted by the same counters. */
const countedBy = ({ id, period, timezone, startDay, per }: Budget): string =>
  JSON.stringify([id, period, timezone, startDay, per])

const addUsed = (cell: BudgetCell, amount: Nano): void => {
  cell.used = addNano(cell.used, amount)
}

const NO_CELLS: readonly BudgetCell[] = []
const NO_OWNERS: NamedOwners = { endUser: null, session: null }

/** Whether its counters are of what requests name, so that their number has no bound by itself. */
const isNamedByRequests = ({ per }: Budget): boolean => per === 'end_user' || per === 'session'
const NO_BUDGETS = new ClientBudgets<BudgetCell>([])

/** The budget and the owner of a counter, as the ledger names it. */
export const splitCounter = (counter: string): readonly [id: string, owner: string] => {
  const colon = counter.indexOf(':')
  return colon < 0 ? [counter, ''] : [counter.slice(0, colon), counter.slice(colon + 1)]
}
