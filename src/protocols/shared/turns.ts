/** Messages as alternating user and assistant turns, for formats that require alternation. */
import type { Message } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { append } from './append.ts'
import { type Losses, rolePath } from './losses.ts'

/** Consecutive messages of one role. */
export type AlternatingTurn = { readonly role: 'user' | 'assistant'; readonly content: readonly JsonObject[] }

type Writers = {
  readonly result: (message: Message & { readonly role: 'tool' }) => readonly JsonObject[]
  readonly content: (message: Message & { readonly role: 'user' | 'assistant' }) => readonly JsonObject[]
}

type TurnDraft = { readonly role: AlternatingTurn['role']; readonly results: JsonObject[]; readonly rest: JsonObject[] }

/**
 * Merges consecutive messages of one role into a turn; tool results come first in the user's turn. System messages are
 * skipped, and so are messages without content.
 */
export const alternatingTurns = (messages: readonly Message[], { result, content }: Writers): AlternatingTurn[] => {
  const turns: TurnDraft[] = []
  const turn = (role: TurnDraft['role']): TurnDraft => {
    const last = turns.at(-1)
    if (last?.role === role) return last
    const next = { role, results: [], rest: [] }
    turns.push(next)
    return next
  }
  for (const message of messages)
    switch (message.role) {
      case 'system':
        break
      case 'tool':
        append(turn('user').results, result(message))
        break
      case 'user':
      case 'assistant': {
        const blocks = content(message)
        if (blocks.length > 0) append(turn(message.role).rest, blocks)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  return turns.map(({ role, results, rest }) => ({ role, content: [...results, ...rest] }))
}

/** Removes trailing white space of a final assistant turn (a prefill), which providers reject. */
export const trimFinalTurn = (turns: readonly AlternatingTurn[]): readonly AlternatingTurn[] => {
  const last = turns.at(-1)
  const block = last?.content.at(-1)
  if (last?.role !== 'assistant' || typeof block?.text !== 'string') return turns
  const text = block.text.trimEnd()
  return [...turns.slice(0, -1), { ...last, content: [...last.content.slice(0, -1), { ...block, text }] }]
}

/** A conversation split into system messages and turns. */
export type SystemAndTurns = { readonly system: readonly JsonObject[]; readonly turns: readonly AlternatingTurn[] }

/** The user message inserted before a conversation that begins with the assistant. */
export const GREETING = 'Hello.'

/** Makes a conversation start with the user, for formats that require it. Reports the change. */
export const startWithUser = (
  messages: readonly Message[],
  { system, turns }: SystemAndTurns,
  greeting: JsonObject,
  losses: Losses,
): SystemAndTurns => {
  const [first] = turns
  if (!first) {
    // Only system messages: the last one, with its cache markers, becomes the user's turn.
    const last = system.findLastIndex(({ text }) => text !== undefined)
    const from = messages.findLast(({ role }) => role === 'system')
    if (last === -1 || !from) return { system, turns }
    losses.lose(rolePath(from))
    return { system: system.slice(0, last), turns: [{ role: 'user', content: system.slice(last) }] }
  }
  if (first.role === 'user') return { system, turns }
  // Some chat clients start with the assistant's greeting. An inserted user turn keeps all content.
  losses.lose(messages.find(({ role }) => role === 'assistant')?.at ?? 'messages')
  return { system, turns: [{ role: 'user', content: [greeting] }, ...turns] }
}
