/**
 * What answers cost, from the vendors' own bodies to nano-dollars: every part of a usage that has a price of its own, with
 * every vendor that reports it. The expected cost is the sum of counts and published prices (2026-11-26), not of the decoder.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import type { PriceList } from '../../core/accounts.ts'
import { type ChatEvent, fold, type UpstreamProtocolName } from '../../core/chat.ts'
import type { Catalogue } from '../../core/config.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { Provider } from '../../core/provider.ts'
import { upstreamProtocols } from '../../protocols/index.ts'
import anthropic from '../../providers/anthropic.ts'
import openrouter from '../../providers/openrouter.ts'
import perplexity from '../../providers/perplexity.ts'
import { priceBook } from './price-book.ts'

/** Nano-dollars per token and per call. */
const MODELS = {
  openai: {
    'gpt-5.1': {
      input: 1_250,
      output: 10_000,
      cacheRead: 125,
      service: { flex: 0.5, priority: 2, batch: 0.5 },
      tools: { web_search: 10_000_000, file_search: 2_500_000 },
    },
    'gpt-5-mini': { input: 250, output: 2_000, cacheRead: 25 },
    'gpt-4o-search-preview': { input: 2_500, output: 10_000, tools: { web_search: 25_000_000 } },
    'gpt-audio': { input: 2_500, output: 10_000, audioInput: 32_000, audioOutput: 64_000 },
    'text-embedding-3-small': { input: 20 },
  },
  anthropic: {
    'claude-opus-4-6': {
      input: 5_000,
      output: 25_000,
      cacheRead: 500,
      cacheWrite: 6_250,
      cacheWrite1h: 10_000,
      service: { batch: 0.5, fast: 6, us: 1.1 },
      tools: { web_search: 10_000_000 },
    },
    'claude-opus-5': {
      input: 5_000,
      output: 25_000,
      cacheRead: 500,
      cacheWrite: 6_250,
      cacheWrite1h: 10_000,
      service: { batch: 0.5, fast: 2, us: 1.1 },
    },
    'claude-sonnet-4-5': {
      input: 3_000,
      output: 15_000,
      cacheRead: 300,
      cacheWrite: 3_750,
      cacheWrite1h: 6_000,
      tiers: [
        { above: 200_000, input: 6_000, output: 22_500, cacheRead: 600, cacheWrite: 7_500, cacheWrite1h: 12_000 },
      ],
    },
    // A model whose factors no source states yet: the highest known ones apply.
    'claude-next': { input: 5_000, output: 25_000 },
  },
  bedrock: {
    'anthropic.claude-sonnet-4-5': {
      input: 3_000,
      output: 15_000,
      cacheRead: 300,
      cacheWrite: 3_750,
      cacheWrite1h: 6_000,
      service: { flex: 0.5, priority: 1.75 },
    },
    'meta.llama3-3-70b': { input: 720, output: 720 },
  },
  gemini: {
    'gemini-2.5-flash': {
      input: 300,
      output: 2_500,
      cacheRead: 30,
      audioInput: 1_000,
      service: { flex: 0.5, priority: 1.8 },
      tools: { web_search_prompt: 35_000_000, maps: 25_000_000 },
    },
    'gemini-2.5-pro': {
      input: 1_250,
      output: 10_000,
      cacheRead: 125,
      tiers: [{ above: 200_000, input: 2_500, output: 15_000, cacheRead: 250 }],
      tools: { web_search_prompt: 35_000_000 },
    },
    'gemini-3.5-flash': {
      input: 1_500,
      output: 9_000,
      cacheRead: 150,
      tools: { web_search: 14_000_000, maps: 14_000_000 },
    },
    'gemini-2.5-flash-image': { input: 300, output: 2_500, imageOutput: 30_000 },
    'gemini-omni-flash': { input: 1_500, output: 9_000, videoInput: 2_100, videoOutput: 17_500 },
  },
  xai: {
    'grok-4.3': {
      input: 1_250,
      output: 2_500,
      cacheRead: 200,
      tools: { web_search: 5_000_000, x_search: 5_000_000, source: 25_000_000 },
    },
  },
  perplexity: { sonar: { input: 1_000, output: 1_000, tools: { web_search_prompt: 8_000_000 } } },
  deepseek: { 'deepseek-chat': { input: 280, output: 420, cacheRead: 28 } },
  moonshot: { 'kimi-k2.5': { input: 600, output: 3_000, cacheRead: 100 } },
  alibaba: {
    'qwen3-coder-flash': {
      input: 300,
      output: 1_500,
      cacheRead: 80,
      cacheWrite: 375,
      tiers: [
        { above: 32_000, input: 500, output: 2_500, cacheRead: 120 },
        { above: 128_000, input: 800, output: 4_000, cacheRead: 200 },
      ],
    },
  },
  cohere: { 'command-a-03-2025': { input: 2_500, output: 10_000 } },
  openrouter: { 'anthropic/claude-sonnet-4.5': { input: 3_000, output: 15_000 } },
} satisfies Readonly<Record<string, Readonly<Record<string, PriceList>>>>

