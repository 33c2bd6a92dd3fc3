/** OpenAI's error format, shared by chat completions and responses, with the variants of compatible servers. */
import { type ContextOverflow, type Failure, type FailureKind, fail, rowOf } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isList, type Json, type JsonObject, list, number, object, readJson, text } from '../../core/json.ts'
import type { FailureContext } from '../../core/protocol.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import { classify, type UpstreamError } from './classify.ts'

/** Kinds that are final although their status suggests a retry. */
const FINAL: ReadonlySet<FailureKind> = new Set([
  'quota',
  'auth',
  'permission',
  'unconfigured',
  'client_gone',
  'record_conflict',
])

/** Kinds that keep their code in a stream: the gateway ended the answer for a reason of its own. */
const NAMED: ReadonlySet<FailureKind> = new Set(['shutdown', 'budget_exceeded'])

/** Whether a client may retry the same request. */
export const isRetryableByClient = (failure: Failure): boolean => {
  if (FINAL.has(failure.kind)) return false
  const { status } = rowOf(failure)
  return status === 408 || status === 409 || status === 429 || status >= 500
}

/** Encodes an OpenAI error body; in a chat completions stream it is sent as a chunk. */
export const encodeOpenaiFailure = (failure: Failure, context: FailureContext): JsonObject => {
  const { type } = rowOf(failure)
  const { attempts } = context
  return {
    error: {
      message: failure.message,
      type,
      code: errorCode(failure, context),
      param: paramOf(failure),
      request_id: context.requestId,
      ...(failure.errors && { errors: failure.errors.map((error) => ({ ...error })) }),
      ...(attempts && isRetryableByClient(failure) && { attempts: attempts.map((line) => ({ ...line })) }),
    },
  }
}

/** The code of an error; of one in a stream that has begun, that it is interrupted. */
export const errorCode = (failure: Failure, { interrupted }: Pick<FailureContext, 'interrupted'>): string =>
  interrupted && !NAMED.has(failure.kind) ? 'stream_interrupted' : codeOf(failure)

/** The upstream's code if the request is at fault, since programs act on it; otherwise the gateway's code. */
const codeOf = (failure: Failure): string => {
  if (failure.code !== undefined) return failure.code
  const { code, side } = rowOf(failure)
  const upstreamCode = failure.upstream?.code
  if (side !== 'client' || upstreamCode === undefined) return code
  if (failure.kind !== 'invalid_request' && failure.kind !== 'content_policy') return code
  return /^[a-z][a-z_.-]{2,80}$/i.test(upstreamCode) && !RETRY_TRIGGERS.test(upstreamCode) ? upstreamCode : code
}

/** The failed member's path, without indices that look like a status (`messages[500]`) and would trigger retries. */
const paramOf = (failure: Failure): string | null => {
  const { param } = failure
  if (param === undefined) return null
  if (isRetryableByClient(failure) || !RETRY_TRIGGERS.test(param)) return param
  const withoutIndices = param.replaceAll(/\[[0-9]+\]/g, '[]')
  return RETRY_TRIGGERS.test(withoutIndices) ? null : withoutIndices
}

/** Decodes an error body in OpenAI's format or a variant of it; `undefined` stands for a body that is not JSON. */
export const decodeOpenaiFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  // An HTML page of a firewall or captive portal is not an answer of the model. A CDN's 5xx is classified by its status.
  if (body === undefined && (status < 300 || status === 403))
    return fail('not_json', 'The provider returned a body that is not JSON.', {
      ...(status >= 300 && { status }),
    })
  return classify(status, upstreamErrorIn(body, headers))
}

const upstreamErrorIn = (body: Json | undefined, headers: HeaderLookup): UpstreamError => {
  // Gemini's compatible endpoint returns a list with one error.
  const outer = object(isList(body) ? body[0] : body)
  const requestId =
    headers('x-request-id') ?? headers('request-id') ?? text(outer?.request_id) ?? text(outer?.requestId)
  const common = { ...(requestId !== undefined && { requestId }) }
  if (typeof body === 'string') return { ...common, message: body }
  if (!outer) return common
  // xAI and Ollama: `error` is the message. Mistral, Cohere, older vLLM: flat members without `error`.
  // Cloudflare: a list of errors.
  const inner = object(outer.error) ?? object(list(outer.errors)[0]) ?? outer
  const message = text(outer.error) ?? text(inner.message) ?? detail(outer.detail) ?? text(inner.error)
  const code = codeText(inner.code) ?? codeText(inner.status_code)
  const type = codeText(inner.type)
  const param = text(inner.param)
  const metadata = object(inner.metadata)
  const hints = [
    codeText(inner.status),
    codeText(object(inner.innererror)?.code),
    codeText(object(inner.details)?.error_code),
    ...list(inner.details).map((entry) => codeText(object(entry)?.reason)),
    // OpenRouter: the findings of its moderation, and which limit is reached.
    isList(metadata?.reasons) ? 'content_policy_violation' : undefined,
    codeText(metadata?.limit_source),
    headers('x-amzn-errortype')?.split(':')[0],
  ].filter((hint) => hint !== undefined)
  const innerMessage = innermostMessage(metadata?.raw) || message
  return {
    ...common,
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    // OpenRouter's own "Provider returned error" triggers retries; the provider's message is in `metadata.raw`.
    ...(innerMessage !== undefined && { message: innerMessage }),
    ...(param !== undefined && { param }),
    ...(hints.length > 0 && { hints }),
    ...overflowMembers(inner),
  }
}

/** The figures of llama.cpp and its derivatives (github.com/ggml-org/llama.cpp/pull/15780). */
const overflowMembers = (inner: JsonObject): { readonly overflow?: ContextOverflow } => {
  const window = number(inner.n_ctx)
  const promptTokens = number(inner.n_prompt_tokens)
  if (window === undefined && promptTokens === undefined) return {}
  return { overflow: { ...(window !== undefined && { window }), ...(promptTokens !== undefined && { promptTokens }) } }
}

/** The message of OpenRouter's provider: as text, as JSON, or as JSON text. */
const innermostMessage = (raw: Json | undefined): string | undefined => {
  const value = typeof raw === 'string' ? (parseShort(raw) ?? raw) : raw
  const outer = object(isList(value) ? value[0] : value)
  const inner = object(outer?.error) ?? outer
  return text(value) ?? text(inner?.message) ?? text(outer?.error) ?? text(raw)
}

/** Parses an object or list of at most 64 KiB. */
const parseShort = (source: string): Json | undefined => {
  if (source.length > 64 * 1024 || !/^\s*[{[]/.test(source)) return undefined
  return readJson(source)
}

const codeText = (value: Json | undefined): string | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? String(value) : text(value)

/** FastAPI's `detail`: a message, or a list of messages with their locations. */
const detail = (value: Json | undefined): string | undefined => {
  if (!isList(value)) return text(value)
  const lines = value.slice(0, 20).flatMap((entry) => {
    const item = object(entry)
    const message = text(item?.msg)
    if (message === undefined) return []
    const location = list(item?.loc).filter((step) => typeof step === 'string' || typeof step === 'number')
    return [location.length > 0 ? `${location.join('.')}: ${message}` : message]
  })
  return lines.length > 0 ? lines.join('; ') : undefined
}
