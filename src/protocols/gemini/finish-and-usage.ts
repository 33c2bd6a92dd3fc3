/** How an answer ends, and what it cost. */
import type { FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, text } from '../../core/json.ts'
import { tokenCount as count } from '../shared/numbers.ts'

/** Their numbers for it, which some clients ask to be told by (`$alt=json;enum-encoding=int`). */
const NUMBERED = [
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

const KIND_OF: { readonly [reason: string]: FinishKind } = {
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

export type Ending = { readonly kind: FinishKind; readonly raw: string }

/** Why a candidate ended; undefined while it goes on. A new word is an ordinary end. */
export const endingOf = (reason: Json | undefined, calledTools: boolean): Ending | undefined => {
  const raw = typeof reason === 'number' ? (NUMBERED[reason] ?? String(reason)) : text(reason)
  if (raw === undefined || raw === '' || raw === 'FINISH_REASON_UNSPECIFIED') return undefined
  const kind = (Object.hasOwn(KIND_OF, raw) ? KIND_OF[raw] : undefined) ?? 'stop'
  // It says STOP whatever it called.
  return { kind: kind === 'stop' && calledTools ? 'tool-calls' : kind, raw }
}

/** An end that is none: the model wrote what cannot be used, and the same request may well succeed elsewhere. */
export const failureOf = ({ kind, raw }: Ending, message: Json | undefined): Failure | undefined => {
  if (kind !== 'malformed' && kind !== 'error') return undefined
  const words = text(message)
  const upstream = { code: raw, ...(words && { message: words.slice(0, 1_000) }) }
  return kind === 'malformed'
    ? fail('malformed', `The model's answer could not be used (${raw}).`, { upstream })
    : fail('error_in_stream', `The provider ended its answer without giving a usable one (${raw}).`, { upstream })
}

/** The whole prompt was refused: there are no candidates, only a reason. */
export const blockOf = (feedback: Json | undefined): Ending | undefined => {
  const reason = isObject(feedback) ? feedback.blockReason : undefined
  const raw = typeof reason === 'number' ? String(reason) : text(reason)
  return raw === undefined || raw === '' || raw === 'BLOCKED_REASON_UNSPECIFIED'
    ? undefined
    : { kind: 'content-filter', raw }
}

/** `candidatesTokenCount` leaves out the thoughts, `promptTokenCount` what tools were fed; ours count them in. */
export const decodeUsage = (raw: Json | undefined): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const prompt = count(raw.promptTokenCount)
  const candidates = count(raw.candidatesTokenCount)
  const thoughts = count(raw.thoughtsTokenCount)
  if (prompt === undefined && candidates === undefined && thoughts === undefined) return undefined
  const cached = count(raw.cachedContentTokenCount)
  return {
    input: (prompt ?? 0) + (count(raw.toolUsePromptTokenCount) ?? 0),
    output: (candidates ?? 0) + (thoughts ?? 0),
    ...(cached !== undefined && { cacheRead: cached }),
    ...(thoughts !== undefined && { reasoning: thoughts }),
    raw,
  }
}
