import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ACCEPTS_ALL } from '../../../test/support/accepts-all.ts'
import type { ChatRequest, GenerationSettings, Message, Part } from '../../core/chat.ts'
import type { FailureKind } from '../../core/failure.ts'
import { type JsonObject, list, object, parseJson } from '../../core/json.ts'
import type { Loss } from '../../core/protocol.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import { openaiChat } from './index.ts'

const user = { role: 'user', content: 'hi' }
const decode = (body: JsonObject): ChatRequest => {
  const outcome = openaiChat.decodeRequest(body)
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.failure.message)
  return outcome.value
}
const withMessages = (...messages: JsonObject[]): readonly Message[] => decode({ model: 'm', messages }).messages

// ── Rejected ─────────────────────────────────────────────────────────────────────────────────────────────────────

const refused: readonly (readonly [body: JsonObject, kind: FailureKind, param: string])[] = [
  [{ messages: [user] }, 'missing_parameter', 'model'],
  [{ model: '', messages: [user] }, 'missing_parameter', 'model'],
  [{ model: '  ', messages: [user] }, 'missing_parameter', 'model'],
  [{ model: 5, messages: [user] }, 'invalid_value', 'model'],
  [{ model: 'm' }, 'missing_parameter', 'messages'],
  [{ model: 'm', messages: [] }, 'invalid_value', 'messages'],
  [{ model: 'm', messages: 'hi' }, 'invalid_value', 'messages'],
  [{ model: 'm', messages: ['hi'] }, 'invalid_value', 'messages[0]'],
  [{ model: 'm', messages: [{ content: 'hi' }] }, 'missing_parameter', 'messages[0].role'],
  [{ model: 'm', messages: [{ role: 'agent', content: 'hi' }] }, 'invalid_value', 'messages[0].role'],
  [{ model: 'm', messages: [{ role: 'user' }] }, 'missing_parameter', 'messages[0].content'],
  [{ model: 'm', messages: [{ role: 'user', content: 5 }] }, 'invalid_value', 'messages[0].content'],
  [{ model: 'm', messages: [{ role: 'user', content: [5] }] }, 'invalid_value', 'messages[0].content[0]'],
  [
    { model: 'm', messages: [{ role: 'user', content: [{ text: 'x' }] }] },
    'missing_parameter',
    'messages[0].content[0].type',
  ],
  [
    { model: 'm', messages: [{ role: 'user', content: [{ type: 'text' }] }] },
    'missing_parameter',
    'messages[0].content[0].text',
  ],
  [
    { model: 'm', messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
    'missing_parameter',
    'messages[0].content[0].image_url.url',
  ],
  [{ model: 'm', messages: [{ role: 'tool', content: 'x' }] }, 'missing_parameter', 'messages[0].tool_call_id'],
  [
    {
      model: 'm',
      messages: [
        { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: {} } }] },
      ],
    },
    'invalid_value',
    'messages[0].tool_calls[0].function.arguments',
  ],
  [{ model: 'm', messages: [user], stream: 'yes' }, 'invalid_value', 'stream'],
  [{ model: 'm', messages: [user], temperature: 'hot' }, 'invalid_value', 'temperature'],
  [{ model: 'm', messages: [user], temperature: Number.POSITIVE_INFINITY }, 'invalid_value', 'temperature'],
  [{ model: 'm', messages: [user], max_tokens: -1 }, 'invalid_value', 'max_tokens'],
  [{ model: 'm', messages: [user], max_tokens: 1.5 }, 'invalid_value', 'max_tokens'],
  [{ model: 'm', messages: [user], max_tokens: '100' }, 'invalid_value', 'max_tokens'],
  [{ model: 'm', messages: [user], max_completion_tokens: 0 }, 'invalid_value', 'max_completion_tokens'],
  [{ model: 'm', messages: [user], n: 500 }, 'invalid_value', 'n'],
  [{ model: 'm', messages: [user], stop: [1] }, 'invalid_value', 'stop'],
  [{ model: 'm', messages: [user], seed: 'x' }, 'invalid_value', 'seed'],
  [{ model: 'm', messages: [user], metadata: { a: 1 } }, 'invalid_value', 'metadata'],
  [{ model: 'm', messages: [user], reasoning_effort: {} }, 'invalid_value', 'reasoning_effort'],
  [{ model: 'm', messages: [user], response_format: {} }, 'missing_parameter', 'response_format.type'],
  [
    { model: 'm', messages: [user], response_format: { type: 'json_schema' } },
    'missing_parameter',
    'response_format.json_schema',
  ],
  [{ model: 'm', messages: [user], tools: {} }, 'invalid_value', 'tools'],
  [
    { model: 'm', messages: [user], tools: [{ type: 'function', function: {} }] },
    'missing_parameter',
    'tools[0].function.name',
  ],
  [{ model: 'm', messages: [user], tools: [{ type: 'function' }] }, 'missing_parameter', 'tools[0].function'],
  [{ model: 'm', messages: [user], tool_choice: 5 }, 'invalid_value', 'tool_choice'],
  [{ model: 'm', messages: [user], tool_choice: { type: 'function' } }, 'invalid_value', 'tool_choice'],
  [{ model: 'm', messages: [user], stream_options: true }, 'invalid_value', 'stream_options'],
]
for (const [body, kind, param] of refused)
  test(`chat request refused: ${JSON.stringify(body).slice(0, 110)}`, () => {
    const outcome = openaiChat.decodeRequest(body)
    assert.ok(!outcome.ok)
    const { failure } = outcome
    assert.deepEqual([failure.kind, failure.param], [kind, param])
    assert.match(failure.message, /must be|missing/)
    const error = openaiChat.encodeFailure(failure, { requestId: 'req_abc' })
    assert.doesNotMatch(JSON.stringify(error), RETRY_TRIGGERS)
  })

