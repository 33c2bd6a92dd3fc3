/** The conversation as turns of user and model, for formats that want them to alternate. */
import type { Message } from '../core/chat.ts'
import type { JsonObject } from '../core/json.ts'
import { append } from './shared.ts'

export type AlternatingTurn = { readonly role: 'user' | 'assistant'; readonly content: readonly JsonObject[] }

type Writers = {
  readonly result: (message: Message & { readonly role: 'tool' }) => readonly JsonObject[]
  readonly content: (message: Message & { readonly role: 'user' | 'assistant' }) => readonly JsonObject[]
}

type Growing = { readonly role: AlternatingTurn['role']; readonly results: JsonObject[]; readonly rest: JsonObject[] }

/**
 * Neighbours of one role become one turn, and the results of a turn's calls stand first in the next; system messages are
 * somebody else's. A message without content makes no turn.
 */
export const alternating = (messages: readonly Message[], { result, content }: Writers): AlternatingTurn[] => {
  const turns: Growing[] = []
  const turn = (role: Growing['role']): Growing => {
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
        const said = content(message)
        if (said.length > 0) append(turn(message.role).rest, said)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  return turns.map(({ role, results, rest }) => ({ role, content: [...results, ...rest] }))
}