const KNOWN = new Map<string, PriceList>(
  Object.entries(MODELS).flatMap(([provider, models]) =>
    Object.entries(models).map(([model, prices]) => [`${provider}/${model}`, prices] as const),
  ),
)
const catalogue: Catalogue = Object.assign(
  (provider: string, model: string) => {
    const prices = KNOWN.get(`${provider}/${model}`)
    return prices && { prices }
  },
  { lists: (provider: string, model: string) => KNOWN.has(`${provider}/${model}`) },
)
const book = priceBook(catalogue, [])

/** What providers add to an answer and to prices. */
const PROVIDERS: Readonly<Record<string, Partial<Provider>>> = {
  anthropic: { service: anthropic.service },
  openrouter: { quirks: { usage: openrouter.quirks.usage } },
  perplexity: { quirks: { usage: perplexity.quirks.usage } },
}

const costOf = (target: string, protocol: UpstreamProtocolName, body: Json): number | null => {
  const [provider = '', ...rest] = target.split('/')
  const more = PROVIDERS[provider] ?? {}
  const { usage, model } = fold(upstreamProtocols[protocol].decodeAnswer(body))
  const corrected = usage && (more.quirks?.usage?.(usage) ?? usage)
  const made = instance(provider, ['k1'], more)
  return book.costOfAttempt({
    instance: made,
    model: rest.join('/'),
    at: 0,
    answering: model ?? null,
    usage: corrected ?? { input: 0, output: 0 },
  }).nano
}

// ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const messages = (usage: JsonObject, model?: string): JsonObject => ({
  type: 'message',
  role: 'assistant',
  ...(model && { model }),
  content: [{ type: 'text', text: 'ok' }],
  stop_reason: 'end_turn',
  usage,
})
const chat = (
  usage: JsonObject,
  { message = {}, ...more }: { message?: JsonObject; [member: string]: Json | undefined } = {},
) =>
  ({
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok', ...message }, finish_reason: 'stop' }],
    usage,
    ...more,
  }) as JsonObject
const responses = (usage: JsonObject, more: JsonObject = {}): JsonObject => ({
  object: 'response',
  status: 'completed',
  output: [],
  usage,
  ...more,
})
const gemini = (usageMetadata: JsonObject, candidate: JsonObject = {}): JsonObject => ({
  candidates: [{ content: { role: 'model', parts: [{ text: 'ok' }] }, finishReason: 'STOP', ...candidate }],
  usageMetadata,
})
const converse = (usage: JsonObject, more: JsonObject = {}): JsonObject => ({
  output: { message: { role: 'assistant', content: [{ text: 'ok' }] } },
  stopReason: 'end_turn',
  usage,
  ...more,
})
const modality = (name: string, tokenCount: number): JsonObject => ({ modality: name, tokenCount })
const call = (type: string, action?: JsonObject): JsonObject => ({
  type,
  status: 'completed',
  ...(action && { action }),
})
const cited = {
  message: {
    annotations: [
      { type: 'url_citation', url_citation: { url: 'https://a.test', title: 'a', start_index: 0, end_index: 2 } },
    ],
  },
}

