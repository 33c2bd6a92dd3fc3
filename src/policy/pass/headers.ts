/** The headers of passed calls, in both directions. What is not listed is not sent. */
import type { HeaderLookup } from '../../core/headers.ts'

/** Request headers that describe the body and what the answer may be. None of them changes who pays, or names the client. */
const REQUEST: readonly string[] = [
  'content-type',
  'content-encoding',
  'content-language',
  'content-md5',
  'accept',
  'accept-language',
  'range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
  'idempotency-key',
  'openai-beta',
  'anthropic-beta',
  'anthropic-version',
  'x-goog-upload-command',
  'x-goog-upload-content-type',
  'x-goog-upload-file-name',
  'x-goog-upload-header-content-length',
  'x-goog-upload-header-content-type',
  'x-goog-upload-offset',
  'x-goog-upload-protocol',
]

const VALUE = /^[\x20-\x7e]{1,4096}$/

/** The headers of a client that its call carries. */
export const passedRequestHeaders = (headers: HeaderLookup): Readonly<Record<string, string>> =>
  listed(REQUEST, headers)

/**
 * Whether a body is the content of an upload, whatever its type says: Google's SDKs send it as `application/json`
 * (@google/genai 3.1.0, google-genai 3.3.0). Only below `/upload/` of a provider, where content is all that a body can be.
 */
export const isUploadedContent = (path: string, headers: HeaderLookup): boolean =>
  /^\/[^/]+\/upload\//.test(path) && /\bupload\b/.test(headers('x-goog-upload-command') ?? '')

const ANSWER: readonly string[] = [
  'content-type',
  'content-disposition',
  'content-language',
  'content-range',
  'accept-ranges',
  'etag',
  'last-modified',
  'expires',
  'retry-after',
  'x-should-retry',
  'openai-processing-ms',
  'openai-version',
  'request-id',
  'x-goog-hash',
  'x-goog-upload-chunk-granularity',
  'x-goog-upload-command',
  'x-goog-upload-control-url',
  'x-goog-upload-header-x-google-session-info',
  'x-goog-upload-size-received',
  'x-goog-upload-status',
]

/** Headers of an answer with an address, which is rewritten. */
export const LOCATIONS: readonly string[] = [
  'location',
  'content-location',
  'x-goog-upload-url',
  'x-goog-upload-control-url',
]

/**
 * Of every answer: a file that a client has uploaded must not run on the origin of the dashboard, and no cache may share it between
 * clients.
 */
export const SAFE_ANSWER = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  'cache-control': 'private, no-store',
} as const

/** The headers of the provider's answer, without those of `LOCATIONS`. */
export const passedAnswerHeaders = (headers: HeaderLookup): Readonly<Record<string, string>> => ({
  ...listed(
    ANSWER.filter((name) => !LOCATIONS.includes(name)),
    headers,
  ),
  ...SAFE_ANSWER,
})

const listed = (names: readonly string[], headers: HeaderLookup): Readonly<Record<string, string>> => {
  const found: Record<string, string> = {}
  for (const name of names) {
    const value = headers(name)
    if (value !== undefined && VALUE.test(value)) found[name] = value
  }
  return found
}
