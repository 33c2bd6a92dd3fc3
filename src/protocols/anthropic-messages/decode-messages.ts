/** A client's conversation in the middle's words. */
import type { Extra, MediaSource, MemberPaths, Message, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { toBase64 } from '../shared/media.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { type Problems, type RequestFields, requestFields } from '../shared/request-fields.ts'
import { argumentsText } from '../shared/tool-arguments.ts'
import { signedIn } from './signatures.ts'

/** The top-level system prompt: one message, whatever its number of blocks. */
export const decodeSystem = (fields: RequestFields, problems: Problems): readonly Message[] => {
  const system = fields.any('system')
  if (system === undefined) return []
  if (typeof system === 'string')
    return [{ role: 'system', at: 'system', as: 'system', content: [{ type: 'text', at: 'system', text: system }] }]
  if (!isList(system)) {
    fields.invalid('system', 'a string or a list of text blocks')
    return []
  }
  const content = system.flatMap((block, index) => decodeBlock(block, `system[${index}]`, problems))
  return [{ role: 'system', at: 'system', as: 'system', content }]
}

/** One message of the wire. The results of calls in a user's turn become messages of their own. */
export const decodeMessage = (message: Json, index: number, problems: Problems): readonly Message[] => {
  const plain = plainTextMessage(message, 'messages', index)
  if (plain) return [plain]
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
      return decodeUser(parts, path, at, extras, problems)
    case 'assistant':
    // Newer models take a system message in the middle, though no published schema has it.
    case 'system': {
      const marks: Extra[] = []
      const inner = parts.flatMap((part, index) => decodeBlock(part, path(index), problems, marks))
      const more = [...extras, ...marks]
      const rest = { at, content: inner, ...(more.length > 0 && { extras: more }) }
      return [role === 'assistant' ? { role, ...rest } : { role, as: 'system', ...rest }]
    }
    default:
      fields.invalid('role', 'user or assistant')
      return []
  }
}

const decodeUser = (
  parts: readonly Json[],
  path: (index: number) => string,
  at: string,
  extras: readonly Extra[],
  problems: Problems,
): Message[] => {
  const messages: Message[] = []
  let own: Part[] = []
  const flush = () => {
    if (own.length > 0) messages.push({ role: 'user', at, content: own })
    own = []
  }
  for (const [index, part] of parts.entries())
    if (isObject(part) && part.type === 'tool_result') {
      flush()
      messages.push(decodeResult(part, path(index), problems))
    } else own.push(...decodeBlock(part, path(index), problems))
  flush()
  const last = messages.at(-1)
  if (!last || extras.length === 0) return messages
  return [...messages.slice(0, -1), { ...last, extras: [...(last.extras ?? []), ...extras] }]
}

const decodeResult = (block: JsonObject, at: string, problems: Problems): Message => {
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
            decodeBlock(part, `${at}.content[${index}]`, problems),
          ),
    ...(isError && { isError }),
    ...(extras.length > 0 && { extras }),
  }
}

const withExtras = (extras: readonly Extra[]): { extras?: readonly Extra[] } => (extras.length > 0 ? { extras } : {})

const DOCUMENT_PATHS: MemberPaths = { filename: 'title' }

/** `marks` takes what the middle has no place for on the part itself. */
const decodeBlock = (block: Json, at: string, problems: Problems, marks: Extra[] = []): Part[] => {
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
      return source ? [{ type: 'image', at, source, ...withExtras(fields.unread()) }] : [foreign(block, at)]
    }
    case 'document': {
      const source = decodeSource(fields)
      if (!source) return [foreign(block, at)]
      const filename = fields.string('title')
      const named = filename ? { filename, paths: DOCUMENT_PATHS } : {}
      return [{ type: 'file', at, source, ...named, ...withExtras(fields.unread()) }]
    }
    case 'thinking': {
      const signed = signedIn(fields.string('signature') ?? '')
      const text = fields.string('thinking') ?? ''
      marks.push(...fields.unread())
      return [{ type: 'reasoning', at, text, ...signed }]
    }
    case 'redacted_thinking': {
      const value = fields.string('data') ?? ''
      marks.push(...fields.unread())
      return [{ type: 'reasoning', at, text: '', proof: { origin: 'anthropic-messages', value, redacted: true } }]
    }
    case 'tool_use':
      return decodeCall(fields, block, marks)
    default:
      return [foreign(block, at)]
  }
}

/** A search of the web is a trace of a tool's use: what it found is in the words that follow. */
const foreign = (raw: JsonObject, at: string): Part => {
  const spare = raw.type === 'web_search_tool_result' || (raw.type === 'server_tool_use' && raw.name === 'web_search')
  return { type: 'foreign', at, protocol: 'anthropic-messages', raw, ...(spare && { spare }) }
}

/** A call made by the model. One made by code that runs at the provider belongs to that code, so it stays there. */
const decodeCall = (fields: RequestFields, block: JsonObject, marks: Extra[]): Part[] => {
  const caller = fields.fields('caller')
  if (caller && caller.string('type') !== 'direct') return [foreign(block, fields.at)]
  const id = fields.string('id')
  const name = fields.string('name')
  if (!id) fields.missing('id', 'the id of the call')
  if (!name) fields.missing('name', 'the name of the tool')
  const text = argumentsText(fields.object('input'))
  if (text === undefined) fields.invalid('input', 'an object that is not nested so deep')
  marks.push(...fields.unread())
  return [{ type: 'tool-call', at: fields.at, id: id ?? '', name: name ?? '', arguments: text ?? '{}' }]
}

/** Undefined: a kind of source only this format has. */
const decodeSource = (fields: RequestFields): MediaSource | undefined => {
  const source = fields.fields('source')
  if (!source) {
    fields.missing('source', 'where the bytes are')
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
      return { kind: 'data', mediaType: source.string('media_type') ?? 'text/plain', data: toBase64(string('data')) }
    case 'url':
      return { kind: 'url', url: string('url') }
    case 'file':
      return { kind: 'id', id: string('file_id'), protocol: 'anthropic-messages' }
    default:
      return undefined
  }
}