type Case = readonly [what: string, target: string, protocol: UpstreamProtocolName, body: JsonObject, due: number]

const CHAT: readonly Case[] = [
  [
    'text',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }),
    1_103 * 1_250 + 457 * 10_000,
  ],
  [
    'a cache read',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 9_203, completion_tokens: 401, prompt_tokens_details: { cached_tokens: 8_704 } }),
    499 * 1_250 + 8_704 * 125 + 401 * 10_000,
  ],
  [
    'reasoning in the output',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 83, completion_tokens: 2_117, completion_tokens_details: { reasoning_tokens: 1_984 } }),
    83 * 1_250 + 2_117 * 10_000,
  ],
  [
    'flex',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { service_tier: 'flex' }),
    (1_103 * 1_250 + 457 * 10_000) / 2,
  ],
  [
    'priority, with a cache read',
    'openai/gpt-5.1',
    'openai-chat',
    chat(
      { prompt_tokens: 9_203, completion_tokens: 401, prompt_tokens_details: { cached_tokens: 8_704 } },
      { service_tier: 'priority' },
    ),
    2 * (499 * 1_250 + 8_704 * 125 + 401 * 10_000),
  ],
  [
    'a tier without a factor',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 7, completion_tokens: 3 }, { service_tier: 'default' }),
    7 * 1_250 + 3 * 10_000,
  ],
  [
    'audio in and out',
    'openai/gpt-audio',
    'openai-chat',
    chat({
      prompt_tokens: 1_301,
      completion_tokens: 907,
      prompt_tokens_details: { audio_tokens: 1_250, cached_tokens: 0 },
      completion_tokens_details: { audio_tokens: 811 },
    }),
    51 * 2_500 + 1_250 * 32_000 + 96 * 10_000 + 811 * 64_000,
  ],
  [
    'a search that only citations show',
    'openai/gpt-4o-search-preview',
    'openai-chat',
    chat({ prompt_tokens: 21, completion_tokens: 340 }, cited),
    21 * 2_500 + 340 * 10_000 + 25_000_000,
  ],
  [
    'no search',
    'openai/gpt-4o-search-preview',
    'openai-chat',
    chat({ prompt_tokens: 21, completion_tokens: 340 }),
    21 * 2_500 + 340 * 10_000,
  ],
  [
    'tokens that only the total shows',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 7, completion_tokens: 12, total_tokens: 402 }),
    7 * 1_250 + 395 * 10_000,
  ],
  [
    'an answer of a cheaper model',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { model: 'gpt-5-mini' }),
    1_103 * 250 + 457 * 2_000,
  ],
  [
    'an answer of a snapshot',
    'openai/gpt-5.1',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { model: 'gpt-5.1-2025-11-13' }),
    1_103 * 1_250 + 457 * 10_000,
  ],
  [
    'an answer of a model that is not listed',
    'openai/gpt-5-mini',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { model: 'gpt-secret' }),
    1_103 * 250 + 457 * 2_000,
  ],
  [
    'hits and misses',
    'deepseek/deepseek-chat',
    'openai-chat',
    chat({
      prompt_tokens: 3_001,
      completion_tokens: 211,
      prompt_cache_hit_tokens: 2_944,
      prompt_cache_miss_tokens: 57,
    }),
    57 * 280 + 2_944 * 28 + 211 * 420,
  ],
  [
    'cached tokens at the top',
    'moonshot/kimi-k2.5',
    'openai-chat',
    chat({ prompt_tokens: 29_567, completion_tokens: 97, total_tokens: 29_664, cached_tokens: 29_440 }),
    127 * 600 + 29_440 * 100 + 97 * 3_000,
  ],
  [
    'written tokens among the details',
    'alibaba/qwen3-coder-flash',
    'openai-chat',
    chat({
      prompt_tokens: 10_032,
      completion_tokens: 5,
      total_tokens: 10_037,
      prompt_tokens_details: { cached_tokens: 0, cache_creation_input_tokens: 10_017 },
    }),
    15 * 300 + 10_017 * 375 + 5 * 1_500,
  ],
  [
    'at the border of a tier',
    'alibaba/qwen3-coder-flash',
    'openai-chat',
    chat({ prompt_tokens: 32_000, completion_tokens: 9 }),
    32_000 * 300 + 9 * 1_500,
  ],
  [
    'above a tier',
    'alibaba/qwen3-coder-flash',
    'openai-chat',
    chat({ prompt_tokens: 32_001, completion_tokens: 9 }),
    32_001 * 500 + 9 * 2_500,
  ],
  [
    'above the highest tier',
    'alibaba/qwen3-coder-flash',
    'openai-chat',
    chat({ prompt_tokens: 200_003, completion_tokens: 9 }),
    200_003 * 800 + 9 * 4_000,
  ],
  [
    'reasoning beside the output',
    'xai/grok-4.3',
    'openai-chat',
    chat({
      prompt_tokens: 496,
      completion_tokens: 77,
      total_tokens: 829,
      completion_tokens_details: { reasoning_tokens: 256 },
    }),
    496 * 1_250 + 333 * 2_500,
  ],
  [
    'searches of two kinds',
    'xai/grok-4.3',
    'openai-chat',
    chat({
      prompt_tokens: 4_007,
      completion_tokens: 512,
      total_tokens: 4_519,
      server_side_tool_usage_details: { web_search_calls: 3, x_search_calls: 1, code_interpreter_calls: 0 },
    }),
    4_007 * 1_250 + 512 * 2_500 + 4 * 5_000_000,
  ],
  [
    'sources of a live search',
    'xai/grok-4.3',
    'openai-chat',
    chat({ prompt_tokens: 101, completion_tokens: 99, num_sources_used: 6 }),
    101 * 1_250 + 99 * 2_500 + 6 * 25_000_000,
  ],
  [
    'a stated cost, in ticks',
    'xai/grok-4.3',
    'openai-chat',
    chat({ prompt_tokens: 101, completion_tokens: 99, num_sources_used: 6, cost_in_usd_ticks: 37_756_000 }),
    3_775_600,
  ],
  [
    'several queries of one answer',
    'perplexity/sonar',
    'openai-chat',
    chat({ prompt_tokens: 14, completion_tokens: 371, num_search_queries: 4, search_context_size: 'medium' }),
    14 * 1_000 + 371 * 1_000 + 8_000_000,
  ],
  [
    'a stated cost, in dollars',
    'perplexity/sonar',
    'openai-chat',
    chat({
      prompt_tokens: 14,
      completion_tokens: 371,
      num_search_queries: 4,
      cost: { request_cost: 0.005, total_cost: 0.005_385 },
    }),
    5_385_000,
  ],
  [
    'a stated cost of a router',
    'openrouter/anthropic/claude-sonnet-4.5',
    'openai-chat',
    chat({ prompt_tokens: 14, completion_tokens: 371, cost: 0.004_1 }),
    4_100_000,
  ],
]

