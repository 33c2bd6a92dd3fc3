import type { Extra, MediaSource, Message, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { mediaSourceOf } from '../shared/data-url.ts'
import { plainTextMessage } from '../shared/plain-message.ts'
import { type Problems, type RequestFields, requestFields } from '../shared/request-fields.ts'
import { isClientSearch, SEARCH_CALL, SEARCH_OUTPUT, type ToolNames } from '../shared/tool-names.ts'
import { compactedMessage } from './compaction.ts'
import { reasoningTexts, unseal } from './signatures.ts'

/**
 * The items of `input` as messages. Neighbours the model said in one turn (its messages, reasoning and calls) become
 * one message: parallel calls in separate turns are refused by other formats. Each part keeps its own path.
 */
export const decodeInput = (items: readonly Json[], names: ToolNames, problems: Problems): Message[] => {
  const messages: Message[] = []
  let turn: { at: string; content: Part[]; extras: Extra[] } | undefined
  const endTurn = () => {
    if (turn) messages.push({ role: 'assistant', at: turn.at, content: turn.content, ...some(turn.extras) })
    turn = undefined
  }
  for (const [index, value] of items.entries()) {
    const plain = plainTextMessage(value, 'input', index)
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
    const at = `input[${index}]`
    const item = isObject(value) ? (compactedMessage(value) ?? value) : undefined
    if (!item) {
      requestFields({ [at]: value }, '', problems).invalid(at, 'an object')
      continue
    }
    const fields = requestFields(item, at, problems)
    const said = decodeSaid(fields, item, names, problems)
    if (said) {
      turn ??= { at, content: [], extras: [] }
      for (const part of said.content) turn.content.push(part)
      for (const extra of said.extras) turn.extras.push(extra)
      continue
    }
    endTurn()
    messages.push(...decodeHeard(fields, item, names, problems))
  }
  endTurn()
  return messages
}

const some = (extras: readonly Extra[]) => (extras.length > 0 ? { extras } : {})

/** What is left of an item, without the names and states the upstream gave it: those carry no wish. */
const leftOver = (fields: RequestFields): Extra[] =>
  fields.unread().filter(({ name }) => !['type', 'id', 'status', 'role', 'object', 'created_by'].includes(name))

/** `type` may be left out of messages; an item with nothing but an id refers to another. */
const isMessage = (item: JsonObject): boolean =>
  item.type === 'message' ||
  ((item.type ?? null) === null && ((item.role ?? null) !== null || (item.id ?? null) === null))

type Said = { readonly content: readonly Part[]; readonly extras: readonly Extra[] }

/** What the model said or did itself, and what only this format knows; undefined for what it was told. */
const decodeSaid = (
  fields: RequestFields,
  item: JsonObject,
  names: ToolNames,
  problems: Problems,
): Said | undefined => {
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
      // References to what a provider keeps, and everything its own tools say and do.
      return foreign(item, at)
  }
}

/** A search of the web is told without what it found: that is in the words that follow it. */
const foreign = (raw: JsonObject, at: string): Said => {
  const spare = raw.type === 'web_search_call'
  return { content: [{ type: 'foreign', at, protocol: 'openai-responses', raw, ...(spare && { spare }) }], extras: [] }
}

/** The model's search for tools: a call whose arguments are a value, not text. */
const decodeSearch = (fields: RequestFields, names: ToolNames): Said => {
  const { at } = fields
  const asked = fields.any('arguments')
  fields.any('execution')
  const id = named(fields, 'call_id', 'the id of the call')
  const words = typeof asked === 'string' ? asked : JSON.stringify(asked ?? {})
  return { content: [{ type: 'tool-call', at, id, name: names.search, arguments: words }], extras: leftOver(fields) }
}

/** What it found: the tools themselves are the request's from then on, here they are named. */
const decodeFound = (fields: RequestFields, names: ToolNames): Message => {
  const { at } = fields
  const callId = named(fields, 'call_id', 'the id of the call this is the output of')
  fields.any('execution')
  const tools = (fields.list('tools') ?? []).flatMap((tool) => {
    const { type, name, tools: members } = object(tool) ?? {}
    if (type !== 'namespace') return text(name) ?? []
    return list(members).map((member) => names.flat(text(name), text(object(member)?.name) ?? ''))
  })
  const words = JSON.stringify({ tools })
  const content: Part[] = [{ type: 'text', at: fields.path('tools'), text: words }]
  return { role: 'tool', at, callId, content, ...some(leftOver(fields)) }
}

const decodeReply = (fields: RequestFields, problems: Problems): Said => {
  const parts = decodeContent(fields, 'content', problems)
  const extras = leftOver(fields)
  // `phase` belongs to this item, not to the whole turn: it rides on the item's first text.
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
): Said => {
  const { at } = fields
  const words = fields.string(member)
  if (words === undefined) fields.missing(member, 'a string')
  const id = named(fields, 'call_id', 'the id of the call')
  const name = names.flat(fields.string('namespace'), named(fields, 'name', 'the name of the tool'))
  return {
    content: [{ type: 'tool-call', at, id, name, arguments: words ?? '', ...kind }],
    extras: leftOver(fields),
  }
}

/** A string that must be there and say something. */
const named = (fields: RequestFields, member: string, what: string): string => {
  const found = fields.string(member)
  if (!found) fields.missing(member, what)
  return found ?? ''
}

