/** The circuits a target passes: who may try, and what becomes of the outcome. The rules are `policy/health/breaker.ts` and `policy/health/slow-start.ts`. */

import type { CircuitRules } from '../../core/settings.ts'
import { type Names, namesOf, type Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import * as circuit from '../../policy/health/breaker.ts'
import { warmAfter } from '../../policy/health/slow-start.ts'
import { BoundedMap } from './bounded-map.ts'

/** `answers`: of a deployment that answers well, but whose answers may be empty. */
export type CircuitScope = 'deployment' | 'model' | 'endpoint' | 'answers'

/** `warm`: also to one that has just recovered and has its hands full. `early`: past an open circuit, as its early probe if one is due. `ignore`: whatever the circuits say. */
export type AdmissionMode = 'normal' | 'warm' | 'early' | 'ignore'

/** How the last who may be asked is let in although its circuit is open. */
export const PAST_OPEN = {
  fail: 'warm',
  probe: 'early',
  try: 'ignore',
} as const satisfies Record<CircuitRules['whenAllOpen'], AdmissionMode>

export type Phase = { readonly at: 'closed' | 'open' | 'half_open'; readonly retryAt: number | null }

export type CircuitRefusal = { readonly why: 'circuit' | 'warming'; readonly until: number | null }

/** What is known of one circuit. `closedAt`: when it closed after having been open. */
type CircuitState = {
  breaker: circuit.Breaker
  underWay: number
  closedAt: number
  /** The claims that were committed last of those that end with this circuit. */
  booked: CircuitClaims | null
}

/** Permission of one circuit, to be handed back with the outcome. */
type CircuitClaim = {
  readonly scope: CircuitScope
  readonly id: string
  readonly state: CircuitState
  readonly rules: CircuitRules
  readonly pass: circuit.Pass
}

export type CircuitClaims = readonly CircuitClaim[]

/** How many empty answers are too many (percent of so many at least): some questions have none, so more is put up with than of failures. */
const EMPTY = { errorThreshold: 50, minRequests: 10, consecutiveFailures: 0 } as const

export class Circuits {
  readonly #world: World
  readonly #tell: (news: GatewayEvent) => void
  readonly #states = new BoundedMap<CircuitState>(({ breaker, underWay }) => breaker.at !== 'closed' || underWay > 0)
  /** The rules for answers, made of these settings. */
  #answers: { readonly of: CircuitRules; readonly rules: CircuitRules } | null = null

  constructor(world: World, tell: (news: GatewayEvent) => void) {
    this.#world = world
    this.#tell = tell
  }

  /** Permission of all of a target's circuits, or which does not give it. */
  claim(target: Target, circuits: CircuitRules, how: AdmissionMode): CircuitClaims | CircuitRefusal {
    if (how === 'ignore') return []
    const now = this.#world.now()
    const span = Math.min(circuits.slowStart, circuits.resetTimeout)
    // First all are asked, then all are told: a circuit further out must not spend a probe on what one further in refuses.
    const claims: CircuitClaim[] = []
    const after: circuit.Breaker[] = []
    for (const [scope, id] of scopesOf(target)) {
      const state = this.#state(id)
      const rules = this.#rules(scope, circuits)
      const { breaker, closedAt, underWay } = state
      const answer = this.#asked(breaker, now, rules, how)
      const { pass } = answer
      if (!pass) return { why: 'circuit', until: answer.retryAt }
      const warm = closedAt + warmAfter(underWay, span)
      if (how === 'normal' && now < warm) return { why: 'warming', until: warm }
      claims.push({ scope, id, state, rules, pass })
      after.push(answer.breaker)
    }
    for (const [at, { scope, id, state, pass }] of claims.entries()) {
      this.#change(scope, id, state, after[at] ?? state.breaker, pass.early ? 'early probe' : 'time to probe')
      this.#states.set(id, state)
      state.underWay++
    }
    return claims
  }

  /** Whether a circuit that is not closed is known to refuse, without claiming anything. */
  refuses(target: Target, circuits: CircuitRules, how: AdmissionMode): CircuitRefusal | null {
    if (how === 'ignore') return null
    const now = this.#world.now()
    for (const [scope, id] of scopesOf(target)) {
      const breaker = this.#states.get(id)?.breaker
      // Nearly always; then nothing is made.
      if (!breaker || breaker.at === 'closed') continue
      const rules = this.#rules(scope, circuits)
      const { pass, retryAt } = this.#asked(breaker, now, rules, how)
      if (!pass) return { why: 'circuit', until: retryAt }
    }
    return null
  }

  #asked(breaker: circuit.Breaker, now: number, rules: CircuitRules, how: AdmissionMode) {
    const early = how === 'early' && circuit.phase(breaker, now, rules).at === 'open'
    return early ? circuit.admitEarly(breaker, now, rules) : circuit.admit(breaker, now, rules)
  }

  /**
   * First content came. Gives the claims as they are from now on: those of one time are alike, so that they are one list,
   * which is kept as long as an answer goes on.
   */
  commit(claims: CircuitClaims): CircuitClaims {
    const now = this.#world.now()
    const after: CircuitClaim[] = []
    for (const claim of claims) {
      const { scope, id, state, rules } = claim
      const { breaker, pass } = circuit.commit(state.breaker, claim.pass, now, rules)
      this.#change(scope, id, state, breaker, 'an answer came')
      after.push({ scope, id, state, rules, pass })
    }
    const last = after.at(-1)?.state
    if (!last) return after
    if (!last.booked || !areAlike(last.booked, after)) last.booked = after
    return last.booked
  }

  /** The answer is complete. */
  complete(claims: CircuitClaims): void {
    this.#end(claims, 'an answer completed', ({ state, pass, rules }, now) =>
      circuit.complete(state.breaker, pass, now, rules),
    )
  }

  /** It failed, and `counts` is charged for it. */
  failed(claims: CircuitClaims, counts: CircuitScope | null, why: string): void {
    this.#end(claims, why, ({ scope, state, pass, rules }, now) =>
      scope === counts
        ? circuit.failed(state.breaker, pass, now, rules)
        : circuit.withdraw(state.breaker, pass, now, rules),
    )
  }

  /** There is no verdict. */
  release(claims: CircuitClaims): void {
    this.#end(claims, 'no verdict', ({ state, pass, rules }, now) => circuit.release(state.breaker, pass, now, rules))
  }

  /**
   * What `claim` would say when nobody else is left, without claiming anything. Who is still warming up is asked then.
   */
  peek(target: Target, circuits: CircuitRules): CircuitRefusal | null {
    const how = PAST_OPEN[circuits.whenAllOpen]
    if (how === 'ignore') return null
    const now = this.#world.now()
    for (const [scope, id] of scopesOf(target)) {
      const breaker = this.#breaker(id)
      const rules = this.#rules(scope, circuits)
      if (circuit.phase(breaker, now, rules).at !== 'open') continue
      const { pass, retryAt } = this.#asked(breaker, now, rules, how)
      if (!pass) return { why: 'circuit', until: retryAt }
    }
    return null
  }

  /** Of a deployment, model or endpoint; of a deployment that of its empty answers, where that is not closed. */
  phase(id: string, rules: CircuitRules): Phase {
    const now = this.#world.now()
    const answers = circuit.phase(this.#breaker(answersId(id)), now, this.#rules('answers', rules))
    const own = circuit.phase(this.#breaker(id), now, rules)
    return own.at === 'open' || answers.at === 'closed' ? own : answers
  }

  counts(id: string, rules: CircuitRules): ReturnType<typeof circuit.counts> {
    return circuit.counts(this.#breaker(id), this.#world.now(), rules)
  }

  #end(claims: CircuitClaims, why: string, step: (claim: CircuitClaim, now: number) => circuit.Breaker): void {
    const now = this.#world.now()
    for (const claim of claims) {
      claim.state.underWay--
      this.#change(claim.scope, claim.id, claim.state, step(claim, now), why)
    }
  }

  #rules(scope: CircuitScope, circuits: CircuitRules): CircuitRules {
    if (scope !== 'answers') return circuits
    if (this.#answers?.of !== circuits) this.#answers = { of: circuits, rules: { ...circuits, ...EMPTY } }
    return this.#answers.rules
  }

  #state(id: string): CircuitState {
    return (
      this.#states.get(id) ?? {
        breaker: circuit.closed(),
        underWay: 0,
        closedAt: Number.NEGATIVE_INFINITY,
        booked: null,
      }
    )
  }

  #breaker(id: string): circuit.Breaker {
    return this.#states.get(id)?.breaker ?? circuit.closed()
  }

  #change(scope: CircuitScope, id: string, state: CircuitState, after: circuit.Breaker, why: string): void {
    const from = state.breaker.at
    state.breaker = after
    if (from === after.at) return
    if (after.at === 'closed') state.closedAt = this.#world.now()
    this.#tell({ event: 'circuit', what: scope, name: nameOf(id), from, to: after.at, why })
  }
}