const RESPONSES: readonly Case[] = [
  [
    'cache read and reasoning',
    'openai/gpt-5.1',
    'openai-responses',
    responses({
      input_tokens: 9_203,
      output_tokens: 1_201,
      input_tokens_details: { cached_tokens: 8_704 },
      output_tokens_details: { reasoning_tokens: 1_088 },
    }),
    499 * 1_250 + 8_704 * 125 + 1_201 * 10_000,
  ],
  [
    'searches of the web and of files',
    'openai/gpt-5.1',
    'openai-responses',
    responses(
      { input_tokens: 5_101, output_tokens: 803 },
      {
        output: [
          call('web_search_call', { type: 'search', query: 'a' }),
          call('web_search_call', { type: 'open_page', url: 'https://a.test' }),
          call('web_search_call', { type: 'search', query: 'b' }),
          call('file_search_call'),
        ],
      },
    ),
    5_101 * 1_250 + 803 * 10_000 + 2 * 10_000_000 + 2_500_000,
  ],
  [
    'priority: the price of a search is the same',
    'openai/gpt-5.1',
    'openai-responses',
    responses(
      { input_tokens: 5_101, output_tokens: 803 },
      { service_tier: 'priority', output: [call('web_search_call', { type: 'search', query: 'a' })] },
    ),
    2 * (5_101 * 1_250 + 803 * 10_000) + 10_000_000,
  ],
]

