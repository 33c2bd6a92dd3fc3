/** How an answer ends, and what it cost. */
import type { FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, type FailureKind, fail } from '../../core/failure.ts'
import { isObject, type Json, object, text } from '../../core/json.ts'
import { tokenCount as count } from '../shared/numbers.ts'

const KIND_OF: { readonly [reason: string]: FinishKind } = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  TOOL_CALL: 'tool-calls',
  MAX_TOKENS: 'length',
  // Words of the older version, which some deployments still say.
  ERROR_LIMIT: 'length',
  ERROR_TOXIC: 'content-filter',
}

/** Ends that are none. */
const FAILS: { readonly [reason: string]: FailureKind } = {
  ERROR: 'error_in_stream',
  USER_CANCEL: 'error_in_stream',
  TIMEOUT: 'timeout',
}

export type Ending =
  | { readonly ok: true; readonly kind: FinishKind; readonly raw: string }
  | { readonly ok: false; readonly failure: Failure }

/** Why an answer ended; undefined when it does not say. Whether it called is told by its content. A new word is an ordinary end. */
export const endingOf = (reason: Json | undefined, calledTools: boolean, words?: Json): Ending | undefined => {
  const raw = text(reason)
  if (raw === undefined || raw === '') return undefined
  const word = raw.toUpperCase()
  const failed = Object.hasOwn(FAILS, word) ? FAILS[word] : undefined
  if (failed) {
    const message = text(words)
    const upstream = { code: raw, ...(message && { message: message.slice(0, 1_000) }) }
    return {
      ok: false,
      failure: fail(failed, `The provider broke its answer off before it was done (${raw}).`, { upstream }),
    }
  }
  const kind = (Object.hasOwn(KIND_OF, word) ? KIND_OF[word] : undefined) ?? 'stop'
  const natural = kind === 'stop' || kind === 'tool-calls'
  return { ok: true, kind: natural ? (calledTools ? 'tool-calls' : 'stop') : kind, raw }
}

/**
 * `tokens` are what the model read and wrote, its own frame around the prompt included; `billed_units` are for the bill.
 * Those of images stand apart (recordings cohere-chat-vision-models: 34 tokens and 259 of an image, billed as 267),
 * those of thoughts are among the output (cohere-chat-with-extended-thinking).
 */
export const decodeUsage = (raw: Json | undefined): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const tokens = object(raw.tokens)
  const input = count(tokens?.input_tokens)
  const output = count(tokens?.output_tokens)
  if (input === undefined && output === undefined) return undefined
  const cached = count(raw.cached_tokens)
  const reasoning = count(tokens?.reasoning_tokens)
  return {
    input: (input ?? 0) + (count(tokens?.image_tokens) ?? 0),
    output: output ?? 0,
    ...(cached !== undefined && { cacheRead: cached }),
    ...(reasoning !== undefined && { reasoning }),
    raw,
  }
}
