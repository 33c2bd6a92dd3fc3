/** Errors in this format's shape: `{id, message}`, sometimes with an `error_type`. */
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isObject, type Json, text } from '../../core/json.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'

/** The reader of OpenAI's shape reads flat ones too; it is given these under the names it knows. */
export const decodeFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure =>
  decodeOpenaiFailure(status, isFlat(body) ? renamed(body) : body, headers)

const isFlat = (body: Json | undefined): body is { readonly [member: string]: Json | undefined } =>
  isObject(body) && body.error === undefined && typeof body.message === 'string'

/** TOO_MANY_TOKENS: recording cohere-chat-real-error-scenarios. Its id is how Cohere's support finds the request. */
const MEANT: { readonly [type: string]: string } = { TOO_MANY_TOKENS: 'context_length_exceeded' }

const renamed = (body: { readonly [member: string]: Json | undefined }): Json => {
  const type = text(body.error_type)
  const code = type !== undefined && Object.hasOwn(MEANT, type) ? MEANT[type] : undefined
  const id = text(body.id)
  return { ...body, ...(type && { type }), ...(code && { code }), ...(id && { request_id: id }) }
}
