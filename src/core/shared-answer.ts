/**
 * Answers to requests with an `Idempotency-Key` that several processes share: one makes the call, and the others wait for its
 * answer or repeat it.
 */
import type { Failure, Outcome } from './failure.ts'

/** A complete answer, as it is repeated. */
export type RepeatableAnswer = {
  /** The ID of the request that it answered. */
  readonly id: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array<ArrayBuffer>
  /** Nano-dollars; null: unknown. */
  readonly cost: number | null
}

export type AnswerClaim =
  /** This process makes the call, and then keeps its answer or releases the name. */
  | { readonly state: 'claimed' }
  /** Another process makes the call. */
  | { readonly state: 'held'; readonly fingerprint: string }
  /** `left`: ms until it expires. */
  | { readonly state: 'kept'; readonly fingerprint: string; readonly answer: RepeatableAnswer; readonly left: number }

/** Operations resolve within a limit of time, and never reject. What an ended process has claimed is released by the others. */
export type AnswerClaims = {
  /** `name`: of at most 255 characters. `fingerprint`: of the request. */
  readonly claim: (name: string, fingerprint: string) => Promise<Outcome<AnswerClaim>>
  /** Keeps the answer of a claimed name for so many ms. */
  readonly keep: (name: string, answer: RepeatableAnswer, ms: number) => Promise<Failure | null>
  /** The call has no answer to repeat. */
  readonly release: (name: string) => Promise<Failure | null>
}
