/** Errors of AWS services: `{"message"}` with the type in a header; inside a stream, exceptions. */
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isObject, type Json, object, readJson, text } from '../../core/json.ts'
import { classify } from './classify.ts'

/** `ValidationException:http://internal.amazon.com/…`, `com.amazon.coral.service#AccessDeniedException`. */
const typeIn = (name: string | undefined): string | undefined => name?.split(':')[0]?.split('#').at(-1) || undefined

const failureOf = (status: number, type: string | undefined, body: Json | undefined, requestId?: string): Failure => {
  const message = isObject(body) ? (text(body.message) ?? text(body.Message)) : text(body)
  const inner = modelError(message)
  return classify(status, {
    ...(type !== undefined && { type }),
    ...inner,
    ...(requestId !== undefined && { requestId }),
  })
}

/** The message, or the one in the body of Anthropic's error that it has (github.com/anthropics/claude-code/issues/49648, 2026-04-17). */
const modelError = (message: string | undefined): { readonly type?: string; readonly message?: string } => {
  if (message === undefined) return {}
  const body = message.startsWith('{') ? readJson(message) : undefined
  const error = isObject(body) ? (object(body.error) ?? body) : undefined
  const [type, inner] = [text(error?.type), text(error?.message)]
  return inner === undefined ? { message } : { ...(type !== undefined && { type }), message: inner }
}

/** Classifies an error body; `body` is undefined if it was not JSON. */
export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  // A page of a firewall or captive portal is not an answer of the model. A load balancer's 5xx is classified below.
  if (body === undefined && (status < 300 || status === 403))
    return fail('not_json', 'The provider returned a body that is not JSON.', {
      ...(status >= 300 && { status }),
    })
  const inside = isObject(body) ? (text(body.__type) ?? text(body.code)) : undefined
  const type = typeIn(headers('x-amzn-errortype')) ?? typeIn(inside)
  return failureOf(status, type, body, headers('x-amzn-requestid'))
}

/** Classifies an exception inside a stream, whose status is already 200. */
export const exceptionFailure = (type: string, payload: Json): Failure => failureOf(200, typeIn(type), payload)
