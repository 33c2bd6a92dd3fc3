/**
 * The canaries of routes: their states, which all gateways share as decisions, and the counts of their requests. Each process judges by
 * its own counts and by those that others have sent; one that stops a canary stops it for all.
 */
import type { CanaryRules, CanaryState } from '../../core/canary.ts'
import type { Config } from '../../core/config.ts'
import { type Failure, rowOf } from '../../core/failure.ts'
import { memoizeLast } from '../../core/memoize-last.ts'
import type { Route } from '../../core/route.ts'
import type { TraceSummary } from '../../core/trace-summary.ts'
import type { World } from '../../core/world.ts'
import { type CanaryCounts, joinedCanary, NO_ARM, nextCanary, withRequest } from '../../policy/routing/canary.ts'
import { routeNamed } from '../../policy/routing/models.ts'
import type { HealthHint } from './health-hint.ts'

const NO_TARGET = { provider: '', model: '' }
const NOTHING: CanaryCounts = { canary: NO_ARM, others: NO_ARM, inStep: 0 }

/** ms between two messages about a route. */
const TELL = 1_000
/** Processes whose counts are kept for each route. */
const MAX_PROCESSES = 256
/** ms between two decisions of processes that have seen the same counts: both begin the same step. */
const SAME_STEP = 5_000

type CanaryHint = Extract<HealthHint, { readonly kind: 'canary' }>
/** `others`: of other processes, by their names. */
type KnownCounts = {
  readonly state: CanaryState
  readonly counts: CanaryCounts
  readonly others: ReadonlyMap<string, CanaryCounts>
}

export class Canaries {
  readonly #world: Pick<World, 'date' | 'random' | 'later'>
  readonly #tell: (hint: CanaryHint) => void
  /** The name of this process for the others. */
  readonly #name: string
  #states: ReadonlyMap<string, CanaryState> = new Map()
  readonly #counts = new Map<string, KnownCounts>()
  readonly #first: CanaryState
  /** When the last step began that this process has decided, by route. */
  readonly #begun = new Map<string, number>()
  /** Routes whose counts are sent next. */
  readonly #changed = new Set<string>()
  /** Stores a decision for all processes. */
  onDecision: (route: string, state: CanaryState) => void = () => {}

  /** `tell`: receives the counts that other processes should know. */
  constructor(world: Pick<World, 'date' | 'random' | 'later'>, tell: (hint: CanaryHint) => void = () => {}) {
    this.#world = world
    this.#tell = tell
    this.#name = world.random().toString(36).slice(2)
    this.#first = { status: 'running', step: 0, since: world.date(), reason: '' }
  }

  /** Replaces what is decided, by the name of the route. */
  decide(states: ReadonlyMap<string, CanaryState>): void {
    this.#states = states
  }

  stateOf(route: string): CanaryState {
    return this.#states.get(route) ?? this.#first
  }

  /** The canaries of the configuration that are stopped. */
  stopped({ routes }: Pick<Config, 'routes'>) {
    return [...routes.values()].flatMap(({ name, canary }) => {
      const { status, since, reason } = this.stateOf(name)
      return canary && status === 'stopped' ? [{ route: name, since, reason }] : []
    })
  }

