import { type ChatAnswer, unfold } from '../../core/chat.ts'
import { type JsonObject, object } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { ResponsesAnswerWriter } from './answer-writer.ts'

/** A complete answer: the response in the last event of the equivalent stream. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const writer = new ResponsesAnswerWriter(context)
  const events = [...unfold(answer).flatMap((event) => writer.write(event)), ...writer.end()]
  return object(events.at(-1)?.response) ?? writer.response()
}
