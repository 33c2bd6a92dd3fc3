/**
 * The requests that each vendor receives, with the real provider files: refused members are removed or renamed, for
 * requests in the same format and for translated ones, and removed members are reported. The provider files cite sources.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sent } from '../../../test/support/sent.ts'
import type { JsonObject } from '../../core/json.ts'

const CALL = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const TOOL = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: 'r' }
const USER = { role: 'user', content: 'u' }
const called = (more: JsonObject = {}) => ({ role: 'assistant', content: null, tool_calls: [CALL], ...more })
const talk = (assistant: JsonObject, more: JsonObject = {}) => ({
  messages: [USER, assistant, RESULT],
  tools: [TOOL],
  ...more,
})
const PACKED = {
  type: 'reasoning.text',
  text: 't',
  signature: 'sig',
  id: 'hg:',
  format: 'anthropic-claude-v1',
  index: 0,
}
const THEIRS = { type: 'reasoning.text', text: 't', signature: 'sig', format: 'anthropic-claude-v1', index: 0 }

// ── Members of messages, in the client's own format ──────────────────────────────────────────────────────────────

type Row = readonly [vendor: string, given: JsonObject, assistant: JsonObject, dropped: readonly string[]]
const MESSAGES: readonly Row[] = [
  ['groq', called({ reasoning_content: 't' }), called({ reasoning: 't' }), []],
  ['cerebras', called({ reasoning_content: 't', reasoning: 't' }), called({ reasoning: 't' }), []],
  ['groq', called({ reasoning_details: [THEIRS] }), called(), ['messages[1].reasoning_details']],
  ['groq', called({ reasoning: null, refusal: null, annotations: [] }), called({ reasoning: null }), []],
  ['groq', called({ audio: { id: 'a' } }), called(), ['messages[1].audio']],
  ['cerebras', { role: 'assistant', content: null, refusal: 'no' }, { role: 'assistant', content: 'no' }, []],
  ['together', called({ reasoning_content: 't' }), called({ reasoning: 't' }), []],
  ['fireworks', called({ reasoning: 't' }), called({ reasoning_content: 't' }), []],
  [
    'openai',
    called({ reasoning_content: 't', reasoning: 't' }),
    called(),
    ['messages[1].reasoning_content', 'messages[1].reasoning'],
  ],
  ['azure-openai', called({ reasoning_content: '' }), called(), []],
  ['openrouter', called({ reasoning_details: [THEIRS] }), called({ reasoning_details: [THEIRS] }), []],
  [
    'openrouter',
    called({ reasoning: 't', reasoning_details: [PACKED, THEIRS] }),
    called({ reasoning: 't', reasoning_details: [THEIRS] }),
    ['messages[1].reasoning_details[0]'],
  ],
  ['openai-compatible', called({ reasoning_content: 't', foo: 1 }), called({ reasoning_content: 't', foo: 1 }), []],
  ['openai-compatible', called({ reasoning_details: [PACKED] }), called(), ['messages[1].reasoning_details[0]']],
  ['deepseek', called(), called({ reasoning_content: '' }), []],
  ['deepseek', called({ reasoning: 't' }), called({ reasoning_content: 't' }), []],
  ['deepseek', { role: 'assistant', content: 'x' }, { role: 'assistant', content: 'x' }, []],
]
for (const [vendor, given, assistant, dropped] of MESSAGES)
  test(`${vendor} receives ${JSON.stringify(given)} as ${JSON.stringify(assistant)}`, () => {
    const { body, ...rest } = sent(vendor, 'openai-chat', talk(given))
    assert.deepEqual((body.messages as readonly unknown[])[1], assistant)
    assert.deepEqual(rest.dropped, dropped)
    assert.deepEqual(rest.unfit, [])
  })

// ── Members of the body, in the client's own format ──────────────────────────────────────────────────────────────

type BodyRow = readonly [vendor: string, model: string, given: JsonObject, sent: JsonObject, dropped: readonly string[]]
const BODIES: readonly BodyRow[] = [
  ['cerebras', 'm', { store: false }, {}, []],
  ['cerebras', 'm', { store: true }, {}, ['store']],
  ['cerebras', 'm', { presence_penalty: 0, frequency_penalty: 0.5 }, {}, ['frequency_penalty']],
  ['cerebras', 'm', { reasoning: { effort: 'low' } }, { reasoning_effort: 'low' }, []],
  ['groq', 'm', { store: false, service_tier: 'flex' }, { service_tier: 'flex' }, []],
  ['groq', 'm', { reasoning: { effort: 'low', max_tokens: 9 } }, { reasoning_effort: 'low' }, ['reasoning.max_tokens']],
  ['xai', 'grok-4.3', { presence_penalty: 0, stop: ['x'] }, {}, ['stop']],
  ['xai', 'grok-4.20-0309-non-reasoning', { presence_penalty: 1, stop: ['x'] }, { stop: ['x'] }, ['presence_penalty']],
  ['xai', 'grok-4.3', { reasoning_effort: 'low' }, { reasoning_effort: 'low' }, []],
  ['xai', 'grok-4-0709', { reasoning_effort: 'low' }, {}, ['reasoning_effort']],
  [
    'openai-compatible',
    'm',
    { max_completion_tokens: 5, metadata: { a: 'b' } },
    { max_tokens: 5, metadata: { a: 'b' } },
    [],
  ],
  ['openai-compatible', 'openai/gpt-5-mini', { max_completion_tokens: 5 }, { max_completion_tokens: 5 }, []],
]
for (const [vendor, model, given, expected, dropped] of BODIES)
  test(`${vendor} ${model} receives ${JSON.stringify(given)} as ${JSON.stringify(expected)}`, () => {
    const { body, dropped: named } = sent(vendor, 'openai-chat', { messages: [USER], ...given }, model)
    const { model: _, messages: __, ...rest } = body
    assert.deepEqual(rest, expected)
    assert.deepEqual(named, dropped)
  })

for (const vendor of ['groq', 'cerebras', 'openai', 'together', 'deepseek', 'perplexity', 'vllm', 'openai-compatible'])
  test(`${vendor}: a supported body passes through byte for byte`, () => {
    const { same, dropped } = sent(vendor, 'openai-chat', {
      messages: [{ role: 'system', content: 's' }, USER, { role: 'assistant', content: 'a' }, USER],
      temperature: 0.5,
      max_tokens: 5,
    })
    assert.ok(same)
    assert.deepEqual(dropped, [])
  })

// ── Translated ───────────────────────────────────────────────────────────────────────────────────────────────────

const OPTIONAL = {
  input: 'hi',
  store: false,
  metadata: { a: 'b' },
  prompt_cache_key: 'k',
  service_tier: 'flex',
  text: { verbosity: 'low' },
}

test('optional members are sent to vendors that accept them', () => {
  const { body, dropped } = sent('openai', 'anthropic-messages', {
    messages: [USER],
    max_tokens: 5,
    service_tier: 'auto',
    metadata: { user_id: 'x' },
  })
  assert.equal(body.service_tier, 'auto')
  assert.deepEqual(dropped, [])
})

for (const vendor of ['groq', 'cerebras', 'together', 'vllm', 'perplexity'])
  test(`${vendor}: optional members of a translated request are dropped and reported`, () => {
    const { body, dropped } = sent(vendor, 'openai-responses', OPTIONAL)
    for (const member of ['store', 'metadata', 'prompt_cache_key', 'service_tier', 'verbosity'])
      assert.equal(body[member], undefined, member)
    assert.deepEqual([...dropped].sort(), ['metadata', 'prompt_cache_key', 'service_tier', 'text.verbosity'])
  })

test('default values of optional members are removed without a report', () => {
  const usual = { input: 'hi', store: false, metadata: {}, service_tier: 'auto', text: { verbosity: 'medium' } }
  const { body, dropped } = sent('groq', 'openai-responses', usual)
  assert.deepEqual(Object.keys(body).sort(), ['messages', 'model'])
  assert.deepEqual(dropped, [])
})

const thinking = (signature: string) => ({
  max_tokens: 2_048,
  messages: [
    USER,
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 't', signature },
        { type: 'tool_use', id: 'call_1', name: 'f', input: {} },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'r' }] },
  ],
  tools: [{ name: 'f', input_schema: { type: 'object' } }],
})
const assistantOf = ({ messages }: JsonObject) =>
  (messages as readonly JsonObject[]).find(({ role }) => role === 'assistant') ?? {}

for (const [vendor, member] of [
  ['groq', 'reasoning'],
  ['cerebras', 'reasoning'],
  ['together', 'reasoning'],
  ['fireworks', 'reasoning_content'],
] as const)
  test(`${vendor}: plain reasoning of earlier turns is sent as ${member}`, () => {
    const own = sent(vendor, 'anthropic-messages', thinking(''))
    assert.equal(assistantOf(own.body)[member], 't')
    assert.deepEqual(own.dropped, [])
    const items = sent(vendor, 'openai-responses', {
      input: [
        { role: 'user', content: 'u' },
        { type: 'reasoning', id: 'rs_hg_1', summary: [], content: [{ type: 'reasoning_text', text: 't' }] },
        { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'call_1', output: 'r' },
      ],
    })
    assert.equal(assistantOf(items.body)[member], 't')
  })

test('reasoning signed by another vendor is dropped and reported', () => {
  const { body, dropped } = sent('groq', 'anthropic-messages', thinking('sealed by Claude'))
  assert.equal(assistantOf(body).reasoning, undefined)
  assert.deepEqual(dropped, ['messages[1].content[0]'])
})

// ── Single vendors ───────────────────────────────────────────────────────────────────────────────────────────────

test('perplexity: a request with tools or their history is unfit', () => {
  assert.deepEqual(sent('perplexity', 'openai-chat', { messages: [USER], tools: [TOOL] }).unfit, ['tools[0]'])
  assert.deepEqual(sent('perplexity', 'openai-chat', { messages: [USER, called(), RESULT] }).unfit, [
    'messages[1].tool_calls[0]',
    'messages[2]',
  ])
  assert.deepEqual(sent('perplexity', 'anthropic-messages', thinking('')).unfit.length, 3)
})

test('perplexity and vllm: adjacent messages of one role are merged', () => {
  const picture = { type: 'image_url', image_url: { url: 'https://x/y.png' } }
  for (const vendor of ['perplexity', 'vllm']) {
    const { body, dropped } = sent(vendor, 'openai-chat', {
      messages: [
        { role: 'system', content: 's' },
        USER,
        { role: 'user', content: [picture] },
        { role: 'assistant', content: 'a' },
        { role: 'assistant', content: 'b' },
        USER,
      ],
    })
    assert.deepEqual(body.messages, [
      { role: 'system', content: 's' },
      { role: 'user', content: [{ type: 'text', text: 'u' }, picture] },
      { role: 'assistant', content: 'a\n\nb' },
      USER,
    ])
    assert.deepEqual(dropped, [])
  }
})

test('perplexity: system messages are moved to the front', () => {
  const { body } = sent('perplexity', 'openai-chat', { messages: [USER, { role: 'system', content: 's' }, USER] })
  assert.deepEqual(body.messages, [
    { role: 'system', content: 's' },
    { role: 'user', content: 'u\n\nu' },
  ])
})

test('deepseek: an image makes the target unfit, in both formats', () => {
  const chat = sent('deepseek', 'openai-chat', {
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }],
  })
  assert.deepEqual(chat.unfit, ['messages[0].content[0]'])
  const items = sent('deepseek', 'openai-responses', {
    input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA==' }] }],
  })
  assert.deepEqual(items.unfit, ['input[0].content[0]'])
})

test('deepseek: no reasoning member is added if thinking is disabled', () => {
  const { same } = sent('deepseek', 'openai-chat', talk(called(), { thinking: { type: 'disabled' } }))
  assert.ok(same)
})

const EFFORTS: readonly (readonly [model: string, effort: string | undefined, style: string])[] = [
  ['gpt-5.4-mini', 'low', 'responses'],
  ['gpt-5.4-mini', 'none', 'chat'],
  ['gpt-5.4-mini', undefined, 'chat'],
  ['gpt-5.6-terra', undefined, 'responses'],
  ['gpt-5.6-terra', 'none', 'chat'],
  ['gpt-5.5-chat-latest', undefined, 'chat'],
  ['gpt-6-search-api', undefined, 'chat'],
  ['gpt-5-mini', 'low', 'chat'],
  ['gpt-4.1', undefined, 'chat'],
]
for (const vendor of ['openai', 'azure-openai'])
  for (const [model, effort, style] of EFFORTS)
    test(`${vendor} ${model}: tools with effort ${effort} go to ${style}`, () => {
      const more = effort === undefined ? {} : { reasoning_effort: effort }
      const got = sent(vendor, 'openai-chat', { messages: [USER], tools: [TOOL], ...more }, model)
      assert.equal(got.style, style)
      assert.deepEqual(got.unfit, [])
      assert.deepEqual(got.dropped, [])
    })

// ── Reasoning items ──────────────────────────────────────────────────────────────────────────────────────────────

const OWN = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAAABo' }
const conversation = (...items: readonly JsonObject[]) => ({
  input: [
    { role: 'user', content: 'u' },
    ...items,
    { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: 'r' },
  ],
})
for (const vendor of ['openai', 'azure-openai']) {
  test(`${vendor}: its own reasoning items pass through byte for byte`, () => {
    assert.ok(sent(vendor, 'openai-responses', conversation(OWN)).same)
    assert.ok(sent(vendor, 'openai-responses', conversation({ type: 'reasoning', id: 'rs_1', summary: [] })).same)
  })
  const FOREIGN: readonly JsonObject[] = [
    { ...OWN, encrypted_content: 'm/Nx6gggg' },
    { type: 'reasoning', id: '1f2e', summary: [], content: [{ type: 'reasoning_text', text: 't' }] },
    { type: 'reasoning', id: 'rs_2', summary: [], content: [{ type: 'reasoning_text', text: 't' }] },
  ]
  for (const item of FOREIGN)
    test(`${vendor}: ${JSON.stringify(item)} is dropped and reported`, () => {
      const { body, dropped } = sent(vendor, 'openai-responses', conversation(item))
      assert.deepEqual((body.input as readonly unknown[]).length, 3)
      assert.deepEqual(dropped, ['input[1]'])
    })
  test(`${vendor}: plain text beside encrypted reasoning is dropped, ids of other vendors are removed`, () => {
    const { body, dropped } = sent(vendor, 'openai-responses', {
      input: [
        { ...OWN, content: [{ type: 'reasoning_text', text: 't' }] },
        {
          type: 'message',
          id: '1f2e',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'a', annotations: [] }],
        },
        { type: 'function_call', id: 'call_9', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', id: 'x', call_id: 'c', output: 'r' },
        { id: '3a4b', role: 'assistant', content: 'a' },
        { id: 'msg_1', role: 'assistant', content: 'a' },
      ],
    })
    const [reasoning, message, call, , untyped, ownUntyped] = body.input as readonly JsonObject[]
    assert.deepEqual(reasoning, OWN)
    assert.equal(message?.id, undefined)
    assert.equal(call?.id, undefined)
    assert.deepEqual([untyped?.id, ownUntyped?.id], [undefined, 'msg_1'])
    assert.deepEqual(dropped, ['input[0].content'])
  })
}

// ── Claude with a thinking budget ────────────────────────────────────────────────────────────────────────────────

const enabled = { thinking: { type: 'enabled', budget_tokens: 1_024 } }
for (const vendor of ['anthropic', 'vertex']) {
  const model = 'claude-sonnet-4-5'
  test(`${vendor}: thinking is disabled and reported if the last call was another vendor's`, () => {
    const { body, dropped } = sent(vendor, 'anthropic-messages', { ...thinking(''), ...enabled }, model)
    assert.equal(body.thinking, undefined)
    assert.deepEqual(
      dropped.filter((path) => !path.startsWith('messages')),
      ['thinking'],
    )
  })
  test(`${vendor}: thinking stays enabled if the last call has a thinking block, or was answered`, () => {
    const own = sent(vendor, 'anthropic-messages', { ...thinking('sealed'), ...enabled }, model)
    assert.deepEqual(own.body.thinking, enabled.thinking)
    const { messages } = thinking('')
    const later = [...messages, { role: 'assistant', content: 'a' }, USER]
    const answered = sent(vendor, 'anthropic-messages', { ...thinking(''), ...enabled, messages: later }, model)
    assert.deepEqual(answered.body.thinking, enabled.thinking)
  })
}
test('anthropic: context edits that require thinking are dropped with it', () => {
  const edits = [{ type: 'clear_thinking_20251015' }, { type: 'clear_tool_uses_20250919' }]
  const given = { ...thinking(''), ...enabled, context_management: { edits } }
  const { body, dropped } = sent('anthropic', 'anthropic-messages', given, 'claude-sonnet-4-5')
  assert.deepEqual(body.context_management, { edits: [edits[1]] })
  assert.ok(dropped.includes('context_management.edits[0]'))
})

test('call ids are shortened for chat completions of OpenAI, and still match their results', () => {
  const { messages } = thinking('')
  const long = JSON.parse(JSON.stringify(messages).replaceAll('call_1', `chatcmpl-tool-${'a'.repeat(32)}`))
  const { body } = sent('openai', 'anthropic-messages', { max_tokens: 9, messages: long }, 'gpt-4.1')
  const [, assistant, result] = body.messages as readonly JsonObject[]
  const id = String(result?.tool_call_id)
  assert.ok(id.length <= 40, id)
  assert.ok(JSON.stringify(assistant?.tool_calls).includes(id))
})

// ── Members that a model takes one by one ────────────────────────────────────────────────────────────────────────

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
const FORMAT = { type: 'json_schema', json_schema: { name: 'n', strict: true, schema: SCHEMA } }
const OR_TOOLS = 'takes a schema or tools, not both in one request'
/** Vendor, model, format, and the cause by which the request with tools is unfit. */
const COMBINATIONS: readonly (readonly [vendor: string, model: string, format: JsonObject, because?: string])[] = [
  // googleapis/python-genai#867, openai/openai-agents-python#656
  ['gemini', 'gemini-2.5-flash', FORMAT, OR_TOOLS],
  ['gemini', 'gemini-2.0-flash', FORMAT, OR_TOOLS],
  ['gemini', 'gemini-3-pro', FORMAT],
  ['vertex', 'gemini-2.5-pro', FORMAT, OR_TOOLS],
  // lfnovo/esperanto#95
  ['cohere', 'command-a-03-2025', FORMAT, OR_TOOLS],
  // vercel/ai#16540
  ['groq', 'llama-3.3-70b', { type: 'json_object' }, 'takes JSON mode or tools, not both in one request'],
]
for (const [vendor, model, format, because] of COMBINATIONS)
  test(`combinations: ${vendor}/${model} with ${format.type} and tools`, () => {
    const given = { messages: [USER], tools: [TOOL], response_format: format }
    const result = sent(vendor, 'openai-chat', given, model)
    assert.deepEqual(result.unfit, because === undefined ? [] : ['response_format'])
    assert.equal(result.because, because)
    const { tools: _, ...alone } = given
    assert.deepEqual(sent(vendor, 'openai-chat', alone, model).unfit, [])
  })
