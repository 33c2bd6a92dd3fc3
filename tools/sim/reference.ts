/** A second, simple implementation of the circuit breaker, to compare the real one with. */
import type { CircuitRules } from '../../src/core/settings.ts'

type Token = { gen: number; kind: 'plain' | 'probe' | 'early'; expires: number; booked: number | null }
type Bucket = { ok: number; bad: number }

export type { Token as ReferenceToken }

const BUCKETS = 12

/** Outcomes of the last window, in buckets. */
class OutcomeWindow {
  readonly #span: number
  readonly #buckets = new Map<number, Bucket>()

  constructor(window: number) {
    this.#span = window / BUCKETS
  }

  /** Returns the bucket of a success. */
  succeeded(now: number): number {
    const at = this.#at(now)
    this.#tally(at).ok++
    return at
  }

  failed(now: number): void {
    this.#tally(this.#at(now)).bad++
  }

  takeBack(at: number): void {
    const bucket = this.#buckets.get(at)
    if (bucket && bucket.ok > 0) bucket.ok--
  }

  clear(): void {
    this.#buckets.clear()
  }

  sum(now: number): Bucket {
    const from = this.#at(now) - BUCKETS
    const sum = { ok: 0, bad: 0 }
    for (const [at, { ok, bad }] of this.#buckets)
      if (at > from) {
        sum.ok += ok
        sum.bad += bad
      }
    return sum
  }

  #at(now: number): number {
    return Math.floor(now / this.#span)
  }

  #tally(at: number): Bucket {
    const known = this.#buckets.get(at)
    if (known) return known
    const made = { ok: 0, bad: 0 }
    this.#buckets.set(at, made)
    return made
  }
}

export class ReferenceCircuit {
  at: 'closed' | 'open' | 'half_open' = 'closed'
  /** When its state last changed. */
  changed = Number.NEGATIVE_INFINITY
  /** Permits without an outcome. */
  inFlight = 0
  #gen = 0
  #since = 0
  #until = 0
  /** When it left the closed state, and the failed probes since. */
  #down = 0
  #misses = 0
  #lastEarly: number | null = null
  #early: Token | null = null
  #probes = new Set<Token>()
  readonly #outcomes: OutcomeWindow
  #run = 0
  readonly #rules: CircuitRules

  constructor(rules: CircuitRules) {
    this.#rules = rules
    this.#outcomes = new OutcomeWindow(rules.window)
  }

  reads(now: number): 'closed' | 'open' | 'half_open' {
    if (this.at !== 'open') return this.at
    return now >= this.#until || this.#earlyInFlight(now) ? 'half_open' : 'open'
  }

  /** Null: rejected. */
  admit(now: number, early: boolean): Token | null {
    if (this.at === 'closed') return { gen: this.#gen, kind: 'plain', expires: 0, booked: null }
    if (this.at === 'open' && now < this.#until) {
      const spacing = Math.max(10_000, this.#rules.resetTimeout / 10)
      if (!early || this.#earlyInFlight(now) || now < (this.#lastEarly ?? this.#since) + spacing) return null
      this.#lastEarly = now
      this.#early = { gen: this.#gen, kind: 'early', expires: this.#expiry(now), booked: null }
      return this.#early
    }
    if (this.at === 'open') {
      this.#turn('half_open', now)
      this.#probes.clear()
    }
    for (const probe of this.#probes) if (now >= probe.expires) this.#probes.delete(probe)
    if (this.#probes.size >= this.#rules.probes) return null
    const token: Token = { gen: this.#gen, kind: 'probe', expires: this.#expiry(now), booked: null }
    this.#probes.add(token)
    return token
  }

  /** Whether `admit` would return a token. */
  wouldAdmit(now: number, early: boolean): boolean {
    if (this.at === 'closed') return true
    if (this.at === 'open') {
      if (now >= this.#until) return true
      const spacing = Math.max(10_000, this.#rules.resetTimeout / 10)
      return early && !this.#earlyInFlight(now) && now >= (this.#lastEarly ?? this.#since) + spacing
    }
    let taken = 0
    for (const probe of this.#probes) if (now < probe.expires) taken++
    return taken < this.#rules.probes
  }

  /**
   * Whether it is in slow start and at its limit: with `n` requests in flight, as many tenths of the slow start must have
   * passed as `n` has binary digits.
   */
  isWarming(now: number): boolean {
    if (this.at !== 'closed' || this.inFlight === 0) return false
    const span = Math.min(this.#rules.slowStart, this.#rules.resetTimeout)
    const digits = this.inFlight.toString(2).length
    return now < this.changed + (Math.min(10, digits) * span) / 10
  }

  commit(token: Token, now: number): void {
    if (token.gen !== this.#gen || token.booked !== null) return
    if (this.at !== 'closed') {
      this.#turn('closed', now)
      this.#outcomes.clear()
      this.#run = 0
      token.gen = this.#gen
      token.kind = 'plain'
    }
    token.booked = this.#outcomes.succeeded(now)
  }

  done(token: Token, now: number): void {
    this.commit(token, now)
    if (token.gen === this.#gen && this.at === 'closed') this.#run = 0
  }

  failed(token: Token, now: number): void {
    if (token.gen !== this.#gen) return
    if (this.at === 'half_open') {
      this.#misses++
      return this.#open(now)
    }
    if (this.at === 'open') return this.#free(token)
    if (token.booked !== null) this.#outcomes.takeBack(token.booked)
    this.#outcomes.failed(now)
    this.#run++
    const { ok, bad } = this.counts(now)
    const { consecutiveFailures, minRequests, errorThreshold } = this.#rules
    const inARow = consecutiveFailures > 0 && this.#run >= consecutiveFailures
    const share = ok + bad >= minRequests && 100 * bad >= errorThreshold * (ok + bad)
    if (!inARow && !share) return
    this.#down = now
    this.#misses = 0
    this.#open(now)
  }

  /** The response ended early, but not because of this circuit's upstream. */
  withdraw(token: Token): void {
    if (token.gen !== this.#gen) return
    if (this.at !== 'closed') this.#free(token)
    else if (token.booked !== null) this.#outcomes.takeBack(token.booked)
  }

  release(token: Token): void {
    if (token.gen === this.#gen) this.#free(token)
  }

  counts(now: number): Bucket {
    return this.#outcomes.sum(now)
  }

  #earlyInFlight(now: number): boolean {
    return this.#early !== null && now < this.#early.expires
  }

  #expiry(now: number): number {
    return now + (this.#rules.timeout === 0 ? 30_000 : this.#rules.timeout) + 1_000
  }

  #free(token: Token): void {
    this.#probes.delete(token)
    if (this.#early === token) this.#early = null
  }

  #open(now: number): void {
    this.#turn('open', now)
    this.#since = now
    const { firstProbe, resetTimeout } = this.#rules
    let wait = firstProbe
    for (let n = 0; n < this.#misses && wait < resetTimeout; n++) wait *= 2
    if (wait > firstProbe) wait = Math.max(firstProbe, Math.min(wait, now - this.#down))
    this.#until = now + (firstProbe === 0 ? resetTimeout : Math.min(wait, resetTimeout))
    this.#lastEarly = null
    this.#early = null
  }

  #turn(to: ReferenceCircuit['at'], now: number): void {
    this.at = to
    this.changed = now
    this.#gen++
  }
}
