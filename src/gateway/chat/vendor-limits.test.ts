/**
 * Limits and combinations that a vendor refuses, although the client's format allows them: what is sent instead, and by which
 * path of the client the change is reported. Each test names a public thread with the vendor's refusal.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sent, sentTo } from '../../../test/support/sent.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'

const USER = { role: 'user', content: 'hi' }
const messages = (more: JsonObject): JsonObject => ({ max_tokens: 50, messages: [USER], ...more })
const chat = (more: JsonObject): JsonObject => ({ messages: [USER], ...more })
const responses = (more: JsonObject): JsonObject => ({ input: 'hi', ...more })

/** The value at a path such as `metadata.user_id` or `tools.0.parameters`. */
const at = (body: JsonObject, path: string): Json | undefined =>
  path.split('.').reduce<Json | undefined>((value, step) => object(value)?.[step] ?? list(value)[Number(step)], body)

// ── Identifiers ──────────────────────────────────────────────────────────────────────────────────────────────────

/** As Claude Code 2.1 writes it: 186 characters. */
const CLAUDE_CODE = JSON.stringify({
  device_id: 'a'.repeat(64),
  account_uuid: '7a3c0d52-9a1e-4a53-8f0e-2d9c57a8b101',
  session_id: '0f9d6c1e-2b47-4f6d-9a55-1c2d3e4f5a6b',
})
/** As older versions write it: 123 characters. */
const OLDER = `user_${'b'.repeat(64)}_account__session_0f9d6c1e-2b47-4f6d-9a55-1c2d3e4f5a`
const LONG = 'k'.repeat(65)

