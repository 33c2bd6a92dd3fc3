/** Error responses in the client's API style: status, headers and body. */

import { type Failure, rowOf } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { AttemptSummary, ClientProtocol } from '../../core/protocol.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import { retryAdvice, statusOf } from '../../policy/reply/final-error.ts'
import { retryNeutral } from './retry-neutral-text.ts'

/** A complete error response. */
export type ErrorResponse = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The facts about the request that an error response reports. */
export type ErrorContext = {
  readonly requestId: string
  /** ms until a retry may succeed. 0: now; null: not with the current configuration. */
  readonly availableIn: number | null
  readonly attempts?: readonly AttemptSummary[]
}

/** Encodes a failure for the client, with its retry hints. */
export const errorResponse = (
  protocol: ClientProtocol,
  failure: Failure,
  { requestId, availableIn, attempts = [] }: ErrorContext,
): ErrorResponse => {
  const { retry, after } = retryAdvice(failure, availableIn)
  const body = protocol.encodeFailure(failure, { requestId, ...(retry && { attempts }) })
  return {
    status: statusOf(failure),
    headers: {
      'content-type': 'application/json',
      'x-request-id': requestId,
      'x-should-retry': String(retry),
      ...(after !== null && { 'retry-after': String(after) }),
      ...limitHeaders(failure),
      ...failure.headers,
      ...helpHeader(failure, retry),
    },
    body: retryNeutral(JSON.stringify(body), retry),
  }
}

/**
 * The page about the error's code, which this gateway serves. The body has no member for it, because its shape is that of the
 * client's API. Clients that search an error for reasons to retry must find none in the address either.
 */
const helpHeader = (failure: Failure, retry: boolean): Readonly<Record<string, string>> => {
  const link = `</docs/errors#${rowOf(failure).code}>; rel="help"`
  return retry || !RETRY_TRIGGERS.test(link) ? { link } : {}
}

/** The limit of the client that caused the failure, and the exact time to wait. */
const limitHeaders = ({ kind, limit, retryAfter }: Failure): Readonly<Record<string, string>> => ({
  ...(limit !== undefined && { 'x-headgate-limit': limit }),
  ...(kind === 'client_limit' && retryAfter !== undefined && { 'retry-after-ms': String(Math.ceil(retryAfter)) }),
})

/** Where `sendError` sends an error. */
export type ErrorRecipient = {
  readonly protocol: ClientProtocol
  readonly responseWriter: ResponseWriter
  readonly requestId: string
}

/** Sends a failure as the complete response. `extraHeaders` are added to the error's own. */
export const sendError = (
  { protocol, responseWriter, requestId }: ErrorRecipient,
  failure: Failure,
  extraHeaders: Readonly<Record<string, string>> = {},
): void => {
  const { status, headers, body } = errorResponse(protocol, failure, { requestId, availableIn: null })
  responseWriter.writeHead(status, { ...headers, ...extraHeaders })
  responseWriter.end(body)
}

/** Sends a failure of a request for which no upstream attempt was made. */
export const sendUntried = (recipient: ErrorRecipient, failure: Failure): void =>
  sendError(recipient, failure, { 'x-headgate-attempts': '0' })
