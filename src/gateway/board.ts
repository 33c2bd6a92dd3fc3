/**
 * Everything the gateway remembers about its upstreams while it runs: circuits, cool-downs, load, speed. The rules are
 * pure functions in `policy/`; this is the one place that stores their results and tells when one changed.
 */
import type { UpstreamProtocolName } from '../core/chat.ts'
import type { News } from '../core/exchange.ts'
import { type Failure, rowOf } from '../core/failure.ts'
import type { HeaderLookup } from '../core/protocol.ts'
import type { Instance, ProviderKey } from '../core/provider.ts'
import type { Settings } from '../core/settings.ts'
import { type Candidate, deploymentId, endpointId, keyId, modelId, type Target } from '../core/target.ts'
import type { World } from '../core/world.ts'
import * as circuit from '../policy/breaker.ts'
import { type Budget, firstTry, mayRepeat, noTries } from '../policy/budget.ts'
import { type Gate, type GateWhy, isShut, onTrial, shut } from '../policy/gate.ts'
import { earn, hedgeAfter, noCredit, spend, type Wait, waited } from '../policy/hedge.ts'
import { cost, type Ewma, observe, quantiles } from '../policy/latency.ts'
import { shareLeft } from '../policy/quota.ts'

type Scope = 'deployment' | 'model' | 'endpoint'

/** Why a target may not be tried now. `until` in ms of the monotonic clock; null: nobody knows. */
export type Refusal = { readonly why: 'circuit' | GateWhy; readonly until: number | null }

/** `early`: past an open circuit, as its early probe if one is due. `ignore`: whatever the circuits say. Cool-downs always hold. */
export type Admission = 'normal' | 'early' | 'ignore'

/** An attempt's claim on its circuits and its key. The first of `done`, `failed` and `release` ends it; what comes after changes nothing. */
export type Ticket = {
  /** First content came (`ms` after the start): a success, unless it breaks off later. */
  commit(ms: number): void
  /** The answer is complete. */
  done(): void
  failed(failure: Failure): void
  /** No verdict: the client left, or the fault was nobody's health. */
  release(): void
}

/** How an answer comes: a stream opens at its first content, a whole answer at its end. */
type Way = 'streamed' | 'whole'

/** Permission of one circuit, to be handed back with the outcome. */
type Claim = readonly [Scope, string, circuit.Pass]

/** So many names are remembered at most: clients choose model names, and memory is bounded. */
const MOST = 10_000

/** The status page shows so many models of a provider at most. */
const MOST_MODELS = 200

/** The last so many times to first content are what the status page's quantiles are made of. */
const SAMPLES = 256

/** Quotas are of a minute, most of them: what was told before that (ms) says nothing any more. */
const TELLING = 60_000

/** Keys refused within so long (ms) of each other are refused together. */
const TOGETHER = 60_000

/** An endpoint that did not have a format is asked for it again after so long (ms): it may have been given a newer server. */
const BELIEVED = 600_000

/** A key whose rest is over is tried by one request: so long (ms) the others wait for what becomes of it. */
const TRIAL = 30_000

export class Board {
  readonly #world: World
  readonly #tell: (news: News) => void
  /** ms since 1970 at the monotonic clock's zero, as it was at the start. */
  readonly #epoch: number
  readonly #circuits = new Map<string, circuit.Breaker>()
  readonly #gates = new Map<string, Gate>()
  readonly #load = new Map<string, { inFlight: number; requests: number }>()
  readonly #speed = new Map<string, Ewma>()
  readonly #samples = new Map<string, readonly number[]>()
  readonly #budgets = new Map<string, Budget>()
  #credit = noCredit
  /** How long answers took to open, by provider, model and the way they come. */
  readonly #waits = new Map<string, readonly Wait[]>()
  readonly #errors = new Map<string, { readonly at: number; readonly failure: Failure }>()
  /** What the upstream last said is left of a key's quota, and when it said so. */
  readonly #left = new Map<string, { readonly share: number; readonly at: number }>()
  /** Models that were asked for, by instance. */
  readonly #asked = new Map<string, Set<string>>()
  /** Formats found missing at an endpoint, and until when (ms) that is believed. */
  readonly #lacking = new Map<string, Map<UpstreamProtocolName, number>>()
  #turn = 0

