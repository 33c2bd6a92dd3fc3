import type { Failure } from '../core/failure.ts'
import { type ErrorResponse, errorResponse as gatewayErrorResponse } from '../gateway/call/error-response.ts'
import { protocols } from '../protocols/index.ts'
import { protocolAt } from './routes.ts'

/** The response to a request that is refused before it reaches the gateway, in the API style of its path. */
export const errorResponse = (failure: Failure, requestId: string, path: string): ErrorResponse => {
  const response = gatewayErrorResponse(protocols[protocolAt(path)], failure, { requestId, availableIn: 0 })
  return { ...response, headers: { ...response.headers, ...idHeaders(path, requestId) } }
}

/** The headers with a request's ID, under each name where the clients of this path look for it. */
export const idHeaders = (path: string, requestId: string): Readonly<Record<string, string>> => {
  const { errorIdHeader } = protocols[protocolAt(path)]
  return errorIdHeader === undefined
    ? { 'x-request-id': requestId }
    : { 'x-request-id': requestId, [errorIdHeader]: requestId }
}
