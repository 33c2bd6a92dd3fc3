/** Assembles the events of a messages stream into a complete message. */
import { isObject, type Json, type JsonObject, list, number, object, parseJson, text } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { exceedsDepth, parseArguments } from '../shared/tool-arguments.ts'
import { mergeUsage } from './finish-and-usage.ts'

/** Nesting limit. Serializing a deeper answer could overflow the stack. */
const MAX_DEPTH = 256

/** A content block being assembled. A call's input is collected as JSON text. */
type AssembledBlock = {
  readonly members: { [member: string]: Json | undefined }
  readonly input: string[]
  readonly citations: Json[]
}

/** The message as JSON text; null without `message_start` or if a block has no start. */
export const assembleAnswer = (frames: readonly Frame[]): string | null => {
  let message: { [member: string]: Json | undefined } | undefined
  const blocks = new Map<number, AssembledBlock>()
  for (const { data } of frames) {
    const event = parseEvent(data)
    if (!event) continue
    // Ignore anything after the end.
    if (event.type === 'message_stop') break
    const index = number(event.index) ?? -1
    const block = blocks.get(index)
    switch (text(event.type)) {
      case 'message_start':
        message ??= { ...object(event.message) }
        break
      case 'content_block_start':
        blocks.set(index, { members: { ...object(event.content_block) }, input: [], citations: [] })
        break
      case 'content_block_delta': {
        const delta = object(event.delta)
        if (!block || !delta) return null
        addDelta(block, delta)
        break
      }
      case 'message_delta': {
        if (!message) return null
        const { type: _, delta, usage, ...more } = event
        const merged = object(usage) && mergeUsage(object(message.usage) ?? {}, object(usage) ?? {})
        Object.assign(message, more, object(delta), merged && { usage: merged })
        break
      }
    }
  }
  if (!message) return null
  const assembled = [...blocks.entries()].sort(([a], [b]) => a - b).map(([, block]) => finishBlock(block))
  const complete = { ...message, content: [...list(message.content), ...assembled] }
  return exceedsDepth(complete, MAX_DEPTH) ? null : JSON.stringify(complete)
}

const parseEvent = (data: string): JsonObject | undefined => {
  if (data === '' || data === '[DONE]') return undefined
  const event = parseJson(data)
  return isObject(event) ? event : undefined
}

const addDelta = ({ members, input, citations }: AssembledBlock, { type, ...delta }: JsonObject): void => {
  switch (type) {
    case 'text_delta':
      members.text = (text(members.text) ?? '') + (text(delta.text) ?? '')
      break
    case 'thinking_delta':
      members.thinking = (text(members.thinking) ?? '') + (text(delta.thinking) ?? '')
      break
    case 'input_json_delta':
      input.push(text(delta.partial_json) ?? '')
      break
    case 'citations_delta':
      citations.push(delta.citation ?? null)
      break
    // `signature_delta`, `compaction_delta` and unknown deltas are sent once, complete.
    default:
      Object.assign(members, delta)
  }
}

const finishBlock = ({ members, input, citations }: AssembledBlock): JsonObject => {
  const inputText = input.join('')
  return {
    ...members,
    ...(inputText !== '' && { input: parseArguments(inputText) }),
    ...(citations.length > 0 && { citations: [...list(members.citations), ...citations] }),
  }
}
