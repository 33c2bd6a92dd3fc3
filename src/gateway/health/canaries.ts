/**
 * The canaries of routes: their states, which all gateways share as decisions, and what this process has seen of their requests.
 * Each process judges by its own requests; one that stops a canary stops it for all.
 */
import type { CanaryRules, CanaryState } from '../../core/canary.ts'
import type { Config } from '../../core/config.ts'
import { type Failure, rowOf } from '../../core/failure.ts'
import { memoizeLast } from '../../core/memoize-last.ts'
import type { Route } from '../../core/route.ts'
import type { TraceSummary } from '../../core/trace-summary.ts'
import type { World } from '../../core/world.ts'
import { type CanaryCounts, NO_ARM, nextCanary, withRequest } from '../../policy/routing/canary.ts'
import { routeNamed } from '../../policy/routing/models.ts'

const NO_TARGET = { provider: '', model: '' }
const NOTHING: CanaryCounts = { canary: NO_ARM, others: NO_ARM, inStep: 0 }

export class Canaries {
  readonly #world: Pick<World, 'date'>
  #states: ReadonlyMap<string, CanaryState> = new Map()
  readonly #counts = new Map<string, { readonly state: CanaryState; readonly counts: CanaryCounts }>()
  readonly #first: CanaryState
  /** Stores a decision for all processes. */
  onDecision: (route: string, state: CanaryState) => void = () => {}

  constructor(world: Pick<World, 'date'>) {
    this.#world = world
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
    let counts = this.#countsOf(route.name, state)
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
    this.#counts.set(route.name, { state, counts })
    const next = nextCanary(route.canary, state, counts, this.#world.date())
    if (!next) return
    // Until the store has it for all.
    this.#states = new Map(this.#states).set(route.name, next)
    this.onDecision(route.name, next)
  }

  /** A new step counts its own requests; a canary that is resumed begins again. */
  #countsOf(route: string, state: CanaryState): CanaryCounts {
    const known = this.#counts.get(route)
    if (!known) return NOTHING
    if (known.state.since === state.since) return known.counts
    return state.step > known.state.step ? { ...known.counts, inStep: 0 } : NOTHING
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
