/** Asks the policies for a plan and for the order of keys, with what the board knows at this moment. */
import type { Config } from '../core/config.ts'
import type { Outcome } from '../core/failure.ts'
import type { ProviderKey } from '../core/provider.ts'
import type { Candidate, Plan } from '../core/target.ts'
import { affinityOf } from '../policy/affinity.ts'
import { orderKeys } from '../policy/order.ts'
import { plan } from '../policy/plan.ts'
import type { Tools } from './first-to-open.ts'
import type { Question } from './prepare.ts'

export type Planner = Tools & { readonly lists: () => ReadonlyMap<string, readonly string[]> }

/** Plans for which nothing was drawn and no speed was looked at, by what else decides them. Forgotten with the configuration. */
type Decided = {
  readonly lists: ReturnType<Planner['lists']>
  readonly catalogue: Planner['catalogue']
  readonly plans: Map<string, Outcome<Plan>>
}
const decided = new WeakMap<Config, Map<typeof plan, Decided>>()

/** Names are the client's words: so many of so many characters are kept. */
const MOST_PLANS = 1_000
const LONGEST_NAME = 200

/** `decide`: what kind of model is asked for. */
export const planFor = (gateway: Planner, config: Config, model: string, decide = plan): Outcome<Plan> => {
  const { catalogue, board, world } = gateway
  const lists = gateway.lists()
  const known = decidedFor(config, decide, lists, catalogue)
  const before = known.plans.get(model)
  if (before) return before
  let settled = true
  const made = decide({
    model,
    config,
    lists,
    catalogue,
    view: {
      latency: (candidate) => {
        settled = false
        return board.slowness(candidate)
      },
    },
    random: () => {
      settled = false
      return world.random()
    },
  })
  if (settled && made.ok && model.length <= LONGEST_NAME) {
    if (known.plans.size >= MOST_PLANS) known.plans.clear()
    known.plans.set(model, made)
  }
  return made
}

const decidedFor = (
  config: Config,
  decide: typeof plan,
  lists: Decided['lists'],
  catalogue: Decided['catalogue'],
): Decided => {
  const kinds = decided.get(config) ?? new Map<typeof plan, Decided>()
  decided.set(config, kinds)
  const known = kinds.get(decide)
  if (known && known.lists === lists && known.catalogue === catalogue) return known
  const fresh: Decided = { lists, catalogue, plans: new Map() }
  kinds.set(decide, fresh)
  return fresh
}

/** The order in which a candidate's keys are tried by this request: drawn once, when it is first asked for, the same for all its attempts. `question`: what may have a prompt cache; null: it has none. */
export const keyOrder = (
  { board, world }: Tools,
  { settings }: Config,
  question: Question | null,
): ((candidate: Candidate) => Iterable<ProviderKey>) => {
  const drawn = new Map<Candidate, Iterable<ProviderKey>>()
  const turn = settings.keyStrategy === 'round-robin' ? board.turn() : 0
  const affinity = question && settings.keyStrategy === 'sticky' ? affinityOf(question.request) : undefined
  return (candidate) => {
    const known = drawn.get(candidate)
    if (known) return known
    const { instance } = candidate
    const view = {
      inFlight: (key: ProviderKey) => board.inFlight(instance, key),
      left: (key: ProviderKey) => board.left({ candidate, key }),
      turn,
      ...(affinity !== undefined && { affinity }),
    }
    const keys = orderKeys(instance.keys, settings.keyStrategy, view, world.random)
    drawn.set(candidate, keys)
    return keys
  }
}