type Identifier = readonly [
  vendor: string,
  style: ClientProtocolName,
  given: JsonObject,
  path: string,
  expected: 'unchanged' | RegExp,
  dropped: readonly string[],
  only?: UpstreamProtocolName,
]
const DIGEST = /^(?:[a-z]{2,6}_)?[a-z0-9]{35,40}$/
const IDENTIFIERS: readonly Identifier[] = [
  // maximhq/bifrost#1000
  [
    'openai',
    'anthropic-messages',
    messages({ metadata: { user_id: CLAUDE_CODE } }),
    'user',
    DIGEST,
    ['metadata.user_id'],
  ],
  ['openai', 'anthropic-messages', messages({ metadata: { user_id: OLDER } }), 'user', DIGEST, ['metadata.user_id']],
  [
    'openai',
    'anthropic-messages',
    messages({ metadata: { user_id: CLAUDE_CODE } }),
    'user',
    DIGEST,
    ['metadata.user_id'],
    'openai-responses',
  ],
  [
    'azure-openai',
    'anthropic-messages',
    messages({ metadata: { user_id: OLDER } }),
    'user',
    DIGEST,
    ['metadata.user_id'],
  ],
  ['openai', 'openai-chat', chat({ user: LONG }), 'user', DIGEST, ['user']],
  ['openai', 'openai-chat', chat({ user: 'k'.repeat(64) }), 'user', 'unchanged', []],
  ['azure-openai', 'openai-responses', responses({ user: LONG }), 'user', DIGEST, ['user']],
  // OpenAI's OpenAPI document.
  ['openai', 'openai-chat', chat({ safety_identifier: LONG }), 'safety_identifier', DIGEST, ['safety_identifier']],
  [
    'openai',
    'openai-responses',
    responses({ safety_identifier: LONG }),
    'safety_identifier',
    DIGEST,
    ['safety_identifier'],
  ],
  [
    'openai',
    'openai-responses',
    responses({ safety_identifier: LONG }),
    'user',
    DIGEST,
    ['safety_identifier'],
    'openai-chat',
  ],
  // vybestack/llxprt-code#2135, alibaba/open-code-review#1007
  [
    'openai',
    'openai-responses',
    responses({ prompt_cache_key: LONG }),
    'prompt_cache_key',
    DIGEST,
    ['prompt_cache_key'],
  ],
  ['azure-openai', 'openai-chat', chat({ prompt_cache_key: LONG }), 'prompt_cache_key', DIGEST, ['prompt_cache_key']],
  [
    'openai',
    'openai-chat',
    chat({ prompt_cache_key: LONG }),
    'prompt_cache_key',
    DIGEST,
    ['prompt_cache_key'],
    'openai-responses',
  ],
  // ujisati/claude-code-provider-proxy#11
  [
    'openrouter',
    'anthropic-messages',
    messages({ metadata: { user_id: CLAUDE_CODE } }),
    'user',
    DIGEST,
    ['metadata.user_id'],
  ],
  ['openrouter', 'anthropic-messages', messages({ metadata: { user_id: OLDER } }), 'user', 'unchanged', []],
  ['openrouter', 'openai-chat', chat({ user: 'u'.repeat(129) }), 'user', DIGEST, ['user']],
  ['openrouter', 'openai-chat', chat({ user: 'u'.repeat(128) }), 'user', 'unchanged', []],
  // looplj/axonhub#1669
  ['zai', 'anthropic-messages', messages({ metadata: { user_id: CLAUDE_CODE } }), 'user', DIGEST, ['metadata.user_id']],
  ['zai', 'openai-chat', chat({ user: 'ann' }), 'user', DIGEST, ['user']],
  ['zai', 'openai-chat', chat({ user_id: 'u'.repeat(129) }), 'user_id', DIGEST, ['user_id']],
  ['zai', 'openai-responses', responses({ user: 'annika' }), 'user', 'unchanged', []],
  // deepseek-ai/DeepSeek-V3#1277, aattaran/deepclaude#17
  [
    'deepseek',
    'anthropic-messages',
    messages({ metadata: { user_id: CLAUDE_CODE } }),
    'user',
    DIGEST,
    ['metadata.user_id'],
  ],
  [
    'deepseek',
    'anthropic-messages',
    messages({ metadata: { user_id: CLAUDE_CODE } }),
    'metadata.user_id',
    DIGEST,
    ['metadata.user_id'],
    'anthropic-messages',
  ],
  ['deepseek', 'anthropic-messages', messages({ metadata: { user_id: OLDER } }), 'user', 'unchanged', []],
  ['deepseek', 'openai-chat', chat({ user: 'ann@example.com' }), 'user', DIGEST, ['user']],
  ['deepseek', 'openai-chat', chat({ user_id: 'on_Ω' }), 'user_id', DIGEST, ['user_id']],
  ['deepseek', 'openai-responses', responses({ user: 'a b' }), 'user', DIGEST, ['user']],
  // A relay to OpenAI has its limits.
  [
    'openai-compatible',
    'anthropic-messages',
    messages({ metadata: { user_id: OLDER } }),
    'user',
    DIGEST,
    ['metadata.user_id'],
  ],
  ['openai-compatible', 'openai-chat', chat({ user: OLDER }), 'user', 'unchanged', []],
]
for (const [vendor, style, given, path, expected, dropped, only] of IDENTIFIERS)
  test(`identifiers: ${vendor} receives ${path} of a ${style} client ${expected === 'unchanged' ? expected : 'as a digest'}: ${JSON.stringify(given).slice(-50)}${only ?? ''}`, () => {
    const got = sentTo(vendor, style, given, { only })
    const value = String(at(got.body, path))
    if (expected === 'unchanged') assert.ok(JSON.stringify(given).includes(value), value)
    else assert.match(value, expected)
    assert.deepEqual(got.dropped, dropped)
    assert.deepEqual(got.unfit, [])
    assert.equal(String(at(sentTo(vendor, style, given, { only }).body, path)), value, 'another digest the second time')
  })

test('identifiers: two users keep two digests, and a digest is the same in every process', () => {
  const user = (id: string) => sent('openai', 'openai-chat', chat({ user: id })).body.user
  assert.notEqual(user(`${LONG}1`), user(`${LONG}2`))
  assert.equal(user(LONG), 'u83rk0ifpjdj3jrcnjf4eduujdhqwh1ch0gasxtj')
})

// agno-agi/agno#5382 (chat completions: 40), AnswerDotAI/fastllm#45 (responses: 64)
test('identifiers: a long call id and the id of its result stay equal at OpenAI, also in the client’s own format', () => {
  const id = `call_${'x'.repeat(80)}`
  const asked = {
    messages: [
      USER,
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: id, content: 'r' },
    ],
  }
  for (const vendor of ['openai', 'azure-openai']) {
    const { body, dropped } = sent(vendor, 'openai-chat', asked)
    const short = String(at(body, 'messages.2.tool_call_id'))
    assert.match(short, /^call_[a-z0-9]{35}$/)
    assert.equal(at(body, 'messages.1.tool_calls.0.id'), short)
    assert.deepEqual(dropped, ['messages[1].tool_calls[0].id', 'messages[2].tool_call_id'])
  }
  const items = {
    input: [
      USER,
      { type: 'function_call', call_id: id, name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: id, output: 'r' },
    ],
  }
  const { body, dropped } = sent('azure-openai', 'openai-responses', items)
  assert.equal(at(body, 'input.1.call_id'), at(body, 'input.2.call_id'))
  assert.ok(String(at(body, 'input.1.call_id')).length <= 64)
  assert.deepEqual(dropped, ['input[1].call_id', 'input[2].call_id'])
  assert.ok(sent('vllm', 'openai-chat', asked).same, 'a server without the limit receives the id')
})

