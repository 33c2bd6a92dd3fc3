/** Failures inside a responses stream. Errors outside of one are OpenAI's (`errors/openai-error.ts`). */
import { type Failure, type FailureKind, rowOf } from '../../core/failure.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { encodeOpenaiFailure, isRetryableByClient } from '../errors/openai-error.ts'
import type { WireEvent } from './output-items.ts'

/** Codes that clients of this format recognise. Other kinds use the gateway's code or, if retryable, `server_error`. */
const RESPONSE_CODES: { readonly [kind in FailureKind]?: string } = {
  rate_limited: 'rate_limit_exceeded',
  token_rate: 'rate_limit_exceeded',
  quota: 'insufficient_quota',
  context_length: 'context_length_exceeded',
}

/**
 * The events of a failure in the middle of a stream: `error` (nested, as in the live API), on which the SDKs throw, then
 * `response.failed`, which Open Responses requires. `interrupted`: content has been sent.
 */
export const failureEvents = (
  failure: Failure,
  response: JsonObject,
  context: AnswerContext,
  interrupted: boolean,
): WireEvent[] => {
  const { error } = encodeOpenaiFailure(failure, { requestId: context.requestId ?? '', interrupted })
  const { request_id, ...members } = isObject(error) ? error : {}
  const row = rowOf(failure)
  const code =
    RESPONSE_CODES[failure.kind] ??
    (row.side === 'client' ? 'invalid_prompt' : isRetryableByClient(failure) ? 'server_error' : row.code)
  return [
    {
      type: 'error',
      error: { ...members, ...(context.requestId !== undefined && { request_id }) },
    },
    {
      type: 'response.failed',
      response: { ...response, status: 'failed', error: { code, message: failure.message } },
    },
  ]
}
