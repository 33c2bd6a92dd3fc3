import type { Message, Part } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'

type Plain = Extract<Message, { role: 'user' | 'assistant' }> & { readonly content: readonly [Part & { type: 'text' }] }

/**
 * Fast path for a user or assistant message with a string as its content and no other members, which is the same in every
 * client format. Undefined for any other entry, which is decoded member by member.
 */
export const plainTextMessage = (
  entry: Json | undefined,
  list: keyof typeof PATHS,
  index: number,
): Plain | undefined => {
  if (!isObject(entry)) return undefined
  const { role, content } = entry
  if (typeof content !== 'string' || content === '' || (role !== 'user' && role !== 'assistant')) return undefined
  for (const name in entry) if (name !== 'role' && name !== 'content') return undefined
  const { at, within } = pathsAt(list, index)
  return { role, at, content: [{ type: 'text', at: within, text: content }] }
}

/** The paths of a message and of its text. */
type Paths = { readonly at: string; readonly within: string }

/** Cached paths by index: creating them takes longer than decoding the message. Limited to `MAX_CACHED` per list. */
const PATHS: { readonly messages: Paths[]; readonly input: Paths[] } = { messages: [], input: [] }
const MAX_CACHED = 512

const pathsAt = (list: keyof typeof PATHS, index: number): Paths => {
  const cached = PATHS[list][index]
  if (cached) return cached
  const at = `${list}[${index}]`
  const made = { at, within: `${at}.content` }
  if (index < MAX_CACHED) PATHS[list][index] = made
  return made
}
