/** The conversation as this format wants it: system apart, then user and model in turn. */
import type { Message, Part, Reasoning, ReasoningSignature } from '../../core/chat.ts'
import { type JsonObject, object, text } from '../../core/json.ts'
import { append } from '../shared/append.ts'
import { type Losses, loseExtras, rolePath } from '../shared/losses.ts'
import { detectMediaType, inlineDataUrl, mediaTypeOf, standardBase64 } from '../shared/media.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import type { Family } from './family.ts'
import { toolName } from './ids.ts'

export type Conversation = {
  readonly system: readonly JsonObject[]
  readonly turns: readonly { readonly role: 'user' | 'model'; readonly parts: readonly JsonObject[] }[]
}

/** What stands in for a signature that is not to be had, because another maker's model wrote the call. */
const UNSIGNED = 'skip_thought_signature_validator'

/**
 * System messages go to the front in their order, wherever they stood; neighbours of one role become one turn; the
 * results of a turn's calls stand together, first in the next and in the order of the calls.
 */
export const encodeConversation = (messages: readonly Message[], family: Family, losses: Losses): Conversation => {
  const systems = messages.filter((message) => message.role === 'system')
  const system = systems.flatMap((message) => encodeSystem(message, losses))
  const turns = gathered(messages, family, losses)
  if (turns.length > 0) return { system, turns }
  // A prompt of system messages alone: the last of them is what the model shall answer.
  const last = system.at(-1)
  const from = systems.at(-1)
  if (!last || !from) return { system, turns }
  losses.lose(rolePath(from))
  return { system: system.slice(0, -1), turns: [{ role: 'user', parts: [last] }] }
}

const encodeSystem = (message: Message, losses: Losses): JsonObject[] => {
  loseExtras(message.extras, losses)
  return message.content.flatMap((part) => {
    if (part.type === 'text') return encodeText(part, losses)
    losses.unfit(part.at)
    return []
  })
}

type Growing = {
  readonly role: 'user' | 'model'
  readonly results: { readonly place: number; readonly part: JsonObject }[]
  readonly rest: JsonObject[]
}

/** A call of the history, and its place among them all. */
type Called = { readonly name: string; readonly place: number }