// can1357/oh-my-pi#284, github/app#499: item ids of Copilot have 400 characters and more.
test('identifiers: a long item id keeps its prefix at OpenAI', () => {
  const { body, dropped } = sent('openai', 'openai-responses', {
    input: [
      USER,
      { type: 'reasoning', id: `rs_${'y'.repeat(413)}`, summary: [], encrypted_content: 'gAAAAABo' },
      { type: 'message', role: 'assistant', content: 'a' },
    ],
  })
  assert.match(String(at(body, 'input.1.id')), /^rs_[a-z0-9]{40}$/)
  assert.deepEqual(dropped, ['input[1].id'])
})

// QwenLM/Qwen-Agent#228, continuedev/continue#2461
test('stop: OpenAI and Azure receive at most four sequences', () => {
  const stops = ['a', 'b', 'c', 'd', 'e']
  const azure = sent('azure-openai', 'anthropic-messages', messages({ stop_sequences: stops }), 'gpt-4.1')
  assert.deepEqual([azure.body.stop, azure.dropped], [stops.slice(0, 4), ['stop_sequences']])
  const openai = sent('openai', 'openai-chat', chat({ stop: stops }), 'gpt-4o')
  assert.deepEqual([openai.body.stop, openai.dropped], [stops.slice(0, 4), ['stop']])
  assert.deepEqual(sent('vllm', 'openai-chat', chat({ stop: stops })).dropped, [])
})

// ── Parameters of functions ──────────────────────────────────────────────────────────────────────────────────────

const EMPTY = { type: 'object', properties: {} }
const CITY = { city: { type: 'string' } }
const PARAMETERS: readonly (readonly [given: Json | undefined, expected: JsonObject])[] = [
  // containers/kubernetes-mcp-server#717, spring-projects/spring-ai#4776
  [{ type: 'object' }, EMPTY],
  [
    { type: 'object', additionalProperties: false },
    { ...EMPTY, additionalProperties: false },
  ],
  [{ type: 'object', properties: null }, EMPTY],
  [
    { type: 'object', required: [] },
    { ...EMPTY, required: [] },
  ],
  [
    { type: 'object', description: 'Nothing.', additionalProperties: true },
    { ...EMPTY, description: 'Nothing.', additionalProperties: true },
  ],
  // end-4/dots-hyprland#3640, vercel/ai#7924
  [{}, EMPTY],
  [
    { $schema: 'http://json-schema.org/draft-07/schema#' },
    { ...EMPTY, $schema: 'http://json-schema.org/draft-07/schema#' },
  ],
  [{ properties: CITY }, { type: 'object', properties: CITY }],
  [
    { type: ['object', 'null'], properties: CITY },
    { type: 'object', properties: CITY },
  ],
  [
    { type: 'object', properties: CITY },
    { type: 'object', properties: CITY },
  ],
]
for (const [given, expected] of PARAMETERS) {
  const name = JSON.stringify(given)
  test(`parameters: ${name} of a messages client, in chat completions and in responses`, () => {
    const tools = [{ name: 'f', description: 'd', input_schema: given ?? null }]
    for (const vendor of ['openai', 'azure-openai', 'groq', 'vllm', 'openai-compatible']) {
      const got = sent(vendor, 'anthropic-messages', messages({ tools }))
      assert.deepEqual(at(got.body, 'tools.0.function.parameters'), expected, vendor)
      assert.deepEqual([got.dropped, got.unfit], [[], []])
    }
    for (const vendor of ['openai', 'azure-openai', 'xai', 'deepseek']) {
      const got = sentTo(vendor, 'anthropic-messages', messages({ tools }), { only: 'openai-responses' })
      assert.deepEqual(at(got.body, 'tools.0.parameters'), expected, vendor)
    }
  })
  test(`parameters: ${name} of a chat and a responses client`, () => {
    const inner = { name: 'f', parameters: given ?? null }
    const asChat = chat({ tools: [{ type: 'function', function: inner }] })
    const asResponses = responses({ tools: [{ type: 'function', ...inner, strict: false }] })
    for (const vendor of ['openai', 'azure-openai', 'deepseek']) {
      assert.deepEqual(at(sent(vendor, 'openai-chat', asChat).body, 'tools.0.function.parameters'), expected, vendor)
      const items = sent(vendor, 'openai-responses', asResponses)
      assert.deepEqual(at(items.body, 'tools.0.parameters'), expected, vendor)
    }
    const translated = sentTo('openai', 'openai-chat', asChat, { only: 'openai-responses' })
    assert.deepEqual(at(translated.body, 'tools.0.parameters'), expected)
    const back = sent('groq', 'openai-responses', asResponses)
    assert.deepEqual(at(back.body, 'tools.0.function.parameters'), expected)
    assert.deepEqual(back.dropped, [])
  })
}

