/** Errors of this format: `{id, message}`, sometimes with `error_type`. */
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isObject, type Json, text } from '../../core/json.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'

/** Renames the members to those of OpenAI's errors, whose decoder also reads bodies without an `error` object. */
export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure =>
  decodeOpenaiFailure(status, isFlat(body) ? renamed(body) : body, headers)

const isFlat = (body: Json | undefined): body is { readonly [member: string]: Json | undefined } =>
  isObject(body) && body.error === undefined && typeof body.message === 'string'

/** OpenAI's error codes. TOO_MANY_TOKENS: recording cohere-chat-real-error-scenarios. */
const CODES: { readonly [type: string]: string } = { TOO_MANY_TOKENS: 'context_length_exceeded' }

const renamed = (body: { readonly [member: string]: Json | undefined }): Json => {
  const type = text(body.error_type)
  const code = type !== undefined && Object.hasOwn(CODES, type) ? CODES[type] : undefined
  // Cohere's support identifies a request by this ID.
  const id = text(body.id)
  return { ...body, ...(type && { type }), ...(code && { code }), ...(id && { request_id: id }) }
}
