/** What routes would lose if one of their providers, models, keys or regions failed: planned from real traffic, without sending anything. */
import type { Config } from '../../core/config.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { dataFacts } from '../../policy/accounts/data-policy.ts'
import { parseClass, type ReachClass } from '../../policy/drill/access-class.ts'
import {
  type DrillFinding,
  type DrillTarget,
  type DrillTraffic,
  dryFinding,
  type RouteReport,
  routeReport,
} from '../../policy/drill/report.ts'
import { OTHER, parseShape, type Shape } from '../../policy/drill/shape.ts'
import { unsentParts } from '../../policy/drill/smallest.ts'
import { overrideText } from '../../policy/routing/override.ts'
import type { Planner } from '../routing/planner.ts'
import { classPlan } from './class-plan.ts'
import { shapeFinding, targetFinding, workingKeys } from './dry-finding.ts'

/** Requests of a route with a shape, by class of clients. `weight`: their number. */
export type ShapeCount = {
  readonly route: string
  readonly access: string
  readonly shape: string
  readonly weight: number
}

/** `known`: what live checks and real failovers have shown of a shape at a target; null: nothing. Absent: there are none. */
export type DryDrillInput = {
  readonly planner: Planner
  readonly config: Config
  readonly shapes: readonly ShapeCount[]
  readonly known?: (shape: Shape, candidate: Candidate) => DrillFinding | null
  /** Lets other work run. */
  readonly turn: () => Promise<void>
}

/** The routes of the file with their losses, in its order. */
export const dryDrill = async (input: DryDrillInput): Promise<readonly RouteReport[]> => {
  const { config, shapes, turn } = input
  const byRoute = Map.groupBy(shapes, ({ route }) => route)
  const findings = new Findings(input)
  const reports: RouteReport[] = []
  for (const { name, team } of config.routes.values()) {
    if (team !== undefined) continue
    const traffic: DrillTraffic[] = []
    for (const rows of Map.groupBy(byRoute.get(name) ?? [], ({ access }) => access).values()) {
      const access = rows[0]?.access ?? ''
      const reach = parseClass(access)
      const plan = classPlan(input.planner, config, name, reach ?? FREE)
      for (const row of rows) {
        await turn()
        traffic.push(...trafficOf(input, findings, plan, reach ? row : { ...row, shape: OTHER }))
      }
    }
    reports.push(routeReport(name, traffic, config.settings.drill.depth))
  }
  return reports
}

/** A class of which nothing is known has these targets, and what they would do is not known. */
const FREE: ReachClass = { access: [], require: null }

/** Requests that draw another first target are other rows. */
const trafficOf = (
  { config: { settings } }: DryDrillInput,
  findings: Findings,
  plan: Plan | null,
  { shape: text, weight }: ShapeCount,
): readonly DrillTraffic[] => {
  // The class may use no target now, so it can lose none.
  if (!plan) return [{ weight, targets: [] }]
  const shape = parseShape(text)
  const all = plan.candidates.map((one) => ({ candidate: one, target: findings.of(shape, one) }))
  const shares = [...(plan.odds?.shares ?? [])].filter(([, share]) => share > 0)
  const firsts = shares.length > 0 ? shares : plan.candidates.slice(0, 1).map((one): [Candidate, number] => [one, 1])
  return firsts.map(([first, share]) => {
    const ordered = [...all].sort((one, other) => Number(other.candidate === first) - Number(one.candidate === first))
    const isTried = ({ instance }: Candidate) => settings.fallback !== 'none' || instance === first.instance
    return {
      weight: weight * share,
      targets: ordered.flatMap(({ candidate, target }) => (isTried(candidate) ? target : [])),
    }
  })
}

/** Findings are the same for all routes and classes, and computed once for each shape and target. */
class Findings {
  readonly #input: DryDrillInput
  readonly #known = new Map<string, DrillTarget>()

  constructor(input: DryDrillInput) {
    this.#input = input
  }

  of(shape: Shape | undefined, candidate: Candidate): DrillTarget {
    const { instance, model, override, when } = candidate
    const id = JSON.stringify([shape ?? null, instance.id, model, overrideText(override), when ?? null])
    const known = this.#known.get(id)
    if (known) return known
    const made = this.#made(shape, candidate)
    this.#known.set(id, made)
    return made
  }

  #made(shape: Shape | undefined, candidate: Candidate): DrillTarget {
    const { planner } = this.#input
    const { instance, model } = candidate
    const { id, provider } = instance
    return {
      provider: id,
      title: id === provider.name ? provider.title : id,
      model,
      region: dataFacts(instance, model).find(({ region }) => region !== undefined)?.region ?? null,
      keys: workingKeys(planner, candidate).map((key) => key.id),
      finding: this.#findingOf(shape, candidate),
    }
  }

  #findingOf(shape: Shape | undefined, candidate: Candidate): DrillFinding {
    const { planner, known } = this.#input
    const facts = { ...planner, lists: planner.lists() }
    const always = targetFinding(facts, candidate)
    if (always.verdict === 'refused') return always
    if (!shape) return dryFinding('doubt', 'other')
    const found = shapeFinding(facts, shape, candidate)
    if (found.verdict === 'refused') return found
    const shown = known?.(shape, candidate)
    if (shown?.verdict === 'refused') return shown
    if (candidate.when) return dryFinding('doubt', 'condition')
    if (shown?.verdict === 'doubt') return shown
    // Live checks are small and leave parts out, so they show nothing about windows and those parts.
    const isWhole = shown?.source === 'real' || (found.by !== 'window' && unsentParts(shape).length === 0)
    if (shown && isWhole && found.verdict !== 'lossy') return shown
    return always.verdict === 'doubt' ? always : found
  }
}
