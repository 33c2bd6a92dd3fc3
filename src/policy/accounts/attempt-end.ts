/** How an attempt ended, for its charge and its record. */
import { type Failure, type FailureKind, rowOf } from '../../core/failure.ts'
import type { RecordedOutcome } from '../../core/journal.ts'
import type { ChargedEnd } from './charge.ts'

/**
 * Failures with which the gateway stops reading an answer: timeouts, answers that cannot be read, clients that left, keys that
 * were revoked. The upstream may have generated more than was received.
 */
const STOPPED_HERE: ReadonlySet<FailureKind> = new Set([
  'timeout',
  'no_first_content',
  'stalled',
  'deadline',
  'client_gone',
  'shutdown',
  'budget_exceeded',
  'unauthenticated',
  'malformed',
  'too_large',
  'internal',
] as const)

/** Failures of the connection. What came after content is known; before it, the upstream may have generated a whole answer. */
const BROKEN: ReadonlySet<FailureKind> = new Set(['reset', 'truncated'] as const)

/** How a failed attempt is charged. `hasContent`: part of the answer was received. */
export const endOfFailed = (failure: Failure, hasContent: boolean): ChargedEnd => {
  // An error status is an answer of the upstream: it refused the request.
  const isRefusal = failure.status !== undefined && failure.status >= 400
  const isSent = !isRefusal && failure.unsent !== true
  if (isSent && STOPPED_HERE.has(failure.kind)) return 'given_up'
  if (hasContent) return 'interrupted'
  return isSent && BROKEN.has(failure.kind) ? 'given_up' : 'refused'
}

/** The outcome of a failed attempt in its record. */
export const outcomeOfFailed = (failure: Failure, hasContent: boolean): RecordedOutcome =>
  failure.kind === 'client_gone' ? 'client_gone' : hasContent ? 'interrupted' : 'failed'

/** The error code of a request's failure in its record. */
export const recordedCode = (failure: Failure | undefined): string | null => (failure ? rowOf(failure).code : null)
