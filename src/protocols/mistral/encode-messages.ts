/**
 * The conversation as this format wants it. Its server insists on an order (400, code 3230 `invalid_request_message_order`):
 * system messages come first, results directly behind their calls, and after a result the model speaks before the user
 * does (BerriAI/litellm#17761, avante-corp/avante.nvim#2695).
 */
import type { Message, Part } from '../../core/chat.ts'
import { type Json, type JsonObject, text } from '../../core/json.ts'
import { dataUrl } from '../shared/data-url.ts'
import { type Losses, loseExtras, rolePath } from '../shared/losses.ts'
import { mediaTypeOf } from '../shared/media.ts'
import { wrapInput } from '../shared/tool-arguments.ts'
import { toolName } from '../shared/tool-names.ts'
import { markErrorResult } from '../shared/tool-results.ts'
import { callId } from './ids.ts'

/** What the model is made to have said between a result and the user's next words. */
const BRIDGE: JsonObject = { role: 'assistant', content: 'OK.' }

/** `thinks`: thoughts of earlier turns are sent back; a model that does not think need not read them. */
export type Writing = { readonly thinks: boolean; readonly losses: Losses }

export const encodeMessages = (messages: readonly Message[], writing: Writing): JsonObject[] => {
  const systems = messages.filter((message) => message.role === 'system')
  const written = systems.map((message) => encodeSystem(message, writing))
  const turns = encodeTurns(messages, writing)
  const last = written.at(-1)
  const from = systems.at(-1)
  if (turns.length > 0 || !last || !from) return [...written, ...turns]
  // A prompt of system messages alone: the last of them is what the model shall answer.
  writing.losses.lose(rolePath(from))
  return [...written.slice(0, -1), { ...last, role: 'user' }]
}

const encodeSystem = (message: Message, writing: Writing): JsonObject => {
  loseExtras(message.extras, writing.losses)
  return { role: 'system', content: encodeText(message.content, writing) }
}

