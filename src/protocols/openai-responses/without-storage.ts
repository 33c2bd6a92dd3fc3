/** Requests for upstreams that store nothing. */
import type { ProtocolName } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'

/** Members that refer to data stored at one provider. */
const STORED_MEMBERS = ['previous_response_id', 'conversation', 'prompt'] as const

/**
 * Removes references to stored data and `store` from a body. Some upstreams would ignore such a reference and answer
 * without the earlier turns; some reject `store`, which the gateway implements for clients of this format.
 */
export const withoutKeeping = (
  body: JsonObject,
  client: ProtocolName,
  lost: (path: string, unfit?: boolean) => void,
): JsonObject => {
  const unknown = STORED_MEMBERS.filter((name) => (body[name] ?? null) !== null)
  for (const name of unknown) lost(name, true)
  if (body.store !== true && unknown.length === 0) return body
  if (body.store === true && client !== 'openai-responses') lost('store')
  const removed: ReadonlySet<string> = new Set(['store', ...unknown])
  return Object.fromEntries(Object.entries(body).filter(([name]) => !removed.has(name)))
}
