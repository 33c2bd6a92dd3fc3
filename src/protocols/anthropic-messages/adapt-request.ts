import { isList, isObject, type Json, type JsonObject, list } from '../../core/json.ts'
import type { EncodeTarget } from '../../core/protocol.ts'
import { isOwn } from './signatures.ts'

/**
 * The client's own body for an upstream of this format: only the model's name changes. What we gave the client in place
 * of Anthropic's while another format answered (unsigned thoughts, citations without their seal) is taken back, since it
 * would have the whole request refused.
 */
export const adaptRequest = (body: JsonObject, { model }: EncodeTarget): JsonObject => {
  const messages = withoutOurs(body.messages)
  return { ...body, model, ...(messages !== body.messages && { messages }) }
}

/** Paths of the blocks that `adaptRequest` leaves out, and of messages that have no others. */
export const leftOut = ({ messages }: JsonObject): readonly string[] =>
  list(messages).flatMap((message, at) => {
    if (!isObject(message) || message.role !== 'assistant') return []
    const blocks = list(message.content)
    const gone = blocks.flatMap((block, index) => (isOurThought(block) ? [`messages[${at}].content[${index}]`] : []))
    return gone.length > 0 && gone.length === blocks.length ? [`messages[${at}]`] : gone
  })

/** The same list when there is nothing to take back. */
const withoutOurs = (messages: Json | undefined): Json | undefined => {
  if (!isList(messages)) return messages
  let changed = false
  const kept = messages.flatMap((message) => {
    if (!isObject(message) || message.role !== 'assistant' || !isList(message.content)) return [message]
    const content = message.content.filter((block) => !isOurThought(block)).map(withoutOurCitations)
    if (content.length === message.content.length && content.every((block, at) => block === listAt(message, at)))
      return [message]
    changed = true
    return content.length === 0 ? [] : [{ ...message, content }]
  })
  return changed ? kept : messages
}

const listAt = ({ content }: JsonObject, at: number): Json | undefined => (isList(content) ? content[at] : undefined)

const isOurThought = (block: Json): boolean =>
  isObject(block) && block.type === 'thinking' && 'signature' in block && !isOwn(block.signature)

const withoutOurCitations = (block: Json): Json => {
  if (!isObject(block) || block.type !== 'text' || !isList(block.citations)) return block
  const citations = block.citations.filter((citation) => !isObject(citation) || citation.encrypted_index !== '')
  if (citations.length === block.citations.length) return block
  const { citations: _, ...rest } = block
  return citations.length > 0 ? { ...rest, citations } : rest
}
