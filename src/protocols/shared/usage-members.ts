/** Usage objects of OpenAI's formats, under the names of all servers that copy them. */
import type { Usage } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { tokenCount } from './numbers.ts'
import { costOfTicks, hostedCalls, type ReportedUsage, usageOf } from './usage.ts'

/** `isCacheWrong`: a count of cached tokens was reported and cannot be one. */
type UsageCounts = { [name in CountName]?: number } & { isCacheWrong?: true }
/** The counts, to which the facts beside them are added. */
type CountedUsage = UsageCounts & { -readonly [name in keyof Omit<ReportedUsage, CountName>]: ReportedUsage[name] }
type CountName =
  | 'input'
  | 'output'
  | 'total'
  | 'cacheRead'
  | 'cacheWrite'
  | 'cacheWrite5m'
  | 'cacheWrite1h'
  | 'reasoning'
  | 'audioInput'
  | 'imageInput'
  | 'videoInput'
  | 'audioCached'
  | 'imageCached'
  | 'audioOutput'
  | 'imageOutput'
  | 'videoOutput'
type MemberNames = ReadonlyMap<string, CountName | MemberNames>

/**
 * Parts of the input. Reads: OpenAI, Anthropic's name (LiteLLM, Databricks), Moonshot, DeepSeek, Mistral, Gemini's name. Writes:
 * OpenRouter and OpenAI, Anthropic's name, LiteLLM.
 */
const INPUT_PARTS: readonly (readonly [string, CountName])[] = [
  ['cached_tokens', 'cacheRead'],
  ['cache_read_tokens', 'cacheRead'],
  ['cache_read_input_tokens', 'cacheRead'],
  ['cached_input_tokens', 'cacheRead'],
  ['prompt_cache_hit_tokens', 'cacheRead'],
  ['num_cached_tokens', 'cacheRead'],
  ['cached_content_token_count', 'cacheRead'],
  ['cache_write_tokens', 'cacheWrite'],
  ['cache_write_input_tokens', 'cacheWrite'],
  ['cache_creation_tokens', 'cacheWrite'],
  ['cache_creation_input_tokens', 'cacheWrite'],
]

/** `cache_creation` of Anthropic; Alibaba and LiteLLM have it among the details of the input. */
const WRITTEN: MemberNames = new Map([
  ['ephemeral_5m_input_tokens', 'cacheWrite5m'],
  ['ephemeral_1h_input_tokens', 'cacheWrite1h'],
])

const INPUT_DETAILS: MemberNames = new Map<string, CountName | MemberNames>([
  ...INPUT_PARTS,
  ['audio_tokens', 'audioInput'],
  ['image_tokens', 'imageInput'],
  ['video_tokens', 'videoInput'],
  ['cache_creation', WRITTEN],
  ['cache_creation_token_details', WRITTEN],
  // OpenAI's audio models.
  [
    'cached_tokens_details',
    new Map<string, CountName>([
      ['audio_tokens', 'audioCached'],
      ['image_tokens', 'imageCached'],
    ]),
  ],
])

const OUTPUT_DETAILS: MemberNames = new Map<string, CountName>([
  ['reasoning_tokens', 'reasoning'],
  ['thinking_tokens', 'reasoning'],
  ['audio_tokens', 'audioOutput'],
  ['image_tokens', 'imageOutput'],
  ['video_tokens', 'videoOutput'],
])

