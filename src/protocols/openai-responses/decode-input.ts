import type { Extra, Message, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { isChatShaped, noCalls, readMessage } from '../client-parts/chat-messages.ts'
import { type DecodeState, entryOf } from '../client-parts/chat-parts.ts'
import { decodePart, extrasOf, requiredText } from '../client-parts/responses-parts.ts'
import { mediaSourceOf } from '../shared/data-url.ts'
import { foreignPart } from '../shared/foreign-parts.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { type RequestFields, requestFields } from '../shared/request-fields.ts'
import { argumentsText } from '../shared/tool-arguments.ts'
import { ADDITIONAL_TOOLS, isClientSearch, SEARCH_CALL, SEARCH_OUTPUT, type ToolNames } from '../shared/tool-names.ts'
import { compactedMessage } from './compaction.ts'
import { reasoningTexts, signedReasoning } from './signatures.ts'

/** The items of a request, and the member that contains them: `messages` in a body with the shape of chat completions. */
export type InputItems = { readonly member: 'input' | 'messages'; readonly items: readonly Json[] }

/**
 * Decodes the items of `input` as messages. Adjacent items of one assistant turn (messages, reasoning, calls) become one
 * message, because other formats reject parallel calls in separate turns. Each part keeps its own path.
 */
export const decodeInput = ({ member, items }: InputItems, names: ToolNames, problems: DecodeState): Message[] => {
  const messages: Message[] = []
  const calls = noCalls()
  let turn: { at: string; content: Part[]; extras: Extra[] } | undefined
  const endTurn = () => {
    if (turn) messages.push({ role: 'assistant', at: turn.at, content: turn.content, ...extrasOf(turn.extras) })
    turn = undefined
  }
  for (const [index, value] of items.entries()) {
    const plain = plainTextMessage(value, member, index)
    if (plain?.role === 'user') {
      endTurn()
      messages.push(plain)
      continue
    }
    if (plain) {
      turn ??= { at: plain.at, content: [], extras: [] }
      turn.content.push(plain.content[0])
      continue
    }
    const at = `${member}[${index}]`
    const item = isObject(value) ? (compactedMessage(value) ?? value) : undefined
    // Its tools are tools of the request.
    if (item?.type === ADDITIONAL_TOOLS) continue
    if (!item) {
      requestFields({ [at]: value }, '', problems).invalid(at, 'an object')
      continue
    }
    if (isMessage(item) && isChatShaped(item)) {
      problems.reshaped = true
      const message = entryOf(item, at, problems)
      for (const read of message ? readMessage(message, { index, calls, problems }) : []) {
        if (read.role !== 'assistant') endTurn()
        if (read.role !== 'assistant') messages.push(read)
        else {
          turn ??= { at, content: [], extras: [] }
          for (const part of read.content) turn.content.push(part)
          for (const extra of read.extras ?? []) turn.extras.push(extra)
        }
      }
      continue
    }
    const fields = requestFields(item, at, problems)
    const output = decodeOutputItem(fields, item, names, problems)
    if (output) {
      turn ??= { at, content: [], extras: [] }
      for (const part of output.content) turn.content.push(part)
      for (const extra of output.extras) turn.extras.push(extra)
      continue
    }
    endTurn()
    messages.push(...decodeInputItem(fields, item, names, problems))
  }
  endTurn()
  return messages
}

/** The unread members of an item, without ids and states set by the upstream. */
const unreadMembers = (fields: RequestFields): Extra[] =>
  fields.unread().filter(({ name }) => !['type', 'id', 'status', 'role', 'object', 'created_by'].includes(name))

/** Messages may lack `type`; an item with an id and no role is a reference. */
const isMessage = (item: JsonObject): boolean =>
  item.type === 'message' ||
  ((item.type ?? null) === null && ((item.role ?? null) !== null || (item.id ?? null) === null))

/** An item of an assistant turn. */
type DecodedOutputItem = { readonly content: readonly Part[]; readonly extras: readonly Extra[] }

/** Decodes an item written by the model or known to this format only; undefined for input of the model. */
const decodeOutputItem = (
  fields: RequestFields,
  item: JsonObject,
  names: ToolNames,
  problems: DecodeState,
): DecodedOutputItem | undefined => {
  const { at } = fields
  if (isMessage(item)) return item.role === 'assistant' ? decodeReply(fields, problems) : undefined
  switch (fields.string('type')) {
    case 'function_call':
      return decodeCall(fields, 'arguments', {}, names)
    case 'custom_tool_call':
      return decodeCall(fields, 'input', { custom: true }, names)
    case 'reasoning':
      return decodeReasoning(fields, item)
    case 'function_call_output':
    case 'custom_tool_call_output':
      return undefined
    case SEARCH_CALL:
      return isClientSearch(item) ? decodeSearch(fields, names) : foreign(item, at)
    case SEARCH_OUTPUT:
      return isClientSearch(item) ? undefined : foreign(item, at)
    default:
      if (isOwnOutput(item)) return undefined
      // The others: references to stored items, and the items of hosted tools.
      return isOwnCall(item) ? decodeOwnCall(fields) : foreign(item, at)
  }
}

/** A foreign item. A web search is optional, because the text after it contains the results. */
const foreign = (raw: JsonObject, at: string): DecodedOutputItem => {
  const protocol = 'openai-responses'
  const part: Part =
    raw.type === 'web_search_call'
      ? { type: 'foreign', at, protocol, raw, optional: true }
      : foreignPart(raw, { at, protocol, by: 'model' })
  return { content: [part], extras: [] }
}

// ── Tools of this format that the client runs: a shell, patches, a computer ──────────────────────────────────────────

/** Their calls and outputs have a `call_id`; those of hosted tools have none. `local_shell_call` is a call of `local_shell`. */
const OWN_CALL = /^(.{1,64})_call$/
const OWN_OUTPUT = /_call_output$/

const isOwnCall = ({ type, call_id }: JsonObject): boolean => OWN_CALL.test(text(type) ?? '') && Boolean(text(call_id))
const isOwnOutput = ({ type, call_id }: JsonObject): boolean =>
  OWN_OUTPUT.test(text(type) ?? '') && Boolean(text(call_id))

/** The call as one of a function. Its only object (`action`, `operation`) is the arguments. */
const decodeOwnCall = (fields: RequestFields): DecodedOutputItem => {
  const { at } = fields
  const name = OWN_CALL.exec(fields.string('type') ?? '')?.[1] ?? ''
  const id = requiredText(fields, 'call_id', 'the id of the call')
  const members = unreadMembers(fields)
  const [only] = members.filter(({ value }) => isObject(value))
  const input = only?.value ?? Object.fromEntries(members.map((member) => [member.name, member.value]))
  return { content: [{ type: 'tool-call', at, id, name, arguments: argumentsText(input) ?? '{}' }], extras: [] }
}

/** The output of such a tool: a text, parts, a screenshot, or an object of the tool. */
const decodeOwnOutput = (fields: RequestFields, item: JsonObject, problems: DecodeState): Message => {
  const { at } = fields
  const callId = requiredText(fields, 'call_id', 'the id of the call this is the output of')
  const { output } = item
  const screenshot = isObject(output) && text(output.image_url) !== undefined ? output : undefined
  const isParts = isList(output) && output.every((part) => CONTENT_TYPES.has(text(object(part)?.type) ?? ''))
  if (!screenshot && (typeof output === 'string' || isParts))
    return { role: 'tool', at, callId, content: decodeContent(fields, 'output', problems) }
  fields.any('output')
  const path = fields.path('output')
  const content: Part = screenshot
    ? { type: 'image', at: path, source: mediaSourceOf(text(screenshot.image_url) ?? '') }
    : { type: 'text', at: path, text: argumentsText(output) ?? '' }
  return { role: 'tool', at, callId, content: [content] }
}

const CONTENT_TYPES: ReadonlySet<string> = new Set(['input_text', 'output_text', 'text', 'input_image', 'input_file'])

/** The model's search for tools: a call whose arguments are JSON instead of text. */
const decodeSearch = (fields: RequestFields, names: ToolNames): DecodedOutputItem => {
  const { at } = fields
  const query = fields.any('arguments')
  fields.any('execution')
  const id = requiredText(fields, 'call_id', 'the id of the call')
  const source = typeof query === 'string' ? query : JSON.stringify(query ?? {})
  return {
    content: [{ type: 'tool-call', at, id, name: names.search, arguments: source }],
    extras: unreadMembers(fields),
  }
}

/** The result of a tool search. The tools become tools of the request; the message lists their names. */
const decodeSearchOutput = (fields: RequestFields, names: ToolNames): Message => {
  const { at } = fields
  const callId = requiredText(fields, 'call_id', 'the id of the call this is the output of')
  fields.any('execution')
  const tools = (fields.list('tools') ?? []).flatMap((tool) => {
    const { type, name, tools: members } = object(tool) ?? {}
    if (type !== 'namespace') return text(name) ?? []
    return list(members).map((member) => names.flat(text(name), text(object(member)?.name) ?? ''))
  })
  const content: Part[] = [{ type: 'text', at: fields.path('tools'), text: JSON.stringify({ tools }) }]
  return { role: 'tool', at, callId, content, ...extrasOf(unreadMembers(fields)) }
}

const decodeReply = (fields: RequestFields, problems: DecodeState): DecodedOutputItem => {
  const parts = decodeContent(fields, 'content', problems)
  const extras = unreadMembers(fields)
  // `phase` belongs to this item, not to the whole turn, so it is attached to the item's first text.
  const first = parts.find((part) => part.type === 'text')
  if (!first || extras.length === 0) return { content: parts, extras }
  const content = parts.map((part) =>
    part === first ? { ...first, extras: [...(first.extras ?? []), ...extras] } : part,
  )
  return { content, extras: [] }
}

const decodeCall = (
  fields: RequestFields,
  member: 'arguments' | 'input',
  kind: { readonly custom?: true },
  names: ToolNames,
): DecodedOutputItem => {
  const { at } = fields
  const source = fields.string(member)
  if (source === undefined) fields.missing(member, 'a string')
  const id = requiredText(fields, 'call_id', 'the id of the call')
  const name = names.flat(fields.string('namespace'), requiredText(fields, 'name', 'the name of the tool'))
  return {
    content: [{ type: 'tool-call', at, id, name, arguments: source ?? '', ...kind }],
    extras: unreadMembers(fields),
  }
}

const decodeReasoning = (fields: RequestFields, item: JsonObject): DecodedOutputItem => {
  const { at } = fields
  fields.list('summary')
  fields.list('content')
  const encrypted = fields.string('encrypted_content')
  const signed = encrypted ? signedReasoning(encrypted, text(item.id)) : undefined
  const signature = signed?.signature ? { signature: signed.signature } : {}
  const texts = reasoningTexts(item)
  // A text stored with its signature is the exact one. The item repeats it, or the client has left it out.
  const { summary, reasoning } = signed?.text ? { summary: '', reasoning: signed.text } : texts
  const content: Part[] = []
  if (summary) content.push({ type: 'reasoning', at, text: summary, summary: true, ...(reasoning ? {} : signature) })
  if (reasoning || (!summary && encrypted)) content.push({ type: 'reasoning', at, text: reasoning, ...signature })
  // Only an id: the reasoning is stored at the provider.
  const stored: Extra[] = content.length > 0 ? [] : [{ at, name: 'reasoning', value: item, essential: false }]
  return { content, extras: [...stored, ...unreadMembers(fields)] }
}

/** Decodes input of the model: a system or user message, or a tool result. */
const decodeInputItem = (
  fields: RequestFields,
  item: JsonObject,
  names: ToolNames,
  problems: DecodeState,
): Message[] => {
  const { at } = fields
  if (item.type === SEARCH_OUTPUT) return [decodeSearchOutput(fields, names)]
  if (!isMessage(item)) {
    if (item.type !== 'function_call_output' && item.type !== 'custom_tool_call_output')
      return [decodeOwnOutput(fields, item, problems)]
    // Some SDKs repeat the tool's name, which the call already has.
    const callId = requiredText(fields, 'call_id', 'the id of the call this is the output of')
    fields.any('name')
    fields.any('namespace')
    const content = decodeContent(fields, 'output', problems)
    return [{ role: 'tool', at, callId, content, ...extrasOf(unreadMembers(fields)) }]
  }
  const role = fields.string('role')
  if (role !== 'user' && role !== 'system' && role !== 'developer') {
    if (role === undefined) fields.missing('role', ROLES)
    else fields.invalid('role', ROLES)
    return []
  }
  const content = decodeContent(fields, 'content', problems)
  const extras = extrasOf(unreadMembers(fields))
  return role === 'user' ? [{ role, at, content, ...extras }] : [{ role: 'system', at, as: role, content, ...extras }]
}

const ROLES = '"user", "assistant", "system" or "developer"'

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const decodeContent = (fields: RequestFields, member: string, problems: DecodeState): Part[] => {
  const content = fields.any(member)
  const at = fields.path(member)
  if (typeof content === 'string') return [{ type: 'text', at, text: content }]
  if (isList(content))
    return content.flatMap((part, index) => {
      const path = `${at}[${index}]`
      if (isObject(part)) {
        const inner = requestFields(part, path, problems)
        const parts = decodePart(inner, part, problems)
        if (!parts && !part.type) inner.missing('type', 'the kind of part')
        return parts ?? [foreignPart(part, { at: path, protocol: 'openai-responses', by: 'client' })]
      }
      requestFields({ [path]: part }, '', problems).invalid(path, 'an object')
      return []
    })
  if (content === undefined) fields.missing(member, 'a string or a list of parts')
  else fields.invalid(member, 'a string or a list of parts')
  return []
}
