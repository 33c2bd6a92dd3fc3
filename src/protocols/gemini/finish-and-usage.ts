/** Decodes finish reasons and token usage. */
import type { Finish, FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, text } from '../../core/json.ts'
import { tokenCount as count, isWrongCount } from '../shared/numbers.ts'
import { tokensOfModality, usageOf } from '../shared/usage.ts'

/** Finish reasons by number, as returned with `$alt=json;enum-encoding=int`. */
const REASONS_BY_NUMBER = [
  'FINISH_REASON_UNSPECIFIED',
  'STOP',
  'MAX_TOKENS',
  'SAFETY',
  'RECITATION',
  'OTHER',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MALFORMED_FUNCTION_CALL',
]

const FINISH_KINDS: { readonly [reason: string]: FinishKind } = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'content-filter',
  RECITATION: 'content-filter',
  LANGUAGE: 'content-filter',
  BLOCKLIST: 'content-filter',
  PROHIBITED_CONTENT: 'content-filter',
  SPII: 'content-filter',
  MODEL_ARMOR: 'content-filter',
  IMAGE_SAFETY: 'content-filter',
  IMAGE_PROHIBITED_CONTENT: 'content-filter',
  IMAGE_RECITATION: 'content-filter',
  CONTINUATION: 'pause',
  MALFORMED_FUNCTION_CALL: 'malformed',
  MALFORMED_RESPONSE: 'malformed',
  UNEXPECTED_TOOL_CALL: 'malformed',
  TOO_MANY_TOOL_CALLS: 'malformed',
  OTHER: 'error',
  IMAGE_OTHER: 'error',
  NO_IMAGE: 'error',
}

export type GeminiFinish = { readonly kind: FinishKind; readonly raw: string }

/** Decodes a finish reason; undefined if the candidate is unfinished. An unknown reason counts as `stop`. */
export const decodeFinish = (reason: Json | undefined, calledTools: boolean): GeminiFinish | undefined => {
  const raw = typeof reason === 'number' ? (REASONS_BY_NUMBER[reason] ?? String(reason)) : text(reason)
  if (raw === undefined || raw === '' || raw === 'FINISH_REASON_UNSPECIFIED') return undefined
  const kind = (Object.hasOwn(FINISH_KINDS, raw) ? FINISH_KINDS[raw] : undefined) ?? 'stop'
  // Gemini returns STOP also after calls.
  return { kind: kind === 'stop' && calledTools ? 'tool-calls' : kind, raw }
}

/** The failure of an answer that ended unusable; another attempt may succeed. Undefined for other ends. */
export const failureOf = ({ kind, raw }: GeminiFinish, message: Json | undefined): Failure | undefined => {
  if (kind !== 'malformed' && kind !== 'error') return undefined
  const details = text(message)
  const upstream = { code: raw, ...(details && { message: details.slice(0, 1_000) }) }
  return kind === 'malformed'
    ? fail('malformed', `The model's answer is malformed (finish reason ${raw}).`, { upstream })
    : fail('error_in_stream', `The provider ended the answer without usable content (finish reason ${raw}).`, {
        upstream,
      })
}

/** The finish of a blocked prompt, which has no candidates, only a reason. */
export const blockedFinish = (feedback: Json | undefined): GeminiFinish | undefined => {
  const reason = isObject(feedback) ? feedback.blockReason : undefined
  const raw = typeof reason === 'number' ? String(reason) : text(reason)
  return raw === undefined || raw === '' || raw === 'BLOCKED_REASON_UNSPECIFIED'
    ? undefined
    : { kind: 'content-filter', raw }
}

/**
 * Decodes token counts. `candidatesTokenCount` excludes thoughts, and `promptTokenCount` excludes tool results; the canonical
 * counts include them. `calls`: of tools, which the answer lists.
 */
