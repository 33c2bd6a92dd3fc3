/**
 * Admission of a request or of one more attempt: takes from all limits and budgets that apply, or from none. Each attempt
 * is settled when it ends. Pure: the caller stores the counters and passes their current state. Times in ms of the
 * monotonic clock, amounts in nano-dollars.
 *
 * A budget counter belongs to one budget, one period and, if the budget counts separately, one key, team or user. An
 * attempt is settled with the counters with which it was admitted, so a request that ends in a later period counts in the
 * one in which it was received.
 */
import type { Budget } from '../../core/accounts.ts'
import { addNano, type Nano } from '../../core/money.ts'
import { hasTokens, type TokenBucket, takeTokens, untilEnough } from './token-bucket.ts'

/** Requests in progress of a key or a team. `id`: of the key or team. */
export type SlotCounter = { readonly id: string; readonly limit: number; readonly live: number }

/** A limit of requests or tokens per minute. */
export type RateCounter = {
  readonly id: string
  readonly unit: 'requests' | 'tokens'
  readonly perMinute: number
  readonly bucket: TokenBucket
}

/** What a budget has spent and reserved in a period. `id`: of the budget. */
export type BudgetCounter = {
  readonly id: string
  readonly mode: Budget['mode']
  /** What this process may spend in the period: the amount of the budget, or a part granted to this process. */
  readonly granted: Nano
  /** What it may spend beyond that before the next grant; 0 for strict budgets. */
  readonly overdraft: Nano
  /** Charges of settled attempts. */
  readonly used: Nano
  /** Reservations of attempts in progress. */
  readonly held: Nano
}

/** All counters that apply to an attempt. */
export type Counters = {
  readonly slots: readonly SlotCounter[]
  readonly rates: readonly RateCounter[]
  readonly budgets: readonly BudgetCounter[]
}

/** What an attempt needs. Only the first attempt of a request counts as a request and occupies a slot. */
export type Demand = { readonly first: boolean; readonly tokens: number; readonly cost: Nano }

/** What an attempt has reserved, until it is settled. */
export type Hold = { readonly tokens: number; readonly cost: Nano }

/** The first limit that refuses. `retryAfter`: ms until all rates have enough; Infinity if a limit is 0. */
export type LimitRefusal =
  | { readonly why: 'concurrent' | 'budget'; readonly id: string }
  | { readonly why: 'requests' | 'tokens'; readonly id: string; readonly retryAfter: number }

export type AttemptAdmission =
  | {
      readonly admitted: true
      readonly hold: Hold
      readonly counters: Counters
      /** IDs of soft budgets that are exceeded. */
      readonly exceeded: readonly string[]
    }
  | { readonly admitted: false; readonly refusal: LimitRefusal }

/** Reserves for an attempt from every counter, or refuses and changes none. */
export const reserve = (counters: Counters, demand: Demand, now: number): AttemptAdmission => {
  const refusal = refusalOf(counters, demand, now)
  if (refusal) return { admitted: false, refusal }
  const { first, tokens, cost } = demand
  const budgets = counters.budgets.map((budget) => ({ ...budget, held: addNano(budget.held, cost) }))
  return {
    admitted: true,
    hold: { tokens, cost },
    counters: {
      slots: first ? counters.slots.map((slot) => ({ ...slot, live: slot.live + 1 })) : counters.slots,
      rates: counters.rates.map((rate) => take(rate, amountFor(rate, demand), now)),
      budgets,
    },
    exceeded: budgets.filter((budget) => budget.mode === 'soft' && overrun(budget, 0) > 0).map(({ id }) => id),
  }
}

/**
 * Raises the reservation of a stream that costs more than reserved. `more`: in addition to what it holds. Refused only by
 * a hard budget.
 */
export const extend = (counters: Counters, hold: Hold, more: Nano): AttemptAdmission => {
  const { budgets } = counters
  const admission = reserve({ slots: [], rates: [], budgets }, { first: false, tokens: 0, cost: more }, 0)
  if (!admission.admitted) return admission
  return {
    ...admission,
    hold: { ...hold, cost: addNano(hold.cost, more) },
    counters: { ...counters, budgets: admission.counters.budgets },
  }
}

/** What an attempt has consumed. `cost`: null if it is unknown; then its reservation is charged. */
export type Charge = { readonly tokens: number; readonly cost: Nano | null }

/** Replaces a reservation by the charge. A rate of tokens receives the difference, and may become negative. */
export const settle = (counters: Counters, hold: Hold, charge: Charge, now: number): Counters => ({
  slots: counters.slots,
  rates: counters.rates.map((rate) => (rate.unit === 'tokens' ? take(rate, charge.tokens - hold.tokens, now) : rate)),
  budgets: counters.budgets.map((budget) => ({
    ...budget,
    held: budget.held - hold.cost,
    used: addNano(budget.used, charge.cost ?? hold.cost),
  })),
})

/** Frees the slots of a request at its end. Its attempts are settled separately. */
export const release = (counters: Counters): Counters => ({
  ...counters,
  slots: counters.slots.map((slot) => ({ ...slot, live: slot.live - 1 })),
})

/** What a budget counter has left; 0 if it is exceeded. The same figure refuses and is shown. */
export const remainingOf = ({ granted, used, held }: BudgetCounter): Nano => Math.max(0, granted - used - held)

const refusalOf = ({ slots, rates, budgets }: Counters, demand: Demand, now: number): LimitRefusal | null => {
  const full = demand.first ? slots.find(({ live, limit }) => live >= limit) : undefined
  if (full) return { why: 'concurrent', id: full.id }
  return rateRefusal(rates, demand, now) ?? budgetRefusal(budgets, demand.cost)
}

/** The rate with the longest wait of those that refuse. */
const rateRefusal = (rates: readonly RateCounter[], demand: Demand, now: number): LimitRefusal | null => {
  let refusal: Extract<LimitRefusal, { retryAfter: number }> | null = null
  for (const rate of rates) {
    const amount = amountFor(rate, demand)
    if (amount === 0 || hasTokens(rate.bucket, amount, rate.perMinute, now)) continue
    const retryAfter = untilEnough(rate.bucket, amount, rate.perMinute, now)
    if (!refusal || retryAfter > refusal.retryAfter) refusal = { why: rate.unit, id: rate.id, retryAfter }
  }
  return refusal
}

const budgetRefusal = (budgets: readonly BudgetCounter[], cost: Nano): LimitRefusal | null => {
  const spent = budgets.find((budget) => budget.mode === 'hard' && overrun(budget, cost) > 0)
  return spent ? { why: 'budget', id: spent.id } : null
}

/** By how much a budget would be exceeded. */
const overrun = ({ used, held, granted, overdraft }: BudgetCounter, cost: Nano): Nano =>
  used + held + cost - granted - overdraft

const amountFor = ({ unit }: RateCounter, { first, tokens }: Demand): number =>
  unit === 'tokens' ? tokens : first ? 1 : 0

const take = (rate: RateCounter, amount: number, now: number): RateCounter =>
  amount === 0 ? rate : { ...rate, bucket: takeTokens(rate.bucket, amount, rate.perMinute, now) }
