/** The conversation as this format wants it: system apart, then user and assistant in turn. */
import type { Extra, Message, Part } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { type Losses, loseExtras } from '../shared/losses.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { alternatingTurns, GREETING, type SystemAndTurns, startWithUser, trimFinalTurn } from '../shared/turns.ts'
import { documentMember, encodeAudio, encodeFile, encodeImage } from './encode-media.ts'
import type { Family } from './family.ts'
import { toolName, toolUseId } from './ids.ts'

/** "If you include a document in content, you must also include a text" (its document on DocumentBlock). */
const BESIDE_DOCUMENTS = 'See the attached document.'
/** Blank texts are refused, in results too; and a call has to have a result. */
const NO_OUTPUT = '(no output)'

type Context = {
  readonly family: Family
  readonly losses: Losses
  /**
   * No tool is offered: then calls and results of the history are refused ("The toolConfig field must be defined when
   * using toolUse and toolResult content blocks") and are told in words instead.
   */
  readonly inWords: boolean
  /** Names of the documents so far. */
  readonly names: Set<string>
  /** The tools called so far, by the call's id. */
  readonly called: Map<string, string>
}

/**
 * System messages go to the front in their order, wherever they stood; neighbours of one role become one turn; the
 * results of a turn's calls stand first in the next. What had to be changed beyond that is among the losses.
 */
export const encodeConversation = (
  messages: readonly Message[],
  { family, inWords }: { readonly family: Family; readonly inWords: boolean },
  losses: Losses,
): SystemAndTurns => {
  const context: Context = { family, losses, inWords, names: new Set(), called: new Map() }
  const system = messages.flatMap((message) => (message.role === 'system' ? encodeSystem(message, context) : []))
  const turns = alternatingTurns(messages, {
    result: (message) => encodeResult(message, context),
    content: (message) => encodeContent(message, context),
  })
  return startWithUser(messages, { system, turns: trimFinalTurn(turns) }, { text: GREETING }, losses)
}

const encodeSystem = (message: Message, context: Context): readonly JsonObject[] =>
  marked(
    message,
    message.content.map((part) => {
      if (part.type === 'text') return encodeText(part, context)
      // There is no place for anything but text in the system prompt.
      context.losses.unfit(part.at)
      return []
    }),
    context,
  )

// ── Calls and their results ──────────────────────────────────────────────────────────────────────────────────────

const encodeResult = (message: Message & { readonly role: 'tool' }, context: Context): JsonObject[] => {
  const { losses, inWords } = context
  const blocks = message.content.flatMap((part) => encodeInResult(part, context))
  if (inWords) {
    losses.lose(message.at)
    const name = context.called.get(message.callId) ?? 'tool'
    const words = message.isError ? `[The tool ${name} failed:]` : `[The tool ${name} answered:]`
    return [{ text: words }, ...(blocks.length > 0 ? blocks : [{ text: NO_OUTPUT }])]
  }
  const result = {
    toolUseId: toolUseId(message.callId),
    content: blocks.length > 0 ? blocks : [{ text: NO_OUTPUT }],
    ...(message.isError && { status: 'error' }),
  }
  return [{ toolResult: result }, ...points(message.extras, context)]
}

