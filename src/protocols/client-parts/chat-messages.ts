/** Decodes the messages of a chat request. */
import type { Extra, Message, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { foreignPart } from '../shared/foreign-parts.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { detailsOf, readDetails } from '../shared/reasoning-members.ts'
import { type RequestFields, requestFields } from '../shared/request-fields.ts'
import { type DecodeState, entryOf, extrasIn, readPart } from './chat-parts.ts'
import { decodeBlock, decodeResult } from './message-blocks.ts'
import { decodePart } from './responses-parts.ts'

/** Reads `messages`. */
export const readMessages = (fields: RequestFields, problems: DecodeState): Message[] => {
  const entries = fields.list('messages')
  if (!entries) {
    if (!fields.has('messages')) fields.missing('messages', 'a list with at least one message')
    return []
  }
  if (entries.length === 0) fields.invalid('messages', 'a list with at least one message')
  const calls = noCalls()
  const messages: Message[] = []
  // An iterator with indices would allocate a list for each message.
  let index = 0
  for (const entry of entries) {
    const plain = plainTextMessage(entry, 'messages', index)
    if (plain) messages.push(plain)
    else {
      const message = entryOf(entry, `messages[${index}]`, problems)
      if (message) append(messages, readMessage(message, { index, calls, problems }))
    }
    index++
  }
  return messages
}

/** Derived IDs of calls that have none, so that their results can refer to them. */
export type CallIds = {
  /** IDs of deprecated `function_call`s by function name. */
  readonly byName: Map<string, string>
  /** IDs of calls with an empty ID (Gemini's compatible endpoint), in order, which is also the order of their results. */
  readonly unnamed: string[]
}

/** No call has been read. */
export const noCalls = (): CallIds => ({ byName: new Map(), unnamed: [] })

/** Where a message is, and what earlier ones have defined. */
export type MessageState = { readonly index: number; readonly calls: CallIds; readonly problems: DecodeState }

/** Reads a message, also one that has parts of another client format. */
export const readMessage = (message: RequestFields, state: MessageState): Message[] => {
  const { at } = message
  const { calls, problems } = state
  const role = message.string('role')
  switch (role) {
    case 'system':
    case 'developer': {
      const content = readContent(message, problems, true)
      return [{ role: 'system', at, as: role, content, ...extrasIn(message) }]
    }
    case 'user':
      return readUser(message, problems)
    case 'assistant': {
      const content = [
        ...readReasoning(message),
        ...readContent(message, problems, false),
        ...readRefusal(message),
        ...readCalls(message, state),
      ]
      return [{ role, at, content, ...extrasIn(message, callExtras(message)) }]
    }
    case 'tool': {
      const callId = message.string('tool_call_id')
      if (callId === undefined) message.missing('tool_call_id', 'the id of the call this is the result of')
      const content = readContent(message, problems, true)
      // The function's name is redundant: the call has it.
      message.any('name')
      return [{ role, at, callId: callId || calls.unnamed.shift() || '', content, ...extrasIn(message) }]
    }
    case 'function': {
      const name = message.string('name')
      if (name === undefined) message.missing('name', 'the name of the function')
      const callId = calls.byName.get(name ?? '') ?? derivedCallId('function', name ?? '')
      const content = readContent(message, problems, false)
      return [{ role: 'tool', at, callId, content, ...extrasIn(message) }]
    }
    case undefined:
      if (!message.has('role')) message.missing('role', 'system, developer, user, assistant, tool or function')
      return []
    default:
      message.invalid('role', 'system, developer, user, assistant, tool or function')
      return []
  }
}

const readReasoning = (message: RequestFields): Part[] => {
  const details = detailsOf({ reasoning_details: message.any('reasoning_details') })
  const plain = message.any('reasoning_content')
  const other = message.any('reasoning')
  const detailed = readDetails(details).map((block, index) => ({
    ...block,
    at: `${message.path('reasoning_details')}[${index}]`,
  }))
  const reasoning = text(plain) || text(other)
  // The details may hold signatures only; then the text is in the plain member.
  if (!reasoning || detailed.some((block) => block.text !== '')) return detailed
  const at = message.path(text(plain) ? 'reasoning_content' : 'reasoning')
  return [{ type: 'reasoning', at, text: reasoning }, ...detailed]
}

const readRefusal = (message: RequestFields): Part[] => {
  const refusal = message.string('refusal')
  return refusal ? [{ type: 'refusal', at: message.path('refusal'), text: refusal }] : []
}

const readCalls = (message: RequestFields, { index, calls, problems }: MessageState): Part[] => {
  const parts = (message.list('tool_calls') ?? []).flatMap((entry, place): Part[] => {
    const call = entryOf(entry, `${message.path('tool_calls')}[${place}]`, problems)
    if (!call) return []
    const custom = call.string('type') === 'custom'
    const inner = call.fields(custom ? 'custom' : 'function')
    if (!inner) {
      if (!problems.first) call.missing(custom ? 'custom' : 'function', 'an object with a name')
      return []
    }
    const name = inner.string('name')
    if (name === undefined) inner.missing('name', 'a string')
    const text = inner.string(custom ? 'input' : 'arguments') ?? ''
    const known = call.string('id')
    const id = known || derivedCallId(index, place, name)
    if (!known) calls.unnamed.push(id)
    return [{ type: 'tool-call', at: call.at, id, name: name ?? '', arguments: text, ...(custom && { custom: true }) }]
  })
  const legacy = message.fields('function_call')
  if (!legacy) return parts
  const name = legacy.string('name')
  if (name === undefined) legacy.missing('name', 'a string')
  const id = derivedCallId('function', index, name)
  calls.byName.set(name ?? '', id)
  return [
    ...parts,
    { type: 'tool-call', at: legacy.at, id, name: name ?? '', arguments: legacy.string('arguments') ?? '' },
  ]
}

const CALL_MEMBERS: ReadonlySet<string> = new Set(['id', 'type', 'function', 'custom', 'index'])

/** Provider-specific members of calls: Gemini's endpoint stores a signature in `extra_content`. */
const callExtras = (message: RequestFields): Extra[] =>
  list(message.any('tool_calls')).flatMap((entry, place) =>
    Object.entries(object(entry) ?? {}).flatMap(([name, value]) =>
      CALL_MEMBERS.has(name) || value === undefined || value === null
        ? []
        : [{ at: `${message.path('tool_calls')}[${place}].${name}`, name, value, essential: false }],
    ),
  )

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

const readContent = (message: RequestFields, problems: DecodeState, needed: boolean): Part[] => {
  const content = message.any('content')
  const at = message.path('content')
  if (content === undefined) {
    if (needed) message.missing('content', 'a string or a list of parts')
    return []
  }
  if (typeof content === 'string') return content === '' && !needed ? [] : [{ type: 'text', at, text: content }]
  if (!isList(content)) {
    message.invalid('content', 'a string or a list of parts')
    return []
  }
  return content.flatMap((entry, index): Part[] => {
    // Several servers accept plain strings in the list.
    if (typeof entry === 'string') return [{ type: 'text', at: `${at}[${index}]`, text: entry }]
    return readEntry(entry, `${at}[${index}]`, problems)
  })
}

const readEntry = (entry: Json, at: string, problems: DecodeState): Part[] => {
  const part = entryOf(entry, at, problems)
  if (!part || !isObject(entry)) return []
  return (
    readPart(part, problems) ??
    readNeighbour(entry, at, problems) ?? [foreignPart(entry, { at, protocol: 'openai-chat', by: 'client' })]
  )
}

// ── Other client formats ─────────────────────────────────────────────────────────────────────────────────────────

/** A user message. Tool results in it become messages of their own: Cursor sends them so for models named `claude`. */
const readUser = (message: RequestFields, problems: DecodeState): Message[] => {
  const { at } = message
  const entries = list(message.any('content'))
  if (!entries.some(isToolResult)) {
    const content = readContent(message, problems, true)
    return [{ role: 'user', at, content, ...extrasIn(message) }]
  }
  problems.reshaped = true
  const messages: Message[] = []
  let content: Part[] = []
  const endTurn = () => {
    if (content.length > 0) messages.push({ role: 'user', at, content })
    content = []
  }
  for (const [index, entry] of entries.entries()) {
    const path = `${message.path('content')}[${index}]`
    if (isToolResult(entry)) {
      endTurn()
      messages.push(decodeResult(entry, path, { problems, by: 'client', extras: [] }))
    } else content.push(...readEntry(entry, path, problems))
  }
  endTurn()
  problems.spare.push(...(extrasIn(message).extras ?? []))
  return messages
}

const isToolResult = (entry: Json): entry is JsonObject => isObject(entry) && entry.type === 'tool_result'

/** A part in the shape of the responses or the messages format; undefined for any other. */
const readNeighbour = (raw: JsonObject, at: string, problems: DecodeState): Part[] | undefined => {
  const parts = isMessagesBlock(raw)
    ? decodeBlock(raw, at, { problems, by: 'client', extras: problems.spare })
    : decodePart(requestFields(raw, at, problems), raw, problems)
  if (parts) problems.reshaped = true
  return parts
}

/** The blocks whose types no OpenAI format has. */
const isMessagesBlock = ({ type, source, signature }: JsonObject): boolean =>
  type === 'tool_use' ||
  type === 'redacted_thinking' ||
  (type === 'thinking' && typeof signature === 'string') ||
  ((type === 'image' || type === 'document') && isObject(source))

/** Whether a message has members or parts that only the chat or the messages format has. */
export const isChatShaped = ({ role, content, ...message }: JsonObject): boolean =>
  role === 'tool' ||
  role === 'function' ||
  CHAT_MEMBERS.some((name) => (message[name] ?? null) !== null) ||
  list(content).some(
    (entry) => isObject(entry) && (CHAT_PARTS.has(entry.type) || isToolResult(entry) || isMessagesBlock(entry)),
  )

const CHAT_MEMBERS = ['tool_calls', 'function_call', 'reasoning_content', 'reasoning_details']
const CHAT_PARTS: ReadonlySet<Json | undefined> = new Set(['image_url', 'file', 'thinking'])
