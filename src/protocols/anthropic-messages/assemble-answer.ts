/** A stream of messages events as the one message it would have been. */
import { isObject, type Json, type JsonObject, list, number, object, parseJson, text } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { exceedsDepth, parseArguments } from '../shared/tool-arguments.ts'
import { mergeUsage } from './finish-and-usage.ts'

/** Deeper than any answer is; what is deeper could overflow the stack while it is written. */
const DEEPEST = 256

/** A content block as it grows. Text is kept in pieces, a call's input as the JSON it will be. */
type Block = {
  readonly members: { [member: string]: Json | undefined }
  readonly input: string[]
  readonly citations: Json[]
}

/** Null: it has no beginning, or a block nobody began. */
export const gather = (frames: readonly Frame[]): string | null => {
  let message: { [member: string]: Json | undefined } | undefined
  const blocks = new Map<number, Block>()
  for (const { data } of frames) {
    const event = read(data)
    if (!event) continue
    // What comes behind the end is no part of the message.
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
        grow(block, delta)
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
  const said = [...blocks.entries()].sort(([a], [b]) => a - b).map(([, block]) => finished(block))
  const whole = { ...message, content: [...list(message.content), ...said] }
  return exceedsDepth(whole, DEEPEST) ? null : JSON.stringify(whole)
}

const read = (data: string): JsonObject | undefined => {
  if (data === '' || data === '[DONE]') return undefined
  const event = parseJson(data)
  return isObject(event) ? event : undefined
}

const grow = ({ members, input, citations }: Block, { type, ...delta }: JsonObject): void => {
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
    // `signature_delta`, `compaction_delta` and what is still to come: said once, whole.
    default:
      Object.assign(members, delta)
  }
}

const finished = ({ members, input, citations }: Block): JsonObject => {
  const written = input.join('')
  return {
    ...members,
    ...(written !== '' && { input: parseArguments(written) }),
    ...(citations.length > 0 && { citations: [...list(members.citations), ...citations] }),
  }
}
