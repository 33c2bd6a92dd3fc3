/** An error as the client's style has it: status, headers and body, in one place for the whole gateway. */

import type { Failure } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { AttemptSummary, ClientProtocol } from '../../core/protocol.ts'
import { comeBack, statusOf } from '../../policy/reply/final-error.ts'
import { retryNeutral } from './retry-neutral-text.ts'

export type ErrorResponse = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type ErrorContext = {
  readonly requestId: string
  /** ms until another try could go better: 0 is now, null never as things stand. */
  readonly soonest: number | null
  readonly attempts?: readonly AttemptSummary[]
}

export const errorResponse = (
  protocol: ClientProtocol,
  failure: Failure,
  { requestId, soonest, attempts = [] }: ErrorContext,
): ErrorResponse => {
  const { retry, after } = comeBack(failure, soonest)
  const body = protocol.encodeFailure(failure, { requestId, ...(retry && { attempts }) })
  return {
    status: statusOf(failure),
    headers: {
      'content-type': 'application/json',
      'x-request-id': requestId,
      'x-should-retry': String(retry),
      ...(after !== null && { 'retry-after': String(after) }),
    },
    body: retryNeutral(JSON.stringify(body), retry),
  }
}

/** Nobody upstream was asked. */
export const UNTRIED = { 'x-headgate-attempts': '0' } as const

/** Says no to a call that goes no further, with these headers beside the refusal's own. */
export const sendError = (
  protocol: ClientProtocol,
  reply: ResponseWriter,
  failure: Failure,
  requestId: string,
  more: Readonly<Record<string, string>> = {},
): void => {
  const { status, headers, body } = errorResponse(protocol, failure, { requestId, soonest: null })
  reply.head(status, { ...headers, ...more })
  reply.end(body)
}
