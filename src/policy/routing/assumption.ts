/** What is assumed of the providers when a plan is explained: "what if this one is down". */
import type { Config } from '../../core/config.ts'
import type { Target } from '../../core/target.ts'

export type Assumption = {
  /** IDs of providers that do not respond. */
  readonly down: readonly string[]
  /** IDs of providers, or of their keys (`openai#a1f3`), that are at their rate limit. */
  readonly limited: readonly string[]
  /** IDs of providers that are not configured. */
  readonly without: readonly string[]
}

/** The present state. */
export const NO_ASSUMPTION: Assumption = { down: [], limited: [], without: [] }

/** The configuration without the providers that are assumed to be missing. */
export const assumedConfig = <C extends Config>(config: C, { without }: Assumption): C =>
  without.length === 0 ? config : { ...config, instances: config.instances.filter(({ id }) => !without.includes(id)) }

/** Why a target is assumed not to be tried; null: nothing is assumed about it. */
export const assumedRefusal = (
  { down, limited }: Assumption,
  { candidate: { instance }, key }: Target,
): 'assumed_down' | 'assumed_limited' | null => {
  if (down.includes(instance.id)) return 'assumed_down'
  return limited.includes(instance.id) || limited.includes(`${instance.id}#${key.id}`) ? 'assumed_limited' : null
}
