/** Assembles streams into whole answers, as clients do. */
import type { ClientProtocolName } from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { objects } from './rule.ts'

/** The events of a stream, without comments. */
const eventsIn = (stream: string): readonly JsonObject[] =>
  stream.split('\n').flatMap((line) => {
    if (!line.startsWith('data: {')) return []
    const event: unknown = JSON.parse(line.slice('data: '.length))
    return isObject(event) ? [event] : []
  })

const joined = (before: Json | undefined, more: Json): Json =>
  typeof before === 'string' && typeof more === 'string' ? before + more : more

/**
 * Merges pieces into the entries of a list. Pieces with the same index, and the same type if present, belong to one
 * entry.
 */
const merged = (entries: readonly JsonObject[], pieces: readonly JsonObject[]): readonly JsonObject[] => {
  const all = [...entries]
  for (const piece of pieces) {
    const at = all.findIndex(
      ({ index, type }) => index === piece.index && (type ?? piece.type) === (piece.type ?? type),
    )
    if (at === -1) all.push(piece)
    else all[at] = addedTo(all[at] ?? {}, piece)
  }
  return all
}

/** Members whose pieces are concatenated; others are replaced. */
const JOINED = new Set(['content', 'reasoning', 'reasoning_content', 'text', 'arguments', 'summary', 'refusal'])

const addedTo = (value: JsonObject, piece: JsonObject): JsonObject => {
  const result: { [member: string]: Json | undefined } = { ...value }
  for (const [member, more] of Object.entries(piece)) {
    if (more === undefined || more === null) continue
    const before = result[member]
    if (isList(more)) result[member] = merged(objects(before), objects(more))
    else if (isObject(more)) result[member] = addedTo(object(before) ?? {}, more)
    else result[member] = JOINED.has(member) ? joined(before, more) : more
  }
  return result
}

const chat = (stream: string): JsonObject | null => {
  if (!stream.endsWith('data: [DONE]\n\n')) return null
  let message: JsonObject = {}
  for (const chunk of eventsIn(stream)) message = addedTo(message, object(object(list(chunk.choices)[0])?.delta) ?? {})
  const calls = objects(message.tool_calls).map(({ index: _, ...call }) => call)
  return {
    choices: [
      { message: { ...message, content: message.content ?? null, ...(calls.length > 0 && { tool_calls: calls }) } },
    ],
  }
}

const responses = (stream: string): JsonObject | null =>
  object(eventsIn(stream).find(({ type }) => type === 'response.completed')?.response) ?? null

const messages = (stream: string): JsonObject | null => {
  const blocks: JsonObject[] = []
  let ended = false
  for (const event of eventsIn(stream)) {
    const at = Number(event.index)
    const block = blocks[at] ?? {}
    const delta = object(event.delta) ?? {}
    switch (event.type) {
      case 'content_block_start':
        blocks[at] = {
          ...object(event.content_block),
          ...(object(event.content_block)?.type === 'tool_use' && { input: '' }),
        }
        break
      case 'content_block_delta':
        blocks[at] = {
          ...block,
          ...(delta.type === 'text_delta' && { text: joined(block.text, delta.text ?? '') }),
          ...(delta.type === 'thinking_delta' && { thinking: joined(block.thinking, delta.thinking ?? '') }),
          ...(delta.type === 'signature_delta' && { signature: delta.signature }),
          ...(delta.type === 'input_json_delta' && { input: joined(block.input, delta.partial_json ?? '') }),
        }
        break
      case 'content_block_stop':
        if (block.type === 'tool_use') blocks[at] = { ...block, input: JSON.parse(text(block.input) || '{}') }
        break
      case 'message_stop':
        ended = true
    }
  }
  return ended ? { content: blocks } : null
}

/** The whole answer of a stream; null: the stream is incomplete. */
export const collect = (style: ClientProtocolName, stream: string): JsonObject | null => {
  switch (style) {
    case 'openai-responses':
      return responses(stream)
    case 'anthropic-messages':
      return messages(stream)
    default:
      return chat(stream)
  }
}