export const decodeUsage = (raw: Json | undefined, calls?: Usage['toolCalls']): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const prompt = count(raw.promptTokenCount)
  const candidates = count(raw.candidatesTokenCount)
  const thoughts = count(raw.thoughtsTokenCount)
  const tools = raw.toolUsePromptTokenCount
  const input = prompt === undefined || isWrongCount(tools) ? undefined : prompt + (count(tools) ?? 0)
  const isOutputKnown = (candidates !== undefined || thoughts !== undefined) && !isWrongCount(raw.thoughtsTokenCount)
  const output = isOutputKnown ? (candidates ?? 0) + (thoughts ?? 0) : undefined
  const uncached = (modality: string): number => {
    const tokens = [raw.promptTokensDetails, raw.toolUsePromptTokensDetails].map((of) => tokensOfModality(of, modality))
    return Math.max(0, tokens.reduce((sum, one) => sum + one, 0) - tokensOfModality(raw.cacheTokensDetails, modality))
  }
  return usageOf(
    {
      input,
      output,
      total: count(raw.totalTokenCount),
      cacheRead: count(raw.cachedContentTokenCount),
      reasoning: thoughts,
      audioInput: uncached('AUDIO'),
      imageInput: uncached('IMAGE'),
      videoInput: uncached('VIDEO'),
      audioOutput: tokensOfModality(raw.candidatesTokensDetails, 'AUDIO'),
      imageOutput: tokensOfModality(raw.candidatesTokensDetails, 'IMAGE'),
      videoOutput: tokensOfModality(raw.candidatesTokensDetails, 'VIDEO'),
      toolCalls: calls,
      // Vertex: `ON_DEMAND`, `ON_DEMAND_FLEX`, `PROVISIONED_THROUGHPUT`.
      serviceTier: text(raw.serviceTier) ?? text(raw.trafficType)?.replace(/^ON_DEMAND_/, ''),
    },
    raw,
  )
}

// ── For clients of this format ───────────────────────────────────────────────────────────────────────────────────────

/** The finish members of a candidate. `refusal`: the text with which the model has refused, empty if it has not. */
export const encodeFinish = ({ kind, raw }: Finish, refusal: string): JsonObject => {
  if (refusal !== '' && kind !== 'length' && kind !== 'content-filter')
    return { finishReason: 'SAFETY', finishMessage: refusal }
  switch (kind) {
    case 'stop':
    case 'tool-calls':
    // In a stream these are errors.
    case 'malformed':
    case 'error':
      return { finishReason: 'STOP' }
    case 'length':
      return { finishReason: 'MAX_TOKENS' }
    case 'content-filter':
      return { finishReason: raw !== null && FINISH_KINDS[raw] === kind ? raw : 'SAFETY' }
    case 'refusal':
      return { finishReason: 'SAFETY' }
    case 'pause':
      return { finishReason: 'OTHER', finishMessage: 'The model pauses. Send its answer back to continue.' }
    default:
      throw new Error(`unknown finish ${JSON.stringify(kind satisfies never)}`)
  }
}

/** The reasons for which a prompt is blocked (reference of GenerateContentResponse). */
const BLOCK_REASONS = new Set([
  'SAFETY',
  'OTHER',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'IMAGE_SAFETY',
  'MODEL_ARMOR',
  'JAILBREAK',
])

/** Whether an answer without content is that of a blocked prompt, not of a candidate that ended for one of Gemini's reasons. */
export const isBlocked = ({ kind, raw }: Finish): boolean =>
  kind === 'content-filter' && (raw === null || FINISH_KINDS[raw] !== kind)

/** The members of an answer to a prompt that was blocked, which has no candidate. */
export const encodeBlocked = ({ raw }: Finish): JsonObject => ({
  promptFeedback: { blockReason: raw !== null && BLOCK_REASONS.has(raw) ? raw : 'SAFETY' },
})

/** The counts of an answer. Unknown counts are 0, because clients add them up. */
export const encodeUsage = (usage: Usage | undefined): JsonObject => {
  const { input = 0, output = 0, cacheRead, reasoning = 0 } = usage ?? {}
  return {
    promptTokenCount: input,
    candidatesTokenCount: Math.max(0, output - reasoning),
    totalTokenCount: input + output,
    ...(cacheRead !== undefined && { cachedContentTokenCount: cacheRead }),
    ...(reasoning > 0 && { thoughtsTokenCount: reasoning }),
  }
}
