/** Errors of this format: `{"type":"error","error":{"type","message"},"request_id"}`. */
import { type Failure, rowOf } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isList, type Json, type JsonObject, object, text } from '../../core/json.ts'
import type { FailureContext } from '../../core/protocol.ts'
import { classify, type UpstreamError } from '../errors/classify.ts'

/** Classifies an error body; `body` is undefined if it was not JSON. Errors inside a 200 are classified by type alone. */
export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  // A page of a firewall or captive portal is not an answer of the model. A CDN's 5xx is classified below.
  if (body === undefined && (status < 300 || status === 403))
    return {
      kind: 'not_json',
      message: 'The provider returned a body that is not JSON.',
      ...(status >= 300 && { status }),
    }
  return classify(status, upstreamError(body, headers))
}

const upstreamError = (body: Json | undefined, headers: HeaderLookup): UpstreamError => {
  const outer = object(isList(body) ? body[0] : body)
  const inner = object(outer?.error)
  const type = text(inner?.type)
  // Only this code distinguishes a spend limit from other 429 errors.
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

/** The error body for a client of this format. */
export const encodeFailure = (failure: Failure, { requestId }: FailureContext): JsonObject => ({
  type: 'error',
  error: { type: typeOf(failure), message: messageOf(failure) },
  request_id: requestId,
})

/** The error event that ends a stream. */
export const errorEvent = (failure: Failure, requestId: string | undefined): JsonObject => ({
  type: 'error',
  error: { type: typeOf(failure), message: messageOf(failure) },
  ...(requestId !== undefined && { request_id: requestId }),
})

/**
 * The message. Clients of this format recognise a long prompt by Anthropic's words, since there is no code: Claude Code
 * shortens the conversation after "prompt is too long", and lowers `max_tokens` after the other sentence.
 */
const messageOf = ({ kind, message, overflow = {} }: Failure): string => {
  if (kind !== 'context_length' || /prompt is too long|exceed context limit/i.test(message)) return message
  const { window, promptTokens, requestedOutput } = overflow
  if (window === undefined || promptTokens === undefined) return `prompt is too long: ${message}`
  if (promptTokens < window && requestedOutput !== undefined)
    return `input length and \`max_tokens\` exceed context limit: ${promptTokens} + ${requestedOutput} > ${window}, decrease input length or \`max_tokens\` and try again`
  return `prompt is too long: ${promptTokens} tokens > ${window} maximum. ${message}`
}

const TYPE_OF_STATUS: { readonly [status: number]: string } = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
}

/** Anthropic's error types. A failure that must not be retried never gets a retryable type. */
const typeOf = (failure: Failure): string => {
  const { status, type } = rowOf(failure)
  if (failure.kind === 'quota' || failure.kind === 'budget_exceeded') return 'billing_error'
  if (type === 'overloaded_error') return 'overloaded_error'
  return TYPE_OF_STATUS[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
}
