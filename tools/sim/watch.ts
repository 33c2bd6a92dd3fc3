/** Checks the gateway's health state: every permit, refusal and count is compared with the upstream scripts and a reference. */
import { type Failure, rowOf } from '../../src/core/failure.ts'
import type { Settings } from '../../src/core/settings.ts'
import { deploymentId, endpointId, keyId, modelId, type Target } from '../../src/core/target.ts'
import type { World } from '../../src/core/world.ts'
import {
  type AdmissionMode,
  type AttemptPermit,
  type TargetRefusal,
  UpstreamHealth,
} from '../../src/gateway/health/upstream-health.ts'
import type { HeldPermit, Scopes } from './dialed.ts'
import type { Breach, InvariantNumber } from './invariants.ts'
import { ReferenceCircuit, type ReferenceToken } from './reference.ts'
import { RetryWatch } from './retry-watch.ts'

export type HealthClass = new (...given: ConstructorParameters<typeof UpstreamHealth>) => UpstreamHealth

type Admission = {
  readonly health: UpstreamHealth
  readonly target: Target
  readonly settings: Settings
  readonly how: AdmissionMode
}

export class Watch {
  readonly breaches: Breach[] = []
  readonly #now: () => number
  readonly #circuits = new Map<string, ReferenceCircuit>()
  /** Retry times that upstreams requested, by deployment or model. */
  readonly retryTimes = new Map<string, number>()
  /** Everything that ever had a cause for a cooldown. */
  readonly troubled = new Set<string>()
  readonly retries: RetryWatch
  readonly #inFlight = new Map<string, number>()
  /** Permits without a call, in order: an attempt is recorded before it is sent. */
  #waiting: HeldPermit[] = []
  open = 0
  /** Records a situation for the coverage. */
  readonly seen: (what: string) => void

  constructor(now: () => number, seen: (what: string) => void) {
    this.#now = now
    this.retries = new RetryWatch(now, (what) => this.breach(12, what))
    this.seen = seen
  }

