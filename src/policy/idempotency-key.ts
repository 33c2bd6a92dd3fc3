/** When one answer may be given to more than one request: what a key for it is, and which requests mean the same answer. */
import type { ChatRequest, Part } from '../core/chat.ts'
import { type Failure, fail } from '../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, sourceOf } from '../core/json.ts'
import { TOOLS_BY_NAME } from './retry/retry-safety.ts'

/** Characters of the longest key; Stripe's limit, and room for any UUID with a prefix. */
const MAX_KEY_LENGTH = 255

/**
 * What is wrong with an `Idempotency-Key`, or null. The draft (draft-ietf-httpapi-idempotency-key-header, section 2)
 * writes it in quotes, clients of today write it without: whatever is visible ASCII is taken as it is.
 */
export const keyProblem = (key: string): Failure | null =>
  key.length <= MAX_KEY_LENGTH && /^[\x21-\x7e]+$/.test(key)
    ? null
    : fail(
        'invalid_value',
        `An Idempotency-Key is 1 to ${MAX_KEY_LENGTH} visible ASCII characters without blanks. Send a random UUID, the same one for every try of one request.`,
        { param: 'Idempotency-Key' },
      )

/**
 * Whether another request that says exactly the same, at the same time, is content with this one's answer: nothing is
 * left to chance (temperature 0) or the chance is named (a seed), and answering does nothing but answer. `stored`: what
 * the format means where `store` is not given; an answer that is stored has an id that is one request's own.
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

/** Members that make an answer depend on, or change, something outside the request; most are tools by another name. */
const SIDE_EFFECTS = [
  'background',
  'conversation',
  'previous_response_id',
  'container',
  'mcp_servers',
  'functions',
  ...TOOLS_BY_NAME,
]

/** What an address points at may be another thing the next moment. */
const isSelfContained = (part: Part): boolean =>
  (part.type !== 'image' && part.type !== 'file') || part.source.kind === 'data'

/** A client that wants an answer of its own says so as HTTP has it (RFC 9111, section 5.2.1). */
export const bypassesSharing = (cacheControl: string | undefined): boolean =>
  /\bno-(?:store|cache)\b/i.test(cacheControl ?? '')

/**
 * Whether this object's text, parsed to `value`, gives a member twice at any depth. Which of the two counts is for each
 * reader to choose, so that two texts which are the same here may not be the same upstream.
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

/** JSON in one spelling: members in the order of their names, no blanks, every digit kept. No deeper than the stack. */
export const canonicalJson = (value: Json | undefined): string => {
  const raw = sourceOf(value)
  if (raw !== undefined) return raw
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value ?? null)
  const members = Object.keys(value).sort()
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join(',')}}`
}
