/** The parts of limits that processes use while no store divides them. Times in ms of the monotonic clock. */
import { freeOf, type HeldLease, overdraw } from '../../policy/accounts/held-lease.ts'

/** `answeredAt`, `sharedAt`: the last answer, and when a part of a rate was added last. `own`: slots of its own when the store was lost. */
type PartedLease = HeldLease & {
  readonly terms: () => { readonly limit: number }
  readonly answeredAt: number
  sharedAt: number
  own: number
}

/**
 * `overdraft`: percent of a budget, of all processes together. `starting`: processes among which a limit is divided by one that has
 * never had an answer.
 */
export type PartRules = { readonly overdraft: number; readonly starting: () => number }

/** ms after the store was lost in which most requests that were in progress have ended. */
const ENDED_AFTER = 60_000

export class LeaseParts {
  readonly #now: () => number
  readonly #rules: () => PartRules
  #peers = 0
  #lostAt = Number.NEGATIVE_INFINITY

  constructor(now: () => number, rules: () => PartRules) {
    this.#now = now
    this.#rules = rules
  }

  /** `peers`: processes that lease. */
  answered(peers: number): void {
    this.#peers = peers
  }

  /** What is a process's own: what it was granted, and its part of what no process was. */
  lost(leases: Iterable<PartedLease>): void {
    this.#lostAt = this.#now()
    for (const lease of leases)
      if (lease.id !== '') lease.own = lease.granted + Math.floor(lease.room / Math.max(this.#peers, lease.users))
  }

  /**
   * Slots: a process begins requests as long as fewer than its part are in progress. At first only those of its own, so that it makes no
   * difference when requests end that others had in progress before.
   */
  keepSlots(lease: PartedLease): void {
    if (lease.kind !== 'slots') return
    const part = Math.max(1, Math.floor(this.#partOf(lease)))
    const isFirst = this.#now() - this.#lostAt < ENDED_AFTER
    lease.granted = Math.max(lease.held, isFirst ? Math.min(part, lease.own) : part)
  }

  /** A rate: what has come back of the part since the last answer. */
  shareRate(lease: PartedLease): void {
    const part = this.#partOf(lease)
    const since = Math.max(lease.sharedAt, lease.answeredAt)
    lease.sharedAt = this.#now()
    const back = since === Number.NEGATIVE_INFINITY ? part : ((lease.sharedAt - since) * part) / 60_000
    overdraw(lease, Math.max(0, Math.min(back, part - freeOf(lease))))
  }

  /** What a process uses of a budget without a grant. Half of the overdraft is for those that start while the store is away. */
  overdraftOf(lease: PartedLease): number {
    return Math.floor((this.#partOf(lease) * this.#rules().overdraft) / 200)
  }

  /** An equal part of a limit. */
  #partOf({ terms, users }: PartedLease): number {
    return terms().limit / Math.max(this.#peers || this.#rules().starting(), users)
  }
}

/** The store takes the process for gone soon: others may be granted what this one has not used. */
export const dropFree = (lease: HeldLease): void => {
  if (lease.kind === 'budget' && lease.id !== '') lease.granted = Math.min(lease.granted, lease.used + lease.held)
}
