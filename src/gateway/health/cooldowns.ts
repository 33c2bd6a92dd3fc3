/** Cooldowns of keys, deployments, models and endpoints, and the events about them. The rules are in `policy/health/cooldown.ts`. */

import { BoundedMap } from '../../core/bounded-map.ts'
import { type Failure, rowOf } from '../../core/failure.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import { deploymentId, endpointId, keyId, modelId, type Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { Cancel, World } from '../../core/world.ts'
import {
  type Cooldown,
  type CooldownReason,
  isCoolingDown,
  startCooldown,
  startTrial,
} from '../../policy/health/cooldown.ts'
import type { HealthHint } from './health-hint.ts'

/**
 * Cooldowns that other gateways learn. `as stated`: a rate limit holds for all that use the key. `tried`: what one gateway was
 * refused may be a fault of its own, so that another one tries it with one request, unless the provider has stated the time.
 */
const SHARED: ReadonlyMap<CooldownReason, 'as stated' | 'tried'> = new Map([
  ['rate_limited', 'as stated'],
  ['overloaded', 'as stated'],
  ['quota_exhausted', 'tried'],
  ['suspended', 'tried'],
  ['disabled', 'tried'],
] as const)
/** ms for which a cooldown of another gateway holds at most. */
const LONGEST_LEARNED = 600_000

type LearnedCooldown = Omit<Extract<HealthHint, { kind: 'cooldown' }>, 'kind'>

/** Keys rejected within this time (ms) of each other count as rejected together. */
const TOGETHER = 60_000

/** After a cooldown, one request tries the key. Other requests skip it for this time (ms) or until the outcome is known. */
const TRIAL = 30_000

/** A decision of an operator. `key` null: the whole provider rests. `until`: ms of the monotonic clock. */
export type OperatorDecision = {
  readonly provider: string
  readonly key: string | null
  readonly until: number
  readonly reason: string
}

type DecidedCooldown = Cooldown & Pick<OperatorDecision, 'provider' | 'key'>

export type CooldownsOptions = {
  readonly world: World
  readonly emit: (event: GatewayEvent) => void
  /** Receives what other gateways should know. */
  readonly tell: (hint: HealthHint) => void
  /** Formats a time of the monotonic clock as ISO 8601. */
  readonly iso: (at: number) => string
}

/** All cooldowns, by the id of a key, deployment, model or endpoint; an operator's also by that of a provider. */
export class Cooldowns {
  readonly #world: World
  readonly #emit: (event: GatewayEvent) => void
  readonly #tell: (hint: HealthHint) => void
  readonly #iso: (at: number) => string
  /** Missing models are not retained: clients can request any number of them. */
  readonly #cooldowns = new BoundedMap<Cooldown>(({ why }) => why !== 'model_missing')

  /** What an operator has decided, by ID. Null before the first decisions. */
  #decided: ReadonlyMap<string, DecidedCooldown> | null = null
  #cancelEnd: Cancel = () => {}

  constructor({ world, emit, tell, iso }: CooldownsOptions) {
    this.#world = world
    this.#emit = emit
    this.#tell = tell
    this.#iso = iso
  }

  /**
   * Sets the keys that an operator has disabled and the providers that are resting. They replace those set before. The first
   * ones are those of an earlier run, and so no change.
   */
  decide(decisions: readonly OperatorDecision[]): void {
    const since = this.#world.now()
    const before = this.#decided
    const after = new Map(
      decisions
        .filter(({ until }) => until > since)
        .map((decision): [string, DecidedCooldown] => {
          const { provider, key, until, reason } = decision
          const id = key === null ? provider : `${provider} ${key}`
          const why = key === null ? 'resting' : 'disabled'
          return [id, { why, until, decision: reason, strikes: 1, since, provider, key }]
        }),
    )
    this.#decided = after
    this.#endLater()
    if (!before) return
    for (const [id, one] of after) if (!before.has(id)) this.#emitDecision(one, true, 'operator')
    for (const [id, one] of before) if (!after.has(id) && one.until > since) this.#emitDecision(one, false, 'operator')
  }

