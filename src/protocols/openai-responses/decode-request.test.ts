import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatRequest } from '../../core/chat.ts'
import { type JsonObject, parseJson } from '../../core/json.ts'
import { openaiResponses as codec } from './index.ts'

const decoded = (body: JsonObject): ChatRequest => {
  const outcome = codec.decodeRequest({ model: 'm', input: 'hi', ...body })
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.failure.message)
  return outcome.value
}

const user = (text: string, at = 'input') => ({ role: 'user', at, content: [{ type: 'text', at, text }] })

const messages: readonly (readonly [string, JsonObject, unknown])[] = [
  ['a string', { input: 'hi' }, [user('hi')]],
  [
    'instructions become the first message',
    { input: 'hi', instructions: 'be brief' },
    [
      {
        role: 'system',
        as: 'system',
        at: 'instructions',
        content: [{ type: 'text', at: 'instructions', text: 'be brief' }],
      },
      user('hi'),
    ],
  ],
  [
    'messages without a type, in each role',
    {
      input: [
        { role: 'system', content: 'a' },
        { role: 'developer', content: [{ type: 'input_text', text: 'b' }] },
        { role: 'user', content: 'c' },
        { role: 'assistant', content: 'd' },
      ],
    },
    [
      {
        role: 'system',
        as: 'system',
        at: 'input[0]',
        content: [{ type: 'text', at: 'input[0].content', text: 'a' }],
      },
      {
        role: 'system',
        as: 'developer',
        at: 'input[1]',
        content: [{ type: 'text', at: 'input[1].content[0]', text: 'b' }],
      },
      { role: 'user', at: 'input[2]', content: [{ type: 'text', at: 'input[2].content', text: 'c' }] },
      { role: 'assistant', at: 'input[3]', content: [{ type: 'text', at: 'input[3].content', text: 'd' }] },
    ],
  ],
  [
    'parts of every kind',
    {
      input: [
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_image', image_url: 'data:image/png;charset=x;base64,QUJD', detail: 'low' },
            { type: 'input_image', image_url: 'https://a.example/x.png' },
            { type: 'input_image', file_id: 'file-1' },
            { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,QUJD' },
            { type: 'input_file', file_data: 'QUJD' },
            { type: 'input_file', file_url: 'https://a.example/x.pdf', detail: 'high' },
            { type: 'input_audio', input_audio: { data: 'QUJD', format: 'wav' } },
            { type: 'input_video', video_url: 'https://a.example/x.mp4' },
          ],
        },
      ],
    },
    [
      {
        role: 'user',
        at: 'input[0]',
        content: [
          {
            type: 'image',
            at: 'input[0].content[0]',
            source: { kind: 'data', mediaType: 'image/png', data: 'QUJD' },
            detail: 'low',
          },
          { type: 'image', at: 'input[0].content[1]', source: { kind: 'url', url: 'https://a.example/x.png' } },
          {
            type: 'image',
            at: 'input[0].content[2]',
            source: { kind: 'id', id: 'file-1', protocol: 'openai-responses' },
          },
          {
            type: 'file',
            at: 'input[0].content[3]',
            source: { kind: 'data', mediaType: 'application/pdf', data: 'QUJD' },
            filename: 'a.pdf',
          },
          { type: 'file', at: 'input[0].content[4]', source: { kind: 'data', mediaType: '', data: 'QUJD' } },
          {
            type: 'file',
            at: 'input[0].content[5]',
            source: { kind: 'url', url: 'https://a.example/x.pdf' },
            extras: [{ at: 'input[0].content[5].detail', name: 'detail', value: 'high', essential: false }],
          },
          { type: 'audio', at: 'input[0].content[6]', data: 'QUJD', format: 'wav' },
          {
            type: 'foreign',
            at: 'input[0].content[7]',
            protocol: 'openai-responses',
            raw: { type: 'input_video', video_url: 'https://a.example/x.mp4' },
          },
        ],
      },
    ],
  ],
  [
    'an assistant turn is one message: reasoning, text and parallel calls; each result is its own',
    {
      input: [
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'SEAL' },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          phase: 'commentary',
          content: [
            { type: 'output_text', text: 'let me see', annotations: [], logprobs: [] },
            { type: 'refusal', refusal: 'no' },
          ],
        },
        { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'f', arguments: '{}', status: 'completed' },
        { type: 'custom_tool_call', call_id: 'call_2', name: 'g', input: 'x' },
        { type: 'function_call_output', call_id: 'call_1', output: 'one' },
        { type: 'custom_tool_call_output', call_id: 'call_2', output: [{ type: 'input_text', text: 'two' }] },
      ],
    },
    [
      {
        role: 'assistant',
        at: 'input[0]',
        content: [
          {
            type: 'reasoning',
            at: 'input[0]',
            text: 'hm',
            summary: true,
            signature: { origin: 'openai-responses', value: 'SEAL', id: 'rs_1' },
          },
          {
            type: 'text',
            at: 'input[1].content[0]',
            text: 'let me see',
            extras: [{ at: 'input[1].phase', name: 'phase', value: 'commentary', essential: false }],
          },
          { type: 'refusal', at: 'input[1].content[1]', text: 'no' },
          { type: 'tool-call', at: 'input[2]', id: 'call_1', name: 'f', arguments: '{}' },
          { type: 'tool-call', at: 'input[3]', id: 'call_2', name: 'g', arguments: 'x', custom: true },
        ],
      },
      {
        role: 'tool',
        at: 'input[4]',
        callId: 'call_1',
        content: [{ type: 'text', at: 'input[4].output', text: 'one' }],
      },
      {
        role: 'tool',
        at: 'input[5]',
        callId: 'call_2',
        content: [{ type: 'text', at: 'input[5].output[0]', text: 'two' }],
      },
    ],
  ],
  [
    "another format's signature is restored",
    { input: [{ type: 'reasoning', summary: [], encrypted_content: 'hg1:anthropic-messages:redacted::0:a:b=c' }] },
    [
      {
        role: 'assistant',
        at: 'input[0]',
        content: [
          {
            type: 'reasoning',
            at: 'input[0]',
            text: '',
            signature: { origin: 'anthropic-messages', value: 'a:b=c', redacted: true },
          },
        ],
      },
    ],
  ],
  [
    'items of this format only are kept unchanged, in order',
    {
      input: [
        { type: 'item_reference', id: 'msg_1' },
        { id: 'msg_2' },
        { type: 'web_search_call', id: 'ws_1', status: 'completed' },
      ],
    },
    [
      {
        role: 'assistant',
        at: 'input[0]',
        content: [
          {
            type: 'foreign',
            at: 'input[0]',
            protocol: 'openai-responses',
            raw: { type: 'item_reference', id: 'msg_1' },
          },
          { type: 'foreign', at: 'input[1]', protocol: 'openai-responses', raw: { id: 'msg_2' } },
          {
            type: 'foreign',
            at: 'input[2]',
            protocol: 'openai-responses',
            raw: { type: 'web_search_call', id: 'ws_1', status: 'completed' },
            optional: true,
          },
        ],
      },
    ],
  ],
]

