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
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import type { Provider } from '../../core/provider.ts'
import { upstreamProtocols } from '../../protocols/index.ts'
import anthropic from '../../providers/anthropic.ts'
import bedrock from '../../providers/bedrock.ts'
import openrouter from '../../providers/openrouter.ts'
import perplexity from '../../providers/perplexity.ts'
import vertex from '../../providers/vertex.ts'
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
    'gpt-5.6': {
      input: 4_000,
      output: 20_000,
      cacheRead: 400,
      cacheWrite: 5_000,
      tiers: [{ above: 272_000, input: 8_000, output: 30_000, cacheRead: 800, cacheWrite: 10_000 }],
      service: { flex: 0.5, priority: 2, batch: 0.5 },
    },
    'gpt-image-reader': { input: 2_000, output: 8_000, imageInput: 2_500, cacheRead: 500 },
    'gpt-5-mini': { input: 250, output: 2_000, cacheRead: 25 },
    'gpt-4o-search-preview': { input: 2_500, output: 10_000, tools: { web_search: 25_000_000 } },
    'gpt-audio': { input: 2_500, output: 10_000, audioInput: 32_000, audioOutput: 64_000 },
    'text-embedding-3-small': { input: 20 },
  },
  'azure-openai': {
    'gpt-5.6': { input: 4_000, output: 20_000, cacheRead: 400, service: { priority: 2 } },
    'gpt-5.1-2025-11-13': { input: 1_250, output: 10_000, cacheRead: 125 },
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
    'anthropic.claude-sonnet-4-20250514-v1:0': { input: 3_000, output: 15_000 },
    'amazon.nova-pro-v1:0': { input: 800, output: 3_200, cacheRead: 200 },
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
      imageInput: 1_600,
      audioOutput: 12_000,
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
  groq: { 'gpt-oss-120b': { input: 150, output: 600, cacheRead: 75, service: { flex: 1, batch: 0.5 } } },
  mistral: { 'mistral-large-latest': { input: 500, output: 1_500, cacheRead: 50 } },
  together: { 'llama-4-maverick': { input: 270, output: 850 } },
  fireworks: { 'kimi-k2p5': { input: 600, output: 3_000, cacheRead: 100, service: { priority: 1.5 } } },
  zai: { 'glm-5': { input: 1_000, output: 3_200, cacheRead: 200 } },
  'openai-compatible': { local: { input: 10, output: 20, cacheRead: 1 } },
  openrouter: { 'anthropic/claude-sonnet-4.5': { input: 3_000, output: 15_000 } },
} satisfies Readonly<Record<string, Readonly<Record<string, PriceList>>>>

const KNOWN = new Map<string, PriceList>(
  Object.entries(MODELS).flatMap(([provider, models]) =>
    Object.entries(models).map(([model, prices]) => [`${provider}/${model}`, prices] as const),
  ),
)
const catalogue: Catalogue = Object.assign(
  (provider: string, model: string) => {
    const name = `${provider}/${model}`
    const prices = KNOWN.get(name) ?? KNOWN.get(name.replace(/[-@]20[0-9-]{6,8}$/, ''))
    return prices && { prices }
  },
  { lists: (provider: string, model: string) => KNOWN.has(`${provider}/${model}`) },
)
const book = priceBook(catalogue, [])

/** What providers add to an answer and to prices. */
const PROVIDERS: Readonly<Record<string, Partial<Provider>>> = {
  anthropic: { service: anthropic.service },
  bedrock: { pricedAs: bedrock.pricedAs },
  vertex: { catalogue: vertex.catalogue, pricedAs: vertex.pricedAs },
  openrouter: { quirks: { usage: openrouter.quirks.usage } },
  perplexity: { quirks: { usage: perplexity.quirks.usage } },
}

const costOf = (target: string, protocol: UpstreamProtocolName, body: Json): number | null =>
  costOfEvents(target, upstreamProtocols[protocol].decodeAnswer(body))

