/**
 * The leases of this process: asks for them in the background, all counters in one exchange, and at once for those that
 * requests wait for. Counters that are not in use are given back and cost nothing.
 */
import type { World } from '../../core/world.ts'
import type { Shortage } from '../../policy/accounts/attempt-admission.ts'
import {
  answered,
  askOf,
  freeOf,
  type HeldLease,
  isStated,
  newLease,
  overdraw,
  targetOf,
} from '../../policy/accounts/held-lease.ts'
import type { LeaseAnswer, LeaseAsk, LeaseKind } from '../../policy/accounts/lease.ts'
import type { CounterStore, LeaseReply } from './counter-store.ts'
import { dropFree, LeaseParts, type PartRules } from './lease-part.ts'

/** `interval`: ms between two questions about a counter in use. */
export type LeaseRules = PartRules & { readonly interval: number }

/** The limit of a counter. `life`: ms that the store keeps it. */
export type LeasedLimit = { readonly limit: number; readonly refill: number; readonly life: number }

type Waiter = { left: number; readonly done: () => void }

/** A lease with its place in the book. Times in ms of the monotonic clock. */
export type BookedLease = HeldLease & {
  /** The limit of now. */
  terms: () => LeasedLimit
  /** After an answer: what all processes have, for headers and messages. */
  show: (held: HeldLease) => void
  asked: LeaseAsk | null
  askedAt: number
  /** When the last question was asked that has an answer: what others did later may be missing in it. */
  answeredAt: number
  /** The limit of that question. */
  answeredLimit: number
  usedAt: number
  answers: number
  /** Slots of its own when the store was lost. Unlimited: not known. */
  own: number
  /** When a share of a rate was added last, while the store does not answer. */
  sharedAt: number
  isDirty: boolean
  /** Below it, the next question does not wait for the turn. */
  low: number
  need: number
  waiting: Waiter[]
  called: Waiter[]
}

/**
 * ms. `lapse`: as in `LeaseAsk`; `idle`: without a use, until a lease is given back. `part`: of a limit that is kept free at most.
 */
export const LEASE_KINDS: {
  readonly [kind in LeaseKind]: { readonly lapse: number; readonly idle: number; readonly part: number }
} = {
  slots: { lapse: 15_000, idle: 5_000, part: 1 / 16 },
  rate: { lapse: 15_000, idle: 5_000, part: 1 / 60 },
  budget: { lapse: 3_600_000, idle: 30_000, part: 1 },
}
/** ms without an answer after which what is free of a budget is no longer used: requests end, and are recorded, before it lapses. */
const USED_FOR = 600_000

/** ms: between two signs of life, between two tries after the store was lost, and between two answers to what others lack. */
const TIMES = { beat: 2_000, probe: 1_000, short: 100 }
/** Intervals between two questions that can wait. One more may pass until a turn: `wait` of a request is longer than both. */
const RARELY = 3
/** Counters of one exchange. */
const MOST = 1_000

export class LeaseBook {
  readonly #store: CounterStore
  readonly #world: Pick<World, 'now' | 'later' | 'random'>
  readonly #rules: () => LeaseRules
  readonly #leases = new Map<string, BookedLease>()
  readonly #parts: LeaseParts
  #urgent = new Set<BookedLease>()
  #isFlushDue = false
  #sentAt = Number.NEGATIVE_INFINITY
  #probeAt = 0
  #isClosed = false
  #cancel: () => void = () => {}
  /** Why the store cannot be used; null: it answers, or was not asked yet. */
  problem: string | null = null

  constructor(store: CounterStore, world: Pick<World, 'now' | 'later' | 'random'>, rules: () => LeaseRules) {
    this.#store = store
    this.#world = world
    this.#rules = rules
    this.#parts = new LeaseParts(() => world.now(), rules)
    this.#turnLater()
  }

