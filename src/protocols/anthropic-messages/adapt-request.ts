import { isList, isObject, type Json, type JsonObject, list } from '../../core/json.ts'
import type { EncodeTarget } from '../../core/protocol.ts'
import { isOwn } from './signatures.ts'

/**
 * Changes the model's name and removes blocks that another format's answers left in the history (thinking without
 * Anthropic's signature, citations without an encrypted index), because Anthropic would reject the whole request.
 */
export const adaptRequest = (body: JsonObject, { model }: EncodeTarget): JsonObject => {
  const messages = withoutGatewayBlocks(body.messages)
  return { ...body, model, ...(messages !== body.messages && { messages }) }
}

/** Paths of the blocks that `adaptRequest` removes, and of messages that become empty. */
export const omittedBlocks = ({ messages }: JsonObject): readonly string[] =>
  list(messages).flatMap((message, at) => {
    if (!isObject(message) || message.role !== 'assistant') return []
    const blocks = list(message.content)
    const omitted = blocks.flatMap((block, index) =>
      isForeignThinking(block) ? [`messages[${at}].content[${index}]`] : [],
    )
    return omitted.length > 0 && omitted.length === blocks.length ? [`messages[${at}]`] : omitted
  })

/** The same list if nothing has to be removed. */
const withoutGatewayBlocks = (messages: Json | undefined): Json | undefined => {
  if (!isList(messages)) return messages
  let changed = false
  const kept = messages.flatMap((message) => {
    if (!isObject(message) || message.role !== 'assistant' || !isList(message.content)) return [message]
    const content = message.content.filter((block) => !isForeignThinking(block)).map(withoutForeignCitations)
    if (content.length === message.content.length && content.every((block, at) => block === listAt(message, at)))
      return [message]
    changed = true
    return content.length === 0 ? [] : [{ ...message, content }]
  })
  return changed ? kept : messages
}

const listAt = ({ content }: JsonObject, at: number): Json | undefined => (isList(content) ? content[at] : undefined)

const isForeignThinking = (block: Json): boolean =>
  isObject(block) && block.type === 'thinking' && 'signature' in block && !isOwn(block.signature)

const withoutForeignCitations = (block: Json): Json => {
  if (!isObject(block) || block.type !== 'text' || !isList(block.citations)) return block
  const citations = block.citations.filter((citation) => !isObject(citation) || citation.encrypted_index !== '')
  if (citations.length === block.citations.length) return block
  const { citations: _, ...rest } = block
  return citations.length > 0 ? { ...rest, citations } : rest
}
