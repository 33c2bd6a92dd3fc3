import type { ChatRequest } from '../../core/chat.ts'
import { isList, isObject, type JsonObject } from '../../core/json.ts'
import { isChatShaped } from '../client-parts/chat-messages.ts'
import { encodeRequest } from './encode-request.ts'

/**
 * The body of a request that has parts in the shape of another format, in this format's own. A stored turn keeps its
 * `input`, and the response repeats its tools and settings.
 */
export const inOwnShape = (request: ChatRequest, body: JsonObject): JsonObject => {
  // `instructions` stays a member of its own.
  const messages = request.messages.filter(({ at }) => at !== 'instructions')
  const { input, store: _, ...encoded } = encodeRequest({ ...request, messages }, { model: request.model }).body
  const { instructions, store, input: given } = body
  const isOwn =
    typeof given === 'string' || (isList(given) && !given.some((item) => isObject(item) && isChatShaped(item)))
  return {
    ...encoded,
    ...(instructions !== undefined && { instructions }),
    ...(store !== undefined && { store }),
    input: (isOwn ? given : input) ?? [],
  }
}
