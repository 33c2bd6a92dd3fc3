/** Errors of Amazon's services: `{"message"}`, their kind in a header, or named by the exception inside a stream. */
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isObject, type Json, text } from '../../core/json.ts'
import { classify } from '../errors/classify.ts'

/** `ValidationException:http://internal.amazon.com/…`, `com.amazon.coral.service#AccessDeniedException`. */
const typeIn = (word: string | undefined): string | undefined => word?.split(':')[0]?.split('#').at(-1) || undefined

const failureOf = (status: number, type: string | undefined, body: Json | undefined, requestId?: string): Failure => {
  const message = isObject(body) ? (text(body.message) ?? text(body.Message)) : text(body)
  return classify(status, {
    ...(type !== undefined && { type }),
    ...(message !== undefined && { message }),
    ...(requestId !== undefined && { requestId }),
  })
}

export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  // A page in place of JSON: from a firewall or a captive portal it says nothing about the model; a load balancer's 5xx does.
  if (body === undefined && (status < 300 || status === 403))
    return fail('not_json', 'The provider answered with something else than JSON.', {
      ...(status >= 300 && { status }),
    })
  const inside = isObject(body) ? (text(body.__type) ?? text(body.code)) : undefined
  const type = typeIn(headers('x-amzn-errortype')) ?? typeIn(inside)
  return failureOf(status, type, body, headers('x-amzn-requestid'))
}

/** What an exception inside a stream tells of: the 200 is out already. */
export const exceptionFailure = (type: string, payload: Json): Failure => failureOf(200, typeIn(type), payload)
