/** Stop reasons and token usage, both directions. */
import type { Finish, FinishKind, FurtherStep, Usage } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { tokenCount } from '../shared/numbers.ts'
import { anthropicTier } from '../shared/service-tiers.ts'
import { hostedCalls, usageOf } from '../shared/usage.ts'
import { countsIn } from '../shared/usage-members.ts'

/** Finish kinds by `stop_reason`. Unknown reasons count as `stop`. */
const KIND_OF: ReadonlyMap<string, FinishKind> = new Map([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['tool_use', 'tool-calls'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'refusal'],
  // Both mean: the model continues when the client sends the answer back.
  ['pause_turn', 'pause'],
  ['compaction', 'pause'],
])

/** Decodes `stop_reason`. Compatible servers omit `tool_use`, so tool calls in the answer count too. */
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

/** The explanation of a refusal, if there is one. */
export const explanationIn = (holder: JsonObject): string | undefined => {
  const details = object(holder.stop_details)
  return (details?.type === 'refusal' && text(details.explanation)) || undefined
}

/** The stop members of an answer. */
export const encodeFinish = (
  finish: Finish,
  calledTools: boolean,
): { readonly stop_reason: string; readonly stop_sequence: string | null } => ({
  stop_reason: reasonOf(finish, calledTools),
  stop_sequence: finish.stopSequence ?? null,
})

const reasonOf = ({ kind, raw, stopSequence }: Finish, calledTools: boolean): string => {
  // The upstream's reason, if it is one of this format.
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
    // In a stream these finishes are encoded as error events.
    case 'malformed':
    case 'error':
      return 'end_turn'
    default:
      throw new Error(`unknown finish ${JSON.stringify(kind satisfies never)}`)
  }
}

/**
 * Merges usage records. Counts are cumulative, so later ones replace earlier ones. Null is ignored, and so is a side of which
 * the later record has zeros only: compatible servers fill the members that they do not know.
 */
export const mergeUsage = (earlier: JsonObject, later: JsonObject): JsonObject => ({
  ...earlier,
  ...Object.fromEntries(
    Object.entries(later).filter(
      ([name, value]) =>
        value !== undefined && value !== null && !(value === 0 && earlier[name] && isSilent(name, later)),
    ),
  ),
})

const INPUT = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']

const isSilent = (name: string, later: JsonObject): boolean =>
  name === 'output_tokens' || (INPUT.includes(name) && INPUT.every((member) => !later[member]))

/** `input_tokens` excludes cached tokens; `Usage.input` includes them. */
export const decodeUsage = (raw: Json | undefined): Usage | undefined => {
  if (!isObject(raw)) return undefined
  const { input: fresh, total, isCacheWrong, ...counts } = countsIn(raw)
  const { output = 0, cacheRead = 0, cacheWrite = 0 } = counts
  // Servers of other formats behind this one may include cached tokens: their total shows it. Kimi has both counts: its
  // `prompt_tokens` includes them (maximhq/bifrost#5510).
  const split = (tokenCount(raw.input_tokens) ?? 0) + cacheRead + cacheWrite
  const includes = fresh !== undefined && (total === fresh + output || (!isCacheWrong && fresh === split))
  const input = fresh === undefined || includes ? fresh : isCacheWrong ? undefined : fresh + cacheRead + cacheWrite
  return usageOf(
    {
      ...counts,
      input,
      total,
      further: furtherSteps(raw.iterations),
      // Fetches are free.
      toolCalls: hostedCalls(raw, undefined),
      serviceTier: text(raw.service_tier),
      speed: text(raw.speed),
      region: text(raw.inference_geo),
    },
    raw,
  )
}

/** Iterations that the totals do not include. Declined attempts of a fallback are not billed. */
const BESIDE: ReadonlySet<string> = new Set(['compaction', 'advisor_message'])

/** What is billed beside the totals (pydantic/pydantic-ai#5065, ccusage/ccusage#1115). */
const furtherSteps = (iterations: Json | undefined): readonly FurtherStep[] =>
  list(iterations).flatMap((entry): FurtherStep[] => {
    const step = object(entry)
    if (!step || !BESIDE.has(text(step.type) ?? '')) return []
    const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, cacheWrite1h = 0 } = countsIn(step)
    const model = text(step.model)
    return [
      {
        input: input + cacheRead + cacheWrite,
        output,
        cacheRead,
        cacheWrite,
        cacheWrite1h,
        ...(model !== undefined && { model }),
      },
    ]
  })

/** Token counts in this format. Unknown counts are 0, because clients add them up. */
export const encodeUsage = (usage: Usage | undefined): JsonObject => {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, reasoning } = usage ?? {}
  const tier = anthropicTier(usage?.serviceTier)
  return {
    input_tokens: Math.max(0, input - cacheRead - cacheWrite),
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cacheRead,
    output_tokens: output,
    ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
    ...(tier !== undefined && { service_tier: tier }),
  }
}
