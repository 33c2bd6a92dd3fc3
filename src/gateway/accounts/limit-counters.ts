/** Requests in progress and rates per minute of each team and key with limits. Times in ms of the monotonic clock. */
import type { AccountLimits, Client } from '../../core/accounts.ts'
import type { RateCounter, SlotCounter } from '../../policy/accounts/attempt-admission.ts'
import { fullBucket, levelOf, withLimit } from '../../policy/accounts/token-bucket.ts'

/** The counters that apply to a client, in the order of its `limits`. */
export type LimitCells = Pick<Client, 'limits'> & {
  readonly slots: readonly SlotCounter[]
  readonly rates: readonly RateCounter[]
}

/** The counters of one team or key, created with the limit. */
type Owner = { slot: SlotCounter | null; requests: RateCounter | null; tokens: RateCounter | null }

const NONE: LimitCells = { limits: [], slots: [], rates: [] }
/** Owners above which idle ones are dropped. */
const SWEEP_FROM = 10_000

export class LimitCounters {
  readonly #owners = new Map<string, Owner>()
  #sweepAt = SWEEP_FROM

  /** The counters of a client with its current limits. */
  cellsFor({ limits }: Pick<Client, 'limits'>, now: number): LimitCells {
    let cells: (LimitCells & { slots: SlotCounter[]; rates: RateCounter[] }) | null = null
    for (const { id, limits: own } of limits) {
      if (own.concurrent === null && own.requestsPerMinute === null && own.tokensPerMinute === null) continue
      cells ??= { limits, slots: [], rates: [] }
      const { slot, requests, tokens } = this.#ownerOf(id, own, now)
      if (slot) cells.slots.push(slot)
      if (requests) cells.rates.push(requests)
      if (tokens) cells.rates.push(tokens)
    }
    return cells ?? NONE
  }

  #ownerOf(id: string, limits: AccountLimits, now: number): Owner {
    let owner = this.#owners.get(id)
    if (!owner) {
      this.#sweep(now)
      owner = { slot: null, requests: null, tokens: null }
      this.#owners.set(id, owner)
    }
    owner.slot = this.#slotCounter(owner.slot, id, limits.concurrent)
    owner.requests = this.#rateCounter(
      owner.requests,
      { id, unit: 'requests', perMinute: limits.requestsPerMinute },
      now,
    )
    owner.tokens = this.#rateCounter(owner.tokens, { id, unit: 'tokens', perMinute: limits.tokensPerMinute }, now)
    return owner
  }

  /** A changed limit keeps what is in progress. */
  #slotCounter(slot: SlotCounter | null, id: string, limit: number | null): SlotCounter | null {
    if (limit === null) return null
    if (!slot) return { id, limit, live: 0, lease: null }
    slot.limit = limit
    return slot
  }

  /** A changed limit keeps what was taken. */
  #rateCounter(rate: RateCounter | null, { id, unit, perMinute }: RateLimit, now: number): RateCounter | null {
    if (perMinute === null) return null
    if (!rate) return { id, unit, perMinute, bucket: fullBucket(perMinute, now), lease: null }
    if (rate.perMinute === perMinute) return rate
    rate.bucket = withLimit(rate.bucket, rate.perMinute, perMinute, now)
    rate.perMinute = perMinute
    return rate
  }

  /** Drops owners whose counters are as new. */
  #sweep(now: number): void {
    if (this.#owners.size < this.#sweepAt) return
    for (const [id, { slot, requests, tokens }] of this.#owners)
      if ((slot?.live ?? 0) === 0 && isFull(requests, now) && isFull(tokens, now)) this.#owners.delete(id)
    this.#sweepAt = Math.max(SWEEP_FROM, 2 * this.#owners.size)
  }
}

const isFull = (rate: RateCounter | null, now: number): boolean =>
  !rate || levelOf(rate.bucket, rate.perMinute, now) >= rate.perMinute

type RateLimit = Pick<RateCounter, 'id' | 'unit'> & { readonly perMinute: number | null }