const gathered = (messages: readonly Message[], family: Family, losses: Losses): Conversation['turns'] => {
  const turns: Growing[] = []
  /** By id; a later call of the same id hides an earlier one, whose result has come by then. */
  const called = new Map<string, Called>()
  let places = 0
  const turn = (role: Growing['role']): Growing => {
    const last = turns.at(-1)
    if (last?.role === role) return last
    const next: Growing = { role, results: [], rest: [] }
    turns.push(next)
    return next
  }
  for (const message of messages)
    switch (message.role) {
      case 'system':
        break
      case 'tool': {
        const call = called.get(message.callId)
        // What was called is known by its name, which only the call has.
        if (!call) {
          losses.unfit(message.at)
          break
        }
        const { result, more } = encodeResult(message, call.name, family, losses)
        const next = turn('user')
        next.results.push({ place: call.place, part: result })
        append(next.rest, more)
        break
      }
      case 'user': {
        loseExtras(message.extras, losses)
        const parts = message.content.flatMap((part) => encodeByUser(part, losses))
        if (parts.length > 0) append(turn('user').rest, parts)
        break
      }
      case 'assistant': {
        for (const part of message.content)
          if (part.type === 'tool-call') called.set(part.id, { name: part.name, place: places++ })
        const parts = encodeTurn(message, losses)
        if (parts.length > 0) append(turn('model').rest, parts)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  return turns.map(({ role, results, rest }) => ({
    role,
    parts: [
      ...results.toSorted((one, other) => one.place - other.place).map(({ part }) => part),
      ...(family.signs && role === 'model' ? signed(rest) : rest),
    ],
  }))
}

// ── What the model said ──────────────────────────────────────────────────────────────────────────────────────────

type Turn = Message & { readonly role: 'assistant' }

/** The parts of a turn, each with the signature it came with. */
const encodeTurn = (message: Turn, losses: Losses): JsonObject[] => {
  const { of, alone } = signaturesOf(message, losses)
  return message.content.flatMap((part, index) => {
    const parts = encodeByModel(part, alone.has(index), losses)
    const signature = of.get(index)
    const [first, ...rest] = parts
    return first && signature !== undefined ? [{ ...first, thoughtSignature: signature }, ...rest] : parts
  })
}

type Signatures = {
  /** By the place of the part they belong to. */
  readonly of: ReadonlyMap<number, string>
  /** The places of those that belong to no other part. */
  readonly alone: ReadonlySet<number>
}

/**
 * Which part each signature belongs to: one of a call names the call; one of a text stands behind it, or before it where
 * a format keeps all thoughts in front. Chat clients of Gemini's own compatible endpoint have it in `extra_content`.
 */
const signaturesOf = ({ content, extras }: Turn, losses: Losses): Signatures => {
  const of = new Map<number, string>()
  const alone = new Set<number>()
  const free = (type: Part['type'], from: number, to: number): number[] =>
    [...content.keys()].filter((at) => {
      const part = content[at]
      return at >= from && at < to && part?.type === type && !of.has(at) && (part.type !== 'text' || part.text !== '')
    })
  for (const extra of extras ?? []) {
    const owner = content.findIndex((part) => part.type === 'tool-call' && extra.at === `${part.at}.extra_content`)
    const signature = owner === -1 ? undefined : text(object(object(extra.value)?.google)?.thought_signature)
    if (signature) of.set(owner, signature)
    else losses.loseExtra(extra)
  }
  for (const [at, part] of content.entries()) {
    if (part.type !== 'reasoning' || !isOwn(part.signature) || isThought(part)) continue
    const { id, value } = part.signature
    const named = id === undefined ? -1 : content.findIndex((call) => call.type === 'tool-call' && call.id === id)
    const calls = id === undefined ? [] : free('tool-call', at, content.length)
    const texts = [...free('text', 0, at).reverse(), ...free('text', at, content.length)]
    const owner = named === -1 ? [...calls, ...texts, ...free('tool-call', at, content.length)][0] : named
    if (owner === undefined) alone.add(at)
    else of.set(owner, value)
  }
  return { of, alone }
}

const isOwn = (proof: ReasoningSignature | undefined): proof is ReasoningSignature =>
  proof?.origin === 'gemini' && proof.value !== ''

/** A thought in words, signed itself. */
const isThought = ({ text, signature: proof }: Reasoning): boolean => text !== '' && proof?.id === undefined

const encodeByModel = (part: Part, alone: boolean, losses: Losses): JsonObject[] => {
  switch (part.type) {
    case 'text':
      return encodeText(part, losses)
    case 'refusal':
      return part.text === '' ? [] : [{ text: part.text }]
    case 'reasoning': {
      // Thoughts without a signature say nothing to the model, and those another maker signed are not its own.
      if (!isOwn(part.signature)) {
        losses.lose(part.at)
        return []
      }
      const { value } = part.signature
      if (isThought(part)) return [{ text: part.text, thought: true, thoughtSignature: value }]
      return alone ? [{ text: '', thoughtSignature: value }] : []
    }
    case 'tool-call': {
      const args = part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments)
      return [{ functionCall: { id: part.id, name: toolName(part.name), args } }]
    }
    case 'image':
    case 'file':
    case 'audio':
      return encodeMedia(part, losses)
    case 'foreign':
      return encodeForeign(part, losses)
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

/** Of calls made together only the first has a signature; where it has none, its place is filled. */
const signed = (parts: readonly JsonObject[]): readonly JsonObject[] => {
  const first = parts.findIndex(({ functionCall }) => functionCall !== undefined)
  const call = parts[first]
  if (!call || call.thoughtSignature !== undefined) return parts
  return parts.with(first, { ...call, thoughtSignature: UNSIGNED })
}

// ── What the user said, and what the calls gave ──────────────────────────────────────────────────────────────────

const encodeByUser = (part: Part, losses: Losses): JsonObject[] => {
  switch (part.type) {
    case 'text':
      return encodeText(part, losses)
    case 'refusal':
      return part.text === '' ? [] : [{ text: part.text }]
    case 'image':
    case 'file':
    case 'audio':
      return encodeMedia(part, losses)
    case 'foreign':
      return encodeForeign(part, losses)
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

/** The answer to a call: text under one of the two names this format has for it, pictures and files beside or behind. */
const encodeResult = (
  message: Message & { readonly role: 'tool' },
  name: string,
  family: Family,
  losses: Losses,
): { readonly result: JsonObject; readonly more: readonly JsonObject[] } => {
  loseExtras(message.extras, losses)
  const said = message.content.flatMap((part) => {
    if (part.type === 'text') return encodeText(part, losses).map(({ text }) => text)
    return part.type === 'refusal' ? [part.text] : []
  })
  const more = message.content.flatMap((part) =>
    part.type === 'text' || part.type === 'refusal' ? [] : encodeByUser(part, losses),
  )
  // Older models take pictures only beside the result.
  const inside = family.third && more.every(({ inlineData }) => inlineData !== undefined)
  const result = {
    id: message.callId,
    name: toolName(name),
    response: { [message.isError ? 'error' : 'output']: said.length === 1 ? (said[0] ?? '') : said.join('\n') },
    ...(inside && more.length > 0 && { parts: more }),
  }
  return { result: { functionResponse: result }, more: inside ? [] : more }
}

const encodeForeign = (part: Part & { readonly type: 'foreign' }, losses: Losses): JsonObject[] => {
  if (part.protocol === 'gemini') return [part.raw]
  losses.unfit(part.at)
  return []
}

/** A part without anything in it is refused; nothing is lost with it. */
const encodeText = (part: Part & { readonly type: 'text' }, losses: Losses): JsonObject[] => {
  loseExtras(part.extras, losses)
  return part.text === '' ? [] : [{ text: part.text }]
}

// ── Pictures, files, sound ───────────────────────────────────────────────────────────────────────────────────────

const encodeMedia = (part: Part & { readonly type: 'image' | 'file' | 'audio' }, losses: Losses): JsonObject[] => {
  const made = part.type === 'audio' ? encodeAudio(part) : encodeSource(part)
  if (!made) {
    losses.unfit(part.at)
    return []
  }
  if (part.type === 'audio') return [made]
  loseExtras(part.extras, losses)
  if (part.type === 'image' && part.detail !== undefined && part.detail !== 'auto') losses.loseMember(part, 'detail')
  if (part.type === 'file' && part.filename) losses.loseMember(part, 'filename')
  return [made]
}

const AUDIO: { readonly [format: string]: string } = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
  opus: 'audio/opus',
  ogg: 'audio/ogg',
  aac: 'audio/aac',
  aiff: 'audio/aiff',
  m4a: 'audio/m4a',
}

const encodeAudio = ({ data, format }: Part & { readonly type: 'audio' }): JsonObject | undefined => {
  const mimeType = Object.hasOwn(AUDIO, format) ? AUDIO[format] : undefined
  return mimeType === undefined ? undefined : { inlineData: { mimeType, data: standardBase64(data) } }
}

const encodeSource = (part: Part & { readonly type: 'image' | 'file' }): JsonObject | undefined => {
  const filename = part.type === 'file' ? part.filename : undefined
  const source = inlineDataUrl(part.source)
  switch (source.kind) {
    case 'data': {
      const mimeType = mediaTypeOf(source.mediaType, source.data, filename)
      return mimeType === '' ? undefined : { inlineData: { mimeType, data: standardBase64(source.data) } }
    }
    case 'url': {
      // Its own files, a bucket's, and on newer models the web's.
      if (!/^(?:https|gs):\/\//i.test(source.url)) return undefined
      const mimeType = detectMediaType('', filename ?? source.url.replace(/[?#].*$/s, ''))
      return { fileData: { ...(mimeType && { mimeType }), fileUri: source.url } }
    }
    case 'id':
      // Files of another provider.
      return undefined
    default:
      throw new Error(`unknown source ${JSON.stringify(source satisfies never)}`)
  }
}
