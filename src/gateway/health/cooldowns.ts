/** Cool-downs: what may not be tried before a moment, and what the outside is told of it. The rules are `policy/health/cooldown.ts`. */

import { type Failure, rowOf } from '../../core/failure.ts'
import { deploymentId, endpointId, keyId, modelId, type Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import { type Cooldown, type CooldownReason, isShut, onTrial, shut } from '../../policy/health/cooldown.ts'
import { BoundedMap } from './bounded-map.ts'

/** Keys refused within so long (ms) of each other are refused together. */
const TOGETHER = 60_000

/** A key whose rest is over is tried by one request: so long (ms) the others wait for what becomes of it. */
const TRIAL = 30_000

export class Cooldowns {
  readonly #world: World
  readonly #tell: (news: GatewayEvent) => void
  /** Of a moment of the monotonic clock. */
  readonly #iso: (at: number) => string
  /** Clients can think of many models that are missing. */
  readonly #gates = new BoundedMap<Cooldown>(({ why }) => why !== 'model_missing')

  constructor(world: World, tell: (news: GatewayEvent) => void, iso: (at: number) => string) {
    this.#world = world
    this.#tell = tell
    this.#iso = iso
  }

  /** The gate of that name, if it is shut. */
  of(id: string): Cooldown | undefined {
    const gate = this.#gates.get(id)
    return gate && isShut(gate, this.#world.now()) ? gate : undefined
  }

  /** Of the gates that keep a target from being tried the one that is shut longest. */
  shut(target: Target): Cooldown | undefined {
    // Nearly always: then no name is made to look for.
    if (this.#gates.isEmpty) return undefined
    let longest: Cooldown | undefined
    for (const id of gatesOf(target)) {
      const gate = this.of(id)
      if (gate && gate.until > (longest?.until ?? 0)) longest = gate
    }
    return longest
  }

  /** The target is tried. */
  begin(target: Target): void {
    if (this.#gates.isEmpty) return
    const now = this.#world.now()
    for (const id of gatesOf(target)) {
      const gate = this.#gates.get(id)
      if (gate && TRIED_BY_ONE.has(gate.why)) this.#gates.set(id, onTrial(gate, now, TRIAL))
    }
  }

  /** Nothing was learnt: another request may try. */
  release(target: Target): void {
    if (this.#gates.isEmpty) return
    for (const id of gatesOf(target)) {
      const gate = this.#gates.get(id)
      if (!gate?.trialUntil) continue
      const { trialUntil: _, ...rest } = gate
      this.#gates.set(id, rest)
    }
  }

  /** It works: a cool-down that is over is forgotten, with its strikes. One begun since this attempt started still holds. */
  commit(target: Target): void {
    if (this.#gates.isEmpty) return
    const now = this.#world.now()
    for (const id of gatesOf(target)) {
      const gate = this.#gates.get(id)
      if (!gate || gate.until > now) continue
      this.#gates.delete(id)
      this.#told(id, target, gate.why, 'active', null)
    }
  }

  /** Separate from circuits, and never a matter of health. */
  failed(target: Target, failure: Failure): void {
    const { candidate, key } = target
    switch (rowOf(failure).key) {
      case 'rate_limited':
        this.#shut(deploymentId(target), 'rate_limited', target, failure)
        break
      case 'quota_exhausted':
        this.#shut(keyId(candidate.instance, key), 'quota_exhausted', target, failure)
        break
      case 'suspended':
        this.#shut(keyId(candidate.instance, key), 'suspended', target, failure)
        break
      case 'model_denied':
        this.#shut(deploymentId(target), 'model_denied', target, failure)
        break
      case undefined:
        break
    }
    // Without a word from the upstream the circuit decides; a guess would keep it from ever seeing the next failure.
    if (failure.kind === 'overloaded' && failure.retryAfter !== undefined)
      this.#shut(modelId(candidate), 'overloaded', target, failure)
    if (failure.kind === 'model_missing') this.#shut(modelId(candidate), 'model_missing', target, failure)
    if (failure.kind === 'redirect') this.#shut(deploymentId(target), 'redirect', target, failure)
    if (failure.kind === 'tls') this.#shut(endpointId(candidate.instance), 'tls', target, failure)
    // Of the others nothing was learnt.
    this.release(target)
  }

  #shut(id: string, why: CooldownReason, target: Target, failure: Failure): void {
    const now = this.#world.now()
    const before = this.#gates.get(id)
    const series = why === 'suspended' && this.#allRefused(target) ? undefined : before
    const after = shut(series, why, now, failure.retryAfter, this.#world.random)
    this.#gates.set(id, after)
    const from = before && isShut(before, now) ? before.why : 'active'
    if (before?.why !== after.why) this.#told(id, target, from, after.why, this.#iso(after.until))
  }

  /** Only states of keys are told. */
  #told(id: string, { candidate: { instance }, key }: Target, from: string, to: string, until: string | null): void {
    if (id === keyId(instance, key)) this.#tell({ event: 'key', provider: instance.id, key: key.id, from, to, until })
  }

  /**
   * Every other key of the provider is refused as well: then its door is broken rather than the keys, and none of them is
   * disabled for longer. A key counts until it has had its turn to be tried again.
   */
  #allRefused({ candidate: { instance }, key }: Target): boolean {
    const now = this.#world.now()
    const others = instance.keys.filter(({ id }) => id !== key.id)
    return (
      others.length > 0 &&
      others.every((other) => {
        const gate = this.#gates.get(keyId(instance, other))
        return (gate?.why === 'suspended' || gate?.why === 'disabled') && now < gate.until + TOGETHER
      })
    )
  }
}

/** Whose cool-downs a target has to mind. */
const gatesOf = (target: Target): readonly string[] => {
  const { candidate, key } = target
  return [keyId(candidate.instance, key), deploymentId(target), modelId(candidate), endpointId(candidate.instance)]
}

/** What costs a failed attempt to find out is found out by one request, not by all that wait. */
const TRIED_BY_ONE: ReadonlySet<CooldownReason> = new Set(['quota_exhausted', 'suspended', 'disabled'])
