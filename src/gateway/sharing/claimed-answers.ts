/**
 * Answers for an `Idempotency-Key` that several processes share through a store: a name is claimed before its call, and its
 * answer is kept there. Without the store each process knows its own answers only.
 */
import { type Failure, fail } from '../../core/failure.ts'
import type { AnswerClaims, RepeatableAnswer } from '../../core/shared-answer.ts'
import type { World } from '../../core/world.ts'
import type { Cancellation } from '../call/cancellation.ts'
import type { SharedResponse } from './shared-responses.ts'

/** ms between two questions for an answer that another process receives: the first, and the longest. */
const POLL = { first: 100, longest: 1_000 }
/** ms for which a request waits for such an answer. */
const LONGEST_WAIT = 600_000
/** ms after which to retry then. */
const RETRY_AFTER = 5_000

export type ClaimOutcome =
  /** This process makes the call. `isClaimed`: no other one does. */
  | { readonly state: 'mine'; readonly isClaimed: boolean }
  | { readonly state: 'kept'; readonly answer: RepeatableAnswer; readonly left: number }
  | { readonly state: 'refused'; readonly failure: Failure }
  /** The client has left. */
  | { readonly state: 'left' }

type ClaimingDeps = {
  readonly world: World
  /** Null: the store cannot be used. Absent: this process is alone. */
  readonly claims?: () => AnswerClaims | null
}

export class ClaimedAnswers {
  readonly #gateway: ClaimingDeps
  readonly #fingerprint: (text: string) => string
  /** The response for which this process holds a name. A retry may claim it again before an earlier call has ended. */
  readonly #holders = new Map<string, SharedResponse>()
  /** Where names were claimed: there they are kept or released, also while no request waits for the store. */
  #claims: AnswerClaims | null = null

  constructor(gateway: ClaimingDeps, fingerprint: (text: string) => string) {
    this.#gateway = gateway
    this.#fingerprint = fingerprint
  }

  /** The store; null: there is none now. */
  get store(): AnswerClaims | null {
    return this.#gateway.claims?.() ?? null
  }

  /** Claims the name, or waits for the answer to the request that has claimed it, until this request is cancelled. */
  async claim(name: string, print: string, cancellation: Cancellation): Promise<ClaimOutcome> {
    const { world } = this.#gateway
    const end = world.now() + LONGEST_WAIT
    const shared = this.#fingerprint(name)
    for (let wait = POLL.first; !cancellation.reason; wait = Math.min(wait * 1.5, POLL.longest)) {
      const { store } = this
      const asked = await store?.claim(shared, print)
      if (!asked?.ok) return { state: 'mine', isClaimed: false }
      const claim = asked.value
      this.#claims = store
      if (claim.state === 'claimed') return { state: 'mine', isClaimed: true }
      if (claim.fingerprint !== print) return { state: 'refused', failure: KEY_REUSED }
      if (claim.state === 'kept') return claim
      if (world.now() > end) return { state: 'refused', failure: KEY_WAITS }
      await cancellation.sleep(world, wait)
    }
    const { reason } = cancellation
    return reason.kind === 'client_gone' ? { state: 'left' } : { state: 'refused', failure: reason }
  }

  /** The response is the one that was claimed. */
  hold(name: string, response: SharedResponse): void {
    this.#holders.set(name, response)
  }

  /** The call is over: keeps its answer for so many ms, or releases its names. */
  settle(response: SharedResponse, keep: number | null): void {
    for (const [name, holder] of this.#holders) {
      if (holder !== response) continue
      this.#holders.delete(name)
      const answer = keep === null ? null : keptOf(response)
      const shared = this.#fingerprint(name)
      if (answer && keep !== null) void this.#claims?.keep(shared, answer, keep)
      else void this.#claims?.release(shared)
    }
  }
}

const keptOf = ({ id, answer, ended }: SharedResponse): RepeatableAnswer | null => {
  const whole = answer.whole()
  return whole && { id, ...whole, cost: ended?.cost ?? null }
}

export const KEY_REUSED = fail(
  'idempotency_key_reused',
  'This Idempotency-Key was used before with another body or path. Repeat the first request unchanged to get its response, or send a new request with a new key.',
  { param: 'Idempotency-Key' },
)

const KEY_WAITS = fail(
  'idempotency_key_in_use',
  'A request with this Idempotency-Key is in progress at another gateway. Retry later, or use a new key.',
  { param: 'Idempotency-Key', retryAfter: RETRY_AFTER },
)