const decodeReasoning = (fields: RequestFields, item: JsonObject): Said => {
  const { at } = fields
  fields.list('summary')
  fields.list('content')
  const sealed = fields.string('encrypted_content')
  const proof = sealed ? { proof: unseal(sealed, text(item.id)) } : {}
  const { summary, thoughts } = reasoningTexts(item)
  const content: Part[] = []
  if (summary) content.push({ type: 'reasoning', at, text: summary, summary: true, ...(thoughts ? {} : proof) })
  if (thoughts || (!summary && sealed)) content.push({ type: 'reasoning', at, text: thoughts, ...proof })
  // Nothing but a name: the thoughts lie at the provider that had them.
  const stored: Extra[] = content.length > 0 ? [] : [{ at, name: 'reasoning', value: item, essential: false }]
  return { content, extras: [...stored, ...leftOver(fields)] }
}

/** What the model was told: by the system, by the user, by a tool. */
const decodeHeard = (fields: RequestFields, item: JsonObject, names: ToolNames, problems: Problems): Message[] => {
  const { at } = fields
  if (item.type === SEARCH_OUTPUT) return [decodeFound(fields, names)]
  if (!isMessage(item)) {
    // One of the two kinds of output `decodeSaid` leaves. Some SDKs repeat the tool's name; the call has it.
    const callId = named(fields, 'call_id', 'the id of the call this is the output of')
    fields.any('name')
    fields.any('namespace')
    const content = decodeContent(fields, 'output', problems)
    return [{ role: 'tool', at, callId, content, ...some(leftOver(fields)) }]
  }
  const role = fields.string('role')
  if (role !== 'user' && role !== 'system' && role !== 'developer') {
    if (role === undefined) fields.missing('role', ROLES)
    else fields.invalid('role', ROLES)
    return []
  }
  const content = decodeContent(fields, 'content', problems)
  const extras = some(leftOver(fields))
  return role === 'user' ? [{ role, at, content, ...extras }] : [{ role: 'system', at, as: role, content, ...extras }]
}

const ROLES = '"user", "assistant", "system" or "developer"'

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

const decodeContent = (fields: RequestFields, member: string, problems: Problems): Part[] => {
  const content = fields.any(member)
  const at = fields.path(member)
  if (typeof content === 'string') return [{ type: 'text', at, text: content }]
  if (isList(content))
    return content.flatMap((part, index) => {
      const path = `${at}[${index}]`
      if (isObject(part)) return decodePart(requestFields(part, path, problems), part)
      requestFields({ [path]: part }, '', problems).invalid(path, 'an object')
      return []
    })
  if (content === undefined) fields.missing(member, 'a string or a list of parts')
  else fields.invalid(member, 'a string or a list of parts')
  return []
}

const decodePart = (fields: RequestFields, part: JsonObject): Part[] => {
  const { at } = fields
  const type = fields.string('type')
  switch (type) {
    case 'input_text':
    case 'output_text':
    case 'text': {
      const words = fields.string('text')
      if (words === undefined) fields.missing('text', 'a string')
      // What an answer carried beside its text and clients send back as it was.
      fields.any('logprobs')
      const extras = fields.unread().filter(({ value }) => !(isList(value) && value.length === 0))
      return [{ type: 'text', at, text: words ?? '', ...some(extras) }]
    }
    case 'refusal': {
      const words = fields.string('refusal')
      if (words === undefined) fields.missing('refusal', 'a string')
      return [{ type: 'refusal', at, text: words ?? '' }]
    }
    case 'input_image': {
      const source = decodeSource(fields, { image_url: mediaSourceOf, file_id: ownFile })
      const detail = fields.string('detail')
      return source
        ? [{ type: 'image', at, source, ...(detail !== undefined && { detail }), ...some(fields.unread()) }]
        : []
    }
    case 'input_file': {
      const source = decodeSource(fields, { file_data: fileData, file_url: mediaSourceOf, file_id: ownFile })
      const filename = fields.string('filename')
      return source
        ? [{ type: 'file', at, source, ...(filename !== undefined && { filename }), ...some(fields.unread()) }]
        : []
    }
    case 'input_audio': {
      // Nested as in chat completions, or flat.
      const inner = fields.fields('input_audio') ?? fields
      const data = named(inner, 'data', 'base64')
      const format = named(inner, 'format', 'the name of a format')
      return [{ type: 'audio', at, data, format }]
    }
    default:
      if (type === undefined) fields.missing('type', 'the kind of part')
      return [{ type: 'foreign', at, protocol: 'openai-responses', raw: part }]
  }
}

const ownFile = (id: string): MediaSource => ({ kind: 'id', id, protocol: 'openai-responses' })

/** A data URL by the book; bare base64 is seen too, and then its type is not known. */
const fileData = (data: string): MediaSource => {
  const source = mediaSourceOf(data)
  return source.kind === 'url' ? { kind: 'data', mediaType: '', data } : source
}

/** The first of these members that is there, as a source. */
const decodeSource = (
  fields: RequestFields,
  members: { readonly [member: string]: (value: string) => MediaSource },
): MediaSource | undefined => {
  let source: MediaSource | undefined
  for (const [member, read] of Object.entries(members)) {
    const value = fields.string(member)
    if (value && !source) source = read(value)
  }
  const names = Object.keys(members)
  if (!source) fields.missing(names[0] ?? '', `a string; or else ${names.slice(1).join(', ')}`)
  return source
}