  constructor(world: World, tell: (news: News) => void) {
    this.#world = world
    this.#tell = tell
    this.#epoch = world.date() - world.now()
  }

  /** The format is not spoken at this endpoint, as it said itself. */
  lacks(instance: Instance, protocol: UpstreamProtocolName): void {
    const known = this.#lacking.get(endpointId(instance)) ?? new Map()
    this.#lacking.set(endpointId(instance), known.set(protocol, this.#world.now() + BELIEVED))
  }

  /** The formats that were found missing there. */
  lacking(instance: Instance): readonly UpstreamProtocolName[] {
    const known = this.#lacking.get(endpointId(instance))
    if (!known) return []
    const now = this.#world.now()
    return [...known].flatMap(([protocol, until]) => (until > now ? [protocol] : []))
  }

  /** A claim on the target, or why it may not be tried now. */
  admit(target: Target, settings: Settings, how: Admission): Ticket | Refusal {
    const closed = this.#shutGate(target)
    if (closed) return { why: closed.why, until: closed.until }
    const now = this.#world.now()
    const rules = settings.circuit
    // First all are asked, then all are told: a circuit further out must not spend a probe on what one further in refuses.
    const answers: [Scope, string, circuit.Admission][] = []
    if (how !== 'ignore')
      for (const [scope, id] of scopesOf(target)) {
        const before = this.#circuit(id)
        const early = how === 'early' && circuit.phase(before, now, rules).at === 'open'
        const answer = early ? circuit.admitEarly(before, now, rules) : circuit.admit(before, now, rules)
        if (!answer.pass) return { why: 'circuit', until: answer.retryAt }
        answers.push([scope, id, answer])
      }
    const passes = answers.flatMap(([scope, id, { breaker, pass }]): Claim[] => {
      this.#change(scope, id, breaker, pass?.early ? 'early probe' : 'time to probe')
      return pass ? [[scope, id, pass]] : []
    })
    for (const id of gatesOf(target)) {
      const gate = this.#gates.get(id)
      if (gate && TRIED_BY_ONE.has(gate.why)) this.#gates.set(id, onTrial(gate, now, TRIAL))
    }
    return this.#ticket(target, settings, passes)
  }

