/** Cooldowns of keys, deployments, models and endpoints, and the events about them. The rules are in `policy/health/cooldown.ts`. */

import { type Failure, rowOf } from '../../core/failure.ts'
import { deploymentId, endpointId, keyId, modelId, type Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import {
  type Cooldown,
  type CooldownReason,
  isCoolingDown,
  startCooldown,
  startTrial,
} from '../../policy/health/cooldown.ts'
import { BoundedMap } from './bounded-map.ts'

/** Keys rejected within this time (ms) of each other count as rejected together. */
const TOGETHER = 60_000

/** After a cooldown, one request tries the key. Other requests skip it for this time (ms) or until the outcome is known. */
const TRIAL = 30_000

/** All cooldowns, by the id of a key, deployment, model or endpoint. */
export class Cooldowns {
  readonly #world: World
  readonly #emit: (event: GatewayEvent) => void
  /** Formats a time of the monotonic clock as ISO 8601. */
  readonly #iso: (at: number) => string
  /** Missing models are not retained: clients can request any number of them. */
  readonly #cooldowns = new BoundedMap<Cooldown>(({ why }) => why !== 'model_missing')

  constructor(world: World, emit: (event: GatewayEvent) => void, iso: (at: number) => string) {
    this.#world = world
    this.#emit = emit
    this.#iso = iso
  }

  /** The cooldown with this id, if it is active. */
  of(id: string): Cooldown | undefined {
    const cooldown = this.#cooldowns.get(id)
    return cooldown && isCoolingDown(cooldown, this.#world.now()) ? cooldown : undefined
  }

  /** The active cooldown of a target that ends last. */
  activeFor(target: Target): Cooldown | undefined {
    // The usual case: avoid building the ids.
    if (this.#cooldowns.isEmpty) return undefined
    let longest: Cooldown | undefined
    for (const id of cooldownIdsOf(target)) {
      const cooldown = this.of(id)
      if (cooldown && cooldown.until > (longest?.until ?? 0)) longest = cooldown
    }
    return longest
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
  failed(target: Target, failure: Failure): void {
    const { candidate, key } = target
    const state = rowOf(failure).key
    const isOfKey = state === 'quota_exhausted' || state === 'suspended'
    if (state) this.#start(isOfKey ? keyId(candidate.instance, key) : deploymentId(target), state, target, failure)
    // Without a Retry-After the circuit decides. A guessed cooldown would hide further failures from it.
    if (failure.kind === 'overloaded' && failure.retryAfter !== undefined)
      this.#start(modelId(candidate), 'overloaded', target, failure)
    if (failure.kind === 'model_missing') this.#start(modelId(candidate), 'model_missing', target, failure)
    if (failure.kind === 'redirect') this.#start(deploymentId(target), 'redirect', target, failure)
    if (failure.kind === 'tls') this.#start(endpointId(candidate.instance), 'tls', target, failure)
    // The failure does not affect other cooldowns of the target.
    this.release(target)
  }

  #start(id: string, why: CooldownReason, target: Target, failure: Failure): void {
    const now = this.#world.now()
    const before = this.#cooldowns.get(id)
    const series = why === 'suspended' && this.#allRefused(target) ? undefined : before
    const after = startCooldown(series, { why, hintMs: failure.retryAfter }, now, this.#world.random)
    this.#cooldowns.set(id, after)
    const from = before && isCoolingDown(before, now) ? before.why : 'active'
    if (before?.why !== after.why) {
      const until = this.#iso(after.until)
      this.#emitKeyState({ id, target, from, to: after.why, until })
    }
  }

  /** Emits an event if the change concerns a key. */
  #emitKeyState({ id, target, from, to, until }: StateChange): void {
    const { candidate, key } = target
    const { instance } = candidate
    if (id === keyId(instance, key)) this.#emit({ event: 'key', provider: instance.id, key: key.id, from, to, until })
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

/** A change of the state with this id. */
type StateChange = {
  readonly id: string
  readonly target: Target
  readonly from: string
  readonly to: string
  readonly until: string | null
}

/** The ids whose cooldowns apply to a target. */
const cooldownIdsOf = (target: Target): readonly string[] => {
  const { candidate, key } = target
  return [keyId(candidate.instance, key), deploymentId(target), modelId(candidate), endpointId(candidate.instance)]
}

/** Cooldowns after which a single request is tried first, so that only one request fails if the cause persists. */
const NEEDS_TRIAL: ReadonlySet<CooldownReason> = new Set(['quota_exhausted', 'suspended', 'disabled'])
