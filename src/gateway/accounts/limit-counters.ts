/** Requests in progress and rates per minute of each team and key with limits. Times in ms of the monotonic clock. */
import type { AccountLimits, Client } from '../../core/accounts.ts'
import type { RateCounter, SlotCounter } from '../../policy/accounts/attempt-admission.ts'
import { fullBucket, levelOf, withLimit } from '../../policy/accounts/token-bucket.ts'

/** The counters that apply to a client, in the order of its `limits`. */
export type LimitCells = { readonly slots: readonly SlotCounter[]; readonly rates: readonly RateCounter[] }

/** The counters of one team or key, created with the limit. */
type Owner = { slot: SlotCounter | null; requests: RateCounter | null; tokens: RateCounter | null }

const NONE: LimitCells = { slots: [], rates: [] }
/** Owners above which idle ones are dropped. */
const SWEEP_FROM = 10_000

export class LimitCounters {
  readonly #owners = new Map<string, Owner>()
  /** The counters of each client, as long as it has the same limits and no owner was dropped. */
  #known = new WeakMap<Client['limits'], LimitCells>()
  #sweepAt = SWEEP_FROM

  /** The counters of a client with its current limits. */
  cellsFor({ limits }: Pick<Client, 'limits'>, now: number): LimitCells {
    if (limits.length === 0) return NONE
    const known = this.#known.get(limits)
    if (known) return known
    this.#sweep(now)
    const owners = limits
      .filter(({ limits: own }) => isLimited(own))
      .map((one) => this.#ownerOf(one.id, one.limits, now))
    const cells = {
      slots: owners.flatMap(({ slot }) => slot ?? []),
      rates: owners.flatMap(({ requests, tokens }) => [requests, tokens].filter((rate) => rate !== null)),
    }
    this.#known.set(limits, cells)
    return cells
  }

  #ownerOf(id: string, limits: AccountLimits, now: number): Owner {
    let owner = this.#owners.get(id)
    if (!owner) {
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
    this.#known = new WeakMap()
    this.#sweepAt = Math.max(SWEEP_FROM, 2 * this.#owners.size)
  }
}

const isLimited = ({ concurrent, requestsPerMinute, tokensPerMinute }: AccountLimits): boolean =>
  concurrent !== null || requestsPerMinute !== null || tokensPerMinute !== null

const isFull = (rate: RateCounter | null, now: number): boolean =>
  !rate || levelOf(rate.bucket, rate.perMinute, now) >= rate.perMinute

type RateLimit = Pick<RateCounter, 'id' | 'unit'> & { readonly perMinute: number | null }