const costOfEvents = (target: string, events: readonly ChatEvent[]): number | null => {
  const [provider = '', ...rest] = target.split('/')
  const more = PROVIDERS[provider] ?? {}
  const { usage, model } = fold(events)
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

/** `due`: null if no price is known. */
type Case = readonly [
  what: string,
  target: string,
  protocol: UpstreamProtocolName,
  body: JsonObject,
  due: number | null,
]

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
    'bedrock/global.anthropic.claude-sonnet-4-5',
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
    'bedrock/global.anthropic.claude-sonnet-4-5',
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

// ── Further situations of LiteLLM's cost cases, with other numbers ──────────────────────────────────────────────────

const OF_CHAT: readonly Case[] = [
  [
    'written tokens beside read ones',
    'openai/gpt-5.6',
    'openai-chat',
    chat({
      prompt_tokens: 91_003,
      completion_tokens: 307,
      prompt_tokens_details: { cached_tokens: 50_000, cache_write_tokens: 40_000 },
    }),
    1_003 * 4_000 + 50_000 * 400 + 40_000 * 5_000 + 307 * 20_000,
  ],
  [
    'a long prompt, read and written',
    'openai/gpt-5.6',
    'openai-chat',
    chat({
      prompt_tokens: 300_011,
      completion_tokens: 307,
      prompt_tokens_details: { cached_tokens: 50_000, cache_write_tokens: 40_000 },
    }),
    210_011 * 8_000 + 50_000 * 800 + 40_000 * 10_000 + 307 * 30_000,
  ],
  [
    'a long prompt with flex',
    'openai/gpt-5.6',
    'openai-chat',
    chat({ prompt_tokens: 300_011, completion_tokens: 1_009 }, { service_tier: 'flex' }),
    (300_011 * 8_000 + 1_009 * 30_000) / 2,
  ],
  [
    'fast, the newer name of priority',
    'openai/gpt-5.6',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { service_tier: 'fast' }),
    2 * (1_103 * 4_000 + 457 * 20_000),
  ],
  [
    'a tier of a contract',
    'openai/gpt-5.6',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { service_tier: 'scale' }),
    1_103 * 4_000 + 457 * 20_000,
  ],
  [
    'rejected predictions are output',
    'openai/gpt-5.1',
    'openai-chat',
    chat({
      prompt_tokens: 211,
      completion_tokens: 509,
      completion_tokens_details: {
        accepted_prediction_tokens: 301,
        rejected_prediction_tokens: 87,
        reasoning_tokens: 0,
      },
    }),
    211 * 1_250 + 509 * 10_000,
  ],
  [
    'audio that was read from the cache',
    'openai/gpt-audio',
    'openai-chat',
    chat({
      prompt_tokens: 2_017,
      completion_tokens: 31,
      prompt_tokens_details: {
        audio_tokens: 1_009,
        text_tokens: 1_008,
        cached_tokens: 1_000,
        cached_tokens_details: { audio_tokens: 1_000, text_tokens: 0 },
      },
    }),
    1_008 * 2_500 + 9 * 32_000 + 1_000 * 2_500 + 31 * 10_000,
  ],
  [
    'pictures in',
    'openai/gpt-image-reader',
    'openai-chat',
    chat({ prompt_tokens: 1_319, completion_tokens: 31, prompt_tokens_details: { image_tokens: 1_290 } }),
    29 * 2_000 + 1_290 * 2_500 + 31 * 8_000,
  ],
  [
    'pictures of which some were read from the cache',
    'openai/gpt-image-reader',
    'openai-chat',
    chat({
      prompt_tokens: 3_000,
      completion_tokens: 31,
      prompt_tokens_details: {
        image_tokens: 2_000,
        cached_tokens: 1_500,
        cached_tokens_details: { image_tokens: 1_200, text_tokens: 300 },
      },
    }),
    700 * 2_000 + 800 * 2_500 + 1_500 * 500 + 31 * 8_000,
  ],
  [
    "a deployment's own name, a listed snapshot",
    'azure-openai/prod-chat',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { model: 'gpt-5.1-2025-11-13' }),
    1_103 * 1_250 + 457 * 10_000,
  ],
  [
    "a deployment's own name, a snapshot that is not listed",
    'azure-openai/prod-chat',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { model: 'gpt-5.6-2026-06-01', service_tier: 'priority' }),
    2 * (1_103 * 4_000 + 457 * 20_000),
  ],
  [
    "a deployment's own name, an unknown model",
    'azure-openai/prod-chat',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457 }, { model: 'gpt-secret' }),
    null,
  ],
  [
    'usage in a member of its own',
    'groq/gpt-oss-120b',
    'openai-chat',
    { ...chat({}), usage: null, x_groq: { usage: { prompt_tokens: 97, completion_tokens: 211, total_tokens: 308 } } },
    97 * 150 + 211 * 600,
  ],
  [
    'on demand, with a cache',
    'groq/gpt-oss-120b',
    'openai-chat',
    chat(
      { prompt_tokens: 4_097, completion_tokens: 211, prompt_tokens_details: { cached_tokens: 3_840 } },
      { service_tier: 'on_demand' },
    ),
    257 * 150 + 3_840 * 75 + 211 * 600,
  ],
  [
    'text',
    'together/llama-4-maverick',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457, total_tokens: 1_560 }),
    1_103 * 270 + 457 * 850,
  ],
  [
    'priority, with a cache',
    'fireworks/kimi-k2p5',
    'openai-chat',
    chat(
      { prompt_tokens: 9_203, completion_tokens: 401, prompt_tokens_details: { cached_tokens: 8_704 } },
      { service_tier: 'priority' },
    ),
    1.5 * (499 * 600 + 8_704 * 100 + 401 * 3_000),
  ],
  [
    'a cache',
    'zai/glm-5',
    'openai-chat',
    chat({ prompt_tokens: 9_203, completion_tokens: 401, prompt_tokens_details: { cached_tokens: 9_000 } }),
    203 * 1_000 + 9_000 * 200 + 401 * 3_200,
  ],
  [
    'no word of a cache',
    'deepseek/deepseek-chat',
    'openai-chat',
    chat({ prompt_tokens: 1_103, completion_tokens: 457, total_tokens: 1_560 }),
    1_103 * 280 + 457 * 420,
  ],
  [
    'hits stated twice, and reasoning',
    'deepseek/deepseek-chat',
    'openai-chat',
    chat({
      prompt_tokens: 1_903,
      completion_tokens: 457,
      prompt_cache_hit_tokens: 1_216,
      prompt_cache_miss_tokens: 687,
      prompt_tokens_details: { cached_tokens: 1_216 },
      completion_tokens_details: { reasoning_tokens: 401 },
    }),
    687 * 280 + 1_216 * 28 + 457 * 420,
  ],
  [
    'a cache, and reasoning beside the output',
    'xai/grok-4.3',
    'openai-chat',
    chat({
      prompt_tokens: 1_903,
      completion_tokens: 412,
      total_tokens: 2_616,
      prompt_tokens_details: { cached_tokens: 1_600, text_tokens: 1_903 },
      completion_tokens_details: { reasoning_tokens: 301 },
    }),
    303 * 1_250 + 1_600 * 200 + 713 * 2_500,
  ],
  [
    'no ticks are an unknown cost',
    'xai/grok-4.3',
    'openai-chat',
    chat({ prompt_tokens: 101, completion_tokens: 99, cost_in_usd_ticks: 0 }),
    101 * 1_250 + 99 * 2_500,
  ],
  [
    'a cache written by its duration',
    'alibaba/qwen3-coder-flash',
    'openai-chat',
    chat({
      prompt_tokens: 10_032,
      completion_tokens: 5,
      prompt_tokens_details: {
        cached_tokens: 0,
        cache_creation: { ephemeral_5m_input_tokens: 10_017 },
        cache_creation_input_tokens: 10_017,
        cache_type: 'ephemeral',
      },
    }),
    15 * 300 + 10_017 * 375 + 5 * 1_500,
  ],
  [
    'a cache above a tier',
    'alibaba/qwen3-coder-flash',
    'openai-chat',
    chat({ prompt_tokens: 40_003, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 39_936 } }),
    67 * 500 + 39_936 * 120 + 9 * 2_500,
  ],
  [
    'an answer without a search',
    'perplexity/sonar',
    'openai-chat',
    chat({ prompt_tokens: 14, completion_tokens: 371 }),
    14 * 1_000 + 371 * 1_000,
  ],
  [
    "a router's fee, with the client's own key",
    'openrouter/anthropic/claude-sonnet-4.5',
    'openai-chat',
    chat({
      prompt_tokens: 14,
      completion_tokens: 371,
      cost: 0.000_2,
      is_byok: true,
      cost_details: { upstream_inference_cost: 0.005_607 },
    }),
    5_807_000,
  ],
  [
    "a router's fee alone says nothing",
    'openrouter/anthropic/claude-sonnet-4.5',
    'openai-chat',
    chat({ prompt_tokens: 14, completion_tokens: 371, cost: 0, is_byok: true }),
    14 * 3_000 + 371 * 15_000,
  ],
  [
    'no stated cost of a router',
    'openrouter/anthropic/claude-sonnet-4.5',
    'openai-chat',
    chat({ prompt_tokens: 14, completion_tokens: 371 }),
    14 * 3_000 + 371 * 15_000,
  ],
  [
    'a free answer of a router',
    'openrouter/anthropic/claude-sonnet-4.5',
    'openai-chat',
    chat({ prompt_tokens: 14, completion_tokens: 371, cost: 0 }),
    0,
  ],
  [
    'timings of llama.cpp',
    'openai-compatible/local',
    'openai-chat',
    { ...chat({}), usage: null, timings: { prompt_n: 17, cache_n: 300, predicted_n: 41 } },
    17 * 10 + 300 * 1 + 41 * 20,
  ],
]

