/** Encodes a conversation: a separate system prompt, then alternating user and assistant turns. */
import type { Extra, Message, Part } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { type Losses, loseExtras } from '../shared/losses.ts'
import { foreignEncoder, type PartOf, partEncoder } from '../shared/part-encoder.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { alternatingTurns, GREETING, type SystemAndTurns, startWithUser, trimFinalTurn } from '../shared/turns.ts'
import { documentMember, encodeAudio, encodeFile, encodeImage } from './encode-media.ts'
import type { ConverseModelFamily } from './family.ts'
import { toolName, toolUseId } from './ids.ts'

/** API reference, DocumentBlock: "If you include a document in content, you must also include a text". */
const DOCUMENT_TEXT = 'See the attached document.'
/** Replaces a blank result: Bedrock rejects blank texts and calls without a result. */
const NO_OUTPUT = '(no output)'

type ConversationContext = {
  readonly family: ConverseModelFamily
  readonly losses: Losses
  /** Names of the documents encoded so far. */
  readonly names: Set<string>
}

/**
 * Moves system messages to the front, merges adjacent messages of one role, and puts tool results first in their turn.
 * Other changes are reported as losses.
 */
export const encodeConversation = (
  messages: readonly Message[],
  family: ConverseModelFamily,
  losses: Losses,
): SystemAndTurns => {
  const context: ConversationContext = { family, losses, names: new Set() }
  const system = messages.flatMap((message) => (message.role === 'system' ? encodeSystem(message, context) : []))
  const turns = alternatingTurns(messages, {
    result: (message) => encodeResult(message, context),
    content: (message) => encodeContent(message, context),
  })
  return startWithUser(messages, { system, turns: trimFinalTurn(turns) }, { text: GREETING }, losses)
}

const encodeSystem = (message: Message, context: ConversationContext): readonly JsonObject[] =>
  withCachePoints(
    message,
    message.content.map((part) => {
      if (part.type === 'text') return encodeText(part, context)
      // A system prompt contains text only.
      context.losses.unfit(part.at)
      return []
    }),
    context,
  )

// ── Calls and their results ──────────────────────────────────────────────────────────────────────────────────────────

const encodeResult = (message: Message & { readonly role: 'tool' }, context: ConversationContext): JsonObject[] => {
  const blocks = message.content.flatMap((part) => encodeResultPart(part, context))
  const result = {
    toolUseId: toolUseId(message.callId),
    content: blocks.length > 0 ? blocks : [{ text: NO_OUTPUT }],
    ...(message.isError && { status: 'error' }),
  }
  return [{ toolResult: result }, ...cachePoints(message.extras, context)]
}

/** A part of a tool result: no audio, no calls, and no cache points, which follow the result. */
const encodeResultPart = (part: Part, context: ConversationContext): readonly JsonObject[] => {
  const { losses } = context
  switch (part.type) {
    case 'text':
      loseExtras(part.extras, losses)
      return isNotBlank(part.text) ? [{ text: part.text }] : []
    case 'refusal':
      return isNotBlank(part.text) ? [{ text: part.text }] : []
    case 'image': {
      loseExtras(part.extras, losses)
      const image = encodeImage(part, losses)
      return image ? [image] : []
    }
    case 'file':
      return encodeDocument(part, context)
    case 'foreign':
      return encodeForeign(part, losses)
    default:
      losses.unfit(part.at)
      return []
  }
}

const encodeCall = (part: PartOf<'tool-call'>): JsonObject[] => {
  const input = part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments)
  return [{ toolUse: { toolUseId: toolUseId(part.id), name: toolName(part.name), input } }]
}

// ── User and assistant messages ──────────────────────────────────────────────────────────────────────────────────────

const encodeContent = (
  message: Message & { readonly role: 'user' | 'assistant' },
  context: ConversationContext,
): readonly JsonObject[] => {
  const blocks = withCachePoints(
    message,
    message.content.map((part) =>
      message.role === 'user' ? encodeUserPart(part, context) : encodeAssistantPart(part, context),
    ),
    context,
  )
  const hasDocument = blocks.some(({ document }) => document !== undefined)
  if (!hasDocument || blocks.some(({ text }) => text !== undefined)) return blocks
  context.losses.lose(message.at)
  return [...blocks, { text: DOCUMENT_TEXT }]
}

/**
 * The blocks of a message's parts, with cache points. A cache mark of the message applies to all of it; one of a call is
 * among the message's extras.
 */
