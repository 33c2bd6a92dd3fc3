import { isObject, parseJson, text } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { Frame } from '../../core/protocol.ts'
import { DONE_EVENT } from './terminal-event.ts'

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed', DONE_EVENT])
/** Skips most events without parsing them where they have no `event` field. */
const NAMES_TERMINAL = /"response\.(?:completed|incomplete|failed|done)"/

/** Nesting limit; no answer is this deep. */
const MAX_DEPTH = 1_000

/** The JSON text of the response in the stream's terminal event, unchanged; null if there is none. */
export const assembleAnswer = (frames: readonly Frame[]): string | null => {
  const data = frames.find(isTerminal)?.data
  const found = data === undefined ? undefined : survey(data, MAX_DEPTH)
  const span = found?.ok ? found.members.find(({ key }) => key === 'response') : undefined
  return data !== undefined && span ? data.slice(span.value, span.end) : null
}

const isTerminal = ({ event: name, data }: Frame): boolean => {
  if (name === undefined ? !NAMES_TERMINAL.test(data) : !TERMINAL.has(name)) return false
  try {
    const event = parseJson(data)
    return isObject(event) && TERMINAL.has(text(event.type) ?? name ?? '') && isObject(event.response)
  } catch {
    // `[DONE]` or a comment.
    return false
  }
}
