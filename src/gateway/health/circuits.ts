/**
 * The circuit breakers of each target: admission, and the effect of outcomes. The rules are in `policy/health/breaker.ts`
 * and `policy/health/slow-start.ts`.
 */

import { BoundedMap } from '../../core/bounded-map.ts'
import type { Instance } from '../../core/provider.ts'
import type { CircuitRules } from '../../core/settings.ts'
import { endpointId, type Names, namesOf, proxyId, type Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import * as circuit from '../../policy/health/breaker.ts'
import { warmUpDelay } from '../../policy/health/slow-start.ts'
import type { HealthHint } from './health-hint.ts'

/** The scope of a circuit. `answers`: counts the empty answers of a deployment. */
export type CircuitScope = 'deployment' | 'model' | 'endpoint' | 'proxy' | 'answers'

/**
 * Which circuits admit an attempt. `normal`: closed ones within their slow start. `warm`: beyond the slow start too. `early`:
 * an open one too, as its early probe if one is due. `ignore`: any.
 */
export type AdmissionMode = 'normal' | 'warm' | 'early' | 'ignore'

/** The admission mode for the last resort, when all circuits are open, by the setting `whenAllOpen`. */
export const PAST_OPEN = {
  fail: 'warm',
  probe: 'early',
  try: 'ignore',
} as const satisfies Record<CircuitRules['whenAllOpen'], AdmissionMode>

/** The state of a circuit. `retryAt`: when an open circuit admits its next probe. */
export type CircuitPhase = { readonly state: 'closed' | 'open' | 'half_open'; readonly retryAt: number | null }

/** Why a circuit admits no attempt, and until when (ms of the monotonic clock; null: unknown). */
export type CircuitRefusal = { readonly why: 'circuit' | 'warming'; readonly until: number | null }

/** The state of one circuit. `closedAt`: when it last closed after it was open. */
type TrackedCircuit = {
  breaker: circuit.Breaker
  inFlight: number
  closedAt: number
  /** The claims committed last whose narrowest circuit is this one. Equal claims share this list to save memory. */
  lastCommitted: CircuitClaims | null
  /** The last claim of this circuit while it was closed. Equal claims share it. */
  lastClaim: CircuitClaim | null
}

/** Admission by one circuit. It is returned with the outcome. */
type CircuitClaim = {
  readonly scope: CircuitScope
  readonly id: string
  readonly state: TrackedCircuit
  readonly rules: CircuitRules
  readonly permit: circuit.CircuitPermit
}

/** Why a circuit changes. `request`: the ID of the request that failed. */
type CircuitCause = { readonly why: string; readonly request?: string | undefined }

/** The admissions of one attempt, widest scope first. */
export type CircuitClaims = readonly CircuitClaim[]

/** ms for which an opening at another gateway is remembered without an outcome here. */
const LONGEST_DOUBT = 60_000

/** Thresholds for empty answers. They are higher than for failures, because the empty answer is correct for some requests. */
const EMPTY = { errorThreshold: 50, minRequests: 10, consecutiveFailures: 0 } as const

/** All circuits, by id. */
export class Circuits {
  readonly #world: World
  readonly #emit: (event: GatewayEvent) => void
  readonly #tell: (hint: HealthHint) => void
  readonly #states = new BoundedMap<TrackedCircuit>(
    ({ breaker, inFlight }) => breaker.state !== 'closed' || inFlight > 0,
  )
  /** The rules of `answers` circuits, derived from these settings. */
  #answerRules: { readonly of: CircuitRules; readonly rules: CircuitRules } | null = null

  /** `tell`: receives what other gateways should know. */
  constructor(world: World, emit: (event: GatewayEvent) => void, tell: (hint: HealthHint) => void) {
    this.#world = world
    this.#emit = emit
    this.#tell = tell
  }

  /** Claims all circuits of a target, or returns the first refusal. */
  claim(target: Target, settings: CircuitRules, how: AdmissionMode): CircuitClaims | CircuitRefusal {
    if (how === 'ignore') return []
    const now = this.#world.now()
    const span = Math.min(settings.slowStart, settings.resetTimeout)
    // Check all circuits before changing any, so that an outer circuit spends no probe when an inner one refuses.
    const claims: CircuitClaim[] = []
    const probing: { readonly claim: CircuitClaim; readonly after: circuit.Breaker }[] = []
    for (const [scope, id] of scopesOf(target)) {
      const state = this.#state(id)
      const rules = this.#rules(scope, settings)
      const { breaker, closedAt, inFlight, lastClaim } = state
      if (isTrusted(breaker) && isOf(lastClaim, breaker, rules)) claims.push(lastClaim)
      else {
        const { permit, retryAt, breaker: after } = admit(breaker, now, rules, how)
        if (!permit) return refusal(breaker, retryAt)
        const claim = { scope, id, state, rules, permit }
        claims.push(claim)
        if (after === breaker) state.lastClaim = claim
        else probing.push({ claim, after })
      }
      if (how !== 'normal' || breaker.state !== 'closed') continue
      const warm = closedAt + warmUpDelay(inFlight, span)
      if (now < warm) return { why: 'warming', until: warm }
    }
    for (const { claim, after } of probing)
      this.#change(claim, after, { why: claim.permit.early ? 'early probe' : 'time to probe' })
    for (const { id, state } of claims) {
      this.#states.set(id, state)
      state.inFlight++
    }
    return claims
  }

  /** The refusal of a circuit that is open, without claiming anything. Slow start is not checked. */
  refuses(target: Target, settings: CircuitRules, how: AdmissionMode): CircuitRefusal | null {
    if (how === 'ignore') return null
    const now = this.#world.now()
    for (const [scope, id] of scopesOf(target)) {
      const breaker = this.#states.get(id)?.breaker
      // The usual case.
      if (!breaker || isTrusted(breaker)) continue
      const rules = this.#rules(scope, settings)
      const { permit, retryAt } = admit(breaker, now, rules, how)
      if (!permit) return refusal(breaker, retryAt)
    }
    return null
  }

  /**
   * The first content has arrived. Returns the claims for the rest of the answer. Equal claims share one list, because
   * each open stream holds one.
   */
  commit(claims: CircuitClaims): CircuitClaims {
    const now = this.#world.now()
    const narrowest = claims.at(-1)?.state
    const last = narrowest?.lastCommitted?.length === claims.length ? narrowest.lastCommitted : null
    /** Null as long as the claims equal the last ones. */
    let committed: CircuitClaim[] | null = last ? null : []
    for (const [at, claim] of claims.entries()) {
      const { scope, id, state, rules } = claim
      const { breaker, permit } = circuit.commit(state.breaker, claim.permit, now, rules)
      this.#change(claim, breaker, COMMITTED)
      const before = last?.[at]
      if (!committed && before?.state === state && before.rules === rules && isSame(before.permit, permit)) continue
      committed ??= last?.slice(0, at) ?? []
      committed.push({ scope, id, state, rules, permit })
    }
    if (narrowest && committed) narrowest.lastCommitted = committed
    return committed ?? last ?? claims
  }

  /** The answer is complete. */
  complete(claims: CircuitClaims): void {
    this.#end(claims, COMPLETED, ({ state, permit, rules }, now) => circuit.complete(state.breaker, permit, now, rules))
  }

  /** The attempt failed. Charges the circuit of scope `charges`; null: none. */
  failed(claims: CircuitClaims, charges: CircuitScope | null, cause: CircuitCause): void {
    this.#end(claims, cause, ({ scope, state, permit, rules }, now) =>
      scope === charges
        ? circuit.failed(state.breaker, permit, now, rules)
        : circuit.withdraw(state.breaker, permit, now, rules),
    )
  }

  /** The attempt ended without a verdict. */
  release(claims: CircuitClaims): void {
    this.#end(claims, { why: 'no verdict' }, ({ state, permit, rules }, now) =>
      circuit.release(state.breaker, permit, now, rules),
    )
  }

  /**
   * What `claim` would return, by default in the last-resort mode, without claiming anything and without slow start.
   */
  peek(
    target: Target,
    settings: CircuitRules,
    how: AdmissionMode = PAST_OPEN[settings.whenAllOpen],
  ): CircuitRefusal | null {
    if (how === 'ignore') return null
    const now = this.#world.now()
    for (const [scope, id] of scopesOf(target)) {
      const breaker = this.#breaker(id)
      const rules = this.#rules(scope, settings)
      if (circuit.phase(breaker, now, rules).state !== 'open') continue
      const { permit, retryAt } = admit(breaker, now, rules, how)
      if (!permit) return { why: 'circuit', until: retryAt }
    }
    return null
  }

  /** The state of a deployment, model or endpoint. For a deployment, an open circuit for empty answers counts too. */
  phase(id: string, rules: CircuitRules): CircuitPhase {
    const now = this.#world.now()
    const answers = circuit.phase(this.#breaker(answersId(id)), now, this.#rules('answers', rules))
    const own = circuit.phase(this.#breaker(id), now, rules)
    return own.state === 'open' || answers.state === 'closed' ? own : answers
  }

  /** The state of the way to a base URL: of its own circuit, or of that of its proxy if it is further from closed. */
  wayPhase(instance: Instance, rules: CircuitRules): CircuitPhase {
    const endpoint = this.phase(endpointId(instance), rules)
    const proxy = proxyId(instance)
    if (proxy === null) return endpoint
    const hop = this.phase(proxy, rules)
    return DISTANCE[hop.state] > DISTANCE[endpoint.state] ? hop : endpoint
  }

  /** Successes and failures in the current window. */
  counts(id: string, rules: CircuitRules): ReturnType<typeof circuit.counts> {
    return circuit.counts(this.#breaker(id), this.#world.now(), rules)
  }

  /**
   * Closes all circuits of a provider, or lets those that are open admit a probe now. Returns how many changed. The circuits
   * of its base URL and of its proxy are shared with other providers at the same address or behind the same proxy.
   */
  override(instance: Instance, action: 'close' | 'probe'): number {
    const now = this.#world.now()
    let changed = 0
    for (const id of this.#states.ids()) {
      const scope = scopeOf(instance, id)
      const state = this.#states.get(id)
      if (!scope || !state) continue
      const { breaker } = state
      const after = action === 'close' ? circuit.closedNow(breaker) : circuit.probedNow(breaker, now)
      if (after === breaker) continue
      changed++
      this.#change({ scope, id, state }, after, { why: 'operator' })
    }
    return changed
  }

  /** A circuit has opened at another gateway for `ms`, or has closed there (0). */
  learn(id: string, ms: number): void {
    const now = this.#world.now()
    const state = this.#states.get(id) ?? (ms > 0 ? this.#state(id) : undefined)
    if (!state) return
    state.breaker =
      ms > 0 ? circuit.doubted(state.breaker, now + Math.min(ms, LONGEST_DOUBT)) : circuit.trusted(state.breaker, now)
    this.#states.set(id, state)
  }

  #end(claims: CircuitClaims, cause: CircuitCause, step: (claim: CircuitClaim, now: number) => circuit.Breaker): void {
    const now = this.#world.now()
    for (const claim of claims) {
      claim.state.inFlight--
      this.#change(claim, step(claim, now), cause)
    }
  }

  #rules(scope: CircuitScope, settings: CircuitRules): CircuitRules {
    if (scope !== 'answers') return settings
    if (this.#answerRules?.of !== settings) this.#answerRules = { of: settings, rules: { ...settings, ...EMPTY } }
    return this.#answerRules.rules
  }

  #state(id: string): TrackedCircuit {
    return (
      this.#states.get(id) ?? {
        breaker: circuit.closedBreaker(),
        inFlight: 0,
        closedAt: Number.NEGATIVE_INFINITY,
        lastCommitted: null,
        lastClaim: null,
      }
    )
  }

  #breaker(id: string): circuit.Breaker {
    return this.#states.get(id)?.breaker ?? circuit.closedBreaker()
  }

  #change(
    { scope, id, state }: Pick<CircuitClaim, 'scope' | 'id' | 'state'>,
    after: circuit.Breaker,
    { why, request }: CircuitCause,
  ): void {
    const from = state.breaker.state
    state.breaker = after
    if (from === after.state) return
    const now = this.#world.now()
    if (after.state === 'closed') state.closedAt = now
    // An operator closes circuits at all gateways.
    if (why !== 'operator' && after.state !== 'half_open')
      this.#tell({ kind: 'circuit', id, ms: after.state === 'open' ? Math.max(1, Math.round(after.until - now)) : 0 })
    this.#emit({
      event: 'circuit',
      what: scope,
      name: nameOf(id),
      from,
      to: after.state,
      why,
      ...(request && { request }),
    })
  }
}

