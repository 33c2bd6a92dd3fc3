/** Encodes a conversation: system messages first, then the turns. Documents of user messages are separate. */
import type { Message, Part } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { isObject } from '../../core/json.ts'
import { dataUrl } from '../shared/data-url.ts'
import { type Losses, loseExtras, rolePath } from '../shared/losses.ts'
import { fromBase64, isTextType, mediaTypeOf, standardBase64 } from '../shared/media.ts'
import { encodeSystemParts, type PartOf, partEncoder } from '../shared/part-encoder.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { toolName } from './ids.ts'
import { isPlan } from './tool-plan.ts'

export type CohereConversation = {
  readonly messages: readonly JsonObject[]
  readonly documents: readonly JsonObject[]
}

/** What the encoding of messages depends on. */
export type CohereConversationOptions = {
  /** The model thinks, and accepts its earlier thinking. */
  readonly thinks: boolean
  /** `response_format` is "not supported when used in combinations with the `documents` … parameters". */
  readonly hasOutputFormat: boolean
}

/**
 * Encodes the messages. System messages move to the front ("system turn must be the first in the list"). If there are no
 * others, the last system message becomes a user message, so that there is something to answer.
 */
export const encodeConversation = (
  messages: readonly Message[],
  options: CohereConversationOptions,
  losses: Losses,
): CohereConversation => {
  const systems = messages.filter((message) => message.role === 'system')
  const turns = encodeTurns(messages, options, losses)
  const last = turns.messages.length === 0 ? systems.at(-1) : undefined
  if (last) losses.lose(rolePath(last))
  const system = systems
    .filter((message) => message !== last)
    .flatMap((message) => encodeSystemParts(message, encodeText, losses))
  const question = last ? encodeSystemParts(last, encodeText, losses) : []
  return {
    messages: [
      ...(system.length > 0 ? [{ role: 'system', content: contentOf(system) }] : []),
      ...(question.length > 0 ? [{ role: 'user', content: contentOf(question) }] : []),
      ...turns.messages,
    ],
    documents: turns.documents,
  }
}

/** A single text part becomes a string, which models of every age accept. */
const contentOf = (parts: readonly JsonObject[]): Json => {
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? (only.text ?? '') : parts
}

/** Most places reject an empty text, so it is dropped. */
const encodeText = (part: PartOf<'text' | 'refusal'>, losses: Losses): JsonObject[] => {
  if (part.type === 'text') loseExtras(part.extras, losses)
  return part.text === '' ? [] : [{ type: 'text', text: part.text }]
}