const OF_RESPONSES: readonly Case[] = [
  [
    'written tokens',
    'openai/gpt-5.6',
    'openai-responses',
    responses({
      input_tokens: 9_203,
      output_tokens: 401,
      input_tokens_details: { cached_tokens: 4_096, cache_write_tokens: 5_000 },
    }),
    107 * 4_000 + 4_096 * 400 + 5_000 * 5_000 + 401 * 20_000,
  ],
  [
    'flex',
    'openai/gpt-5.1',
    'openai-responses',
    responses({ input_tokens: 1_103, output_tokens: 457 }, { service_tier: 'flex' }),
    (1_103 * 1_250 + 457 * 10_000) / 2,
  ],
  [
    'files searched three times',
    'openai/gpt-5.1',
    'openai-responses',
    responses(
      { input_tokens: 1_103, output_tokens: 457 },
      { output: [call('file_search_call'), call('file_search_call'), call('file_search_call')] },
    ),
    1_103 * 1_250 + 457 * 10_000 + 3 * 2_500_000,
  ],
  [
    'run code has no price here',
    'openai/gpt-5.1',
    'openai-responses',
    responses({ input_tokens: 1_103, output_tokens: 457 }, { output: [call('code_interpreter_call')] }),
    1_103 * 1_250 + 457 * 10_000,
  ],
  [
    'an answer that was cut short',
    'openai/gpt-5.1',
    'openai-responses',
    responses(
      { input_tokens: 1_103, output_tokens: 457 },
      { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    ),
    1_103 * 1_250 + 457 * 10_000,
  ],
]

const step = (type: string, usage: JsonObject): JsonObject => ({
  type,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
  ...usage,
})
const OF_MESSAGES: readonly Case[] = [
  [
    'a compaction that the totals do not include',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({
      ...opus,
      iterations: [step('compaction', { input_tokens: 180_007, output_tokens: 3_511 }), step('message', opus)],
    }),
    OPUS + 180_007 * 5_000 + 3_511 * 25_000,
  ],
  [
    'a compaction that read and wrote a cache',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({
      ...opus,
      iterations: [
        step('compaction', {
          input_tokens: 7,
          output_tokens: 3_511,
          cache_read_input_tokens: 150_001,
          cache_creation_input_tokens: 2_003,
          cache_creation: { ephemeral_5m_input_tokens: 1_003, ephemeral_1h_input_tokens: 1_000 },
        }),
        step('message', opus),
      ],
    }),
    OPUS + 7 * 5_000 + 3_511 * 25_000 + 150_001 * 500 + 1_003 * 6_250 + 1_000 * 10_000,
  ],
  [
    'a fast answer after a compaction',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({
      ...opus,
      speed: 'fast',
      iterations: [step('compaction', { input_tokens: 60_000, output_tokens: 1_000 }), step('message', opus)],
    }),
    6 * (OPUS + 60_000 * 5_000 + 1_000 * 25_000),
  ],
  [
    'each step has the tier of its own prompt',
    'anthropic/claude-sonnet-4-5',
    'anthropic-messages',
    messages({
      ...opus,
      iterations: [step('compaction', { input_tokens: 205_003, output_tokens: 900 }), step('message', opus)],
    }),
    1_103 * 3_000 + 457 * 15_000 + 205_003 * 6_000 + 900 * 22_500,
  ],
  [
    'the advice of a dearer model',
    'anthropic/claude-sonnet-4-5',
    'anthropic-messages',
    messages({
      ...opus,
      iterations: [
        step('message', { input_tokens: 503, output_tokens: 57 }),
        step('advisor_message', { model: 'claude-opus-4-6', input_tokens: 2_728, output_tokens: 3_880 }),
        step('message', { input_tokens: 600, output_tokens: 400 }),
      ],
    }),
    1_103 * 3_000 + 457 * 15_000 + 2_728 * 5_000 + 3_880 * 25_000,
  ],
  [
    'the advice of a model without a price',
    'anthropic/claude-sonnet-4-5',
    'anthropic-messages',
    messages({
      ...opus,
      iterations: [step('advisor_message', { model: 'claude-secret', input_tokens: 2_728, output_tokens: 3_880 })],
    }),
    3_831 * 3_000 + 4_337 * 15_000,
  ],
  [
    'an attempt that was declined',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({
      ...opus,
      iterations: [
        step('message', { model: 'claude-fable-5', input_tokens: 408, output_tokens: 0 }),
        step('fallback_message', { model: 'claude-opus-4-6', ...opus }),
      ],
    }),
    OPUS,
  ],
  [
    'a batch',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({ ...opus, service_tier: 'batch' }),
    OPUS / 2,
  ],
  [
    'a tier of a contract',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({ ...opus, service_tier: 'priority' }),
    OPUS,
  ],
  [
    'written for an hour above 200k',
    'anthropic/claude-sonnet-4-5',
    'anthropic-messages',
    messages({
      input_tokens: 4_099,
      output_tokens: 479,
      cache_creation_input_tokens: 200_704,
      cache_creation: { ephemeral_5m_input_tokens: 200_003, ephemeral_1h_input_tokens: 701 },
    }),
    4_099 * 6_000 + 479 * 22_500 + 200_003 * 7_500 + 701 * 12_000,
  ],
  [
    'thoughts are part of the output',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({ ...opus, output_tokens_details: { thinking_tokens: 401 } }),
    OPUS,
  ],
  [
    'pages that were fetched are free',
    'anthropic/claude-opus-4-6',
    'anthropic-messages',
    messages({ ...opus, server_tool_use: { web_search_requests: 0, web_fetch_requests: 4 } }),
    OPUS,
  ],
  ['Claude on Vertex AI', 'vertex/claude-sonnet-4-5@20250929', 'anthropic-messages', messages(opus), 10_164_000],
  ['an unknown model of another vendor there', 'vertex/mistral-large@2411', 'anthropic-messages', messages(opus), null],
]

const turn = { inputTokens: 1_103, outputTokens: 457, totalTokens: 1_560 }
const SONNET = 1_103 * 3_000 + 457 * 15_000
const OF_CONVERSE: readonly Case[] = [
  ['a profile of a region', 'bedrock/us.anthropic.claude-sonnet-4-5', 'bedrock-converse', converse(turn), 1.1 * SONNET],
  ['a profile of Europe', 'bedrock/eu.anthropic.claude-sonnet-4-5', 'bedrock-converse', converse(turn), 1.1 * SONNET],
  ['a global profile', 'bedrock/global.anthropic.claude-sonnet-4-5', 'bedrock-converse', converse(turn), SONNET],
  [
    'a profile of a region, of an older Claude',
    'bedrock/apac.anthropic.claude-sonnet-4-20250514-v1:0',
    'bedrock-converse',
    converse(turn),
    SONNET,
  ],
  [
    'a profile of a region, of another vendor',
    'bedrock/us.amazon.nova-pro-v1:0',
    'bedrock-converse',
    converse({ ...turn, cacheReadInputTokens: 4_003, totalTokens: 5_563 }),
    1_103 * 800 + 4_003 * 200 + 457 * 3_200,
  ],
  [
    'the ARN of a profile',
    'bedrock/arn:aws:bedrock:us-west-2:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5',
    'bedrock-converse',
    converse(turn),
    1.1 * SONNET,
  ],
  [
    'the ARN of an application names no model',
    'bedrock/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123',
    'bedrock-converse',
    converse(turn),
    null,
  ],
  [
    'a profile of a region, with a cache and priority',
    'bedrock/us.anthropic.claude-sonnet-4-5',
    'bedrock-converse',
    converse(
      { ...turn, cacheReadInputTokens: 9_001, cacheWriteInputTokens: 2_003, totalTokens: 12_564 },
      { serviceTier: { type: 'priority' } },
    ),
    1.1 * 1.75 * (SONNET + 9_001 * 300 + 2_003 * 3_750),
  ],
  [
    'flex',
    'bedrock/global.anthropic.claude-sonnet-4-5',
    'bedrock-converse',
    converse(turn, { serviceTier: { type: 'flex' } }),
    SONNET / 2,
  ],
]

const plain = { promptTokenCount: 1_103, candidatesTokenCount: 457, totalTokenCount: 1_560 }
const OF_GEMINI: readonly Case[] = [
  [
    'audio of which some was read from the cache',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 2_017,
      cachedContentTokenCount: 1_200,
      candidatesTokenCount: 31,
      totalTokenCount: 2_048,
      promptTokensDetails: [modality('TEXT', 517), modality('AUDIO', 1_500)],
      cacheTokensDetails: [modality('TEXT', 200), modality('AUDIO', 1_000)],
    }),
    317 * 300 + 500 * 1_000 + 1_200 * 30 + 31 * 2_500,
  ],
  [
    'results of its own tools are input',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 41,
      toolUsePromptTokenCount: 3_001,
      candidatesTokenCount: 457,
      thoughtsTokenCount: 101,
      totalTokenCount: 3_600,
    }),
    3_042 * 300 + 558 * 2_500,
  ],
  [
    'pictures in',
    'gemini/gemini-3.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 1_331,
      candidatesTokenCount: 31,
      totalTokenCount: 1_362,
      promptTokensDetails: [modality('TEXT', 41), modality('IMAGE', 1_290)],
    }),
    41 * 1_500 + 1_290 * 1_600 + 31 * 9_000,
  ],
  [
    'speech out',
    'gemini/gemini-3.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 41,
      candidatesTokenCount: 811,
      totalTokenCount: 852,
      candidatesTokensDetails: [modality('AUDIO', 800), modality('TEXT', 11)],
    }),
    41 * 1_500 + 800 * 12_000 + 11 * 9_000,
  ],
  [
    'an image out after thoughts',
    'gemini/gemini-2.5-flash-image',
    'gemini',
    gemini({
      promptTokenCount: 17,
      candidatesTokenCount: 1_290,
      thoughtsTokenCount: 203,
      totalTokenCount: 1_510,
      candidatesTokensDetails: [modality('IMAGE', 1_290)],
    }),
    17 * 300 + 1_290 * 30_000 + 203 * 2_500,
  ],
  [
    'a video without a price of its own',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({
      promptTokenCount: 2_593,
      candidatesTokenCount: 31,
      totalTokenCount: 2_624,
      promptTokensDetails: [modality('TEXT', 13), modality('VIDEO', 2_580)],
    }),
    2_593 * 300 + 31 * 2_500,
  ],
  [
    'queries of Google Maps are no web searches',
    'gemini/gemini-3.5-flash',
    'gemini',
    gemini(plain, { groundingMetadata: { ...maps.groundingMetadata, webSearchQueries: ['cafés near the station'] } }),
    1_103 * 1_500 + 457 * 9_000 + 14_000_000,
  ],
  [
    'places and pages',
    'gemini/gemini-3.5-flash',
    'gemini',
    gemini(plain, {
      groundingMetadata: {
        webSearchQueries: ['a', 'b'],
        groundingChunks: [{ maps: { uri: 'https://maps.test/1' } }, { web: { uri: 'https://a.test' } }],
      },
    }),
    1_103 * 1_500 + 457 * 9_000 + 3 * 14_000_000,
  ],
  [
    'priority',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({ ...plain, trafficType: 'ON_DEMAND_PRIORITY' }),
    1.8 * (1_103 * 300 + 457 * 2_500),
  ],
  [
    'throughput of a contract',
    'gemini/gemini-2.5-flash',
    'gemini',
    gemini({ ...plain, trafficType: 'PROVISIONED_THROUGHPUT' }),
    1_103 * 300 + 457 * 2_500,
  ],
  [
    'above 200k with a cache',
    'gemini/gemini-2.5-pro',
    'gemini',
    gemini({
      promptTokenCount: 205_827,
      cachedContentTokenCount: 201_728,
      candidatesTokenCount: 480,
      totalTokenCount: 206_307,
    }),
    4_099 * 2_500 + 201_728 * 250 + 480 * 15_000,
  ],
  ['Gemini on Vertex AI', 'vertex/gemini-2.5-flash', 'gemini', gemini(plain), 1_103 * 300 + 457 * 2_500],
]

