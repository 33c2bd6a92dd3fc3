/** Decodes Ollama's answers, non-streaming and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { type Json, readJson } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { malformed } from '../errors/malformed.ts'
import { answerReader } from './answer-reader.ts'

/** Decodes a non-streaming answer. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = answerReader()
  return [...reader.push(body), ...reader.end()]
}

/** Decodes a stream: one object per line, the last with `done`. */
export const decodeStream = (): StreamDecoder => {
  const reader = answerReader()
  let failed = false
  const failWith = (failure: ReturnType<typeof fail>): ChatEvent[] => {
    failed = true
    return [{ type: 'failure', failure }]
  }
  return {
    get done() {
      return failed || reader.over
    },
    push(frame) {
      if (failed || reader.over) return []
      if (frame.oversized) return failWith(fail('too_large', 'The provider sent a line above the size limit.'))
      if (frame.data === '') return [{ type: 'ping' }]
      const line = readJson(frame.data)
      return line === undefined ? failWith(malformed('a line is not JSON')) : reader.push(line)
    },
    end: () => (failed ? [] : reader.end()),
  }
}