const opus = { input_tokens: 1_103, output_tokens: 457 }
const OPUS = 1_103 * 5_000 + 457 * 25_000
const MESSAGES: readonly Case[] = [
  ['text', 'anthropic/claude-opus-4-6', 'anthropic-messages', messages(opus), OPUS],
  [
    'written for five minutes and for an hour, and read',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({
      ...opus,
      cache_read_input_tokens: 12_007,
      cache_creation_input_tokens: 3_011,
      cache_creation: { ephemeral_5m_input_tokens: 2_003, ephemeral_1h_input_tokens: 1_008 },
    }),
    OPUS + 12_007 * 500 + 2_003 * 6_250 + 1_008 * 10_000,
  ],
  [
    'written tokens by their duration alone',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({ ...opus, cache_creation: { ephemeral_5m_input_tokens: 2_003, ephemeral_1h_input_tokens: 1_008 } }),
    OPUS + 2_003 * 6_250 + 1_008 * 10_000,
  ],
  ['fast', 'anthropic/claude-opus-4-6', 'anthropic-messages', messages({ ...opus, speed: 'fast' }), 6 * OPUS],
  [
    'fast, a later model',
    'anthropic/claude-opus-5',
    'anthropic-messages',
    messages({ ...opus, speed: 'fast' }),
    2 * OPUS,
  ],
  [
    'served at the usual speed',
    'anthropic/claude-opus-5',
    'anthropic-messages',
    messages({ ...opus, speed: 'standard' }),
    OPUS,
  ],
  [
    'in the US',
    'anthropic/claude-opus-5',
    'anthropic-messages',
    messages({ ...opus, inference_geo: 'us' }),
    1.1 * OPUS,
  ],
  ['anywhere', 'anthropic/claude-opus-5', 'anthropic-messages', messages({ ...opus, inference_geo: 'global' }), OPUS],
  [
    'fast in the US, with a cache',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({
      ...opus,
      cache_read_input_tokens: 12_007,
      cache_creation_input_tokens: 2_003,
      speed: 'fast',
      inference_geo: 'us',
    }),
    6.6 * (OPUS + 12_007 * 500 + 2_003 * 6_250),
  ],
  [
    'fast, at a model without known factors',
    'anthropic/claude-next',
    'anthropic-messages',
    messages({ ...opus, speed: 'fast' }),
    6 * OPUS,
  ],
  [
    'searches cost the same when fast',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({ ...opus, speed: 'fast', server_tool_use: { web_search_requests: 3, web_fetch_requests: 2 } }),
    6 * OPUS + 3 * 10_000_000,
  ],
  [
    'above 200k with what was read and written',
    'anthropic/claude-sonnet-4-5',
    'anthropic-messages',
    messages({
      input_tokens: 4_099,
      output_tokens: 479,
      cache_read_input_tokens: 200_003,
      cache_creation_input_tokens: 701,
    }),
    4_099 * 6_000 + 479 * 22_500 + 200_003 * 600 + 701 * 7_500,
  ],
  [
    'just below 200k',
    'anthropic/claude-sonnet-4-5',
    'anthropic-messages',
    messages({ input_tokens: 100_000, output_tokens: 479, cache_read_input_tokens: 100_000 }),
    100_000 * 3_000 + 479 * 15_000 + 100_000 * 300,
  ],
  [
    'an answer of another model',
    'anthropic/claude-opus-5',
    'anthropic-messages',
    messages(opus, 'claude-sonnet-4-5-20250929'),
    OPUS,
  ],
  [
    'an answer of another listed model',
    'anthropic/claude-opus-5',
    'anthropic-messages',
    messages(opus, 'claude-sonnet-4-5'),
    1_103 * 3_000 + 457 * 15_000,
  ],
]

