/** Answers of this format, whole and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, object, readJson, text } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { malformed } from '../errors/malformed.ts'
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
import { answerReader, type Reader } from './answer-reader.ts'
import { decodeFailure } from './errors.ts'

const NO_HEADERS = () => undefined

const CALL: TypeCheck = optionalObject({
  function: optionalObject({ name: optionalString, arguments: optionalArguments }),
})
const SAID = { text: optionalString, thinking: optionalString }
const MESSAGE: TypeCheck = optionalObject({
  content: anyOf(optionalString, optionalList(byType({ text: optionalObject(SAID), thinking: optionalObject(SAID) }))),
  tool_plan: optionalString,
  tool_calls: optionalList(CALL),
})
/** A stream has one part and one call at a time; an empty list of them is where a message begins. */
const DELTA: TypeCheck = optionalObject({
  message: optionalObject({
    content: anyOf(optionalObject({ type: optionalString, ...SAID }), optionalList(optionalObject())),
    tool_plan: optionalString,
    tool_calls: anyOf(CALL, optionalList(CALL)),
  }),
})

/** An error in place of an answer: its message is a text, where an answer's is an object. */
const failureIn = (body: JsonObject) =>
  typeof body.message === 'string' || (body.error !== undefined && body.error !== null && body.type === undefined)
    ? decodeFailure(200, body, NO_HEADERS)
    : undefined

// ── Whole ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A whole answer as the events it would have been: the plan, then what was thought and said, then the calls. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = answerReader()
  if (!isObject(body)) return reader.fail(malformed('it is no object'))
  const failure = failureIn(body)
  if (failure) return reader.fail(failure)
  const message = object(body.message)
  if (!message) return reader.fail(malformed('it is no answer'))
  if (!MESSAGE(message)) return reader.fail(malformed('a message whose members are not of their types'))
  const events: ChatEvent[] = [...reader.start(body.id), ...reader.say('plan', text(message.tool_plan) ?? '')]
  events.push(...readContent(message, list(body.logprobs), reader))
  for (const call of list(message.tool_calls)) {
    if (reader.over) return events
    events.push(...readCall(call, reader))
  }
  if (reader.over) return events
  return [...events, ...reader.finish(body.finish_reason, body.usage), ...reader.end()]
}

const readContent = (message: JsonObject, logprobs: readonly Json[], reader: Reader): ChatEvent[] => {
  const blocks: readonly Json[] =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : list(message.content)
  const cited = list(message.citations)
  const events: ChatEvent[] = []
  const first = blocks.findIndex((block) => object(block)?.type === 'text')
  for (const [index, block] of blocks.entries()) {
    if (!isObject(block)) return [...events, ...reader.fail(malformed('a part that is no object'))]
    if (block.type === 'text') {
      events.push(...reader.say('text', text(block.text) ?? ''))
      if (index === first) for (const item of logprobs) events.push(...reader.say('text', '', item))
      for (const citation of cited)
        if ((object(citation)?.content_index ?? first) === index) events.push(...reader.cite(citation))
    } else if (block.type === 'thinking') events.push(...reader.say('thinking', text(block.thinking) ?? ''))
    else if (exceedsDepth(block, MAX_DEPTH)) return [...events, ...reader.fail(malformed('a part nested too deep'))]
    else events.push(...reader.foreign(block))
    events.push(...reader.pause())
  }
  return events
}

const readCall = (call: Json, reader: Reader): readonly ChatEvent[] => {
  const told = object(call)
  const called = object(told?.function)
  const written = argumentsText(called?.arguments)
  if (!called || written === undefined) return reader.fail(malformed('a call that is not whole'))
  const events = [...reader.call(told?.id, text(called.name) ?? '')]
  return reader.over ? events : [...events, ...reader.argue(written), ...reader.closeCall()]
}

// ── Streamed ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Reads a stream of named events, of which `message-end` is the last: without it the answer broke off. */
export const decodeStream = (): StreamDecoder => {
  const reader = answerReader()
  return {
    get done() {
      return reader.over
    },
    push(frame) {
      if (reader.over) return []
      if (frame.oversized)
        return reader.fail(
          fail('too_large', "A single event of the provider's answer was larger than the gateway takes."),
        )
      if (frame.data === '') return [{ type: 'ping' }]
      if (frame.data === '[DONE]') return []
      const event = readJson(frame.data)
      if (!isObject(event)) return reader.fail(malformed('an event is no JSON object'))
      const failure = failureIn(event)
      if (failure) return reader.fail(failure)
      if (!DELTA(event.delta)) return reader.fail(malformed('a step whose members are not of their types'))
      return readEvent(text(event.type) ?? frame.event, event, reader)
    },
    end: () => reader.end(),
  }
}

const readEvent = (type: string | undefined, event: JsonObject, reader: Reader): readonly ChatEvent[] => {
  const delta = object(event.delta) ?? {}
  const message = object(delta.message) ?? {}
  const content = object(message.content) ?? {}
  switch (type) {
    case 'message-start':
      return reader.start(event.id)
    case 'content-start':
      if (content.type !== undefined && content.type !== 'text' && content.type !== 'thinking')
        return exceedsDepth(content, MAX_DEPTH)
          ? reader.fail(malformed('a part nested too deep'))
          : reader.foreign(content)
      return [...reader.pause(), ...saidIn(content, event.logprobs, reader)]
    case 'content-delta':
      return saidIn(content, event.logprobs, reader)
    case 'content-end':
      return reader.pause()
    case 'tool-plan-delta':
      return reader.say('plan', text(message.tool_plan) ?? '')
    case 'tool-call-start': {
      const call = only(message.tool_calls)
      const called = object(call?.function)
      const events = [...reader.call(call?.id, text(called?.name) ?? '')]
      return reader.over ? events : [...events, ...reader.argue(text(called?.arguments) ?? '')]
    }
    case 'tool-call-delta':
      return reader.argue(text(object(only(message.tool_calls)?.function)?.arguments) ?? '')
    case 'tool-call-end':
      return reader.closeCall()
    case 'citation-start':
      return isList(message.citations)
        ? message.citations.flatMap((citation) => [...reader.cite(citation)])
        : reader.cite(message.citations)
    case 'message-end':
      return reader.finish(delta.finish_reason, delta.usage, delta.error)
    // Ends of citations, the prompt told for finding faults, and whatever comes next.
    default:
      return [{ type: 'ping' }]
  }
}

const saidIn = (content: JsonObject, logprobs: Json | undefined, reader: Reader): readonly ChatEvent[] => [
  ...reader.say('thinking', text(content.thinking) ?? ''),
  ...reader.say('text', text(content.text) ?? '', logprobs),
]

/** A stream has one call at a time, not in a list. */
const only = (calls: Json | undefined): JsonObject | undefined => object(isList(calls) ? calls[0] : calls)
