/**
 * The attempts of one call in its account: reserved, recorded in the journal, and settled when they end. Everything is derived
 * from the events of the call's trace, so that an attempt ends in one place on every path. Amounts in nano-dollars.
 */
import type { UsageSource } from '../../core/accounts.ts'
import { attemptSpanId, traceHeader } from '../../core/call-span.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { JournalResult } from '../../core/journal.ts'
import type { Nano } from '../../core/money.ts'
import { NEVER, type TimerClient } from '../../core/shared-timer.ts'
import type { Target } from '../../core/target.ts'
import type { EndedEvent, TraceEvent } from '../../core/trace.ts'
import { endOfFailed, outcomeOfFailed } from '../../policy/accounts/attempt-end.ts'
import type { ChargedEnd } from '../../policy/accounts/charge.ts'
import { overrunFailure } from '../../policy/accounts/limit-failures.ts'
import type { AccountsState } from './accounts-state.ts'
import { type Reservation, whenKnown } from './authority.ts'
import { type AttemptEnd, closedRecord, openedRecord } from './journal-records.ts'
import {
  type AttemptSource,
  chargeOf,
  isFree,
  type OpenAttempt,
  type OpenCall,
  type PlannedAttempt,
} from './open-attempt.ts'
import { attemptSpan } from './span-facts.ts'
import { outputTokens } from './token-usage.ts'

/** ms between checks whether a stream costs more than reserved. */
const EXTEND_INTERVAL = 1_000

export class CallAttempts implements TimerClient {
  place = -1
  until = NEVER
  /** Ends the answer because it exceeds a budget. */
  onCut: (failure: Failure) => void = () => {}
  /** The client has left, and the answer is read without it. */
  isLeft = false
  /** The cost of a settled attempt is at the dearest prices of its provider, because its own is not known. */
  isPriceAssumed = false
  usageSource: UsageSource = 'exact'
  readonly #state: AccountsState
  readonly #call: OpenCall
  /** The attempt that is reserved but not sent. */
  #pending: OpenAttempt | null = null
  /** By their numbers in the trace; null: settled. */
  #attempts: (OpenAttempt | null)[] = []
  #recorded = 0
  /** Known cost of settled attempts; null: none has one. */
  #cost: Nano | null = null
  /** A settled attempt has no known cost. */
  #isUnpriced = false

  constructor(state: AccountsState, call: OpenCall) {
    this.#state = state
    this.#call = call
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

  // ── Before an attempt is sent ──────────────────────────────────────────────────────────────────────────────────

  /** An attempt at this target is reserved. `reservation`: null if no limit and no budget applies. */
  prepare(target: Target, planned: PlannedAttempt, reservation: Reservation | null): null {
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
      const about = { hedge, rules: this.#state.rules(), route: this.#call.demand.route }
      journal.openAttempt(openedRecord(this.#call, attempt, about), { onJournaled })
    })
  }

  /** The reserved attempt is not sent. */
  discard(): void {
    const attempt = this.#pending
    this.#pending = null
    if (attempt) this.#settle(attempt, 'shared', { outcome: 'abandoned', failure: undefined })
  }

  /** Headers with the trace context of the reserved attempt; undefined: its provider receives none. */
  traceHeaders(): Readonly<Record<string, string>> | undefined {
    const { span, id } = this.#call
    const attempt = this.#pending
    const { traces, propagate = [] } = (span && this.#state.rules().telemetry) ?? {}
    if (!span || !attempt || !traces) return undefined
    if (propagate !== true && !propagate.includes(attempt.target.candidate.instance.id)) return undefined
    const traceparent = traceHeader(span, attemptSpanId(id, attempt.number))
    return span.state === null ? { traceparent } : { traceparent, tracestate: span.state }
  }

  /** The reserved attempt was sent. `source`: its answer. */
  sent(source: AttemptSource): void {
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

  /** Settles all attempts because the call has ended. Returns its cost; undefined: unknown, or no attempt was made. */
  settleAll(how: EndedEvent['how'], failure: Failure | undefined): Nano | undefined {
    this.discard()
    for (const [number, attempt] of this.#attempts.entries())
      if (attempt && how === 'answered') this.#settleNumber(number, 'answered', { outcome: 'ok', failure: undefined })
      else if (attempt) this.#onFailed(number, failure ?? ENDED)
    // An unknown cost is never stated as 0.
    return this.#cost === null || (this.#cost === 0 && this.#isUnpriced) ? undefined : this.#cost
  }

  // ── Streams ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Once a second: a stream that costs more than reserved reserves twice as much. */
  onDeadline(): void {
    for (const attempt of this.#attempts) if (attempt?.committedAt) this.#extend(attempt)
    if (!this.#call.isOver && this.#attempts.some((attempt) => attempt?.committedAt)) this.#watchStream()
  }

  #watchStream(): void {
    const { streams, world } = this.#state
    streams.set(world, this, world.now() + EXTEND_INTERVAL)
  }

  #extend(attempt: OpenAttempt): void {
    const { reservation } = attempt
    const { nano } = chargeOf(this.#state, this.#call, attempt, { end: 'interrupted' }).cost
    if (!reservation || nano === null || nano <= reservation.hold.cost) return
    const reserved = reservation.hold.cost
    const more = Math.max(2 * nano, 2 * reserved) - reserved
    void whenKnown(this.#state.authority.extend(reservation, more), (refusal) => {
      const cell = attempt.cells.find(({ budget }) => budget.id === refusal?.id)
      if (cell?.budget.onOverrun === 'cut' && !this.#call.isOver) this.onCut(overrunFailure(cell))
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
    const charged = chargeOf(this.#state, this.#call, attempt, {
      end,
      isLeft: this.isLeft || how.outcome === 'client_gone',
    })
    const { usage, usageSource, cost } = charged
    if (attempt.reservation) {
      const charge = { tokens: isFree(this.#call.demand) ? 0 : usage.input + usage.output, cost: cost.nano }
      this.#state.authority.settle(attempt.reservation, charge)
    }
    if (cost.source === 'assumed') this.isPriceAssumed = true
    if (cost.nano === null || cost.source === 'assumed') this.#isUnpriced = true
    if (cost.nano !== null) this.#cost = (this.#cost ?? 0) + cost.nano
    if (usageSource === 'estimated') this.usageSource = 'estimated'
    const { model } = attempt.target.candidate
    if (end === 'answered' && usageSource === 'exact' && !isFree(this.#call.demand))
      this.#state.history.add(this.#call.client.id, model, usage, attempt.estimate.raw)
    if (!attempt.recorded) return
    const at = this.#state.world.date()
    if (this.#call.span) this.#state.journal()?.append(attemptSpan(this.#call, attempt, at))
    this.#state.journal()?.append(closedRecord({ call: this.#call, attempt, at }, how, charged))
  }
}

/** The end of a call without a failure of its own. */
const ENDED = fail('internal', 'The call ended before its attempt.')
