/** Checks the retry budget: the share of repeated tries of each model. */
import type { Settings } from '../../src/core/settings.ts'
import { type Candidate, modelId } from '../../src/core/target.ts'

type Tries = { readonly firsts: number[]; readonly repeats: number[]; granted: number; made: number; denied: number }

/** Windows of the retry budget in ms. */
const SECOND = 1_000
const TEN = 10_000

export class RetryWatch {
  readonly #now: () => number
  readonly #breach: (what: string) => void
  readonly #tries = new Map<string, Tries>()

  constructor(now: () => number, breach: (what: string) => void) {
    this.#now = now
    this.#breach = breach
  }

  tries(candidate: Candidate): Tries {
    const id = modelId(candidate)
    const known = this.#tries.get(id)
    if (known) return known
    const made: Tries = { firsts: [], repeats: [], granted: 0, made: 0, denied: Number.NEGATIVE_INFINITY }
    this.#tries.set(id, made)
    return made
  }

  firstTry(candidate: Candidate): void {
    this.tries(candidate).firsts.push(this.#now())
  }

  retryRequested(candidate: Candidate, { retry }: Settings, allowed: boolean): void {
    const now = this.#now()
    const tries = this.tries(candidate)
    if (!allowed) {
      tries.denied = now
      return
    }
    tries.granted++
    const within = (times: readonly number[], ms: number) => {
      let count = 0
      for (let at = times.length - 1; at >= 0 && (times[at] ?? 0) > now - ms; at--) count++
      return count
    }
    const lately = within(tries.repeats, SECOND)
    const share = (within(tries.firsts, TEN) * retry.budgetPercent) / 100
    if (lately >= retry.budgetFloor && within(tries.repeats, TEN) + 1 > share)
      this.#breach(`${modelId(candidate)}: another retry after ${lately} in a second, with a share of ${share}`)
    tries.repeats.push(now)
  }
}
