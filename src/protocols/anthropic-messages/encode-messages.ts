/** Encodes a conversation: a separate system prompt, then alternating user and assistant turns. */
import type { Extra, MediaSource, Message } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { fromBase64, inlineDataUrl, isImageType, isTextType, mediaTypeOf, standardBase64 } from '../shared/media.ts'
import { foreignEncoder, type PartOf, partEncoder } from '../shared/part-encoder.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { alternatingTurns, GREETING, type SystemAndTurns, startWithUser, trimFinalTurn } from '../shared/turns.ts'
import { toolName, toolUseId } from './ids.ts'

const MAX_TITLE_LENGTH = 500

/**
 * Moves system messages to the front, merges adjacent messages of one role, and puts tool results first in their turn.
 * Other changes are reported as losses.
 */
export const encodeConversation = (messages: readonly Message[], losses: Losses): SystemAndTurns => {
  const system = messages.flatMap((message) => (message.role === 'system' ? encodeSystem(message, losses) : []))
  const turns = alternatingTurns(messages, {
    result: (message) => [encodeResult(message, losses)],
    content: (message) => encodeContent(message, losses),
  })
  return startWithUser(messages, { system, turns: trimFinalTurn(turns) }, textBlock(GREETING), losses)
}

const textBlock = (text: string): JsonObject => ({ type: 'text', text })

const encodeSystem = (message: Message, losses: Losses): JsonObject[] =>
  withCacheMarks(
    message,
    message.content.map((part) => {
      if (part.type === 'text') return encodeText(part, losses)
      // A system prompt contains text only. Claude Code's billing line is a text of this format alone.
      if (part.type === 'foreign' && part.raw.type === 'text') return encodeForeign(part, losses)
      losses.unfit(part.at)
      return []
    }),
    losses,
  )

const encodeResult = (message: Message & { role: 'tool' }, losses: Losses): JsonObject => {
  const blocks = message.content.flatMap((part) => encodeUserPart(part, losses))
  const [only] = blocks
  const content =
    blocks.length === 1 && only?.type === 'text' && Object.keys(only).length === 2 ? (only.text ?? null) : blocks
  return {
    type: 'tool_result',
    tool_use_id: toolUseId(message.callId),
    ...(blocks.length > 0 && { content }),
    ...(message.isError && { is_error: true }),
    ...knownExtras(message.extras, CACHE_EXTRAS, losses),
  }
}

const encodeContent = (message: Message & { role: 'user' | 'assistant' }, losses: Losses): JsonObject[] =>
  withCacheMarks(
    message,
    message.content.map((part) =>
      message.role === 'user' ? encodeUserPart(part, losses) : encodeAssistantPart(part, losses),
    ),
    losses,
  )

/**
 * The blocks of a message's parts, with cache marks. In this format a mark belongs to a block. A mark of the message is moved to
 * its last block; the mark of a call is among the message's extras.
 */
const withCacheMarks = (
  message: Message,
  encoded: readonly (readonly JsonObject[])[],
  losses: Losses,
): JsonObject[] => {
  const blocks = encoded.flat()
  for (const extra of message.extras ?? []) {
    const partIndex = message.content.findIndex((part) => extra.at === `${part.at}.cache_control`)
    const block = partIndex === -1 ? blocks.at(-1) : encoded[partIndex]?.[0]
    const index = block ? blocks.indexOf(block) : -1
    const isValid = extra.name === 'cache_control' && CACHE_EXTRAS.cache_control(extra.value)
    if (isValid && block && index !== -1 && !UNCACHEABLE.has(block.type))
      blocks[index] = { ...block, cache_control: extra.value }
    else losses.loseExtra(extra)
  }
  return blocks
}

const UNCACHEABLE: ReadonlySet<Json | undefined> = new Set(['thinking', 'redacted_thinking'])

const isNotBlank = (text: string): boolean => text.trim() !== ''

/** Blank text blocks are rejected by the upstream, so they are dropped. */
const encodeText = (part: PartOf<'text'>, losses: Losses): JsonObject[] => {
  const extras = knownExtras(part.extras, TEXT_EXTRAS, losses)
  return isNotBlank(part.text) ? [{ type: 'text', text: part.text, ...extras }] : []
}

const encodeRefusal = ({ text }: PartOf<'refusal'>): JsonObject[] => (isNotBlank(text) ? [textBlock(text)] : [])

const encodeCall = (part: PartOf<'tool-call'>): JsonObject[] => [
  {
    type: 'tool_use',
    id: toolUseId(part.id),
    name: toolName(part.name),
    input: part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments),
  },
]

const encodeReasoning = ({ at, text, signature }: PartOf<'reasoning'>, losses: Losses): JsonObject[] => {
  // Reasoning without a signature, or with another provider's, makes Anthropic reject the whole request.
  if (signature?.origin !== 'anthropic-messages' || signature.value === '') {
    losses.lose(at)
    return []
  }
  return [
    signature.redacted
      ? { type: 'redacted_thinking', data: signature.value }
      : { type: 'thinking', thinking: text, signature: signature.value },
  ]
}

