/** How a refusal is answered to a person who signed in. */
import { type Failure, rowOf } from '../../core/failure.ts'

/**
 * What a person may not do is 400 instead of 403: Claude Code takes 403 for a failed sign-in, and other agents repeat the request
 * (measured 2026-11). Missing rights at the admin API and foreign origins stay.
 */
export const personRefusal = (failure: Failure): Failure => {
  const { status, code } = rowOf(failure)
  if (status !== 403 || KEPT.has(code)) return failure
  return { ...failure, shown: { status: 400, type: 'invalid_request_error' } }
}

const KEPT: ReadonlySet<string> = new Set(['forbidden', 'origin_not_allowed', 'host_not_allowed'])
