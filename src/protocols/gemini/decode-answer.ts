/** Answers of this format, whole and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isList, type Json, readJson } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { malformed } from '../errors/malformed.ts'
import { answerReader } from './answer-reader.ts'

/** A whole answer as the events it would have been. A list is a stream that was asked for without `alt=sse`. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = answerReader()
  const responses = isList(body) ? body : [body]
  const events = responses.flatMap((response) => reader.push(response))
  return [...events, ...reader.end()]
}

/** Reads a stream: server-sent events, each a response, and no word for the end but the reason in the last. */
export const decodeStream = (): Stage<Frame, ChatEvent> => {
  const reader = answerReader()
  let deaf = false
  return {
    push(frame) {
      if (deaf) return []
      if (frame.oversized) {
        deaf = true
        const failure = fail('too_large', "A single event of the provider's answer was larger than the gateway takes.")
        return [{ type: 'failure', failure }]
      }
      if (frame.data === '') return [{ type: 'ping' }]
      if (frame.data === '[DONE]') return []
      const response = readJson(frame.data)
      if (response !== undefined) {
        const events = reader.push(response)
        deaf = events.some(({ type }) => type === 'failure')
        return events
      }
      deaf = true
      return [{ type: 'failure', failure: malformed('an event is not JSON') }]
    },
    end: () => (deaf ? [] : reader.end()),
  }
}
