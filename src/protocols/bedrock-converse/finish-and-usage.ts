/** Stop reasons and token usage. */
import type { Finish, FinishKind, Usage } from '../../core/chat.ts'
import { isObject, type Json, list, object, text } from '../../core/json.ts'
import { tokenCount as count } from '../shared/numbers.ts'
import { usageOf } from '../shared/usage.ts'
import { countsIn } from '../shared/usage-members.ts'

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

/** Decodes a stop reason; undefined if there is none. Unknown reasons count as `stop`; tool calls in the content count too. */
export const decodeFinish = (
  reason: Json | undefined,
  calledTools: boolean,
  fields: Json | undefined,
): Finish | undefined => {
  const raw = text(reason)
  if (raw === undefined || raw === '') return undefined
  const kind = (Object.hasOwn(KIND_OF, raw) ? KIND_OF[raw] : undefined) ?? 'stop'
  // Anthropic's member with the matched sequence, returned if requested by `additionalModelResponseFieldPaths`.
  const members = object(fields)
  const sequence = text(members?.stop_sequence) ?? text(object(members?.delta)?.stop_sequence)
  return {
    kind: kind === 'stop' && calledTools ? 'tool-calls' : kind,
    raw,
    ...(raw === 'stop_sequence' && sequence !== undefined && { stopSequence: sequence }),
  }
}

/** `inputTokens` excludes cached tokens; `Usage.input` includes them. Reasoning tokens are not reported. `tier`: the
 * answer's service tier. */
export const decodeUsage = (raw: Json | undefined, tier?: Json): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const { input: fresh, isCacheWrong, ...counts } = countsIn(raw)
  const { cacheRead = 0, cacheWrite = 0 } = counts
  const hour = list(raw.cacheDetails)
    .map(object)
    .filter((detail) => detail?.ttl === '1h')
  return usageOf(
    {
      ...counts,
      input: fresh === undefined || isCacheWrong ? undefined : fresh + cacheRead + cacheWrite,
      cacheWrite1h: hour.reduce((sum, detail) => sum + (count(detail?.inputTokens) ?? 0), 0),
      serviceTier: text(object(tier)?.type),
    },
    raw,
  )
}