const NAMES: MemberNames = new Map<string, CountName | MemberNames>([
  ['prompt_tokens', 'input'],
  ['input_tokens', 'input'],
  ['prompt_token_count', 'input'],
  ['completion_tokens', 'output'],
  ['output_tokens', 'output'],
  ['candidates_token_count', 'output'],
  ['total_tokens', 'total'],
  ['total_token_count', 'total'],
  // Converse, its older names, and Bedrock's figures at the end of a stream of Claude.
  ['inputTokens', 'input'],
  ['outputTokens', 'output'],
  ['totalTokens', 'total'],
  ['cacheReadInputTokens', 'cacheRead'],
  ['cacheWriteInputTokens', 'cacheWrite'],
  ['inputTokenCount', 'input'],
  ['outputTokenCount', 'output'],
  ['cacheReadInputTokenCount', 'cacheRead'],
  ['cacheWriteInputTokenCount', 'cacheWrite'],
  ['reasoning_tokens', 'reasoning'],
  ['reasoning_output_tokens', 'reasoning'],
  ['thoughts_token_count', 'reasoning'],
  ...INPUT_PARTS,
  ['cache_creation', WRITTEN],
  ['prompt_tokens_details', INPUT_DETAILS],
  ['input_tokens_details', INPUT_DETAILS],
  // OpenAI's transcriptions.
  ['input_token_details', INPUT_DETAILS],
  ['completion_tokens_details', OUTPUT_DETAILS],
  ['output_tokens_details', OUTPUT_DETAILS],
  // OpenAI's Realtime API.
  ['output_token_details', OUTPUT_DETAILS],
])

/** The counts of a usage object of any of these servers. */
export const countsIn = (raw: JsonObject): UsageCounts => {
  const counts: UsageCounts = {}
  addCounts(counts, raw, NAMES)
  const { audioCached, imageCached } = counts
  if (audioCached) counts.audioInput = Math.max(0, (counts.audioInput ?? 0) - audioCached)
  if (imageCached) counts.imageInput = Math.max(0, (counts.imageInput ?? 0) - imageCached)
  if (counts.cacheWrite5m === undefined && counts.cacheWrite1h === undefined) return counts
  const { cacheWrite5m = 0, cacheWrite1h = 0, ...rest } = counts
  const written = cacheWrite5m + cacheWrite1h
  return {
    ...rest,
    ...(cacheWrite1h > 0 && { cacheWrite1h }),
    ...(written > 0 && { cacheWrite: Math.max(rest.cacheWrite ?? 0, written) }),
  }
}

const CACHED: ReadonlySet<CountName> = new Set(['cacheRead', 'cacheWrite', 'cacheWrite5m', 'cacheWrite1h'])

/** Adds the counts of an object. Of several names for one count the largest applies: servers set those they do not use to 0. */
const addCounts = (counts: UsageCounts, of: JsonObject, names: MemberNames): void => {
  for (const member in of) {
    const name = names.get(member)
    const value = of[member]
    if (name === undefined) continue
    if (typeof name !== 'string') {
      if (isObject(value)) addCounts(counts, value, name)
      continue
    }
    const tokens = tokenCount(value)
    if (tokens !== undefined) counts[name] = Math.max(counts[name] ?? 0, tokens)
    else if (value !== null && CACHED.has(name)) counts.isCacheWrong = true
  }
}

/** What an answer says about its usage outside of the usage object. */
export type UsageContext = {
  /** The tier that the answer names. */
  readonly serviceTier?: Json | undefined
  /** Calls of hosted tools that its content shows, for usage objects that count none. */
  readonly toolCalls?: Usage['toolCalls']
}

/** Decodes a `usage` object; undefined if it has no token counts. */
export const decodeUsage = (
  value: Json | undefined,
  { serviceTier, toolCalls }: UsageContext = {},
): Usage | undefined => {
  const raw = object(value)
  if (!raw) return undefined
  // Added to the counts: a copy of them costs more than to decode them.
  const reported: CountedUsage = countsIn(raw)
  reported.toolCalls = hostedCalls(raw, toolCalls)
  // Mistral has the tier in the usage.
  reported.serviceTier = text(serviceTier) ?? text(raw.service_tier)
  reported.speed = text(raw.speed)
  reported.region = text(raw.inference_geo)
  reported.reportedCost = costOfTicks(raw.cost_in_usd_ticks)
  return usageOf(reported, raw)
}
