/**
 * What this gateway has in progress and has spent, counter by counter. It is the truth about itself: Redis has a copy of it
 * beside those of other gateways, and receives it again when it was flushed or did not answer.
 */
import type { Budget } from '../core/accounts.ts'
import { parseCharge } from '../core/journal.ts'
import { addNano, type Nano } from '../core/money.ts'
import { type CounterFigures, type SpentSum, splitCounter } from '../gateway/accounts/budget-counters.ts'
import type { Charge, Hold } from '../policy/accounts/attempt-admission.ts'
import { chargedCost } from '../policy/accounts/charge.ts'
import { periodAt } from '../policy/accounts/period.ts'
import { fullBucket, levelOf, type TokenBucket, takeTokens, withLimit } from '../policy/accounts/token-bucket.ts'
import { budgetKey, rateKey, slotKey } from './counter-keys.ts'
import type { CounterClaim } from './counter-messages.ts'

/** Requests in progress of a key or a team, in this gateway. */
export type SharedSlot = { readonly id: string; readonly key: string; limit: number; live: number }

export type SharedRate = {
  readonly id: string
  readonly key: string
  readonly unit: 'requests' | 'tokens'
  perMinute: number
  /** At the last answer. */
  bucket: TokenBucket
  /** What was used of it while Redis did not answer. */
  owed: number
}

export type SharedBudget = {
  readonly id: string
  readonly owner: string
  readonly key: string
  readonly periodStart: number
  readonly periodEnd: number
  budget: Budget
  /** What this node has spent, and what its attempts in progress have reserved. */
  spent: Nano
  held: Nano
  /** What all others have spent and reserved, at the last answer. */
  others: { used: Nano; held: Nano }
  /** What was reported last. */
  shown: string
  /** Other gateways can find its owner. */
  isListed: boolean
}

/** The counters of a claim. `budgets`: one for each that it names; null: there is no such budget any more. */
export type ClaimedCounters = {
  readonly slots: readonly SharedSlot[]
  readonly rates: readonly SharedRate[]
  readonly budgets: readonly (SharedBudget | null)[]
}

/** What an attempt has taken. */
export type SharedHold = ClaimedCounters & { hold: Hold }

const DAY = 86_400_000
/** ms for which a budget without an end is kept after its last use. */
const MAX_LIFE = 400 * DAY
/** Counters of one kind above which idle ones are dropped. */
const SWEEP_FROM = 10_000

/** `now`: monotonic, in ms. `date`: ms since 1970. */
export type OwnCountersClocks = { readonly now: () => number; readonly date: () => number }

export class OwnCounters {
  readonly #clocks: OwnCountersClocks
  readonly slots = new Map<string, SharedSlot>()
  readonly rates = new Map<string, SharedRate>()
  readonly budgets = new Map<string, SharedBudget>()
  /** Of the configuration, by ID. */
  #current: ReadonlyMap<string, Budget> = new Map()
  #sweepAt = SWEEP_FROM

  constructor(clocks: OwnCountersClocks) {
    this.#clocks = clocks
  }

  /** The budgets of the configuration. */
  setBudgets(budgets: readonly Budget[]): void {
    this.#current = new Map(budgets.map((budget) => [budget.id, budget]))
    for (const counter of this.budgets.values()) counter.budget = this.#current.get(counter.id) ?? counter.budget
  }

