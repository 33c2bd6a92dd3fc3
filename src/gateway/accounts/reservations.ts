/**
 * Decides about limits and budgets in this process. Its own counters decide at once. Of counters that several processes share it
 * uses its leases: a request waits only if a lease has too little for it, and is refused only if the store has no room either.
 */
import type { BudgetCharge } from '../../core/journal.ts'
import type { Nano } from '../../core/money.ts'
import { within } from '../../core/within.ts'
import type { World } from '../../core/world.ts'
import {
  type Charge,
  type Demand,
  extend,
  type LimitRefusal,
  refusalOf,
  release,
  reserve,
  type Shortage,
  settle,
  shortagesOf,
} from '../../policy/accounts/attempt-admission.ts'
import type { HeldLease } from '../../policy/accounts/held-lease.ts'
import {
  type AccountCells,
  type Authority,
  type Eventual,
  type Reservation,
  type ReserveResult,
  whenKnown,
} from './authority.ts'
import type { BudgetCell } from './budget-counters.ts'
import { type CounterStore, counterOf } from './counter-store.ts'
import { bookedOf, LeaseBook, type LeaseRules } from './lease-book.ts'
import { leaseOf, openLeases, touchLeases } from './leased-cells.ts'

/**
 * ms. `wait`: that a request waits for what other processes hold and do not use, before it is refused. `hurry`: that a `fast`
 * budget waits for a lease before its overdraft is used.
 */
export type ReservationRules = LeaseRules & { readonly wait: number; readonly hurry: number }

export type ReservationsOptions = {
  readonly world: Pick<World, 'now' | 'date' | 'later' | 'random'>
  /** The counters that several processes share. Absent: this process has its counters alone. */
  readonly store?: CounterStore | undefined
  readonly rules?: () => ReservationRules
  /** What was spent of budgets is being read: they are known when it resolves. Null: nothing is read. */
  readonly reading?: (() => Promise<unknown> | null | undefined) | undefined
}

/** ms. `again`, `slot`: between two questions about what others hold. `tick`: by which a timer may be early. */
const TIMES = { again: 100, slot: 15, tick: 2 }
/** Answers after which a refusal of slots is final: another process may be about to give one back. */
const SLOT_ANSWERS = 2

const DEFAULTS: ReservationRules = { interval: 500, overdraft: 1, wait: 2_500, hurry: 50, starting: () => 1 }

export class Reservations implements Authority {
  readonly #options: ReservationsOptions
  readonly #book: LeaseBook | null

  constructor(options: ReservationsOptions) {
    const { store, world } = options
    this.#options = options
    this.#book = store ? new LeaseBook(store, world, () => this.#rules()) : null
  }

  /** Why the store cannot be used, or null. */
  get problem(): string | null {
    return this.#book?.problem ?? null
  }

  reserve(cells: AccountCells, demand: Demand): Eventual<ReserveResult> {
    return this.#decide(cells, demand, () => this.#take(cells, demand))
  }

