import { isObject, parseJson, text } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { Frame } from '../../core/protocol.ts'

const LAST = new Set(['response.completed', 'response.incomplete', 'response.failed'])
/** Where events have no names, most are passed over without being parsed. */
const SAID = /"response\.(?:completed|incomplete|failed)"/

/** Deeper than any answer is. */
const DEEPEST = 1_000

/** The stream's last event has the whole response in it, which is cut out as it came. */
export const gather = (frames: readonly Frame[]): string | null => {
  const data = frames.find(isLast)?.data
  const found = data === undefined ? undefined : survey(data, DEEPEST)
  const span = found?.ok ? found.members.find(({ key }) => key === 'response') : undefined
  return data !== undefined && span ? data.slice(span.value, span.end) : null
}

const isLast = ({ event: name, data }: Frame): boolean => {
  if (name === undefined ? !SAID.test(data) : !LAST.has(name)) return false
  try {
    const event = parseJson(data)
    return isObject(event) && LAST.has(text(event.type) ?? name ?? '') && isObject(event.response)
  } catch {
    // `[DONE]`, or a line between events.
    return false
  }
}
