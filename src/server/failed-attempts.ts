/**
 * Limits failed authentications of each address, by one rule for model calls, pages, the admin API and sign-ins. A long
 * credential cannot be guessed, so a right one is never refused. A short one could be found while wrong ones are refused: it is
 * accepted then only at an address that has used it before.
 */
import { SHORTEST_TOKEN } from '../config/admin-token.ts'

/** Failures allowed at once, and per minute, where nothing else is given. */
const LIMIT = 20
const MINUTE = 60_000
/** Addresses that are counted, and uses of short credentials; the one that failed or was first used longest ago is dropped first. */
const MAX_ADDRESSES = 10_000

type Failures = { readonly count: number; readonly at: number }

export class FailedAttempts {
  readonly #now: () => number
  readonly #limit: number
  readonly #failures = new Map<string, Failures>()
  /** Addresses with a short credential that was accepted there. */
  readonly #accepted = new Set<string>()

  /** `now`: ms since 1970. `limit`: failures of an address in a minute. */
  constructor(now: () => number, limit = LIMIT) {
    this.#now = now
    this.#limit = limit
  }

  /** ms until the address may try again; 0: now. */
  waitFor(address: string): number {
    const over = this.#count(address) + 1 - this.#limit
    return Math.max(0, Math.ceil((over * MINUTE) / this.#limit))
  }

  /** ms until a right credential is accepted; 0: it is, and this use is noted. */
  waitForRight(address: string, credential: string): number {
    if (credential.length >= SHORTEST_TOKEN) return 0
    const use = `${address} ${credential}`
    if (this.#accepted.has(use)) return 0
    const wait = this.waitFor(address)
    if (wait > 0) return wait
    this.#accepted.add(use)
    const [oldest] = this.#accepted
    if (this.#accepted.size > MAX_ADDRESSES && oldest !== undefined) this.#accepted.delete(oldest)
    return 0
  }

  /** Counts failures: one for each credential of a request. */
  add(address: string, failures = 1): void {
    const count = this.#count(address) + failures
    this.#failures.delete(address)
    this.#failures.set(address, { count, at: this.#now() })
    const [oldest] = this.#failures.keys()
    if (this.#failures.size > MAX_ADDRESSES && oldest !== undefined) this.#failures.delete(oldest)
  }

  /** The failures of an address that have not expired: as many as the limit expire per minute. */
  #count(address: string): number {
    const failures = this.#failures.get(address)
    if (!failures) return 0
    return Math.max(0, failures.count - (Math.max(0, this.#now() - failures.at) * this.#limit) / MINUTE)
  }
}
