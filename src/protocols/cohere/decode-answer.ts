/** Decodes answers of this format, complete and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeJsonFrames } from '../shared/json-frames.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'
import {
  anyOf,
  byType,
  optionalArguments,
  optionalList,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { CohereAnswerReader } from './answer-reader.ts'
import { decodeFailure } from './errors.ts'

const NO_HEADERS = () => undefined

const isCall: TypeCheck = optionalObject({
  function: optionalObject({ name: optionalString, arguments: optionalArguments }),
})
const TEXT_MEMBERS = { text: optionalString, thinking: optionalString }
const hasMessageTypes: TypeCheck = optionalObject({
  content: anyOf(
    optionalString,
    optionalList(byType({ text: optionalObject(TEXT_MEMBERS), thinking: optionalObject(TEXT_MEMBERS) })),
  ),
  tool_plan: optionalString,
  tool_calls: optionalList(isCall),
})
/** A stream event has one part or one call; a message begins with empty lists. */
const hasDeltaTypes: TypeCheck = optionalObject({
  message: optionalObject({
    content: anyOf(optionalObject({ type: optionalString, ...TEXT_MEMBERS }), optionalList(optionalObject())),
    tool_plan: optionalString,
    tool_calls: anyOf(isCall, optionalList(isCall)),
  }),
})

/** The failure in an error body: its `message` is a string; the `message` of an answer is an object. */
const failureIn = (body: JsonObject) =>
  typeof body.message === 'string' || (body.error !== undefined && body.error !== null && body.type === undefined)
    ? decodeFailure(200, body, NO_HEADERS)
    : undefined

// ── Complete answers ─────────────────────────────────────────────────────────────────────────────────────────────

/** Decodes a complete answer: the plan, then thinking and text, then the calls. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = new CohereAnswerReader()
  if (!isObject(body)) return reader.fail(malformed('it is not an object'))
  const failure = failureIn(body)
  if (failure) return reader.fail(failure)
  const message = object(body.message)
  if (!message) return reader.fail(malformed('it has no message'))
  if (!hasMessageTypes(message)) return reader.fail(malformed('members of the message have the wrong type'))
  const events: ChatEvent[] = [...reader.start(body.id), ...reader.addText('plan', text(message.tool_plan) ?? '')]
  events.push(...readContent(message, list(body.logprobs), reader))
  for (const call of list(message.tool_calls)) {
    if (reader.over) return events
    events.push(...readCall(call, reader))
  }
  if (reader.over) return events
  return [...events, ...reader.finish(body.finish_reason, body.usage), ...reader.end()]
}

const readContent = (message: JsonObject, logprobs: readonly Json[], reader: CohereAnswerReader): ChatEvent[] => {
  const parts: readonly Json[] =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : list(message.content)
  const citations = list(message.citations)
  const events: ChatEvent[] = []
  const firstText = parts.findIndex((part) => object(part)?.type === 'text')
  for (const [index, part] of parts.entries()) {
    if (!isObject(part)) return [...events, ...reader.fail(malformed('a part is not an object'))]
    if (part.type === 'text') {
      events.push(...reader.addText('text', text(part.text) ?? ''))
      if (index === firstText) for (const item of logprobs) events.push(...reader.addText('text', '', item))
      for (const citation of citations)
        if ((object(citation)?.content_index ?? firstText) === index) events.push(...reader.cite(citation))
    } else if (part.type === 'thinking') events.push(...reader.addText('thinking', text(part.thinking) ?? ''))
    else if (exceedsDepth(part, MAX_DEPTH)) return [...events, ...reader.fail(malformed('a part is nested too deep'))]
    else events.push(...reader.foreign(part))
    events.push(...reader.endPart())
  }
  return events
}

const readCall = (raw: Json, reader: CohereAnswerReader): readonly ChatEvent[] => {
  const call = object(raw)
  const called = object(call?.function)
  const given = argumentsText(called?.arguments)
  if (!called || given === undefined) return reader.fail(malformed('an incomplete tool call'))
  const events = [...reader.beginCall(call?.id, text(called.name) ?? '')]
  return reader.over ? events : [...events, ...reader.addArguments(given), ...reader.endCall()]
}

// ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Decodes a stream of typed events. `message-end` is the last one; a stream without it is truncated. */
export const decodeStream = (): StreamDecoder => {
  const reader = new CohereAnswerReader()
  return decodeJsonFrames(reader, (event, frame) => {
    if (!isObject(event)) return reader.fail(malformed('an event is not a JSON object'))
    const failure = failureIn(event)
    if (failure) return reader.fail(failure)
    if (!hasDeltaTypes(event.delta)) return reader.fail(malformed('members of a delta have the wrong type'))
    return readEvent(text(event.type) ?? frame.event, event, reader)
  })
}

const readEvent = (type: string | undefined, event: JsonObject, reader: CohereAnswerReader): readonly ChatEvent[] => {
  const delta = object(event.delta) ?? {}
  const message = object(delta.message) ?? {}
  const content = object(message.content) ?? {}
  switch (type) {
    case 'message-start':
      return reader.start(event.id)
    case 'content-start':
      if (content.type !== undefined && content.type !== 'text' && content.type !== 'thinking')
        return exceedsDepth(content, MAX_DEPTH)
          ? reader.fail(malformed('a part is nested too deep'))
          : reader.foreign(content)
      return [...reader.endPart(), ...readText(content, event.logprobs, reader)]
    case 'content-delta':
      return readText(content, event.logprobs, reader)
    case 'content-end':
      return reader.endPart()
    case 'tool-plan-delta':
      return reader.addText('plan', text(message.tool_plan) ?? '')
    case 'tool-call-start': {
      const call = singleCall(message.tool_calls)
      const called = object(call?.function)
      const events = [...reader.beginCall(call?.id, text(called?.name) ?? '')]
      return reader.over ? events : [...events, ...reader.addArguments(text(called?.arguments) ?? '')]
    }
    case 'tool-call-delta':
      return reader.addArguments(text(object(singleCall(message.tool_calls)?.function)?.arguments) ?? '')
    case 'tool-call-end':
      return reader.endCall()
    case 'citation-start':
      return isList(message.citations)
        ? message.citations.flatMap((citation) => [...reader.cite(citation)])
        : reader.cite(message.citations)
    case 'message-end':
      return reader.finish(delta.finish_reason, delta.usage, delta.error)
    // Ends of citations, the prompt for debugging, and unknown events.
    default:
      return [{ type: 'ping' }]
  }
}

const readText = (
  content: JsonObject,
  logprobs: Json | undefined,
  reader: CohereAnswerReader,
): readonly ChatEvent[] => [
  ...reader.addText('thinking', text(content.thinking) ?? ''),
  ...reader.addText('text', text(content.text) ?? '', logprobs),
]

/** A stream event has one call, usually not in a list. */
const singleCall = (calls: Json | undefined): JsonObject | undefined => object(isList(calls) ? calls[0] : calls)