  #ticket(target: Target, settings: Settings, passes: readonly Claim[]): Ticket {
    const rules = settings.circuit
    const { instance } = target.candidate
    this.#seen(instance, target.candidate.model)
    const load = this.#loadOf(instance, target.key)
    load.inFlight++
    load.requests++
    let ended = false
    const each = (
      why: string,
      step: (breaker: circuit.Breaker, pass: circuit.Pass, scope: Scope) => circuit.Breaker,
    ) => {
      for (const [scope, id, pass] of passes) this.#change(scope, id, step(this.#circuit(id), pass, scope), why)
    }
    const end = () => {
      if (ended) return false
      ended = true
      load.inFlight--
      return true
    }
    return {
      commit: (ms) => {
        const now = this.#world.now()
        passes = passes.map(([scope, id, pass]) => {
          const after = circuit.commit(this.#circuit(id), pass, now, rules)
          this.#change(scope, id, after.breaker, 'an answer came')
          return [scope, id, after.pass]
        })
        // A cool-down that is over is forgotten, with its strikes. One begun since this attempt started still holds.
        for (const id of gatesOf(target)) {
          const gate = this.#gates.get(id)
          if (gate && gate.until <= now) this.#reopen(id, gate, target)
        }
        this.#remember(
          this.#speed,
          modelId(target.candidate),
          observe(this.#speed.get(modelId(target.candidate)), ms, now),
        )
        this.#remember(this.#samples, instance.id, [...(this.#samples.get(instance.id) ?? []).slice(1 - SAMPLES), ms])
      },
      done: () => {
        if (end())
          each('an answer completed', (breaker, pass) => circuit.complete(breaker, pass, this.#world.now(), rules))
      },
      failed: (failure) => {
        if (!end()) return
        const now = this.#world.now()
        const { counts, side } = rowOf(failure)
        if (side === 'upstream') this.#remember(this.#errors, instance.id, { at: this.#world.date(), failure })
        each(failure.kind, (breaker, pass, scope) =>
          scope === counts ? circuit.failed(breaker, pass, now, rules) : circuit.withdraw(breaker, pass, now, rules),
        )
        this.#cool(target, failure, now)
      },
      release: () => {
        if (!end()) return
        this.#endTrial(target)
        each('no verdict', (breaker, pass) => circuit.release(breaker, pass, this.#world.now(), rules))
      },
    }
  }

  /** Nothing was learnt: another request may try. */
  #endTrial(target: Target): void {
    for (const id of gatesOf(target)) {
      const gate = this.#gates.get(id)
      if (!gate?.trialUntil) continue
      const { trialUntil: _, ...rest } = gate
      this.#gates.set(id, rest)
    }
  }

  #reopen(id: string, gate: Gate, { candidate, key }: Target): void {
    this.#gates.delete(id)
    if (id === keyId(candidate.instance, key))
      this.#tell({
        event: 'key',
        provider: candidate.instance.id,
        key: key.id,
        from: gate.why,
        to: 'active',
        until: null,
      })
  }

