/**
 * The gateway's in-memory state of its upstreams: circuits, cooldowns, budgets, load and latency. The rules are pure
 * functions in `policy/`; the files in this folder store their results and emit changes.
 */

import { BoundedMap } from '../../core/bounded-map.ts'
import { type Failure, rowOf } from '../../core/failure.ts'
import type { Instance, ModelLimits } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import type { Cooldown, CooldownReason } from '../../policy/health/cooldown.ts'
import { Canaries } from './canaries.ts'
import { type AdmissionMode, type CircuitClaims, Circuits } from './circuits.ts'
import { Cooldowns } from './cooldowns.ts'
import type { HealthHint } from './health-hint.ts'
import { Issuers } from './issuers.ts'
import { KnownLimits } from './known-limits.ts'
import { UpstreamLoad } from './load.ts'
import { ProviderRefusals } from './provider-refusals.ts'
import { Retirements } from './retirements.ts'
import { RetryBudgets } from './retry-budgets.ts'
import { StickyTargets } from './sticky-targets.ts'

export { type AdmissionMode, PAST_OPEN } from './circuits.ts'

/**
 * Why a target may not be tried now. `until`: in ms of the monotonic clock; null: unknown. `fromUpstream`: the upstream sent
 * that time.
 */
export type TargetRefusal = {
  readonly why: 'circuit' | 'warming' | CooldownReason
  readonly until: number | null
  readonly fromUpstream?: true
  /** An operator disabled the key or rests the provider, for this reason. */
  readonly decision?: string
}

/** Permission for one attempt from its circuits and its key. The first of `done`, `failed` and `release` ends it; later calls are ignored. */
export type AttemptPermit = {
  /** The attempt tests a target whose circuit is open. */
  readonly isProbe: boolean
  /** The first content arrived after `ms`: a success, unless the answer breaks later. */
  commit(ms: number): void
  /** The answer is complete. */
  done(): void
  /** The attempt failed. `request`: the ID of its request. */
  failed(failure: Failure, request?: string): void
  /** The attempt ended without a verdict, for example because the client left. */
  release(): void
}

/** Admission, outcomes and statistics of all upstreams. Times are in ms of the monotonic clock unless stated. */
export class UpstreamHealth {
  readonly #world: World
  /** Unix time in ms at the monotonic clock's zero, as of the start. */
  readonly #epoch: number
  readonly circuits: Circuits
  readonly cooldowns: Cooldowns
  readonly load: UpstreamLoad
  readonly budgets: RetryBudgets
  /** What providers have rejected: protocols, and parts of requests. */
  readonly refusals: ProviderRefusals
  /** The targets that have prompts in their caches. */
  readonly sticky: StickyTargets
  /** The instances that issued encrypted reasoning. */
  readonly issuers = new Issuers()
  /** Context windows and output limits of models. */
  readonly limits: KnownLimits
  readonly canaries: Canaries
  /** When models end. */
  readonly retirements: Retirements
  readonly #errors = new BoundedMap<{ readonly at: number; readonly failure: Failure }>()
  #turn = 0

  /** `tell`: receives what other gateways should know. */
  constructor(world: World, emit: (event: GatewayEvent) => void, tell: (hint: HealthHint) => void = () => {}) {
    this.#world = world
    this.#epoch = world.date() - world.now()
    this.circuits = new Circuits(world, emit, tell)
    this.cooldowns = new Cooldowns({ world, emit, tell, iso: (at) => this.#format(at) })
    this.load = new UpstreamLoad(world)
    this.budgets = new RetryBudgets(world)
    this.refusals = new ProviderRefusals(world)
    this.limits = new KnownLimits(world)
    this.canaries = new Canaries(world, tell)
    this.retirements = new Retirements(world)
    this.sticky = new StickyTargets(() => world.now(), tell)
  }

  /** Replaces what the instance's own model list states. `ends`: ms since 1970. */
  list(
    instanceId: string,
    { limits, ends }: { readonly limits: ReadonlyMap<string, ModelLimits>; readonly ends: ReadonlyMap<string, number> },
  ): void {
    this.limits.list(instanceId, limits)
    this.retirements.list(instanceId, ends)
  }

  /** What another gateway has found `age` ms ago. `instances`: those that are configured here. */
  learn(hint: HealthHint, age: number, instances: readonly Instance[]): void {
    if (hint.kind === 'canary') return this.canaries.learn(hint)
    const { id } = hint
    const ms = hint.ms - age
    if (hint.kind === 'circuit') {
      if (hint.ms === 0 || ms > 0) this.circuits.learn(id, Math.max(0, ms))
      return
    }
    if (hint.kind === 'sticky') {
      if (ms > 0) this.sticky.learn(hint, age, instances)
      return
    }
    const instance = instances.find((one) => id.startsWith(`${one.id} `))
    if (instance && ms > 0) this.cooldowns.learn({ ...hint, ms }, instance.keys.length > 1)
  }

  /** Admits an attempt at the target, or returns the refusal. Cooldowns hold in every mode. */
  admit(target: Target, { circuit }: Settings, how: AdmissionMode): AttemptPermit | TargetRefusal {
    const cooldown = this.#cooldownOf(target)
    if (cooldown) return cooldown
    const claims = this.circuits.claim(target, circuit, how)
    if ('why' in claims) return claims
    this.cooldowns.begin(target)
    return new UpstreamHealth.#Permit(this, target, claims)
  }

  /** Records the end of an attempt. `outcome` undefined: no verdict. */
  #ended(target: Target, claims: CircuitClaims, outcome: Failure | 'done' | undefined, request?: string): void {
    if (outcome === undefined) {
      this.cooldowns.release(target)
      return this.circuits.release(claims)
    }
    if (outcome === 'done') return this.circuits.complete(claims)
    const { charges, side } = rowOf(outcome)
    const { id } = target.candidate.instance
    if (side === 'upstream') this.#errors.set(id, { at: this.#world.date(), failure: outcome })
    this.circuits.failed(claims, charges, { why: outcome.kind, request })
    this.cooldowns.failed(target, outcome, request)
  }

  #committed(target: Target, claims: CircuitClaims, ms: number): CircuitClaims {
    const committed = this.circuits.commit(claims)
    this.cooldowns.commit(target)
    this.load.commit(target, ms)
    return committed
  }

