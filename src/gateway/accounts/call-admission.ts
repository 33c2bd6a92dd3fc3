/**
 * Decides whether a call and each of its attempts may be made, by the limits and budgets of its client, and reserves for
 * them. Amounts in nano-dollars.
 */
import type { Failure } from '../../core/failure.ts'
import type { RateLimitNames } from '../../core/protocol.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { Demand, Hold, LimitRefusal } from '../../policy/accounts/attempt-admission.ts'
import {
  budgetFailure,
  budgetUnavailable,
  limitFailure,
  ownersFailure,
  unpricedFailure,
} from '../../policy/accounts/limit-failures.ts'
import { addRateLimitHeaders } from '../../policy/accounts/rate-limit-headers.ts'
import type { AccountsState } from './accounts-state.ts'
import { type AccountCells, type Eventual, type Reservation, type ReserveResult, whenKnown } from './authority.ts'
import type { BudgetCell } from './budget-counters.ts'
import type { CallAttempts } from './call-attempts.ts'
import type { LimitCells } from './limit-counters.ts'
import { costsNothing, type OpenCall, type PlannedAttempt, payingCells, planAttempt } from './open-attempt.ts'

/** A target that was not tried, with the reason. */
type UntriedTarget = { readonly why: string; readonly target?: Target }

/** Why an attempt may not be made. `budget`: not at this target. `limit`: not at all. */
export type AccountRefusal = 'budget' | 'limit'

export class CallAdmission {
  readonly #state: AccountsState
  readonly #call: OpenCall
  readonly #attempts: CallAttempts
  readonly #limits: LimitCells
  /** The first reservation: the call counts as a request and occupies its slots. */
  #entry: Reservation | null = null
  /** A limit refuses every attempt. */
  #limited: Failure | null = null
  /** The first refusal of a budget: that of the target that was asked for. */
  #unaffordable: Failure | null = null
  /** Names of exceeded soft budgets, as `budget NAME`. */
  warnings: readonly string[] = []

  constructor(state: AccountsState, call: OpenCall, attempts: CallAttempts) {
    this.#state = state
    this.#call = call
    this.#attempts = attempts
    this.#limits = state.limits.cellsFor(call.client, state.world.now())
  }

  // ── The call ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** The limit or budget that certainly refuses the call whatever its target, or null. Takes nothing. */
  earlyRefusal(): Failure | null {
    const paying = this.#payingAll()
    if ('kind' in paying) return paying
    return this.#refusedBy(this.#state.authority.check(this.#with(paying), this.#demandOf(LEAST)), paying)
  }

  /** The same after leases are refilled. */
  async refusal(): Promise<Failure | null> {
    const paying = this.#payingAll()
    if ('kind' in paying) return paying
    return this.#refusedBy(await this.#state.authority.checked(this.#with(paying), this.#demandOf(LEAST)), paying)
  }

  #payingAll(): readonly BudgetCell[] | Failure {
    const paying = payingCells(this.#state, this.#call, this.#call.demand, null)
    if (!('id' in paying)) return paying
    return this.#hasFreeTarget ? [] : ownersFailure(paying)
  }