// sigoden/aichat#1049, tidewave-ai/tidewave_phoenix#224
test('parameters: arrays without items receive them in translated requests', () => {
  const given = (array: JsonObject): JsonObject => ({
    type: 'object',
    properties: { a: array, b: { anyOf: [{ type: 'null' }, array] }, c: { type: 'object', properties: { d: array } } },
    $defs: { e: array },
  })
  const tools = [{ name: 'f', input_schema: given({ type: 'array' }) }]
  const filled = given({ type: 'array', items: {} })
  const asChat = sent('openai', 'anthropic-messages', messages({ tools }))
  assert.deepEqual(at(asChat.body, 'tools.0.function.parameters'), filled)
  const asResponses = sentTo('openai', 'anthropic-messages', messages({ tools }), { only: 'openai-responses' })
  assert.deepEqual(at(asResponses.body, 'tools.0.parameters'), filled)
  const whole = given({ type: ['array', 'null'], prefixItems: [{ type: 'string' }] })
  const same = sent('openai', 'anthropic-messages', messages({ tools: [{ name: 'f', input_schema: whole }] }))
  assert.deepEqual(at(same.body, 'tools.0.function.parameters'), whole)
})

test('parameters: a function without parameters has none, also in strict mode', () => {
  const tool = (more: JsonObject) => chat({ tools: [{ type: 'function', function: { name: 'f', ...more } }] })
  assert.deepEqual(at(sent('openai', 'openai-chat', tool({})).body, 'tools.0.function'), { name: 'f' })
  const closed = { ...EMPTY, required: [], additionalProperties: false }
  const items = (more: JsonObject) => responses({ tools: [{ type: 'function', name: 'f', ...more }] })
  const strict = sent('groq', 'openai-responses', items({ strict: true, parameters: null }))
  assert.deepEqual(at(strict.body, 'tools.0.function'), { name: 'f', parameters: closed, strict: true })
  const loose = sent('groq', 'openai-responses', items({ strict: false }))
  assert.deepEqual(at(loose.body, 'tools.0.function'), { name: 'f', parameters: EMPTY })
})

// ── Members and combinations ─────────────────────────────────────────────────────────────────────────────────────

