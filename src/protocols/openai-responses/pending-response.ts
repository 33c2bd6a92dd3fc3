/** Responses without an answer: pending, cancelled or failed before the first event. */
import type { Failure } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { ResponsesAnswerWriter } from './answer-writer.ts'

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
