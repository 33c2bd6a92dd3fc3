import { type JsonObject, object, text } from '../../core/json.ts'

/** The end under the name of the Realtime API: OpenRouter's documentation, and jlcodes99/cockpit-tools#2328. */
export const DONE_EVENT = 'response.done'

const BY_STATUS: ReadonlySet<string> = new Set(['incomplete', 'failed', 'cancelled'])

/** The name of an event; `response.done` is the event of its response's status. */
export const eventName = (type: string, event: JsonObject): string => {
  if (type !== DONE_EVENT) return type
  const status = text(object(event.response)?.status) ?? ''
  return `response.${BY_STATUS.has(status) ? status : 'completed'}`
}
