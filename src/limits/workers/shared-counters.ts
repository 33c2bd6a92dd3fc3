/**
 * The counters of limits and budgets of all workers, in the supervisor: the same that a single process has. They
 * record what each worker has reserved, and release it when the worker ends.
 */
import { budgetCharge, type CounterSpend } from '../../core/journal.ts'
import type { Nano } from '../../core/money.ts'
import { type AccountCells, CounterAuthority, type Reservation } from '../../gateway/accounts/authority.ts'
import {
  type BudgetCell,
  BudgetCounters,
  type BudgetState,
  type CounterFigures,
  type SpentSum,
  stateOf,
} from '../../gateway/accounts/budget-counters.ts'
import { LimitCounters } from '../../gateway/accounts/limit-counters.ts'
import type { Charge, LimitRefusal } from '../../policy/accounts/attempt-admission.ts'
import { type BudgetScope, budgetScope } from '../../policy/accounts/budget-scope.ts'
import { chargedCost } from '../../policy/accounts/charge.ts'
import { levelOf } from '../../policy/accounts/token-bucket.ts'
import type { CounterAnswer, CounterClaim, CounterOperation, CounterValues } from '../counter-messages.ts'
import type { SentBudgetRules } from './account-messages.ts'

/** `now`: monotonic, in ms. `date`: ms since 1970. */
type CounterClocks = { readonly now: () => number; readonly date: () => number }

/** What one worker has reserved, by ticket. */
type Held = {
  /** Attempts that are not settled. */
  readonly attempts: Map<number, Reservation>
  /** Requests that occupy slots. */
  readonly slots: Map<number, Reservation>
  /** Reservations that are refused unless another worker releases something in the same turn of the event loop. */
  readonly refused: Map<number, CounterClaim>
  /** What its attempts were charged, by counter and period. */
  readonly charged: Map<string, ChargedSum>
  /** Size of `charged` at which old periods are dropped. */
  sweepAt: number
  /** The ticket of its last `take`. */
  taken: number
}

type ChargedSum = { readonly periodEnd: number; sum: Nano }

type SendAnswers = (answers: readonly CounterAnswer[]) => void

/** Sums of charges of one worker above which those of old periods are dropped. */
const SWEEP_FROM = 10_000
/** ms after the end of a period until its sums are dropped. */
const AFTER_PERIOD = 86_400_000
/** Counters of one budget in an answer. */
const MAX_STATES = 10_000

