/**
 * Parts of requests that providers have rejected: unsupported members, and reasoning signatures of other providers.
 * Entries expire after ten minutes.
 */
import { type Candidate, modelId } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import { BoundedMap } from './bounded-map.ts'

/** Lifetime of an entry in ms. Providers change, so the part is then sent again. */
const LIFETIME = 600_000

/** What each model has rejected recently. */
export class Refusals {
  readonly #world: World
  /** Expiry times (ms of the monotonic clock) by model and rejected part. */
  readonly #expiry = new BoundedMap<number>()
  /** The latest expiry time of any entry, by model. */
  readonly #latestExpiry = new BoundedMap<number>()

  constructor(world: World) {
    this.#world = world
  }

  /** Whether the model has any entry. If not, the caller skips one lookup for each member of the request. */
  hasRecent(candidate: Candidate): boolean {
    if (this.#latestExpiry.isEmpty) return false
    const until = this.#latestExpiry.get(modelId(candidate))
    return until !== undefined && until > this.#world.now()
  }

  /** Records a rejected member of the body (`store`), or of its messages or items (`messages.foo`). */
  noteMember(candidate: Candidate, path: string): void {
    this.#note(candidate, `member ${path}`)
  }

  /** Whether the model has rejected this member. */
  hasMember(candidate: Candidate, path: string): boolean {
    return this.#has(candidate, `member ${path}`)
  }

  /** Records a rejected reasoning signature. It is identified by its length and its last 48 characters. */
  noteSignature(candidate: Candidate, signature: string): void {
    this.#note(candidate, signatureId(signature))
  }

  /** Whether the model has rejected this reasoning signature. */
  hasSignature(candidate: Candidate, signature: string): boolean {
    return this.#has(candidate, signatureId(signature))
  }

  #note(candidate: Candidate, part: string): void {
    const until = this.#world.now() + LIFETIME
    const model = modelId(candidate)
    this.#expiry.set(`${model} ${part}`, until)
    this.#latestExpiry.set(model, until)
  }

  #has(candidate: Candidate, part: string): boolean {
    const until = this.#expiry.get(`${modelId(candidate)} ${part}`)
    return until !== undefined && until > this.#world.now()
  }
}

const signatureId = (signature: string): string => `signature ${signature.length} ${signature.slice(-48)}`
