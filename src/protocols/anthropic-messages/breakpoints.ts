/**
 * Cache breakpoints for requests that have none: after the instructions or the tools, at the end of the conversation, and once
 * more in a long turn (platform.claude.com/docs/en/build-with-claude/prompt-caching, 2026-11-28).
 */
import { isList, isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import { placesOf } from '../shared/breakpoints.ts'

const MARK = { type: 'ephemeral' } as const

/** The body with breakpoints, at most three. Returns the same object if it has marks of its own, or no place for one. */
export const withBreakpoints = (body: JsonObject): JsonObject => {
  if (hasMarks(body)) return body
  const system = markedSystem(body.system)
  const tools = system === null ? markedTools(body.tools) : null
  const messages = markedMessages(body.messages)
  if (system === null && tools === null && messages === null) return body
  return { ...body, ...(system && { system }), ...(tools && { tools }), ...(messages && { messages }) }
}

const hasMarks = ({ cache_control, system, tools, messages }: JsonObject): boolean =>
  cache_control !== undefined ||
  [...list(system), ...list(tools), ...list(messages).flatMap(blocksOf)].some(
    (block) => isObject(block) && (block.cache_control !== undefined || list(block.content).some(isMarked)),
  )

const isMarked = (block: Json): boolean => isObject(block) && block.cache_control !== undefined

const blocksOf = (message: Json): readonly Json[] => {
  const content = isObject(message) ? message.content : undefined
  return isList(content) ? content : content === undefined ? [] : [content]
}

/** A text alone is short for a list with one block. */
const marked = (block: Json): Json =>
  isObject(block) ? { ...block, cache_control: MARK } : { type: 'text', text: block, cache_control: MARK }

/** Neither reasoning nor blank texts may have a mark. */
const mayBeMarked = (block: Json): boolean => {
  if (!isObject(block)) return typeof block === 'string' && block.trim() !== ''
  if (block.type === 'text') return (text(block.text) ?? '').trim() !== ''
  return block.type !== 'thinking' && block.type !== 'redacted_thinking'
}

const markedLast = (blocks: readonly Json[], isFit: (block: Json) => boolean): readonly Json[] | null => {
  const at = blocks.findLastIndex(isFit)
  return at === -1 ? null : blocks.map((block, index) => (index === at ? marked(block) : block))
}

const markedSystem = (system: Json | undefined): readonly Json[] | null =>
  system === undefined ? null : markedLast(isList(system) ? system : [system], mayBeMarked)

/** Tools that are loaded later are not in the prompt. */
const markedTools = (tools: Json | undefined): readonly Json[] | null =>
  markedLast(list(tools), (tool) => isObject(tool) && tool.defer_loading !== true)

const markedMessages = (messages: Json | undefined): readonly Json[] | null => {
  const all = list(messages)
  const places = placesOf(
    all.map((message) => ({
      isModel: isObject(message) && message.role === 'assistant',
      blocks: blocksOf(message).map(mayBeMarked),
    })),
  )
  if (places.length === 0) return null
  return all.map((message, at) => {
    const own = places.filter((place) => place.message === at).map(({ block }) => block)
    if (own.length === 0 || !isObject(message)) return message
    return {
      ...message,
      content: blocksOf(message).map((block, index) => (own.includes(index) ? marked(block) : block)),
    }
  })
}
