import type { Message, Part } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'

type Plain = Extract<Message, { role: 'user' | 'assistant' }> & { readonly content: readonly [Part & { type: 'text' }] }

/**
 * A text of the user's or the model's, with nothing beside it: most of every conversation is such, every client's format
 * writes it alike, and it is read at once. Undefined for every other entry, which is read member by member.
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

/** They are made once: to make them anew takes longer than all the rest. So many of a list are kept; most conversations are shorter. */
const PATHS: { readonly messages: Paths[]; readonly input: Paths[] } = { messages: [], input: [] }
const MOST_KEPT = 512

const pathsAt = (list: keyof typeof PATHS, index: number): Paths => {
  const known = PATHS[list][index]
  if (known) return known
  const at = `${list}[${index}]`
  const made = { at, within: `${at}.content` }
  if (index < MOST_KEPT) PATHS[list][index] = made
  return made
}
