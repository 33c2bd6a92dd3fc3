/**
 * Limits and budgets in a process that does not decide: the supervisor of its workers does, or Redis for several gateways.
 * Operations of one turn of the event loop are one message. Without an answer, the process uses its share of what was left
 * at the last answer.
 */
import type { Budget } from '../core/accounts.ts'
import type { Nano } from '../core/money.ts'
import {
  type AccountCells,
  CounterAuthority,
  type Eventual,
  type RemoteAuthority,
  type Reservation,
  type ReserveResult,
} from '../gateway/accounts/authority.ts'
import type { BudgetCell, CounterFigures, SpentSum } from '../gateway/accounts/budget-counters.ts'
import type { Charge, Demand, LimitRefusal, RateCounter, SlotCounter } from '../policy/accounts/attempt-admission.ts'
import { levelOf } from '../policy/accounts/token-bucket.ts'
import { afterIdle } from './after-idle.ts'
import type { CounterAnswer, CounterClaim, CounterOperation } from './counter-messages.ts'
import type { CountersState } from './counters-thread-messages.ts'

export type SharedAuthorityOptions = {
  readonly send: (operations: readonly CounterOperation[]) => void
  /** Number of processes that share the limits. */
  readonly of: () => number
  /** Monotonic clock in ms. */
  readonly now: () => number
  /** ms for an answer. */
  readonly timeout: () => number
  /** Whether a hard budget must not be used, because what it has spent is not known. Absent: the one that decides knows. */
  readonly isUnknown?: (budget: Budget) => boolean
  /** Corrects what a counter has spent. Absent: the process that stores the correction does. */
  readonly adjust?: (correction: SpentSum) => void
}

/** ms for an answer of the supervisor, which decides at once: only a stopped process takes that long. */
export const SUPERVISOR_TIMEOUT = 3_000
/** ms for an answer of Redis, which is left alone after three failures. */
export const REDIS_TIMEOUT = 100

/** ms for an answer about a strict budget. */
const STRICT_TIMEOUT = 50

/** A question to the supervisor. `answer` null: it did not answer in time. */
type Question = { readonly at: number; readonly done: (answer: CounterAnswer | null) => void }

type SharedReservation = Reservation & {
  readonly ticket: number
  /** What it has taken of this worker's share, if it was admitted without the supervisor. */
  readonly own: Reservation | null
  isExtending: boolean
}

export class SharedAuthority implements RemoteAuthority {
  readonly isLocal = false
  readonly #options: SharedAuthorityOptions
  /** In the order of their time. */
  readonly #questions = new Map<number, Question>()
  #tickets = 0
  #queue: CounterOperation[] = []
  #timer: NodeJS.Timeout | null = null
  /** There are no answers. */
  #isAlone = false
  /** It has not answered about a strict budget in time. */
  #isLate = false
  readonly #shares: Shares
  /** The last request that was admitted from a share. Answers to earlier questions do not count it. */
  #lastTaken = 0
  #showFigures: (figures: readonly CounterFigures[]) => void = () => {}

  constructor(options: SharedAuthorityOptions) {
    this.#options = options
    this.#shares = new Shares(options)
  }

