import { hash, randomBytes } from 'node:crypto'
import { SHORTEST_TOKEN } from '../config/admin-token.ts'
import { BoundedMap } from '../core/bounded-map.ts'
import { isMistyped } from './key-index.ts'

/** ms for which a key that was not found is not looked up again. */
const ABSENT = 2_000

/** Which keys that are not known are looked up in the database, where another process may have stored them. */
export class KeyLookUps {
  readonly #now: () => number
  /** Until when keys that were not found are not looked up again, by salted digest. */
  readonly #absent = new BoundedMap<number>()
  readonly #salt = randomBytes(32).toString('base64')

  /** `now`: ms since 1970. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Stored keys are long, and have a correct checksum. */
  isDue(presented: string): boolean {
    if (presented.length < SHORTEST_TOKEN || isMistyped(presented)) return false
    return (this.#absent.get(this.#digest(presented)) ?? 0) <= this.#now()
  }

  notFound(presented: string): void {
    this.#absent.set(this.#digest(presented), this.#now() + ABSENT)
  }

  #digest(presented: string): string {
    return hash('sha256', this.#salt + presented, 'base64')
  }
}