  /** Counts the attempts of a request that named a route with a canary, and decides. */
  observe(config: Pick<Config, 'routes'>, summary: TraceSummary): void {
    const { model, attempts, outcome, failure, shared, skipped } = summary
    if (shared || !hasCanaries(config.routes)) return
    const route = routeNamed(config, model)
    if (!route?.canary) return
    const state = this.stateOf(route.name)
    if (state.status === 'stopped') return
    const known = this.#countsOf(route.name, state)
    let { counts } = known
    for (const { provider, model, end, settled, began, failure: own } of attempts) {
      // Without a verdict: it was cancelled, or its client left.
      if (end === 'abandoned' || end === 'pending') continue
      const broke = end === 'committed' && outcome === 'interrupted' ? failure : own
      const firstContent = end === 'failed' || settled === undefined ? null : settled - began
      const isFailed = broke !== undefined && isFault(broke)
      counts = counted(route, route.canary, counts, { provider, model, isFailed, firstContent })
    }
    // An open circuit has seen the faults that this request would have met.
    const open = Map.groupBy(skipped, ({ provider, model, why }) => (why === 'circuit' ? `${provider} ${model}` : ''))
    for (const [name, [{ provider, model } = NO_TARGET]] of open)
      if (name !== '')
        counts = counted(route, route.canary, counts, { provider, model, isFailed: true, firstContent: null })
    this.#counts.set(route.name, { ...known, counts })
    this.#tellSoon(route.name)
    const all = known.others.size === 0 ? counts : joinedCanary([counts, ...known.others.values()])
    const next = nextCanary(route.canary, state, all, this.#world.date())
    if (!next) return
    if (next.status === 'running') this.#begun.set(route.name, next.since)
    // Until the store has it for all.
    this.#states = new Map(this.#states).set(route.name, next)
    this.onDecision(route.name, next)
  }

  /** What another process has counted. Counts of another state are sent again once both have the same. */
  learn({ id, from, since, counts }: CanaryHint): void {
    const state = this.stateOf(id)
    if (from === this.#name || since !== this.#sinceOf(id)) return
    const known = this.#countsOf(id, state)
    if (known.others.size >= MAX_PROCESSES && !known.others.has(from)) return
    this.#counts.set(id, { ...known, others: new Map(known.others).set(from, counts) })
  }

  /** When the state began; 0: nothing is decided yet, so processes have not stored when they began. */
  #sinceOf(route: string): number {
    return this.#states.get(route)?.since ?? 0
  }

  #tellSoon(route: string): void {
    if (this.#changed.size === 0) this.#world.later(TELL, () => this.#tellNow())
    this.#changed.add(route)
  }

  #tellNow(): void {
    for (const route of this.#changed) {
      const { counts } = this.#countsOf(route, this.stateOf(route))
      this.#tell({ kind: 'canary', id: route, from: this.#name, since: this.#sinceOf(route), counts })
    }
    this.#changed.clear()
  }

  /** A new step counts its own requests; a canary that is resumed begins again. */
  #countsOf(route: string, state: CanaryState): KnownCounts {
    const known = this.#counts.get(route)
    if (!known) return { state, counts: NOTHING, others: new Map() }
    const { step, since } = known.state
    if (since === state.since) return known
    const isOwnStep = this.#begun.get(route) === since
    if (isOwnStep && state.step === step && Math.abs(state.since - since) < SAME_STEP) return { ...known, state }
    if (state.step <= step) return { state, counts: NOTHING, others: new Map() }
    const begun = (counts: CanaryCounts): CanaryCounts => ({ ...counts, inStep: 0 })
    const others = new Map(Array.from(known.others, ([from, counts]) => [from, begun(counts)]))
    return { state, counts: begun(known.counts), others }
  }
}

const hasCanaries = memoizeLast((routes: Config['routes']) =>
  routes.values().some(({ canary }) => canary !== undefined),
)

/** `firstContent`: ms; null: it had none. */
type TargetOutcome = {
  readonly provider: string
  readonly model: string
  readonly isFailed: boolean
  readonly firstContent: number | null
}

const counted = (
  { targets }: Route,
  { target }: CanaryRules,
  counts: CanaryCounts,
  { provider, model, isFailed, firstContent }: TargetOutcome,
): CanaryCounts => {
  const at = targets.findIndex((one) => one.provider === provider && (one.model ?? model) === model)
  if (at === -1) return counts
  if (at !== target) return { ...counts, others: withRequest(counts.others, isFailed, firstContent) }
  return { ...counts, canary: withRequest(counts.canary, isFailed, firstContent), inStep: counts.inStep + 1 }
}

/** A failure of the target, also if it refuses what others may take: a canary that lacks the model or a feature fails too. */
const isFault = (failure: Failure): boolean => {
  const { side, excludes } = rowOf(failure)
  return side === 'upstream' || (side === 'client' && excludes === 'model')
}