  reserve(cells: AccountCells, demand: Demand): Eventual<ReserveResult> {
    const unknown = this.#unknownIn(cells)
    if (unknown) return unavailable(unknown)
    const strict = strictIn(cells)
    if (strict && (this.#isAlone || this.#isLate)) return unavailable(strict)
    if (this.#isAlone) return this.#reserveOwn(cells, demand)
    const ticket = ++this.#tickets
    const operation = { do: 'reserve', ticket, claim: claimOf(cells, demand) } as const
    const asked = this.#ask(operation, (answer) => {
      if (answer) return this.#onReserved(answer, cells, demand)
      // It is released as soon as the supervisor has granted it.
      this.#push({ do: 'settle', ticket, charge: NOTHING })
      this.#push({ do: 'release', ticket })
      if (strict) {
        // Its answer shows that the supervisor is back; a released reservation may have none.
        this.#push({ do: 'check', ticket: ++this.#tickets, claim: operation.claim })
        return unavailable(strict)
      }
      this.#isAlone = true
      return this.#reserveOwn(cells, demand)
    })
    if (strict) this.#limit(ticket)
    return asked
  }

  check(cells: AccountCells, demand: Demand): Eventual<LimitRefusal | null> {
    const unknown = this.#unknownIn(cells)
    if (unknown) return unavailable(unknown).refusal
    if (this.#isAlone) return null
    return this.#ask({ do: 'check', ticket: ++this.#tickets, claim: claimOf(cells, demand) }, (answer) => {
      if (answer) this.#show(answer, cells)
      return answer && refusalOf(answer)
    })
  }

  /** Without the supervisor the reservation stays as it is; the charge is exact. */
  extend(reservation: Reservation, more: Nano): Eventual<LimitRefusal | null> {
    const shared = sharedOf(reservation)
    if (this.#isAlone || shared.isExtending) return null
    shared.isExtending = true
    const operation = { do: 'extend', ticket: ++this.#tickets, of: shared.ticket, more } as const
    return this.#ask(operation, (answer) => {
      shared.isExtending = false
      if (!answer) return null
      const refusal = refusalOf(answer)
      if (!refusal) shared.hold = { ...shared.hold, cost: shared.hold.cost + more }
      return refusal
    })
  }

  settle(reservation: Reservation, charge: Charge): void {
    const { ticket, own } = sharedOf(reservation)
    this.#push({ do: 'settle', ticket, charge })
    if (own) this.#shares.settle(own, charge)
  }

  release(reservation: Reservation): void {
    const { ticket, own, cells } = sharedOf(reservation)
    if (cells.slots.length === 0) return
    this.#push({ do: 'release', ticket })
    // Near the limit without waiting for the turn: the client may send its next request to another worker.
    if (cells.slots.some(({ live, limit }) => 2 * live >= limit)) queueMicrotask(() => this.#flush())
    if (own) this.#shares.release(own)
    // What this process has freed itself, no other uses.
    else if (this.#isAlone) this.#shares.giveBack(cells)
    for (const slot of cells.slots) slot.live = Math.max(0, slot.live - 1)
  }

  adjust(correction: SpentSum): void {
    this.#options.adjust?.(correction)
  }

  states(): Promise<readonly CounterFigures[] | null> {
    if (this.#isAlone) return Promise.resolve(null)
    return this.#ask({ do: 'states', ticket: ++this.#tickets }, (answer) => answer?.states ?? null)
  }

  onAnswers(answers: readonly CounterAnswer[]): void {
    this.#isAlone = false
    this.#isLate = false
    for (const answer of answers) {
      const question = this.#questions.get(answer.ticket)
      this.#questions.delete(answer.ticket)
      question?.done(answer)
    }
  }

  follow(show: (figures: readonly CounterFigures[]) => void): void {
    this.#showFigures = show
  }

  /**
   * What budgets have spent in all processes. `taken`: the last request admitted from a share that is counted; null: the
   * figures are those of an earlier answer.
   */
  onFigures(figures: readonly CounterFigures[], taken: number | null): void {
    this.#showFigures(figures)
    if (taken === null) return
    this.#isAlone = false
    this.#isLate = false
    if (taken >= this.#lastTaken) this.#shares.forgetBudgets()
  }

  /** The supervisor has ended, or Redis does not answer. */
  onLost(): void {
    this.#expire(Number.POSITIVE_INFINITY)
    this.#isAlone = true
  }

  #unknownIn({ budgets }: AccountCells): BudgetCell | undefined {
    const { isUnknown } = this.#options
    return isUnknown && budgets.find(({ budget }) => budget.mode === 'hard' && isUnknown(budget))
  }

  #ask<T>(operation: CounterOperation, use: (answer: CounterAnswer | null) => T): Promise<T> {
    return new Promise((resolve) => {
      this.#questions.set(operation.ticket, { at: this.#options.now(), done: (answer) => resolve(use(answer)) })
      this.#push(operation)
      this.#timer ??= this.#startTimer(this.#options.timeout())
    })
  }

  #push(operation: CounterOperation): void {
    this.#queue.push(operation)
    if (this.#queue.length === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    if (this.#queue.length === 0) return
    const queue = this.#queue
    this.#queue = []
    this.#options.send(queue)
  }

  /** One timer for all questions: the oldest expires first. */
  #startTimer(ms: number): NodeJS.Timeout {
    return afterIdle(ms, () => {
      this.#timer = null
      const now = this.#options.now()
      const timeout = this.#options.timeout()
      this.#expire(now - timeout)
      const [oldest] = this.#questions.values()
      if (oldest) this.#timer = this.#startTimer(Math.max(1, oldest.at + timeout - now))
    })
  }

  /** A question about a strict budget waits no longer than `STRICT_TIMEOUT`. */
  #limit(ticket: number): void {
    afterIdle(STRICT_TIMEOUT, () => {
      const question = this.#questions.get(ticket)
      if (!question) return
      this.#questions.delete(ticket)
      this.#isLate = true
      question.done(null)
    })
  }

