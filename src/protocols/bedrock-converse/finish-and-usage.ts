/** How an answer ends, and what it cost. */
import type { Finish, FinishKind, Usage } from '../../core/chat.ts'
import { isObject, type Json, object, text } from '../../core/json.ts'
import { tokenCount as count } from '../shared/numbers.ts'

const KIND_OF: { readonly [reason: string]: FinishKind } = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  guardrail_intervened: 'content-filter',
  content_filtered: 'content-filter',
  malformed_tool_use: 'malformed',
  malformed_model_output: 'malformed',
}

/** Why the answer ended; undefined when it is not said. A new word is an ordinary end, and what was called is asked of the content. */
export const endingOf = (
  reason: Json | undefined,
  calledTools: boolean,
  fields: Json | undefined,
): Finish | undefined => {
  const raw = text(reason)
  if (raw === undefined || raw === '') return undefined
  const kind = (Object.hasOwn(KIND_OF, raw) ? KIND_OF[raw] : undefined) ?? 'stop'
  // Anthropic's own word for which one it was, where a client asked to be told (`additionalModelResponseFieldPaths`).
  const told = object(fields)
  const sequence = text(told?.stop_sequence) ?? text(object(told?.delta)?.stop_sequence)
  return {
    kind: kind === 'stop' && calledTools ? 'tool-calls' : kind,
    raw,
    ...(raw === 'stop_sequence' && sequence !== undefined && { stopSequence: sequence }),
  }
}

/** `inputTokens` leaves out what came from or went to a cache; ours counts it in. Of the output nothing says how much was thought. */
export const decodeUsage = (raw: Json | undefined): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const input = count(raw.inputTokens)
  const output = count(raw.outputTokens)
  if (input === undefined && output === undefined) return undefined
  const cacheRead = count(raw.cacheReadInputTokens)
  const cacheWrite = count(raw.cacheWriteInputTokens)
  return {
    input: (input ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0),
    output: output ?? 0,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    raw,
  }
}
