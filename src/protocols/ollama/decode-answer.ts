/** Decodes Ollama's answers, non-streaming and streamed. */
import type { ChatEvent } from '../../core/chat.ts'
import type { Json } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { decodeJsonFrames } from '../shared/json-frames.ts'
import { OllamaAnswerReader } from './answer-reader.ts'

/** Decodes a non-streaming answer. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  const reader = new OllamaAnswerReader()
  return [...reader.push(body), ...reader.end()]
}

/** Decodes a stream: one object per line, the last with `done`. */
export const decodeStream = (): StreamDecoder => {
  const reader = new OllamaAnswerReader()
  return decodeJsonFrames(reader, (line) => reader.push(line))
}
