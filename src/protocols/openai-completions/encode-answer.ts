/**
 * Encodes answers of the legacy completions API. Only text is returned: reasoning and calls have no member. A refusal is
 * returned as text with the finish reason `content_filter`.
 */
import type { Block, ChatAnswer, Finish } from '../../core/chat.ts'
import { type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { encodeUsage } from '../shared/openai-finish-and-usage.ts'
import { isTranscript, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { echoOf } from './decode-request.ts'

/** The `object` of answers and chunks. */
export const OBJECT = 'text_completion'

/** Encodes a non-streaming answer. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const blocks = answer.blocks.filter(isText)
  for (const block of answer.blocks) if (block.type === 'foreign') reportLost(block, context)
  if (blocks.some(({ citations = [] }) => citations.length > 0)) reportLostCitation(context)
  const echo = echoOf(context.body)
  return {
    id: answer.id ?? context.id('cmpl'),
    object: OBJECT,
    created: answer.created ?? context.created,
    model: answer.model ?? context.model,
    choices: [
      {
        text: echo + blocks.map((block) => block.text).join(''),
        index: 0,
        logprobs: encodeLogprobs(
          blocks.flatMap((block) => block.logprobs ?? []),
          echo.length,
        ),
        finish_reason: finishReasonFor(answer.finish),
      },
    ],
    ...(answer.usage && { usage: encodeUsage(answer.usage) }),
  }
}

/** Whether a block is part of the text; audio counts by its transcript. */
export const isText = (block: Block): boolean =>
  block.type === 'text' || block.type === 'refusal' || (block.type === 'foreign' && isTranscript(block))

/** The `finish_reason` of an answer. */
export const finishReasonFor = (finish: Finish | undefined): string => {
  switch (finish?.kind) {
    case 'length':
    case 'pause':
      return 'length'
    case 'content-filter':
    case 'refusal':
      return 'content_filter'
    default:
      return 'stop'
  }
}

/** Converts chat logprobs to columns; null without tokens. `before` is the text offset of the first token in UTF-16 units. */
export const encodeLogprobs = (tokens: readonly Json[], before: number): JsonObject | null => {
  if (tokens.length === 0) return null
  const rows = tokens.map((entry) => {
    const row = object(entry)
    const top = list(row?.top_logprobs).flatMap((other) => {
      const token = text(object(other)?.token)
      return token === undefined ? [] : [[token, number(object(other)?.logprob) ?? null] as const]
    })
    return { token: text(row?.token) ?? '', logprob: number(row?.logprob) ?? null, top: Object.fromEntries(top) }
  })
  let offset = before
  const offsets = rows.map(({ token }) => {
    const at = offset
    offset += token.length
    return at
  })
  return {
    tokens: rows.map(({ token }) => token),
    token_logprobs: rows.map(({ logprob }) => logprob),
    top_logprobs: rows.map(({ top }) => top),
    text_offset: offsets,
  }
}
