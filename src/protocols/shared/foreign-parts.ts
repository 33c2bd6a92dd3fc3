/**
 * Content blocks and items that exist in one format only: server tools' results, tool references, snapshots. In the
 * history they must not end a conversation, so other formats receive their content as text.
 */
import type { ChatRequest, ForeignPart, Message, Part, ProtocolName } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, text } from '../../core/json.ts'
import type { Loss } from '../../core/protocol.ts'
import { exceedsDepth, MAX_DEPTH } from './tool-arguments.ts'

/** Requests something that only the provider can do or has stored: without it the request has another meaning. */
const BINDING: ReadonlySet<string> = new Set(['item_reference', 'compaction_trigger'])

/** Only steers its own provider or client: tool lists, and a client's snapshot of its working tree. */
const STEERING: ReadonlySet<string> = new Set([
  'ghost_snapshot',
  'mcp_list_tools',
  'tool_search_call',
  'tool_search_output',
])

/** Summaries of the conversation, readable for one vendor only. */
const SUMMARY = /compaction/

/** `model`: its own output, or content that it has answered, so later text states what it read. `client`: new content. */
export type ForeignAuthor = 'model' | 'client'

/**
 * A part of one format only, with the parts that other formats receive instead: its content in words, or nothing if it
 * only steers. Content that cannot be in words (encrypted, binary, only a link) is optional if the model wrote it, otherwise
 * essential.
 */
export const foreignPart = (
  raw: JsonObject,
  { at, protocol, by }: { readonly at: string; readonly protocol: ProtocolName; readonly by: ForeignAuthor },
): ForeignPart => {
  const part = { type: 'foreign', at, protocol, raw } as const
  const type = text(raw.type) ?? ''
  // An item of the responses format with an ID only is a reference.
  if (type === '' || BINDING.has(type)) return part
  if (STEERING.has(type)) return { ...part, instead: [] }
  const found: PartContent = { text: false, link: false, binary: false }
  const content = exceedsDepth(raw, MAX_DEPTH) ? undefined : readable(raw, '', found)
  const isReadable = found.text && !(by === 'client' && found.binary)
  if (isReadable && content !== undefined)
    return { ...part, instead: [{ type: 'text', at, text: `[${type}: ${inText(content)}]` }] }
  if (!found.text && !found.link && !found.binary) return { ...part, instead: [] }
  return by === 'model' && !SUMMARY.test(type) ? { ...part, optional: true } : part
}

// ── Content in words ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Identity, order and state of a part: no content. */
const BOOKKEEPING: ReadonlySet<string> = new Set([
  'type',
  'id',
  'status',
  'role',
  'object',
  'created_by',
  'caller',
  'call_id',
  'tool_use_id',
  'container_id',
  'approval_request_id',
  'cache_control',
  'phase',
])
/** Describe content without being any. */
const LABELS: ReadonlySet<string> = new Set([
  ...['format', 'media_type', 'mime_type', 'output_format', 'detail', 'background', 'quality', 'size'],
  ...['filename', 'title', 'index', 'page_age'],
])
const LINK = /(?:^|_)(?:url|uri)$/
/** Readable for the provider only. */
const OPAQUE = /^(?:encrypted_.*|signature|data|.*_ids?|file_data)$/
const LONG = 256
const IS_DATA = /^(?:data:|[A-Za-z0-9+/_-]+={0,2}$)/

/** What a part contains. */
type PartContent = { text: boolean; link: boolean; binary: boolean }

/** The value without bookkeeping, encrypted members and binary data; undefined if nothing is left. Lists and objects with one entry become the entry. */
const readable = (value: Json | undefined, name: string, found: PartContent): Json | undefined => {
  if (value === null || value === undefined || value === '') return undefined
  if (typeof value === 'string') {
    if (OPAQUE.test(name) || value.startsWith('data:') || (value.length > LONG && IS_DATA.test(value))) {
      found.binary = true
      return undefined
    }
    if (LINK.test(name)) found.link = true
    else if (!LABELS.has(name)) found.text = true
    return value
  }
  if (isList(value)) {
    const kept = value.flatMap((entry) => readable(entry, name, found) ?? [])
    return kept.length > 1 ? kept : kept[0]
  }
  if (!isObject(value)) return value
  const kept = Object.entries(value).flatMap(([member, inner]): [string, Json][] => {
    const content = BOOKKEEPING.has(member) ? undefined : readable(inner, member, found)
    return content === undefined ? [] : [[member, content]]
  })
  const [only] = kept
  return kept.length > 1 ? Object.fromEntries(kept) : only?.[1]
}

const inText = (content: Json): string => {
  if (typeof content === 'string') return content
  const isTexts = isList(content) && content.every((entry) => typeof entry === 'string')
  return isTexts ? content.join('\n') : JSON.stringify(content)
}

// ── Requests for another format ──────────────────────────────────────────────────────────────────────────────────────

/** A request with the parts that its target's format has, and the paths of the parts that were replaced. */
export type PortableRequest = { readonly request: ChatRequest; readonly losses: readonly Loss[] }

const NO_LOSSES: readonly Loss[] = []

/**
 * Replaces parts that only another format has. Returns the same request if there are none. `protocol`: the target's format;
 * null: one that has no parts of its own, so optional ones are left out too.
 */
export const withoutForeignParts = (request: ChatRequest, protocol: ProtocolName | null): PortableRequest => {
  const isReplaced = (part: Part): part is ForeignPart =>
    part.type === 'foreign' &&
    part.protocol !== protocol &&
    (part.instead !== undefined || (protocol === null && part.optional === true))
  if (!request.messages.some(({ content }) => content.some(isReplaced))) return { request, losses: NO_LOSSES }
  const losses: Loss[] = []
  const messages = request.messages.flatMap((message): Message[] => {
    if (!message.content.some(isReplaced)) return [message]
    const content = message.content.flatMap((part, index): readonly Part[] => {
      if (!isReplaced(part)) return [part]
      losses.push({ path: part.at, essential: false })
      // Some formats join the texts of a message.
      const before = index > 0 ? '\n' : ''
      const after = index < message.content.length - 1 ? '\n' : ''
      return (part.instead ?? []).map((other) =>
        other.type === 'text' ? { ...other, text: before + other.text + after } : other,
      )
    })
    return content.length > 0 || message.role === 'tool' ? [{ ...message, content }] : []
  })
  return { request: { ...request, messages }, losses: losses.filter(({ path }) => path !== '') }
}