  /** Limits are checked first, so a budget refuses only what they allow. */
  #refusedBy(refusal: LimitRefusal | null, paying: readonly BudgetCell[]): Failure | null {
    if (!refusal || (refusal.why === 'budget' && this.#hasFreeTarget)) return null
    return failureOf(refusal, paying)
  }

  /** A target of the plan costs nothing. */
  get #hasFreeTarget(): boolean {
    const { plan } = this.#call.demand
    return plan?.candidates.some((candidate) => costsNothing(this.#state, this.#call, candidate)) ?? false
  }

  /** Counts a call that may be answered without an attempt. Returns the limit that refuses it, or null. */
  enter(): Eventual<Failure | null> {
    if (this.#entry || this.#hasNoLimits) return null
    const { authority } = this.#state
    return whenKnown(authority.reserve(this.#with([]), this.#demandOf(NOTHING)), (result) => {
      if ('refusal' in result) return failureOf(result.refusal, [])
      if (this.#enterWith(result.reservation)) authority.settle(result.reservation, NOTHING)
      return null
    })
  }

  // ── Its attempts ───────────────────────────────────────────────────────────────────────────────────────────────

  /** Reserves for an attempt at this target; `modelMaximum`: its maximum of output tokens. Null: it is reserved. */
  reserve(target: Target, modelMaximum: number | undefined): Eventual<AccountRefusal | null> {
    if (this.#limited) return 'limit'
    const planned = planAttempt(this.#state, this.#call, this.#call.demand, {
      candidate: target.candidate,
      modelMaximum,
    })
    if ('id' in planned) return this.#refuseTarget(ownersFailure(planned))
    const { cells, hold, isUnpriced } = planned
    if (isUnpriced) return this.#refuseTarget(unpricedFailure(target.candidate.instance.id, this.#state.rules()))
    if (cells.length === 0 && this.#hasNoLimits) return this.#attempts.prepare(target, planned, null)
    const reserving = this.#state.authority.reserve(this.#with(cells), this.#demandOf(hold))
    return whenKnown(reserving, (result) => this.#onReserved(target, planned, result))
  }

  #onReserved(target: Target, planned: PlannedAttempt, result: ReserveResult): AccountRefusal | null {
    if ('refusal' in result) {
      const failure = failureOf(result.refusal, planned.cells)
      if (result.refusal.why === 'budget') return this.#refuseTarget(failure)
      this.#limited = failure
      return 'limit'
    }
    const { reservation, exceeded } = result
    if (!this.#enterWith(reservation)) return 'limit'
    if (exceeded.length > 0) this.#warn(planned.cells, exceeded)
    return this.#attempts.prepare(target, planned, reservation)
  }

  /** Returns false if the call has ended while it waited; then nothing is reserved. */
  #enterWith(reservation: Reservation): boolean {
    if (!this.#call.isOver) {
      this.#entry ??= reservation
      return true
    }
    this.#state.authority.settle(reservation, NOTHING)
    if (reservation.first) this.#state.authority.release(reservation)
    return false
  }

  /** The budget that refused a target; null: none did. */
  get budgetRefusal(): Failure | null {
    return this.#unaffordable
  }

  /**
   * The failure of a call for which no attempt could be made; null: its limits did not cause it. Targets that may not be tried
   * now for another reason, such as an open circuit, are checked as if they could be.
   */
  ownFailure(skipped: readonly UntriedTarget[]): Failure | null {
    if (this.#limited) return this.#limited
    const others = skipped.filter(({ why }) => why !== 'budget' && why !== 'unfit' && why !== 'window')
    return others.length === 0 ? this.#unaffordable : this.#refusalOfAll(others)
  }

  /** The failure if a budget refuses each of these targets; null: one has room. */
  #refusalOfAll(skipped: readonly UntriedTarget[]): Failure | null {
    let first = this.#unaffordable
    for (const { target } of skipped) {
      const refusal = target ? this.#checked(target.candidate) : null
      if (!refusal) return null
      first ??= refusal
    }
    return first
  }

  /** The budget that would refuse an attempt at a target; null: none would. */
  #checked(candidate: Candidate): Failure | null {
    const planned = planAttempt(this.#state, this.#call, this.#call.demand, { candidate, modelMaximum: undefined })
    if ('id' in planned) return ownersFailure(planned)
    const { cells, hold, isUnpriced } = planned
    if (isUnpriced) return unpricedFailure(candidate.instance.id, this.#state.rules())
    if (cells.length === 0) return null
    const refusal = this.#state.authority.check(this.#with(cells), this.#demandOf(hold))
    return refusal?.why === 'budget' ? failureOf(refusal, cells) : null
  }

  /** A limit of the client refuses every further attempt. */
  get isLimited(): boolean {
    return this.#limited !== null
  }

  /** The call is over: frees its slots. */
  release(): void {
    const entry = this.#entry
    this.#entry = null
    if (entry) this.#state.authority.release(entry)
  }

  /** Adds the headers of limits. */
  addLimitHeaders(headers: Record<string, string>, names: RateLimitNames): void {
    const { rates } = this.#limits
    if (rates.length === 0) return
    const { world } = this.#state
    const clocks = { now: world.now(), dateMs: world.date() }
    addRateLimitHeaders(headers, rates, names, clocks)
  }

  get #hasNoLimits(): boolean {
    return this.#limits.rates.length === 0 && this.#limits.slots.length === 0
  }

  #refuseTarget(failure: Failure | null): AccountRefusal {
    this.#unaffordable ??= failure
    return 'budget'
  }

  #with(budgets: readonly BudgetCell[]): AccountCells {
    const { slots, rates } = this.#limits
    return { slots, rates, budgets }
  }

  #demandOf({ tokens, cost }: Hold): Demand {
    return { first: !this.#entry, tokens, cost }
  }

  #warn(cells: readonly BudgetCell[], exceeded: readonly string[]): void {
    const names = cells
      .filter(({ budget }) => exceeded.includes(budget.id))
      .map(({ budget }) => `budget ${budget.name}`)
    this.warnings = [...new Set([...this.warnings, ...names])]
  }
}

const failureOf = (refusal: LimitRefusal, cells: readonly BudgetCell[]): Failure => {
  if (refusal.why !== 'budget') return limitFailure(refusal)
  const cell = cells.find(({ budget }) => budget.id === refusal.id)
  if (!cell) throw new Error(`no counter of the budget ${refusal.id}`)
  return refusal.unavailable ? budgetUnavailable(cell.budget) : budgetFailure(cell, refusal.degraded)
}

/** A budget without a nano-dollar left can pay for nothing. */
const LEAST = { tokens: 0, cost: 1 }
/** What a call without an attempt reserves and costs. */
const NOTHING = { tokens: 0, cost: 0 }