  /** The permit of one attempt. A class, because closures take four times the memory. */
  static readonly #Permit = class implements AttemptPermit {
    readonly #health: UpstreamHealth
    readonly #target: Target
    #claims: CircuitClaims
    #over = false

    get isProbe(): boolean {
      return this.#claims.some(({ permit }) => permit.probe)
    }

    constructor(health: UpstreamHealth, target: Target, claims: CircuitClaims) {
      this.#health = health
      this.#target = target
      this.#claims = claims
      health.load.begin(target)
    }

    commit(ms: number): void {
      if (!this.#over) this.#claims = this.#health.#committed(this.#target, this.#claims, ms)
    }

    done(): void {
      this.#end('done')
    }

    failed(failure: Failure, request?: string): void {
      this.#end(failure, request)
    }

    release(): void {
      this.#end(undefined)
    }

    #end(outcome: Failure | 'done' | undefined, request?: string): void {
      if (this.#over) return
      this.#over = true
      this.#health.load.end(this.#target)
      this.#health.#ended(this.#target, this.#claims, outcome, request)
    }
  }

  /** A refusal that `admit` would return, without claiming anything. null: call `admit` to know. */
  refuses(target: Target, { circuit }: Settings, how: AdmissionMode): TargetRefusal | null {
    return this.#cooldownOf(target) ?? this.circuits.refuses(target, circuit, how)
  }

  /** The refusal that `admit` would return in the last-resort mode, without claiming anything. Used to explain plans and for status. */
  peek(target: Target, { circuit }: Settings, how?: AdmissionMode): TargetRefusal | null {
    return this.#cooldownOf(target) ?? this.circuits.peek(target, circuit, how)
  }

  #cooldownOf(target: Target): TargetRefusal | null {
    const cooldown = this.cooldowns.activeFor(target)
    return cooldown ? refusalBy(cooldown) : null
  }

  /** Counts the first attempt of a request at a model of a provider: the base of its retry budget. */
  firstTry(candidate: Candidate): void {
    this.budgets.firstTry(candidate)
  }

  /** Whether the retry budget of this model allows one more attempt by this client ('': unknown); if so, it is counted. */
  mayRepeat(candidate: Candidate, settings: Settings, client: string): boolean {
    return this.budgets.mayRepeat(candidate, settings, client)
  }

  /** A counter for round-robin; differs at each call. */
  turn(): number {
    this.#turn = (this.#turn + 1) % Number.MAX_SAFE_INTEGER
    return this.#turn
  }

  /** The last upstream failure of the provider. `at`: Unix time in ms. */
  lastError(instance: Instance): { readonly at: number; readonly failure: Failure } | undefined {
    return this.#errors.get(instance.id)
  }

  /** Formats a time of the monotonic clock as ISO 8601. The result is stable while the system clock changes. */
  #format(at: number): string {
    return new Date(Math.round(this.#epoch + at)).toISOString()
  }

  /** ISO 8601 of a time of the monotonic clock; null for null and for never. */
  iso(at: number | null): string | null {
    return at === null || !Number.isFinite(at) ? null : this.#format(at)
  }
}

const refusalBy = ({ why, until, fromUpstream, decision }: Cooldown): TargetRefusal => ({
  why,
  until,
  ...(fromUpstream && { fromUpstream }),
  ...(decision !== undefined && { decision }),
})
