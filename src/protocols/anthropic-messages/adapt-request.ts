import { withoutBillingLines } from '../../core/billing-line.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { mapMember } from '../../core/json-edit.ts'
import type { EncodeTarget, LoweredBody } from '../../core/protocol.ts'
import { isOwn } from '../client-parts/thinking-signatures.ts'
import { lowerMembers } from '../shared/lower-output.ts'
import { fromBase64, isImageType, isTextType, mediaTypeOf, standardBase64 } from '../shared/media.ts'

/**
 * Changes the model's name, corrects the types of media, keeps the billing line back, and removes blocks that another format's answers left in the history
 * (thinking without Anthropic's signature, citations without an encrypted index), because Anthropic would reject the whole
 * request.
 */
export const adaptRequest = (body: JsonObject, { model, readsBillingLine }: EncodeTarget): JsonObject => {
  const known = readsBillingLine ? body : withoutBillingLines(body)
  const kept = withoutGatewayBlocks(known.messages)
  const { messages } = mapMember({ messages: kept }, 'messages', withTrueMedia)
  return { ...known, model, ...(messages !== known.messages && { messages }) }
}

/** The smallest thinking budget (https://docs.claude.com/en/docs/build-with-claude/extended-thinking). */
const LEAST_BUDGET = 1_024

/** A thinking budget must be below `max_tokens`. Where none fits, the answer is given without thinking. */
export const lowerOutput = (body: JsonObject, limit: number): LoweredBody => {
  const lowered = lowerMembers('max_tokens')(body, limit)
  const thinking = object(body.thinking)
  if ((number(thinking?.budget_tokens) ?? 0) < limit || lowered.paths.length === 0) return lowered
  const smaller = limit > LEAST_BUDGET ? { ...thinking, budget_tokens: limit - 1 } : { type: 'disabled' }
  return { body: { ...lowered.body, thinking: smaller }, paths: [...lowered.paths, 'thinking.budget_tokens'] }
}

// ── Media whose bytes are not what their label says ──────────────────────────────────────────────────────────────────

/** The message or the tool result with its media as blocks of the kind and type that their bytes prove. */
const withTrueMedia = (message: Json): Json => {
  if (!isObject(message)) return message
  return mapMember(message, 'content', (block) => {
    if (!isObject(block)) return block
    if (block.type === 'tool_result') return withTrueMedia(block)
    return block.type === 'image' || block.type === 'document' ? trueBlock(block) : block
  })
}

const trueBlock = (block: JsonObject): JsonObject => {
  const source = object(block.source)
  const [declared, data] = [text(source?.media_type) ?? '', text(source?.data)]
  if (source?.type !== 'base64' || data === undefined) return block
  const media_type = mediaTypeOf(declared, data)
  if (isImageType(media_type))
    return media_type === declared && block.type === 'image' ? block : asImage(block, media_type)
  if (block.type === 'document') return block
  if (media_type === 'application/pdf') return { ...block, type: 'document', source: { ...source, media_type } }
  const content = isTextType(media_type) ? fromBase64(standardBase64(data)) : undefined
  if (content === undefined) return block
  return { ...block, type: 'document', source: { type: 'text', media_type: 'text/plain', data: content } }
}

/** Without the members of a document. */
const asImage = ({ source, cache_control }: JsonObject, media_type: string): JsonObject => ({
  type: 'image',
  source: { ...object(source), media_type },
  ...(cache_control !== undefined && { cache_control }),
})

// ── Blocks of other formats ──────────────────────────────────────────────────────────────────────────────────────────

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