test('chat request: an index in a path does not look like an HTTP status', () => {
  const messages = Array.from({ length: 505 }, (_, index) => (index === 500 ? { role: 'user', content: 5 } : user))
  const outcome = openaiChat.decodeRequest({ model: 'm', messages })
  assert.ok(!outcome.ok)
  assert.doesNotMatch(
    JSON.stringify(openaiChat.encodeFailure(outcome.failure, { requestId: 'req_abc' })),
    RETRY_TRIGGERS,
  )
})

// ── Read ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const settings: readonly (readonly [wire: JsonObject, settings: GenerationSettings])[] = [
  [{ max_tokens: 5 }, { maxOutputTokens: { value: 5, at: 'max_tokens' } }],
  [{ max_tokens: 5, max_completion_tokens: 6 }, { maxOutputTokens: { value: 6, at: 'max_completion_tokens' } }],
  [
    { temperature: 0, top_p: 0.5 },
    { temperature: { value: 0, at: 'temperature' }, topP: { value: 0.5, at: 'top_p' } },
  ],
  [{ stop: 'x' }, { stop: { value: ['x'], at: 'stop' } }],
  [{ stop: ['x', 'y'] }, { stop: { value: ['x', 'y'], at: 'stop' } }],
  [{ seed: 7 }, { seed: { value: 7, at: 'seed' } }],
  [
    { n: 2, logprobs: true, top_logprobs: 3 },
    {
      choices: { value: 2, at: 'n' },
      logprobs: { value: true, at: 'logprobs' },
      topLogprobs: { value: 3, at: 'top_logprobs' },
    },
  ],
  // Default values are omitted.
  [
    {
      n: 1,
      logprobs: false,
      presence_penalty: 0,
      parallel_tool_calls: true,
      response_format: { type: 'text' },
      service_tier: 'auto',
      stop: null,
    },
    {},
  ],
  [{ tool_choice: 'required' }, { toolChoice: { value: { kind: 'required' }, at: 'tool_choice' } }],
  [
    { tool_choice: { type: 'function', function: { name: 'f' } } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [
    { tool_choice: { type: 'custom', custom: { name: 'f' } } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [
    {
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
    },
    { toolChoice: { value: { kind: 'allowed', mode: 'required', names: ['f'] }, at: 'tool_choice' } },
  ],
  [{ function_call: { name: 'f' } }, { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'function_call' } }],
  [{ response_format: { type: 'json_object' } }, { format: { value: { kind: 'json' }, at: 'response_format' } }],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } } },
    {
      format: {
        value: { kind: 'schema', name: 'a', schema: { type: 'object' }, strict: false },
        at: 'response_format',
        paths: { schema: 'json_schema.schema' },
      },
    },
  ],
  // Groq's name for the effort that applies without the member.
  [{ reasoning_effort: 'default' }, {}],
  // The name is optional.
  [
    { response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } } },
    {
      format: {
        value: { kind: 'schema', name: 'response', schema: { type: 'object' }, strict: false },
        at: 'response_format',
        paths: { schema: 'json_schema.schema' },
      },
    },
  ],
  // The flat form of llama.cpp, Together and the responses format.
  [
    { response_format: { type: 'json_schema', schema: { type: 'object' }, strict: true } },
    {
      format: {
        value: { kind: 'schema', name: 'response', schema: { type: 'object' }, strict: true },
        at: 'response_format',
      },
    },
  ],
  [
    { tool_choice: { function: { name: 'f' } } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  // The forms of the responses and messages formats.
  [
    { tool_choice: { type: 'function', name: 'f' } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [
    { tool_choice: { type: 'tool', name: 'f' } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [{ reasoning_effort: 'xhigh' }, { effort: { value: 'xhigh', at: 'reasoning_effort' } }],
  [{ reasoning: { effort: 'low' } }, { effort: { value: 'low', at: 'reasoning.effort' } }],
  [
    { thinking: { type: 'enabled', budget_tokens: 2000 } },
    { thinkingBudget: { value: 2000, at: 'thinking.budget_tokens' } },
  ],
  [{ thinking: { type: 'disabled' } }, { thinkingBudget: { value: 0, at: 'thinking' } }],
  [{ store: false }, { store: { value: false, at: 'store' } }],
  [{ user: 'u' }, { user: { value: 'u', at: 'user' } }],
  [{ safety_identifier: 's' }, { user: { value: 's', at: 'safety_identifier' } }],
  [
    { metadata: { a: 'b' }, prompt_cache_key: 'k', verbosity: 'low', service_tier: 'flex' },
    {
      metadata: { value: { a: 'b' }, at: 'metadata' },
      promptCacheKey: { value: 'k', at: 'prompt_cache_key' },
      verbosity: { value: 'low', at: 'verbosity' },
      serviceTier: { value: 'flex', at: 'service_tier' },
    },
  ],
  [{ stream_options: { include_usage: true } }, { streamUsage: { value: true, at: 'stream_options.include_usage' } }],
]
for (const [wire, expected] of settings)
  test(`chat setting: ${JSON.stringify(wire).slice(0, 100)}`, () => {
    const { settings: read, extras } = decode({ model: 'm', messages: [user], ...wire })
    assert.deepEqual(read, expected)
    assert.deepEqual(extras, [])
  })

test('chat request: a 64-bit seed keeps all digits', () => {
  const body = parseJson(
    '{"model":"m","messages":[{"role":"user","content":"x"}],"seed":9007199254740993}',
  ) as JsonObject
  const { settings: read } = decode(body)
  assert.equal(JSON.stringify(read.seed?.value), '9007199254740993')
  assert.match(JSON.stringify(openaiChat.passing.adaptRequest(body, { model: 'n' })), /9007199254740993/)
})

const unknown: readonly (readonly [wire: JsonObject, at: string, essential: boolean])[] = [
  [{ reasoning_effort: 'huge' }, 'reasoning_effort', false],
  [{ response_format: { type: 'regex', value: 'a+' } }, 'response_format', true],
  [{ tool_choice: 'always' }, 'tool_choice', true],
  [{ tool_choice: { type: 'web_search' } }, 'tool_choice', true],
]
for (const [wire, at, essential] of unknown)
  test(`chat request: an unknown value is passed through and becomes an extra: ${JSON.stringify(wire)}`, () => {
    const body = { model: 'm', messages: [user], ...wire }
    const { extras, settings } = decode(body)
    assert.deepEqual(
      extras.map((extra) => [extra.at, extra.essential]),
      [[at, essential]],
    )
    assert.deepEqual(settings, {})
    assert.equal(openaiChat.passing.adaptRequest(body, { model: 'm' }), body)
  })

test('chat request: unknown members become extras with their paths', () => {
  const { extras } = decode({
    model: 'm',
    messages: [user],
    zzz: 1,
    nothing: null,
    user: 'u',
    safety_identifier: 's',
    web_search_options: {},
    modalities: ['text', 'audio'],
    stream_options: { include_obfuscation: false },
    thinking: { type: 'adaptive' },
    reasoning: { exclude: true },
    response_format: { type: 'json_object', extra: 1 },
  })
  assert.deepEqual(extras.map(({ at, essential }) => [at, essential]).toSorted(), [
    ['modalities', true],
    ['reasoning.exclude', false],
    ['response_format.extra', false],
    ['safety_identifier', false],
    ['stream_options.include_obfuscation', false],
    ['thinking', false],
    ['web_search_options', true],
    ['zzz', false],
  ])
})

const contents: readonly (readonly [wire: JsonObject, part: Part])[] = [
  [
    { type: 'text', text: 'x', cache_control: { type: 'ephemeral' } },
    {
      type: 'text',
      at: 'a',
      text: 'x',
      extras: [{ at: 'a.cache_control', name: 'cache_control', value: { type: 'ephemeral' }, essential: false }],
    },
  ],
  [
    { type: 'image_url', image_url: { url: 'https://x.example/a.png', detail: 'low' } },
    {
      type: 'image',
      at: 'a',
      source: { kind: 'url', url: 'https://x.example/a.png' },
      detail: 'low',
      paths: { detail: 'image_url.detail' },
    },
  ],
  [
    { type: 'image_url', image_url: { url: 'data:image/PNG;charset=x;base64,AA,=' } },
    { type: 'image', at: 'a', source: { kind: 'data', mediaType: 'image/png', data: 'AA,=' } },
  ],
  [
    { type: 'image_url', image_url: 'https://x.example/a.png' },
    { type: 'image', at: 'a', source: { kind: 'url', url: 'https://x.example/a.png' } },
  ],
  [
    { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } },
    { type: 'audio', at: 'a', data: 'AA', format: 'wav' },
  ],
  [
    { type: 'file', file: { file_id: 'file_1' } },
    { type: 'file', at: 'a', source: { kind: 'id', id: 'file_1', protocol: 'openai-chat' } },
  ],
  [
    { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AA' } },
    {
      type: 'file',
      at: 'a',
      source: { kind: 'data', mediaType: 'application/pdf', data: 'AA' },
      filename: 'a.pdf',
      paths: { filename: 'file.filename' },
    },
  ],
  [
    { type: 'file', file: { file_data: 'AA==' } },
    { type: 'file', at: 'a', source: { kind: 'data', mediaType: '', data: 'AA==' } },
  ],
  [
    { type: 'refusal', refusal: 'no' },
    { type: 'refusal', at: 'a', text: 'no' },
  ],
  [
    { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
    { type: 'reasoning', at: 'a', text: 'hm' },
  ],
  [
    { type: 'video_url', video_url: { url: 'x' } },
    { type: 'foreign', at: 'a', protocol: 'openai-chat', raw: { type: 'video_url', video_url: { url: 'x' } } },
  ],
]
for (const [wire, part] of contents)
  test(`chat content: ${JSON.stringify(wire).slice(0, 100)}`, () => {
    const [message] = withMessages({ role: 'user', content: [wire] })
    assert.deepEqual(JSON.parse(JSON.stringify(message?.content[0]).replaceAll('messages[0].content[0]', 'a')), part)
  })

test('chat messages: a turn with reasoning, text, calls and results', () => {
  const messages = withMessages(
    { role: 'system', content: 'be brief', name: 's' },
    { role: 'developer', content: [{ type: 'text', text: 'be kind' }] },
    {
      role: 'assistant',
      content: 'let me see',
      reasoning_content: 'hm',
      refusal: null,
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' }, extra_content: { google: {} } },
        { id: 'c2', type: 'custom', custom: { name: 'g', input: 'free' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'one' }] },
  )
  assert.deepEqual(
    messages.map(({ role, extras }) => [role, extras?.map(({ at }) => at)]),
    [
      ['system', ['messages[0].name']],
      ['system', undefined],
      ['assistant', ['messages[2].tool_calls[0].extra_content']],
      ['tool', undefined],
    ],
  )
  assert.deepEqual(messages[2]?.content, [
    { type: 'reasoning', at: 'messages[2].reasoning_content', text: 'hm' },
    { type: 'text', at: 'messages[2].content', text: 'let me see' },
    { type: 'tool-call', at: 'messages[2].tool_calls[0]', id: 'c1', name: 'f', arguments: '{"a":1}' },
    { type: 'tool-call', at: 'messages[2].tool_calls[1]', id: 'c2', name: 'g', arguments: 'free', custom: true },
  ])
})

test('chat messages: signatures are read from reasoning_details, complete or in fragments', () => {
  const [message] = withMessages({
    role: 'assistant',
    content: 'x',
    reasoning: 'ab',
    reasoning_details: [
      { type: 'reasoning.text', text: 'a', format: 'anthropic-claude-v1', index: 0 },
      { type: 'reasoning.text', text: 'b', format: 'anthropic-claude-v1', index: 0 },
      { type: 'reasoning.text', signature: 'sig', format: 'anthropic-claude-v1', index: 0 },
      { type: 'reasoning.encrypted', data: 'sealed', format: 'anthropic-claude-v1', index: 1 },
      { type: 'reasoning.summary', summary: 's', format: 'openai-responses-v1', index: 2 },
      { type: 'reasoning.encrypted', data: 'enc', id: 'rs_1', format: 'openai-responses-v1', index: 2 },
      { type: 'unknown' },
    ],
  })
  assert.deepEqual(
    message?.content.map(({ at, ...part }) => part),
    [
      { type: 'reasoning', text: 'ab', signature: { origin: 'anthropic-messages', value: 'sig' } },
      { type: 'reasoning', text: '', signature: { origin: 'anthropic-messages', value: 'sealed', redacted: true } },
      {
        type: 'reasoning',
        text: 's',
        summary: true,
        signature: { origin: 'openai-responses', value: 'enc', id: 'rs_1' },
      },
      { type: 'text', text: 'x' },
    ],
  )
})

test('chat messages: results of deprecated function calls refer to their calls', () => {
  const request = decode({
    model: 'm',
    functions: [{ name: 'f', parameters: { type: 'object' } }],
    messages: [
      user,
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
      { role: 'function', name: 'f', content: '1' },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{"a":2}' } },
      { role: 'function', name: 'f', content: '2' },
    ],
  })
  const ids = request.messages.flatMap((message) =>
    message.role === 'tool'
      ? [message.callId]
      : message.content.flatMap((part) => (part.type === 'tool-call' ? [part.id] : [])),
  )
  assert.equal(ids.length, 4)
  assert.equal(ids[0], ids[1])
  assert.equal(ids[2], ids[3])
  assert.notEqual(ids[0], ids[2])
  assert.deepEqual(request.settings.parallelToolCalls, { value: false, at: '' })
  assert.deepEqual(request.tools, [
    { kind: 'function', at: 'functions[0]', name: 'f', parameters: { type: 'object' }, strict: false },
  ])
})

// ── Written ──────────────────────────────────────────────────────────────────────────────────────────────────────

const base: ChatRequest = {
  model: 'asked',
  stream: false,
  messages: [{ role: 'user', at: 'input', content: [{ type: 'text', at: 'input', text: 'hi' }] }],
  tools: [],
  settings: {},
  extras: [],
}
const image: Part = { type: 'image', at: 'i', source: { kind: 'data', mediaType: '', data: 'iVBORw0KGgo=' } }
const reasoning: Part = {
  type: 'reasoning',
  at: 'r',
  text: 'hm',
  signature: { origin: 'anthropic-messages', value: 's' },
}
const call: Part = { type: 'tool-call', at: 'c', id: 'c1', name: 'f', arguments: '' }
const foreign: Part = { type: 'foreign', at: 'x', protocol: 'anthropic-messages', raw: { type: 'server_tool_use' } }
const words = (text: string): Part => ({ type: 'text', at: 't', text })

const written: readonly (readonly [
  name: string,
  request: Partial<ChatRequest>,
  body: JsonObject,
  losses: readonly Loss[],
])[] = [
  ['plain', {}, { model: 'target', messages: [user] }, []],
  ['stream', { stream: true }, { stream: true, stream_options: { include_usage: true } }, []],
  ['limit', { settings: { maxOutputTokens: { value: 5, at: 'max_output_tokens' } } }, { max_completion_tokens: 5 }, []],
  [
    'settings without an equivalent',
    {
      settings: {
        topK: { value: 5, at: 'top_k' },
        thinkingBudget: { value: 0, at: 'thinking' },
        serviceTier: { value: 'standard_only', at: 'service_tier' },
      },
    },
    {},
    [
      { path: 'top_k', essential: false },
      { path: 'thinking', essential: false },
      { path: 'service_tier', essential: false },
    ],
  ],
  ['store false', { settings: { store: { value: false, at: 'store' } } }, { store: false }, []],
  [
    'extras',
    {
      extras: [
        { at: 'background', name: 'background', value: true, essential: true },
        { at: 'x', name: 'x', value: 1, essential: false },
      ],
    },
    {},
    [
      { path: 'background', essential: true },
      { path: 'x', essential: false },
    ],
  ],
  [
    'a tool choice without tools',
    {
      settings: {
        toolChoice: { value: { kind: 'auto' }, at: 'tool_choice' },
        parallelToolCalls: { value: false, at: 'p' },
      },
    },
    { tool_choice: undefined, parallel_tool_calls: undefined },
    [],
  ],
  [
    'tools; strict only with a schema that allows it',
    {
      tools: [
        {
          kind: 'function',
          at: 'tools[0]',
          name: 'f',
          parameters: { type: 'object', properties: { a: {} } },
          strict: true,
        },
        {
          kind: 'function',
          at: 'tools[1]',
          name: 'g',
          parameters: { type: 'object', properties: {}, additionalProperties: false },
          strict: true,
        },
        { kind: 'custom', at: 'tools[2]', name: 'h', format: { type: 'grammar', syntax: 'lark', definition: 'd' } },
        { kind: 'foreign', at: 'tools[3]', protocol: 'openai-responses', raw: { type: 'web_search' } },
      ],
      settings: { toolChoice: { value: { kind: 'tool', name: 'h' }, at: 'tool_choice' } },
    },
    {
      tools: [
        { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: {} } } } },
        {
          type: 'function',
          function: {
            name: 'g',
            parameters: { type: 'object', properties: {}, additionalProperties: false },
            strict: true,
          },
        },
        {
          type: 'custom',
          custom: { name: 'h', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'd' } } },
        },
      ],
      tool_choice: { type: 'custom', custom: { name: 'h' } },
    },
    [{ path: 'tools[3]', essential: true }],
  ],
  [
    'images of tool results follow in a user message',
    {
      messages: [
        {
          role: 'assistant',
          at: 'a',
          content: [reasoning, words('x'), words('y'), call, { ...call, id: 'c2'.padEnd(70, 'x') }],
        },
        { role: 'tool', at: 'b', callId: 'c1', content: [words('one'), image], isError: true },
        { role: 'tool', at: 'b', callId: 'c2'.padEnd(70, 'x'), content: [image] },
        { role: 'user', at: 'u', content: [words('go on')] },
      ],
    },
    {
      messages: [
        {
          role: 'assistant',
          content: 'xy',
          tool_calls: [
            { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
            {
              id: 'call_o3t8r0dnxt4wg3ruwbj1x7nrlybv1yxv8o6',
              type: 'function',
              function: { name: 'f', arguments: '{}' },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'Error: one' },
        {
          role: 'tool',
          tool_call_id: 'call_o3t8r0dnxt4wg3ruwbj1x7nrlybv1yxv8o6',
          content: 'The result is in the next user message.',
        },
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          ],
        },
        { role: 'user', content: 'go on' },
      ],
    },
    [{ path: 'r', essential: false }],
  ],
  [
    'parts that cannot be carried',
    {
      messages: [
        { role: 'system', at: 's', as: 'developer', content: [words('x'), image] },
        {
          role: 'user',
          at: 'u',
          content: [{ type: 'file', at: 'f', source: { kind: 'url', url: 'https://x.example' } }, words('y'), foreign],
        },
        { role: 'assistant', at: 'a', content: [reasoning] },
      ],
    },
    {
      messages: [
        { role: 'system', content: 'x' },
        { role: 'user', content: 'y' },
      ],
    },
    [
      { path: 'i', essential: true },
      { path: 'f', essential: true },
      { path: 'x', essential: true },
      { path: 'r', essential: false },
    ],
  ],
]
for (const [name, request, body, losses] of written)
  test(`chat request written: ${name}`, () => {
    const encoded = openaiChat.encodeRequest(
      { ...base, ...request },
      { model: 'target', supportsCustomTools: true, ...ACCEPTS_ALL },
    )
    const shown = Object.fromEntries(Object.keys(body).map((member) => [member, encoded.body[member]]))
    assert.deepEqual(shown, body)
    assert.deepEqual(encoded.losses, losses)
  })

test('chat request written: earlier reasoning is sent to a provider that accepts it', () => {
  const messages: Message[] = [{ role: 'assistant', at: 'a', content: [reasoning, call] }]
  const { body, losses } = openaiChat.encodeRequest({ ...base, messages }, { model: 'm', acceptsReasoning: true })
  assert.equal((body.messages as JsonObject[])[0]?.reasoning_content, 'hm')
  assert.deepEqual(losses, [])
})

test('chat request written: each member has the path of its source', () => {
  const { from } = openaiChat.encodeRequest(
    {
      ...base,
      settings: {
        maxOutputTokens: { value: 5, at: 'max_output_tokens' },
        format: { value: { kind: 'json' }, at: 'text.format' },
      },
    },
    { model: 'm' },
  )
  assert.deepEqual(from, {
    messages: 'input',
    max_completion_tokens: 'max_output_tokens',
    response_format: 'text.format',
  })
})

test('chat request, same format: only model and stream usage change', () => {
  const body = {
    model: 'm',
    stream: true,
    messages: [user],
    stream_options: { include_obfuscation: true },
    x: { y: 1 },
  }
  const adapted = openaiChat.passing.adaptRequest(body, { model: 'n' })
  assert.deepEqual(adapted, { ...body, model: 'n', stream_options: { include_obfuscation: true, include_usage: true } })
  assert.equal(adapted.messages, body.messages)
  const asked = { ...body, stream_options: { include_usage: true } }
  assert.equal(openaiChat.passing.adaptRequest(asked, { model: 'm' }), asked)
})

// ── Properties ───────────────────────────────────────────────────────────────────────────────────────────────────

test('chat request: any JSON is decoded without throwing', () => {
  const names = [
    'model',
    'messages',
    'role',
    'content',
    'type',
    'text',
    'tools',
    'function',
    'tool_calls',
    'image_url',
    'stop',
    'reasoning_details',
    'tool_choice',
    'response_format',
    'functions',
    'function_call',
    'stream_options',
    'metadata',
    'file',
    '__proto__',
  ]
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium' },
      fc.jsonValue({ maxDepth: 1 }),
      fc.constantFrom('user', 'assistant', 'tool', 'text', 'function', 'json_schema', 'image_url', 'file'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 6 }),
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 10 }), fc.boolean(), (body, whole) => {
      // fast-check types JSON values as unknown.
      const given = (whole ? { model: 'm', messages: [body], ...body } : body) as JsonObject
      const outcome = openaiChat.decodeRequest(given)
      if (outcome.ok) openaiChat.encodeRequest(outcome.value, { model: 'm' })
      else assert.ok(outcome.failure.message !== '')
      openaiChat.passing.adaptRequest(given, { model: 'm' })
    }),
    { numRuns: 2_000 },
  )
})

