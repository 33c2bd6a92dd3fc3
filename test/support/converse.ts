/** Answers in Bedrock's Converse and ConverseStream format, whole and as binary event stream messages. */
import type { JsonObject } from '../../src/core/json.ts'
import type { AnswerContent, Delivery } from './answers.ts'
import { event } from './event-stream.ts'
import type { Act, UpstreamRequest } from './upstream.ts'

export const isConverse = ({ path }: Pick<UpstreamRequest, 'path'>): boolean => /\/converse(?:-stream)?$/.test(path)

const HEAD = { 'content-type': 'application/vnd.amazon.eventstream' }

/** A stream of binary messages. */
export const converseStream = (pieces: Iterable<Uint8Array>, delivery: Delivery = {}): Act => ({
  do: 'stream',
  pieces,
  ...delivery,
  headers: { ...HEAD, ...delivery.headers },
})

const usageOf = ({ input = 9, output = 5 }: AnswerContent): JsonObject => ({
  inputTokens: input,
  outputTokens: output,
  totalTokens: input + output,
})

const reasonOf = (answer: AnswerContent): string =>
  answer.cut ? 'max_tokens' : answer.tools?.length ? 'tool_use' : 'end_turn'

/** The content blocks of a Converse answer. */
const blocksOf = ({ text, tools = [] }: AnswerContent): JsonObject[] => [
  ...(text === undefined ? [] : [{ text }]),
  ...tools.map(({ id, name, arguments: given }) => ({
    toolUse: { toolUseId: id, name, input: JSON.parse(given || '{}') },
  })),
]

export const converseWhole = (answer: AnswerContent): JsonObject => ({
  output: { message: { role: 'assistant', content: blocksOf(answer) } },
  stopReason: reasonOf(answer),
  usage: usageOf(answer),
  metrics: { latencyMs: 1 },
})

export const conversePieces = ({ text, tools = [], ...answer }: AnswerContent): Uint8Array[] => {
  const delta = (contentBlockIndex: number, piece: JsonObject) =>
    event('contentBlockDelta', { contentBlockIndex, delta: piece, p: 'abcdef' })
  const first = text === undefined ? 0 : 1
  return [
    event('messageStart', { role: 'assistant', p: 'abc' }),
    ...(text === undefined ? [] : (text.match(/[\s\S]{1,4}/gu) ?? []).map((words) => delta(0, { text: words }))),
    ...(text === undefined ? [] : [event('contentBlockStop', { contentBlockIndex: 0 })]),
    ...tools.flatMap(({ id, name, arguments: given }, index) => [
      event('contentBlockStart', {
        contentBlockIndex: first + index,
        start: { toolUse: { toolUseId: id, name } },
      }),
      ...(given.match(/[\s\S]{1,5}/gu) ?? []).map((input) => delta(first + index, { toolUse: { input } })),
      event('contentBlockStop', { contentBlockIndex: first + index }),
    ]),
    event('messageStop', { stopReason: reasonOf({ ...answer, tools }) }),
    event('metadata', { usage: usageOf(answer), metrics: { latencyMs: 1 }, p: 'ab' }),
  ]
}

/** Answers whole or streamed, as the request's path demands. */
export const answerConverse = (request: UpstreamRequest, answer: AnswerContent, delivery: Delivery = {}): Act =>
  request.stream
    ? converseStream(conversePieces(answer), delivery)
    : { do: 'answer', body: converseWhole(answer), ...(delivery.headers && { headers: delivery.headers }) }