export class SharedCounters<Worker extends object> {
  readonly #clocks: CounterClocks
  readonly #authority: CounterAuthority
  readonly #limits = new LimitCounters()
  readonly #held = new Map<Worker, Held>()
  /** Counters of budgets that have changed since `takeChanged`. */
  readonly #changed = new Set<BudgetCell>()
  #scopes: readonly BudgetScope[] = []
  /** The budgets as JSON. */
  #text = ''
  #servesUnknown = false
  readonly budgets = new BudgetCounters(() => this.#scopes, { servesUnknown: () => this.#servesUnknown })

  constructor(clocks: CounterClocks) {
    this.#clocks = clocks
    this.#authority = new CounterAuthority(clocks.now)
  }

  /** The budgets of the worker that has read the configuration last. */
  setBudgets({ budgets, whenUnknown }: SentBudgetRules): void {
    this.#servesUnknown = whenUnknown === 'serve'
    const text = JSON.stringify(budgets)
    if (text !== this.#text) this.#scopes = budgets.map(budgetScope)
    this.#text = text
  }

  /**
   * Runs operations in their order. `answer` is called at once, and again in the next turn for reservations without room:
   * what another worker has released before may be read after them.
   */
  run(worker: Worker, operations: readonly CounterOperation[], answer: SendAnswers): void {
    let held = this.#held.get(worker)
    if (!held) {
      const maps = { attempts: new Map(), slots: new Map(), refused: new Map(), charged: new Map() }
      held = { ...maps, sweepAt: SWEEP_FROM, taken: 0 }
      this.#held.set(worker, held)
    }
    const answers: CounterAnswer[] = []
    const waiting = held.refused.size
    for (const operation of operations) {
      const one = this.#runOne(held, operation)
      if (one) answers.push(one)
    }
    if (answers.length > 0) answer(answers)
    if (waiting === 0 && held.refused.size > 0) setImmediate(() => this.#runRefused(worker, held, answer))
  }

  #runRefused(worker: Worker, held: Held, answer: SendAnswers): void {
    if (this.#held.get(worker) !== held) return
    const answers = [...held.refused].map(([ticket, claim]) => this.#reserve(held, ticket, claim))
    held.refused.clear()
    if (answers.length > 0) answer(answers)
  }

  /**
   * A worker has ended: its slots are free. Its reservations are kept until the ledger has what it has spent; unknown
   * (null), it is charged what it has reserved.
   */
  async onExit(worker: Worker, spending: Promise<readonly CounterSpend[] | null>): Promise<void> {
    const held = this.#held.get(worker)
    this.#held.delete(worker)
    if (!held) return
    for (const reservation of held.slots.values()) this.#authority.release(reservation)
    const spends = held.attempts.size > 0 || held.charged.size > 0 ? await spending : []
    for (const reservation of held.attempts.values()) {
      this.#authority.settle(reservation, { tokens: reservation.hold.tokens, cost: spends ? 0 : null })
      this.#note(reservation.cells.budgets)
    }
    // What it has settled last, or was about to, may be missing here but not in its journal.
    const missing = (spends ?? []).map(({ counter, periodStart, spent }) => ({
      counter,
      period_start: periodStart,
      spent: spent - (held.charged.get(budgetCharge(counter, periodStart))?.sum ?? 0),
    }))
    this.add(missing)
  }

  /** Adds corrections, or what another process has spent. */
  add(sums: readonly SpentSum[]): void {
    this.#note(this.budgets.add(sums))
  }

  get hasChanged(): boolean {
    return this.#changed.size > 0
  }

  /** The figures of budgets that have changed since the last call. */
  takeChanged(): readonly CounterFigures[] {
    const figures = [...this.#changed].map((cell) => figuresOf(stateOf(cell)))
    this.#changed.clear()
    return figures
  }

  /** The ticket of a worker's last `take`. */
  takenBy(worker: Worker): number {
    return this.#held.get(worker)?.taken ?? 0
  }

  /** What budgets have spent and reserved in their current periods. */
  states(): readonly CounterFigures[] {
    const byBudget = Map.groupBy(this.budgets.states(this.#clocks.date()), ({ budget }) => budget.id)
    return [...byBudget.values()].flatMap((states) => states.slice(0, MAX_STATES)).map(figuresOf)
  }

  #note(cells: readonly BudgetCell[]): void {
    for (const cell of cells) this.#changed.add(cell)
  }

  #runOne(held: Held, operation: CounterOperation): CounterAnswer | null {
    const { ticket } = operation
    switch (operation.do) {
      case 'reserve': {
        const answer = this.#reserve(held, ticket, operation.claim)
        if (!answer.refusal) return answer
        held.refused.set(ticket, operation.claim)
        return null
      }
      case 'check':
        return this.#check(ticket, operation.claim)
      case 'take':
        held.taken = ticket
        this.#take(held, ticket, operation.claim)
        return null
      case 'extend': {
        const reservation = held.attempts.get(operation.of)
        if (reservation) this.#note(reservation.cells.budgets)
        return { ...UNUSED, ticket, refusal: reservation ? this.#authority.extend(reservation, operation.more) : null }
      }
      case 'settle': {
        const reservation = held.attempts.get(ticket)
        held.attempts.delete(ticket)
        held.refused.delete(ticket)
        if (reservation) this.#settle(held, reservation, operation.charge)
        return null
      }
      case 'release': {
        const reservation = held.slots.get(ticket)
        held.slots.delete(ticket)
        if (reservation) this.#authority.release(reservation)
        return null
      }
      case 'states':
        return { ...UNUSED, ticket, states: this.states() }
      default:
        throw new Error(`unknown operation ${JSON.stringify(operation satisfies never)}`)
    }
  }

  #reserve(held: Held, ticket: number, claim: CounterClaim): CounterAnswer {
    const found = this.#find(claim)
    if (found.refusal) return { ...UNUSED, ticket, refusal: found.refusal }
    const result = this.#authority.reserve(found.cells, claim.demand)
    const counters = this.#valuesOf(found)
    if ('refusal' in result) return { ...UNUSED, ticket, refusal: result.refusal, counters }
    const { reservation, exceeded } = result
    this.#note(found.cells.budgets)
    held.attempts.set(ticket, reservation)
    if (reservation.first && found.cells.slots.length > 0) held.slots.set(ticket, reservation)
    return { ...UNUSED, ticket, exceeded, counters }
  }

  #check(ticket: number, claim: CounterClaim): CounterAnswer {
    const found = this.#find(claim)
    const refusal = found.refusal ?? this.#authority.check(found.cells, claim.demand)
    return { ...UNUSED, ticket, refusal, counters: this.#valuesOf(found) }
  }

  /** Without room, the request reserves nothing but is charged when it is settled. */
  #take(held: Held, ticket: number, claim: CounterClaim): void {
    if (!this.#reserve(held, ticket, claim).refusal) return
    const { cells } = this.#find(claim)
    held.attempts.set(ticket, { cells, hold: { tokens: 0, cost: 0 }, first: false })
  }

  #settle(held: Held, reservation: Reservation, charge: Charge): void {
    const { charged } = held
    this.#authority.settle(reservation, charge)
    this.#note(reservation.cells.budgets)
    for (const { charge: name, periodEnd } of reservation.cells.budgets) {
      const known = charged.get(name)
      const sum = chargedCost(charge.cost, reservation.hold.cost)
      if (known) known.sum += sum
      else if (sum !== 0) charged.set(name, { periodEnd, sum })
    }
    if (charged.size < held.sweepAt) return
    const now = this.#clocks.date()
    for (const [name, { periodEnd }] of charged) if (periodEnd + AFTER_PERIOD < now) charged.delete(name)
    held.sweepAt = Math.max(SWEEP_FROM, 2 * charged.size)
  }

  #find({ limits, budgets: names }: CounterClaim): ClaimedCells {
    const found = names.map(([id, owner, periodStart, client]) => this.budgets.cellOf(id, owner, periodStart, client))
    const budgets = found.map((cell) => (cell && 'charge' in cell ? cell : null))
    const full = found.find((cell) => cell !== null && 'amount' in cell)
    const cells = {
      ...this.#limits.cellsFor({ limits }, this.#clocks.now()),
      budgets: budgets.filter((cell) => cell !== null),
    }
    return { cells, budgets, refusal: full && 'id' in full ? { why: 'budget', id: full.id } : null }
  }

  #valuesOf({ cells: { slots, rates }, budgets }: ClaimedCells): CounterValues {
    const now = this.#clocks.now()
    return {
      slots: slots.map(({ live }) => live),
      rates: rates.map(({ bucket, perMinute }) => levelOf(bucket, perMinute, now)),
      budgets: budgets.map((cell) => cell && [cell.used, cell.held]),
    }
  }
}

const figuresOf = ({ budget, owner, periodStart, spent, reserved }: BudgetState): CounterFigures => ({
  budget: budget.id,
  owner,
  periodStart,
  spent,
  reserved,
})

/** The counters of a claim. `budgets`: one for each that it names; null: there is no such budget any more. */
type ClaimedCells = {
  readonly cells: AccountCells
  readonly budgets: readonly (BudgetCell | null)[]
  /** A hard budget has no counter left for this owner. */
  readonly refusal: LimitRefusal | null
}

/** The members of an answer that does not need them. */
const UNUSED = { refusal: null, exceeded: [], counters: null, states: null } as const
