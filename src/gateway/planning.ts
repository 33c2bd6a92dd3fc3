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

/** `decide`: what kind of model is asked for. */
export const planFor = (gateway: Planner, config: Config, model: string, decide = plan): Outcome<Plan> =>
  decide({
    model,
    config,
    lists: gateway.lists(),
    catalogue: gateway.catalogue,
    view: { latency: (candidate) => gateway.board.slowness(candidate) },
    random: gateway.world.random,
  })

/** The order in which a candidate's keys are tried by this request: drawn once, the same for all its attempts. `question`: what may have a prompt cache; null: it has none. */
export const keyOrder = (
  { board, world }: Tools,
  { settings }: Config,
  question: Question | null,
): ((candidate: Candidate) => readonly ProviderKey[]) => {
  const drawn = new Map<Candidate, readonly ProviderKey[]>()
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
