/**
 * A conversation that is too long for everybody, where the client lets its beginning go (`truncation: "auto"`): the older
 * half of its turns is left out, by name, as often as it takes.
 */
import type { Message } from '../../core/chat.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

/** The question without its oldest turns, to be written anew; null: it may not be shortened, or cannot be any more. */
export const truncated = (question: InboundRequest): InboundRequest | null => {
  const { request, reencode: anew } = question
  if (!request.mayShorten) return null
  const turns = request.messages.filter(({ role }) => role !== 'system')
  const from = cutOf(turns)
  if (from === undefined) return null
  const gone = new Set<Message>(turns.slice(0, from))
  return {
    ...question,
    reencode: { without: [...(anew?.without ?? []), ...[...gone].map(({ at }) => at)] },
    request: { ...request, messages: request.messages.filter((message) => !gone.has(message)) },
  }
}

/** Where the rest begins: with something the user said, so that no call is without its result nor a result without its call. */
const cutOf = (turns: readonly Message[]): number | undefined => {
  const starts = turns.flatMap(({ role }, at) => (role === 'user' && at > 0 ? [at] : []))
  return starts.find((at) => at >= turns.length / 2) ?? starts.at(-1)
}
