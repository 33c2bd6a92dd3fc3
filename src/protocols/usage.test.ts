/** What each format reports besides its token counts. The shapes are those of recorded answers, reduced to their usage. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatEvent, fold, type Usage } from '../core/chat.ts'
import type { Json, JsonObject } from '../core/json.ts'
import openrouter from '../providers/openrouter.ts'
import perplexity from '../providers/perplexity.ts'
import { decodeUsage as ofMessages } from './anthropic-messages/finish-and-usage.ts'
import { decodeAnswer as ofConverse } from './bedrock-converse/decode-answer.ts'
import { decodeAnswer as ofGemini } from './gemini/decode-answer.ts'
import { decodeAnswer as ofChat } from './openai-chat/decode-answer.ts'
import { decodeStream as streamOfChat } from './openai-chat/decode-stream.ts'
import { decodeAnswer as ofResponses } from './openai-responses/decode-answer.ts'

const usageIn = (events: readonly ChatEvent[]): Usage | undefined => fold(events).usage
const chat = (usage: Json, more: JsonObject = {}) =>
  usageIn(ofChat({ choices: [{ message: { content: 'a' }, finish_reason: 'stop' }], usage, ...more }))
const responses = (usage: Json, more: JsonObject = {}) =>
  usageIn(ofResponses({ status: 'completed', output: [], usage, ...more }))
const gemini = (usageMetadata: Json, candidate: JsonObject = {}) =>
  usageIn(
    ofGemini({
      candidates: [{ content: { parts: [{ text: 'a' }] }, finishReason: 'STOP', ...candidate }],
      usageMetadata,
    }),
  )
const converse = (usage: Json, more: JsonObject = {}) =>
  usageIn(ofConverse({ output: { message: { content: [{ text: 'a' }] } }, stopReason: 'end_turn', usage, ...more }))

const counts = { prompt_tokens: 20, completion_tokens: 10 }
const responseCounts = { input_tokens: 20, output_tokens: 10 }
const messageCounts = { input_tokens: 10, output_tokens: 1 }
const geminiCounts = { promptTokenCount: 20, candidatesTokenCount: 10 }
const converseCounts = { inputTokens: 20, outputTokens: 10 }
const read = { input: 20, output: 10 }

const cases: readonly (readonly [name: string, usage: Usage | undefined, expected: object])[] = [
  [
    'chat: audio in and out',
    chat({ ...counts, prompt_tokens_details: { audio_tokens: 12 }, completion_tokens_details: { audio_tokens: 4 } }),
    { ...read, audioInput: 12, audioOutput: 4 },
  ],
  ['chat: no audio', chat({ ...counts, prompt_tokens_details: { audio_tokens: 0 } }), read],
  ['chat: a service tier', chat(counts, { service_tier: 'Priority' }), { ...read, serviceTier: 'priority' }],
  ['chat: a service tier of null', chat(counts, { service_tier: null }), read],
  ['chat: an empty service tier', chat(counts, { service_tier: '' }), read],
  ['chat: a service tier of excessive length', chat(counts, { service_tier: 'x'.repeat(41) }), read],
  ["chat: Mistral's service tier", chat({ ...counts, service_tier: 'standard' }), { ...read, serviceTier: 'standard' }],
  ["chat: xAI's cost", chat({ ...counts, cost_in_usd_ticks: 5_411_000 }), { ...read, reportedCost: 541_100 }],
  ["chat: Azure's Grok with a cost of 0 ticks", chat({ ...counts, cost_in_usd_ticks: 0 }), read],
  ['chat: a cost in dollars of an unknown provider', chat({ ...counts, cost: 0.001 }), read],
  [
    "chat: OpenRouter's web search",
    chat({ ...counts, server_tool_use_details: { web_search_requests: 1 } }),
    { ...read, toolCalls: { web_search: 1 } },
  ],
  [
    "responses: xAI's cost",
    responses({ ...responseCounts, cost_in_usd_ticks: 123_456 }),
    { ...read, reportedCost: 12_345.6 },
  ],
  ['responses: a service tier', responses(responseCounts, { service_tier: 'flex' }), { ...read, serviceTier: 'flex' }],
  [
    'responses: web searches among the items, without the pages opened',
    responses(responseCounts, {
      output: [
        { type: 'web_search_call', id: 'a', status: 'completed', action: { type: 'search', query: 'x' } },
        { type: 'web_search_call', id: 'b', status: 'completed', action: { type: 'open_page', url: 'x' } },
        { type: 'web_search_call', id: 'c', status: 'completed' },
        { type: 'file_search_call', id: 'd', status: 'completed', queries: [] },
      ],
    }),
    { ...read, toolCalls: { web_search: 2, file_search: 1 } },
  ],
  [
    "responses: xAI's count of tools",
    responses({ ...responseCounts, server_side_tool_usage_details: { web_search_calls: 3, x_search_calls: 0 } }),
    { ...read, toolCalls: { web_search: 3 } },
  ],
  [
    'messages: cache writes for an hour',
    ofMessages({
      ...messageCounts,
      cache_creation_input_tokens: 2_066,
      cache_creation: { ephemeral_1h_input_tokens: 2_056, ephemeral_5m_input_tokens: 10 },
    }),
    { input: 2_076, output: 1, cacheWrite: 2_066, cacheWrite1h: 2_056 },
  ],
  [
    'messages: searches and tier; fetches are free',
    ofMessages({
      ...messageCounts,
      service_tier: 'standard',
      server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 },
    }),
    { input: 10, output: 1, toolCalls: { web_search: 2 }, serviceTier: 'standard' },
  ],
  [
    'gemini: audio and images, without what was cached',
    gemini({
      ...geminiCounts,
      cachedContentTokenCount: 5,
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: 4 },
        { modality: 'AUDIO', tokenCount: 9 },
        { modality: 'IMAGE', tokenCount: 7 },
      ],
      cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: 5 }],
      candidatesTokensDetails: [{ modality: 'AUDIO', tokenCount: 8 }],
    }),
    { ...read, cacheRead: 5, audioInput: 4, imageInput: 7, audioOutput: 8 },
  ],
  [
    'gemini: a service tier',
    gemini({ ...geminiCounts, serviceTier: 'standard' }),
    { ...read, serviceTier: 'standard' },
  ],
  [
    'gemini: flex on Vertex',
    gemini({ ...geminiCounts, trafficType: 'ON_DEMAND_FLEX' }),
    { ...read, serviceTier: 'flex' },
  ],
  ['gemini: a traffic type as a number', gemini({ ...geminiCounts, trafficType: 1 }), read],
  [
    'gemini: web searches',
    gemini(geminiCounts, { groundingMetadata: { webSearchQueries: ['one', 'two'] } }),
    { ...read, toolCalls: { web_search: 2 } },
  ],
  [
    'converse: a service tier',
    converse(converseCounts, { serviceTier: { type: 'priority' } }),
    { ...read, serviceTier: 'priority' },
  ],
  [
    'converse: cache writes for an hour',
    converse({
      ...converseCounts,
      cacheWriteInputTokens: 9,
      cacheDetails: [
        { inputTokens: 6, ttl: '1h' },
        { inputTokens: 3, ttl: '5m' },
      ],
    }),
    { input: 29, output: 10, cacheWrite: 9, cacheWrite1h: 6 },
  ],
]
for (const [name, usage, expected] of cases)
  test(`usage of ${name}`, () => {
    const { raw: _, ...members } = usage ?? { input: -1, output: -1 }
    assert.deepEqual(members, expected)
  })

test('usage of chat: a stream has the service tier of the chunk with the usage', () => {
  const reader = streamOfChat()
  const chunk = (members: JsonObject) => ({ data: JSON.stringify({ id: 'a', ...members }) })
  const events = [
    ...reader.push(chunk({ choices: [{ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }] })),
    ...reader.push(chunk({ choices: [], usage: counts, service_tier: 'flex' })),
    ...reader.push({ data: '[DONE]' }),
    ...reader.end(),
  ]
  assert.equal(usageIn(events)?.serviceTier, 'flex')
})

const dollars: readonly (readonly [
  name: string,
  correct: (usage: Usage) => Usage,
  raw: JsonObject,
  cost: number | undefined,
])[] = [
  ['OpenRouter', openrouter.quirks.usage, { cost: 0.000_5 }, 500_000],
  ['OpenRouter, free', openrouter.quirks.usage, { cost: 0, is_byok: false }, 0],
  [
    "OpenRouter with the client's own key",
    openrouter.quirks.usage,
    { cost: 0.000_001, is_byok: true, cost_details: { upstream_inference_cost: 0.000_006 } },
    7_000,
  ],
  ["OpenRouter, the vendor's part unknown", openrouter.quirks.usage, { cost: 0, is_byok: true }, undefined],
  ['OpenRouter without a cost', openrouter.quirks.usage, {}, undefined],
  ['Perplexity', perplexity.quirks.usage, { cost: { total_cost: 0.005 } }, 5_000_000],
  ['Perplexity in the middle of a stream', perplexity.quirks.usage, { cost: { total_cost: 0 } }, undefined],
]
for (const [name, correct, raw, cost] of dollars)
  test(`usage of ${name}: the cost is in nano-dollars`, () => {
    const { reportedCost } = correct({ input: 1, output: 1, raw })
    assert.equal(reportedCost === undefined ? undefined : Math.round(reportedCost), cost)
  })