for (const [name, body, expected] of messages)
  test(`responses request: ${name}`, () => assert.deepEqual(decoded(body).messages, expected))

const settings: readonly (readonly [string, JsonObject, unknown])[] = [
  ['none', {}, {}],
  [
    'numbers and switches',
    { temperature: 0.5, top_p: 1, max_output_tokens: 100, top_logprobs: 2, parallel_tool_calls: false, store: false },
    {
      maxOutputTokens: { value: 100, at: 'max_output_tokens' },
      temperature: { value: 0.5, at: 'temperature' },
      topP: { value: 1, at: 'top_p' },
      topLogprobs: { value: 2, at: 'top_logprobs' },
      parallelToolCalls: { value: false, at: 'parallel_tool_calls' },
      store: { value: false, at: 'store' },
    },
  ],
  [
    'text and reasoning',
    { text: { verbosity: 'low', format: { type: 'json_object' } }, reasoning: { effort: 'max', summary: 'auto' } },
    {
      format: { value: { kind: 'json' }, at: 'text.format' },
      verbosity: { value: 'low', at: 'text.verbosity' },
      effort: { value: 'max', at: 'reasoning.effort' },
      reasoningSummary: { value: 'auto', at: 'reasoning.summary' },
    },
  ],
  [
    'a schema, strict by default because it allows it',
    {
      text: {
        format: {
          type: 'json_schema',
          name: 'n',
          schema: { type: 'object', properties: {}, required: [], additionalProperties: false },
        },
      },
    },
    {
      format: {
        value: {
          kind: 'schema',
          name: 'n',
          schema: { type: 'object', properties: {}, required: [], additionalProperties: false },
          strict: true,
        },
        at: 'text.format',
      },
    },
  ],
  [
    'include',
    { include: ['reasoning.encrypted_content', 'message.output_text.logprobs'] },
    { encryptedReasoning: { value: true, at: 'include[0]' }, logprobs: { value: true, at: 'include[1]' } },
  ],
  [
    'a choice without a type',
    { tool_choice: { name: 'f' } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [
    'a choice in the shape of chat completions',
    { tool_choice: { type: 'function', function: { name: 'f' } } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  ["Mistral's choice", { tool_choice: 'any' }, { toolChoice: { value: { kind: 'required' }, at: 'tool_choice' } }],
  ['the default effort', { reasoning: { effort: 'default' } }, {}],
  [
    'a schema without a name',
    { text: { format: { type: 'json_schema', schema: { type: 'object' }, strict: false } } },
    {
      format: {
        value: { kind: 'schema', name: 'response', schema: { type: 'object' }, strict: false },
        at: 'text.format',
      },
    },
  ],
  ['a choice of tool', { tool_choice: 'required' }, { toolChoice: { value: { kind: 'required' }, at: 'tool_choice' } }],
  [
    'one tool',
    { tool_choice: { type: 'function', name: 'f' } },
    { toolChoice: { value: { kind: 'tool', name: 'f' }, at: 'tool_choice' } },
  ],
  [
    'allowed tools',
    { tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'f' }] } },
    { toolChoice: { value: { kind: 'allowed', mode: 'required', names: ['f'] }, at: 'tool_choice' } },
  ],
  [
    'safety_identifier as the user',
    { user: 'old', safety_identifier: 'new' },
    { user: { value: 'new', at: 'safety_identifier' } },
  ],
  ['null counts as absent', { temperature: null, reasoning: null, text: null, tools: null, include: null }, {}],
]
for (const [name, body, expected] of settings)
  test(`responses settings: ${name}`, () => assert.deepEqual(decoded(body).settings, expected))

test('responses settings: an integer beyond 2^53 is a number', () => {
  const body = parseJson('{"max_output_tokens": 99999999999999999999, "unknown": 12345678901234567890}')
  const { settings, extras } = decoded(body as JsonObject)
  assert.equal(settings.maxOutputTokens?.value, 1e20)
  assert.equal(JSON.stringify(extras[0]?.value), '12345678901234567890')
})

const extras: readonly (readonly [string, JsonObject, readonly (readonly [string, boolean])[]])[] = [
  [
    'a previous response stored at the provider',
    { previous_response_id: 'resp_1', input: null },
    [['previous_response_id', true]],
  ],
  ['a conversation', { conversation: { id: 'conv_1' }, input: [] }, [['conversation', true]]],
  ['a stored prompt', { prompt: { id: 'pmpt_1' }, input: null }, [['prompt', true]]],
  ['a background response', { background: true }, [['background', true]]],
  [
    'members at their defaults',
    { background: false, truncation: 'disabled', stream_options: { include_obfuscation: false } },
    [],
  ],
  ['truncation by the gateway', { truncation: 'auto' }, []],
  ['an unknown truncation', { truncation: 'clever' }, [['truncation', false]]],
  ['an unknown choice', { tool_choice: 'always' }, [['tool_choice', true]]],
  ['a hosted tool must be used', { tool_choice: { type: 'web_search_preview' } }, [['tool_choice', true]]],
  [
    'another format',
    { text: { format: { type: 'grammar' }, tone: 1 } },
    [
      ['text.format', true],
      ['text.tone', false],
    ],
  ],
  [
    'an unknown effort',
    { reasoning: { effort: 'ultra', context: 'auto' } },
    [
      ['reasoning.effort', false],
      ['reasoning.context', false],
    ],
  ],
  ['other things to include', { include: ['web_search_call.results'] }, [['include[0]', false]]],
  ['both user and safety_identifier', { user: 'a', safety_identifier: 'b' }, [['user', false]]],
  [
    'unknown members',
    { client_metadata: { a: 1 }, max_tool_calls: 3, nothing: null },
    [
      ['client_metadata', false],
      ['max_tool_calls', false],
    ],
  ],
]
for (const [name, body, expected] of extras)
  test(`responses extras: ${name}`, () =>
    assert.deepEqual(
      decoded(body).extras.map(({ at, essential }) => [at, essential]),
      expected,
    ))

const allowed = (mode: string) => ({ type: 'allowed_tools', mode, tools: [{ type: 'function', name: 'f' }] })
const open = { type: 'object', properties: { a: { type: 'string' } } }
const shut = { ...open, required: ['a'], additionalProperties: false }
const ajar = { ...open, required: ['a'] }
const nested = { ...shut, properties: { a: { anyOf: [{ type: 'null' }, open] } } }
const tools: readonly (readonly [string, JsonObject, unknown])[] = [
  [
    'not strict: the schema allows other members',
    { type: 'function', name: 'f', parameters: ajar },
    { kind: 'function', strict: false, parameters: ajar },
  ],
  [
    'not strict: a nested schema does not allow it',
    { type: 'function', name: 'f', parameters: nested },
    { kind: 'function', strict: false, parameters: nested },
  ],
  [
    'strict, explicit',
    { type: 'function', name: 'f', parameters: open, strict: true },
    { kind: 'function', strict: true, parameters: open },
  ],
  [
    'not strict, explicit',
    { type: 'function', name: 'f', parameters: shut, strict: false },
    { kind: 'function', strict: false, parameters: shut },
  ],
  [
    'strict by default: the schema allows it',
    { type: 'function', name: 'f', parameters: shut },
    { kind: 'function', strict: true, paths: { strict: null }, parameters: shut },
  ],
  [
    'not strict by default: the schema does not allow it',
    { type: 'function', name: 'f', parameters: open },
    { kind: 'function', strict: false, parameters: open },
  ],
  [
    'without parameters',
    { type: 'function', name: 'f', parameters: null },
    { kind: 'function', strict: true, paths: { strict: null } },
  ],
  [
    'free-form',
    { type: 'custom', name: 'f', description: 'd', format: { type: 'text' } },
    { kind: 'custom', description: 'd', format: { type: 'text' } },
  ],
]
for (const [name, tool, expected] of tools)
  test(`responses tools: ${name}`, () =>
    assert.deepEqual(decoded({ tools: [tool] }).tools, [{ at: 'tools[0]', name: 'f', ...(expected as object) }]))

const spare: readonly (readonly [string, JsonObject, JsonObject, boolean])[] = [
  ['a hosted tool', { type: 'web_search', filters: {} }, {}, true],
  ['a hosted tool with a date in its type', { type: 'web_search_preview_2025_03_11' }, { tool_choice: 'auto' }, true],
  ['a hosted tool with tool choice none', { type: 'image_generation' }, { tool_choice: 'none' }, true],
  ['a hosted tool outside of the allowed tools', { type: 'mcp' }, { tool_choice: allowed('auto') }, true],
  ['a hosted tool with tool choice required', { type: 'web_search' }, { tool_choice: 'required' }, false],
  ['the hosted tool that the choice names', { type: 'web_search' }, { tool_choice: { type: 'web_search' } }, false],
  [
    'a hosted tool beside allowed tools with a required call',
    { type: 'web_search' },
    { tool_choice: allowed('required') },
    false,
  ],
  ['a tool of this format that the client runs', { type: 'local_shell' }, {}, false],
  ['an unknown tool', { type: 'telepathy' }, {}, false],
]
for (const [name, tool, more, isSpare] of spare)
  test(`responses tools: ${name} is ${isSpare ? '' : 'not '}optional`, () =>
    assert.deepEqual(decoded({ tools: [tool], ...more }).tools, [
      { kind: 'foreign', at: 'tools[0]', protocol: 'openai-responses', raw: tool, ...(isSpare && { optional: true }) },
    ]))

const problems: readonly (readonly [string, JsonObject, string, string])[] = [
  ['no model', { model: null }, 'missing_parameter', 'model'],
  ['an empty model', { model: '' }, 'missing_parameter', 'model'],
  ['a blank model', { model: ' ' }, 'missing_parameter', 'model'],
  ['a model of another type', { model: 5 }, 'invalid_value', 'model'],
  ['no input', { input: null }, 'missing_parameter', 'input'],
  ['empty input', { input: [] }, 'invalid_value', 'input'],
  ['input of another type', { input: 5 }, 'invalid_value', 'input'],
  ['an item of another type', { input: [5] }, 'invalid_value', 'input[0]'],
  ['an empty item', { input: [{}] }, 'missing_parameter', 'input[0].role'],
  ['an unknown role', { input: [{ role: 'critic', content: 'x' }] }, 'invalid_value', 'input[0].role'],
  ['a message without content', { input: [{ role: 'user' }] }, 'missing_parameter', 'input[0].content'],
  ['content of another type', { input: [{ role: 'user', content: 5 }] }, 'invalid_value', 'input[0].content'],
  ['a part of another type', { input: [{ role: 'user', content: ['x'] }] }, 'invalid_value', 'input[0].content[0]'],
  [
    'a part without a type',
    { input: [{ role: 'user', content: [{}] }] },
    'missing_parameter',
    'input[0].content[0].type',
  ],
  [
    'a text part without text',
    { input: [{ role: 'user', content: [{ type: 'input_text' }] }] },
    'missing_parameter',
    'input[0].content[0].text',
  ],
  [
    'an image part without an image',
    { input: [{ role: 'user', content: [{ type: 'input_image' }] }] },
    'missing_parameter',
    'input[0].content[0].image_url',
  ],
  [
    'a call without an id',
    { input: [{ type: 'function_call', name: 'f', arguments: '{}' }] },
    'missing_parameter',
    'input[0].call_id',
  ],
  [
    'arguments that are an object',
    { input: [{ type: 'function_call', call_id: 'a', name: 'f', arguments: {} }] },
    'invalid_value',
    'input[0].arguments',
  ],
  [
    'a result without a call id',
    { input: [{ type: 'function_call_output', output: 'x' }] },
    'missing_parameter',
    'input[0].call_id',
  ],
  [
    'a result without output',
    { input: [{ type: 'function_call_output', call_id: 'a' }] },
    'missing_parameter',
    'input[0].output',
  ],
  ['stream as a string', { stream: 'true' }, 'invalid_value', 'stream'],
  ['temperature as a string', { temperature: '1' }, 'invalid_value', 'temperature'],
  ['instructions as a list', { instructions: [] }, 'invalid_value', 'instructions'],
  ['tools as an object', { tools: {} }, 'invalid_value', 'tools'],
  ['a tool without a type', { tools: [{ name: 'f' }] }, 'missing_parameter', 'tools[0].type'],
  [
    "chat's tool without a name",
    { tools: [{ type: 'function', function: {} }] },
    'missing_parameter',
    'tools[0].function.name',
  ],
  [
    'parameters as a string',
    { tools: [{ type: 'function', name: 'f', parameters: '{}' }] },
    'invalid_value',
    'tools[0].parameters',
  ],
  ['a choice that is a number', { tool_choice: 5 }, 'invalid_value', 'tool_choice'],
  ['a format without a type', { text: { format: {} } }, 'missing_parameter', 'text.format.type'],
  [
    'a schema format without a schema',
    { text: { format: { type: 'json_schema', name: 'n' } } },
    'missing_parameter',
    'text.format.schema',
  ],
  ['effort as a number', { reasoning: { effort: 3 } }, 'invalid_value', 'reasoning.effort'],
]
for (const [name, body, kind, param] of problems)
  test(`responses request, rejected: ${name}`, () => {
    const outcome = codec.decodeRequest({ model: 'm', input: 'hi', ...body })
    assert.ok(!outcome.ok)
    assert.deepEqual([outcome.failure.kind, outcome.failure.param], [kind, param])
  })

test('responses request: prototype names are ordinary members', () => {
  const body = JSON.parse('{"model":"m","input":"x","__proto__":{"stream":true},"constructor":1,"toString":2}')
  const outcome = codec.decodeRequest(body)
  assert.ok(outcome.ok)
  assert.equal(outcome.value.stream, false)
  assert.deepEqual(outcome.value.extras.map(({ name }) => name).sort(), ['__proto__', 'constructor', 'toString'])
})
