/** How an attempt ended, for its charge and its record. */
import { type Failure, type FailureKind, rowOf } from '../../core/failure.ts'
import type { RecordedOutcome } from '../../core/journal.ts'
import type { ChargedEnd } from './charge.ts'

/**
 * Failures after which the upstream may have worked on the request: timeouts, connections that
 * broke, answers that cannot be read, clients that left.
 */
const WORKED_ON: ReadonlySet<FailureKind> = new Set([
  'timeout',
  'no_first_content',
  'stalled',
  'deadline',
  'client_gone',
  'shutdown',
  'budget_exceeded',
  'reset',
  'truncated',
  'malformed',
  'too_large',
  'internal',
] as const)

/** How a failed attempt is charged. `hasContent`: part of the answer was received. */
export const endOfFailed = (failure: Failure, hasContent: boolean): ChargedEnd => {
  if (hasContent) return 'interrupted'
  // An error status is an answer of the upstream: it refused the request.
  const isRefusal = failure.status !== undefined && failure.status >= 400
  return WORKED_ON.has(failure.kind) && !isRefusal && failure.unsent !== true ? 'unanswered' : 'refused'
}

/** The outcome of a failed attempt in its record. */
export const outcomeOfFailed = (failure: Failure, hasContent: boolean): RecordedOutcome =>
  failure.kind === 'client_gone' ? 'client_gone' : hasContent ? 'interrupted' : 'failed'

/** The error code of a request's failure in its record. */
export const recordedCode = (failure: Failure | undefined): string | null => (failure ? rowOf(failure).code : null)
