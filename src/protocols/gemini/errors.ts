/** Errors in the form of google.rpc: `{"error":{"code","message","status","details"}}`, sometimes in a list. */
import { type Failure, rowOf } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { FailureContext } from '../../core/protocol.ts'
import { decodeOpenaiFailure, errorCode } from '../errors/openai-error.ts'

/**
 * Gemini's OpenAI-compatible endpoint returns the same errors, so the decoder of OpenAI's errors reads them: `status` and
 * the `reason` in the details. `RetryInfo` is read by `policy/retry/retry-after.ts`.
 */
export const decodeFailure = decodeOpenaiFailure

/** Names of `google.rpc.Code` by HTTP status. */
const STATUSES: { readonly [status: number]: string } = {
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  409: 'FAILED_PRECONDITION',
  412: 'FAILED_PRECONDITION',
  428: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

/** The error body for a client of this format. */
export const encodeFailure = (failure: Failure, context: FailureContext): JsonObject => {
  const { status } = rowOf(failure)
  const { retryAfter } = failure
  return {
    error: {
      code: status,
      message: failure.message,
      status: STATUSES[status] ?? (status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL'),
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: errorCode(failure, context),
          domain: 'headgate',
          metadata: { requestId: context.requestId },
        },
        ...(failure.param === undefined ? [] : [badRequest(failure.param, failure.message)]),
        ...(status === 429 && retryAfter !== undefined ? [retryInfo(retryAfter)] : []),
      ],
    },
  }
}

const badRequest = (field: string, description: string): JsonObject => ({
  '@type': 'type.googleapis.com/google.rpc.BadRequest',
  fieldViolations: [{ field, description }],
})

/** `ms` as a duration of Google's JSON. */
const retryInfo = (ms: number): JsonObject => ({
  '@type': 'type.googleapis.com/google.rpc.RetryInfo',
  retryDelay: `${Math.ceil(ms / 1000)}s`,
})