  /** If a question from `until` or earlier is open, none will be answered soon. */
  #expire(until: number): void {
    const [oldest] = this.#questions.values()
    if (!oldest || oldest.at > until) return
    this.#isAlone = true
    const questions = [...this.#questions.values()]
    this.#questions.clear()
    for (const { done } of questions) done(null)
  }

  #onReserved(answer: CounterAnswer, cells: AccountCells, { first, tokens, cost }: Demand): ReserveResult {
    this.#show(answer, cells)
    const refusal = refusalOf(answer)
    if (refusal) return { refusal }
    const { ticket, exceeded } = answer
    const reservation: SharedReservation = {
      cells,
      hold: { tokens, cost },
      first,
      ticket,
      own: null,
      isExtending: false,
    }
    return { reservation, exceeded }
  }

  #reserveOwn(cells: AccountCells, demand: Demand): ReserveResult {
    const result = this.#shares.reserve(cells, demand)
    if ('refusal' in result) return { refusal: { ...result.refusal, degraded: true } }
    const ticket = ++this.#tickets
    this.#lastTaken = ticket
    this.#push({ do: 'take', ticket, claim: claimOf(cells, demand) })
    const reservation: SharedReservation = {
      cells,
      hold: result.reservation.hold,
      first: demand.first,
      ticket,
      own: result.reservation,
      isExtending: false,
    }
    return { reservation, exceeded: result.exceeded }
  }

  /** Takes over the figures of the supervisor, for headers and messages. */
  #show({ ticket, counters }: CounterAnswer, cells: AccountCells): void {
    if (!counters) return
    if (ticket > this.#lastTaken) this.#shares.forget(cells)
    const { slots, rates, budgets } = counters
    const at = this.#options.now()
    for (const [index, slot] of cells.slots.entries()) slot.live = slots[index] ?? slot.live
    for (const [index, rate] of cells.rates.entries()) rate.bucket = { level: rates[index] ?? rate.bucket.level, at }
    for (const [index, cell] of cells.budgets.entries()) {
      const [used, held] = budgets[index] ?? [cell.used, cell.held]
      cell.used = used
      cell.held = held
    }
  }
}

/**
 * This process's parts of what was left of the limits at its last answers; others may have used some of it since.
 * A part is kept until an answer counts what was taken of it: a supervisor that answers late would grant it again and again.
 */
