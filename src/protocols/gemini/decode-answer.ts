/** Decodes answers of this format, complete and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isList, type Json, readJson } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { malformed } from '../errors/malformed.ts'
import { GeminiAnswerReader } from './answer-reader.ts'

/** Decodes a complete answer. A list is a stream requested without `alt=sse`. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = new GeminiAnswerReader()
  const responses = isList(body) ? body : [body]
  const events = responses.flatMap((response) => reader.push(response))
  return [...events, ...reader.end()]
}

/** Decodes a stream of server-sent events. Each is a response; the last one has a finish reason. */
export const decodeStream = (): Stage<Frame, ChatEvent> => {
  const reader = new GeminiAnswerReader()
  let failed = false
  const failWith = (failure: Failure): ChatEvent[] => {
    failed = true
    return [{ type: 'failure', failure }]
  }
  return {
    push(frame) {
      if (failed) return []
      if (frame.oversized) return failWith(fail('too_large', 'The provider sent an event above the size limit.'))
      if (frame.data === '') return [{ type: 'ping' }]
      if (frame.data === '[DONE]') return []
      const response = readJson(frame.data)
      if (response === undefined) return failWith(malformed('an event is not JSON'))
      const events = reader.push(response)
      failed = events.some(({ type }) => type === 'failure')
      return events
    },
    end: () => (failed ? [] : reader.end()),
  }
}
