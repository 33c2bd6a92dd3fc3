/** Asks the policies for a plan and for the order of keys, with what the board knows at this moment. */
import type { Config } from '../../core/config.ts'
import { good, type Outcome } from '../../core/failure.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { affinityOf } from '../../policy/routing/affinity.ts'
import { orderKeys } from '../../policy/routing/order.ts'
import { draft, isSettled, type Moment, type PlanDraft, settle, type Wanted } from '../../policy/routing/plan.ts'
import type { RouterDeps } from '../gateway.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

export type Planner = RouterDeps & { readonly lists: () => ReadonlyMap<string, readonly string[]> }

/** What is known of a name: `plan`, where every request of it has the same. */
type Decided = { readonly draft: PlanDraft; readonly plan: Plan | null }

/** Forgotten with the configuration. */
type Kept = {
  readonly lists: ReturnType<Planner['lists']>
  readonly catalogue: Planner['catalogue']
  /** By the names of routes, which are the operator's words. */
  readonly routes: Map<string, Decided>
  /** By other names, which are the client's. */
  readonly others: Map<string, Decided>
}
type Drafting = (wanted: Wanted) => Outcome<PlanDraft>
const kept = new WeakMap<Config, Map<Drafting, Kept>>()

/** So many names of so many characters at most are kept of those that clients choose; the oldest make room. */
const MOST_NAMES = 1_000
const LONGEST_NAME = 200

/** Every provider stands in every plan as a last resort: so many candidates are kept, up to 300 bytes each. */
const MOST_CANDIDATES = 200_000

/** `drafting`: by what kind of model is asked for. */
export const planFor = (gateway: Planner, config: Config, model: string, drafting: Drafting = draft): Outcome<Plan> => {
  const { catalogue } = gateway
  const lists = gateway.lists()
  const { routes, others } = keptFor(config, drafting, lists, catalogue)
  const isRoute = config.routes.has(model)
  const names = isRoute ? routes : others
  const known = names.get(model)
  if (known) return good(known.plan ?? settle(known.draft, momentOf(gateway)))
  const made = drafting({ model, config, lists, catalogue })
  if (!made.ok) return made
  const plan = settle(made.value, momentOf(gateway))
  const fitting = MOST_CANDIDATES / Math.max(1, config.instances.length)
  const most = isRoute ? fitting : Math.min(MOST_NAMES, fitting)
  if (isRoute || model.length <= LONGEST_NAME) {
    names.set(model, { draft: made.value, plan: isSettled(made.value) ? plan : null })
    const [oldest] = names.size > most ? names.keys() : []
    if (oldest !== undefined) names.delete(oldest)
  }
  return good(plan)
}

const momentOf = ({ catalogue, health: board, world }: Planner): Moment => ({
  catalogue,
  view: { latency: (candidate) => board.slowness(candidate) },
  random: world.random,
})

const keptFor = (config: Config, drafting: Drafting, lists: Kept['lists'], catalogue: Kept['catalogue']): Kept => {
  const kinds = kept.get(config) ?? new Map<Drafting, Kept>()
  const known = kinds.get(drafting)
  if (known && known.lists === lists && known.catalogue === catalogue) return known
  const fresh: Kept = { lists, catalogue, routes: new Map(), others: new Map() }
  kept.set(config, kinds.set(drafting, fresh))
  return fresh
}

/** The order in which a candidate's keys are tried by this request: drawn once, when it is first asked for, the same for all its attempts. `question`: what may have a prompt cache; null: it has none. */
export const keyOrder = (
  { health: board, world }: RouterDeps,
  { settings }: Config,
  question: InboundRequest | null,
): ((candidate: Candidate) => Iterable<ProviderKey>) => {
  const drawn = new Map<Candidate, Iterable<ProviderKey>>()
  const turn = settings.keyStrategy === 'round-robin' ? board.turn() : 0
  const affinity = question && settings.keyStrategy === 'sticky' ? affinityOf(question.request) : undefined
  return (candidate) => {
    const { instance } = candidate
    // There is nothing to draw, and a plan may have hundreds of candidates.
    if (instance.keys.length < 2) return instance.keys
    const known = drawn.get(candidate)
    if (known) return known
    const view = {
      inFlight: (key: ProviderKey) => board.inFlight(instance, key),
      busy: () => board.busy(instance),
      left: (key: ProviderKey) => board.remainingLimit({ candidate, key }),
      turn,
      ...(affinity !== undefined && { affinity }),
    }
    const keys = orderKeys(instance.keys, settings.keyStrategy, view, world.random)
    drawn.set(candidate, keys)
    return keys
  }
}