const TOOL = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: CITY } } }
const SCHEMA = { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object', properties: CITY } } }

type Adapted = readonly [
  what: string,
  vendor: string,
  model: string,
  style: ClientProtocolName,
  given: JsonObject,
  /** Members as sent; undefined: not sent. */
  expected: { readonly [path: string]: Json | undefined },
  dropped: readonly string[],
  only?: UpstreamProtocolName,
]
const ADAPTED: readonly Adapted[] = [
  // QwenLM/qwen-code#243, BerriAI/litellm#23108
  [
    'metadata without store',
    'openai',
    'gpt-4.1',
    'openai-chat',
    chat({ metadata: { a: 'b' } }),
    { metadata: undefined },
    ['metadata'],
  ],
  [
    'metadata without store',
    'azure-openai',
    'gpt-4.1',
    'openai-responses',
    responses({ metadata: { a: 'b' } }),
    { metadata: undefined },
    ['metadata'],
    'openai-chat',
  ],
  [
    'metadata with store',
    'openai',
    'gpt-4.1',
    'openai-chat',
    chat({ metadata: { a: 'b' }, store: true }),
    { metadata: { a: 'b' } },
    [],
  ],
  [
    'metadata of responses',
    'openai',
    'gpt-4.1',
    'openai-responses',
    responses({ metadata: { a: 'b' } }),
    { metadata: { a: 'b' } },
    [],
  ],
  [
    'empty metadata',
    'azure-openai',
    'gpt-4.1',
    'openai-chat',
    chat({ metadata: {}, store: false }),
    { metadata: undefined },
    [],
  ],
  // davidmigloz/langchain_dart#712, umputun/tg-spam#304; Azure: musistudio/claude-code-router#724
  [
    'an effort',
    'openai',
    'gpt-4o-mini',
    'openai-chat',
    chat({ reasoning_effort: 'low' }),
    { reasoning_effort: undefined },
    ['reasoning_effort'],
  ],
  [
    'an effort',
    'openai',
    'ft:gpt-4.1-nano-2025-04-14:acme::B1',
    'openai-chat',
    chat({ reasoning_effort: 'high' }),
    { reasoning_effort: undefined },
    ['reasoning_effort'],
  ],
  [
    'an effort',
    'azure-openai',
    'gpt-35-turbo',
    'openai-responses',
    responses({ reasoning: { effort: 'medium' } }),
    { reasoning_effort: undefined },
    ['reasoning.effort'],
    'openai-chat',
  ],
  [
    'an effort',
    'github-models',
    'openai/gpt-4.1',
    'openai-chat',
    chat({ reasoning_effort: 'low' }),
    { reasoning_effort: undefined },
    ['reasoning_effort'],
  ],
  [
    'effort none',
    'openai',
    'gpt-4o',
    'openai-chat',
    chat({ reasoning_effort: 'none' }),
    { reasoning_effort: undefined },
    [],
  ],
  [
    'an effort of a reasoning model',
    'openai',
    'gpt-5-mini',
    'openai-chat',
    chat({ reasoning_effort: 'low' }),
    { reasoning_effort: 'low' },
    [],
  ],
  [
    'an effort of an unknown deployment',
    'azure-openai',
    'prod-1',
    'openai-chat',
    chat({ reasoning_effort: 'low' }),
    { reasoning_effort: 'low' },
    [],
  ],
  [
    'an effort',
    'openai-compatible',
    'openai/gpt-4.1-mini',
    'openai-chat',
    chat({ reasoning_effort: 'low' }),
    { reasoning_effort: undefined },
    ['reasoning_effort'],
  ],
  [
    'an effort of another model',
    'openai-compatible',
    'gpt-oss-120b',
    'openai-chat',
    chat({ reasoning_effort: 'low' }),
    { reasoning_effort: 'low' },
    [],
  ],
  // RageAgainstThePixel/OpenAI-DotNet#500, BoundaryML/baml#2708
  [
    'an effort of responses',
    'openai',
    'gpt-4.1',
    'openai-responses',
    responses({ reasoning: { effort: 'high', summary: 'auto' } }),
    { reasoning: { summary: 'auto' } },
    ['reasoning.effort'],
  ],
  [
    'an effort of responses',
    'azure-openai',
    'gpt-4o',
    'openai-responses',
    responses({ reasoning: { effort: 'low' } }),
    { reasoning: undefined },
    ['reasoning.effort'],
  ],
  [
    'an effort of messages',
    'openai',
    'gpt-4o',
    'anthropic-messages',
    messages({ output_config: { effort: 'low' } }),
    { reasoning_effort: undefined },
    ['output_config.effort'],
  ],
  // google-deepmind/concordia#164
  [
    'a verbosity',
    'openai',
    'gpt-4o',
    'openai-chat',
    chat({ verbosity: 'low' }),
    { verbosity: undefined },
    ['verbosity'],
  ],
  [
    'a verbosity of responses',
    'azure-openai',
    'gpt-4.1',
    'openai-responses',
    responses({ text: { verbosity: 'high', format: { type: 'text' } } }),
    { text: { format: { type: 'text' } } },
    ['text.verbosity'],
  ],
  [
    'the usual verbosity',
    'openai',
    'gpt-4o',
    'openai-chat',
    chat({ verbosity: 'medium' }),
    { verbosity: 'medium' },
    [],
  ],
  // google-gemini/cookbook#1290, vercel/ai#8943, PublicAffairs/openai-gemini#63
  [
    'penalties',
    'gemini',
    'gemini-2.5-flash',
    'openai-chat',
    chat({ presence_penalty: 0.5, frequency_penalty: 0 }),
    { generationConfig: undefined },
    ['presence_penalty'],
  ],
  [
    'penalties',
    'vertex',
    'gemini-3-flash-preview',
    'openai-chat',
    chat({ frequency_penalty: -1 }),
    { generationConfig: undefined },
    ['frequency_penalty'],
  ],
  [
    'penalties',
    'gemini',
    'gemini-3-pro-preview',
    'openai-chat',
    chat({ presence_penalty: 0, frequency_penalty: 1 }),
    { presence_penalty: undefined, frequency_penalty: undefined },
    ['frequency_penalty'],
    'openai-chat',
  ],
  // liliMozi/openhanako#394 and #2494, ed-donner/agents#45, leookun/cursor-byok#112
  [
    'members of OpenAI',
    'gemini',
    'gemini-3-flash-preview',
    'openai-chat',
    chat({ store: false, metadata: { a: 'b' }, prompt_cache_key: 'k' }),
    { store: undefined, metadata: undefined, prompt_cache_key: undefined },
    ['metadata', 'prompt_cache_key'],
    'openai-chat',
  ],
  // UKGovernmentBEIS/inspect_ai#1460, langchain-ai/langchain#29704, langchain4j/langchain4j#3258
  [
    'single calls',
    'azure-openai',
    'o3-mini',
    'openai-chat',
    chat({ tools: [TOOL], parallel_tool_calls: false }),
    { parallel_tool_calls: undefined },
    ['parallel_tool_calls'],
  ],
  [
    'parallel calls',
    'openai',
    'o4-mini',
    'anthropic-messages',
    messages({
      tools: [{ name: 'f', input_schema: EMPTY }],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    }),
    { parallel_tool_calls: undefined },
    ['tool_choice.disable_parallel_tool_use'],
  ],
  [
    'the usual parallel calls',
    'openai',
    'o1',
    'openai-chat',
    chat({ tools: [TOOL], parallel_tool_calls: true }),
    { parallel_tool_calls: undefined },
    [],
  ],
  [
    'single calls',
    'openai',
    'gpt-5-mini',
    'openai-chat',
    chat({ tools: [TOOL], parallel_tool_calls: false }),
    { parallel_tool_calls: false },
    [],
  ],
  [
    'a bias',
    'azure-openai',
    'o4-mini',
    'openai-chat',
    chat({ logit_bias: { 5: 1 } }),
    { logit_bias: undefined },
    ['logit_bias'],
  ],
  [
    'a bias',
    'openai',
    'gpt-5-mini',
    'openai-chat',
    chat({ logit_bias: { 5: 1 } }),
    { logit_bias: undefined },
    ['logit_bias'],
  ],
  [
    'a bias of a model that samples',
    'openai',
    'gpt-4o',
    'openai-chat',
    chat({ logit_bias: { 5: 1 } }),
    { logit_bias: { 5: 1 } },
    [],
  ],
  // aws-samples/bedrock-chat#1102, anomalyco/models.dev#1468
  [
    'sampling',
    'bedrock',
    'us.anthropic.claude-opus-4-7-v1:0',
    'openai-chat',
    chat({ temperature: 0.7, top_p: 0.9 }),
    { temperature: undefined, top_p: undefined },
    ['top_p', 'temperature'],
  ],
  [
    'sampling',
    'bedrock',
    'global.anthropic.claude-sonnet-5-v1:0',
    'anthropic-messages',
    messages({ temperature: 1, top_k: 5 }),
    { temperature: undefined, top_k: undefined },
    ['top_k'],
  ],
  [
    'sampling of an older model',
    'bedrock',
    'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
    'openai-chat',
    chat({ temperature: 0.7 }),
    { temperature: 0.7 },
    [],
  ],
  // Bike4Mind/bike4mind#1089, google-gemini/gemini-cli#18977, ltmoerdani/opencode-copilot-chat#45
  [
    'a temperature',
    'moonshot',
    'kimi-k2.6',
    'openai-chat',
    chat({ temperature: 0.7 }),
    { temperature: undefined },
    ['temperature'],
  ],
  [
    'a temperature',
    'moonshot',
    'kimi-k2.5',
    'anthropic-messages',
    messages({ temperature: 0 }),
    { temperature: undefined },
    ['temperature'],
  ],
  [
    'a temperature',
    'moonshot',
    'kimi-k2.7-code',
    'openai-responses',
    responses({ temperature: 0.2, top_p: 0.9 }),
    { temperature: undefined, top_p: undefined },
    ['temperature', 'top_p'],
  ],
  [
    'the only sampling',
    'moonshot',
    'kimi-k2.6',
    'openai-chat',
    chat({ temperature: 1, top_p: 0.95, presence_penalty: 0 }),
    { temperature: undefined, top_p: undefined, presence_penalty: undefined },
    [],
  ],
  [
    'penalties',
    'moonshot',
    'kimi-k3',
    'openai-chat',
    chat({ presence_penalty: 0.1, frequency_penalty: 0 }),
    { presence_penalty: undefined, frequency_penalty: undefined },
    ['presence_penalty'],
  ],
  [
    'a temperature of an older model',
    'moonshot',
    'kimi-k2-0905-preview',
    'openai-chat',
    chat({ temperature: 0.7 }),
    { temperature: 0.7 },
    [],
  ],
  // deepseek-ai/DeepSeek-V3#1376, tickernelz/opencode-mem#253, JetBrains/koog#2179
  [
    'a required call',
    'deepseek',
    'deepseek-v4-flash',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: 'required' }),
    { tool_choice: 'required', thinking: { type: 'disabled' } },
    ['tool_choice'],
  ],
  [
    'a named call and an effort',
    'deepseek',
    'deepseek-v4-pro',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: { type: 'function', function: { name: 'f' } }, reasoning_effort: 'high' }),
    { thinking: { type: 'disabled' }, reasoning_effort: undefined },
    ['reasoning_effort'],
  ],
  [
    'a named call of messages',
    'deepseek',
    'deepseek-v4-flash',
    'anthropic-messages',
    messages({ tools: [{ name: 'f', input_schema: EMPTY }], tool_choice: { type: 'tool', name: 'f' } }),
    { thinking: { type: 'disabled' } },
    ['tool_choice'],
  ],
  [
    'a required call in its messages',
    'deepseek',
    'deepseek-v4-flash',
    'anthropic-messages',
    messages({ tools: [{ name: 'f', input_schema: EMPTY }], tool_choice: { type: 'any' } }),
    { thinking: { type: 'disabled' } },
    ['tool_choice'],
    'anthropic-messages',
  ],
  [
    'a required call without thinking',
    'deepseek',
    'deepseek-v4-flash',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: 'required', thinking: { type: 'disabled' } }),
    { thinking: { type: 'disabled' } },
    [],
  ],
  [
    'an optional call',
    'deepseek',
    'deepseek-v4-flash',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: 'auto' }),
    { thinking: undefined },
    [],
  ],
  // cloudwego/eino#994, QwenLM/qwen-code#7659, agentscope-ai/agentscope#1608
  [
    'a required call',
    'alibaba',
    'qwen3.5-plus',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: 'required', enable_thinking: true }),
    { enable_thinking: false, tool_choice: 'required' },
    ['enable_thinking'],
  ],
  [
    'a required call',
    'alibaba',
    'qwen3-235b-a22b',
    'anthropic-messages',
    messages({ tools: [{ name: 'f', input_schema: EMPTY }], tool_choice: { type: 'any' } }),
    { enable_thinking: false },
    ['tool_choice'],
  ],
  [
    'a required call',
    'alibaba',
    'qwen-plus',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: 'required' }),
    { enable_thinking: undefined },
    [],
  ],
  [
    'a required call',
    'alibaba',
    'qwen3-235b-a22b-instruct-2507',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: 'required' }),
    { enable_thinking: undefined },
    [],
  ],
  // QuantumNous/new-api#1109, coze-dev/coze-studio#324, langchain4j/langchain4j#3974
  ['a whole answer', 'alibaba', 'qwen3-32b', 'openai-chat', chat({}), { enable_thinking: false }, []],
  [
    'a whole answer',
    'alibaba',
    'qwen3-235b-a22b',
    'openai-chat',
    chat({ enable_thinking: true }),
    { enable_thinking: false },
    ['enable_thinking'],
  ],
  [
    'a stream',
    'alibaba',
    'qwen3-8b',
    'anthropic-messages',
    messages({ stream: true }),
    { enable_thinking: undefined },
    [],
  ],
  ['a whole answer', 'alibaba', 'qwen3.5-plus', 'openai-chat', chat({}), { enable_thinking: undefined }, []],
  [
    'a whole answer',
    'alibaba',
    'qwen3-coder-plus',
    'openai-responses',
    responses({}),
    { enable_thinking: undefined },
    [],
  ],
  // can1357/oh-my-pi#1077, AstrBotDevs/AstrBot#7805
  [
    'a named call',
    'moonshot',
    'kimi-k2.6',
    'openai-chat',
    chat({ tools: [TOOL], tool_choice: { type: 'function', function: { name: 'f' } } }),
    { thinking: { type: 'disabled' } },
    ['tool_choice'],
  ],
  [
    'an allowed call',
    'moonshot',
    'kimi-k2.5',
    'openai-responses',
    responses({ tools: [{ type: 'function', name: 'f', parameters: EMPTY, strict: false }], tool_choice: 'required' }),
    { thinking: { type: 'disabled' } },
    ['tool_choice'],
  ],
  // UKGovernmentBEIS/inspect_ai#4916, llm-exe/llm-exe#662
  [
    'a schema, in its responses API',
    'deepseek',
    'deepseek-v4-flash',
    'openai-chat',
    chat({ response_format: SCHEMA }),
    { 'text.format.type': 'json_schema' },
    [],
  ],
  [
    'JSON without a schema',
    'deepseek',
    'deepseek-v4-flash',
    'openai-chat',
    chat({ response_format: { type: 'json_object' } }),
    { 'response_format.type': 'json_object' },
    [],
  ],
]
for (const [what, vendor, model, style, given, expected, dropped, only] of ADAPTED)
  test(`${vendor} ${model}: ${what} of a ${style} client${only ? `, as ${only}` : ''}: ${JSON.stringify(given).slice(-60)}`, () => {
    const got = sentTo(vendor, style, given, { model, only })
    for (const [path, value] of Object.entries(expected)) assert.deepEqual(at(got.body, path), value, path)
    assert.deepEqual(got.dropped, dropped)
    assert.deepEqual(got.unfit, [])
  })