  breach(invariant: InvariantNumber, what: string): void {
    this.breaches.push({ invariant, at: this.#now(), what })
  }

  circuit(id: string, settings: Settings): ReferenceCircuit {
    const known = this.#circuits.get(id)
    if (known) return known
    const made = new ReferenceCircuit(id.startsWith(ANSWERS) ? { ...settings.circuit, ...EMPTY } : settings.circuit)
    this.#circuits.set(id, made)
    return made
  }

  get circuits(): ReadonlyMap<string, ReferenceCircuit> {
    return this.#circuits
  }

  admitted({ health, target, settings, how }: Admission, permit: AttemptPermit): AttemptPermit {
    const now = this.#now()
    const scopes = scopesOf(target)
    const tokens: ReferenceToken[] = []
    if (how !== 'ignore')
      for (const id of scopes) {
        const circuit = this.circuit(id, settings)
        const wasOpen = circuit.reads(now) === 'open'
        const token = circuit.admit(now, how === 'early' && wasOpen)
        if (!token) {
          this.breach(8, `${id} is ${circuit.at} but admitted an attempt (${how})`)
          continue
        }
        if (token.kind === 'early') this.seen('circuit: early probe')
        if (how === 'normal' && circuit.isWarming(now))
          this.breach(8, `${id} is in slow start with ${circuit.inFlight} in flight, but admitted another`)
        circuit.inFlight++
        tokens.push(token)
      }
    for (const id of [scopes[1], scopes[2]]) {
      const until = this.retryTimes.get(id)
      if (until !== undefined && now < until - SLACK)
        this.breach(6, `${id} was called ${Math.round(until - now)} ms before its retry time`)
    }
    const claim: HeldPermit = { target, scopes, how, tokens, dial: null, hasOpened: false, over: false }
    this.#waiting = [...this.#waiting.filter(({ over }) => !over), claim]
    this.open++
    this.#load(health, target, 1)
    this.#compare(health, claim, settings)
    return this.#watched(health, claim, settings, permit)
  }

  /** The permit to which a call at this target belongs. */
  claimOf(provider: string, key: string, model: string): HeldPermit | null {
    const claim = this.#waiting.find(
      ({ over, target: { candidate, key: own } }) =>
        !over && candidate.instance.id === provider && own.id === key && candidate.model === model,
    )
    this.#waiting = this.#waiting.filter((one) => one !== claim)
    return claim ?? null
  }

  refused(target: Target, settings: Settings, how: AdmissionMode, { why }: TargetRefusal): void {
    const now = this.#now()
    const scopes = scopesOf(target)
    this.seen(`refusal: ${why}`)
    if (why === 'warming') {
      if (how !== 'normal' || !scopes.some((id) => this.circuit(id, settings).isWarming(now)))
        this.breach(11, `${scopes[2]} was refused for slow start (${how}), but none of its circuits is in slow start`)
      return
    }
    if (why === 'circuit') {
      const reason = scopes.some((id) => {
        const circuit = this.circuit(id, settings)
        return !circuit.wouldAdmit(now, how === 'early' && circuit.reads(now) === 'open')
      })
      if (!reason) this.breach(11, `${scopes[2]} was refused for its circuits, but all would admit it`)
    } else if (!cooldownIds(target).some((id) => this.troubled.has(id)))
      this.breach(7, `${scopes[2]} is in cooldown (${why}) without a cause`)
  }

  #watched(health: UpstreamHealth, claim: HeldPermit, settings: Settings, permit: AttemptPermit): AttemptPermit {
    const { target, scopes, tokens } = claim
    const each = (run: (circuit: ReferenceCircuit, token: ReferenceToken, scope: Scope) => void) => {
      if (tokens.length < scopes.length) return
      for (const [at, scope] of SCOPES.entries()) {
        const id = scopes[at]
        const token = tokens[at]
        if (id !== undefined && token) run(this.circuit(id, settings), token, scope)
      }
    }
    const end = () => {
      if (claim.over) return false
      claim.over = true
      this.open--
      each((circuit) => void circuit.inFlight--)
      return true
    }
    const after = () => this.#compare(health, claim, settings)
    return {
      isProbe: permit.isProbe,
      commit: (ms) => {
        permit.commit(ms)
        claim.hasOpened = true
        each((circuit, token) => circuit.commit(token, this.#now()))
        after()
      },
      done: () => {
        permit.done()
        if (!end()) return
        this.#load(health, target, -1)
        each((circuit, token) => circuit.done(token, this.#now()))
        after()
      },
      failed: (failure) => {
        const first = !claim.over
        const before = first ? this.#before(health, claim, settings, failure) : null
        permit.failed(failure)
        if (!end()) return
        const { charges: counts } = rowOf(failure)
        each((circuit, token, scope) =>
          scope === counts ? circuit.failed(token, this.#now()) : circuit.withdraw(token),
        )
        this.#load(health, target, -1)
        before?.()
        after()
      },
      release: () => {
        permit.release()
        if (!end()) return
        this.#load(health, target, -1)
        each((circuit, token) => circuit.release(token))
        after()
      },
    }
  }

  /** Records what the outcome must not change; the returned function compares afterwards. */
  #before(health: UpstreamHealth, claim: HeldPermit, settings: Settings, failure: Failure): () => void {
    const { target, scopes, dial } = claim
    this.seen(`failure: ${failure.kind}`)
    const startsCooldown = COOLDOWN_CAUSES.has(failure.kind) || rowOf(failure).key !== undefined
    if (!dial) {
      this.breach(14, `an outcome (${failure.kind}) for an attempt at ${scopes[2]} that was never made`)
      return () => {}
    }
    const { script } = dial
    const { meaning } = script
    const own = failure.kind === 'deadline' || failure.kind === 'shutdown'
    if (meaning === 'answer' && script.complete && !own && (dial.stream ? dial.finished : dial.sent))
      this.breach(
        13,
        `attempt ${dial.tag} completed its response (${dial.mode}) but counted as ${failure.kind}: ${failure.message}`,
      )
    if (!dial.sent) {
      if (startsCooldown && !own)
        this.breach(7, `attempt ${dial.tag} (${dial.mode}) had sent nothing but counted as ${failure.kind}`)
      return () => {}
    }
    if (startsCooldown) for (const id of cooldownIds(target)) this.troubled.add(id)
    if (script.wait !== null && dial.headAt !== null) {
      const id = meaning === 'rate' ? scopes[2] : scopes[1]
      this.retryTimes.set(id, Math.max(this.retryTimes.get(id) ?? 0, dial.headAt + script.wait))
    }
    if (!NEUTRAL_MEANINGS.has(meaning) || own) return () => {}
    // The circuit for empty responses is excluded: it may change.
    const counts = () => JSON.stringify(scopes.slice(0, 3).map((id) => health.circuits.counts(id, settings.circuit)))
    const siblings = siblingsOf(target)
    const rests = () => JSON.stringify(siblings.flatMap(cooldownIds).map((id) => health.cooldowns.of(id) ?? null))
    // A target whose cooldown ends with this attempt may be used by others again.
    const now = this.#now()
    const targetRests = () =>
      JSON.stringify(cooldownIds(target).map((id) => Math.max(now, health.cooldowns.of(id)?.until ?? now)))
    const [countsBefore, restsBefore, ownBefore] = [counts(), keyBound(meaning) ? rests() : '', targetRests()]
    return () => {
      const blameless = meaning === 'request' || meaning === 'policy' || meaning === 'context'
      if (counts() !== countsBefore)
        this.breach(
          blameless ? 5 : meaning === 'rate' ? 6 : 7,
          `${scopes[2]}: ${meaning} changed counts from ${countsBefore} to ${counts()}`,
        )
      if (blameless && targetRests() !== ownBefore) this.breach(5, `${scopes[2]}: ${meaning} started a cooldown`)
      if (keyBound(meaning) && rests() !== restsBefore)
        this.breach(7, `${scopes[2]}: ${meaning} changed other keys from ${restsBefore} to ${rests()}`)
    }
  }

  #compare(health: UpstreamHealth, { scopes }: HeldPermit, settings: Settings): void {
    const now = this.#now()
    for (const id of scopes) {
      const circuit = this.circuit(id, settings)
      const phase = health.circuits.phase(id, settings.circuit).state
      const reads = this.#reads(id, settings, now)
      if (phase !== reads) {
        this.breach(phase === 'closed' || reads === 'closed' ? 11 : 9, `${id} is ${phase}, expected ${reads}`)
        continue
      }
      if (circuit.at !== 'closed') continue
      const { successes, failures } = health.circuits.counts(id, settings.circuit)
      const { ok, bad } = circuit.counts(now)
      if (successes !== ok || failures !== bad)
        this.breach(9, `${id} counts ${successes} successes and ${failures} failures, expected ${ok} and ${bad}`)
    }
  }

  /** The expected state of a circuit. A deployment with empty responses has the state of their circuit. */
  #reads(id: string, settings: Settings, now: number): string {
    const own = this.circuit(id, settings).reads(now)
    if (own === 'open' || !id.includes(' ')) return own
    const answers = this.#circuits.get(ANSWERS + id)?.reads(now) ?? 'closed'
    return answers === 'closed' ? own : answers
  }

  #load(health: UpstreamHealth, { candidate: { instance }, key }: Target, change: number): void {
    const id = keyId(instance, key)
    const load = (this.#inFlight.get(id) ?? 0) + change
    this.#inFlight.set(id, load)
    if (health.load.inFlight(instance, key) !== load)
      this.breach(14, `${id} has ${health.load.inFlight(instance, key)} calls in flight, expected ${load}`)
  }
}

/** Tolerance in ms for rounding of fractions. */
const SLACK = 0.001

/** The circuits of a target, in the order of `Scopes`. */
const SCOPES = ['endpoint', 'model', 'deployment', 'answers'] as const
type Scope = (typeof SCOPES)[number]

/** Prefix of the circuit for a deployment's empty responses, which has separate rules. */
const ANSWERS = 'answers\n'
const EMPTY = { errorThreshold: 50, minRequests: 10, consecutiveFailures: 0 } as const

export const scopesOf = (target: Target): Scopes => [
  endpointId(target.candidate.instance),
  modelId(target.candidate),
  deploymentId(target),
  ANSWERS + deploymentId(target),
]
/** The IDs whose cooldown excludes a target. */
export const cooldownIds = (target: Target): readonly string[] => [
  keyId(target.candidate.instance, target.key),
  deploymentId(target),
  modelId(target.candidate),
  endpointId(target.candidate.instance),
]
const siblingsOf = ({ candidate, key }: Target): readonly Target[] =>
  candidate.instance.keys.filter(({ id }) => id !== key.id).map((other) => ({ candidate, key: other }))

/** Failures other than those of a key that start a cooldown. */
const COOLDOWN_CAUSES = new Set(['overloaded', 'model_missing', 'redirect', 'tls'])
/** Meanings that count against no circuit. */
const NEUTRAL_MEANINGS = new Set([
  'rate',
  'quota',
  'auth',
  'denied',
  'missing',
  'request',
  'policy',
  'context',
  'conflict',
  'empty',
])
const keyBound = (meaning: string): boolean => meaning === 'auth' || meaning === 'quota'

/** `Base` with checks around each decision. */
export const watched = (Base: HealthClass, watch: Watch): HealthClass =>
  class extends Base {
    override admit(target: Target, settings: Settings, how: AdmissionMode): AttemptPermit | TargetRefusal {
      const answer = super.admit(target, settings, how)
      if (!('why' in answer)) return watch.admitted({ health: this, target, settings, how }, answer)
      watch.refused(target, settings, how, answer)
      return answer
    }
    override firstTry(...given: Parameters<UpstreamHealth['firstTry']>): void {
      super.firstTry(...given)
      watch.retries.firstTry(given[0])
    }
    override mayRepeat(...given: Parameters<UpstreamHealth['mayRepeat']>): boolean {
      const allowed = super.mayRepeat(...given)
      watch.retries.retryRequested(given[0], given[1], allowed)
      return allowed
    }
  }

export const checkedHealth = (
  Base: HealthClass,
  watch: Watch,
  world: World,
  emit: ConstructorParameters<typeof UpstreamHealth>[1],
): UpstreamHealth => new (watched(Base, watch))(world, emit)

export const realHealth: HealthClass = UpstreamHealth
