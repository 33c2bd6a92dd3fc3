/** A credential that is kept until it nears its end, and fetched once for everybody who waits for it. */
import { bad, type Failure, good, type Outcome } from '../../core/failure.ts'

/** `expires`: ms since 1970; infinite for what does not. */
export type Fetched<T> = { readonly value: T; readonly expires: number }

/** Gets a new one. The signal is aborted when nobody wants it any more or it took too long; what comes after that is thrown away. */
export type Fetch<T> = (signal: AbortSignal) => Promise<Outcome<Fetched<T>>>

export type KeptOptions = {
  /** ms a fetch may take. */
  readonly limit: number
  readonly late: () => Failure
  /** It broke in a way that is no answer: a bug, of ours or a library's. */
  readonly broke: (error: unknown) => Failure
  /** ms since 1970. */
  readonly now?: () => number
}

/** ms before its end from when on it is renewed while the old one is still used, and from when on it is not used any more. */
const EARLY = 5 * 60_000
const LEAST = 30_000
/** ms between attempts at renewing it early, and for how long a new one is not thrown away for being refused. */
const PAUSE = 10_000

type UnderWay<T> = {
  readonly outcome: Promise<Outcome<T>>
  /** Calls that wait for it. */
  waiting: number
  readonly stop: (failure: Failure) => void
}

export class Kept<T> {
  readonly #fetch: Fetch<T>
  readonly #options: KeptOptions
  readonly #now: () => number
  #current: Fetched<T> | null = null
  #underWay: UnderWay<T> | null = null
  #begunAt = Number.NEGATIVE_INFINITY

  constructor(fetch: Fetch<T>, options: KeptOptions) {
    this.#fetch = fetch
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  /** The one there is, or a new one. Aborted, it answers `late`, which nobody reads. */
  get(signal: AbortSignal): Promise<Outcome<T>> {
    const left = this.#current ? this.#current.expires - this.#now() : 0
    if (!this.#current || left < LEAST) return this.#wait(signal)
    // Whatever becomes of it, the old one still works; without anybody waiting only its time limit ends it.
    if (left < EARLY && !this.#underWay && this.#now() - this.#begunAt > PAUSE) this.#begin()
    return Promise.resolve(good(this.#current.value))
  }

  /** It was refused where it was shown: the next call fetches another, unless this one is new. */
  refused(): void {
    if (this.#now() - this.#begunAt > PAUSE) this.#current = null
  }

  /** Ends a fetch under way. */
  close(): void {
    this.#underWay?.stop(this.#options.late())
  }

  #wait(signal: AbortSignal): Promise<Outcome<T>> {
    const underWay = this.#underWay ?? this.#begin()
    underWay.waiting++
    return new Promise((resolve) => {
      const leave = () => {
        underWay.waiting--
        if (underWay.waiting === 0) underWay.stop(this.#options.late())
        resolve(bad(this.#options.late()))
      }
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      void underWay.outcome.then((outcome) => {
        signal.removeEventListener('abort', leave)
        resolve(outcome)
      })
    })
  }

  #begin(): UnderWay<T> {
    this.#begunAt = this.#now()
    const { limit, late, broke } = this.#options
    const controller = new AbortController()
    const { promise, resolve } = Promise.withResolvers<Outcome<T>>()
    let open = true
    const settle = (outcome: Outcome<Fetched<T>>) => {
      if (!open) return
      open = false
      clearTimeout(timer)
      if (this.#underWay === underWay) this.#underWay = null
      if (outcome.ok) this.#current = outcome.value
      resolve(outcome.ok ? good(outcome.value.value) : outcome)
    }
    const stop = (failure: Failure) => {
      settle(bad(failure))
      controller.abort()
    }
    const timer = setTimeout(() => stop(late()), limit)
    const underWay: UnderWay<T> = { outcome: promise, waiting: 0, stop }
    this.#underWay = underWay
    this.#fetch(controller.signal).then(settle, (error) => settle(bad(broke(error))))
    return underWay
  }
}