/** What a result may hold: no sound, no calls, and no marks for the cache, which lie behind it. */
const encodeInResult = (part: Part, context: Context): JsonObject[] => {
  const { losses } = context
  switch (part.type) {
    case 'text':
      loseExtras(part.extras, losses)
      return hasWords(part.text) ? [{ text: part.text }] : []
    case 'refusal':
      return hasWords(part.text) ? [{ text: part.text }] : []
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

const encodeCall = (part: Part & { readonly type: 'tool-call' }, context: Context): JsonObject[] => {
  const { losses, inWords, called } = context
  const name = toolName(part.name)
  called.set(part.id, name)
  if (inWords) {
    losses.lose(part.at)
    return [{ text: `[Called the tool ${name} with ${part.arguments.trim() || '{}'}]` }]
  }
  const input = part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments)
  return [{ toolUse: { toolUseId: toolUseId(part.id), name, input } }]
}

// ── What user and assistant said ─────────────────────────────────────────────────────────────────────────────────

const encodeContent = (
  message: Message & { readonly role: 'user' | 'assistant' },
  context: Context,
): readonly JsonObject[] => {
  const blocks = marked(
    message,
    message.content.map((part) =>
      message.role === 'user' ? encodeByUser(part, context) : encodeByAssistant(part, context),
    ),
    context,
  )
  const documents = blocks.some(({ document }) => document !== undefined)
  if (!documents || blocks.some(({ text }) => text !== undefined)) return blocks
  context.losses.lose(message.at)
  return [...blocks, { text: BESIDE_DOCUMENTS }]
}

/**
 * The blocks of a message's parts. A mark for the cache may be the message's, which means all of it, or that of a call,
 * which has no extras of its own in the middle.
 */
const marked = (
  message: Message,
  made: readonly (readonly JsonObject[])[],
  context: Context,
): readonly JsonObject[] => {
  const behind = new Map<number, readonly JsonObject[]>()
  for (const extra of message.extras ?? []) {
    const owner = message.content.findIndex((part) => extra.at === `${part.at}.cache_control`)
    const place = owner === -1 ? made.findLastIndex((blocks) => blocks.length > 0) : owner
    const block = made[place]?.at(-1)
    if (!block || !isMarkable(block) || behind.has(place)) context.losses.loseExtra(extra)
    else behind.set(place, points([extra], context))
  }
  return made.flatMap((blocks, place) => [...blocks, ...(behind.get(place) ?? [])])
}

/** Thoughts are not marked, and a mark right behind a document or a film is refused. */
const isMarkable = ({ reasoningContent, document, video, cachePoint }: JsonObject): boolean =>
  reasoningContent === undefined && document === undefined && video === undefined && cachePoint === undefined

/** A mark for the cache is a block of its own here, behind what it marks. The other extras are losses. */
export const points = (
  extras: readonly Extra[] | undefined,
  { family, losses }: Pick<Context, 'family' | 'losses'>,
  where: 'messages' | 'tools' = 'messages',
): JsonObject[] => {
  const found: JsonObject[] = []
  for (const extra of extras ?? []) {
    const { name, value, at } = extra
    const marks = name === 'cache_control' && isObject(value) && value.type === 'ephemeral'
    if (!marks || !family.caches[where] || found.length > 0) {
      losses.loseExtra(extra)
      continue
    }
    const { ttl } = value
    const carried = family.caches.long && (ttl === '5m' || ttl === '1h')
    if (ttl !== undefined && ttl !== null && !carried) losses.lose(`${at}.ttl`)
    found.push({ cachePoint: { type: 'default', ...(carried && { ttl }) } })
  }
  return found
}

const encodeByUser = (part: Part, context: Context): JsonObject[] => {
  const { losses } = context
  switch (part.type) {
    case 'text':
      return encodeText(part, context)
    case 'refusal':
      return hasWords(part.text) ? [{ text: part.text }] : []
    case 'image': {
      const image = encodeImage(part, losses)
      if (image) return [image, ...points(part.extras, context)]
      return []
    }
    case 'file':
      return encodeDocument(part, context)
    case 'audio': {
      const audio = encodeAudio(part, losses)
      return audio ? [audio] : []
    }
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

const encodeByAssistant = (part: Part, context: Context): JsonObject[] => {
  const { losses, family } = context
  switch (part.type) {
    case 'text':
      return encodeText(part, context)
    case 'refusal':
      return hasWords(part.text) ? [{ text: part.text }] : []
    case 'tool-call':
      return encodeCall(part, context)
    case 'reasoning': {
      const { proof } = part
      // Only Claude signs, and only what is signed here is taken back; models of other makers refuse thoughts.
      const own = proof?.origin === 'bedrock-converse' && proof.value !== ''
      if (!own || !(family.maker === 'anthropic' || family.maker === 'unknown')) {
        losses.lose(part.at)
        return []
      }
      return [
        {
          reasoningContent: proof.redacted
            ? { redactedContent: proof.value }
            : { reasoningText: { text: part.text, signature: proof.value } },
        },
      ]
    }
    case 'foreign':
      return encodeForeign(part, losses)
    // The assistant's turns hold no images and no files here.
    case 'image':
    case 'file':
    case 'audio':
      losses.unfit(part.at)
      return []
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const encodeForeign = (part: Part & { readonly type: 'foreign' }, losses: Losses): JsonObject[] => {
  if (part.protocol === 'bedrock-converse') return [part.raw]
  losses.unfit(part.at)
  return []
}

const encodeDocument = (part: Part & { readonly type: 'file' }, { names, losses }: Context): JsonObject[] => {
  const made = encodeFile(part, names, losses)
  if (!made) return []
  const document = isObject(made.document) ? made.document : undefined
  const more = (part.extras ?? []).flatMap((extra): JsonObject[] => {
    const member = document && documentMember(extra.name, extra.value)
    if (member) return [member]
    // The mark for the cache too: right behind a document it is refused.
    losses.loseExtra(extra)
    return []
  })
  return [document ? { document: Object.assign({}, document, ...more) } : made]
}

const hasWords = (text: string): boolean => text.trim() !== ''

/** Texts without words are refused; nothing is lost with them. */
const encodeText = (part: Part & { readonly type: 'text' }, context: Context): JsonObject[] => {
  if (hasWords(part.text)) return [{ text: part.text }, ...points(part.extras, context)]
  loseExtras(part.extras, context.losses)
  return []
}
