/** Retry budgets by deployment (provider and model), and hedges. The rules are `policy/retry/retry-budget.ts` and `policy/routing/hedge.ts`. */
import type { Settings } from '../../core/settings.ts'
import { type Candidate, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import { firstTry, mayRepeat, noTries, type RetryBudget } from '../../policy/retry/retry-budget.ts'
import { earn, hedgeAfter, noCredit, spend, type Wait, waited } from '../../policy/routing/hedge.ts'
import { BoundedMap } from './bounded-map.ts'

/** Whole answers take longer to open than streams: their waits are told apart. */
export type ResponseMode = 'streamed' | 'whole'

export class RetryBudgets {
  readonly #world: World
  readonly #budgets = new BoundedMap<RetryBudget>()
  readonly #waits = new BoundedMap<readonly Wait[]>()
  #credit = noCredit

  constructor(world: World) {
    this.#world = world
  }

  firstTry(candidate: Candidate): void {
    const id = modelId(candidate)
    this.#budgets.set(id, firstTry(this.#budget(id), this.#world.now()))
  }

  mayRepeat(candidate: Candidate, { retry }: Settings, client: string): boolean {
    const id = modelId(candidate)
    const rules = { percent: retry.budgetPercent, floor: retry.budgetFloor }
    const { state, allowed } = mayRepeat(this.#budget(id), this.#world.now(), client, rules)
    this.#budgets.set(id, state)
    return allowed
  }

  earnHedgeCredit({ hedge }: Settings): void {
    this.#credit = earn(this.#credit, hedge.percent)
  }

  mayHedge(late: Candidate, settings: Settings, client: string): boolean {
    const left = spend(this.#credit)
    if (left === null || !this.mayRepeat(late, settings, client)) return false
    this.#credit = left
    return true
  }

  hedgeAfter(candidate: Candidate, way: ResponseMode, { hedge }: Settings): number {
    return hedgeAfter(this.#waits.get(waitsId(candidate, way)) ?? [], this.#world.now(), hedge.delay)
  }

  recordOpeningTime(candidate: Candidate, way: ResponseMode, ms: number): void {
    const id = waitsId(candidate, way)
    this.#waits.set(id, waited(this.#waits.get(id) ?? [], ms, this.#world.now()))
  }

  #budget(id: string): RetryBudget {
    return this.#budgets.get(id) ?? noTries
  }
}

const waitsId = (candidate: Candidate, way: ResponseMode): string => `${way} ${modelId(candidate)}`
