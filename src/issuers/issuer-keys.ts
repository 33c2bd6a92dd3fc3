/** The keys of one issuer: fetched when tokens need them, and used while the issuer is away. */
import type { KeySetPlace, TokenAlgorithm } from '../core/token-rule.ts'
import { chooseKey, type PublicKey } from '../policy/identity/choose-key.ts'
import { type FetchTimes, fetchStep, isUsable, mayForce } from '../policy/identity/key-refresh.ts'
import type { FetchedSet } from './fetch-key-set.ts'
import type { KeptSets } from './kept-sets.ts'

/** Requests that wait for a fetch at once. */
const MAX_WAITING = 1_000

type WantedKey = { readonly kid: string | undefined; readonly algorithm: TokenAlgorithm }

/** `unknown`: the issuer has no such key. `unavailable`: its keys cannot be read at present. */
export type KeyLookUp = PublicKey | 'unknown' | 'unavailable'

export type IssuerKeysOptions = {
  readonly place: KeySetPlace
  /** ms since 1970. */
  readonly date: () => number
  readonly fetchSet: (place: KeySetPlace) => Promise<FetchedSet>
  readonly kept: KeptSets
  /** The keys cannot be fetched; null: they can again. Called at each change. */
  readonly onProblem: (problem: string | null) => void
}

export class IssuerKeys {
  readonly #options: IssuerKeysOptions
  #keys: readonly PublicKey[] = []
  #times: FetchTimes = {}
  #problem: string | null = null
  #fetching: Promise<void> | null = null
  #waiting = 0
  /** Another number after a key was removed: tokens that it signed are no longer valid. */
  generation = 0

  constructor(options: IssuerKeysOptions) {
    this.#options = options
    const kept = options.place.file === null ? options.kept.read(options.place) : undefined
    if (!kept) return
    this.#keys = kept.keys
    this.#times = { fetched: kept.fetched, fresh: kept.fresh }
  }

  /** Whether tokens that were verified stay valid. */
  isUsable(now: number): boolean {
    return isUsable(this.#times, now)
  }

  /** Fetches the keys in the background if it is time. */
  refresh(): void {
    const step = fetchStep(this.#times, this.#options.date())
    if (step === 'behind' || step === 'first') void this.#fetch()
  }

  /** Finds a key. Waits for a fetch if there is no new set, or if the key is unknown; within the time of a fetch. */
  async find(wanted: WantedKey): Promise<KeyLookUp> {
    const { date } = this.#options
    const step = fetchStep(this.#times, date())
    if (step === 'behind') void this.#fetch()
    if (step === 'first') await this.#wait()
    if (!this.isUsable(date())) return 'unavailable'
    const found = chooseKey(this.#keys, wanted)
    if (found || wanted.kid === undefined) return found ?? 'unknown'
    if (this.#fetching) await this.#wait()
    else if (mayForce(this.#times, date())) {
      this.#times = { ...this.#times, forced: date() }
      await this.#wait()
    }
    // While the issuer is away, an unknown key may be one that it uses by now.
    return chooseKey(this.#keys, wanted) ?? (this.#problem === null ? 'unknown' : 'unavailable')
  }

  async #wait(): Promise<void> {
    if (this.#waiting >= MAX_WAITING) return
    this.#waiting++
    await this.#fetch()
    this.#waiting--
  }

  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchNow().finally(() => {
      this.#fetching = null
    })
    return this.#fetching
  }

  async #fetchNow(): Promise<void> {
    const { place, date, fetchSet, kept, onProblem } = this.#options
    const fetched = await fetchSet(place)
    const problem = fetched.ok ? null : fetched.problem
    const isNews = (problem === null) !== (this.#problem === null)
    this.#problem = problem
    if (!fetched.ok) this.#times = { ...this.#times, failed: date() }
    else {
      const keys = fetched.keys.map((key) => this.#keys.find((one) => isEqual(one, key)) ?? key)
      if (this.#keys.some((key) => !keys.includes(key))) this.generation++
      this.#keys = keys
      const { failed: _, ...times } = this.#times
      this.#times = { ...times, fetched: date(), fresh: fetched.fresh }
      if (place.file === null)
        await kept
          .write(place, { keys, fetched: date(), fresh: fetched.fresh })
          .catch((error: Error) => onProblem(`the keys cannot be kept for a restart: ${error.message}`))
    }
    if (isNews) onProblem(problem)
  }
}

const isEqual = (one: PublicKey, other: PublicKey): boolean => JSON.stringify(one) === JSON.stringify(other)
