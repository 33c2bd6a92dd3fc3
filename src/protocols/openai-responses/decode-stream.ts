import type { ChatEvent } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, object, text } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { malformed, oversizedEvent, truncated } from '../errors/answer-failures.ts'
import type { TextOf } from '../framing/delta-template.ts'
import { ResponsesAnswerReader } from './answer-reader.ts'

/** Decodes the frames of a responses stream. */
export const decodeStream = (): StreamDecoder => {
  const reader = new ResponsesAnswerReader()
  let failed = false
  const failWith = (failure: Failure): ChatEvent[] => {
    failed = true
    return [{ type: 'failure', failure }]
  }
  return {
    get done() {
      return failed || reader.over
    },
    push(frame) {
      if (failed || reader.over) return []
      if (frame.oversized) return failWith(oversizedEvent())
      const { data } = frame
      if (data === '') return [{ type: 'ping' }]
      // Ignored: the last event of this format ends the answer.
      if (data === '[DONE]') return []
      const event = parseEvent(data)
      if (!isObject(event)) return failWith(malformed('an event is not a JSON object'))
      // Some servers send the event name only in the data, others only in the `event` field.
      return reader.read(event, text(event.type) ?? frame.event ?? '', data.length)
    },
    end() {
      return failed || reader.over ? [] : failWith(truncated())
    },
  }
}

/** The JSON value of an event's data; undefined if it is not JSON. */
export const parseEvent = (data: string): unknown => {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

/** The text of a delta event. Excludes summaries, whose paragraphs need separators. */
export const deltaText: TextOf = (event) => {
  const { type, delta } = object(event) ?? {}
  return typeof type === 'string' && DELTAS.has(type) ? delta : undefined
}
const DELTAS = new Set([
  'response.output_text.delta',
  'response.refusal.delta',
  'response.reasoning_text.delta',
  'response.reasoning.delta',
  'response.function_call_arguments.delta',
  'response.custom_tool_call_input.delta',
])
