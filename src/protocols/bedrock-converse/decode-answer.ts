import type { ChatEvent } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeFailure } from '../errors/aws-error.ts'
import { argumentsText } from '../shared/tool-arguments.ts'
import {
  optionalArguments,
  optionalList,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { ConverseAnswerReader } from './answer-reader.ts'

/** Decodes a complete answer as the events of the equivalent stream. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = new ConverseAnswerReader()
  if (!isObject(body)) return reader.fail(malformed('it is not an object'))
  const blocks = object(object(body.output)?.message)?.content
  if (!isList(blocks)) {
    const isError = text(body.message) !== undefined || text(body.Message) !== undefined || body.__type !== undefined
    return reader.fail(isError ? decodeFailure(200, body, () => undefined) : malformed('it has no message'))
  }
  const events: ChatEvent[] = [...reader.push('messageStart', {})]
  for (const [index, block] of blocks.entries()) events.push(...readBlock(reader, index, block))
  // Usage is read before `messageStop`, because a failure in `messageStop` ends the events.
  if (isObject(body.usage))
    events.push(...reader.push('metadata', { usage: body.usage, serviceTier: body.serviceTier ?? null }))
  if (text(body.stopReason)) events.push(...reader.push('messageStop', body))
  return [...events, ...reader.end()]
}

/** Checks the members that a complete block has in another shape than a stream; the reader checks the others. */
const hasBlockTypes: TypeCheck = optionalObject({
  toolUse: optionalObject({ input: optionalArguments }),
  reasoningContent: optionalObject({ reasoningText: optionalObject() }),
  citationsContent: optionalObject({ content: optionalList(optionalObject({ text: optionalString })) }),
})

/** Some blocks have a `type` beside their content member (fixtures amazon-bedrock-json-…). */
const readBlock = (reader: ConverseAnswerReader, index: number, block: Json): readonly ChatEvent[] => {
  if (!isObject(block)) return reader.fail(malformed('a block is not an object'))
  if (!hasBlockTypes(block)) return reader.fail(malformed('members of a block have the wrong type'))
  const { toolUse, reasoningContent, citationsContent } = block
  const delta = (member: JsonObject) => reader.push('contentBlockDelta', { contentBlockIndex: index, delta: member })
  const stop = () => reader.push('contentBlockStop', { contentBlockIndex: index })
  if (typeof block.text === 'string') return [...delta({ text: block.text }), ...stop()]
  if (isObject(toolUse)) {
    const { input, ...start } = toolUse
    const source = argumentsText(input)
    if (source === undefined) return reader.fail(malformed('the input of a tool call is nested too deep'))
    const begun = reader.push('contentBlockStart', { contentBlockIndex: index, start: { toolUse: start } })
    return [...begun, ...delta({ toolUse: { input: source } }), ...stop()]
  }
  if (isObject(reasoningContent)) {
    const { reasoningText, ...redacted } = reasoningContent
    return [...delta({ reasoningContent: { ...object(reasoningText), ...redacted } }), ...stop()]
  }
  if (isObject(citationsContent)) {
    const texts = list(citationsContent.content).map((part) => text(object(part)?.text) ?? '')
    const cited = list(citationsContent.citations).flatMap((citation) => delta({ citation }))
    return [...cited, ...delta({ text: texts.join('') }), ...stop()]
  }
  // Results of hosted tools, images and unknown blocks become foreign blocks.
  const { type: _, ...raw } = block
  return Object.keys(raw).length === 0 ? [] : delta({ ...raw })
}
