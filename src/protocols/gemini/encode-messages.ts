/** Encodes a conversation: system apart, then alternating user and model turns. */
import type { Message, Part, Reasoning, ReasoningSignature } from '../../core/chat.ts'
import { type JsonObject, object, text } from '../../core/json.ts'
import { append } from '../shared/append.ts'
import { type Losses, loseExtras, rolePath } from '../shared/losses.ts'
import { detectMediaType, inlineDataUrl, mediaTypeOf, standardBase64 } from '../shared/media.ts'
import { encodeSystemParts, foreignEncoder, type PartOf, partEncoder } from '../shared/part-encoder.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import type { GeminiModelFamily } from './family.ts'
import { toolName } from './ids.ts'
import { PLACEHOLDER_SIGNATURE } from './packed-signature.ts'

/** A conversation split into system parts and turns. */
export type GeminiConversation = {
  readonly system: readonly JsonObject[]
  readonly turns: readonly { readonly role: 'user' | 'model'; readonly parts: readonly JsonObject[] }[]
}

/**
 * Moves system messages to the front, merges adjacent messages of one role, and puts tool results first in their turn, in
 * the order of the calls. Other changes are reported as losses.
 */
export const encodeConversation = (
  messages: readonly Message[],
  family: GeminiModelFamily,
  losses: Losses,
): GeminiConversation => {
  const systems = messages.filter((message) => message.role === 'system')
  const system = systems.flatMap((message) => encodeSystemParts(message, encodeText, losses))
  const turns = encodeTurns(messages, family, losses)
  if (turns.length > 0) return { system, turns }
  // Only system messages: the last part becomes the user's turn.
  const last = system.at(-1)
  const from = systems.at(-1)
  if (!last || !from) return { system, turns }
  losses.lose(rolePath(from))
  return { system: system.slice(0, -1), turns: [{ role: 'user', parts: [last] }] }
}

type GeminiTurnDraft = {
  readonly role: 'user' | 'model'
  /** Tool results with the order of their calls. */
  readonly results: { readonly order: number; readonly part: JsonObject }[]
  readonly rest: JsonObject[]
}

