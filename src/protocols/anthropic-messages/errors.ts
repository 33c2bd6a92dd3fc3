/** Errors in this format's shape: `{"type":"error","error":{"type","message"},"request_id"}`. */
import { type Failure, rowOf } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isList, type Json, type JsonObject, object, text } from '../../core/json.ts'
import type { FailureContext } from '../../core/protocol.ts'
import { classify, type UpstreamError } from '../errors/classify.ts'

/** Reads an error body; `undefined` is a body that was not JSON. An error inside a 200 is told by its type alone. */
export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  // A page in place of JSON: from a firewall or a captive portal it says nothing about the model; a CDN's 5xx does.
  if (body === undefined && (status < 300 || status === 403))
    return {
      kind: 'not_json',
      message: 'The provider answered with something else than JSON.',
      ...(status >= 300 && { status }),
    }
  const failure = classify(status, said(body, headers))
  // From Anthropic's front: more than 32 MB. It is the request's size, not its content.
  return status === 413 && failure.kind === 'invalid_request' ? { ...failure, kind: 'body_too_large' } : failure
}

const said = (body: Json | undefined, headers: HeaderLookup): UpstreamError => {
  const outer = object(isList(body) ? body[0] : body)
  const inner = object(outer?.error)
  const type = text(inner?.type)
  // A spend limit is a 429 like any other but for this.
  const code = text(object(inner?.details)?.error_code) ?? text(inner?.code)
  const message = text(inner?.message) ?? text(outer?.error) ?? text(outer?.message) ?? text(body)
  const requestId = text(outer?.request_id) ?? headers('request-id') ?? headers('x-request-id')
  return {
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    ...(message !== undefined && { message }),
    ...(requestId !== undefined && { requestId }),
  }
}

/** The error body a client of this format is given. */
export const encodeFailure = (failure: Failure, { requestId }: FailureContext): JsonObject => ({
  type: 'error',
  error: { type: typeOf(failure), message: failure.message },
  request_id: requestId,
})

/** The error event a stream of this format ends with. */
export const errorEvent = (failure: Failure, requestId: string | undefined): JsonObject => ({
  type: 'error',
  error: { type: typeOf(failure), message: failure.message },
  ...(requestId !== undefined && { request_id: requestId }),
})

const TYPE_OF_STATUS: { readonly [status: number]: string } = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
}

/** Anthropic's names. Of what must not be tried again none may sound as if it could be. */
const typeOf = (failure: Failure): string => {
  const { status, type } = rowOf(failure)
  if (failure.kind === 'quota') return 'billing_error'
  if (type === 'overloaded_error') return 'overloaded_error'
  return TYPE_OF_STATUS[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
}
