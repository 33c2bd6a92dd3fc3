/** Identifies the requests of one conversation, so that they go to the key that has its beginning in its prompt cache. */
import type { ChatRequest, Message, Part, Tool } from '../../core/chat.ts'
import { object, text } from '../../core/json.ts'

/** How many pieces (tools, parts of messages) are read, and how many characters at each end of a piece. */
const MAX_PIECES = 64
const END_LENGTH = 1_024

/**
 * The affinity of a request: the client's own key (`prompt_cache_key`, `conversation`), or else a text made of `user`,
 * tools and messages up to the first user message. Later messages differ between turns and are not read, so the cost does
 * not grow with the history. `user` alone is not a key, because some clients send one value for all users.
 */
export const affinityOf = ({ settings, extras, tools, messages }: ChatRequest): string => {
  if (settings.promptCacheKey) return settings.promptCacheKey.value
  const conversation = extras.find(({ name }) => name === 'conversation')?.value
  const id = text(conversation) ?? text(object(conversation)?.id)
  if (id !== undefined) return id
  const pieces: string[] = [ends(settings.user?.value ?? '')]
  for (const tool of tools.slice(0, MAX_PIECES)) pieces.push(nameOf(tool))
  for (const part of opening(messages)) pieces.push(beginningOf(part))
  return pieces.join('\n')
}

/** The parts of all messages up to the first user message. Assistant messages before it are the same in every turn. */
const opening = (messages: readonly Message[]): readonly Part[] => {
  const parts: Part[] = []
  for (const { role, content } of messages) {
    parts.push(...content.slice(0, MAX_PIECES - parts.length))
    if (role === 'user' || parts.length >= MAX_PIECES) break
  }
  return parts
}

const nameOf = (tool: Tool): string => (tool.kind === 'foreign' ? (text(tool.raw.type) ?? '') : ends(tool.name))

const beginningOf = (part: Part): string => {
  switch (part.type) {
    case 'text':
    case 'refusal':
    case 'reasoning':
      return ends(part.text)
    case 'image':
    case 'file': {
      const { source } = part
      return ends(source.kind === 'data' ? source.data : source.kind === 'url' ? source.url : source.id)
    }
    case 'audio':
      return ends(part.data)
    case 'tool-call':
      return ends(part.name)
    case 'foreign':
      return text(part.raw.type) ?? ''
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

/** A long text as its length and both its ends: texts with a common beginning (instructions, data URLs) usually have different ends. */
const ends = (value: string): string =>
  value.length <= 2 * END_LENGTH ? value : `${value.length}:${value.slice(0, END_LENGTH)}${value.slice(-END_LENGTH)}`
