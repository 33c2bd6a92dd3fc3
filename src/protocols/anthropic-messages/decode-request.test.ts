import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatRequest } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { encodeSignature } from '../client-parts/thinking-signatures.ts'
import { adaptRequest } from './adapt-request.ts'
import { decodeRequest } from './decode-request.ts'

const base = { model: 'claude', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }
const decode = (more: JsonObject): ChatRequest => {
  const decoded = decodeRequest({ ...base, ...more })
  assert.ok(decoded.ok, JSON.stringify(decoded))
  return decoded.value
}

test('a minimal request', () =>
  assert.deepEqual(decode({}), {
    model: 'claude',
    stream: false,
    messages: [
      {
        role: 'user',
        at: 'messages[0]',
        content: [{ type: 'text', at: 'messages[0].content', text: 'Hi' }],
      },
    ],
    tools: [],
    settings: { maxOutputTokens: { value: 100, at: 'max_tokens' } },
    extras: [],
  }))

const cache = { type: 'ephemeral' }
const everyKindOfBlock: JsonObject = {
  system: [{ type: 'text', text: 'S', cache_control: cache }],
  messages: [
    { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm', signature: 'S+/=' },
        { type: 'redacted_thinking', data: 'D' },
        { type: 'text', text: 'Yo' },
        { type: 'tool_use', id: 't1', name: 'f', input: { a: 1 }, cache_control: cache },
        { type: 'tool_use', id: 't2', name: 'g', input: {}, caller: { type: 'direct' } },
        {
          type: 'tool_use',
          id: 't3',
          name: 'g',
          input: {},
          caller: { type: 'code_execution_20250825', tool_id: 'x' },
        },
        { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 't1', content: 'one', cache_control: cache },
        { type: 'tool_result', tool_use_id: 't2', is_error: true, content: [{ type: 'text', text: 'two' }] },
        {
          type: 'document',
          title: 'd.txt',
          context: 'c',
          source: { type: 'text', media_type: 'text/plain', data: 'é' },
        },
        { type: 'search_result', source: 's', title: 't', content: [] },
      ],
    },
  ],
}

test('a conversation with every kind of block', () => {
  const { messages } = decode(everyKindOfBlock)
  const at = (path: string) => `messages[1].content[${path}]`
  const raw = (type: string) => ({ type })
  assert.deepEqual(
    JSON.parse(JSON.stringify(messages), (_, value) =>
      value?.type && value.id && value.name && value.input ? raw(value.type) : value,
    ),
    [
      {
        role: 'system',
        at: 'system',
        as: 'system',
        content: [
          {
            type: 'text',
            at: 'system[0]',
            text: 'S',
            extras: [{ at: 'system[0].cache_control', name: 'cache_control', value: cache, essential: false }],
          },
        ],
      },
      {
        role: 'user',
        at: 'messages[0]',
        content: [
          {
            type: 'image',
            at: 'messages[0].content[0]',
            source: { kind: 'data', mediaType: 'image/png', data: 'AAAA' },
          },
        ],
      },
      {
        role: 'assistant',
        at: 'messages[1]',
        content: [
          { type: 'reasoning', at: at('0'), text: 'Hm', signature: { origin: 'anthropic-messages', value: 'S+/=' } },
          {
            type: 'reasoning',
            at: at('1'),
            text: '',
            signature: { origin: 'anthropic-messages', value: 'D', redacted: true },
          },
          { type: 'text', at: at('2'), text: 'Yo' },
          { type: 'tool-call', at: at('3'), id: 't1', name: 'f', arguments: '{"a":1}' },
          { type: 'tool-call', at: at('4'), id: 't2', name: 'g', arguments: '{}' },
          {
            type: 'foreign',
            at: at('5'),
            protocol: 'anthropic-messages',
            raw: raw('tool_use'),
            instead: [{ type: 'tool-call', at: at('5'), id: 't3', name: 'g', arguments: '{}' }],
          },
          { type: 'foreign', at: at('6'), protocol: 'anthropic-messages', raw: raw('server_tool_use'), optional: true },
        ],
        extras: [{ at: `${at('3')}.cache_control`, name: 'cache_control', value: cache, essential: false }],
      },
      {
        role: 'tool',
        at: 'messages[2].content[0]',
        callId: 't1',
        content: [{ type: 'text', at: 'messages[2].content[0].content', text: 'one' }],
        extras: [{ at: 'messages[2].content[0].cache_control', name: 'cache_control', value: cache, essential: false }],
      },
      {
        role: 'tool',
        at: 'messages[2].content[1]',
        callId: 't2',
        content: [{ type: 'text', at: 'messages[2].content[1].content[0]', text: 'two' }],
        isError: true,
      },
      {
        role: 'user',
        at: 'messages[2]',
        content: [
          {
            type: 'file',
            at: 'messages[2].content[2]',
            source: { kind: 'data', mediaType: 'text/plain', data: 'w6k=' },
            filename: 'd.txt',
            paths: { filename: 'title' },
            extras: [{ at: 'messages[2].content[2].context', name: 'context', value: 'c', essential: false }],
          },
          {
            type: 'foreign',
            at: 'messages[2].content[3]',
            protocol: 'anthropic-messages',
            raw: { type: 'search_result', source: 's', title: 't', content: [] },
            instead: [
              { type: 'text', at: 'messages[2].content[3]', text: '[search_result: {"source":"s","title":"t"}]' },
            ],
          },
        ],
      },
    ],
  )
})

