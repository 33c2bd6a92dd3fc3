/** Events of a Responses stream as upstreams send them, canonical events for its tests, and helpers to read streams. */

import type { ChatEvent } from '../../src/core/chat.ts'
import { fail } from '../../src/core/failure.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { AnswerContext, Frame, StreamStep } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { sseFrames, writeFrame } from '../../src/protocols/framing/sse.ts'
import { openaiResponses as codec } from '../../src/protocols/openai-responses/index.ts'
import { answerContext } from './builders.ts'

/** The context of an answer to a request with this body; IDs end in _a, _b and so on. */
export const responsesContext = (body: JsonObject = {}): AnswerContext => {
  const made = new Map<string, number>()
  const id = (prefix: string) => {
    made.set(prefix, (made.get(prefix) ?? 0) + 1)
    return `${prefix}_${'abcdefghij'.charAt((made.get(prefix) ?? 1) - 1)}`
  }
  return answerContext({ body, id, created: 1_000, model: 'answering', requestId: 'req_abc' })
}
/** The events as a stream, numbered from 0 unless they have numbers. */
export const wireOf = (events: readonly JsonObject[]): string =>
  events
    .map((event, index) => writeFrame(String(event.type), JSON.stringify({ sequence_number: index, ...event })))
    .join('')
export const framesOf = (wire: string): Frame[] => run(sseFrames(), [wire])
/** The JSON of each event of a stream. */
export const bodiesOf = (wire: string): JsonObject[] =>
  framesOf(wire).flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [JSON.parse(data)]))

export const createdEvent = {
  type: 'response.created',
  response: { id: 'resp_1', model: 'gpt', created_at: 5, status: 'in_progress', output: [] },
}
/** `usage` as an upstream reports it. */
export const usageMember = {
  input_tokens: 3,
  output_tokens: 2,
  input_tokens_details: { cached_tokens: 1 },
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 5,
}
export const completedEvent = (...output: JsonObject[]) => ({
  type: 'response.completed',
  response: { id: 'resp_1', status: 'completed', output, usage: usageMember },
})
export const itemAdded = (index: number, item: JsonObject) => ({
  type: 'response.output_item.added',
  output_index: index,
  item,
})
export const itemDone = (index: number, item: JsonObject) => ({
  type: 'response.output_item.done',
  output_index: index,
  item,
})
/** An event about one output item. */
export const itemEvent = (index: number, type: string, more: JsonObject) => ({
  type: `response.${type}`,
  output_index: index,
  item_id: 'whatever',
  ...more,
})
export const messageItem = (...texts: string[]) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: texts.map((text) => ({ type: 'output_text', text, annotations: [] })),
})

/** What `createdEvent` is decoded to. */
export const startEvent: ChatEvent = { type: 'start', id: 'resp_1', model: 'gpt', created: 5 }
export const stopEvent: ChatEvent = { type: 'finish', finish: { kind: 'stop', raw: 'completed' } }
export const textBlock = (...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'text' } },
  ...words.map((word): ChatEvent => ({ type: 'delta', text: word })),
  { type: 'close' },
]
export const toolCallBlock = (id: string, ...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'tool-call', id: `call_${id}`, name: 'f' } },
  ...words.map((word): ChatEvent => ({ type: 'delta', text: word })),
  { type: 'close' },
]

export const failureEvent: ChatEvent = { type: 'failure', failure: fail('reset', 'The connection broke.') }

/** Decodes a stream into the steps that a stream writer receives. */
export const stepsOf = (wire: string): StreamStep[] => {
  const reader = codec.decodeStream()
  const steps: StreamStep[] = framesOf(wire).map((frame) => ({ frame, events: reader.push(frame) }))
  const rest = reader.end()
  return rest.length > 0 ? [...steps, { events: rest }] : steps
}
export const END_MARK = 'data: [DONE]\n\n'
