/** What an upstream without a memory of its own is asked. */
import type { ProtocolName } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'

/** What lies at one provider and can be had nowhere else. */
const ELSEWHERE = ['previous_response_id', 'conversation', 'prompt'] as const

/**
 * A body for an upstream that keeps nothing. What it would have to know already it cannot be asked with: some would ignore
 * that, and answer half a conversation. And some refuse to keep (`store`), which is done here for who speaks this format.
 */
export const withoutKeeping = (
  body: JsonObject,
  client: ProtocolName,
  lost: (path: string, unfit?: boolean) => void,
): JsonObject => {
  const unknown = ELSEWHERE.filter((name) => (body[name] ?? null) !== null)
  for (const name of unknown) lost(name, true)
  if (body.store !== true && unknown.length === 0) return body
  if (body.store === true && client !== 'openai-responses') lost('store')
  const gone: ReadonlySet<string> = new Set(['store', ...unknown])
  return Object.fromEntries(Object.entries(body).filter(([name]) => !gone.has(name)))
}
