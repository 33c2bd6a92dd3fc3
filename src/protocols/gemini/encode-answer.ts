import { type ChatAnswer, unfold } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { encodeBlocked, encodeUsage, isBlocked } from './finish-and-usage.ts'
import { GeminiPartWriter } from './part-writer.ts'

/** The last members of every response, whole or of a stream. */
export const responseHead = ({ id, model }: Pick<ChatAnswer, 'id' | 'model'>, context: AnswerContext): JsonObject => ({
  modelVersion: model ?? context.model,
  responseId: id ?? context.id('resp'),
})

/** A part without content: clients read the first part of every candidate. */
export const EMPTY_PART: JsonObject = { text: '' }

/** Encodes a complete answer. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => encodeChoice([answer], context)

/** Several answers are the candidates of one response. The other members are those of the first. */
export const encodeChoice = (answers: readonly ChatAnswer[], context: AnswerContext): JsonObject => {
  const [first] = answers
  const candidates = answers.flatMap((answer, index) => {
    const candidate = encodeCandidate(answer, index, context)
    return candidate ? [candidate] : []
  })
  return {
    ...(candidates.length > 0 ? { candidates } : encodeBlocked(first?.finish ?? NO_FINISH)),
    usageMetadata: encodeUsage(first?.usage),
    ...responseHead(first ?? {}, context),
  }
}

const NO_FINISH = { kind: 'content-filter', raw: null } as const

/** Undefined: the prompt was blocked. */
const encodeCandidate = (answer: ChatAnswer, index: number, context: AnswerContext): JsonObject | undefined => {
  const writer = new GeminiPartWriter(context)
  const parts = [...unfold(answer).flatMap((event) => writer.write(event)), ...writer.end()]
  if (parts.length === 0 && answer.finish && isBlocked(answer.finish)) return undefined
  return {
    content: { parts: parts.length > 0 ? parts : [EMPTY_PART], role: 'model' },
    ...(answer.finish && writer.ending(answer.finish)),
    index,
  }
}
