/** Decodes finish reasons and token usage. */
import type { FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, type FailureKind, fail } from '../../core/failure.ts'
import { isObject, type Json, object, text } from '../../core/json.ts'
import { tokenCount as count } from '../shared/numbers.ts'
import { usageOf } from '../shared/usage.ts'

const FINISH_KINDS: { readonly [reason: string]: FinishKind } = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  TOOL_CALL: 'tool-calls',
  MAX_TOKENS: 'length',
  // Reasons of API version 1, which some deployments still return.
  ERROR_LIMIT: 'length',
  ERROR_TOXIC: 'content-filter',
}

/** Reasons that are errors. */
const FAILURE_KINDS: { readonly [reason: string]: FailureKind } = {
  ERROR: 'error_in_stream',
  USER_CANCEL: 'error_in_stream',
  TIMEOUT: 'timeout',
}

export type CohereFinish =
  | { readonly ok: true; readonly kind: FinishKind; readonly raw: string }
  | { readonly ok: false; readonly failure: Failure }

/**
 * Decodes a finish reason; undefined if there is none. An unknown reason counts as `stop`. Whether the answer ends with tool
 * calls depends on its content, not on the reason. `error`: the provider's error message.
 */
export const decodeFinish = (
  reason: Json | undefined,
  calledTools: boolean,
  error?: Json,
): CohereFinish | undefined => {
  const raw = text(reason)
  if (raw === undefined || raw === '') return undefined
  const name = raw.toUpperCase()
  const failureKind = Object.hasOwn(FAILURE_KINDS, name) ? FAILURE_KINDS[name] : undefined
  if (failureKind) {
    const message = text(error)
    const upstream = { code: raw, ...(message && { message: message.slice(0, 1_000) }) }
    return {
      ok: false,
      failure: fail(failureKind, `The provider ended the answer before it was complete (${raw}).`, { upstream }),
    }
  }
  const kind = (Object.hasOwn(FINISH_KINDS, name) ? FINISH_KINDS[name] : undefined) ?? 'stop'
  const natural = kind === 'stop' || kind === 'tool-calls'
  return { ok: true, kind: natural ? (calledTools ? 'tool-calls' : 'stop') : kind, raw }
}

/**
 * Decodes token counts. `tokens` counts what the model processed, including Cohere's own prompt template; `billed_units` is
 * what it bills. Image tokens are separate from input tokens (recording cohere-chat-vision-models: 34 input tokens, 259
 * image tokens, 267 billed). Reasoning tokens are part of the output (cohere-chat-with-extended-thinking).
 */
export const decodeUsage = (raw: Json | undefined): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const tokens = object(raw.tokens)
  const paid = object(raw.billed_units)
  const [billedInput, billedOutput] = [count(paid?.input_tokens), count(paid?.output_tokens)]
  const texts = count(tokens?.input_tokens)
  const input = texts === undefined ? billedInput : texts + (count(tokens?.image_tokens) ?? 0)
  const output = count(tokens?.output_tokens) ?? billedOutput
  const reasoning = count(tokens?.reasoning_tokens)
  const billed =
    billedInput === undefined || billedOutput === undefined ? undefined : { input: billedInput, output: billedOutput }
  return usageOf({ input, output, cacheRead: count(raw.cached_tokens), reasoning, billed }, raw)
}