test('tools', () => {
  const { tools } = decode({
    tools: [
      { name: 'f', description: 'd', input_schema: { type: 'object' }, strict: true, defer_loading: true },
      { type: 'custom', name: 'g', input_schema: { type: 'object' }, allowed_callers: ['code_execution_20250825'] },
      { type: 'web_search_20250305', name: 'web_search' },
    ],
  })
  assert.deepEqual(tools, [
    {
      kind: 'function',
      at: 'tools[0]',
      name: 'f',
      description: 'd',
      parameters: { type: 'object' },
      strict: true,
      extras: [{ at: 'tools[0].defer_loading', name: 'defer_loading', value: true, essential: false }],
    },
    {
      kind: 'function',
      at: 'tools[1]',
      name: 'g',
      parameters: { type: 'object' },
      strict: false,
      extras: [
        {
          at: 'tools[1].allowed_callers',
          name: 'allowed_callers',
          value: ['code_execution_20250825'],
          essential: true,
        },
      ],
    },
    {
      kind: 'foreign',
      at: 'tools[2]',
      protocol: 'anthropic-messages',
      raw: { type: 'web_search_20250305', name: 'web_search' },
      optional: true,
    },
  ])
})

const open = { type: 'object', title: 'My Thing', properties: { a: {} } }
const settings: readonly [string, JsonObject, Json, Json?][] = [
  [
    'sampling',
    { temperature: 0.5, top_p: 0.9, top_k: 3 },
    {
      temperature: { value: 0.5, at: 'temperature' },
      topP: { value: 0.9, at: 'top_p' },
      topK: { value: 3, at: 'top_k' },
    },
  ],
  ['stop', { stop_sequences: ['a'] }, { stop: { value: ['a'], at: 'stop_sequences' } }],
  [
    'user',
    { metadata: { user_id: 'u', x: 1 } },
    { user: { value: 'u', at: 'metadata.user_id' } },
    [{ at: 'metadata.x', name: 'x', value: 1, essential: false }],
  ],
  [
    'tool choice any',
    { tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    {
      toolChoice: { value: { kind: 'required' }, at: 'tool_choice' },
      parallelToolCalls: { value: false, at: 'tool_choice.disable_parallel_tool_use' },
    },
  ],
  [
    'tool choice of one tool',
    { tool_choice: { type: 'tool', name: 'f' } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [
    'budget',
    { thinking: { type: 'enabled', budget_tokens: 2_000 } },
    { thinkingBudget: { value: 2_000, at: 'thinking.budget_tokens' } },
  ],
  ['no thinking', { thinking: { type: 'disabled' } }, { thinkingBudget: { value: 0, at: 'thinking' } }],
  [
    'adaptive thinking',
    { thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'max' } },
    {
      effort: { value: 'max', at: 'output_config.effort' },
      reasoningSummary: { value: 'auto', at: 'thinking.display' },
    },
    [{ at: 'thinking', name: 'thinking', value: { type: 'adaptive', display: 'summarized' }, essential: false }],
  ],
  [
    'format',
    { output_config: { format: { type: 'json_schema', schema: open } } },
    { format: { at: 'output_config.format', value: { kind: 'schema', name: 'My_Thing', schema: open } } },
  ],
  [
    'the older member for the format',
    { output_format: { type: 'json_schema', schema: { type: 'object', properties: {}, additionalProperties: false } } },
    {
      format: {
        at: 'output_format',
        value: {
          kind: 'schema',
          name: 'response',
          schema: { type: 'object', properties: {}, additionalProperties: false },
          strict: true,
        },
      },
    },
  ],
  ['tier', { service_tier: 'standard_only' }, { serviceTier: { value: 'default', at: 'service_tier' } }],
  [
    'MCP servers',
    { mcp_servers: [{ name: 'm' }], context_management: {}, container: 'c' },
    {},
    [
      { at: 'mcp_servers', name: 'mcp_servers', value: [{ name: 'm' }], essential: true, optional: true },
      { at: 'context_management', name: 'context_management', value: {}, essential: false },
      { at: 'container', name: 'container', value: 'c', essential: true },
    ],
  ],
  ['an empty list of MCP servers', { mcp_servers: [] }, {}],
  [
    'an effort that only other formats have',
    { output_config: { effort: 'minimal' } },
    { effort: { value: 'minimal', at: 'output_config.effort' } },
  ],
  ['the default effort', { output_config: { effort: 'default' } }, {}],
  [
    'an unknown effort',
    { output_config: { effort: 'huge' } },
    {},
    [{ at: 'output_config.effort', name: 'effort', value: 'huge', essential: false }],
  ],
  [
    'an unknown tool choice',
    { tool_choice: { type: 'some' } },
    {},
    [{ at: 'tool_choice', name: 'tool_choice', value: { type: 'some' }, essential: true }],
  ],
  [
    'an unknown kind of thinking',
    { thinking: { type: 'deep' } },
    {},
    [{ at: 'thinking', name: 'thinking', value: { type: 'deep' }, essential: false }],
  ],
  ['null counts as absent', { temperature: null, system: null, tools: null, tool_choice: null }, {}],
]
for (const [name, more, expected, extras = []] of settings)
  test(`settings: ${name}`, () => {
    const { settings: all, extras: rest } = decode(more)
    const { maxOutputTokens: _, ...others } = all
    assert.deepEqual(others, expected)
    assert.deepEqual(rest, extras)
  })

const wrong: readonly [string, JsonObject, string, string][] = [
  ['no model', { model: undefined }, 'missing_parameter', 'model'],
  ['empty model', { model: '' }, 'missing_parameter', 'model'],
  ['blank model', { model: ' ' }, 'missing_parameter', 'model'],
  ['model of a wrong type', { model: 7 }, 'invalid_value', 'model'],
  ['no limit', { max_tokens: undefined }, 'missing_parameter', 'max_tokens'],
  ['limit of a wrong type', { max_tokens: '9' }, 'invalid_value', 'max_tokens'],
  ['no messages', { messages: undefined }, 'missing_parameter', 'messages'],
  ['empty messages', { messages: [] }, 'invalid_value', 'messages'],
  ['messages of a wrong type', { messages: 'Hi' }, 'invalid_value', 'messages'],
  ['a number instead of a message', { messages: [7] }, 'invalid_value', 'messages[0].content'],
  ['wrong role', { messages: [{ role: 'tool', content: 'x' }] }, 'invalid_value', 'messages[0].role'],
  ['wrong content', { messages: [{ role: 'user', content: 7 }] }, 'invalid_value', 'messages[0].content'],
  [
    'a string instead of a block',
    { messages: [{ role: 'user', content: ['x'] }] },
    'invalid_value',
    'messages[0].content[0].type',
  ],
  [
    'a text block without text',
    { messages: [{ role: 'user', content: [{ type: 'text' }] }] },
    'missing_parameter',
    'messages[0].content[0].text',
  ],
  [
    'image without source',
    { messages: [{ role: 'user', content: [{ type: 'image' }] }] },
    'missing_parameter',
    'messages[0].content[0].source',
  ],
  [
    'image without data',
    { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png' } }] }] },
    'missing_parameter',
    'messages[0].content[0].source.data',
  ],
  [
    'call without id',
    { messages: [{ role: 'assistant', content: [{ type: 'tool_use', name: 'f', input: {} }] }] },
    'missing_parameter',
    'messages[0].content[0].id',
  ],
  [
    'input of a wrong type',
    { messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'i', name: 'f', input: '{}' }] }] },
    'invalid_value',
    'messages[0].content[0].input',
  ],
  [
    'result without id',
    { messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] },
    'missing_parameter',
    'messages[0].content[0].tool_use_id',
  ],
  ['system of a wrong type', { system: 7 }, 'invalid_value', 'system'],
  ['tool without a name', { tools: [{ input_schema: {} }] }, 'missing_parameter', 'tools[0].name'],
  ['tool without a schema', { tools: [{ name: 'f' }] }, 'missing_parameter', 'tools[0].input_schema'],
  ['choice of no tool', { tool_choice: { type: 'tool' } }, 'missing_parameter', 'tool_choice.name'],
  ['too warm', { temperature: 1.5 }, 'invalid_value', 'temperature'],
  ['thinking of no kind', { thinking: {} }, 'missing_parameter', 'thinking.type'],
  ['budget without number', { thinking: { type: 'enabled' } }, 'missing_parameter', 'thinking.budget_tokens'],
  [
    'unknown format',
    { output_config: { format: { type: 'xml', schema: {} } } },
    'invalid_value',
    'output_config.format.type',
  ],
  ['stop of a wrong type', { stop_sequences: [7] }, 'invalid_value', 'stop_sequences'],
  ['stream of a wrong type', { stream: 'yes' }, 'invalid_value', 'stream'],
]
for (const [name, more, kind, param] of wrong)
  test(`rejected: ${name}`, () => {
    const decoded = decodeRequest({ ...base, ...more })
    assert.ok(!decoded.ok)
    assert.equal(decoded.failure.kind, kind)
    assert.equal(decoded.failure.param, param)
  })