  /** The lease of a counter: the same one as long as it is used. */
  open(counter: string, kind: LeaseKind, of: Pick<BookedLease, 'terms' | 'show'>): BookedLease {
    const known = this.#leases.get(counter)
    if (known) return Object.assign(known, of)
    const at = Number.NEGATIVE_INFINITY
    const times = {
      asked: null,
      askedAt: at,
      answeredAt: at,
      answeredLimit: 0,
      usedAt: at,
      answers: 0,
      sharedAt: at,
      own: Number.POSITIVE_INFINITY,
    }
    const queue = { isDirty: false, low: -1, need: 0, waiting: [], called: [] }
    return { ...newLease(counter, kind), ...of, ...times, ...queue }
  }

  /** A lease was used. */
  touch(lease: BookedLease, now: number): void {
    lease.usedAt = now
    lease.isDirty = true
    if (!this.#leases.has(lease.counter)) this.#leases.set(lease.counter, lease)
    if (this.problem !== null) this.#parts.keepSlots(lease)
    if (lease.asked) return
    const free = freeOf(lease)
    if (free < lease.low) this.#soon(lease)
    // Scarce slots are given back at once: the client may send its next request to another process.
    else if (lease.kind === 'slots' && free > targetOf(lease, this.#wanted(lease))) this.#soon(lease)
    // A request waits elsewhere for what was reserved here and not spent.
    else if (lease.isShort && free > 0 && now - lease.askedAt >= TIMES.short) this.#soon(lease)
  }

  /** Asks for what requests lack: a use of the lease. Resolves after the answers, or when the store is lost. */
  refill(shortages: readonly Shortage[]): Promise<void> {
    return new Promise((done) => {
      const waiter = { left: shortages.length, done }
      for (const { lease, need } of shortages) {
        const booked = bookedOf(lease)
        // The first of several requests uses what is free.
        booked.need += booked.need === 0 ? need : need + Math.max(0, freeOf(lease))
        booked.waiting.push(waiter)
        booked.usedAt = this.#world.now()
        if (!this.#leases.has(booked.counter)) this.#leases.set(booked.counter, booked)
        if (!booked.asked) this.#soon(booked)
      }
    })
  }

  /** What this process may use although the store does not answer. Returns whether a lease has enough now. */
  overdraw({ lease, need }: Shortage): boolean {
    const booked = bookedOf(lease)
    const { limit } = booked.terms()
    if (lease.kind === 'budget') {
      const most = this.#parts.overdraftOf(booked)
      const rest = limit - lease.othersUsed - lease.othersHeld - lease.used - lease.held
      if (lease.overdrawn + need > most || need > rest + most) return false
      overdraw(lease, need)
      return true
    }
    if (lease.kind === 'slots') this.#parts.keepSlots(booked)
    else this.#parts.shareRate(booked)
    return freeOf(lease) >= need
  }

  /** States what is used now, and gives back the rest. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel()
    if (this.problem !== null) return
    const leases = [...this.#leases.values()]
    const asks = leases.map((lease) => askOf(lease, this.#termsOf(lease, lease.held === 0)))
    for (let at = 0; at < asks.length; at += MOST) await this.#store.lease(asks.slice(at, at + MOST))
  }

  // ── Turns ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #turnLater(): void {
    this.#cancel = this.#world.later(this.#rules().interval, () => {
      this.#turn()
      if (!this.#isClosed) this.#turnLater()
    })
  }

  #turn(): void {
    const now = this.#world.now()
    for (const lease of this.#leases.values()) {
      if (now - lease.answeredAt > USED_FOR) dropFree(lease)
      if (!lease.asked && this.#isDue(lease, now)) this.#urgent.add(lease)
    }
    if (this.#urgent.size > 0 || now - this.#sentAt >= TIMES.beat || this.problem !== null) this.#flush()
  }

  #isDue(lease: BookedLease, now: number): boolean {
    const { interval } = this.#rules()
    const age = now - lease.askedAt
    if (lease.waiting.length > 0 || this.#isIdle(lease, now)) return true
    const isFar =
      lease.kind === 'budget' && 2 * (lease.othersUsed + lease.othersHeld + lease.granted) < lease.terms().limit
    // A turn may come a little early.
    if (lease.isDirty) return age >= (isFar ? RARELY : 1) * interval - 10
    // Also what does not change is stated: the store may have been emptied.
    return age >= Math.min(RARELY * interval, LEASE_KINDS[lease.kind].lapse / 3) - 10
  }

  #isIdle(lease: BookedLease, now: number): boolean {
    return isStated(lease) && lease.waiting.length === 0 && now - lease.usedAt > LEASE_KINDS[lease.kind].idle
  }

  #soon(lease: BookedLease): void {
    this.#urgent.add(lease)
    if (this.#isFlushDue || this.problem !== null) return
    this.#isFlushDue = true
    // The counters of one request, and of others in this turn, are one exchange.
    void Promise.resolve().then(() => {
      this.#isFlushDue = false
      this.#flush()
    })
  }

  #flush(): void {
    const now = this.#world.now()
    if (this.#isClosed || (this.problem !== null && now < this.#probeAt)) return
    this.#probeAt = now + TIMES.probe * (0.75 + this.#world.random() / 2)
    this.#sentAt = now
    const leases = [...this.#urgent].filter(({ asked }) => !asked)
    // A question gives back what is not used, even if it does not arrive: without the store there are none.
    const count = this.problem === null ? MOST : 0
    const sent = leases.slice(0, count)
    this.#urgent = new Set(leases.slice(count))
    const asks = sent.map((lease) => this.#ask(lease, now))
    void this.#store.lease(asks).then((reply) => this.#onReply(sent, asks, reply))
  }

  #ask(lease: BookedLease, now: number): LeaseAsk {
    const ask = askOf(lease, this.#termsOf(lease, this.#isIdle(lease, now)))
    lease.asked = ask
    lease.askedAt = now
    lease.isDirty = false
    lease.low = -1
    lease.need = 0
    lease.called = lease.waiting
    lease.waiting = []
    return ask
  }

  #onReply(leases: readonly BookedLease[], asks: readonly LeaseAsk[], reply: LeaseReply): void {
    if (reply.problem === null) this.#parts.answered(reply.peers)
    else if (this.problem === null) this.#parts.lost(this.#leases.values())
    this.problem = reply.problem
    const woken: Waiter[] = []
    for (const [at, lease] of leases.entries()) {
      const [ask, answer] = [asks[at], reply.answers[at]]
      if (ask && answer) this.#onAnswer(lease, ask, answer)
      lease.asked = null
      woken.push(...lease.called)
      lease.called = []
    }
    for (const waiter of woken) if (--waiter.left === 0) waiter.done()
    // No other answer comes for those who wait.
    if (reply.problem !== null)
      for (const lease of this.#leases.values()) {
        this.#parts.keepSlots(lease)
        wake(lease)
      }
    else if (this.#urgent.size > 0) this.#flush()
  }

  #onAnswer(lease: BookedLease, ask: LeaseAsk, answer: LeaseAnswer): void {
    if (!answered(lease, ask, answer)) return
    if (answer.status === 'ok') {
      lease.answeredAt = lease.askedAt
      lease.answeredLimit = ask.limit
      lease.answers++
      lease.low = freeOf(lease) / 4
    } else if (answer.status !== 'lost') lease.isDirty = true
    lease.show(lease)
    if (lease.isShort && freeOf(lease) > 0 && lease.called.length === 0) this.#urgent.add(lease)
    const isUsed = lease.isDirty || lease.waiting.length > 0 || lease.held !== 0
    if (ask.leaves && answer.status === 'ok' && !isUsed) this.#leases.delete(lease.counter)
    else if (lease.waiting.length > 0) this.#urgent.add(lease)
  }

  // ── Terms ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #termsOf(lease: BookedLease, leaves: boolean) {
    const { lapse } = LEASE_KINDS[lease.kind]
    return { ...lease.terms(), ...this.#wanted(lease), need: leaves ? 0 : lease.need, lapse, leaves }
  }

  #wanted({ kind, terms }: BookedLease) {
    return { want: Math.floor(terms().limit * LEASE_KINDS[kind].part), leaves: false }
  }
}

/** Every lease of a counter is made by the book. */
export const bookedOf = (lease: HeldLease): BookedLease => lease as BookedLease

const wake = (lease: BookedLease): void => {
  const { waiting } = lease
  lease.waiting = []
  lease.need = 0
  for (const waiter of waiting) if (--waiter.left === 0) waiter.done()
}