  /** Cool-downs: separate from circuits, and never a matter of health. */
  #cool(target: Target, failure: Failure, now: number): void {
    const { candidate, key } = target
    const close = (id: string, why: GateWhy) => {
      const before = this.#gates.get(id)
      const series = why === 'suspended' && this.#allRefused(target, now) ? undefined : before
      const after = shut(series, why, now, failure.retryAfter, this.#world.random)
      this.#remember(this.#gates, id, after)
      if (id === keyId(candidate.instance, key) && before?.why !== after.why)
        this.#tell({
          event: 'key',
          provider: candidate.instance.id,
          key: key.id,
          from: before && isShut(before, now) ? before.why : 'active',
          to: after.why,
          until: this.#clock(after.until),
        })
    }
    switch (rowOf(failure).key) {
      case 'rate_limited':
        close(deploymentId(target), 'rate_limited')
        break
      case 'quota_exhausted':
        close(keyId(candidate.instance, key), 'quota_exhausted')
        break
      case 'suspended':
        close(keyId(candidate.instance, key), 'suspended')
        break
      case 'model_denied':
        close(deploymentId(target), 'model_denied')
        break
      case undefined:
        break
    }
    // Without a word from the upstream the circuit decides; a guess would keep it from ever seeing the next failure.
    if (failure.kind === 'overloaded' && failure.retryAfter !== undefined) close(modelId(candidate), 'overloaded')
    if (failure.kind === 'model_missing') close(modelId(candidate), 'model_missing')
    if (failure.kind === 'redirect') close(deploymentId(target), 'redirect')
    if (failure.kind === 'tls') close(endpointId(candidate.instance), 'tls')
  }

  /**
   * Every other key of the provider is refused as well: then its door is broken rather than the keys, and none of them is
   * disabled for longer. A key counts until it has had its turn to be tried again.
   */
  #allRefused({ candidate: { instance }, key }: Target, now: number): boolean {
    const others = instance.keys.filter(({ id }) => id !== key.id)
    return (
      others.length > 0 &&
      others.every((other) => {
        const gate = this.#gates.get(keyId(instance, other))
        return (gate?.why === 'suspended' || gate?.why === 'disabled') && now < gate.until + TOGETHER
      })
    )
  }

  #shutGate(target: Target): Gate | undefined {
    const now = this.#world.now()
    const { candidate, key } = target
    const ids = [
      keyId(candidate.instance, key),
      deploymentId(target),
      modelId(candidate),
      endpointId(candidate.instance),
    ]
    let longest: Gate | undefined
    for (const id of ids) {
      const gate = this.#gates.get(id)
      if (gate && isShut(gate, now) && gate.until > (longest?.until ?? 0)) longest = gate
    }
    return longest
  }

  /** What `admit` would say, without claiming anything: for plans that are only explained and for the status page. */
  peek(target: Target, settings: Settings): Refusal | null {
    const gate = this.#shutGate(target)
    if (gate) return { why: gate.why, until: gate.until }
    const now = this.#world.now()
    const rules = settings.circuit
    for (const [, id] of scopesOf(target)) {
      const breaker = this.#circuit(id)
      if (circuit.phase(breaker, now, rules).at !== 'open') continue
      const ask = rules.whenAllOpen === 'probe' ? circuit.admitEarly : circuit.admit
      const { pass, retryAt } = ask(breaker, now, rules)
      if (!pass) return { why: 'circuit', until: retryAt }
    }
    return null
  }

  /** The first attempt of a request at a provider: what its repeats are measured against. */
  firstTry(instance: Instance): void {
    this.#remember(this.#budgets, instance.id, firstTry(this.#budgets.get(instance.id) ?? noTries, this.#world.now()))
  }

  /** Whether the budget of repeats at this provider has room for one more of this client's (`''`: nobody's in particular); takes it if so. */
  mayRepeat(instance: Instance, settings: Settings, client: string): boolean {
    const { budgetPercent: percent, budgetFloor: floor } = settings.retry
    const budget = this.#budgets.get(instance.id) ?? noTries
    const answer = mayRepeat(budget, this.#world.now(), client, { percent, floor })
    this.#remember(this.#budgets, instance.id, answer.state)
    return answer.allowed
  }

  /** A request that could be hedged has come: it pays its share. */
  payForHedges(settings: Settings): void {
    this.#credit = earn(this.#credit, settings.hedge.percent)
  }

  /** Whether a request that this provider keeps waiting may be asked of another as well; takes what it costs if so. */
  mayHedge(late: Instance, settings: Settings, client: string): boolean {
    const left = spend(this.#credit)
    if (left === null || !this.mayRepeat(late, settings, client)) return false
    this.#credit = left
    return true
  }

  /** ms after which an answer from there is late. */
  hedgeAfter(candidate: Candidate, way: Way, settings: Settings): number {
    const waits = this.#waits.get(`${way} ${modelId(candidate)}`) ?? []
    return hedgeAfter(waits, this.#world.now(), settings.hedge.delay)
  }

  /** An answer that comes in this way opened there after so many ms. */
  waited(candidate: Candidate, way: Way, ms: number): void {
    const id = `${way} ${modelId(candidate)}`
    this.#remember(this.#waits, id, waited(this.#waits.get(id) ?? [], ms, this.#world.now()))
  }

  inFlight(instance: Instance, key: ProviderKey): number {
    return this.#load.get(keyId(instance, key))?.inFlight ?? 0
  }

  /** The upstream answered with these headers; what they say of the key's quota is kept. */
  heard({ candidate, key }: Target, headers: HeaderLookup): void {
    const share = shareLeft(headers)
    if (share !== undefined)
      this.#remember(this.#left, keyId(candidate.instance, key), { share, at: this.#world.now() })
  }

  /** Share of the key's quota that is left, from 1 to 0; undefined: not known, or told too long ago to be true still. */
  remaining(instance: Instance, key: ProviderKey): number | undefined {
    const told = this.#left.get(keyId(instance, key))
    return told && this.#world.now() - told.at < TELLING ? told.share : undefined
  }

  requests(instance: Instance, key: ProviderKey): number {
    return this.#load.get(keyId(instance, key))?.requests ?? 0
  }

  /** Expected cost in time of one more request there (peak-EWMA of first content × load). */
  slowness(candidate: Candidate): number {
    const busy = candidate.instance.keys.reduce((sum, key) => sum + this.inFlight(candidate.instance, key), 0)
    return cost(this.#speed.get(modelId(candidate)), busy, this.#world.now())
  }

  /** A number that differs at each call: whose turn it is. */
  turn(): number {
    this.#turn = (this.#turn + 1) % Number.MAX_SAFE_INTEGER
    return this.#turn
  }

  gate(id: string): Gate | undefined {
    const gate = this.#gates.get(id)
    return gate && isShut(gate, this.#world.now()) ? gate : undefined
  }

  phase(
    id: string,
    settings: Settings,
  ): { readonly at: 'closed' | 'open' | 'half_open'; readonly retryAt: number | null } {
    return circuit.phase(this.#circuit(id), this.#world.now(), settings.circuit)
  }

  counts(id: string, settings: Settings): ReturnType<typeof circuit.counts> {
    return circuit.counts(this.#circuit(id), this.#world.now(), settings.circuit)
  }

  /** Median and 95th percentile in ms, over the last answers of the provider; empty before the first. */
  firstContent(instance: Instance): readonly number[] {
    return quantiles(this.#samples.get(instance.id) ?? [], [0.5, 0.95])
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
    return [...(this.#asked.get(instance.id) ?? [])]
  }

  #seen(instance: Instance, model: string): void {
    const models = this.#asked.get(instance.id) ?? new Set()
    models.delete(model)
    models.add(model)
    const [oldest] = models
    if (models.size > MOST_MODELS && oldest !== undefined) models.delete(oldest)
    this.#asked.set(instance.id, models)
  }

  #circuit(id: string): circuit.Breaker {
    return this.#circuits.get(id) ?? circuit.closed()
  }

  #store(id: string, breaker: circuit.Breaker): void {
    this.#remember(this.#circuits, id, breaker)
  }

  #change(scope: Scope, id: string, after: circuit.Breaker, why: string): void {
    const before = this.#circuits.get(id)
    this.#store(id, after)
    const from = before?.at ?? 'closed'
    if (from === after.at) return
    this.#tell({ event: 'circuit', what: scope, name: nameOf(id), from, to: after.at, why })
  }

  #loadOf(instance: Instance, key: ProviderKey): { inFlight: number; requests: number } {
    const id = keyId(instance, key)
    const load = this.#load.get(id) ?? { inFlight: 0, requests: 0 }
    this.#load.set(id, load)
    return load
  }

  /** Keeps the newest names; what has not been touched longest is forgotten first. */
  #remember<T>(map: Map<string, T>, id: string, value: T): void {
    map.delete(id)
    map.set(id, value)
    if (map.size <= MOST) return
    const oldest = map.keys().next()
    if (!oldest.done) map.delete(oldest.value)
  }
}

/** The circuits a target passes, widest first. Ids of the three kinds never meet: they have one, two and three words. */
const scopesOf = (target: Target): [Scope, string][] => [
  ['endpoint', endpointId(target.candidate.instance)],
  ['model', modelId(target.candidate)],
  ['deployment', deploymentId(target)],
]

/** Whose cool-downs a target has to mind. */
const gatesOf = (target: Target): readonly string[] => {
  const { candidate, key } = target
  return [keyId(candidate.instance, key), deploymentId(target), modelId(candidate), endpointId(candidate.instance)]
}

/** What costs a failed attempt to find out is found out by one request, not by all that wait. */
const TRIED_BY_ONE: ReadonlySet<GateWhy> = new Set(['quota_exhausted', 'suspended', 'disabled'])

/** An id as people read it; a model's name is the client's word and may be long. */
const nameOf = (id: string): string => (id.length > 200 ? `${id.slice(0, 200)}…` : id)
