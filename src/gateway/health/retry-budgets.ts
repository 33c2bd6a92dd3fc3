/** Retry and hedge budgets. The rules are in `policy/retry/retry-budget.ts` and `policy/routing/hedge.ts`. */

import { BoundedMap } from '../../core/bounded-map.ts'
import type { Settings } from '../../core/settings.ts'
import { type Candidate, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import { countFirst, emptyBudget, type RetryBudget, requestRepeat } from '../../policy/retry/retry-budget.ts'
import { addWait, earn, hedgeAfter, noCredit, type ObservedWait, spend } from '../../policy/routing/hedge.ts'

/** Opening times are recorded by mode, because whole answers take longer to open than streams. */
export type ResponseMode = 'streamed' | 'whole'

/** The retry budget and opening times of each model of a provider, and the hedge credit of all. */
export class RetryBudgets {
  readonly #world: World
  readonly #budgets = new BoundedMap<RetryBudget>()
  readonly #openingTimes = new BoundedMap<readonly ObservedWait[]>()
  #hedgeCredit = noCredit

  constructor(world: World) {
    this.#world = world
  }

  /** Counts a request's first attempt at a model of a provider: the base of the budget. */
  firstTry(candidate: Candidate): void {
    const id = modelId(candidate)
    this.#budgets.set(id, countFirst(this.#budget(id), this.#world.now()))
  }

  /** Whether the model's budget allows one more attempt by this client ('': unknown). If so, counts it. */
  mayRepeat(candidate: Candidate, { retry }: Settings, client: string): boolean {
    const id = modelId(candidate)
    const rules = { percent: retry.budgetPercent, floor: retry.budgetFloor }
    const { state, allowed } = requestRepeat(this.#budget(id), this.#world.now(), client, rules)
    this.#budgets.set(id, state)
    return allowed
  }

  /** Adds the share of one hedgeable request to the hedge credit. */
  earnHedgeCredit({ hedge }: Settings): void {
    this.#hedgeCredit = earn(this.#hedgeCredit, hedge.percent)
  }

  /** Whether a hedge against this slow model is within both budgets. If so, deducts its cost. */
  mayHedge(slow: Candidate, settings: Settings, client: string): boolean {
    const left = spend(this.#hedgeCredit)
    if (left === null || !this.mayRepeat(slow, settings, client)) return false
    this.#hedgeCredit = left
    return true
  }

  /** ms after which an attempt at this model counts as slow. */
  hedgeAfter(candidate: Candidate, mode: ResponseMode, { hedge }: Settings): number {
    return hedgeAfter(this.#openingTimes.get(openingTimesId(candidate, mode)) ?? [], this.#world.now(), hedge.delay)
  }

  /** Records the time (ms) to an attempt's first content. */
  recordOpeningTime(candidate: Candidate, mode: ResponseMode, ms: number): void {
    const id = openingTimesId(candidate, mode)
    this.#openingTimes.set(id, addWait(this.#openingTimes.get(id) ?? [], ms, this.#world.now()))
  }

  #budget(id: string): RetryBudget {
    return this.#budgets.get(id) ?? emptyBudget
  }
}

const openingTimesId = (candidate: Candidate, mode: ResponseMode): string => `${mode} ${modelId(candidate)}`
