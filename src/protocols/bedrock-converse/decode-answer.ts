/** Answers of this format, whole and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, object, parseObject, text } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { ERROR, EXCEPTION } from '../framing/event-stream.ts'
import { argumentsText } from '../shared/tool-arguments.ts'
import {
  optionalArguments,
  optionalList,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { type AnswerReader, answerReader, malformed } from './answer-reader.ts'
import { decodeFailure, exceptionFailure } from './errors.ts'

// ── Whole ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A whole answer as the events it would have been. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = answerReader()
  if (!isObject(body)) return reader.fail(malformed('it is no object'))
  const blocks = object(object(body.output)?.message)?.content
  if (!isList(blocks)) {
    const isError = text(body.message) !== undefined || text(body.Message) !== undefined || body.__type !== undefined
    return reader.fail(isError ? decodeFailure(200, body, () => undefined) : malformed('it is no answer'))
  }
  const events: ChatEvent[] = [...reader.push('messageStart', {})]
  for (const [at, block] of blocks.entries()) events.push(...tellBlock(reader, at, block))
  // In front of a failure, behind which nothing may come.
  if (isObject(body.usage)) events.push(...reader.push('metadata', { usage: body.usage }))
  if (text(body.stopReason)) events.push(...reader.push('messageStop', body))
  return [...events, ...reader.end()]
}

/** What a whole block has otherwise than the pieces of a stream, whose types the reader knows. */
const BLOCK: TypeCheck = optionalObject({
  toolUse: optionalObject({ input: optionalArguments }),
  reasoningContent: optionalObject({ reasoningText: optionalObject() }),
  citationsContent: optionalObject({ content: optionalList(optionalObject({ text: optionalString })) }),
})

/** The members of a block that carry it; `type` stands beside some of them (fixtures amazon-bedrock-json-…). */
const tellBlock = (reader: AnswerReader, at: number, block: Json): readonly ChatEvent[] => {
  if (!isObject(block)) return reader.fail(malformed('a block that is no object'))
  if (!BLOCK(block)) return reader.fail(malformed('a block whose members are not of their types'))
  const { toolUse, reasoningContent, citationsContent } = block
  const delta = (member: JsonObject) => reader.push('contentBlockDelta', { contentBlockIndex: at, delta: member })
  const stop = () => reader.push('contentBlockStop', { contentBlockIndex: at })
  if (typeof block.text === 'string') return [...delta({ text: block.text }), ...stop()]
  if (isObject(toolUse)) {
    const { input, ...start } = toolUse
    const written = argumentsText(input)
    if (written === undefined) return reader.fail(malformed('a call with too deep arguments'))
    const begun = reader.push('contentBlockStart', { contentBlockIndex: at, start: { toolUse: start } })
    return [...begun, ...delta({ toolUse: { input: written } }), ...stop()]
  }
  if (isObject(reasoningContent)) {
    const { reasoningText, ...sealed } = reasoningContent
    return [...delta({ reasoningContent: { ...object(reasoningText), ...sealed } }), ...stop()]
  }
  if (isObject(citationsContent)) {
    const said = list(citationsContent.content).map((one) => text(object(one)?.text) ?? '')
    const cited = list(citationsContent.citations).flatMap((citation) => delta({ citation }))
    return [...cited, ...delta({ text: said.join('') }), ...stop()]
  }
  // Results of tools it ran, pictures, and whatever comes next: nothing a client of another format could use.
  const { type: _, ...raw } = block
  return Object.keys(raw).length === 0 ? [] : delta({ ...raw })
}

// ── Streamed ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Reads a stream of messages, each an event of its own name; `metadata` with the usage comes behind the end. */
export const decodeStream = (): Stage<Frame, ChatEvent> => {
  const reader = answerReader()
  return {
    push({ event, data, oversized }) {
      if (oversized) {
        const failure = fail('too_large', "A single event of the provider's answer was larger than the gateway takes.")
        return reader.fail(failure)
      }
      const payload = parseObject(data)
      const troubled = [EXCEPTION, ERROR].find((mark) => event?.startsWith(mark))
      if (event !== undefined && troubled !== undefined)
        return reader.fail(exceptionFailure(event.slice(troubled.length), payload ?? {}))
      // A sign of life: `initial-response` has nothing in it.
      if (data === '') return reader.ping()
      if (!payload) return reader.fail(malformed('an event is damaged, or no JSON object'))
      if (event === undefined) return reader.fail(malformed('an event without a name'))
      return reader.push(event, payload)
    },
    end: () => reader.end(),
  }
}