const OF_OTHERS: readonly Case[] = [
  [
    'a cache',
    'mistral/mistral-large-latest',
    'mistral',
    chat({
      prompt_tokens: 9_203,
      completion_tokens: 401,
      total_tokens: 9_604,
      prompt_tokens_details: { cached_tokens: 9_000 },
    }),
    203 * 500 + 9_000 * 50 + 401 * 1_500,
  ],
  [
    'a cache by its older name',
    'mistral/mistral-large-latest',
    'mistral',
    chat({ prompt_tokens: 9_203, completion_tokens: 401, total_tokens: 9_604, num_cached_tokens: 9_000 }),
    203 * 500 + 9_000 * 50 + 401 * 1_500,
  ],
  [
    'tokens without billed units',
    'cohere/command-a-03-2025',
    'cohere',
    {
      message: { role: 'assistant', content: [{ type: 'text', text: 'ok' }] },
      finish_reason: 'COMPLETE',
      usage: { tokens: { input_tokens: 1_711, output_tokens: 399 } },
    },
    1_711 * 2_500 + 399 * 10_000,
  ],
]

const CASES = [
  ...CHAT,
  ...RESPONSES,
  ...MESSAGES,
  ...CONVERSE,
  ...GEMINI,
  ...COHERE,
  ...OF_CHAT,
  ...OF_RESPONSES,
  ...OF_MESSAGES,
  ...OF_CONVERSE,
  ...OF_GEMINI,
  ...OF_OTHERS,
]
const rounded = (due: number | null) => (due === null ? null : Math.round(due))
for (const [what, target, protocol, body, due] of CASES)
  test(`cost of an answer of ${target}: ${what}`, () => assert.equal(costOf(target, protocol, body), rounded(due)))