const encodeTurns = (
  messages: readonly Message[],
  options: CohereConversationOptions,
  losses: Losses,
): CohereConversation => {
  const encoded: JsonObject[] = []
  const documents: JsonObject[] = []
  const ids = uniqueCallIds()
  /** Images of tool results. A `tool` message holds text and documents only, so the images follow the last result. */
  let images: JsonObject[] = []
  const addImages = () => {
    if (images.length > 0) encoded.push({ role: 'user', content: images })
    images = []
  }
  for (const message of messages) {
    if (message.role !== 'tool' && message.role !== 'system') addImages()
    switch (message.role) {
      case 'system':
        break
      case 'user': {
        const user = encodeUser(message, options, losses)
        encoded.push(...user.messages)
        documents.push(...user.documents)
        break
      }
      case 'assistant':
        encoded.push(...encodeAssistant(message, ids, options, losses))
        break
      case 'tool': {
        loseExtras(message.extras, losses)
        const id = ids.current(message.callId)
        // "Tool call id not found in previous tool calls" (Cohere, errors, 400).
        if (id === undefined) {
          losses.unfit(message.at)
          break
        }
        const parts = message.content.flatMap((part) => encodeUserPart(part, losses))
        const resultImages = parts.filter(({ type }) => type === 'image_url')
        encoded.push({ role: 'tool', tool_call_id: id, content: resultContent(parts, message.isError) })
        images.push(...resultImages)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }
  addImages()
  return { messages: encoded, documents }
}

// ── Tool results ─────────────────────────────────────────────────────────────────────────────────────────────────

const IMAGES_FOLLOW: JsonObject = { type: 'text', text: 'The result is in the next user message.' }

/** The content of a `tool` message, without the images among the parts. */
const resultContent = (parts: readonly JsonObject[], isError: boolean | undefined): Json => {
  const rest = parts.filter(({ type }) => type !== 'image_url')
  const content = rest.length === 0 && parts.length > 0 ? [IMAGES_FOLLOW] : rest
  if (isError) return errorContent(content)
  return content.length === 0 ? '' : contentOf(content)
}

/** This format has no flag for a failed call, so the text of the result mentions the error. */
const errorContent = (parts: readonly JsonObject[]): Json => {
  const [first, ...rest] = parts
  if (first?.type !== 'text') return [{ type: 'text', text: 'Error:' }, ...parts]
  const text = String(first.text)
  return contentOf([{ ...first, text: /error/i.test(text.slice(0, 40)) ? text : `Error: ${text}` }, ...rest])
}

// ── Assistant messages ───────────────────────────────────────────────────────────────────────────────────────────

type UniqueCallIds = {
  /** The ID of a new call. */
  next(id: string): string
  /** The ID that the latest call with this original ID was given. */
  current(id: string): string | undefined
}

/** Makes call IDs unique: "Cannot have duplicate tool ids" (Cohere, errors, 400). Other formats allow duplicates. */
const uniqueCallIds = (): UniqueCallIds => {
  const current = new Map<string, string>()
  const used = new Set<string>()
  return {
    next(id) {
      let unique = id
      for (let suffix = 2; used.has(unique); suffix++) unique = `${id}_${suffix}`
      used.add(unique)
      current.set(id, unique)
      return unique
    },
    current: (id) => current.get(id),
  }
}

/**
 * Encodes an assistant message. Beside calls, Cohere accepts thinking (of models that think) and a plan, but no text; text
 * beside calls therefore goes into the plan.
 */
const encodeAssistant = (
  { content, extras }: Message & { readonly role: 'assistant' },
  ids: UniqueCallIds,
  { thinks }: CohereConversationOptions,
  losses: Losses,
): JsonObject[] => {
  loseExtras(extras, losses)
  const hasCalls = content.some(({ type }) => type === 'tool-call')
  const plans: string[] = []
  const parts: JsonObject[] = []
  const calls: JsonObject[] = []
  for (const part of content)
    switch (part.type) {
      case 'text':
      case 'refusal':
        for (const encoded of encodeText(part, losses))
          if (hasCalls) plans.push(part.text)
          else parts.push(encoded)
        break
      case 'reasoning': {
        const { at, text, summary, signature } = part
        const plan = isPlan(signature)
        // Reasoning summaries and the reasoning of other providers are not the model's own thinking.
        const own = text !== '' && !summary && (plan || !signature || signature.origin === 'cohere')
        if (own && hasCalls && (plan || !thinks)) plans.push(text)
        else if (own && thinks) parts.push({ type: 'thinking', thinking: text })
        else if (text !== '' || signature) losses.lose(at)
        break
      }
      case 'tool-call':
        calls.push({
          id: ids.next(part.id),
          type: 'function',
          function: {
            name: toolName(part.name),
            arguments: JSON.stringify(part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments)),
          },
        })
        break
      case 'image':
      case 'file':
      case 'audio':
      case 'foreign':
        losses.unfit(part.at)
        break
      default:
        throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
    }
  if (parts.length + calls.length === 0) return []
  return [
    {
      role: 'assistant',
      ...(parts.length > 0 && { content: contentOf(parts) }),
      ...(plans.length > 0 && { tool_plan: plans.join('\n\n') }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ]
}

// ── User messages ────────────────────────────────────────────────────────────────────────────────────────────────

const encodeUser = (
  message: Message & { readonly role: 'user' },
  { hasOutputFormat }: CohereConversationOptions,
  losses: Losses,
): CohereConversation => {
  loseExtras(message.extras, losses)
  const parts = message.content.flatMap((part) => encodeUserPart(part, losses))
  const documents = parts.flatMap(({ document }) => (isObject(document) ? [document] : []))
  const content = parts.flatMap((part) => {
    if (part.type !== 'document') return [part]
    return hasOutputFormat ? [documentText(part)] : []
  })
  // Documents are not part of a message, but a user message is required.
  const text = parts.length > 0 && content.length === 0 ? 'Read the documents.' : contentOf(content)
  return {
    messages: parts.length > 0 ? [{ role: 'user', content: text }] : [],
    documents: hasOutputFormat ? [] : documents,
  }
}

/** A document as text of the message, where `documents` is not supported. */
const documentText = ({ document }: JsonObject): JsonObject => {
  const data = isObject(document) && isObject(document.data) ? document.data : {}
  const texts = [data.title, data.context, data.text].filter((text) => typeof text === 'string' && text !== '')
  return { type: 'text', text: texts.join('\n\n') }
}

/** Encodes an image: "a base64 data URI or a web URL". */
const encodeImage = (part: PartOf<'image'>, losses: Losses): JsonObject[] => {
  const { at, detail, extras } = part
  loseExtras(extras, losses)
  const known = detail === 'auto' || detail === 'low' || detail === 'high'
  if (detail !== undefined && !known) losses.loseMember(part, 'detail')
  const url = imageUrl(part)
  if (url === undefined) {
    losses.unfit(at)
    return []
  }
  return [{ type: 'image_url', image_url: { url, ...(known && { detail }) } }]
}

const imageUrl = ({ source }: PartOf<'image'>): string | undefined => {
  if (source.kind === 'url') return /^(?:https?|data):/i.test(source.url) ? source.url : undefined
  if (source.kind === 'id') return undefined
  const mediaType = mediaTypeOf(source.mediaType, source.data) || 'image/png'
  return dataUrl({ mediaType, data: standardBase64(source.data) })
}

/** Encodes a text file as a document, which the model can cite. Other files are not supported. */
const encodeFile = (part: PartOf<'file'>, losses: Losses): JsonObject[] => {
  const { at, source, filename, extras } = part
  const text =
    source.kind === 'data' && isTextType(mediaTypeOf(source.mediaType, source.data, filename))
      ? fromBase64(standardBase64(source.data))
      : undefined
  if (text === undefined) {
    losses.unfit(at)
    return []
  }
  let context = ''
  for (const extra of extras ?? []) {
    if (extra.name === 'context' && typeof extra.value === 'string') context ||= extra.value
    // Documents are always citable, so `citations: {enabled: true}` is no loss.
    else if (!(extra.name === 'citations' && isObject(extra.value) && extra.value.enabled === true))
      losses.loseExtra(extra)
  }
  const data = { ...(filename && { title: filename }), ...(context && { context }), text }
  return [{ type: 'document', document: { data } }]
}

const encodeUserPart: (part: Part, losses: Losses) => readonly JsonObject[] = partEncoder({
  text: encodeText,
  refusal: encodeText,
  image: encodeImage,
  file: encodeFile,
})
