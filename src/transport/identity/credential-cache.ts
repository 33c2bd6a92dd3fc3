/** Caches a credential until shortly before it expires. Concurrent callers share one fetch. */
import { bad, type Failure, good, type Outcome } from '../../core/failure.ts'

/** `expires`: ms since 1970; infinity for credentials that do not expire. */
export type Fetched<T> = { readonly value: T; readonly expires: number }

/** Fetches a credential. The signal is aborted on timeout, or when no caller waits; later results are discarded. */
export type Fetch<T> = (signal: AbortSignal) => Promise<Outcome<Fetched<T>>>

export type CredentialCacheOptions = {
  /** Time limit for a fetch, in ms. */
  readonly limit: number
  readonly timedOut: () => Failure
  /** Makes the failure for a fetch that rejects, which is a bug here or in a library. */
  readonly threw: (error: unknown) => Failure
  /** ms since 1970. */
  readonly now?: () => number
}

/** ms before expiry: from `RENEW_BEFORE` the credential is renewed in the background, from `UNUSABLE_BEFORE` not used. */
const RENEW_BEFORE = 5 * 60_000
const UNUSABLE_BEFORE = 30_000
/** Minimum ms between renewals. A younger credential is kept even if an upstream rejected it. */
const PAUSE = 10_000

type Fetching<T> = {
  readonly outcome: Promise<Outcome<T>>
  /** Number of callers waiting. */
  waiting: number
  readonly stop: (failure: Failure) => void
}

export class CredentialCache<T> {
  readonly #fetch: Fetch<T>
  readonly #options: CredentialCacheOptions
  readonly #now: () => number
  #current: Fetched<T> | null = null
  #fetching: Fetching<T> | null = null
  #startedAt = Number.NEGATIVE_INFINITY

  constructor(fetch: Fetch<T>, options: CredentialCacheOptions) {
    this.#fetch = fetch
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  /** Returns the cached credential or fetches one. After an abort it resolves with `timedOut`. */
  get(signal: AbortSignal): Promise<Outcome<T>> {
    const left = this.#current ? this.#current.expires - this.#now() : 0
    if (!this.#current || left < UNUSABLE_BEFORE) return this.#wait(signal)
    // Background renewal: no caller waits for it, so only its time limit ends it.
    if (left < RENEW_BEFORE && !this.#fetching && this.#now() - this.#startedAt > PAUSE) this.#start()
    return Promise.resolve(good(this.#current.value))
  }

  /** Drops a credential that an upstream refused, unless it was fetched within the last 10 s. */
  refused(): void {
    if (this.#now() - this.#startedAt > PAUSE) this.#current = null
  }

  /** Ends a fetch in flight. */
  close(): void {
    this.#fetching?.stop(this.#options.timedOut())
  }

  #wait(signal: AbortSignal): Promise<Outcome<T>> {
    const fetching = this.#fetching ?? this.#start()
    fetching.waiting++
    return new Promise((resolve) => {
      const leave = () => {
        fetching.waiting--
        if (fetching.waiting === 0) fetching.stop(this.#options.timedOut())
        resolve(bad(this.#options.timedOut()))
      }
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      void fetching.outcome.then((outcome) => {
        signal.removeEventListener('abort', leave)
        resolve(outcome)
      })
    })
  }

  #start(): Fetching<T> {
    this.#startedAt = this.#now()
    const { limit, timedOut, threw } = this.#options
    const controller = new AbortController()
    const { promise, resolve } = Promise.withResolvers<Outcome<T>>()
    let open = true
    const settle = (outcome: Outcome<Fetched<T>>) => {
      if (!open) return
      open = false
      clearTimeout(timer)
      if (this.#fetching === fetching) this.#fetching = null
      if (outcome.ok) this.#current = outcome.value
      resolve(outcome.ok ? good(outcome.value.value) : outcome)
    }
    const stop = (failure: Failure) => {
      settle(bad(failure))
      controller.abort()
    }
    const timer = setTimeout(() => stop(timedOut()), limit)
    const fetching: Fetching<T> = { outcome: promise, waiting: 0, stop }
    this.#fetching = fetching
    this.#fetch(controller.signal).then(settle, (error) => settle(bad(threw(error))))
    return fetching
  }
}