const withCachePoints = (
  message: Message,
  encoded: readonly (readonly JsonObject[])[],
  context: ConversationContext,
): readonly JsonObject[] => {
  const pointsAfter = new Map<number, readonly JsonObject[]>()
  for (const extra of message.extras ?? []) {
    const partIndex = message.content.findIndex((part) => extra.at === `${part.at}.cache_control`)
    const place = partIndex === -1 ? encoded.findLastIndex((blocks) => blocks.length > 0) : partIndex
    const block = encoded[place]?.at(-1)
    if (!block || !isCacheable(block) || pointsAfter.has(place)) context.losses.loseExtra(extra)
    else pointsAfter.set(place, cachePoints([extra], context))
  }
  return encoded.flatMap((blocks, place) => [...blocks, ...(pointsAfter.get(place) ?? [])])
}

/** Bedrock rejects cache points after reasoning, documents and videos. */
export const isCacheable = ({ reasoningContent, document, video, cachePoint }: JsonObject): boolean =>
  reasoningContent === undefined && document === undefined && video === undefined && cachePoint === undefined

/** Cache points for the cache marks among the extras, to follow the marked block. Other extras are losses. */
export const cachePoints = (
  extras: readonly Extra[] | undefined,
  { family, losses }: Pick<ConversationContext, 'family' | 'losses'>,
  where: 'messages' | 'tools' = 'messages',
): JsonObject[] => {
  const found: JsonObject[] = []
  for (const extra of extras ?? []) {
    const { name, value, at } = extra
    const isMark = name === 'cache_control' && isObject(value) && value.type === 'ephemeral'
    if (!isMark || !family.caches[where] || found.length > 0) {
      losses.loseExtra(extra)
      continue
    }
    const { ttl } = value
    const hasTtl = family.caches.long && (ttl === '5m' || ttl === '1h')
    if (ttl !== undefined && ttl !== null && !hasTtl) losses.lose(`${at}.ttl`)
    found.push({ cachePoint: { type: 'default', ...(hasTtl && { ttl }) } })
  }
  return found
}

const encodeRefusal = ({ text }: PartOf<'refusal'>): JsonObject[] => (isNotBlank(text) ? [{ text }] : [])

const encodeReasoning = (
  { at, text, signature }: PartOf<'reasoning'>,
  { family, losses }: ConversationContext,
): JsonObject[] => {
  // Only Claude signs reasoning, and only Bedrock's signatures are valid. Other models reject reasoning.
  const own = signature?.origin === 'bedrock-converse' && signature.value !== ''
  if (!own || !(family.maker === 'anthropic' || family.maker === 'unknown')) {
    losses.lose(at)
    return []
  }
  return [
    {
      reasoningContent: signature.redacted
        ? { redactedContent: signature.value }
        : { reasoningText: { text, signature: signature.value } },
    },
  ]
}

const encodeDocument = (part: PartOf<'file'>, { names, losses }: ConversationContext): JsonObject[] => {
  const block = encodeFile(part, names, losses)
  if (!block) return []
  const document = isObject(block.document) ? block.document : undefined
  const members = (part.extras ?? []).flatMap((extra): JsonObject[] => {
    const member = document && documentMember(extra.name, extra.value)
    if (member) return [member]
    // Includes cache marks: Bedrock rejects a cache point after a document.
    losses.loseExtra(extra)
    return []
  })
  return [document ? { document: Object.assign({}, document, ...members) } : block]
}

const isNotBlank = (text: string): boolean => text.trim() !== ''

/** Blank texts are rejected by the upstream, so they are dropped. */
const encodeText = (part: PartOf<'text'>, context: ConversationContext): JsonObject[] => {
  if (isNotBlank(part.text)) return [{ text: part.text }, ...cachePoints(part.extras, context)]
  loseExtras(part.extras, context.losses)
  return []
}

const encodeForeign = foreignEncoder('bedrock-converse')

const encodeUserPart = partEncoder<ConversationContext>({
  text: encodeText,
  refusal: encodeRefusal,
  image: (part, context) => {
    const image = encodeImage(part, context.losses)
    return image ? [image, ...cachePoints(part.extras, context)] : []
  },
  file: encodeDocument,
  audio: (part, { losses }) => {
    const audio = encodeAudio(part, losses)
    return audio ? [audio] : []
  },
  foreign: encodeForeign,
})

/** Assistant turns cannot contain media in this format. */
const encodeAssistantPart = partEncoder<ConversationContext>({
  text: encodeText,
  refusal: encodeRefusal,
  'tool-call': encodeCall,
  reasoning: encodeReasoning,
  foreign: encodeForeign,
})