const encodeTurns = (
  messages: readonly Message[],
  family: GeminiModelFamily,
  losses: Losses,
): GeminiConversation['turns'] => {
  const turns: GeminiTurnDraft[] = []
  /** Calls by ID. A later call with the same ID replaces an earlier one, whose result has been read by then. */
  const calls = new Map<string, { readonly name: string; readonly order: number }>()
  let callCount = 0
  const turn = (role: GeminiTurnDraft['role']): GeminiTurnDraft => {
    const last = turns.at(-1)
    if (last?.role === role) return last
    const next: GeminiTurnDraft = { role, results: [], rest: [] }
    turns.push(next)
    return next
  }
  for (const message of messages)
    switch (message.role) {
      case 'system':
        break
      case 'tool': {
        // A result needs the tool's name, which only the call has.
        const call = calls.get(message.callId)
        if (!call) {
          losses.unfit(message.at)
          break
        }
        const { result, media } = encodeResult(message, call.name, family, losses)
        const user = turn('user')
        user.results.push({ order: call.order, part: result })
        append(user.rest, media)
        break
      }
      case 'user': {
        loseExtras(message.extras, losses)
        const parts = message.content.flatMap((part) => encodeUserPart(part, losses))
        if (parts.length > 0) append(turn('user').rest, parts)
        break
      }
      case 'assistant': {
        for (const part of message.content)
          if (part.type === 'tool-call') calls.set(part.id, { name: part.name, order: callCount++ })
        const parts = encodeModelTurn(message, losses)
        if (parts.length > 0) append(turn('model').rest, parts)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  return turns.map(({ role, results, rest }) => ({
    role,
    parts: [
      ...results.toSorted((left, right) => left.order - right.order).map(({ part }) => part),
      ...(family.requiresSignatures && role === 'model' ? withCallSignature(rest) : rest),
    ],
  }))
}

// ── Model turns ──────────────────────────────────────────────────────────────────────────────────────────────────

type GeminiModelMessage = Message & { readonly role: 'assistant' }

/** Encodes the parts of an assistant message, each with its signature. */
const encodeModelTurn = (message: GeminiModelMessage, losses: Losses): JsonObject[] => {
  const { byPart, unassigned } = assignSignatures(message, losses)
  return message.content.flatMap((part, index) => {
    const parts = encodeModelPart(part, unassigned.has(index), losses)
    const signature = byPart.get(index)
    const [first, ...rest] = parts
    return first && signature !== undefined ? [{ ...first, thoughtSignature: signature }, ...rest] : parts
  })
}

type PartSignatures = {
  /** Signatures by the index of the part they belong to. */
  readonly byPart: ReadonlyMap<number, string>
  /** Indexes of reasoning parts whose signature belongs to no other part. */
  readonly unassigned: ReadonlySet<number>
}

/**
 * Finds the part that each signature belongs to. The signature of a call has the call's ID. The signature of a text follows
 * it, or precedes it in formats that put all reasoning first. Chat clients of Gemini's OpenAI-compatible endpoint return
 * signatures in `extra_content`.
 */
const assignSignatures = ({ content, extras }: GeminiModelMessage, losses: Losses): PartSignatures => {
  const byPart = new Map<number, string>()
  const unassigned = new Set<number>()
  const unsigned = (type: Part['type'], from: number, to: number): number[] =>
    [...content.keys()].filter((index) => {
      const part = content[index]
      const inRange = index >= from && index < to && !byPart.has(index)
      return inRange && part?.type === type && (part.type !== 'text' || part.text !== '')
    })
  for (const extra of extras ?? []) {
    const owner = content.findIndex((part) => part.type === 'tool-call' && extra.at === `${part.at}.extra_content`)
    const signature = owner === -1 ? undefined : text(object(object(extra.value)?.google)?.thought_signature)
    if (signature) byPart.set(owner, signature)
    else losses.loseExtra(extra)
  }
  for (const [index, part] of content.entries()) {
    if (part.type !== 'reasoning' || !isOwn(part.signature) || isSignedThought(part)) continue
    const { id, value } = part.signature
    const named = id === undefined ? -1 : content.findIndex((call) => call.type === 'tool-call' && call.id === id)
    const laterCalls = unsigned('tool-call', index, content.length)
    const texts = [...unsigned('text', 0, index).reverse(), ...unsigned('text', index, content.length)]
    // A client may have changed the call's ID: then the next call is the owner.
    const candidates = id === undefined ? [...texts, ...laterCalls] : [...laterCalls, ...texts]
    const owner = named === -1 ? candidates[0] : named
    if (owner === undefined) unassigned.add(index)
    else byPart.set(owner, value)
  }
  return { byPart, unassigned }
}

const isOwn = (signature: ReasoningSignature | undefined): signature is ReasoningSignature =>
  signature?.origin === 'gemini' && signature.value !== ''

/** Whether a reasoning part is a thought with text, which has a signature of its own. */
const isSignedThought = ({ text, signature }: Reasoning): boolean => text !== '' && signature?.id === undefined

/** Sets the placeholder on the first call of a turn, the only one that must be signed, if it has no signature. */
const withCallSignature = (parts: readonly JsonObject[]): readonly JsonObject[] => {
  const first = parts.findIndex(({ functionCall }) => functionCall !== undefined)
  const call = parts[first]
  if (!call || call.thoughtSignature !== undefined) return parts
  return parts.with(first, { ...call, thoughtSignature: PLACEHOLDER_SIGNATURE })
}

/** `unassigned`: a reasoning part's signature belongs to no other part. */
const encodeModelPart = (part: Part, unassigned: boolean, losses: Losses): readonly JsonObject[] => {
  switch (part.type) {
    case 'reasoning': {
      // Gemini accepts only its own signed reasoning.
      if (!isOwn(part.signature)) {
        losses.lose(part.at)
        return []
      }
      const { value } = part.signature
      if (isSignedThought(part)) return [{ text: part.text, thought: true, thoughtSignature: value }]
      return unassigned ? [{ text: '', thoughtSignature: value }] : []
    }
    case 'tool-call': {
      const args = part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments)
      return [{ functionCall: { id: part.id, name: toolName(part.name), args } }]
    }
    default:
      return encodeUserPart(part, losses)
  }
}

// ── User turns ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Encodes a tool result. `media`: its images and files, unless the model supports them inside the result. */
const encodeResult = (
  message: Message & { readonly role: 'tool' },
  name: string,
  family: GeminiModelFamily,
  losses: Losses,
): { readonly result: JsonObject; readonly media: readonly JsonObject[] } => {
  loseExtras(message.extras, losses)
  const texts = message.content.flatMap((part) => {
    if (part.type === 'text') return encodeText(part, losses).map(({ text }) => text)
    return part.type === 'refusal' ? [part.text] : []
  })
  const media = message.content.flatMap((part) =>
    part.type === 'text' || part.type === 'refusal' ? [] : encodeUserPart(part, losses),
  )
  const inside = family.imagesInResults && media.every(({ inlineData }) => inlineData !== undefined)
  const result = {
    id: message.callId,
    name: toolName(name),
    response: { [message.isError ? 'error' : 'output']: texts.length === 1 ? (texts[0] ?? '') : texts.join('\n') },
    ...(inside && media.length > 0 && { parts: media }),
  }
  return { result: { functionResponse: result }, media: inside ? [] : media }
}

/** Gemini rejects an empty part, so empty texts are dropped. */
const encodeText = (part: PartOf<'text' | 'refusal'>, losses: Losses): JsonObject[] => {
  if (part.type === 'text') loseExtras(part.extras, losses)
  return part.text === '' ? [] : [{ text: part.text }]
}

const encodeMedia = (part: PartOf<'image' | 'file' | 'audio'>, losses: Losses): JsonObject[] => {
  const encoded = part.type === 'audio' ? encodeAudio(part) : encodeSource(part)
  if (!encoded) {
    losses.unfit(part.at)
    return []
  }
  if (part.type === 'audio') return [encoded]
  loseExtras(part.extras, losses)
  if (part.type === 'image' && part.detail !== undefined && part.detail !== 'auto') losses.loseMember(part, 'detail')
  if (part.type === 'file' && part.filename) losses.loseMember(part, 'filename')
  return [encoded]
}

const AUDIO_TYPES: { readonly [format: string]: string } = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
  opus: 'audio/opus',
  ogg: 'audio/ogg',
  aac: 'audio/aac',
  aiff: 'audio/aiff',
  m4a: 'audio/m4a',
}

