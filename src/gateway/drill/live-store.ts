/** The costs and results of live checks in the store that gateways share, and the role of the one that sends. */
import { isObject, parseObject } from '../../core/json.ts'
import type { Nano } from '../../core/money.ts'
import type { World } from '../../core/world.ts'
import { dayOf, type LiveResult } from '../../policy/drill/live-rules.ts'

/** Text that gateways share, and which of them may write it. `claim`: for some seconds, and again before they are over. */
export type DrillStorage = {
  claim(): Promise<boolean>
  release(): Promise<void>
  load(): Promise<string | null>
  save(text: string): Promise<void>
}

/** `spent`: what a day has cost. `results`: what was found. */
type LivePlaces = { readonly spent: DrillStorage; readonly results: DrillStorage }

type StoredChecks = {
  readonly spent: { day: number; nano: Nano }
  readonly results: Map<string, LiveResult> | null
}

const MOST_RESULTS = 5_000
/** ms after a claim in which the role may have lapsed. It lasts 20 s. */
const LAPSE = 15_000

export class LiveStore {
  /** By shape and target. */
  results = new Map<string, LiveResult>()
  readonly #storage: LivePlaces
  readonly #world: () => Pick<World, 'now' | 'date'>
  #spent = { day: 0, nano: 0 }
  /** When this gateway last took or kept the role (`world.now`). */
  #claimedAt = Number.NEGATIVE_INFINITY

  constructor(storage: LivePlaces, world: () => Pick<World, 'now' | 'date'>) {
    this.#storage = storage
    this.#world = world
  }

  /** What the checks of today have cost. */
  get spentToday(): Nano {
    return this.#spent.day === dayOf(this.#world().date()) ? this.#spent.nano : 0
  }

  /** Takes the role to send, or keeps it. */
  async claim(): Promise<boolean> {
    const { spent, results } = this.#storage
    if (!(await spent.claim())) return false
    if (!(await results.claim())) {
      await spent.release()
      return false
    }
    this.#claimedAt = this.#world().now()
    return true
  }

  /** Claims the role during a run. If it had lapsed, another gateway may have spent something since. */
  async claimAgain(): Promise<boolean> {
    const world = this.#world()
    const hasLapsed = world.now() - this.#claimedAt > LAPSE
    if (!(await this.claim())) return false
    if (!hasLapsed) return true
    const { spent, results } = await this.load()
    const known = new Map(results)
    for (const [name, result] of this.results) if (result.at > (known.get(name)?.at ?? 0)) known.set(name, result)
    this.take({ spent, results: known })
    return true
  }

  /** Counts what a request may cost before it is sent, so that it counts if this process ends before it does. */
  async spend(nano: Nano): Promise<void> {
    this.#spent = { day: dayOf(this.#world().date()), nano: nano + this.spentToday }
    await this.saveSpent()
  }

  /** The last request has cost so much more than was counted. */
  correct(nano: Nano): void {
    this.#spent.nano += nano
  }

  saveSpent(): Promise<void> {
    return this.#storage.spent.save(JSON.stringify(this.#spent))
  }

  saveResults(): Promise<void> {
    const newest = [...this.results].sort(([, one], [, other]) => other.at - one.at).slice(0, MOST_RESULTS)
    this.results = new Map(newest)
    return this.#storage.results.save(JSON.stringify(newest))
  }

  /** What is stored. `results` null: none are. */
  async load(): Promise<StoredChecks> {
    const storage = this.#storage
    const [spent, results] = await Promise.all([storage.spent.load(), storage.results.load()])
    const { day, nano } = parseObject(spent ?? '{}') ?? {}
    const today = dayOf(this.#world().date())
    return {
      spent: { day: today, nano: day === today && typeof nano === 'number' ? nano : 0 },
      results: results === null ? null : new Map(parsedResults(results)),
    }
  }

  take({ spent, results }: StoredChecks): void {
    this.#spent = spent
    if (results) this.results = results
  }

  async release(): Promise<void> {
    await Promise.all([this.#storage.spent.release(), this.#storage.results.release()])
  }
}

/** Another version may have written them: what is not a result is left out. */
const parsedResults = (text: string): readonly (readonly [string, LiveResult])[] => {
  try {
    const found: unknown = JSON.parse(text)
    return Array.isArray(found) ? found.filter(isResult) : []
  } catch {
    return []
  }
}

const isResult = (one: unknown): one is readonly [string, LiveResult] => {
  if (!Array.isArray(one) || typeof one[0] !== 'string' || !isObject(one[1])) return false
  const { verdict, at, target, source } = one[1]
  return (
    (verdict === 'ready' || verdict === 'refused' || verdict === 'doubt' || verdict === 'unsettled') &&
    typeof at === 'number' &&
    typeof target === 'string' &&
    (source === 'live' || source === 'real')
  )
}
