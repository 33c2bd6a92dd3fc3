/** Decodes the conversation of a messages request. */
import { toBase64 } from '../../core/base64.ts'
import { splitBillingLine } from '../../core/billing-line.ts'
import type { Extra, ForeignPart, MediaSource, MemberPaths, Message, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { type ForeignAuthor, foreignPart } from '../shared/foreign-parts.ts'
import { mediaPart } from '../shared/media-part.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { type Problems, type RequestFields, requestFields } from '../shared/request-fields.ts'
import { argumentsText, MAX_DEPTH } from '../shared/tool-arguments.ts'
import { decodeSignature } from './thinking-signatures.ts'

/** Decodes the top-level system prompt as one message. */
export const decodeSystem = (fields: RequestFields, problems: Problems): readonly Message[] => {
  const system = fields.any('system')
  if (system === undefined) return []
  if (typeof system === 'string')
    return [
      { role: 'system', at: 'system', as: 'system', content: systemText({ type: 'text', at: 'system', text: system }) },
    ]
  if (!isList(system)) {
    fields.invalid('system', 'a string or a list of text blocks')
    return []
  }
  const context: BlockContext = { problems, by: 'client', extras: [] }
  const content = system.flatMap((block, index) => decodeBlock(block, `system[${index}]`, context))
  return [{ role: 'system', at: 'system', as: 'system', content: content.flatMap(systemText) }]
}

/** A part of a system prompt. Claude Code's billing line is no text of it: only its own format may have it. */
const systemText = (part: Part): readonly Part[] => {
  const found = part.type === 'text' ? splitBillingLine(part.text) : null
  if (part.type !== 'text' || !found) return [part]
  // Without a path, as the line is not reported as lost.
  const line: Part = { ...media({ type: 'text', text: found.line }, ''), instead: [] }
  return found.rest === '' ? [line] : [line, { ...part, text: found.rest }]
}

/** `answered`: the index of the model's last message. It has read what stands before. */
type MessagesContext = { readonly problems: Problems; readonly answered: number }

/** Decodes one message. Tool results in a user's turn become separate messages. */
export const decodeMessage = (
  message: Json,
  index: number,
  { problems, answered }: MessagesContext,
): readonly Message[] => {
  const plainText = plainTextMessage(message, 'messages', index)
  if (plainText) return [plainText]
  const at = `messages[${index}]`
  const fields = requestFields(isObject(message) ? message : {}, at, problems)
  const role = fields.string('role')
  const content = fields.any('content')
  const blocks = typeof content === 'string' ? content : isList(content) ? content : undefined
  if (blocks === undefined) fields.invalid('content', 'a string or a list of content blocks')
  const parts = typeof blocks === 'string' ? [{ type: 'text', text: blocks } as const] : (blocks ?? [])
  const path = (index: number) => (typeof blocks === 'string' ? `${at}.content` : `${at}.content[${index}]`)
  const extras = fields.unread()
  switch (role) {
    case 'user':
      return decodeUser(
        { at, parts, path, extras },
        { problems, by: index < answered ? 'model' : 'client', extras: [] },
      )
    case 'assistant':
    // Newer models accept a system message inside the conversation, although no published schema has it.
    case 'system': {
      const blockExtras: Extra[] = []
      const context: BlockContext = { problems, by: role === 'assistant' ? 'model' : 'client', extras: blockExtras }
      const decoded = parts.flatMap((part, index) => decodeBlock(part, path(index), context))
      const allExtras = [...extras, ...blockExtras]
      const common = {
        at,
        content: role === 'system' ? decoded.flatMap(systemText) : decoded,
        ...(allExtras.length > 0 && { extras: allExtras }),
      }
      return [role === 'assistant' ? { role, ...common } : { role, as: 'system', ...common }]
    }
    default:
      fields.invalid('role', 'user or assistant')
      return []
  }
}

/** A user's message: its path, its blocks and their paths, its unread members. */
type UserTurn = {
  readonly at: string
  readonly parts: readonly Json[]
  readonly path: (index: number) => string
  readonly extras: readonly Extra[]
}

const decodeUser = ({ at, parts, path, extras }: UserTurn, context: BlockContext): Message[] => {
  const messages: Message[] = []
  let content: Part[] = []
  const flush = () => {
    if (content.length > 0) messages.push({ role: 'user', at, content })
    content = []
  }
  for (const [index, part] of parts.entries())
    if (isObject(part) && part.type === 'tool_result') {
      flush()
      messages.push(decodeResult(part, path(index), context))
    } else content.push(...decodeBlock(part, path(index), context))
  flush()
  const last = messages.at(-1)
  if (!last || extras.length === 0) return messages
  return [...messages.slice(0, -1), { ...last, extras: [...(last.extras ?? []), ...extras] }]
}

/** Decodes a tool result. */
export const decodeResult = (block: JsonObject, at: string, context: BlockContext): Message => {
  const { problems } = context
  const fields = requestFields(block, at, problems)
  fields.string('type')
  const callId = fields.string('tool_use_id')
  if (!callId) fields.missing('tool_use_id', 'the id of the call it answers')
  const content = fields.any('content')
  if (content !== undefined && typeof content !== 'string' && !isList(content))
    fields.invalid('content', 'a string or a list of content blocks')
  const isError = fields.flag('is_error')
  const extras = fields.unread()
  return {
    role: 'tool',
    at,
    callId: callId ?? '',
    content:
      typeof content === 'string'
        ? [{ type: 'text', at: `${at}.content`, text: content }]
        : (isList(content) ? content : []).flatMap((part, index) =>
            decodeBlock(part, `${at}.content[${index}]`, context),
          ),
    ...(isError && { isError }),
    ...(extras.length > 0 && { extras }),
  }
}

const withExtras = (extras: readonly Extra[]): { extras?: readonly Extra[] } => (extras.length > 0 ? { extras } : {})

const DOCUMENT_PATHS: MemberPaths = { filename: 'title' }

/** `by`: the author of the blocks. `extras` receives unread members of parts that have no `extras`. */
export type BlockContext = { readonly problems: Problems; readonly by: ForeignAuthor; readonly extras: Extra[] }

/** Decodes a content block. */
export const decodeBlock = (block: Json, at: string, context: BlockContext): Part[] => {
  const { problems, by, extras: blockExtras } = context
  const fields = requestFields(isObject(block) ? block : {}, at, problems)
  const type = fields.string('type')
  if (!isObject(block) || type === undefined) {
    fields.invalid('type', 'the type of a content block')
    return []
  }
  switch (type) {
    case 'text': {
      const text = fields.string('text')
      if (text === undefined) fields.missing('text', 'a string')
      return [{ type: 'text', at, text: text ?? '', ...withExtras(fields.unread()) }]
    }
    case 'image': {
      const source = decodeSource(fields)
      return source ? [mediaPart({ type: 'image', at, source, ...withExtras(fields.unread()) })] : [media(block, at)]
    }
    case 'document': {
      const source = decodeSource(fields)
      if (!source) return [foreign(block, at, by)]
      const filename = fields.string('title')
      const title = filename ? { filename, paths: DOCUMENT_PATHS } : {}
      return [mediaPart({ type: 'file', at, source, ...title, ...withExtras(fields.unread()) })]
    }
    case 'thinking': {
      const reasoning = decodeSignature(fields.string('signature') ?? '')
      const text = fields.string('thinking') ?? ''
      blockExtras.push(...fields.unread())
      return [{ type: 'reasoning', at, text, ...reasoning }]
    }
    case 'redacted_thinking': {
      const value = fields.string('data') ?? ''
      blockExtras.push(...fields.unread())
      return [{ type: 'reasoning', at, text: '', signature: { origin: 'anthropic-messages', value, redacted: true } }]
    }
    case 'tool_use':
      return decodeCall(fields, block, context)
    default:
      return [foreign(block, at, by)]
  }
}

/** A foreign part. The call of a web search is optional, because its result and the text after it state what was found. */
const foreign = (raw: JsonObject, at: string, by: ForeignAuthor): Part =>
  raw.type === 'server_tool_use' && raw.name === 'web_search'
    ? { ...media(raw, at), optional: true }
    : foreignPart(raw, { at, protocol: 'anthropic-messages', by })

/** A part whose content only this format can carry. */
const media = (raw: JsonObject, at: string): ForeignPart => ({
  type: 'foreign',
  at,
  protocol: 'anthropic-messages',
  raw,
})

/**
 * A call made by the model. A call made by code at the provider is foreign, because its result belongs to that code; other
 * formats receive an ordinary call, since the result follows as an ordinary result.
 */
const decodeCall = (fields: RequestFields, block: JsonObject, { extras }: BlockContext): Part[] => {
  const { at } = fields
  const caller = fields.fields('caller')
  const isByCode = caller !== undefined && caller.string('type') !== 'direct'
  const id = fields.string('id')
  const name = fields.string('name')
  if (!id) fields.missing('id', 'the id of the call')
  if (!name) fields.missing('name', 'the name of the tool')
  const source = argumentsText(fields.object('input'))
  if (source === undefined) fields.invalid('input', `an object nested at most ${MAX_DEPTH} levels deep`)
  const call: Part = { type: 'tool-call', at, id: id ?? '', name: name ?? '', arguments: source ?? '{}' }
  if (isByCode) return [{ ...media(block, at), instead: [call] }]
  extras.push(...fields.unread())
  return [call]
}

/** Decodes a media source; undefined for kinds that only this format has. */
const decodeSource = (fields: RequestFields): MediaSource | undefined => {
  const source = fields.fields('source')
  if (!source) {
    fields.missing('source', 'a base64, text, url or file source')
    return undefined
  }
  const type = source.string('type')
  const string = (name: string): string => {
    const value = source.string(name)
    if (value === undefined) source.missing(name, 'a string')
    return value ?? ''
  }
  switch (type) {
    case 'base64':
      return { kind: 'data', mediaType: string('media_type'), data: string('data') }
    case 'text':
      return {
        kind: 'data',
        mediaType: source.string('media_type') ?? 'text/plain',
        data: toBase64(string('data')),
      }
    case 'url':
      return { kind: 'url', url: string('url') }
    case 'file':
      return { kind: 'id', id: string('file_id'), protocol: 'anthropic-messages' }
    default:
      return undefined
  }
}
