/** The conversation as this format wants it: system first, then turn by turn, and documents apart from all of them. */
import type { Message, Part } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { isObject } from '../../core/json.ts'
import { dataUrl } from '../shared/data-url.ts'
import { type Losses, loseExtras, rolePath } from '../shared/losses.ts'
import { fromBase64, isTextType, mediaTypeOf, standardBase64 } from '../shared/media.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { toolName } from './ids.ts'
import { isPlan } from './tool-plan.ts'

export type Conversation = {
  readonly messages: readonly JsonObject[]
  readonly documents: readonly JsonObject[]
}

export type ConversationFacts = {
  /** The model thinks, and takes back what it thought. */
  readonly thinks: boolean
  /** `response_format` is "not supported when used in combinations with the `documents` … parameters". */
  readonly formatted: boolean
}

/**
 * System messages go to the front in their order, wherever they stood ("system turn must be the first in the list"). A
 * prompt of system messages alone: the last of them is what the model shall answer.
 */
export const encodeConversation = (
  messages: readonly Message[],
  facts: ConversationFacts,
  losses: Losses,
): Conversation => {
  const systems = messages.filter((message) => message.role === 'system')
  const turns = encodeTurns(messages, facts, losses)
  const last = turns.messages.length === 0 ? systems.at(-1) : undefined
  if (last) losses.lose(rolePath(last))
  const front = systems.filter((message) => message !== last).flatMap((message) => encodeSystem(message, losses))
  const question = last ? encodeSystem(last, losses) : []
  return {
    messages: [
      ...(front.length > 0 ? [{ role: 'system', content: contentOf(front) }] : []),
      ...(question.length > 0 ? [{ role: 'user', content: contentOf(question) }] : []),
      ...turns.messages,
    ],
    documents: turns.documents,
  }
}

/** A single text is a plain string, which models of every age read. */
const contentOf = (blocks: readonly JsonObject[]): Json => {
  const [only] = blocks
  return blocks.length === 1 && only?.type === 'text' ? (only.text ?? '') : blocks
}

const encodeSystem = (message: Message, losses: Losses): JsonObject[] => {
  loseExtras(message.extras, losses)
  return message.content.flatMap((part) => {
    if (part.type === 'text') return encodeText(part, losses)
    losses.unfit(part.at)
    return []
  })
}

/** An empty text is refused in most places and says nothing; nothing is lost with it. */
const encodeText = (part: Part & { readonly type: 'text' | 'refusal' }, losses: Losses): JsonObject[] => {
  if (part.type === 'text') loseExtras(part.extras, losses)
  return part.text === '' ? [] : [{ type: 'text', text: part.text }]
}