const UNFIT: readonly (readonly [
  what: string,
  vendor: string,
  style: ClientProtocolName,
  given: JsonObject,
  unfit: string,
  only?: UpstreamProtocolName,
])[] = [
  [
    'a schema where only chat completions are configured',
    'deepseek',
    'openai-chat',
    chat({ response_format: SCHEMA }),
    'response_format',
    'openai-chat',
  ],
  // vercel/ai#16540, agno-agi/agno#1065
  ['a schema beside tools', 'groq', 'openai-chat', chat({ tools: [TOOL], response_format: SCHEMA }), 'response_format'],
  [
    'JSON beside tools',
    'groq',
    'openai-chat',
    chat({ tools: [TOOL], response_format: { type: 'json_object' } }),
    'response_format',
  ],
  [
    'a schema beside tools',
    'groq',
    'openai-responses',
    responses({
      tools: [{ type: 'function', name: 'f', parameters: EMPTY }],
      text: { format: { type: 'json_schema', name: 'n', schema: EMPTY } },
    }),
    'text.format',
  ],
  ['several answers', 'moonshot', 'openai-chat', chat({ n: 2 }), 'n'],
]
for (const [what, vendor, style, given, unfit, only] of UNFIT)
  test(`${vendor}: ${what} of a ${style} client: another target is needed`, () => {
    assert.deepEqual(sentTo(vendor, style, given, { model: vendor === 'moonshot' ? 'kimi-k2.6' : 'm', only }).unfit, [
      unfit,
    ])
  })

