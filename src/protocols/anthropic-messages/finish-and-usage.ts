/** How an answer ends, and what it cost: both directions. */
import type { Finish, FinishKind, Usage } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { tokenCount as count } from '../shared/numbers.ts'

/** Theirs to ours. What is not here is a new word, and an ordinary end. */
const KIND_OF: ReadonlyMap<string, FinishKind> = new Map([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['tool_use', 'tool-calls'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'refusal'],
  // Both say: send it back as it is, and the model goes on.
  ['pause_turn', 'pause'],
  ['compaction', 'pause'],
])

/** The end a `stop_reason` tells of. Compatible servers forget `tool_use`, so the calls themselves count too. */
export const decodeFinish = (holder: JsonObject, calledTools: boolean): Finish => {
  const raw = text(holder.stop_reason) ?? null
  const stopSequence = text(holder.stop_sequence)
  const kind = (raw === null ? undefined : KIND_OF.get(raw)) ?? 'stop'
  return {
    kind: kind === 'stop' && calledTools && stopSequence === undefined ? 'tool-calls' : kind,
    raw,
    ...(stopSequence !== undefined && { stopSequence }),
  }
}

/** Why the model refused, in words. */
export const explanationIn = (holder: JsonObject): string | undefined => {
  const details = object(holder.stop_details)
  return (details?.type === 'refusal' && text(details.explanation)) || undefined
}

/** The members that tell a client of this format how the answer ended. */
export const encodeFinish = (
  finish: Finish,
  calledTools: boolean,
): { readonly stop_reason: string; readonly stop_sequence: string | null } => ({
  stop_reason: reasonOf(finish, calledTools),
  stop_sequence: finish.stopSequence ?? null,
})

const reasonOf = ({ kind, raw, stopSequence }: Finish, calledTools: boolean): string => {
  // Their own word, where this format has it.
  if (raw !== null && KIND_OF.get(raw) === kind && kind !== 'stop') return raw
  switch (kind) {
    case 'stop':
    case 'tool-calls':
      // Clients run tools on `tool_use` alone.
      if (calledTools) return 'tool_use'
      return stopSequence === undefined ? 'end_turn' : 'stop_sequence'
    case 'length':
      return 'max_tokens'
    case 'content-filter':
    case 'refusal':
      return 'refusal'
    case 'pause':
      return 'pause_turn'
    // An end that is none; streams tell of it as an error before it comes to this.
    case 'malformed':
    case 'error':
      return 'end_turn'
    default:
      throw new Error(`unknown finish ${JSON.stringify(kind satisfies never)}`)
  }
}

/** Later records correct earlier ones: counts are cumulative, and null says nothing. */
export const mergeUsage = (earlier: JsonObject, later: JsonObject): JsonObject => ({
  ...earlier,
  ...Object.fromEntries(Object.entries(later).filter(([, value]) => value !== undefined && value !== null)),
})

/** `input_tokens` leaves out what a cache gave or took; ours counts it in. */
export const decodeUsage = (raw: Json | undefined): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const fresh = count(raw.input_tokens)
  const output = count(raw.output_tokens)
  if (fresh === undefined && output === undefined) return undefined
  const cacheRead = count(raw.cache_read_input_tokens)
  const cacheWrite = count(raw.cache_creation_input_tokens)
  const reasoning = count(object(raw.output_tokens_details)?.thinking_tokens)
  return {
    input: (fresh ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0),
    output: output ?? 0,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    ...(reasoning !== undefined && { reasoning }),
    raw,
  }
}

/** The counts as this format has them. Nothing known is nothing counted: clients add these up. */
export const encodeUsage = (usage: Usage | undefined): JsonObject => {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, reasoning } = usage ?? {}
  return {
    input_tokens: Math.max(0, input - cacheRead - cacheWrite),
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cacheRead,
    output_tokens: output,
    ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
  }
}
