/** Decodes answers of this format, complete and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import { isList, type Json } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { decodeJsonFrames } from '../shared/json-frames.ts'
import { GeminiAnswerReader } from './answer-reader.ts'

/** Decodes a complete answer. A list is a stream requested without `alt=sse`. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = new GeminiAnswerReader()
  const responses = isList(body) ? body : [body]
  const events = responses.flatMap((response) => reader.push(response))
  return [...events, ...reader.end()]
}

/** Decodes a stream of server-sent events. Each is a response; the last one has a finish reason. */
export const decodeStream = (): StreamDecoder => {
  const reader = new GeminiAnswerReader()
  return decodeJsonFrames(reader, (response) => reader.push(response))
}
