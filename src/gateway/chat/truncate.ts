/** Shortens a conversation that no target accepts whole, if the client allows it (`truncation: "auto"`). */
import type { Message } from '../../core/chat.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

/**
 * The request without the older half of its turns, to be encoded again; may be applied repeatedly. The removed messages
 * are reported as dropped. Null: the client does not allow it, or no turn is left to remove.
 */
export const truncated = (inbound: InboundRequest): InboundRequest | null => {
  const { request, reencode } = inbound
  if (!request.mayTruncate) return null
  const turns = request.messages.filter(({ role }) => role !== 'system')
  const start = firstKept(turns)
  if (start === undefined) return null
  const removed = new Set<Message>(turns.slice(0, start))
  return {
    ...inbound,
    reencode: { without: [...(reencode?.without ?? []), ...[...removed].map(({ at }) => at)] },
    request: { ...request, messages: request.messages.filter((message) => !removed.has(message)) },
  }
}

/** Index of the first message to keep: a user message, so that no tool call is separated from its result. */
const firstKept = (turns: readonly Message[]): number | undefined => {
  const starts = turns.flatMap(({ role }, index) => (role === 'user' && index > 0 ? [index] : []))
  return starts.find((index) => index >= turns.length / 2) ?? starts.at(-1)
}