const encodeImage = (part: PartOf<'image'>, losses: Losses): JsonObject[] => {
  const source = imageSource(part.source)
  if (!source) {
    losses.unfit(part.at)
    return []
  }
  if (part.detail !== undefined && part.detail !== 'auto') losses.loseMember(part, 'detail')
  return [{ type: 'image', source, ...knownExtras(part.extras, CACHE_EXTRAS, losses) }]
}

const imageSource = (source: MediaSource): JsonObject | undefined => {
  const inline = inlineDataUrl(source)
  switch (inline.kind) {
    case 'data': {
      const media_type = mediaTypeOf(inline.mediaType, inline.data)
      return isImageType(media_type) ? { type: 'base64', media_type, data: standardBase64(inline.data) } : undefined
    }
    case 'url':
      return urlSource(inline.url)
    case 'id':
      return inline.protocol === 'anthropic-messages' ? { type: 'file', file_id: inline.id } : undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(inline satisfies never)}`)
  }
}

/** Anthropic fetches https URLs only. */
const urlSource = (url: string): JsonObject | undefined => (/^https:\/\//i.test(url) ? { type: 'url', url } : undefined)

const encodeFile = (part: PartOf<'file'>, losses: Losses): JsonObject[] => {
  const inline = inlineDataUrl(part.source)
  if (inline.kind === 'data') {
    const mediaType = mediaTypeOf(inline.mediaType, inline.data, part.filename)
    if (isImageType(mediaType)) {
      if (part.filename !== undefined) losses.loseMember(part, 'filename')
      const source = { type: 'base64', media_type: mediaType, data: standardBase64(inline.data) }
      return [{ type: 'image', source, ...knownExtras(part.extras, CACHE_EXTRAS, losses) }]
    }
  }
  const source = documentSource(inline, part.filename)
  if (!source) {
    losses.unfit(part.at)
    return []
  }
  return [{ type: 'document', source, ...titleOf(part, losses), ...knownExtras(part.extras, DOCUMENT_EXTRAS, losses) }]
}

const titleOf = (part: PartOf<'file'>, losses: Losses): JsonObject => {
  const { filename } = part
  if (filename === undefined || filename === '') return {}
  if (filename.length <= MAX_TITLE_LENGTH) return { title: filename }
  losses.loseMember(part, 'filename')
  return { title: filename.slice(0, MAX_TITLE_LENGTH) }
}

const documentSource = (source: MediaSource, filename: string | undefined): JsonObject | undefined => {
  switch (source.kind) {
    case 'data': {
      const mediaType = mediaTypeOf(source.mediaType, source.data, filename)
      if (mediaType === 'application/pdf')
        return { type: 'base64', media_type: mediaType, data: standardBase64(source.data) }
      const data = isTextType(mediaType) ? fromBase64(standardBase64(source.data)) : undefined
      return data === undefined ? undefined : { type: 'text', media_type: 'text/plain', data }
    }
    case 'url':
      return urlSource(source.url)
    case 'id':
      return source.protocol === 'anthropic-messages' ? { type: 'file', file_id: source.id } : undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(source satisfies never)}`)
  }
}

const encodeForeign = foreignEncoder('anthropic-messages')

const encodeUserPart = partEncoder<Losses>({
  text: encodeText,
  refusal: encodeRefusal,
  image: encodeImage,
  file: encodeFile,
  foreign: encodeForeign,
})

/** Assistant turns cannot contain media in this format. */
const encodeAssistantPart = partEncoder<Losses>({
  text: encodeText,
  refusal: encodeRefusal,
  'tool-call': encodeCall,
  reasoning: encodeReasoning,
  foreign: encodeForeign,
})

// Members of this format that clients of other formats also send. Valid values are encoded under the same name.

type ValueCheck = (value: Json) => boolean

const CACHE_EXTRAS = {
  cache_control: (value: Json) => isObject(value) && value.type === 'ephemeral',
} satisfies { [name: string]: ValueCheck }
const TEXT_EXTRAS = { ...CACHE_EXTRAS, citations: isList } satisfies { [name: string]: ValueCheck }
const DOCUMENT_EXTRAS = {
  ...CACHE_EXTRAS,
  citations: isObject,
  context: (value: Json) => typeof value === 'string' && value !== '',
} satisfies { [name: string]: ValueCheck }

/** The valid extras, as members. Invalid ones are reported as losses. */
export const knownExtras = (
  extras: readonly Extra[] | undefined,
  checks: { readonly [name: string]: ValueCheck },
  losses: Losses,
): JsonObject => {
  if (!extras) return {}
  const members: { [name: string]: Json } = {}
  for (const extra of extras) {
    const check = Object.hasOwn(checks, extra.name) ? checks[extra.name] : undefined
    if (check?.(extra.value)) members[extra.name] = extra.value
    else losses.loseExtra(extra)
  }
  return members
}
