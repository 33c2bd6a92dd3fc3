/**
 * The account of one call: it reserves for each attempt, settles it when it ends, and writes the journal. Everything is
 * derived from the events of the call's trace, so that an attempt ends in one place on every path. Amounts in nano-dollars.
 */
import type { UsageSource } from '../../core/accounts.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { JournalResult } from '../../core/journal.ts'
import type { JsonObject } from '../../core/json.ts'
import { formatDollars, type Nano } from '../../core/money.ts'
import { NEVER, type TimerClient } from '../../core/shared-timer.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { EndedEvent, Trace, TraceEvent } from '../../core/trace.ts'
import type { Demand, Hold, LimitRefusal } from '../../policy/accounts/admission.ts'
import { endOfFailed, outcomeOfFailed } from '../../policy/accounts/attempt-end.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import type { ChargedEnd } from '../../policy/accounts/charge.ts'
import { addRateLimitHeaders, type RateLimitNames } from '../../policy/accounts/rate-limit-headers.ts'
import {
  budgetFailure,
  budgetUnavailable,
  limitFailure,
  overrunFailure,
  ownersFailure,
  unpricedFailure,
} from '../../policy/accounts/refusal.ts'
import type { AccountsState } from './accounts-state.ts'
import { type AccountCells, type Eventual, type Reservation, type ReserveResult, whenKnown } from './authority.ts'
import type { BudgetCell } from './budget-counters.ts'
import { type CallDemand, endUsersOf, NO_DEMAND } from './demand.ts'
import { blockOf } from './end-user-block.ts'
import { type AttemptEnd, closedRecord, endedRecord, openedRecord } from './journal-records.ts'
import type { LimitCells } from './limit-counters.ts'
import {
  type AccountedCall,
  type Charged,
  chargeOf,
  costsNothing,
  isFree,
  type OpenAttempt,
  type PlannedAttempt,
  payingCells,
  planAttempt,
} from './open-attempt.ts'
import { outputTokens, type TokenSource } from './token-usage.ts'

/** A target that was not tried, with the reason. */
type UntriedTarget = { readonly why: string; readonly target?: Target }

/** Why an attempt may not be made. `budget`: not at this target. `limit`: not at all. */
export type AttemptRefusal = 'budget' | 'limit'

/** ms between checks whether a stream costs more than reserved. */
const EXTEND_INTERVAL = 1_000
const NOT_SENT: ChargedEnd = 'shared'

export class RequestAccount implements TimerClient {
  place = -1
  until = NEVER
  /** Ends the answer because it exceeds a budget. */
  onCut: (failure: Failure) => void = () => {}
  readonly #state: AccountsState
  readonly #call: AccountedCall
  readonly #limits: LimitCells
  #demand = NO_DEMAND
  /** The first reservation: the call counts as a request and occupies its slots. */
  #entry: Reservation | null = null
  /** The attempt that is reserved but not sent. */
  #pending: OpenAttempt | null = null
  /** By their numbers in the trace; null: settled. */
  #attempts: (OpenAttempt | null)[] = []
  #recorded = 0
  /** A limit refuses every attempt. */
  #limited: Failure | null = null
  /** The first refusal of a budget: that of the target that was asked for. */
  #unaffordable: Failure | null = null
  #warnings: readonly string[] = []
  /** Known cost of settled attempts; null: none has one. */
  #cost: Nano | null = null
  /** A settled attempt has no known cost. */
  #isUnpriced = false
  #isPriceAssumed = false
  #usageSource: UsageSource = 'exact'
  /** What a shared answer would have cost. */
  #saved: Nano = 0
  /** The client has left, and the answer is read without it. */
  #isLeft = false
  #over = false

  constructor(state: AccountsState, call: AccountedCall) {
    this.#state = state
    this.#call = call
    this.#limits = state.limits.cellsFor(call.principal, state.world.now())
  }

  /** The ID of the request. */
  get id(): string {
    return this.#call.id
  }

  /** When the call was received, in ms since 1970. */
  get received(): number {
    return this.#call.received
  }

  /** The kind of client. */
  get family(): string {
    return this.#call.client
  }

