import { type ChatAnswer, unfold } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { type JsonObject, object } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { ResponsesAnswerWriter } from './answer-writer.ts'

/** A complete answer: the response in the last event of the equivalent stream. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const writer = new ResponsesAnswerWriter(context)
  const events = [...unfold(answer).flatMap((event) => writer.write(event)), ...writer.end()]
  return object(events.at(-1)?.response) ?? writer.response()
}

/** The response of a background request before its answer begins. */
export const pendingResponse = (context: AnswerContext, status: 'queued' | 'in_progress' | 'cancelled'): JsonObject => {
  const writer = new ResponsesAnswerWriter(context)
  writer.begin()
  return { ...writer.response(), status }
}

/** The response of a background request that failed. */
export const failedResponse = (context: AnswerContext, failure: Failure): JsonObject => {
  const writer = new ResponsesAnswerWriter(context)
  const last = writer.write({ type: 'failure', failure }).at(-1)
  // The last event of a failed stream is `response.failed`, which carries the response.
  return last?.response as JsonObject
}
