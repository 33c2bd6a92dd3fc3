/** The output of a responses stream that was cancelled. */
import { type JsonObject, list, number, object, text } from '../../core/json.ts'

/**
 * The output items up to now: complete items, and the text of messages that were interrupted (status `incomplete`). Calls and
 * reasoning that are not complete are left out: no model accepts them in the next turn.
 */
export const partialOutput = (events: readonly JsonObject[]): readonly JsonObject[] => {
  const items = new Map<number, JsonObject>()
  const texts = new Map<number, string[]>()
  for (const event of events) {
    const index = number(event.output_index)
    if (index === undefined) continue
    const item = object(event.item)
    if (event.type === 'response.output_item.done' && item) {
      items.set(index, item)
      texts.delete(index)
    } else if (event.type === 'response.output_item.added' && item?.type === 'message') {
      items.set(index, item)
      texts.set(index, [])
    } else if (event.type === 'response.output_text.delta') {
      const parts = texts.get(index)
      const part = number(event.content_index) ?? 0
      if (parts) parts[part] = (parts[part] ?? '') + (text(event.delta) ?? '')
    }
  }
  return [...items].flatMap(([index, item]) => {
    const parts = texts.get(index)
    if (!parts) return [item]
    const content = [...list(item.content), ...parts.map((part = '') => outputText(part))]
    return parts.length === 0 ? [] : [{ ...item, status: 'incomplete', content }]
  })
}

const outputText = (written: string): JsonObject => ({
  type: 'output_text',
  text: written,
  annotations: [],
  logprobs: [],
})