  /** Tokens of the answer so far, counted or estimated; null: there are none yet. */
  get outputTokens(): number | null {
    const source = this.#attempts.findLast((attempt) => attempt?.committedAt)?.source
    return source ? Math.max(source.usage()?.output ?? 0, outputTokens(source.output())) : null
  }

  /** Whether a hard budget pays for an attempt in progress. */
  get isHard(): boolean {
    return this.#attempts.some((attempt) => attempt?.cells.some(({ budget }) => budget.mode === 'hard'))
  }

  /** The cost of a settled attempt is at the dearest prices of its provider, because its own is not known. */
  get isPriceAssumed(): boolean {
    return this.#isPriceAssumed
  }

  /** The client has left, and the answer is read without it. */
  clientLeft(): void {
    this.#isLeft = true
  }

  /** Sets the end user, by the members of the request. Returns why the call must not be answered, or null. */
  identify(members: JsonObject): Failure | null {
    const users = endUsersOf(members)
    if (users.endUser === null) return null
    this.#demand = { ...this.#demand, ...users }
    return blockOf(this.#state, this.#call.principal, namedUsers(members))
  }

  /** Sets what the attempts of this call need. */
  describe(demand: CallDemand): void {
    this.#demand = demand
  }

  // ── Before an attempt ──────────────────────────────────────────────────────────────────────────────────────────

  /** The limit or budget that refuses the call whatever its target, or null. Takes nothing. */
  refusal(): Eventual<Failure | null> {
    const paying = payingCells(this.#state, this.#call, this.#demand, null)
    if ('id' in paying) return this.#hasFreeTarget ? null : ownersFailure(paying)
    if (paying.length === 0 && this.#hasNoLimits) return null
    // A budget without a nano-dollar left can pay for nothing.
    const least = { tokens: 0, cost: 1 }
    const checked = this.#state.authority.check(this.#with(paying), this.#demandOf(least))
    return whenKnown(checked, (refusal) => {
      // Limits are checked first, so a budget refuses only what they allow.
      if (!refusal || (refusal.why === 'budget' && this.#hasFreeTarget)) return null
      return this.#failureOf(refusal, paying)
    })
  }

  /** A target of the plan costs nothing. */
  get #hasFreeTarget(): boolean {
    const { plan } = this.#demand
    return plan?.candidates.some((candidate) => costsNothing(this.#state, this.#call, candidate)) ?? false
  }

  /** The same before the first attempt, if this process decides; otherwise the first reservation shows it. */
  earlyRefusal(): Failure | null {
    const refusal = this.#state.authority.isLocal ? this.refusal() : null
    return refusal instanceof Promise ? null : refusal
  }

  /** The same for a call without an attempt, if another process decides. */
  lateRefusal(): Eventual<Failure | null> {
    return this.#state.authority.isLocal ? null : this.refusal()
  }

  /** Counts a call that may be answered without an attempt. Returns the limit that refuses it, or null. */
  enter(): Eventual<Failure | null> {
    if (this.#entry || this.#hasNoLimits) return null
    const { authority } = this.#state
    return whenKnown(authority.reserve(this.#with([]), this.#demandOf(NOTHING)), (result) => {
      if ('refusal' in result) return this.#failureOf(result.refusal, [])
      if (this.#enterWith(result.reservation)) authority.settle(result.reservation, NOTHING)
      return null
    })
  }

  /** Reserves for an attempt at this target; `modelMaximum`: its maximum of output tokens. Null: it is reserved. */
  reserve(target: Target, modelMaximum: number | undefined): Eventual<AttemptRefusal | null> {
    if (this.#limited) return 'limit'
    const planned = planAttempt(this.#state, this.#call, this.#demand, { candidate: target.candidate, modelMaximum })
    if ('id' in planned) return this.#refuseTarget(ownersFailure(planned))
    const { cells, hold, isUnpriced } = planned
    if (isUnpriced) return this.#refuseTarget(unpricedFailure(target.candidate.instance.id, this.#state.rules()))
    if (cells.length === 0 && this.#hasNoLimits) return this.#prepare(target, planned, null)
    const reserving = this.#state.authority.reserve(this.#with(cells), this.#demandOf(hold))
    return whenKnown(reserving, (result) => this.#onReserved(target, planned, result))
  }

  #onReserved(target: Target, planned: PlannedAttempt, result: ReserveResult): AttemptRefusal | null {
    if ('refusal' in result) {
      const failure = this.#failureOf(result.refusal, planned.cells)
      if (result.refusal.why === 'budget') return this.#refuseTarget(failure)
      this.#limited = failure
      return 'limit'
    }
    const { reservation, exceeded } = result
    if (!this.#enterWith(reservation)) return 'limit'
    if (exceeded.length > 0) this.#warn(planned.cells, exceeded)
    return this.#prepare(target, planned, reservation)
  }

  #prepare(target: Target, planned: PlannedAttempt, reservation: Reservation | null): null {
    const { cells, estimate, modelMaximum, asked, unknownPrice, hold, at } = planned
    this.#pending = {
      number: this.#recorded++,
      target,
      cells,
      reservation,
      estimate,
      modelMaximum,
      asked,
      unknownPrice,
      at,
      hold,
      recorded: false,
      source: null,
      sentAt: 0,
      committedAt: null,
      status: null,
    }
    return null
  }

  /** Returns false if the call has ended while it waited; then nothing is reserved. */
  #enterWith(reservation: Reservation): boolean {
    if (!this.#over) {
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
  ownFailure(skipped: readonly UntriedTarget[]): Eventual<Failure | null> {
    if (this.#limited) return this.#limited
    const others = skipped.filter(({ why }) => why !== 'budget' && why !== 'unfit' && why !== 'window')
    return others.length === 0 ? this.#unaffordable : this.#refusalOfAll(others)
  }

  /** The failure if a budget refuses each of these targets; null: one has room. */
  async #refusalOfAll(skipped: readonly UntriedTarget[]): Promise<Failure | null> {
    let first = this.#unaffordable
    for (const { target } of skipped) {
      const refusal = target ? await this.#checked(target.candidate) : null
      if (!refusal) return null
      first ??= refusal
    }
    return first
  }

  /** The budget that would refuse an attempt at a target; null: none would. */
  #checked(candidate: Candidate): Eventual<Failure | null> {
    const planned = planAttempt(this.#state, this.#call, this.#demand, { candidate, modelMaximum: undefined })
    if ('id' in planned) return ownersFailure(planned)
    const { cells, hold, isUnpriced } = planned
    if (isUnpriced) return unpricedFailure(candidate.instance.id, this.#state.rules())
    if (cells.length === 0) return null
    const checked = this.#state.authority.check(this.#with(cells), this.#demandOf(hold))
    return whenKnown(checked, (refusal) => (refusal?.why === 'budget' ? this.#failureOf(refusal, cells) : null))
  }

  /** A limit of the client refuses every further attempt. */
  get isLimited(): boolean {
    return this.#limited !== null
  }

  /**
   * Records the reserved attempt before it is sent. Null: there is no journal. False: it cannot be recorded and must not
   * be sent.
   */
  record(hedge: boolean): Promise<boolean> | null {
    const attempt = this.#pending
    const journal = this.#state.journal()
    if (!journal || !attempt) return null
    attempt.recorded = true
    return new Promise((resolve) => {
      const onJournaled = (result: JournalResult) => {
        attempt.recorded = result !== 'refused'
        resolve(result === 'accepted')
      }
      const about = { hedge, rules: this.#state.rules(), route: this.#demand.route }
      journal.openAttempt(openedRecord(this.#call, attempt, about), { onJournaled })
    })
  }

  /** The reserved attempt is not sent. */
  discard(): void {
    const attempt = this.#pending
    this.#pending = null
    if (attempt) this.#settle(attempt, NOT_SENT, { outcome: 'abandoned', failure: undefined })
  }

  /** The reserved attempt was sent. `source`: its token counts. */
  sent(source: TokenSource): void {
    const attempt = this.#pending
    this.#pending = null
    if (attempt) {
      attempt.source = source
      attempt.sentAt = this.#state.world.now()
    }
    // `push` would reserve room for 17 attempts as long as the stream lasts.
    this.#attempts = this.#attempts.concat(attempt)
  }

  // ── Events of the call ─────────────────────────────────────────────────────────────────────────────────────────

  /** Receives every event of the trace but its end. */
  observe(event: TraceEvent): void {
    switch (event.type) {
      case 'committed':
        return this.#onCommitted(event)
      case 'failed':
      case 'continued':
        return this.#onFailed(event.attempt, event.failure)
      case 'abandoned':
        return this.#settleNumber(event.attempt, 'given_up', { outcome: 'abandoned', failure: undefined })
    }
  }

  /** The answer of a call that shares it would have cost this much. */
  save(cost: Nano): void {
    this.#saved = cost
  }

  /** Settles all attempts because the call has ended. Returns its cost; undefined: unknown, or no attempt was made. */
  settleAll(how: EndedEvent['how'], failure: Failure | undefined): Nano | undefined {
    this.discard()
    for (const [number, attempt] of this.#attempts.entries())
      if (attempt && how === 'answered') this.#settleNumber(number, 'answered', { outcome: 'ok', failure: undefined })
      else if (attempt) this.#onFailed(number, failure ?? ENDED)
    // An unknown cost is never stated as 0.
    return this.#cost === null || (this.#cost === 0 && this.#isUnpriced) ? undefined : this.#cost
  }

  /** The call has ended. */
  end(trace: Trace): void {
    this.#finish()
    const journal = this.#state.journal()
    if (!journal) return
    const about = { at: this.#state.world.date(), rules: this.#state.rules(), saved: this.#saved }
    journal.append(endedRecord(this.#call, this.#demand, trace, about))
  }

  /** The call is over, whether or not it has ended as it should. */
  close(): void {
    if (this.#over) return
    this.settleAll('refused', undefined)
    this.#finish()
  }

  #finish(): void {
    if (this.#over) return
    this.#over = true
    this.#state.streams.delete(this)
    if (this.#entry) this.#state.authority.release(this.#entry)
  }

  // ── What the client receives ───────────────────────────────────────────────────────────────────────────────────

  /** Names of exceeded soft budgets, as `budget NAME`. */
  get warnings(): readonly string[] {
    return this.#warnings
  }

  /** Adds the headers of limits. */
  addLimitHeaders(headers: Record<string, string>): void {
    const { rates } = this.#limits
    if (rates.length === 0) return
    const { world } = this.#state
    const clocks = { now: world.now(), dateMs: world.date() }
    addRateLimitHeaders(headers, rates, NAMES.get(this.#call.style) ?? 'openai', clocks)
  }

  /** Headers of a complete answer: its cost, and whether it is exact. */
  costHeaders(): Readonly<Record<string, string>> {
    const stated = this.statedCost()
    return stated ? { 'x-headgate-cost': stated.cost, 'x-headgate-usage': stated.usage } : NO_HEADERS
  }

  /** Settles a complete answer and returns its cost in dollars. Null: the cost is unknown. */
  statedCost(): { readonly cost: string; readonly usage: UsageSource } | null {
    const cost = this.settleAll('answered', undefined)
    return cost === undefined ? null : { cost: formatDollars(cost), usage: this.#usageSource }
  }

  // ── Reservations ───────────────────────────────────────────────────────────────────────────────────────────────

  get #hasNoLimits(): boolean {
    return this.#limits.rates.length === 0 && this.#limits.slots.length === 0
  }

  #refuseTarget(failure: Failure | null): AttemptRefusal {
    this.#unaffordable ??= failure
    return 'budget'
  }

  #with(budgets: readonly BudgetCell[]): AccountCells {
    const { limits, slots, rates } = this.#limits
    return { limits, slots, rates, budgets }
  }

  #demandOf({ tokens, cost }: Hold): Demand {
    return { first: !this.#entry, tokens, cost }
  }

  #failureOf(refusal: LimitRefusal, cells: readonly BudgetCell[]): Failure {
    if (refusal.why !== 'budget') return limitFailure(refusal)
    const cell = cells.find(({ budget }) => budget.id === refusal.id)
    if (!cell) throw new Error(`no counter of the budget ${refusal.id}`)
    return refusal.unavailable ? budgetUnavailable(cell.budget) : budgetFailure(cell, refusal.degraded)
  }

  #warn(cells: readonly BudgetCell[], exceeded: readonly string[]): void {
    const names = cells
      .filter(({ budget }) => exceeded.includes(budget.id))
      .map(({ budget }) => `budget ${budget.name}`)
    this.#warnings = [...new Set([...this.#warnings, ...names])]
  }

  /** Once a second: a stream that costs more than reserved reserves twice as much. */
  onDeadline(): void {
    for (const attempt of this.#attempts) if (attempt?.committedAt) this.#extend(attempt)
    if (!this.#over && this.#attempts.some((attempt) => attempt?.committedAt)) this.#watchStream()
  }

  #watchStream(): void {
    const { streams, world } = this.#state
    streams.set(world, this, world.now() + EXTEND_INTERVAL)
  }

  #extend(attempt: OpenAttempt): void {
    const { reservation } = attempt
    const { nano } = this.#charge(attempt, { end: 'interrupted' }).cost
    if (!reservation || nano === null || nano <= reservation.hold.cost) return
    const reserved = reservation.hold.cost
    const more = Math.max(2 * nano, 2 * reserved) - reserved
    void whenKnown(this.#state.authority.extend(reservation, more), (refusal) => {
      const cell = attempt.cells.find(({ budget }) => budget.id === refusal?.id)
      if (cell?.budget.onOverrun === 'cut' && !this.#over) this.onCut(overrunFailure(cell))
    })
  }

  // ── Settlement ─────────────────────────────────────────────────────────────────────────────────────────────────

  #onCommitted({ attempt, at, status }: Extract<TraceEvent, { type: 'committed' }>): void {
    const open = this.#attempts[attempt]
    if (!open) return
    open.committedAt = at
    open.status = status
    // A complete answer is settled at once; its timer would be set for nothing.
    if (open.cells.length > 0 && !open.source?.finished()) this.#watchStream()
  }

  #onFailed(number: number, failure: Failure): void {
    const open = this.#attempts[number]
    if (!open) return
    const hasContent = open.committedAt !== null || (open.source?.output().length ?? 0) > 0
    open.status ??= failure.status ?? null
    const outcome = outcomeOfFailed(failure, hasContent)
    this.#settle(open, endOfFailed(failure, hasContent), { outcome, failure })
    this.#attempts[number] = null
  }

  #settleNumber(number: number, end: ChargedEnd, how: AttemptEnd): void {
    const open = this.#attempts[number]
    if (!open) return
    this.#settle(open, end, how)
    this.#attempts[number] = null
  }

  #settle(attempt: OpenAttempt, reason: ChargedEnd, how: AttemptEnd): void {
    // Its count is that of the whole answer, although the client did not receive it.
    const end = reason === 'given_up' && attempt.source?.finished() ? 'answered' : reason
    const charged = this.#charge(attempt, { end, isLeft: this.#isLeft || how.outcome === 'client_gone' })
    const { usage, usageSource, cost } = charged
    if (attempt.reservation) {
      const charge = { tokens: isFree(this.#demand) ? 0 : usage.input + usage.output, cost: cost.nano }
      this.#state.authority.settle(attempt.reservation, charge)
    }
    if (cost.source === 'assumed') this.#isPriceAssumed = true
    if (cost.nano === null || cost.source === 'assumed') this.#isUnpriced = true
    if (cost.nano !== null) this.#cost = (this.#cost ?? 0) + cost.nano
    if (usageSource === 'estimated') this.#usageSource = 'estimated'
    const { model } = attempt.target.candidate
    if (end === 'answered' && usageSource === 'exact' && !isFree(this.#demand))
      this.#state.history.add(this.#call.principal.id, model, usage, attempt.estimate.raw)
    if (!attempt.recorded) return
    const at = this.#state.world.date()
    this.#state.journal()?.append(closedRecord({ call: this.#call, attempt, at }, how, charged))
  }

  #charge(attempt: OpenAttempt, how: { readonly end: ChargedEnd; readonly isLeft?: boolean }): Charged {
    const demand = this.#demand
    return chargeOf(this.#state, this.#call, attempt, { ...how, demand, end: isFree(demand) ? NOT_SENT : how.end })
  }
}

const NO_HEADERS = {}

/** What a call without an attempt reserves and costs. */
const NOTHING = { tokens: 0, cost: 0 }

/** The end of a call without a failure of its own. */
const ENDED = fail('internal', 'The call ended before its attempt.')

/** Styles whose clients expect Anthropic's headers. */
const NAMES: ReadonlyMap<string, RateLimitNames> = new Map([
  ['messages', 'anthropic'],
  ['count_tokens', 'anthropic'],
])