// ── Streams: what they state at their end costs the same ────────────────────────────────────────────────────────────

type Frames = readonly { readonly event?: string; readonly data: JsonObject }[]

/** The answer as a stream: its content in one event, its usage where the format has it. */
const STREAMS: { readonly [protocol in UpstreamProtocolName]?: (body: JsonObject) => Frames } = {
  'openai-chat': ({ choices, usage = null, ...more }) => [
    {
      data: {
        ...more,
        choices: list(choices).map((choice) => ({ ...object(choice), delta: object(choice)?.message ?? null })),
      },
    },
    { data: { ...more, choices: [], usage } },
  ],
  'openai-responses': (body) => [
    {
      data: {
        type: `response.${body.status === 'incomplete' ? 'incomplete' : 'completed'}`,
        response: { id: 'resp_1', ...body },
      },
    },
  ],
  'anthropic-messages': ({ usage, content: _, ...message }) => [
    {
      data: {
        type: 'message_start',
        message: { ...message, content: [], usage: { ...object(usage), iterations: null, output_tokens: 1 } },
      },
    },
    { data: { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: usage ?? null } },
    { data: { type: 'message_stop' } },
  ],
  gemini: (body) => [{ data: { ...body, usageMetadata: { promptTokenCount: 1 } } }, { data: body }],
}

