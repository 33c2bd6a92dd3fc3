/** When several requests may share one response: valid idempotency keys, and which identical requests may be coalesced. */
import type { ChatRequest, Part } from '../core/chat.ts'
import { type Failure, fail } from '../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, sourceOf } from '../core/json.ts'
import { TOOLS_BY_NAME } from './retry/retry-safety.ts'

/** Maximum length of a key in characters: Stripe's limit, and enough for a UUID with a prefix. */
const MAX_KEY_LENGTH = 255

/**
 * Checks an `Idempotency-Key`: 1 to 255 visible ASCII characters. Returns `invalid_value`, or null if it is valid. The
 * draft (draft-ietf-httpapi-idempotency-key-header, section 2) requires quotes, which clients omit: quotes are not removed.
 */
export const keyProblem = (key: string): Failure | null =>
  key.length <= MAX_KEY_LENGTH && /^[\x21-\x7e]+$/.test(key)
    ? null
    : fail(
        'invalid_value',
        `An Idempotency-Key is 1 to ${MAX_KEY_LENGTH} visible ASCII characters without spaces. Send a random UUID, the same one for each retry of a request.`,
        { param: 'Idempotency-Key' },
      )

/**
 * Whether an identical concurrent request may receive this request's response: sampling is deterministic (temperature 0
 * or a seed), and the request has no side effects. A stored response is never shared, because its id belongs to one
 * request. `stored`: the format's default for `store`.
 */
export const isRepeatable = (
  { settings, tools, messages }: ChatRequest,
  { body, stored }: { readonly body: JsonObject; readonly stored: boolean },
): boolean =>
  (settings.temperature?.value === 0 || settings.seed !== undefined) &&
  (settings.choices?.value ?? 1) === 1 &&
  !(settings.store?.value ?? stored) &&
  tools.length === 0 &&
  SIDE_EFFECTS.every((name) => body[name] === undefined || body[name] === null || body[name] === false) &&
  messages.every(({ content }) => content.every(isSelfContained))

/** Members that make a response depend on state outside the request, or change such state. Most of them are tools. */
const SIDE_EFFECTS = [
  'background',
  'conversation',
  'previous_response_id',
  'container',
  'mcp_servers',
  'functions',
  ...TOOLS_BY_NAME,
]

/** Whether the part contains its data. The content at a URL or file id can change between two requests. */
const isSelfContained = (part: Part): boolean =>
  (part.type !== 'image' && part.type !== 'file') || part.source.kind === 'data'

/** Whether `Cache-Control` requests a response of its own: `no-store` or `no-cache` (RFC 9111, section 5.2.1). */
export const bypassesSharing = (cacheControl: string | undefined): boolean =>
  /\bno-(?:store|cache)\b/i.test(cacheControl ?? '')

/**
 * Whether a JSON text contains a duplicate member at any depth. `value`: the parsed text. Parsers differ in which
 * duplicate they use, so two texts with equal values here could have different meanings upstream.
 */
export const hasDuplicateMembers = (source: string, value: JsonObject): boolean => {
  let written = 0
  for (let at = 0; at < source.length; at++) {
    const char = source[at]
    if (char === ':') written++
    else if (char === '"') for (at++; source[at] !== '"' && at < source.length; at++) if (source[at] === '\\') at++
  }
  return written !== membersIn(value)
}

const membersIn = (value: Json | undefined): number => {
  if (isList(value)) return value.reduce<number>((sum, item) => sum + membersIn(item), 0)
  if (!isObject(value)) return 0
  return Object.values(value).reduce<number>((sum, item) => sum + 1 + membersIn(item), 0)
}

/** Serialises JSON canonically: members sorted by name, no whitespace, numbers as received. Recursive: the caller bounds the depth. */
export const canonicalJson = (value: Json | undefined): string => {
  const raw = sourceOf(value)
  if (raw !== undefined) return raw
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  // `1e999` is parsed as infinity, which `JSON.stringify` writes as null.
  if (typeof value === 'number') return String(value)
  if (!isObject(value)) return JSON.stringify(value ?? null)
  const members = Object.keys(value).sort()
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join(',')}}`
}
