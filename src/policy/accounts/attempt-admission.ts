/**
 * Admission of a request or of one more attempt: takes from all limits and budgets that apply, or from none. Each attempt
 * is settled when it ends. The counters are changed in place. Times in ms of the monotonic clock, amounts in nano-dollars.
 *
 * A budget counter belongs to one budget, one period and, if the budget counts separately, one key, team or user. An
 * attempt is settled with the counters with which it was admitted, so a request that ends in a later period counts in the
 * one in which it was received.
 */
import type { Budget } from '../../core/accounts.ts'
import { addNano, type Nano } from '../../core/money.ts'
import { chargedCost } from './charge.ts'
import { freeOf, type HeldLease } from './held-lease.ts'
import { hasTokens, type TokenBucket, takeTokens, untilEnough } from './token-bucket.ts'

/**
 * A counter that other processes share has a lease: it decides, and the other members are what all of them have, as far as this
 * process knows. Null: this process alone has the counter.
 */
type Leased = { lease: HeldLease | null }

/** Requests in progress of a key or a team. `id`: of the key or team. */
export type SlotCounter = Leased & { readonly id: string; limit: number; live: number }

/** A limit of requests or tokens per minute. */
export type RateCounter = Leased & {
  readonly id: string
  readonly unit: 'requests' | 'tokens'
  perMinute: number
  bucket: TokenBucket
}

