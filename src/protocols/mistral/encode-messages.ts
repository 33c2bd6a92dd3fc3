/**
 * Encodes messages in the order that Mistral requires (400, code 3230 `invalid_request_message_order`): system messages
 * first, tool results directly after their calls, and an assistant message between a result and the next user message
 * (BerriAI/litellm#17761, avante-corp/avante.nvim#2695).
 */
import type { Message, Part } from '../../core/chat.ts'
import { type Json, type JsonObject, text } from '../../core/json.ts'
import { dataUrl } from '../shared/data-url.ts'
import { type Losses, loseExtras, rolePath } from '../shared/losses.ts'
import { mediaTypeOf } from '../shared/media.ts'
import { type PartOf, partEncoder } from '../shared/part-encoder.ts'
import { wrapInput } from '../shared/tool-arguments.ts'
import { toolName } from '../shared/tool-names.ts'
import { markErrorResult } from '../shared/tool-results.ts'
import { callId } from './ids.ts'

/** The assistant message inserted between a tool result and a user message. */
const BRIDGE: JsonObject = { role: 'assistant', content: 'OK.' }

/** State of one encoding. `thinks`: reasoning of earlier turns is sent, which only reasoning models use. */
export type MessageContext = { readonly thinks: boolean; readonly losses: Losses }

/** Encodes the messages of a request. */
export const encodeMessages = (messages: readonly Message[], context: MessageContext): JsonObject[] => {
  const systems = messages.filter((message) => message.role === 'system')
  const written = systems.map((message) => encodeSystem(message, context))
  const turns = encodeTurns(messages, context)
  const last = written.at(-1)
  const from = systems.at(-1)
  if (turns.length > 0 || !last || !from) return [...written, ...turns]
  // Only system messages: the last one becomes the user's message.
  context.losses.lose(rolePath(from))
  return [...written.slice(0, -1), { ...last, role: 'user' }]
}

const encodeSystem = (message: Message, context: MessageContext): JsonObject => {
  loseExtras(message.extras, context.losses)
  return { role: 'system', content: encodeText(message.content, context) }
}

