/** Limits failed authentications of each address. */

/** Failures allowed at once, and per minute. */
const LIMIT = 20
const MINUTE = 60_000
/** Addresses that are counted; the one that failed longest ago is dropped first. */
const MAX_ADDRESSES = 10_000

type Failures = { readonly count: number; readonly at: number }

export class FailedAttempts {
  readonly #now: () => number
  readonly #failures = new Map<string, Failures>()

  /** `now`: ms since 1970. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** ms until the address may try again; 0: now. */
  waitFor(address: string): number {
    const count = this.#count(address)
    return count < LIMIT ? 0 : Math.ceil(((count - LIMIT + 1) * MINUTE) / LIMIT)
  }

  /** Counts a failure. */
  add(address: string): void {
    const count = this.#count(address) + 1
    this.#failures.delete(address)
    this.#failures.set(address, { count, at: this.#now() })
    const [oldest] = this.#failures.keys()
    if (this.#failures.size > MAX_ADDRESSES && oldest !== undefined) this.#failures.delete(oldest)
  }

  /** The failures of an address that have not expired: `LIMIT` expire per minute. */
  #count(address: string): number {
    const failures = this.#failures.get(address)
    if (!failures) return 0
    return Math.max(0, failures.count - (Math.max(0, this.#now() - failures.at) * LIMIT) / MINUTE)
  }
}