/** What a budget has spent and reserved in a period. `id`: of the budget. */
export type BudgetCounter = Leased & {
  readonly id: string
  mode: Budget['mode']
  /** What may be spent in the period: the amount of the budget, or a part of it. */
  granted: Nano
  /** Charges of settled attempts. */
  used: Nano
  /** Reservations of attempts in progress. */
  held: Nano
  /** False: what was spent earlier is not counted yet, so a hard budget cannot be used. */
  isKnown: boolean
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

/**
 * The first limit that refuses. `retryAfter`: ms until all rates have enough; Infinity if a limit is 0. `degraded`: only a
 * part of the limit could be used, because the process that decides does not answer. `unavailable`: nothing of the budget could
 * be used, because it is strict or what it has spent is not known.
 */
export type LimitRefusal = (
  | { readonly why: 'concurrent'; readonly id: string }
  | { readonly why: 'budget'; readonly id: string }
  | { readonly why: 'requests' | 'tokens'; readonly id: string; readonly retryAfter: number }
) & { readonly degraded?: true; readonly unavailable?: true }

export type AttemptAdmission =
  | {
      readonly admitted: true
      readonly hold: Hold
      /** IDs of soft budgets that are exceeded. */
      readonly exceeded: readonly string[]
    }
  | { readonly admitted: false; readonly refusal: LimitRefusal }

/** Reserves for an attempt from every counter, or refuses and changes none. */
export const reserve = (counters: Counters, demand: Demand, now: number): AttemptAdmission => {
  const refusal = refusalOf(counters, demand, now)
  if (refusal) return { admitted: false, refusal }
  const { first, tokens, cost } = demand
  if (first)
    for (const slot of counters.slots) {
      slot.live++
      if (slot.lease) slot.lease.held++
    }
  for (const rate of counters.rates) take(rate, amountFor(rate, demand), now)
  return { admitted: true, hold: { tokens, cost }, exceeded: hold(counters.budgets, cost) }
}

/**
 * Raises the reservation of a stream that costs more than reserved. `more`: in addition to what it holds. Refused only by
 * a hard budget.
 */
export const extend = ({ budgets }: Counters, { tokens, cost }: Hold, more: Nano): AttemptAdmission => {
  const refusal = budgetRefusal(budgets, more)
  if (refusal) return { admitted: false, refusal }
  return { admitted: true, hold: { tokens, cost: addNano(cost, more) }, exceeded: hold(budgets, more) }
}

/** Holds an amount. Returns the IDs of soft budgets that are exceeded. */
const hold = (budgets: readonly BudgetCounter[], cost: Nano): readonly string[] => {
  let exceeded = NONE
  for (const budget of budgets) {
    budget.held = addNano(budget.held, cost)
    if (budget.lease) budget.lease.held += cost
    if (budget.mode === 'soft' && overrun(budget, 0) > 0) exceeded = [...exceeded, budget.id]
  }
  return exceeded
}

/** What an attempt has consumed. `cost`: null if it is unknown; then its reservation is charged. */
export type Charge = { readonly tokens: number; readonly cost: Nano | null }

/** Replaces a reservation by the charge. A rate of tokens receives the difference, and may become negative. */
export const settle = ({ rates, budgets }: Counters, { tokens, cost }: Hold, charge: Charge, now: number): void => {
  for (const rate of rates) if (rate.unit === 'tokens') take(rate, charge.tokens - tokens, now)
  for (const budget of budgets) {
    const charged = chargedCost(charge.cost, cost)
    budget.held -= cost
    budget.used = addNano(budget.used, charged)
    if (!budget.lease) continue
    budget.lease.held -= cost
    budget.lease.used += charged
  }
}

/** Frees the slots of a request at its end. Its attempts are settled separately. */
export const release = ({ slots }: Counters): void => {
  for (const slot of slots) {
    slot.live--
    if (slot.lease) slot.lease.held--
  }
}

/** What a budget counter has left; 0 if it is exceeded. The same figure refuses and is shown. */
export const remainingOf = ({ granted, used, held }: BudgetCounter): Nano => Math.max(0, granted - used - held)

/** What refuses an attempt, or null. */
export const refusalOf = ({ slots, rates, budgets }: Counters, demand: Demand, now: number): LimitRefusal | null => {
  const full = demand.first ? slots.find((slot) => missingSlots(slot) > 0) : undefined
  if (full) return { why: 'concurrent', id: full.id }
  return rateRefusal(rates, demand, now) ?? unknownRefusal(budgets) ?? budgetRefusal(budgets, demand.cost)
}

const unknownRefusal = (budgets: readonly BudgetCounter[]): LimitRefusal | null => {
  for (const { id, mode, isKnown, lease } of budgets)
    if (!(lease?.isKnown ?? isKnown) && mode === 'hard') return { why: 'budget', id, unavailable: true }
  return null
}

/** The rate with the longest wait of those that refuse. */
const rateRefusal = (rates: readonly RateCounter[], demand: Demand, now: number): LimitRefusal | null => {
  let refusal: Extract<LimitRefusal, { retryAfter: number }> | null = null
  for (const rate of rates) {
    const amount = amountFor(rate, demand)
    if (amount === 0 || hasRate(rate, amount, now)) continue
    const retryAfter = untilEnough(rate.bucket, amount, rate.perMinute, now)
    if (!refusal || retryAfter > refusal.retryAfter) refusal = { why: rate.unit, id: rate.id, retryAfter }
  }
  return refusal
}

const budgetRefusal = (budgets: readonly BudgetCounter[], cost: Nano): LimitRefusal | null => {
  const spent = budgets.find((budget) => budget.mode === 'hard' && missingOf(budget, cost) > 0)
  return spent ? { why: 'budget', id: spent.id } : null
}

/** What a demand lacks of its leases. A lease may be refilled. */
export type Shortage = { readonly lease: HeldLease; readonly need: number }

/** The leases that refuse a demand. */
export const shortagesOf = ({ slots, rates, budgets }: Counters, demand: Demand): readonly Shortage[] => {
  const short: Shortage[] = []
  const add = (lease: HeldLease | null, need: number) => lease && need > 0 && short.push({ lease, need })
  if (demand.first) for (const slot of slots) add(slot.lease, missingSlots(slot))
  for (const rate of rates) {
    const { lease, perMinute } = rate
    const amount = Math.min(perMinute, amountFor(rate, demand))
    if (lease && amount > 0) add(lease, amount - freeOf(lease))
  }
  for (const budget of budgets) if (budget.mode === 'hard') add(budget.lease, missingOf(budget, demand.cost))
  return short
}

const missingSlots = ({ lease, live, limit }: SlotCounter): number => 1 - (lease ? freeOf(lease) : limit - live)

const hasRate = ({ lease, bucket, perMinute }: RateCounter, amount: number, now: number): boolean =>
  lease ? perMinute > 0 && freeOf(lease) >= Math.min(amount, perMinute) : hasTokens(bucket, amount, perMinute, now)

/** What a hard budget lacks for an amount. A lease without a nano-dollar left can pay for nothing. */
const missingOf = (budget: BudgetCounter, cost: Nano): Nano =>
  budget.lease ? Math.max(1, cost) - Math.max(0, freeOf(budget.lease)) : overrun(budget, cost)

/** By how much a budget would be exceeded. */
const overrun = ({ used, held, granted }: BudgetCounter, cost: Nano): Nano => used + held + cost - granted

const amountFor = ({ unit }: RateCounter, { first, tokens }: Demand): number =>
  unit === 'tokens' ? tokens : first ? 1 : 0

const take = (rate: RateCounter, amount: number, now: number): void => {
  if (amount === 0) return
  rate.bucket = takeTokens(rate.bucket, amount, rate.perMinute, now)
  if (rate.lease) rate.lease.used += amount
}

const NONE: readonly string[] = []
