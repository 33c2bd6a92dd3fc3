/** Which targets of which routes are to be checked live, for which shapes: those that would be next for the clients of each class. */
import { type Candidate, modelId } from '../../core/target.ts'
import { parseClass, type ReachClass } from '../../policy/drill/access-class.ts'
import { isDrilledLive } from '../../policy/drill/live-rules.ts'
import { parseShape, type Shape } from '../../policy/drill/shape.ts'
import { overrideText } from '../../policy/routing/override.ts'
import type { ChatDeps } from '../chat/plan-call.ts'
import { classPlan } from './class-plan.ts'
import type { ShapeCount } from './dry-drill.ts'
import type { DrillWork } from './live-drill.ts'

type OpenWork = {
  readonly candidate: Candidate
  readonly others: readonly Candidate[]
  readonly shapes: Map<string, Shape>
}

/**
 * The most frequent shapes come first. A target receives shapes of a class only if the class may reach it, and never those of the
 * target that is always first: requests of clients show what that one takes.
 */
export const liveWork = (
  gateway: ChatDeps,
  shapes: readonly Pick<ShapeCount, 'route' | 'access' | 'shape'>[],
  routes: readonly string[] | null,
): readonly DrillWork[] => {
  const config = gateway.config()
  const work: DrillWork[] = []
  for (const route of config.routes.values()) {
    const { name } = route
    if (!isDrilledLive(config, route) || (routes && !routes.includes(name))) continue
    const open = new Map<string, OpenWork>()
    const ofRoute = shapes.filter((one) => one.route === name)
    for (const [access, rows] of Map.groupBy(ofRoute, (one) => one.access)) {
      const reach = parseClass(access)
      const candidates = reach ? candidatesOf(gateway, name, reach) : []
      for (const { candidate, isNext } of candidates) {
        if (!isNext) continue
        const id = `${modelId(candidate)} ${overrideText(candidate.override)}`
        const others = candidates.map((one) => one.candidate)
        const known = open.get(id) ?? { candidate, others, shapes: new Map<string, Shape>() }
        open.set(id, known)
        for (const { shape: text } of rows) {
          const shape = parseShape(text)
          if (shape) known.shapes.set(text, shape)
        }
      }
    }
    for (const one of open.values()) work.push({ route: name, ...one, shapes: [...one.shapes.values()] })
  }
  return work
}

/** The targets of a class; `isNext`: it is not the one that all requests try first. */
const candidatesOf = (gateway: ChatDeps, model: string, reach: ReachClass) => {
  const config = gateway.config()
  const plan = classPlan(gateway, config, model, reach)
  if (!plan) return []
  const { candidates, odds } = plan
  const [first] = candidates
  const isAlwaysFirst = (one: Candidate) => one === first && (odds?.shares.get(one) ?? 1) >= 1
  return candidates
    .filter(({ instance }) => config.settings.fallback !== 'none' || instance === first?.instance)
    .filter(({ instance, isShadow }) => instance.provider.builtin !== true && isShadow !== true)
    .map((candidate) => ({ candidate, isNext: !isAlwaysFirst(candidate) }))
}
