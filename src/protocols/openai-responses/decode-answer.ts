import type { ChatEvent } from '../../core/chat.ts'
import { isObject, type Json, object, text } from '../../core/json.ts'
import { malformed } from '../errors/answer-failures.ts'
import { ResponsesAnswerReader } from './answer-reader.ts'

/** Decodes a complete answer as the last event of the equivalent stream. */
export const decodeAnswer = (body: Json): ChatEvent[] => {
  const response = object(body)
  if (!response) return [{ type: 'failure', failure: malformed('the answer is not a JSON object') }]
  const reader = new ResponsesAnswerReader()
  if (!Array.isArray(response.output)) {
    // A failed response may lack `output`; an error body has none.
    if (isObject(response.error) || text(response.error)) return reader.read({ error: response.error }, 'error', 0)
    return [{ type: 'failure', failure: malformed('the answer has no `output`') }]
  }
  return reader.read({ response }, 'response.completed', 0)
}
