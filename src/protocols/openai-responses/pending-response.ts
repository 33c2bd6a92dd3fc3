/** A response before anything of it has been answered, and one that never was. */
import type { Failure } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { answerWriter } from './encode-answer.ts'

export const pendingResponse = (context: AnswerContext, status: 'queued' | 'in_progress' | 'cancelled'): JsonObject => {
  const writer = answerWriter(context)
  writer.begin()
  return { ...writer.response(), status }
}

export const failedResponse = (context: AnswerContext, failure: Failure): JsonObject => {
  const writer = answerWriter(context)
  const last = writer.write({ type: 'failure', failure }).at(-1)
  // The last event of a failed stream carries the response as it failed.
  return last?.response as JsonObject
}
