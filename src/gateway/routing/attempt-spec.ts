/** The router's view of a request: how it is prepared, sent and changed for each target. */
import type { Failure } from '../../core/failure.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { Attempt } from '../upstream/attempt.ts'
import type { Compatibility } from '../upstream/outbound-request.ts'

/** `Ready`: the request as it would be sent to one target. */
export type AttemptSpec<Ready extends Compatibility> = {
  /** Null: no protocol of the target can carry the request. May be called again for the same target. */
  readonly prepare: (target: Target) => Ready | null
  /**
   * Prepares a large request for one target per turn of the event loop, until a target can carry all of it. Null or absent:
   * the request is small and `prepare` is fast.
   */
  readonly prepareAhead?: (targets: Iterable<Target>) => Promise<void> | null
  /** Finishes a large request in turns of the event loop before `begin`. Null or absent: nothing to do. */
  readonly makeReady?: (ready: Ready) => Promise<void> | null
  /** `traced`: headers with the trace context, if the provider receives it. */
  readonly begin: (target: Target, ready: Ready, traced?: Readonly<Record<string, string>>) => Attempt
  /** The body that is sent. Words of an error that are also in it do not count as the provider's. */
  readonly sentText: (ready: Ready) => string
  /** Whether the failure only means that the request must be changed for this target. Then it is retried there at once. */
  readonly retrySameTarget?: (target: Target, failure: Failure) => boolean
  /** The member that a refusal names, in a form to compare between vendors. Absent: the failure's `param`. */
  readonly refusedMember?: (target: Target, failure: Failure) => string | undefined
  /** Called when no target is left: whether a smaller request can be tried at all targets. */
  readonly reduceRequest?: (failure: Failure) => boolean
  /** Whether another target may be tried after this failure. Absent: always. */
  readonly mayFailOver?: (failure: Failure) => boolean
  /** When to start a second attempt while the first is slow. Absent: never. */
  readonly hedging?: Hedging
  /** The answer is delivered whole. If its client leaves, it may be read to its end, because its count is charged. */
  readonly isWhole?: boolean
  /** Whether a second attempt may run beside a probe of an open circuit. Absent: no, because a repetition has effects. */
  readonly hedgesProbes?: boolean
}

/** A second attempt at another provider. The first to deliver content wins; the other is cancelled. */
export type Hedging = {
  /** Called once per request: adds its share to the hedge budget. */
  readonly started: () => void
  /** ms after which an attempt at this candidate counts as slow. */
  readonly after: (candidate: Candidate) => number
  /** Whether a hedge against this slow deployment is within budget. If so, its cost is deducted. */
  readonly allowed: (late: Candidate, client: string) => boolean
  /** Records the time (ms) to the first content. */
  readonly opened: (candidate: Candidate, ms: number) => void
}