test('same format: only the model changes, and the members are shared', () => {
  const body = { ...base, unknown: { a: [1] } }
  const adapted = adaptRequest(body, { model: 'other' })
  assert.deepEqual(adapted, { ...body, model: 'other' })
  for (const member of ['messages', 'unknown'] as const) assert.equal(adapted[member], body[member])
})

test('same format: blocks of other formats are removed', () => {
  const thought = (signature: string) => ({ type: 'thinking', thinking: 'x', signature })
  const foreign = encodeSignature({ origin: 'openai-responses', value: 'gAAA' }, true)
  const words = { type: 'text', text: 'Yo' }
  const cited = { type: 'web_search_result_location', url: 'u', title: 't', cited_text: 'c', encrypted_index: 'E' }
  const messages = [
    { role: 'user', content: [words] },
    { role: 'assistant', content: [thought('EqRk'), thought(''), thought(foreign), words] },
    { role: 'assistant', content: [thought('')] },
    { role: 'assistant', content: [{ ...words, citations: [cited, { ...cited, encrypted_index: '' }] }] },
    { role: 'assistant', content: [{ ...words, citations: [{ ...cited, encrypted_index: '' }] }] },
  ]
  assert.deepEqual(adaptRequest({ ...base, messages }, { model: 'm' }).messages, [
    messages[0],
    { role: 'assistant', content: [thought('EqRk'), words] },
    { role: 'assistant', content: [{ ...words, citations: [cited] }] },
    { role: 'assistant', content: [words] },
  ])
})

test('signatures of other formats are restored from the client', () => {
  for (const proof of [
    { origin: 'openai-responses', value: 'gAAA="\n', id: 'rs_1' },
    { origin: 'openai-chat', value: '{}', redacted: true },
    { origin: 'anthropic-messages', value: 'EqRk' },
  ] as const) {
    const { messages } = decode({
      messages: [
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'x', signature: encodeSignature(proof, false) }] },
      ],
    })
    const part = messages[0]?.content[0]
    assert.deepEqual(part?.type === 'reasoning' && part.signature, proof)
    assert.equal(part?.type === 'reasoning' && part.summary, undefined)
  }
})

test('a text document without a media type is plain text', () => {
  const document = { type: 'document', source: { type: 'text', data: 'a' } }
  const { messages } = decode({ model: 'm', max_tokens: 5, messages: [{ role: 'user', content: [document] }] })
  assert.partialDeepStrictEqual(messages, [{ content: [{ source: { kind: 'data', mediaType: 'text/plain' } }] }])
})