/** Closed, and not doubted by another gateway: the usual case. */
const isTrusted = (breaker: circuit.Breaker): boolean => breaker.state === 'closed' && breaker.doubt === undefined

/** A circuit that other gateways doubt is used like one in its slow start: if no other target may be tried. */
const refusal = ({ state }: circuit.Breaker, until: number | null): CircuitRefusal => ({
  why: state === 'closed' ? 'warming' : 'circuit',
  until,
})

const admit = (
  breaker: circuit.Breaker,
  now: number,
  rules: CircuitRules,
  how: AdmissionMode,
): circuit.CircuitAdmission => {
  if (breaker.state === 'closed' && how !== 'normal') return circuit.admitClosed(breaker)
  return how === 'early' && circuit.phase(breaker, now, rules).state === 'open'
    ? circuit.admitEarly(breaker, now, rules)
    : circuit.admit(breaker, now, rules)
}

/** Whether a claim of a closed circuit is what would be claimed now. */
const isOf = (
  claim: CircuitClaim | null,
  { generation }: circuit.Breaker,
  rules: CircuitRules,
): claim is CircuitClaim => claim?.rules === rules && claim.permit.generation === generation

const COMMITTED: CircuitCause = { why: 'an answer came' }
const COMPLETED: CircuitCause = { why: 'an answer completed' }

