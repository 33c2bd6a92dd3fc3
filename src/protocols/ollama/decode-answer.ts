/** Answers of this format, whole and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { type Json, readJson } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { answerReader, malformed } from './answer-reader.ts'

/** A whole answer as the events it would have been. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = answerReader()
  return [...reader.push(body), ...reader.end()]
}

/** Reads a stream: a line is an object, and the last one says that it is done. */
export const decodeStream = (): StreamDecoder => {
  const reader = answerReader()
  let deaf = false
  const broken = (failure: ReturnType<typeof fail>): ChatEvent[] => {
    deaf = true
    return [{ type: 'failure', failure }]
  }
  return {
    get done() {
      return deaf || reader.over
    },
    push(frame) {
      if (deaf || reader.over) return []
      if (frame.oversized)
        return broken(fail('too_large', "A single line of the provider's answer was larger than the gateway takes."))
      if (frame.data === '') return [{ type: 'ping' }]
      const line = readJson(frame.data)
      return line === undefined ? broken(malformed('a line is not JSON')) : reader.push(line)
    },
    end: () => (deaf ? [] : reader.end()),
  }
}