const areAlike = (some: CircuitClaims, others: CircuitClaims): boolean =>
  some.length === others.length &&
  some.every(({ state, rules, pass }, at) => {
    const other = others[at]
    return other?.state === state && other.rules === rules && isSame(other.pass, pass)
  })

const isSame = (one: circuit.Pass, other: circuit.Pass): boolean =>
  one.gen === other.gen &&
  one.booked === other.booked &&
  one.slot === other.slot &&
  one.probe === other.probe &&
  one.early === other.early

/** The circuits a target passes, widest first. */
const scopesOf = (target: Target): readonly (readonly [CircuitScope, string])[] => {
  const names = namesOf(target)
  const before = scopes.get(names)
  if (before) return before
  const { deployment, model, endpoint } = names
  const made = [
    ['endpoint', endpoint],
    ['model', model],
    ['deployment', deployment],
    ['answers', answersId(deployment)],
  ] as const
  scopes.set(names, made)
  return made
}
const scopes = new WeakMap<Names, readonly (readonly [CircuitScope, string])[]>()

/** Ids of the three other kinds have one, two and three words, on one line. */
const ANSWERS = 'answers\n'
const answersId = (deployment: string): string => ANSWERS + deployment

/** An id as people read it; a model's name is the client's word and may be long. */
const nameOf = (id: string): string => {
  const name = id.startsWith(ANSWERS) ? id.slice(ANSWERS.length) : id
  return name.length > 200 ? `${name.slice(0, 200)}…` : name
}
