/** The conversation as this format wants it: system apart, then user and assistant in turn. */
import type { Extra, MediaSource, Message, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { fromBase64, inlineDataUrl, isImageType, isTextType, mediaTypeOf, standardBase64 } from '../shared/media.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { alternatingTurns, GREETING, type SystemAndTurns, startWithUser, trimFinalTurn } from '../shared/turns.ts'
import { toolName, toolUseId } from './ids.ts'

const LONGEST_TITLE = 500

/**
 * System messages go to the front in their order, wherever they stood; neighbours of one role become one turn; the
 * results of a turn's calls stand first in the next. What had to be changed beyond that is among the losses.
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
  marked(
    message,
    message.content.map((part) => {
      if (part.type === 'text') return encodeText(part, losses)
      // There is no place for anything but text in the system prompt.
      losses.unfit(part.at)
      return []
    }),
    losses,
  )

const encodeResult = (message: Message & { role: 'tool' }, losses: Losses): JsonObject => {
  const blocks = message.content.flatMap((part) => encodeByUser(part, losses))
  const [only] = blocks
  const content =
    blocks.length === 1 && only?.type === 'text' && Object.keys(only).length === 2 ? (only.text ?? null) : blocks
  return {
    type: 'tool_result',
    tool_use_id: toolUseId(message.callId),
    ...(blocks.length > 0 && { content }),
    ...(message.isError && { is_error: true }),
    ...carried(message.extras, CACHED, losses),
  }
}

const encodeContent = (message: Message & { role: 'user' | 'assistant' }, losses: Losses): JsonObject[] =>
  marked(
    message,
    message.content.map((part) =>
      message.role === 'user' ? encodeByUser(part, losses) : encodeByAssistant(part, losses),
    ),
    losses,
  )

/**
 * The blocks of a message's parts. A mark for the cache lies on a block here; elsewhere it may be the message's, which
 * means its last block, or that of a call, which has no extras of its own in the middle.
 */
const marked = (message: Message, made: readonly (readonly JsonObject[])[], losses: Losses): JsonObject[] => {
  const blocks = made.flat()
  for (const extra of message.extras ?? []) {
    const owner = message.content.findIndex((part) => extra.at === `${part.at}.cache_control`)
    const block = owner === -1 ? blocks.at(-1) : made[owner]?.[0]
    const index = block ? blocks.indexOf(block) : -1
    const markable = extra.name === 'cache_control' && CACHED.cache_control(extra.value)
    if (markable && block && index !== -1 && !UNMARKABLE.has(block.type))
      blocks[index] = { ...block, cache_control: extra.value }
    else losses.loseExtra(extra)
  }
  return blocks
}

const UNMARKABLE: ReadonlySet<Json | undefined> = new Set(['thinking', 'redacted_thinking'])

const encodeByUser = (part: Part, losses: Losses): JsonObject[] => {
  switch (part.type) {
    case 'text':
      return encodeText(part, losses)
    case 'refusal':
      return hasWords(part.text) ? [textBlock(part.text)] : []
    case 'image':
      return encodeImage(part, losses)
    case 'file':
      return encodeFile(part, losses)
    case 'foreign':
      return encodeForeign(part, losses)
    case 'audio':
    case 'tool-call':
      losses.unfit(part.at)
      return []
    case 'reasoning':
      losses.lose(part.at)
      return []
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const encodeByAssistant = (part: Part, losses: Losses): JsonObject[] => {
  switch (part.type) {
    case 'text':
      return encodeText(part, losses)
    case 'refusal':
      return hasWords(part.text) ? [textBlock(part.text)] : []
    case 'tool-call':
      return [
        {
          type: 'tool_use',
          id: toolUseId(part.id),
          name: toolName(part.name),
          input: part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments),
        },
      ]
    case 'reasoning': {
      const { proof } = part
      // Unsigned thoughts, and thoughts another maker signed, are refused with the whole request.
      if (proof?.origin !== 'anthropic-messages' || proof.value === '') {
        losses.lose(part.at)
        return []
      }
      return [
        proof.redacted
          ? { type: 'redacted_thinking', data: proof.value }
          : { type: 'thinking', thinking: part.text, signature: proof.value },
      ]
    }
    case 'foreign':
      return encodeForeign(part, losses)
    // The assistant's turns hold no images and no files here.
    case 'image':
    case 'file':
    case 'audio':
      losses.unfit(part.at)
      return []
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const encodeForeign = (part: Part & { type: 'foreign' }, losses: Losses): JsonObject[] => {
  if (part.protocol === 'anthropic-messages') return [part.raw]
  losses.unfit(part.at)
  return []
}

const hasWords = (text: string): boolean => text.trim() !== ''

/** Text blocks without words are refused; nothing is lost with them. */
const encodeText = (part: Part & { type: 'text' }, losses: Losses): JsonObject[] => {
  const extras = carried(part.extras, CITING, losses)
  return hasWords(part.text) ? [{ type: 'text', text: part.text, ...extras }] : []
}

const encodeImage = (part: Part & { type: 'image' }, losses: Losses): JsonObject[] => {
  const source = imageSource(part.source)
  if (!source) {
    losses.unfit(part.at)
    return []
  }
  if (part.detail !== undefined && part.detail !== 'auto') losses.loseMember(part, 'detail')
  return [{ type: 'image', source, ...carried(part.extras, CACHED, losses) }]
}

const imageSource = (source: MediaSource): JsonObject | undefined => {
  const inline = inlineDataUrl(source)
  switch (inline.kind) {
    case 'data': {
      const media_type = mediaTypeOf(inline.mediaType, inline.data)
      return isImageType(media_type) ? { type: 'base64', media_type, data: standardBase64(inline.data) } : undefined
    }
    case 'url':
      return fetchable(inline.url)
    case 'id':
      return inline.protocol === 'anthropic-messages' ? { type: 'file', file_id: inline.id } : undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(inline satisfies never)}`)
  }
}

/** Only addresses with https are fetched there. */
const fetchable = (url: string): JsonObject | undefined => (/^https:\/\//i.test(url) ? { type: 'url', url } : undefined)

const encodeFile = (part: Part & { type: 'file' }, losses: Losses): JsonObject[] => {
  const inline = inlineDataUrl(part.source)
  if (inline.kind === 'data') {
    const mediaType = mediaTypeOf(inline.mediaType, inline.data, part.filename)
    if (isImageType(mediaType)) {
      if (part.filename !== undefined) losses.loseMember(part, 'filename')
      const source = { type: 'base64', media_type: mediaType, data: standardBase64(inline.data) }
      return [{ type: 'image', source, ...carried(part.extras, CACHED, losses) }]
    }
  }
  const source = documentSource(inline, part.filename)
  if (!source) {
    losses.unfit(part.at)
    return []
  }
  return [{ type: 'document', source, ...titled(part, losses), ...carried(part.extras, DOCUMENT, losses) }]
}

const titled = (part: Part & { type: 'file' }, losses: Losses): JsonObject => {
  const { filename } = part
  if (filename === undefined || filename === '') return {}
  if (filename.length <= LONGEST_TITLE) return { title: filename }
  losses.loseMember(part, 'filename')
  return { title: filename.slice(0, LONGEST_TITLE) }
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
      return fetchable(source.url)
    case 'id':
      return source.protocol === 'anthropic-messages' ? { type: 'file', file_id: source.id } : undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(source satisfies never)}`)
  }
}

// Members clients of other formats also send, because they know who is behind the gateway. By name, and only when sane.

type Check = (value: Json) => boolean

const CACHED = {
  cache_control: (value: Json) => isObject(value) && value.type === 'ephemeral',
} satisfies { [name: string]: Check }
const CITING = { ...CACHED, citations: isList } satisfies { [name: string]: Check }
const DOCUMENT = {
  ...CACHED,
  citations: isObject,
  context: (value: Json) => typeof value === 'string' && value !== '',
} satisfies { [name: string]: Check }

/** The extras these checks know, as members; the others are losses. */
export const carried = (
  extras: readonly Extra[] | undefined,
  checks: { readonly [name: string]: Check },
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