  /** The budgets with the start of their current period. */
  periods(): readonly { readonly budget: Budget; readonly start: number }[] {
    const now = this.#clocks.date()
    return [...this.#current.values()].map((budget) => ({ budget, start: periodAt(budget, now).start }))
  }

  /** The counters that a claim names, with the limits of now. */
  find({ limits, budgets }: Pick<CounterClaim, 'limits' | 'budgets'>): ClaimedCounters {
    this.#sweep()
    const slots: SharedSlot[] = []
    const rates: SharedRate[] = []
    for (const { id, limits: own } of limits) {
      if (own.concurrent !== null) slots.push(this.#slot(id, own.concurrent))
      if (own.requestsPerMinute !== null) rates.push(this.#rate(id, 'requests', own.requestsPerMinute))
      if (own.tokensPerMinute !== null) rates.push(this.#rate(id, 'tokens', own.tokensPerMinute))
    }
    return { slots, rates, budgets: budgets.map(([id, owner, start]) => this.budget(id, owner, start)) }
  }

  /** The counter of an owner; null: there is no such budget. `received`: a time of its period. */
  budget(id: string, owner: string, received: number): SharedBudget | null {
    const budget = this.#current.get(id)
    if (!budget) return null
    const known = this.budgets.get(budgetKey(id, owner, received))
    if (known) return known
    const { start, end } = periodAt(budget, received)
    // Not the start of a period: the budget was changed, or its zone was.
    const key = budgetKey(id, owner, start)
    const found = this.budgets.get(key)
    if (found) return found
    const others = { used: 0, held: 0 }
    const made = {
      id,
      owner,
      key,
      periodStart: start,
      periodEnd: end,
      budget,
      spent: 0,
      held: 0,
      others,
      shown: '',
      isListed: false,
    }
    this.budgets.set(key, made)
    return made
  }

  /** The counter of a sum; null: its budget is gone, or is counted by another period. */
  budgetOf({ counter, period_start }: Pick<SpentSum, 'counter' | 'period_start'>): SharedBudget | null {
    const found = this.budget(...splitCounter(counter), period_start)
    return found?.periodStart === period_start ? found : null
  }

  /** The counter of a charge. */
  budgetOfCharge(charge: string): SharedBudget | null {
    const { counter, periodStart } = parseCharge(charge)
    return this.budgetOf({ counter, period_start: periodStart })
  }

  /** ms for which a counter is kept: to one day after its period. */
  lifeOf({ periodEnd }: SharedBudget): number {
    return Math.round(Math.min(MAX_LIFE, Math.max(DAY, periodEnd + DAY - this.#clocks.date())))
  }

  /** The level of a rate, as this process knows it. */
  levelOf({ bucket, perMinute }: SharedRate): number {
    return levelOf(bucket, perMinute, this.#clocks.now())
  }

  setLevel(rate: SharedRate, level: number): void {
    rate.bucket = { level, at: this.#clocks.now() }
  }

  /** Takes from a rate without Redis, which receives it later. */
  owe(rate: SharedRate, amount: number): void {
    rate.owed += amount
    rate.bucket = takeTokens(rate.bucket, amount, rate.perMinute, this.#clocks.now())
  }

  /** What all have spent and reserved, as far as this process knows. */
  figuresOf({ id, owner, periodStart, spent, held, others }: SharedBudget): CounterFigures {
    return {
      budget: id,
      owner,
      periodStart,
      spent: addNano(others.used, spent),
      reserved: addNano(others.held, held),
    }
  }

  /** The attempt has this much reserved from now on. */
  hold({ budgets }: ClaimedCounters, cost: Nano): void {
    for (const counter of budgets) if (counter) counter.held = addNano(counter.held, cost)
  }

  settle({ budgets, hold }: SharedHold, charge: Charge): void {
    for (const counter of budgets) {
      if (!counter) continue
      counter.held = Math.max(0, counter.held - hold.cost)
      counter.spent = addNano(counter.spent, chargedCost(charge.cost, hold.cost))
    }
  }

  #slot(id: string, limit: number): SharedSlot {
    const key = slotKey(id)
    const known = this.slots.get(key)
    if (known) known.limit = limit
    const slot = known ?? { id, key, limit, live: 0 }
    this.slots.set(key, slot)
    return slot
  }

  /** A changed limit keeps what was taken. */
  #rate(id: string, unit: SharedRate['unit'], perMinute: number): SharedRate {
    const key = rateKey(id, unit)
    const known = this.rates.get(key)
    const now = this.#clocks.now()
    if (!known) {
      const rate = { id, key, unit, perMinute, bucket: fullBucket(perMinute, now), owed: 0 }
      this.rates.set(key, rate)
      return rate
    }
    if (known.perMinute !== perMinute) {
      known.bucket = withLimit(known.bucket, known.perMinute, perMinute, now)
      known.perMinute = perMinute
    }
    return known
  }

  /** Drops counters that are as new, and those of periods that ended a day ago. */
  #sweep(): void {
    const { slots, rates, budgets } = this
    if (slots.size + rates.size + budgets.size < this.#sweepAt) return
    const old = this.#clocks.date() - DAY
    for (const [key, { live }] of slots) if (live === 0) slots.delete(key)
    for (const [key, rate] of rates) if (rate.owed === 0 && this.levelOf(rate) >= rate.perMinute) rates.delete(key)
    for (const [key, { held, periodEnd }] of budgets) if (held === 0 && periodEnd < old) budgets.delete(key)
    this.#sweepAt = Math.max(SWEEP_FROM, 2 * (slots.size + rates.size + budgets.size))
  }
}