const text = fc.string({ minLength: 1 })
const name = fc.stringMatching(/^[a-z]{1,10}$/)
const bodies = fc.record(
  {
    model: name,
    messages: fc.array(
      fc.oneof(
        fc.record({ role: fc.constant('system'), content: text }),
        fc.record({ role: fc.constant('user'), content: text }),
        fc.record({
          role: fc.constant('user'),
          content: fc.tuple(
            fc.record({ type: fc.constant('text'), text }),
            fc.record({
              type: fc.constant('image_url'),
              image_url: fc.record({ url: fc.webUrl(), detail: fc.constantFrom('low', 'high') }),
            }),
            fc.record({
              type: fc.constant('input_audio'),
              input_audio: fc.record({ data: fc.base64String(), format: fc.constant('wav') }),
            }),
          ),
        }),
        fc.record({
          role: fc.constant('assistant'),
          content: text,
          tool_calls: fc.array(
            fc.record({ id: name, type: fc.constant('function'), function: fc.record({ name, arguments: text }) }),
            { minLength: 1, maxLength: 3 },
          ),
        }),
        fc.record({ role: fc.constant('tool'), tool_call_id: name, content: text }),
      ),
      { minLength: 1, maxLength: 6 },
    ),
    tools: fc.array(
      fc.record({
        type: fc.constant('function'),
        function: fc.record({
          name,
          description: text,
          parameters: fc.constant({ type: 'object', properties: {}, additionalProperties: false }),
          strict: fc.boolean(),
        }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    tool_choice: fc.constantFrom('auto', 'none', 'required'),
    parallel_tool_calls: fc.constant(false),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    top_p: fc.double({ min: 0, max: 1, noNaN: true }),
    max_completion_tokens: fc.integer({ min: 1 }),
    stop: fc.array(text, { minLength: 1, maxLength: 4 }),
    seed: fc.integer(),
    n: fc.integer({ min: 2, max: 128 }),
    presence_penalty: fc.integer({ min: 1, max: 2 }),
    logit_bias: fc.dictionary(name, fc.integer(), { minKeys: 1 }),
    response_format: fc.oneof(
      fc.constant({ type: 'json_object' }),
      fc.record({
        type: fc.constant('json_schema'),
        json_schema: fc.record({ name, schema: fc.constant({ type: 'object' }), strict: fc.boolean() }),
      }),
    ),
    reasoning_effort: fc.constantFrom('none', 'low', 'high', 'max'),
    store: fc.boolean(),
    user: text,
    metadata: fc.dictionary(name, text, { minKeys: 1 }),
    prompt_cache_key: text,
    verbosity: fc.constantFrom('low', 'high'),
  },
  { requiredKeys: ['model', 'messages', 'tools'] },
)

test('chat request: decoding, encoding and decoding again gives the same request', () => {
  fc.assert(
    fc.property(bodies, (body) => {
      // fast-check types JSON values as unknown.
      const request = decode(body as JsonObject)
      const { body: again, losses } = openaiChat.encodeRequest(request, {
        model: body.model,
        supportsCustomTools: true,
        ...ACCEPTS_ALL,
      })
      assert.deepEqual(losses, [])
      assert.deepEqual(decode(again), request)
    }),
  )
})

test('chat messages: plain reasoning is read beside details with signatures only', () => {
  const seal = { type: 'reasoning.encrypted', data: 'sealed', format: 'google-gemini-v1', index: 0 }
  const assistant = { role: 'assistant', content: 'hi', reasoning_content: 'hm', reasoning_details: [seal] }
  const [, message] = decode({ model: 'm', messages: [{ role: 'user', content: 'hello' }, assistant] }).messages
  const found = message?.content.flatMap((part) => (part.type === 'reasoning' ? [[part.at, part.text]] : []))
  assert.deepEqual(found, [
    ['messages[1].reasoning_content', 'hm'],
    ['messages[1].reasoning_details[0]', ''],
  ])
})

test('chat messages: a long call id becomes one of 40 characters, the same for call and result', () => {
  const id = `chatcmpl-tool-${'0123456789abcdef'.repeat(2)}`
  const call = { id, type: 'function', function: { name: 'f', arguments: '{}' } }
  const request = decode({
    model: 'm',
    messages: [
      { role: 'user', content: 'hello' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: id, content: 'done' },
    ],
  })
  const { body } = openaiChat.encodeRequest(request, { model: 'm' })
  const [, called, result] = list(body.messages).map((message) => object(message))
  const written = object(list(called?.tool_calls)[0])?.id
  assert.equal(String(written).length, 40)
  assert.equal(result?.tool_call_id, written)
})