const encodeTurns = (messages: readonly Message[], facts: ConversationFacts, losses: Losses): Conversation => {
  const written: JsonObject[] = []
  const documents: JsonObject[] = []
  const ids = callIds()
  /** Pictures that tools gave: a `tool` message holds text and documents, so they follow the last of the results. */
  let shown: JsonObject[] = []
  const show = () => {
    if (shown.length > 0) written.push({ role: 'user', content: shown })
    shown = []
  }
  for (const message of messages) {
    if (message.role !== 'tool' && message.role !== 'system') show()
    switch (message.role) {
      case 'system':
        break
      case 'user': {
        loseExtras(message.extras, losses)
        const told = message.content.flatMap((part) => encodeByUser(part, losses))
        const said = told.flatMap((block) => (block.type === 'document' ? asText(block, facts) : [block]))
        documents.push(...(facts.formatted ? [] : told.flatMap(documentIn)))
        if (said.length > 0) written.push({ role: 'user', content: contentOf(said) })
        // Documents are no message, and there has to be one of the user's.
        else if (told.length > 0) written.push({ role: 'user', content: 'Read the documents.' })
        break
      }
      case 'assistant':
        written.push(...encodeAssistant(message, ids, facts, losses))
        break
      case 'tool': {
        loseExtras(message.extras, losses)
        const id = ids.current(message.callId)
        // "Tool call id not found in previous tool calls" (Cohere, errors, 400).
        if (id === undefined) {
          losses.unfit(message.at)
          break
        }
        const told = message.content.flatMap((part) => encodeByUser(part, losses))
        const pictures = told.filter(({ type }) => type === 'image_url')
        const said = told.filter(({ type }) => type !== 'image_url')
        const stated = said.length === 0 && pictures.length > 0 ? [{ type: 'text', text: ELSEWHERE }] : said
        written.push({
          role: 'tool',
          tool_call_id: id,
          content: message.isError ? asError(stated) : stated.length === 0 ? '' : contentOf(stated),
        })
        shown.push(...pictures)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }
  show()
  return { messages: written, documents }
}

const ELSEWHERE = 'The result is in the next user message.'

/** This format cannot mark a result as an error, so its text says it. */
const asError = (blocks: readonly JsonObject[]): Json => {
  const [first, ...rest] = blocks
  if (first?.type !== 'text') return [{ type: 'text', text: 'Error:' }, ...blocks]
  const words = String(first.text)
  return contentOf([{ ...first, text: /error/i.test(words.slice(0, 40)) ? words : `Error: ${words}` }, ...rest])
}

const documentIn = (block: JsonObject): JsonObject[] => (isObject(block.document) ? [block.document] : [])

/** Where documents are not to be had beside the messages, their words stand among the others. */
const asText = (block: JsonObject, { formatted }: ConversationFacts): JsonObject[] => {
  const data = isObject(block.document) && isObject(block.document.data) ? block.document.data : {}
  if (!formatted) return []
  const words = [data.title, data.context, data.text].filter((word) => typeof word === 'string' && word !== '')
  return [{ type: 'text', text: words.join('\n\n') }]
}

// ── What the model said ──────────────────────────────────────────────────────────────────────────────────────────

/** "Cannot have duplicate tool ids" (Cohere, errors, 400): an id another format's model used twice is sent once more, changed. */
const callIds = () => {
  const now = new Map<string, string>()
  const sent = new Set<string>()
  return {
    next(id: string): string {
      let fresh = id
      for (let again = 2; sent.has(fresh); again++) fresh = `${id}_${again}`
      sent.add(fresh)
      now.set(id, fresh)
      return fresh
    },
    current: (id: string): string | undefined => now.get(id),
  }
}

type Turn = Message & { readonly role: 'assistant' }

/**
 * Beside calls there may be thoughts (of a model that thinks) and a plan, but no other words: those go into the plan,
 * which is what a model says before it calls.
 */
const encodeAssistant = (
  { content, extras }: Turn,
  ids: ReturnType<typeof callIds>,
  { thinks }: ConversationFacts,
  losses: Losses,
): JsonObject[] => {
  loseExtras(extras, losses)
  const hasCalls = content.some(({ type }) => type === 'tool-call')
  const plans: string[] = []
  const blocks: JsonObject[] = []
  const calls: JsonObject[] = []
  for (const part of content)
    switch (part.type) {
      case 'text':
      case 'refusal':
        for (const block of encodeText(part, losses))
          if (hasCalls) plans.push(part.text)
          else blocks.push(block)
        break
      case 'reasoning': {
        const { at, text, summary, signature: proof } = part
        const plan = isPlan(proof)
        // Somebody else's thoughts, or a summary of them, were not this model's.
        const own = text !== '' && !summary && (plan || !proof || proof.origin === 'cohere')
        if (own && hasCalls && (plan || !thinks)) plans.push(text)
        else if (own && thinks) blocks.push({ type: 'thinking', thinking: text })
        else if (text !== '' || proof) losses.lose(at)
        break
      }
      case 'tool-call':
        calls.push({
          id: ids.next(part.id),
          type: 'function',
          function: {
            name: toolName(part.name),
            arguments: JSON.stringify(part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments)),
          },
        })
        break
      case 'image':
      case 'file':
      case 'audio':
      case 'foreign':
        losses.unfit(part.at)
        break
      default:
        throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
    }
  if (blocks.length + calls.length === 0) return []
  return [
    {
      role: 'assistant',
      ...(blocks.length > 0 && { content: contentOf(blocks) }),
      ...(plans.length > 0 && { tool_plan: plans.join('\n\n') }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ]
}

// ── What the user said, and what the calls gave ──────────────────────────────────────────────────────────────────

const encodeByUser = (part: Part, losses: Losses): JsonObject[] => {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return encodeText(part, losses)
    case 'image':
      return encodeImage(part, losses)
    case 'file':
      return encodeFile(part, losses)
    case 'reasoning':
      losses.lose(part.at)
      return []
    case 'audio':
    case 'foreign':
    case 'tool-call':
      losses.unfit(part.at)
      return []
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

/** "A base64 data URI or a web URL". */
const encodeImage = (part: Part & { readonly type: 'image' }, losses: Losses): JsonObject[] => {
  const { at, source, detail, extras } = part
  loseExtras(extras, losses)
  const known = detail === 'auto' || detail === 'low' || detail === 'high'
  if (detail !== undefined && !known) losses.loseMember(part, 'detail')
  const url = (): string | undefined => {
    if (source.kind === 'url') return /^(?:https?|data):/i.test(source.url) ? source.url : undefined
    if (source.kind === 'id') return undefined
    const mediaType = mediaTypeOf(source.mediaType, source.data) || 'image/png'
    return dataUrl({ mediaType, data: standardBase64(source.data) })
  }
  const address = url()
  if (address === undefined) {
    losses.unfit(at)
    return []
  }
  return [{ type: 'image_url', image_url: { url: address, ...(known && { detail }) } }]
}

/** A file of text is a document, which the model reads and cites. There is no place for any other. */
const encodeFile = (part: Part & { readonly type: 'file' }, losses: Losses): JsonObject[] => {
  const { at, source, filename, extras } = part
  const text =
    source.kind === 'data' && isTextType(mediaTypeOf(source.mediaType, source.data, filename))
      ? fromBase64(standardBase64(source.data))
      : undefined
  if (text === undefined) {
    losses.unfit(at)
    return []
  }
  const context: string[] = []
  for (const extra of extras ?? []) {
    // What a document is about is a member like any other; that it may be cited is how documents are here.
    if (extra.name === 'context' && typeof extra.value === 'string') context.push(extra.value)
    else if (!(extra.name === 'citations' && isObject(extra.value) && extra.value.enabled === true))
      losses.loseExtra(extra)
  }
  const [about] = context
  const data = { ...(filename && { title: filename }), ...(about && { context: about }), text }
  return [{ type: 'document', document: { data } }]
}
