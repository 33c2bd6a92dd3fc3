/** What the requests of one conversation have in common, so that they can go where its beginning is in a prompt cache. */
import type { ChatRequest, Message, Part, Tool } from '../../core/chat.ts'
import { object, text } from '../../core/json.ts'

/** So many pieces (tools, parts of messages) of the beginning are looked at, and so many characters at each end of one. */
const MAX_PIECES = 64
const END_LENGTH = 1_024

/**
 * The client's own word for the conversation (`prompt_cache_key`, `conversation`), or else its beginning: tools, and
 * messages up to the user's first. What comes later differs from turn to turn, and however long the history is it is not
 * looked at. `user` alone is no word for it (some send one for everybody), but users that begin alike are kept apart.
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

/** The parts of everything up to the user's first message. A model that spoke before that does so in every turn. */
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

/** Its length and both its ends: what begins alike for many (an instruction, a data URL) mostly ends otherwise. */
const ends = (value: string): string =>
  value.length <= 2 * END_LENGTH ? value : `${value.length}:${value.slice(0, END_LENGTH)}${value.slice(-END_LENGTH)}`