class Shares extends CounterAuthority {
  readonly #options: Pick<SharedAuthorityOptions, 'of' | 'now'>
  readonly #slots = new Map<SlotCounter, SlotCounter>()
  readonly #rates = new Map<RateCounter, RateCounter>()
  readonly #budgets = new Map<BudgetCell, BudgetCell>()

  constructor(options: Pick<SharedAuthorityOptions, 'of' | 'now'>) {
    super(options.now)
    this.#options = options
  }

  override reserve({ limits, slots, rates, budgets }: AccountCells, demand: Demand): ReserveResult {
    const own = {
      limits,
      slots: slots.map((cell) => partOf(this.#slots, cell, () => this.#slotPart(cell))),
      rates: rates.map((cell) => partOf(this.#rates, cell, () => this.#ratePart(cell))),
      budgets: budgets.map((cell) => partOf(this.#budgets, cell, () => this.#budgetPart(cell))),
    }
    return super.reserve(own, demand)
  }

  /** The supervisor has counted what was taken of these. */
  forget({ slots, rates, budgets }: AccountCells): void {
    if (this.#slots.size > 0) for (const cell of slots) this.#slots.delete(cell)
    if (this.#rates.size > 0) for (const cell of rates) this.#rates.delete(cell)
    if (this.#budgets.size > 0) for (const cell of budgets) this.#budgets.delete(cell)
  }

  /** The slots of a request that was admitted before are free for this process. */
  giveBack({ slots }: AccountCells): void {
    for (const cell of slots) partOf(this.#slots, cell, () => this.#slotPart(cell)).limit++
  }

  forgetBudgets(): void {
    this.#budgets.clear()
  }

  #slotPart({ id, limit, live }: SlotCounter): SlotCounter {
    return { id, limit: Math.floor(Math.max(0, limit - live) / this.#options.of()), live: 0 }
  }

  #ratePart(rate: RateCounter): RateCounter {
    const { of, now } = this.#options
    const at = now()
    const level = levelOf(rate.bucket, rate.perMinute, at) / of()
    return { ...rate, perMinute: rate.perMinute / of(), bucket: { level, at } }
  }

  #budgetPart(cell: BudgetCell): BudgetCell {
    const { granted, used, held } = cell
    const part = Math.floor(Math.max(0, granted - used - held) / this.#options.of())
    return { ...cell, granted: part, used: 0, held: 0 }
  }
}

const partOf = <Cell>(parts: Map<Cell, Cell>, cell: Cell, make: () => Cell): Cell => {
  const known = parts.get(cell)
  if (known) return known
  const made = make()
  parts.set(cell, made)
  return made
}

const NOTHING: Charge = { tokens: 0, cost: 0 }

const claimOf = ({ limits, budgets }: AccountCells, demand: Demand): CounterClaim => ({
  limits,
  budgets: budgets.map(({ budget, owner, periodStart, client }) =>
    client === '' ? [budget.id, owner, periodStart] : [budget.id, owner, periodStart, client],
  ),
  demand,
})

/** A hard budget that must not be spent without the supervisor. */
const strictIn = ({ budgets }: AccountCells): BudgetCell | undefined =>
  budgets.find(({ budget }) => budget.mode === 'hard' && budget.enforcement === 'strict')

const unavailable = ({ id }: BudgetCell): { readonly refusal: LimitRefusal } => ({
  refusal: { why: 'budget', id, unavailable: true },
})

// Every reservation of an authority returns to it.
const sharedOf = (reservation: Reservation): SharedReservation => reservation as SharedReservation

/** Whether what a budget has spent is not known. */
export const isUnknown = ({ unknown }: Pick<CountersState, 'unknown'>, { id }: Budget): boolean =>
  unknown === null || unknown.includes(id)

/** JSON has no Infinity. */
const refusalOf = ({ refusal }: CounterAnswer): LimitRefusal | null =>
  refusal && 'retryAfter' in refusal
    ? { ...refusal, retryAfter: refusal.retryAfter ?? Number.POSITIVE_INFINITY }
    : refusal
