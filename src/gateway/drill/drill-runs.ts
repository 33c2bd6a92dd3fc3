/** The runs of the dry drill: at the start, when the configuration changes, and each hour. The last one is kept. */
import type { Config } from '../../core/config.ts'
import { good, KINDS, type Outcome } from '../../core/failure.ts'
import { ownTurn } from '../../core/steps.ts'
import type { Candidate } from '../../core/target.ts'
import type { Cancel } from '../../core/world.ts'
import type { LiveResult } from '../../policy/drill/live-rules.ts'
import type { DrillFinding, RouteReport } from '../../policy/drill/report.ts'
import type { Shape } from '../../policy/drill/shape.ts'
import type { Planner } from '../routing/planner.ts'
import { dryDrill, type ShapeCount } from './dry-drill.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** Times in ms since 1970. */
export type DrillRange = { readonly from: number; readonly to: number }

/** `range`: of the requests. */
export type DrillReport = { readonly range: DrillRange; readonly routes: readonly RouteReport[] }

export type DrillRunsOptions = {
  /** What live checks have shown of a shape at a target; undefined: nothing. */
  readonly live: (shape: Shape, candidate: Candidate) => LiveResult | undefined
  readonly planner: Planner
  readonly config: () => Config
  readonly shapes: (range: DrillRange) => Promise<Outcome<readonly ShapeCount[]>>
}

export class DrillRuns {
  readonly #options: DrillRunsOptions
  #last: DrillReport | null = null
  /** The configuration of the last report. */
  #of: Config | null = null
  /** The report that is being made, and of which configuration. */
  #running: { readonly of: Config; readonly report: Promise<Outcome<DrillReport>> } | null = null
  #cancel: Cancel | null = null

  constructor(options: DrillRunsOptions) {
    this.#options = options
  }

  /** The last report; null: there is none yet. */
  get last(): DrillReport | null {
    return this.#last
  }

  /** The last report if it is of the present configuration and younger than an hour; null: there is none. */
  get current(): DrillReport | null {
    const { config, planner } = this.#options
    const isCurrent = this.#of === config() && this.#last && planner.world.date() - this.#last.range.to < HOUR
    return isCurrent ? this.#last : null
  }

  /** The report of now. One that is being made of the present configuration is not made twice. */
  run(): Promise<Outcome<DrillReport>> {
    const config = this.#options.config()
    if (this.#running && this.#running.of !== config) {
      const again = () => this.run()
      return this.#running.report.then(again, again)
    }
    this.#running ??= {
      of: config,
      report: this.#run(config).finally(() => {
        this.#running = null
      }),
    }
    return this.#running.report
  }

  /** Runs now, and each hour as long as shapes are counted. */
  start(): void {
    this.#cancel?.()
    this.#cancel = null
    const { config, planner } = this.#options
    if (!config().settings.drill.shapes) {
      this.#last = null
      return
    }
    void this.run()
    this.#cancel = planner.world.later(HOUR, () => this.start())
  }

  /** What requests of routes needed. */
  shapes(): Promise<Outcome<readonly ShapeCount[]>> {
    return this.#options.shapes(this.#range())
  }

  #range(): DrillRange {
    const { config, planner } = this.#options
    const to = planner.world.date()
    return { from: to - config().settings.drill.days * DAY, to }
  }

  async #run(config: Config): Promise<Outcome<DrillReport>> {
    const { planner, shapes, live } = this.#options
    const range = this.#range()
    const found = await shapes(range)
    if (!found.ok) return found
    const turn = () => ownTurn(planner.world.turn)
    const known = (shape: Shape, candidate: Candidate) => liveFinding(live(shape, candidate))
    const routes = await dryDrill({ planner, config, shapes: found.value, known, turn })
    const report = { range, routes }
    this.#last = report
    this.#of = config
    return good(report)
  }
}

/** Null: it has no verdict. */
const liveFinding = (result: LiveResult | undefined): DrillFinding | null => {
  if (!result || result.verdict === 'unsettled') return null
  const { verdict, kind, at, source } = result
  if (verdict === 'ready') return { verdict, by: null, source, at }
  // Another version may have named the kind.
  const isFinal = verdict === 'refused' && kind !== undefined && KINDS[kind]?.excludes === 'request'
  return { verdict, by: result.by ?? kind ?? 'target', source, at, isFinal }
}
