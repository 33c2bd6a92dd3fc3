import type { Usage } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { isObject, list, object, text } from '../../core/json.ts'
import { tokenCount } from './numbers.ts'

/** What an answer used; undefined: not reported. `total`: the tokens of the whole answer. */
export type ReportedUsage = {
  readonly [member in Exclude<keyof Usage, 'raw' | 'unknown'>]?: Usage[member] | undefined
} & {
  readonly total?: number | undefined
}

/** Longest name of a service tier, a speed or a region. */
const MAX_NAME = 40

/**
 * Usage without the members that were not reported. Parts that most answers do not have are left out if they are 0. Undefined
 * if neither input nor output is known.
 */
export const usageOf = (reported: ReportedUsage, raw: JsonObject): Usage | undefined => {
  const { input, output } = totalsOf(reported)
  if (input === undefined && output === undefined) return undefined
  // Assigned one by one: two dozen spreads of nothing cost more than all else of a short answer's usage.
  const usage: { -readonly [member in keyof Usage]: Usage[member] } = { input: input ?? 0, output: output ?? 0, raw }
  if (input === undefined) usage.unknown = 'input'
  else if (output === undefined) usage.unknown = 'output'
  for (const part of REPORTED) if (reported[part] !== undefined) usage[part] = reported[part]
  for (const part of RARE) if (reported[part]) usage[part] = reported[part]
  for (const name of NAMES) {
    const value = reported[name]
    if (value && value.length <= MAX_NAME) usage[name] = value.toLowerCase()
  }
  if (reported.toolCalls) usage.toolCalls = reported.toolCalls
  if (reported.further && reported.further.length > 0) usage.further = reported.further
  if (reported.billed) usage.billed = reported.billed
  return usage
}

/** Counts that are kept if they are 0. */
const REPORTED = ['cacheRead', 'cacheWrite', 'reasoning', 'reportedCost'] as const
/** Counts that most answers do not have. */
const RARE = [
  'cacheWrite1h',
  'audioInput',
  'imageInput',
  'videoInput',
  'audioOutput',
  'imageOutput',
  'videoOutput',
] as const
const NAMES = ['serviceTier', 'speed', 'region'] as const

/**
 * Input and output, completed from the total of the answer. What the total shows beyond both is cached input if it is equal
 * to it, and output otherwise: Gemini's OpenAI endpoint counts thoughts in the total alone (BerriAI/litellm#41388).
 */
const totalsOf = (
  reported: ReportedUsage,
): { readonly input: number | undefined; readonly output: number | undefined } => {
  const { input, output, total, cacheRead = 0, cacheWrite = 0, reasoning = 0 } = reported
  if (total === undefined) return { input, output }
  if (input === undefined || output === undefined) {
    const rest = total - (input ?? output ?? total)
    return { input: input ?? known(rest), output: output ?? known(rest) }
  }
  const more = total - input - output
  const cached = cacheRead + cacheWrite
  if (more <= 0) return { input, output }
  if (cached > 0 && (more === cached || more === cached + reasoning))
    return { input: input + cached, output: output + more - cached }
  return { input, output: output + more }
}

const known = (rest: number): number | undefined => (rest > 0 ? rest : undefined)

const INPUT = ['input', 'cacheRead', 'cacheWrite', 'cacheWrite1h', 'audioInput', 'imageInput', 'videoInput'] as const
const OUTPUT = ['output', 'reasoning', 'audioOutput', 'imageOutput', 'videoOutput'] as const

/**
 * The usage of a stream after a further report. Counts are cumulative, so the later one applies. A side that it reports as 0
 * keeps its earlier counts: some servers end a stream with a report of zeros, or report each side in an event of its own.
 */
export const laterUsage = (earlier: Usage | undefined, later: Usage): Usage => {
  if (!earlier) return later
  const { reportedCost: _, unknown: __, ...before } = earlier
  const merged: { -readonly [member in keyof Usage]: Usage[member] } = { ...before, ...later }
  for (const [total, parts] of [
    [later.input, INPUT],
    [later.output, OUTPUT],
  ] as const)
    if (total === 0) for (const part of parts) if (before[part]) merged[part] = before[part]
  if (merged.unknown && merged[merged.unknown] > 0) delete merged.unknown
  return merged
}

/** Calls of tools by name, without those that were not called. Undefined: none. */
export const toolCallsOf = (calls: { readonly [name: string]: Json | undefined }): Usage['toolCalls'] => {
  const made = Object.entries(calls).flatMap(([name, value]) => {
    const count = tokenCount(value)
    return count ? [[name, count] as const] : []
  })
  return made.length === 0 ? undefined : Object.fromEntries(made)
}

/**
 * Calls of hosted tools, by the usage object or else as the content shows them. The objects have `server_tool_use` (Anthropic;
 * OpenRouter adds `_details`), `server_side_tool_usage_details` and `num_sources_used` (xAI), `num_search_queries` (Perplexity).
 */
export const hostedCalls = (usage: JsonObject, shown: Usage['toolCalls']): Usage['toolCalls'] => {
  const counted = object(usage.server_side_tool_usage_details)
  const requested = object(usage.server_tool_use) ?? object(usage.server_tool_use_details)
  const searches = requested?.web_search_requests ?? usage.num_search_queries
  const calls =
    counted || tokenCount(searches) !== undefined
      ? toolCallsOf({
          web_search: counted?.web_search_calls ?? searches,
          x_search: counted?.x_search_calls,
          code_interpreter: counted?.code_interpreter_calls,
          file_search: counted?.file_search_calls,
          document_search: counted?.document_search_calls,
        })
      : shown
  // The sources of a live search are billed one by one.
  const sources = usage.num_sources_used === undefined ? undefined : toolCallsOf({ source: usage.num_sources_used })
  return sources ? { ...calls, ...sources } : calls
}

/** xAI's own cost, in ticks of 0.1 nano-dollars. Grok on Azure reports 0 ticks for every answer, so 0 is unknown. */
export const costOfTicks = (ticks: Json | undefined): number | undefined =>
  typeof ticks === 'number' && ticks > 0 ? ticks / 10 : undefined

/** The tokens of one modality in Gemini's `[{modality, tokenCount}]`. */
export const tokensOfModality = (details: Json | undefined, modality: string): number =>
  list(details)
    .filter(isObject)
    .filter((detail) => text(detail.modality) === modality)
    .reduce((sum, detail) => sum + (tokenCount(detail.tokenCount) ?? 0), 0)