  /** Emits the end of a decision when its time is over. */
  #endLater(): void {
    this.#cancelEnd()
    const ends = [...(this.#decided?.values() ?? [])].map(({ until }) => until).filter(Number.isFinite)
    if (ends.length === 0) return
    const now = this.#world.now()
    this.#cancelEnd = this.#world.later(Math.max(0, Math.min(...ends) - now), () => {
      const at = this.#world.now()
      const all = [...(this.#decided ?? [])]
      this.#decided = new Map(all.filter(([, { until }]) => until > at))
      for (const [, one] of all) if (one.until <= at) this.#emitDecision(one, false, 'its time is over')
      this.#endLater()
    })
  }

  #emitDecision({ provider, key, until }: DecidedCooldown, begins: boolean, why: string): void {
    const states = (on: string, off: string) => (begins ? { from: off, to: on } : { from: on, to: off })
    const end = begins && Number.isFinite(until) ? this.#iso(until) : null
    if (key === null)
      this.#emit({ event: 'circuit', what: 'provider', name: provider, ...states('open', 'closed'), why })
    else this.#emit({ event: 'key', provider, key, ...states('disabled', 'active'), until: end, why })
  }

  /** The cooldown with this id, if it is active. */
  of(id: string): Cooldown | undefined {
    const decided = this.#decided?.get(id)
    if (decided && isCoolingDown(decided, this.#world.now())) return decided
    const cooldown = this.#cooldowns.get(id)
    return cooldown && isCoolingDown(cooldown, this.#world.now()) ? cooldown : undefined
  }

  /** The active cooldown of a target that ends last. */
  activeFor(target: Target): Cooldown | undefined {
    // The usual case: avoid building the ids.
    if (this.#cooldowns.isEmpty && !this.#decided?.size) return undefined
    let longest: Cooldown | undefined
    for (const id of [...cooldownIdsOf(target), target.candidate.instance.id]) {
      const cooldown = this.of(id)
      if (cooldown && cooldown.until > (longest?.until ?? 0)) longest = cooldown
    }
    return longest
  }

  /**
   * Ends the cooldowns of a provider's keys and models, or of one key, whatever they wait for. Decisions of an operator stay.
   * Returns how many were active.
   */
  end(instance: Instance, key?: ProviderKey): number {
    const own = key ? keyId(instance, key) : instance.id
    let ended = 0
    for (const id of this.#cooldowns.ids()) {
      if (id !== own && !id.startsWith(`${own} `) && (key || id !== endpointId(instance))) continue
      const cooldown = this.#cooldowns.get(id)
      const wasActive = isCoolingDown(cooldown, this.#world.now())
      this.#cooldowns.delete(id)
      if (!cooldown || !wasActive) continue
      ended++
      const named = instance.keys.find((one) => keyId(instance, one) === id)
      if (named) this.#emitEnd(instance, named, cooldown)
    }
    return ended
  }

  #emitEnd(instance: Instance, key: ProviderKey, { why }: Cooldown): void {
    this.#emit({
      event: 'key',
      provider: instance.id,
      key: key.id,
      from: why,
      to: 'active',
      until: null,
      why: 'operator',
    })
  }

  /** An attempt at the target begins. */
  begin(target: Target): void {
    if (this.#cooldowns.isEmpty) return
    const now = this.#world.now()
    for (const id of cooldownIdsOf(target)) {
      const cooldown = this.#cooldowns.get(id)
      if (cooldown && NEEDS_TRIAL.has(cooldown.why)) this.#cooldowns.set(id, startTrial(cooldown, now, TRIAL))
    }
  }

  /** The attempt ended without a verdict: another request may try. */
  release(target: Target): void {
    if (this.#cooldowns.isEmpty) return
    for (const id of cooldownIdsOf(target)) {
      const cooldown = this.#cooldowns.get(id)
      if (!cooldown?.trialUntil) continue
      const { trialUntil: _, ...rest } = cooldown
      this.#cooldowns.set(id, rest)
    }
  }

  /** The attempt succeeded: clears expired cooldowns and their strikes. A cooldown that began during the attempt stays. */
  commit(target: Target): void {
    if (this.#cooldowns.isEmpty) return
    const now = this.#world.now()
    for (const id of cooldownIdsOf(target)) {
      const cooldown = this.#cooldowns.get(id)
      if (!cooldown || cooldown.until > now) continue
      this.#cooldowns.delete(id)
      this.#emitKeyState({ id, target, from: cooldown.why, to: 'active', until: null })
    }
  }

  /** The attempt failed: starts the cooldown that the failure calls for, apart from circuits. */
  failed(target: Target, failure: Failure, request?: string): void {
    const { candidate, key } = target
    const state = rowOf(failure).key
    const cause = { target, failure, request }
    const isOfKey = state === 'quota_exhausted' || state === 'suspended'
    if (state) this.#start(isOfKey ? keyId(candidate.instance, key) : deploymentId(target), state, cause)
    // Without a Retry-After the circuit decides. A guessed cooldown would hide further failures from it.
    if (failure.kind === 'overloaded' && failure.retryAfter !== undefined)
      this.#start(modelId(candidate), 'overloaded', cause)
    if (failure.kind === 'model_missing') this.#start(modelId(candidate), 'model_missing', cause)
    if (failure.kind === 'redirect') this.#start(deploymentId(target), 'redirect', cause)
    if (failure.kind === 'tls') this.#start(endpointId(candidate.instance), 'tls', cause)
    // The failure does not affect other cooldowns of the target.
    this.release(target)
  }

  #start(id: string, why: CooldownReason, { target, failure, request }: FailedAttempt): void {
    const now = this.#world.now()
    const before = this.#cooldowns.get(id)
    const series = why === 'suspended' && this.#allRefused(target) ? undefined : before
    const after = startCooldown(series, { why, hintMs: failure.retryAfter }, now, this.#world.random)
    this.#cooldowns.set(id, after)
    // A burst of refusals extends it by little each time.
    if (SHARED.has(after.why) && after.until - (before?.until ?? 0) >= 1_000) {
      const ms = Math.round(after.until - now)
      this.#tell({ kind: 'cooldown', id, why: after.why, ms, fromUpstream: after.fromUpstream === true })
    }
    const from = before && isCoolingDown(before, now) ? before.why : 'active'
    if (before?.why !== after.why) {
      const until = this.#iso(after.until)
      this.#emitKeyState({ id, target, from, to: after.why, until, request })
    }
  }

  /** Another gateway has found that a key or a model rests. `ms`: from now. `hasOthers`: its provider has other keys. */
  learn({ id, why, ms, fromUpstream }: LearnedCooldown, hasOthers: boolean): void {
    const now = this.#world.now()
    const before = this.#cooldowns.get(id)
    if (SHARED.get(why) === 'as stated' || fromUpstream) {
      const until = now + Math.min(ms, LONGEST_LEARNED)
      if (before && before.until >= until) return
      const { strikes = 1, since = now } = before ?? {}
      this.#cooldowns.set(id, { why, until, strikes, since, ...(fromUpstream && { fromUpstream: true }) })
    } else if (SHARED.has(why) && hasOthers && !before)
      // One request tries it, the others take other keys meanwhile.
      this.#cooldowns.set(id, { why, until: now, strikes: 0, since: now })
  }

  /** Emits an event if the change concerns a key. */
  #emitKeyState({ id, target, from, to, until, request }: StateChange): void {
    const { candidate, key } = target
    const { instance } = candidate
    if (id === keyId(instance, key))
      this.#emit({ event: 'key', provider: instance.id, key: key.id, from, to, until, ...(request && { request }) })
  }

  /**
   * Whether all other keys of the provider are rejected too. The fault is then the provider's, so no key is disabled for
   * longer. A key counts as rejected until shortly after its cooldown, when it is tried again.
   */
  #allRefused({ candidate: { instance }, key }: Target): boolean {
    const now = this.#world.now()
    const others = instance.keys.filter(({ id }) => id !== key.id)
    return (
      others.length > 0 &&
      others.every((other) => {
        const cooldown = this.#cooldowns.get(keyId(instance, other))
        return (cooldown?.why === 'suspended' || cooldown?.why === 'disabled') && now < cooldown.until + TOGETHER
      })
    )
  }
}

/** `request`: the ID of its request. */
type FailedAttempt = { readonly target: Target; readonly failure: Failure; readonly request: string | undefined }

/** A change of the state with this id. */
type StateChange = {
  readonly id: string
  readonly target: Target
  readonly from: string
  readonly to: string
  readonly until: string | null
  readonly request?: string | undefined
}

/** The ids whose cooldowns apply to a target. */
const cooldownIdsOf = (target: Target): readonly string[] => {
  const { candidate, key } = target
  return [keyId(candidate.instance, key), deploymentId(target), modelId(candidate), endpointId(candidate.instance)]
}

/** Cooldowns after which a single request is tried first, so that only one request fails if the cause persists. */
const NEEDS_TRIAL: ReadonlySet<CooldownReason> = new Set(['quota_exhausted', 'suspended', 'disabled'])
