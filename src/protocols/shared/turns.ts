/** The conversation as turns of user and model, for formats that want them to alternate. */
import type { Message } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { append } from './append.ts'
import { type Losses, rolePath } from './losses.ts'

export type AlternatingTurn = { readonly role: 'user' | 'assistant'; readonly content: readonly JsonObject[] }

type Writers = {
  readonly result: (message: Message & { readonly role: 'tool' }) => readonly JsonObject[]
  readonly content: (message: Message & { readonly role: 'user' | 'assistant' }) => readonly JsonObject[]
}

type TurnDraft = { readonly role: AlternatingTurn['role']; readonly results: JsonObject[]; readonly rest: JsonObject[] }

/**
 * Neighbours of one role become one turn, and the results of a turn's calls stand first in the next; system messages are
 * somebody else's. A message without content makes no turn.
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
        const said = content(message)
        if (said.length > 0) append(turn(message.role).rest, said)
        break
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  return turns.map(({ role, results, rest }) => ({ role, content: [...results, ...rest] }))
}

/** A final assistant turn is continued by the model; white space at its end is refused. */
export const trimFinalTurn = (turns: readonly AlternatingTurn[]): readonly AlternatingTurn[] => {
  const last = turns.at(-1)
  const block = last?.content.at(-1)
  if (last?.role !== 'assistant' || typeof block?.text !== 'string') return turns
  const text = block.text.trimEnd()
  return [...turns.slice(0, -1), { ...last, content: [...last.content.slice(0, -1), { ...block, text }] }]
}

/** System messages apart, and the turns. */
export type SystemAndTurns = { readonly system: readonly JsonObject[]; readonly turns: readonly AlternatingTurn[] }

/** Said in the client's place where a conversation begins with the assistant. */
export const GREETING = 'Hello.'

/** A conversation in which the user speaks first, for formats that refuse any other. */
export const startWithUser = (
  messages: readonly Message[],
  { system, turns }: SystemAndTurns,
  greeting: JsonObject,
  losses: Losses,
): SystemAndTurns => {
  const [first] = turns
  if (!first) {
    // A prompt of system messages alone: the last of them is what the model shall answer, with what marks it.
    const last = system.findLastIndex(({ text }) => text !== undefined)
    const from = messages.findLast(({ role }) => role === 'system')
    if (last === -1 || !from) return { system, turns }
    losses.lose(rolePath(from))
    return { system: system.slice(0, last), turns: [{ role: 'user', content: system.slice(last) }] }
  }
  if (first.role === 'user') return { system, turns }
  // Chat clients open with the assistant's greeting. A turn of ours before it keeps all they said, and is told of.
  losses.lose(messages.find(({ role }) => role === 'assistant')?.at ?? 'messages')
  return { system, turns: [{ role: 'user', content: [greeting] }, ...turns] }
}