const CONVERSE: readonly Case[] = [
  [
    'text',
    'bedrock/meta.llama3-3-70b',
    'bedrock-converse',
    converse({ inputTokens: 1_103, outputTokens: 457, totalTokens: 1_560 }),
    1_560 * 720,
  ],
  [
    'read and written',
    'bedrock/anthropic.claude-sonnet-4-5',
    'bedrock-converse',
    converse({
      inputTokens: 503,
      outputTokens: 457,
      totalTokens: 15_977,
      cacheReadInputTokens: 12_007,
      cacheWriteInputTokens: 3_010,
      cacheDetails: [
        { ttl: '5m', inputTokens: 2_003 },
        { ttl: '1h', inputTokens: 1_007 },
      ],
    }),
    503 * 3_000 + 457 * 15_000 + 12_007 * 300 + 2_003 * 3_750 + 1_007 * 6_000,
  ],
  [
    'priority',
    'bedrock/anthropic.claude-sonnet-4-5',
    'bedrock-converse',
    converse({ inputTokens: 1_103, outputTokens: 457, totalTokens: 1_560 }, { serviceTier: { type: 'priority' } }),
    1.75 * (1_103 * 3_000 + 457 * 15_000),
  ],
]

const search = (...queries: readonly string[]): JsonObject => ({ groundingMetadata: { webSearchQueries: queries } })
const maps = {
  groundingMetadata: { groundingChunks: [{ maps: { uri: 'https://maps.test/1', title: 'a' } }, { maps: {} }] },
}
const GEMINI: readonly Case[] = [
  [
    'thoughts and a cache',
    'gemini/gemini-2.5-pro',
    'gemini',
    gemini({
      promptTokenCount: 9_203,
      cachedContentTokenCount: 8_192,
      candidatesTokenCount: 301,
      thoughtsTokenCount: 1_409,
      totalTokenCount: 10_913,
    }),
    1_011 * 1_250 + 8_192 * 125 + 1_710 * 10_000,
  ],
  [
    'thoughts in the total alone',
    'gemini/gemini-2.5-pro',
    'gemini',
    gemini({ promptTokenCount: 35, candidatesTokenCount: 12, totalTokenCount: 109 }),
    35 * 1_250 + 74 * 10_000,
  ],
  [
    'above 200k',
    'gemini/gemini-2.5-pro',
    'gemini',
    gemini({ promptTokenCount: 204_803, candidatesTokenCount: 617, totalTokenCount: 205_420 }),
    204_803 * 2_500 + 617 * 15_000,
  ],
  [
    'audio in',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 1_549,
      candidatesTokenCount: 211,
      totalTokenCount: 1_760,
      promptTokensDetails: [modality('TEXT', 98), modality('AUDIO', 1_451)],
    }),
    98 * 300 + 1_451 * 1_000 + 211 * 2_500,
  ],
  [
    'flex',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 1_103,
      candidatesTokenCount: 457,
      totalTokenCount: 1_560,
      trafficType: 'ON_DEMAND_FLEX',
    }),
    (1_103 * 300 + 457 * 2_500) / 2,
  ],
  [
    'three searches, billed once',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({ promptTokenCount: 41, candidatesTokenCount: 457, totalTokenCount: 498 }, search('a', 'b', 'c')),
    41 * 300 + 457 * 2_500 + 35_000_000,
  ],
  [
    'three searches, two of them distinct, billed each',
    'gemini/gemini-3.5-flash',
    'gemini',
    gemini({ promptTokenCount: 41, candidatesTokenCount: 457, totalTokenCount: 498 }, search('a', 'b', 'a', '')),
    41 * 1_500 + 457 * 9_000 + 2 * 14_000_000,
  ],
  [
    'places of Google Maps',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({ promptTokenCount: 41, candidatesTokenCount: 457, totalTokenCount: 498 }, maps),
    41 * 300 + 457 * 2_500 + 25_000_000,
  ],
  [
    'an image out',
    'gemini/gemini-2.5-flash-image',
    'gemini',
    gemini({
      promptTokenCount: 17,
      candidatesTokenCount: 1_321,
      totalTokenCount: 1_338,
      candidatesTokensDetails: [modality('IMAGE', 1_290), modality('TEXT', 31)],
    }),
    17 * 300 + 1_290 * 30_000 + 31 * 2_500,
  ],
  [
    'a video in and out',
    'gemini/gemini-omni-flash',
    'gemini',
    gemini({
      promptTokenCount: 2_593,
      candidatesTokenCount: 5_611,
      totalTokenCount: 8_204,
      promptTokensDetails: [modality('TEXT', 13), modality('VIDEO', 2_580)],
      candidatesTokensDetails: [modality('VIDEO', 5_600), modality('TEXT', 11)],
    }),
    13 * 1_500 + 2_580 * 2_100 + 5_600 * 17_500 + 11 * 9_000,
  ],
  [
    'a blocked prompt',
    'gemini/gemini-2.5-flash',
    'gemini',
    { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 1_103, totalTokenCount: 1_103 } },
    1_103 * 300,
  ],
]