const encodeTurns = (messages: readonly Message[], writing: Writing): JsonObject[] => {
  const written: JsonObject[] = []
  /** Images and files that tools gave: a result holds text only, so they follow the last of them. */
  let shown: JsonObject[] = []
  const say = (message: JsonObject) => {
    if (message.role === 'user' && written.at(-1)?.role === 'tool') written.push(BRIDGE)
    written.push(message)
  }
  const show = () => {
    if (shown.length > 0) say({ role: 'user', content: shown })
    shown = []
  }
  const last = messages.findLastIndex(({ role }) => role !== 'system')
  for (const [place, message] of messages.entries()) {
    if (message.role !== 'tool' && message.role !== 'system') show()
    switch (message.role) {
      case 'system':
        break
      case 'user':
        loseExtras(message.extras, writing.losses)
        say({ role: 'user', content: plain(message.content.flatMap((part) => encodeByUser(part, writing))) })
        break
      case 'assistant': {
        const turn = encodeTurn(message, place === last, writing)
        if (turn) say(turn)
        break
      }
      case 'tool': {
        loseExtras(message.extras, writing.losses)
        const said = message.content.filter(({ type }) => type === 'text' || type === 'refusal')
        const more = message.content
          .filter(({ type }) => type !== 'text' && type !== 'refusal')
          .flatMap((part) => encodeByUser(part, writing))
        const pointer = said.length === 0 && more.length > 0 ? 'The result is in the next user message.' : undefined
        say({
          role: 'tool',
          tool_call_id: callId(message.callId),
          content: pointer ?? markErrorResult(encodeText(said, writing), message.isError),
        })
        for (const one of more) shown.push(one)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }
  show()
  return written
}

// ── What the model said ──────────────────────────────────────────────────────────────────────────────────────────

type Turn = Message & { readonly role: 'assistant' }

/** A turn; undefined when nothing is left of it. The last message may be one only as the beginning of the answer. */
const encodeTurn = ({ content, extras }: Turn, isLast: boolean, writing: Writing): JsonObject | undefined => {
  const asked = extras?.find(({ name }) => name === 'prefix')
  for (const extra of extras ?? []) if (extra !== asked) writing.losses.loseExtra(extra)
  const chunks = content.flatMap((part) => encodeByModel(part, writing))
  const calls = content.flatMap((part) => (part.type === 'tool-call' ? [encodeCall(part)] : []))
  if (chunks.length === 0 && calls.length === 0) return undefined
  const isPrefix = isLast && calls.length === 0
  if (asked && asked.value !== false && !isPrefix) writing.losses.lose(asked.at)
  return {
    role: 'assistant',
    // Texts that another format keeps apart (around citations, calls) are one text here.
    content: chunks.every(isPlainText) ? chunks.map((chunk) => chunk.text).join('') : chunks,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(isPrefix && { prefix: true }),
  }
}

const encodeByModel = (part: Part, writing: Writing): JsonObject[] => {
  switch (part.type) {
    case 'text':
      loseExtras(part.extras, writing.losses)
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'reasoning':
      // There are no proofs here: the words alone travel, and what has none is another's.
      if (writing.thinks && part.text !== '')
        return [{ type: 'thinking', thinking: [{ type: 'text', text: part.text }] }]
      writing.losses.lose(part.at)
      return []
    case 'tool-call':
      return []
    case 'foreign':
      return encodeForeign(part, writing)
    case 'image':
    case 'file':
    case 'audio':
      writing.losses.unfit(part.at)
      return []
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const encodeCall = (part: Part & { readonly type: 'tool-call' }): JsonObject => {
  // A call without arguments still has to be JSON.
  const given = part.custom
    ? JSON.stringify(wrapInput(part.arguments))
    : part.arguments.trim() === ''
      ? '{}'
      : part.arguments
  return { id: callId(part.id), type: 'function', function: { name: toolName(part.name), arguments: given } }
}

// ── What the user said, and what the calls gave ──────────────────────────────────────────────────────────────────

const isPlainText = (chunk: JsonObject): boolean => chunk.type === 'text'

/** A single text is a plain string. */
const plain = (chunks: readonly JsonObject[]): Json => {
  const [only] = chunks
  if (!only) return ''
  return chunks.length === 1 && isPlainText(only) ? (only.text ?? '') : chunks
}

/** A message that holds text only. */
const encodeText = (content: readonly Part[], writing: Writing): Json =>
  plain(
    content.flatMap((part) => {
      if (part.type === 'text') loseExtras(part.extras, writing.losses)
      if (part.type === 'text' || part.type === 'refusal') return [{ type: 'text', text: part.text }]
      // Reasoning is the model's own affair; anything else is something the message is about.
      if (part.type === 'reasoning') writing.losses.lose(part.at)
      else writing.losses.unfit(part.at)
      return []
    }),
  )

const encodeByUser = (part: Part, writing: Writing): JsonObject[] => {
  switch (part.type) {
    case 'text':
      loseExtras(part.extras, writing.losses)
      return [{ type: 'text', text: part.text }]
    case 'refusal':
      return [{ type: 'text', text: part.text }]
    case 'image':
      return encodeImage(part, writing)
    case 'file':
      return encodeFile(part, writing)
    case 'audio':
      // The format is heard from the data.
      return [{ type: 'input_audio', input_audio: part.data }]
    case 'foreign':
      return encodeForeign(part, writing)
    case 'tool-call':
      writing.losses.unfit(part.at)
      return []
    case 'reasoning':
      writing.losses.lose(part.at)
      return []
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const DETAILS: ReadonlySet<string> = new Set(['low', 'auto', 'high'])

const encodeImage = (part: Part & { readonly type: 'image' }, writing: Writing): JsonObject[] => {
  loseExtras(part.extras, writing.losses)
  const { source, detail, at } = part
  if (source.kind === 'id') {
    writing.losses.unfit(at)
    return []
  }
  const known = detail !== undefined && DETAILS.has(detail)
  if (detail !== undefined && !known) writing.losses.loseMember(part, 'detail')
  // Bytes that say nothing of their kind are most often PNG; an address without a type is none.
  const url =
    source.kind === 'url'
      ? source.url
      : dataUrl({ ...source, mediaType: mediaTypeOf(source.mediaType, source.data) || 'image/png' })
  return [{ type: 'image_url', image_url: { url, ...(known && { detail }) } }]
}

/** A document, by its address or with it (recording mistral-mistral-chat-document-models-mistral-mistral-small-lates-58954ba4). */
const encodeFile = (part: Part & { readonly type: 'file' }, writing: Writing): JsonObject[] => {
  loseExtras(part.extras, writing.losses)
  const { source, filename, at } = part
  if (source.kind === 'id') {
    writing.losses.unfit(at)
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

/** Parts chat completions do not know, written by clients who mean this format. */
const OWN_PARTS: { readonly [type: string]: readonly string[] } = {
  document_url: ['document_url', 'document_name'],
  reference: ['reference_ids'],
}

const encodeForeign = (part: Part & { readonly type: 'foreign' }, { losses }: Writing): JsonObject[] => {
  const type = text(part.raw.type) ?? ''
  const members = Object.hasOwn(OWN_PARTS, type) ? OWN_PARTS[type] : undefined
  const [first] = members ?? []
  if (!members || !first || !isOwn(first, part.raw[first])) {
    losses.unfit(part.at)
    return []
  }
  for (const name of Object.keys(part.raw))
    if (name !== 'type' && !members.includes(name)) losses.lose(`${part.at}.${name}`)
  const kept = members.flatMap((name) => (part.raw[name] == null ? [] : [[name, part.raw[name]] as const]))
  return [{ type, ...Object.fromEntries(kept) }]
}

const isOwn = (member: string, value: Json | undefined): boolean =>
  member === 'document_url' ? typeof value === 'string' : Array.isArray(value) && value.every(Number.isInteger)