const encodeAudio = ({ data, format }: PartOf<'audio'>): JsonObject | undefined => {
  const mimeType = Object.hasOwn(AUDIO_TYPES, format) ? AUDIO_TYPES[format] : undefined
  return mimeType === undefined ? undefined : { inlineData: { mimeType, data: standardBase64(data) } }
}

const encodeSource = (part: PartOf<'image' | 'file'>): JsonObject | undefined => {
  const filename = part.type === 'file' ? part.filename : undefined
  const source = inlineDataUrl(part.source)
  switch (source.kind) {
    case 'data': {
      const mimeType = mediaTypeOf(source.mediaType, source.data, filename)
      return mimeType === '' ? undefined : { inlineData: { mimeType, data: standardBase64(source.data) } }
    }
    case 'url': {
      // Files of the Files API, Cloud Storage buckets and, on newer models, the web.
      if (!/^(?:https|gs):\/\//i.test(source.url)) return undefined
      const mimeType = detectMediaType('', filename ?? source.url.replace(/[?#].*$/s, ''))
      return { fileData: { ...(mimeType && { mimeType }), fileUri: source.url } }
    }
    case 'id':
      // A file stored at another provider.
      return undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(source satisfies never)}`)
  }
}

const encodeUserPart = partEncoder<Losses>({
  text: encodeText,
  refusal: encodeText,
  image: encodeMedia,
  file: encodeMedia,
  audio: encodeMedia,
  foreign: foreignEncoder('gemini'),
})