const COHERE: readonly Case[] = [
  [
    'billed units',
    'cohere/command-a-03-2025',
    'cohere',
    {
      message: { role: 'assistant', content: [{ type: 'text', text: 'ok' }] },
      finish_reason: 'COMPLETE',
      usage: {
        tokens: { input_tokens: 1_711, output_tokens: 399 },
        billed_units: { input_tokens: 1_650, output_tokens: 388 },
      },
    },
    1_650 * 2_500 + 388 * 10_000,
  ],
]

for (const [what, target, protocol, body, due] of [
  ...CHAT,
  ...RESPONSES,
  ...MESSAGES,
  ...CONVERSE,
  ...GEMINI,
  ...COHERE,
])
  test(`cost of an answer of ${target}: ${what}`, () => assert.equal(costOf(target, protocol, body), Math.round(due)))

test('cost of a stream of Claude: the speed of its first event applies', () => {
  const decoder = upstreamProtocols['anthropic-messages'].decodeStream()
  const push = (event: JsonObject): readonly ChatEvent[] => decoder.push({ data: JSON.stringify(event) })
  const events = [
    ...push({
      type: 'message_start',
      message: { usage: { ...opus, output_tokens: 1, speed: 'fast', inference_geo: 'us' } },
    }),
    ...push({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 457 } }),
    ...push({ type: 'message_stop' }),
  ]
  const { usage } = fold(events)
  assert.ok(usage)
  const { nano } = book.costOfAttempt({
    instance: instance('anthropic', ['k1'], PROVIDERS.anthropic),
    model: 'claude-opus-4-6',
    at: 0,
    usage,
  })
  assert.equal(nano, Math.round(6.6 * OPUS))
})

test('cost: an embedding has the price of its input alone', () => {
  const model = { instance: instance('openai'), model: 'text-embedding-3-small', at: 0 }
  assert.equal(book.costOfAttempt({ ...model, usage: { input: 8_191, output: 0 } }).nano, 8_191 * 20)
  assert.equal(book.reservation({ ...model, input: 100, output: 0 }), 2_000)
})

// ── What the request asks for ───────────────────────────────────────────────────────────────────────────────────────

test('cost: a reservation has the factors that the request asks for, but no discount', () => {
  const of = { instance: instance('anthropic'), model: 'claude-opus-4-6', at: 0, input: 100, output: 10 }
  const plain = 100 * 5_000 + 10 * 25_000
  assert.equal(book.reservation(of), plain)
  assert.equal(book.reservation({ ...of, asked: { speed: 'fast' } }), 6 * plain)
  assert.equal(book.reservation({ ...of, asked: { speed: 'fast', region: 'us' } }), Math.round(6.6 * plain))
  assert.equal(book.reservation({ ...of, asked: { serviceTier: 'batch' } }), plain)
  assert.equal(book.reservation({ ...of, asked: { speed: 'standard', region: 'global' } }), plain)
})

test('cost: an answer that states no speed costs what was asked for; one that does, what it states', () => {
  const of = { instance: instance('anthropic'), model: 'claude-opus-4-6', at: 0, asked: { speed: 'fast' } }
  const usage = { input: 1_103, output: 457 }
  assert.equal(book.costOfAttempt({ ...of, usage }).nano, 6 * OPUS)
  assert.equal(book.costOfAttempt({ ...of, usage: { ...usage, speed: 'standard' } }).nano, OPUS)
})