const encodeTurns = (messages: readonly Message[], context: MessageContext): JsonObject[] => {
  const written: JsonObject[] = []
  /** Images and files of tool results. A result holds text only, so they follow in a user message. */
  let attachments: JsonObject[] = []
  const add = (message: JsonObject) => {
    if (message.role === 'user' && written.at(-1)?.role === 'tool') written.push(BRIDGE)
    written.push(message)
  }
  const addAttachments = () => {
    if (attachments.length > 0) add({ role: 'user', content: attachments })
    attachments = []
  }
  const last = messages.findLastIndex(({ role }) => role !== 'system')
  for (const [place, message] of messages.entries()) {
    if (message.role !== 'tool' && message.role !== 'system') addAttachments()
    switch (message.role) {
      case 'system':
        break
      case 'user':
        loseExtras(message.extras, context.losses)
        add({ role: 'user', content: plain(message.content.flatMap((part) => encodeUserPart(part, context))) })
        break
      case 'assistant': {
        const turn = encodeTurn(message, place === last, context)
        if (turn) add(turn)
        break
      }
      case 'tool': {
        loseExtras(message.extras, context.losses)
        const texts = message.content.filter(({ type }) => type === 'text' || type === 'refusal')
        const more = message.content
          .filter(({ type }) => type !== 'text' && type !== 'refusal')
          .flatMap((part) => encodeUserPart(part, context))
        const notice = texts.length === 0 && more.length > 0 ? 'The result is in the next user message.' : undefined
        add({
          role: 'tool',
          tool_call_id: callId(message.callId),
          content: notice ?? markErrorResult(encodeText(texts, context), message.isError),
        })
        for (const part of more) attachments.push(part)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }
  addAttachments()
  return written
}

// ── Assistant messages ───────────────────────────────────────────────────────────────────────────────────────────

type AssistantMessage = Message & { readonly role: 'assistant' }

/** Encodes an assistant message; undefined if nothing remains. As the last message it becomes a prefix. */
const encodeTurn = (
  { content, extras }: AssistantMessage,
  isLast: boolean,
  context: MessageContext,
): JsonObject | undefined => {
  const prefix = extras?.find(({ name }) => name === 'prefix')
  for (const extra of extras ?? []) if (extra !== prefix) context.losses.loseExtra(extra)
  const chunks = content.flatMap((part) => encodeAssistantPart(part, context))
  const calls = content.flatMap((part) => (part.type === 'tool-call' ? [encodeCall(part)] : []))
  if (chunks.length === 0 && calls.length === 0) return undefined
  const isPrefix = isLast && calls.length === 0
  if (prefix && prefix.value !== false && !isPrefix) context.losses.lose(prefix.at)
  return {
    role: 'assistant',
    // Other formats split texts around citations and calls; they are joined.
    content: chunks.every(isPlainText) ? chunks.map((chunk) => chunk.text).join('') : chunks,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(isPrefix && { prefix: true }),
  }
}

const encodeCall = (part: Part & { readonly type: 'tool-call' }): JsonObject => {
  // Empty arguments must still be valid JSON.
  const given = part.custom
    ? JSON.stringify(wrapInput(part.arguments))
    : part.arguments.trim() === ''
      ? '{}'
      : part.arguments
  return { id: callId(part.id), type: 'function', function: { name: toolName(part.name), arguments: given } }
}

// ── User messages and tool results ───────────────────────────────────────────────────────────────────────────────

const isPlainText = (chunk: JsonObject): boolean => chunk.type === 'text'

/** A single text part becomes a string. */
const plain = (chunks: readonly JsonObject[]): Json => {
  const [only] = chunks
  if (!only) return ''
  return chunks.length === 1 && isPlainText(only) ? (only.text ?? '') : chunks
}

/** Content of a message that holds text only. */
const encodeText = (content: readonly Part[], context: MessageContext): Json =>
  plain(content.flatMap((part) => encodeTextPart(part, context)))

const DETAILS: ReadonlySet<string> = new Set(['low', 'auto', 'high'])

const encodeImage = (part: Part & { readonly type: 'image' }, context: MessageContext): JsonObject[] => {
  loseExtras(part.extras, context.losses)
  const { source, detail, at } = part
  if (source.kind === 'id') {
    context.losses.unfit(at)
    return []
  }
  const known = detail !== undefined && DETAILS.has(detail)
  if (detail !== undefined && !known) context.losses.loseMember(part, 'detail')
  // Unrecognised image data is most often PNG; a data URL requires a media type.
  const url =
    source.kind === 'url'
      ? source.url
      : dataUrl({ ...source, mediaType: mediaTypeOf(source.mediaType, source.data) || 'image/png' })
  return [{ type: 'image_url', image_url: { url, ...(known && { detail }) } }]
}

/** A document by URL or as a data URL (recording mistral-mistral-chat-document-models-mistral-mistral-small-lates-58954ba4). */
const encodeFile = (part: Part & { readonly type: 'file' }, context: MessageContext): JsonObject[] => {
  loseExtras(part.extras, context.losses)
  const { source, filename, at } = part
  if (source.kind === 'id') {
    context.losses.unfit(at)
    return []
  }
  const url =
    source.kind === 'url'
      ? source.url
      : dataUrl({
          ...source,
          mediaType: mediaTypeOf(source.mediaType, source.data, filename) || 'application/octet-stream',
        })
  return [{ type: 'document_url', document_url: url, ...(filename !== undefined && { document_name: filename }) }]
}

/** Mistral's own part types in a chat request, with their members. */
const OWN_PARTS: { readonly [type: string]: readonly string[] } = {
  document_url: ['document_url', 'document_name'],
  reference: ['reference_ids'],
}

const encodeForeign = (part: Part & { readonly type: 'foreign' }, { losses }: MessageContext): JsonObject[] => {
  const type = text(part.raw.type) ?? ''
  const members = Object.hasOwn(OWN_PARTS, type) ? OWN_PARTS[type] : undefined
  const [first] = members ?? []
  if (!members || !first || !isOwn(first, part.raw[first])) {
    losses.unfit(part.at)
    return []
  }
  for (const name of Object.keys(part.raw))
    if (name !== 'type' && !members.includes(name)) losses.lose(`${part.at}.${name}`)
  const carried = members.flatMap((name) => (part.raw[name] == null ? [] : [[name, part.raw[name]] as const]))
  return [{ type, ...Object.fromEntries(carried) }]
}

const isOwn = (member: string, value: Json | undefined): boolean =>
  member === 'document_url' ? typeof value === 'string' : Array.isArray(value) && value.every(Number.isInteger)

// ── Parts by the kind of message ─────────────────────────────────────────────────────────────────────────────────

const asText = (part: PartOf<'text' | 'refusal'>, { losses }: MessageContext): JsonObject[] => {
  if (part.type === 'text') loseExtras(part.extras, losses)
  return [{ type: 'text', text: part.text }]
}

const encodeTextPart = partEncoder<MessageContext>({ text: asText, refusal: asText })

const encodeUserPart = partEncoder<MessageContext>({
  text: asText,
  refusal: asText,
  image: encodeImage,
  file: encodeFile,
  // The server detects the audio format.
  audio: ({ data }) => [{ type: 'input_audio', input_audio: data }],
  foreign: encodeForeign,
})

const asNonEmptyText = (part: PartOf<'text' | 'refusal'>, context: MessageContext): JsonObject[] =>
  asText(part, context).filter(({ text }) => text !== '')

const encodeAssistantPart = partEncoder<MessageContext>({
  text: asNonEmptyText,
  refusal: asNonEmptyText,
  reasoning: ({ text, at }, { thinks, losses }) => {
    // This format has no signatures: only reasoning with text is sent.
    if (thinks && text !== '') return [{ type: 'thinking', thinking: [{ type: 'text', text }] }]
    losses.lose(at)
    return []
  },
  // `encodeTurn` encodes calls beside the content.
  'tool-call': () => [],
  foreign: encodeForeign,
})
