/** Errors in OpenAI's shape, which chat completions and responses share, and the dialects of those who imitate it. */
import { type Failure, type FailureKind, fail, rowOf } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { isList, type Json, type JsonObject, list, object, readJson, text } from '../../core/json.ts'
import type { FailureContext } from '../../core/protocol.ts'
import { classify, type UpstreamError } from './classify.ts'

/**
 * Words by which clients that search an error's raw body decide to try again. The body of an error that must not be
 * tried again never says them, an upstream's quoted message excepted.
 */
export const RETRY_TRIGGERS =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i

/** Kinds nobody should repeat although their status alone would ask for it. */
const FINAL: ReadonlySet<FailureKind> = new Set(['quota', 'auth', 'permission', 'unconfigured', 'client_gone'])

/** Whether a client may try the same again later. */
export const isRetryableByClient = (failure: Failure): boolean => {
  if (FINAL.has(failure.kind)) return false
  const { status } = rowOf(failure)
  return status === 408 || status === 409 || status === 429 || status >= 500
}

/** The `error` object of an OpenAI error body; in a stream of chat completions it is a chunk of its own. */
export const encodeOpenaiFailure = (failure: Failure, context: FailureContext): JsonObject => {
  const { type } = rowOf(failure)
  const { attempts } = context
  return {
    error: {
      message: failure.message,
      type,
      code: context.interrupted && failure.kind !== 'shutdown' ? 'stream_interrupted' : codeOf(failure),
      param: paramOf(failure),
      request_id: context.requestId,
      ...(attempts && isRetryableByClient(failure) && { attempts: attempts.map((line) => ({ ...line })) }),
    },
  }
}

/** The upstream's own code where the request is to blame, since programs act on it; ours otherwise. */
const codeOf = (failure: Failure): string => {
  const { code, side } = rowOf(failure)
  const theirs = failure.upstream?.code
  if (side !== 'client' || theirs === undefined) return code
  if (failure.kind !== 'invalid_request' && failure.kind !== 'content_policy') return code
  return /^[a-z][a-z_.-]{2,80}$/i.test(theirs) && !RETRY_TRIGGERS.test(theirs) ? theirs : code
}

/** An index that reads like a status (`messages[500]`) would make clients repeat what cannot succeed. */
const paramOf = (failure: Failure): string | null => {
  const { param } = failure
  if (param === undefined) return null
  if (isRetryableByClient(failure) || !RETRY_TRIGGERS.test(param)) return param
  const blurred = param.replaceAll(/\[[0-9]+\]/g, '[]')
  return RETRY_TRIGGERS.test(blurred) ? null : blurred
}

/** Reads an error body of OpenAI's shape or of those near it; `undefined` is a body that was not JSON. */
export const decodeOpenaiFailure = (status: number, body: Json | undefined, headers: HeaderLookup): Failure => {
  // A page in place of JSON: from a firewall or a captive portal it says nothing about the model; a CDN's 5xx does.
  if (body === undefined && (status < 300 || status === 403))
    return fail('not_json', 'The provider answered with something else than JSON.', {
      ...(status >= 300 && { status }),
    })
  return classify(status, said(body, headers))
}

const said = (body: Json | undefined, headers: HeaderLookup): UpstreamError => {
  // Gemini's compatible endpoint sends a list with one error.
  const outer = object(isList(body) ? body[0] : body)
  const requestId =
    headers('x-request-id') ?? headers('request-id') ?? text(outer?.request_id) ?? text(outer?.requestId)
  const known = { ...(requestId !== undefined && { requestId }) }
  if (typeof body === 'string') return { ...known, message: body }
  if (!outer) return known
  // xAI and Ollama: `error` is the message itself. Mistral, Cohere, older vLLM: no `error`, its members lie flat.
  // Cloudflare: a list of errors.
  const inner = object(outer.error) ?? object(list(outer.errors)[0]) ?? outer
  const message = text(outer.error) ?? text(inner.message) ?? detail(outer.detail) ?? text(inner.error)
  const code = word(inner.code) ?? word(inner.status_code)
  const type = word(inner.type)
  const param = text(inner.param)
  const metadata = object(inner.metadata)
  const hints = [
    word(inner.status),
    word(object(inner.innererror)?.code),
    word(object(inner.details)?.error_code),
    ...list(inner.details).map((entry) => word(object(entry)?.reason)),
    // OpenRouter names what its moderation found, and which of its limits is reached.
    isList(metadata?.reasons) ? 'content_policy_violation' : undefined,
    word(metadata?.limit_source),
    headers('x-amzn-errortype')?.split(':')[0],
  ].filter((hint) => hint !== undefined)
  const words = innermost(metadata?.raw) || message
  return {
    ...known,
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    // OpenRouter keeps what its provider said apart from its own "Provider returned error", which only invites repeating.
    ...(words !== undefined && { message: words }),
    ...(param !== undefined && { param }),
    ...(hints.length > 0 && { hints }),
  }
}

/** What the provider behind OpenRouter said: as text, as JSON, or as the text of JSON. */
const innermost = (raw: Json | undefined): string | undefined => {
  const told = typeof raw === 'string' ? (parsed(raw) ?? raw) : raw
  const outer = object(isList(told) ? told[0] : told)
  const inner = object(outer?.error) ?? outer
  return text(told) ?? text(inner?.message) ?? text(outer?.error) ?? text(raw)
}

/** Short enough to be an error, and an object or a list. */
const parsed = (source: string): Json | undefined => {
  if (source.length > 64 * 1024 || !/^\s*[{[]/.test(source)) return undefined
  return readJson(source)
}

const word = (value: Json | undefined): string | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? String(value) : text(value)

/** FastAPI's `detail`: a sentence, or a list of what was wrong where. */
const detail = (value: Json | undefined): string | undefined => {
  if (!isList(value)) return text(value)
  const lines = value.slice(0, 20).flatMap((entry) => {
    const what = object(entry)
    const message = text(what?.msg)
    if (message === undefined) return []
    const where = list(what?.loc).filter((step) => typeof step === 'string' || typeof step === 'number')
    return [where.length > 0 ? `${where.join('.')}: ${message}` : message]
  })
  return lines.length > 0 ? lines.join('; ') : undefined
}