for (const [what, target, protocol, body, due] of CASES) {
  const framesOf = STREAMS[protocol]
  if (framesOf)
    test(`cost of a stream of ${target}: ${what}`, () => {
      const decoder = upstreamProtocols[protocol].decodeStream()
      const events = framesOf(body).flatMap(({ data }) => decoder.push({ data: JSON.stringify(data) }))
      assert.equal(costOfEvents(target, [...events, ...decoder.end()]), rounded(due))
    })
}

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

test('cost: Claude on Vertex AI costs more in a region, from 4.5 on', () => {
  const usage = { input: 1_000, output: 100 }
  const cost = (model: string, LOCATION: string) =>
    book.costOfAttempt({
      instance: { ...instance('vertex', ['k1'], PROVIDERS.vertex), variables: { LOCATION } },
      model,
      at: 0,
      usage,
    }).nano
  assert.equal(cost('claude-sonnet-4-5@20250929', 'global'), 4_500_000)
  assert.equal(cost('claude-sonnet-4-5@20250929', 'us-east5'), 4_950_000)
  assert.equal(cost('anthropic/claude-opus-5', 'eu'), 8_250_000)
  assert.equal(cost('gemini-2.5-flash', 'europe-west1'), 550_000)
})

test('cost: an answer that names the model of a profile has the price of the profile', () => {
  const made = instance('bedrock', ['k1'], PROVIDERS.bedrock)
  const usage = { input: 1_000, output: 100 }
  const cost = (model: string) =>
    book.costOfAttempt({ instance: made, model, at: 0, usage, answering: 'anthropic.claude-sonnet-4-5' }).nano
  assert.equal(cost('global.anthropic.claude-sonnet-4-5'), 4_500_000)
  assert.equal(cost('jp.anthropic.claude-sonnet-4-5'), 4_950_000)
  assert.equal(cost('anthropic.claude-sonnet-4-5'), 4_950_000)
})

test('cost: a rule of the operator has the price of a regional profile as it is written', () => {
  const made = instance('bedrock', ['k1'], PROVIDERS.bedrock)
  const own = priceBook(catalogue, [
    {
      id: 'prc_aaaaaaaaaaaa',
      provider: 'bedrock',
      model: 'us.anthropic.*',
      effectiveFrom: 0,
      prices: { input: 1_000 },
      managed: 'file',
    },
  ])
  const usage = { input: 1_000, output: 100 }
  const of = { instance: made, model: 'us.anthropic.claude-sonnet-4-5', at: 0 }
  assert.equal(own.costOfAttempt({ ...of, usage }).nano, 1_000 * 1_000 + 1.1 * 100 * 15_000)
  assert.equal(own.reservation({ ...of, input: 1_000, output: 100 }), 2_650_000)
})
