/**
 * Everything the gateway remembers about its upstreams while it runs: circuits, cool-downs, load, speed. The rules are
 * pure functions in `policy/`; here and in `board/` their results are stored, and it is told when one changed.
 */
import type { UpstreamProtocolName } from '../../core/chat.ts'
import { type Failure, rowOf } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { type Candidate, endpointId, type Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import type { counts } from '../../policy/health/breaker.ts'
import type { Cooldown, CooldownReason } from '../../policy/health/cooldown.ts'
import type { Limit } from '../../policy/health/quota.ts'
import { BoundedMap } from './bounded-map.ts'
import { type AdmissionMode, type CircuitClaims, Circuits, type Phase } from './circuits.ts'
import { Cooldowns } from './cooldowns.ts'
import { UpstreamLoad } from './load.ts'
import { Refusals } from './refusals.ts'
import { type ResponseMode, RetryBudgets } from './retry-budgets.ts'

export { type AdmissionMode, PAST_OPEN } from './circuits.ts'

/** Why a target may not be tried now. `until` in ms of the monotonic clock; null: nobody knows. `told`: the upstream itself said so. */
export type Refusal = {
  readonly why: 'circuit' | 'warming' | CooldownReason
  readonly until: number | null
  readonly fromUpstream?: true
}

/** An attempt's claim on its circuits and its key. The first of `done`, `failed` and `release` ends it; what comes after changes nothing. */
export type AttemptPermit = {
  /** First content came (`ms` after the start): a success, unless it breaks off later. */
  commit(ms: number): void
  /** The answer is complete. */
  done(): void
  failed(failure: Failure): void
  /** No verdict: the client left, or the fault was nobody's health. */
  release(): void
}

/** An endpoint that did not have a format is asked for it again after so long (ms): it may have been given a newer server. */
const BELIEVED = 600_000

const NONE: readonly UpstreamProtocolName[] = []

export class UpstreamHealth {
  readonly #world: World
  /** ms since 1970 at the monotonic clock's zero, as it was at the start. */
  readonly #epoch: number
  readonly #circuits: Circuits
  readonly #gates: Cooldowns
  readonly #traffic: UpstreamLoad
  readonly #repeats: RetryBudgets
  /** What vendors have refused of requests. */
  readonly refusals: Refusals
  readonly #errors = new BoundedMap<{ readonly at: number; readonly failure: Failure }>()
  /** Formats found missing at an endpoint, and until when (ms) that is believed. */
  readonly #lacking = new Map<string, Map<UpstreamProtocolName, number>>()
  #turn = 0

  constructor(world: World, tell: (news: GatewayEvent) => void) {
    this.#world = world
    this.#epoch = world.date() - world.now()
    this.#circuits = new Circuits(world, tell)
    this.#gates = new Cooldowns(world, tell, (at) => this.#clock(at))
    this.#traffic = new UpstreamLoad(world)
    this.#repeats = new RetryBudgets(world)
    this.refusals = new Refusals(world)
  }

  /** The format is not spoken at this endpoint, as it said itself. */
  lacks(instance: Instance, protocol: UpstreamProtocolName): void {
    const known = this.#lacking.get(endpointId(instance)) ?? new Map()
    this.#lacking.set(endpointId(instance), known.set(protocol, this.#world.now() + BELIEVED))
  }

  /** The formats that were found missing there. */
  lacking(instance: Instance): readonly UpstreamProtocolName[] {
    const known = this.#lacking.get(endpointId(instance))
    if (!known) return NONE
    const now = this.#world.now()
    return [...known].flatMap(([protocol, until]) => (until > now ? [protocol] : []))
  }

  /** A claim on the target, or why it may not be tried now. Cool-downs always hold. */
  admit(target: Target, { circuit }: Settings, how: AdmissionMode): AttemptPermit | Refusal {
    const shut = this.#shut(target)
    if (shut) return shut
    const claims = this.#circuits.claim(target, circuit, how)
    if ('why' in claims) return claims
    this.#gates.begin(target)
    return new UpstreamHealth.#Claim(this, target, claims)
  }

  /** What an attempt ended with; undefined: without a verdict. */
  #ended(target: Target, claims: CircuitClaims, how: Failure | 'done' | undefined): void {
    if (how === undefined) {
      this.#gates.release(target)
      return this.#circuits.release(claims)
    }
    if (how === 'done') return this.#circuits.complete(claims)
    const { charges: counts, side } = rowOf(how)
    const { id } = target.candidate.instance
    if (side === 'upstream') this.#errors.set(id, { at: this.#world.date(), failure: how })
    this.#circuits.failed(claims, counts, how.kind)
    this.#gates.failed(target, how)
  }

  #committed(target: Target, claims: CircuitClaims, ms: number): CircuitClaims {
    const booked = this.#circuits.commit(claims)
    this.#gates.commit(target)
    this.#traffic.commit(target, ms)
    return booked
  }

  /** There is one for each attempt under way: an object, since five closures took four times as much. */
  static readonly #Claim = class implements AttemptPermit {
    readonly #board: UpstreamHealth
    readonly #target: Target
    #claims: CircuitClaims
    #over = false

    constructor(board: UpstreamHealth, target: Target, claims: CircuitClaims) {
      this.#board = board
      this.#target = target
      this.#claims = claims
      board.#traffic.begin(target)
    }

    commit(ms: number): void {
      // Of an attempt that has ended nothing more is learnt.
      if (!this.#over) this.#claims = this.#board.#committed(this.#target, this.#claims, ms)
    }

    done(): void {
      this.#end('done')
    }

    failed(failure: Failure): void {
      this.#end(failure)
    }

    release(): void {
      this.#end(undefined)
    }

    #end(how: Failure | 'done' | undefined): void {
      if (this.#over) return
      this.#over = true
      this.#board.#traffic.end(this.#target)
      this.#board.#ended(this.#target, this.#claims, how)
    }
  }

  /** What is known to keep `admit` from giving a claim, without taking one; null: it has to be asked. */
  refuses(target: Target, { circuit }: Settings, how: AdmissionMode): Refusal | null {
    return this.#shut(target) ?? this.#circuits.refuses(target, circuit, how)
  }

  /** What `admit` would say when nobody else is left, without claiming anything: for plans that are only explained and for the status page. */
  peek(target: Target, { circuit }: Settings): Refusal | null {
    return this.#shut(target) ?? this.#circuits.peek(target, circuit)
  }

  #shut(target: Target): Refusal | null {
    const gate = this.#gates.shut(target)
    return gate ? refusalBy(gate) : null
  }

  /** Counts the first attempt of a request at a deployment: the base of its retry budget. */
  firstTry(candidate: Candidate): void {
    this.#repeats.firstTry(candidate)
  }

  /** Whether the deployment's retry budget allows one more attempt by this client ('': unknown); if so, it is counted. */
  mayRepeat(candidate: Candidate, settings: Settings, client: string): boolean {
    return this.#repeats.mayRepeat(candidate, settings, client)
  }

  /** A request that could be hedged has come. */
  earnHedgeCredit(settings: Settings): void {
    this.#repeats.earnHedgeCredit(settings)
  }

  /** Whether a hedge against this late deployment is allowed; if so, its cost is deducted. */
  mayHedge(late: Candidate, settings: Settings, client: string): boolean {
    return this.#repeats.mayHedge(late, settings, client)
  }

  /** ms after which an attempt there is late. */
  hedgeAfter(candidate: Candidate, way: ResponseMode, settings: Settings): number {
    return this.#repeats.hedgeAfter(candidate, way, settings)
  }

  /** An attempt there opened after so long (ms). */
  recordOpeningTime(candidate: Candidate, way: ResponseMode, ms: number): void {
    this.#repeats.recordOpeningTime(candidate, way, ms)
  }

  inFlight(instance: Instance, key: ProviderKey): number {
    return this.#traffic.inFlight(instance, key)
  }

  /** Under way with all its keys. */
  busy(instance: Instance): number {
    return this.#traffic.busy(instance)
  }

  requests(instance: Instance, key: ProviderKey): number {
    return this.#traffic.requests(instance, key)
  }

  /** The upstream answered with these headers; what they say of the key's limits is kept. */
  recordQuota(target: Target, headers: HeaderLookup): void {
    this.#traffic.recordQuota(target, headers)
  }

  /** The scarcest of the key's limits at this model; undefined: not known, or whole again since. */
  remainingLimit(target: Target): Limit | undefined {
    return this.#traffic.remainingLimit(target)
  }

  /** Expected cost in time of one more request there (peak-EWMA of first content × load). */
  slowness(candidate: Candidate): number {
    return this.#traffic.slowness(candidate)
  }

  /** A number that differs at each call: whose turn it is. */
  turn(): number {
    this.#turn = (this.#turn + 1) % Number.MAX_SAFE_INTEGER
    return this.#turn
  }

  cooldown(id: string): Cooldown | undefined {
    return this.#gates.of(id)
  }

  phase(id: string, { circuit }: Settings): Phase {
    return this.#circuits.phase(id, circuit)
  }

  counts(id: string, { circuit }: Settings): ReturnType<typeof counts> {
    return this.#circuits.counts(id, circuit)
  }

  /** Median and 95th percentile in ms, over the last answers of the provider; empty before the first. */
  firstContent(instance: Instance): readonly number[] {
    return this.#traffic.firstContent(instance)
  }

  lastError(instance: Instance): { readonly at: number; readonly failure: Failure } | undefined {
    return this.#errors.get(instance.id)
  }

  /** ISO 8601 of a moment of the monotonic clock: the same text each time it is asked. */
  #clock(at: number): string {
    return new Date(Math.round(this.#epoch + at)).toISOString()
  }

  iso(at: number | null): string | null {
    return at === null || !Number.isFinite(at) ? null : this.#clock(at)
  }

  /** Models this provider has been asked for since the start, newest last. */
  models(instance: Instance): readonly string[] {
    return this.#traffic.models(instance)
  }
}

const refusalBy = ({ why, until, fromUpstream }: Cooldown): Refusal => ({
  why,
  until,
  ...(fromUpstream && { fromUpstream }),
})