  owe(budgets: readonly BudgetCell[]): Reservation {
    const cells = { slots: [], rates: [], budgets }
    openLeases(this.#book, cells, this.#options.world)
    return { cells, hold: { tokens: 0, cost: 0 }, first: false }
  }

  check(cells: AccountCells, demand: Demand): LimitRefusal | null {
    openLeases(this.#book, cells, this.#options.world)
    const refusal = refusalOf(cells, demand, this.#options.world.now())
    return refusal && this.#isFinal(cells, demand, refusal, null) ? refusal : null
  }

  async checked(cells: AccountCells, demand: Demand): Promise<LimitRefusal | null> {
    const refusal = this.check(cells, demand)
    const short = shortagesOf(cells, demand)
    if (refusal || short.length === 0 || !this.#book || this.#book.problem !== null) return refusal
    await this.#within(this.#rules().wait, this.#book.refill(short))
    return this.check(cells, demand)
  }

  extend(reservation: Reservation, more: Nano): Eventual<LimitRefusal | null> {
    const cells = { ...reservation.cells, slots: [], rates: [] }
    const take = (): ReserveResult => {
      const admission = extend(cells, reservation.hold, more)
      if (!admission.admitted) return { refusal: admission.refusal }
      reservation.hold = admission.hold
      touchLeases(this.#book, cells, this.#options.world.now())
      return { reservation, exceeded: admission.exceeded }
    }
    const result = this.#decide(cells, { first: false, tokens: 0, cost: more }, take)
    return whenKnown(result, (known) => ('refusal' in known ? known.refusal : null))
  }

  settle({ cells, hold }: Reservation, charge: Charge): void {
    settle(cells, hold, charge, this.#options.world.now())
    touchLeases(this.#book, cells, this.#options.world.now())
  }

  release({ cells }: Reservation): void {
    if (cells.slots.length === 0) return
    release(cells)
    touchLeases(this.#book, { ...cells, rates: [], budgets: [] }, this.#options.world.now())
  }

  async adjust(cell: BudgetCell, amount: Nano): Promise<void> {
    cell.used += amount
    const lease = leaseOf(this.#book, cell, this.#options.world)
    if (!lease) return
    lease.used += amount
    lease.granted += amount
    this.#book?.touch(bookedOf(lease), this.#options.world.now())
    await this.#book?.refill([{ lease, need: 0 }])
    // Other processes refuse by earlier answers for so long.
    await this.#within(this.#rules().interval + TIMES.tick, null)
  }

  async refresh(cells: readonly BudgetCell[]): Promise<boolean> {
    const { store } = this.#options
    if (!store) return true
    const totals = await store.read(cells.map(({ charge }) => counterOf(charge)))
    if (!totals) return false
    for (const [at, cell] of cells.entries()) {
      const found = totals[at]
      if (!found) continue
      const { used = 0, held = 0 } = cell.lease?.stated ?? {}
      cell.used = found.used - used + (cell.lease?.used ?? 0)
      cell.held = found.held - held + (cell.lease?.held ?? 0)
    }
    return true
  }

  known = async (): Promise<readonly BudgetCharge[]> => (await this.#options.store?.known()) ?? []

  /** Gives back what is not used. */
  close = async (): Promise<void> => this.#book?.close()

  // ── Decisions ──────────────────────────────────────────────────────────────────────────────────────────────────

  #take(cells: AccountCells, demand: Demand): ReserveResult {
    openLeases(this.#book, cells, this.#options.world)
    const admission = reserve(cells, demand, this.#options.world.now())
    if (!admission.admitted) return { refusal: admission.refusal }
    const { hold, exceeded } = admission
    touchLeases(this.#book, cells, this.#options.world.now())
    return { reservation: { cells, hold, first: demand.first }, exceeded }
  }

  #decide(cells: AccountCells, demand: Demand, take: Take): Eventual<ReserveResult> {
    const result = take()
    if (!('refusal' in result)) return result
    if (this.#book && this.#book.problem !== null) return this.#takeAlone(cells, demand, take)
    if (this.#isFinal(cells, demand, result.refusal, null)) return result
    return this.#book ? this.#whenRefilled(cells, demand, take) : this.#whenRead(take)
  }

  /**
   * Whether a refusal cannot change: no lease causes it, or the store has no room. `waited`: since when, and for which answers;
   * null: the request has not waited.
   */
  #isFinal(cells: AccountCells, demand: Demand, refusal: LimitRefusal, waited: Waited | null): boolean {
    const book = this.#book
    if (!book) return !(refusal.unavailable && this.#options.reading?.())
    const short = shortagesOf(cells, demand)
    if (short.length === 0) return true
    if (book.problem !== null) return false
    const now = this.#options.world.now()
    return short.some(({ lease, need }) => {
      const booked = bookedOf(lease)
      if (booked.answeredAt < Math.min(waited?.at ?? now, now - this.#rules().interval)) return false
      if (booked.answeredLimit !== booked.terms().limit) return false
      // Some of a rate has come back since the last answer.
      if (need <= lease.room + (now - booked.answeredAt) * booked.terms().refill) return false
      if (lease.kind === 'rate') return true
      if (lease.kind === 'slots' && (!waited || booked.answers < waited.answers(lease) + SLOT_ANSWERS)) return false
      // What others have reserved of a budget may be spent by now, for less.
      const most = lease.room + lease.others + (lease.kind === 'budget' ? lease.othersHeld : 0)
      return need > most || (waited !== null && now - waited.at >= this.#rules().wait)
    })
  }

  async #whenRead(take: Take): Promise<ReserveResult> {
    const reading = this.#options.reading?.()
    if (reading) await this.#within(this.#rules().wait, reading)
    return take()
  }

  async #whenRefilled(cells: AccountCells, demand: Demand, take: Take): Promise<ReserveResult> {
    const { world } = this.#options
    const waited = waitedFrom(world.now(), shortagesOf(cells, demand))
    const isStrict = strictIn(cells) !== undefined
    let isPatient = isStrict
    let refilling: Promise<unknown> | null = null
    for (;;) {
      refilling ??= this.#refilled(shortagesOf(cells, demand), waited)
      const pending: Promise<unknown> = refilling
      const isRefilled = await this.#within(isPatient ? null : waited.at + this.#rules().hurry - world.now(), pending)
      if (isRefilled) refilling = null
      const result = take()
      if (!('refusal' in result)) return result
      if (this.#book && this.#book.problem !== null) return this.#takeAlone(cells, demand, take)
      if (this.#isFinal(cells, demand, result.refusal, waited)) return result
      if (isPatient || world.now() - waited.at < this.#rules().hurry) continue
      isPatient = true
      if (this.#overdrawn(shortagesOf(cells, demand))) return take()
    }
  }

  /** Resolves when the leases may have what they lack. */
  async #refilled(short: readonly Shortage[], { at }: Waited): Promise<void> {
    // Others give back what they do not use when they ask next.
    const isAsked = short.some(({ lease }) => bookedOf(lease).answeredAt >= at)
    if (isAsked) await this.#within(short.some(isSlot) ? TIMES.slot : TIMES.again, null)
    await this.#book?.refill(short)
  }

  #within(ms: number | null, promise: Promise<unknown> | null): Promise<boolean> {
    return within(this.#options.world.later, ms, promise)
  }

  /** Budgets may be exceeded by a little so that requests need not wait. */
  #overdrawn(short: readonly Shortage[]): boolean {
    return short.every((one) => one.lease.kind === 'budget' && one.lease.isKnown && this.#book?.overdraw(one))
  }

  /** The store does not answer: what this process was granted is used, and then its part. */
  #takeAlone(cells: AccountCells, demand: Demand, take: Take): Eventual<ReserveResult> {
    const unknown = cells.budgets.filter(({ mode, lease }) => mode === 'hard' && !lease?.isKnown)
    if (unknown.length === 0) return this.#takePart(cells, demand, take)
    return this.#within(this.#rules().wait, this.#learn(unknown)).then(() => this.#takePart(cells, demand, take))
  }

  /** What was spent of budgets that this process has not used before, from the ledger. */
  async #learn(cells: readonly BudgetCell[]): Promise<void> {
    const spent = await this.#options.store?.spent(cells.map(({ charge }) => counterOf(charge)))
    for (const [at, { lease }] of cells.entries()) {
      const found = spent?.[at]
      if (!lease || lease.isKnown || !found) continue
      lease.othersUsed = found.used
      lease.isKnown = true
    }
  }

  #takePart(cells: AccountCells, demand: Demand, take: Take): ReserveResult {
    const short = shortagesOf(cells, demand)
    const strict = short.some(({ lease }) => lease.kind === 'budget') ? strictIn(cells) : undefined
    if (strict) return { refusal: { why: 'budget', id: strict.id, unavailable: true } }
    for (const one of short) if (one.lease.isKnown) this.#book?.overdraw(one)
    const result = take()
    return 'refusal' in result ? { refusal: { ...result.refusal, degraded: true } } : result
  }

  #rules(): ReservationRules {
    return this.#options.rules?.() ?? DEFAULTS
  }
}

type Take = () => ReserveResult

/** When a request began to wait, and how often its leases were answered before. */
type Waited = { readonly at: number; readonly answers: (lease: HeldLease) => number }

const waitedFrom = (at: number, short: readonly Shortage[]): Waited => {
  const before = new Map(short.map(({ lease }) => [lease, bookedOf(lease).answers]))
  return { at, answers: (lease) => before.get(lease) ?? bookedOf(lease).answers }
}

const isSlot = ({ lease }: Shortage): boolean => lease.kind === 'slots'

/** A hard budget of which nothing may be used without the store. */
const strictIn = ({ budgets }: AccountCells): BudgetCell | undefined =>
  budgets.find(({ budget }) => budget.mode === 'hard' && budget.enforcement === 'strict')
