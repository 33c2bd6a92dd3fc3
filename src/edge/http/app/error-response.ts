import type { Failure } from '../../../core/failure.ts'
import { type ErrorResponse, errorResponse as refusalIn } from '../../../gateway/call/error-response.ts'
import { protocols } from '../../../protocols/index.ts'
import { protocolAt } from './routes.ts'

/** What a client is told that does not get as far as the gateway, in the format of the path it asked. */
export const errorResponse = (failure: Failure, requestId: string, path: string): ErrorResponse => {
  const refusal = refusalIn(protocols[protocolAt(path)], failure, { requestId, soonest: 0 })
  return { ...refusal, headers: { ...refusal.headers, ...idHeaders(path, requestId) } }
}

/** The headers that carry a request's id. Anthropic's clients look for it under a name of their own. */
export const idHeaders = (path: string, requestId: string): Readonly<Record<string, string>> =>
  protocolAt(path) === 'anthropic-messages'
    ? { 'x-request-id': requestId, 'request-id': requestId }
    : { 'x-request-id': requestId }