// bytedance/deer-flow#3043, anomalyco/opencode#16318, earendil-works/pi#987
test('moonshot: calls of a model that thinks have reasoning, empty where the client sent none', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
  const asked = (more: JsonObject) => ({
    messages: [
      USER,
      { role: 'assistant', content: null, tool_calls: [call], ...more },
      { role: 'tool', tool_call_id: 'c1', content: 'r' },
    ],
  })
  const reasoning = (more: JsonObject, model: string, thinking?: JsonObject) =>
    at(
      sent('moonshot', 'openai-chat', { ...asked(more), ...(thinking && { thinking }) }, model).body,
      'messages.1.reasoning_content',
    )
  assert.equal(reasoning({}, 'kimi-k2.6'), '')
  assert.equal(reasoning({}, 'kimi-k2-thinking'), '')
  assert.equal(reasoning({ reasoning_content: 'hm' }, 'kimi-k2.5'), 'hm')
  assert.equal(reasoning({}, 'kimi-k2.6', { type: 'disabled' }), undefined)
  assert.equal(reasoning({}, 'kimi-k2-0905-preview'), undefined)
})

test('groq: a schema without tools, and tools without a schema, are sent', () => {
  assert.ok(sent('groq', 'openai-chat', chat({ response_format: SCHEMA })).same)
  assert.ok(sent('groq', 'openai-chat', chat({ tools: [TOOL], response_format: { type: 'text' } })).same)
})
