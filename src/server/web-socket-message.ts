/** Messages that clients send over a WebSocket. */
import type { RawData } from 'ws'
import { type Failure, fail } from '../core/failure.ts'
import { isObject, type JsonObject, object, parseJson, text } from '../core/json.ts'
import { DEEPEST, rewrite, type Survey, survey } from '../core/json-text.ts'
import { readLarge } from '../core/large-json.ts'
import type { Steps } from '../core/steps.ts'
import { exceedsJsonLimits, jsonLimitSteps } from './json-limits.ts'

/** What a message requires. `lane`: the `stream_id` that its events carry. `size`: characters while it is queued. */
export type SocketTask = { readonly lane: string | null; readonly size: number } & (
  | { readonly kind: 'turn'; readonly body: string; readonly previous: string | null }
  | { readonly kind: 'refusal'; readonly failure: Failure }
)

/** A turn to run: the request body, and the response it continues. */
export type TurnTask = SocketTask & { readonly kind: 'turn' }

/** The text of a message; `ws` delivers it as bytes that it has validated as UTF-8. */
export const textOf = (data: RawData): string =>
  (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as ArrayBuffer)).toString('utf8')

/** OpenAI's rule for a `stream_id`. */
const LANE = /^[A-Za-z0-9_.-]{1,256}$/

/** Parses a small message; undefined: a notification that gets no response. */
export const parseTask = (source: string): SocketTask | undefined => {
  const excess = exceedsJsonLimits(source)
  if (excess) return refusal(excess)
  const message = parsedObject(source)
  return taskOf(source, message, () => survey(source, DEEPEST))
}

/** Like `parseTask` for a large message: yields between pieces, so that the event loop stays free. */
export function* parseTaskSteps(source: string): Steps<SocketTask | undefined> {
  const excess = yield* jsonLimitSteps(source)
  if (excess) return refusal(excess)
  const read = yield* readLarge(source, DEEPEST)
  yield
  return read.ok ? taskOf(source, object(read.value), () => read.survey) : taskOf(source, undefined, () => null)
}

const taskOf = (
  source: string,
  message: JsonObject | undefined,
  surveyed: () => Survey | null,
): SocketTask | undefined => {
  const turn = (body: string, lane: string | null, previous: string | null): SocketTask => ({
    kind: 'turn',
    body,
    lane,
    previous,
    size: body.length,
  })
  // The gateway refuses malformed JSON with the same error as over HTTP.
  if (!message) return turn(source, null, null)
  const { type, stream_id, background, generate, ...body } = message
  const lane = text(stream_id) ?? null
  if (stream_id !== undefined && stream_id !== null && (lane === null || !LANE.test(lane))) return refusal(BAD_LANE)
  // Codex confirms that it has processed a response; its next message may be days away.
  if (type === 'response.processed') return undefined
  if (type !== 'response.create') return refusal(UNKNOWN_TYPE, lane)
  if (background === true) return refusal(NO_BACKGROUND, lane)
  const members = surveyed()
  // Only `generate: false` is passed on; true is the default.
  const request: JsonObject = { ...body, ...(generate === false && { generate }), stream: true }
  return turn(
    members?.ok ? rewrite({ text: source }, members.members, message, request).text : source,
    lane,
    text(message.previous_response_id) ?? null,
  )
}

/** Parses a JSON object; undefined for any other text. */
export const parsedObject = (source: string): JsonObject | undefined => {
  try {
    const value = parseJson(source)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

const refusal = (failure: Failure, lane: string | null = null): SocketTask => ({
  kind: 'refusal',
  failure,
  lane,
  size: 0,
})

const UNKNOWN_TYPE = fail('invalid_value', 'Unknown message type. The only one is `"type": "response.create"`.', {
  param: 'type',
})
const NO_BACKGROUND = fail(
  'unsupported',
  'Background responses are not available over a WebSocket. Leave out `background`, or send the request as a POST.',
  { param: 'background' },
)
const BAD_LANE = fail(
  'invalid_value',
  'A `stream_id` has 1 to 256 letters, digits, underscores, hyphens or periods. Leave it out for the default.',
  { param: 'stream_id' },
)

/** The task for a binary message. */
export const BINARY = refusal(
  fail('invalid_request', 'The message is binary. Send text: JSON with `"type": "response.create"`.'),
)