const isSame = (permit: circuit.CircuitPermit, other: circuit.CircuitPermit): boolean =>
  permit.generation === other.generation &&
  permit.countedIn === other.countedIn &&
  permit.slot === other.slot &&
  permit.probe === other.probe &&
  permit.early === other.early

/** How far a state is from closed. */
const DISTANCE = { closed: 0, half_open: 1, open: 2 } as const satisfies Record<CircuitPhase['state'], number>

/** The circuits of a target, widest scope first. */
const scopesOf = (target: Target): readonly (readonly [CircuitScope, string])[] => {
  const names = namesOf(target)
  const known = scopes.get(names)
  if (known) return known
  const { deployment, model, endpoint, proxy } = names
  const made = [
    ...(proxy === null ? [] : [['proxy', proxy] as const]),
    ['endpoint', endpoint],
    ['model', model],
    ['deployment', deployment],
    ['answers', answersId(deployment)] as const,
  ] as const
  scopes.set(names, made)
  return made
}
const scopes = new WeakMap<Names, readonly (readonly [CircuitScope, string])[]>()

/** The scope of a circuit if it is one of this provider. */
const scopeOf = (instance: Instance, id: string): CircuitScope | null => {
  if (id === endpointId(instance)) return 'endpoint'
  if (id === proxyId(instance)) return 'proxy'
  if (id.startsWith(`${ANSWERS}${instance.id} `)) return 'answers'
  if (!id.startsWith(`${instance.id} `)) return null
  const [, second, third] = id.split(' ', 3)
  return third !== undefined && instance.keys.some((key) => key.id === second) ? 'deployment' : 'model'
}

/** Distinguishes these ids from those of the other scopes, which contain no line feed. */
const ANSWERS = 'answers\n'
const answersId = (deployment: string): string => ANSWERS + deployment

/** An id for events, truncated: a client may send a model name of any length. */
const nameOf = (id: string): string => {
  const name = id.startsWith(ANSWERS) ? id.slice(ANSWERS.length) : id
  return name.length > 200 ? `${name.slice(0, 200)}…` : name
}
