/** What vendors have refused of requests: members they do not take and seals they did not make. Kept for ten minutes. */
import { type Candidate, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import { BoundedMap } from './bounded-map.ts'

/** ms; after that the vendor is sent it again, since vendors change. */
const KEPT = 600_000

export class Refusals {
  readonly #world: World
  /** Until when, by the model at its provider and what it refused. */
  readonly #until = new BoundedMap<number>()
  /** Until when any of them is kept, by model. */
  readonly #untilAny = new BoundedMap<number>()

  constructor(world: World) {
    this.#world = world
  }

  /** Whether this model has refused anything of late. Comparing a request costs a look-up for each member of its messages. */
  hasRecent(candidate: Candidate): boolean {
    if (this.#untilAny.isEmpty) return false
    const until = this.#untilAny.get(modelId(candidate))
    return until !== undefined && until > this.#world.now()
  }

  /** A member of the body (`store`), or of its messages or items (`messages.foo`). */
  noteMember(candidate: Candidate, path: string): void {
    this.#note(candidate, `member ${path}`)
  }

  hasMember(candidate: Candidate, path: string): boolean {
    return this.#has(candidate, `member ${path}`)
  }

  /** A signature or sealed reasoning, identified by its length and its end. */
  noteSignature(candidate: Candidate, seal: string): void {
    this.#note(candidate, nameOfSeal(seal))
  }

  hasSignature(candidate: Candidate, seal: string): boolean {
    return this.#has(candidate, nameOfSeal(seal))
  }

  #note(candidate: Candidate, what: string): void {
    const until = this.#world.now() + KEPT
    const model = modelId(candidate)
    this.#until.set(`${model} ${what}`, until)
    this.#untilAny.set(model, until)
  }

  #has(candidate: Candidate, what: string): boolean {
    const until = this.#until.get(`${modelId(candidate)} ${what}`)
    return until !== undefined && until > this.#world.now()
  }
}

const nameOfSeal = (seal: string): string => `seal ${seal.length} ${seal.slice(-48)}`
