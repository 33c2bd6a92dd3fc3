import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { openaiResponses as codec } from './index.ts'

const asked: ChatRequest = {
  model: 'client-name',
  stream: false,
  messages: [{ role: 'user', at: 'messages[0]', content: [{ type: 'text', at: 'messages[0].content', text: 'hi' }] }],
  tools: [],
  settings: {},
  extras: [],
}
const encoded = (more: Partial<ChatRequest>) => codec.encodeRequest({ ...asked, ...more }, { model: 'm' })

// ── The published schema, where it is at hand ────────────────────────────────────────────────────────────────────────

const published = new URL('../../../../shared/wire/openai.schema.json', import.meta.url)
const present = existsSync(published)
if (!present && process.env.HEADGATE_CI === '1')
  test('the published schema is present', () => assert.fail('it is missing'))
if (!present) test('requests are valid against the published schema', { skip: 'the schema is missing' }, () => {})
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false, strictTypes: false })
if (present) ajv.addSchema(JSON.parse(readFileSync(published, 'utf8')))
const check = ajv.getSchema('urn:wire:openai#/$defs/CreateResponse')
const valid = (body: JsonObject) => {
  if (check) assert.ok(check(body), JSON.stringify(check.errors?.slice(0, 4)))
}

test('responses request: an unknown tool choice makes the target unfit', () => {
  const extra = { at: 'tool_choice', name: 'tool_choice', value: 'always', essential: true }
  const { body, losses } = encoded({ extras: [extra] })
  assert.equal(body.tool_choice, undefined)
  assert.deepEqual(losses, [{ path: 'tool_choice', essential: true }])
})

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const text = (words: string): Part => ({ type: 'text', at: 'p', text: words })
const user = (...content: Part[]): Message => ({ role: 'user', at: 'messages[0]', content })
const turn = (...content: Part[]): Message => ({ role: 'assistant', at: 'messages[1]', content })
const proven = (origin: 'openai-responses' | 'anthropic-messages', words: string): Part => ({
  type: 'reasoning',
  at: 'r',
  text: words,
  summary: true,
  signature: { origin, value: 'SEAL', id: 'rs_1' },
})
const call: Part = { type: 'tool-call', at: 'c', id: 'call_1', name: 'f', arguments: '{"a":1}' }

const messages: readonly (readonly [string, readonly Message[], unknown, readonly (readonly [string, boolean])[]])[] = [
  ['one text is a string', [user(text('hi'))], [{ type: 'message', role: 'user', content: 'hi' }], []],
  [
    'system messages stay in their place, each in its role',
    [
      { role: 'system', as: 'system', at: 's', content: [text('a')] },
      user(text('hi')),
      { role: 'system', as: 'developer', at: 'd', content: [text('b'), text('c')] },
    ],
    [
      { type: 'message', role: 'system', content: 'a' },
      { type: 'message', role: 'user', content: 'hi' },
      {
        type: 'message',
        role: 'developer',
        content: [
          { type: 'input_text', text: 'b' },
          { type: 'input_text', text: 'c' },
        ],
      },
    ],
    [],
  ],
  [
    'images and files',
    [
      user(
        { type: 'image', at: 'p', source: { kind: 'data', mediaType: 'image/png', data: 'QQ==' } },
        { type: 'image', at: 'p', source: { kind: 'id', id: 'file-1', protocol: 'openai-chat' }, detail: 'low' },
        { type: 'file', at: 'p', source: { kind: 'data', mediaType: 'text/plain', data: 'QQ==' } },
        { type: 'file', at: 'p', source: { kind: 'url', url: 'https://a.example/b' }, filename: 'b' },
      ),
    ],
    [
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_image', image_url: 'data:image/png;base64,QQ==', detail: 'auto' },
          { type: 'input_image', file_id: 'file-1', detail: 'low' },
          { type: 'input_file', filename: 'file.txt', file_data: 'data:text/plain;base64,QQ==' },
          { type: 'input_file', filename: 'b', file_url: 'https://a.example/b' },
        ],
      },
    ],
    [],
  ],
  [
    'parts without an equivalent make the target unfit',
    [
      user(
        text('hi'),
        { type: 'audio', at: 'messages[0].content[1]', data: 'QQ==', format: 'wav' },
        { type: 'file', at: 'messages[0].content[2]', source: { kind: 'id', id: 'f', protocol: 'anthropic-messages' } },
        { type: 'foreign', at: 'messages[0].content[3]', protocol: 'anthropic-messages', raw: {} },
      ),
    ],
    [{ type: 'message', role: 'user', content: 'hi' }],
    [
      ['messages[0].content[1]', true],
      ['messages[0].content[2]', true],
      ['messages[0].content[3]', true],
    ],
  ],
  [
    'a turn: reasoning with a signature of this format, text, a call, its result',
    [
      turn(proven('openai-responses', 'hm'), text('so'), call),
      { role: 'tool', at: 't', callId: 'call_1', content: [text('42')] },
    ],
    [
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: 'hm' }],
        encrypted_content: 'SEAL',
      },
      { type: 'message', role: 'assistant', content: 'so' },
      { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{"a":1}' },
      { type: 'function_call_output', call_id: 'call_1', output: '42' },
    ],
    [],
  ],
  [
    "reasoning with another format's signature is dropped as a loss",
    [turn(proven('anthropic-messages', ''), text('a')), turn(proven('anthropic-messages', 'hm'), text('b'))],
    [
      { type: 'message', role: 'assistant', content: 'a' },
      { type: 'message', role: 'assistant', content: 'b' },
    ],
    [['r', false]],
  ],
  [
    'reasoning without following output is dropped, because OpenAI rejects it',
    [turn(text('a'), proven('openai-responses', 'hm'), proven('openai-responses', ''), text(''))],
    [{ type: 'message', role: 'assistant', content: 'a' }],
    [['r', false]],
  ],
  [
    'several texts and a refusal are one message',
    [turn(text('a'), text(''), { type: 'refusal', at: 'p', text: 'no' })],
    [
      {
        id: 'msg_hg0x0',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [
          { type: 'output_text', text: 'a', annotations: [], logprobs: [] },
          { type: 'refusal', refusal: 'no' },
        ],
      },
    ],
    [],
  ],
  [
    'free-form calls and results have their own types; missing arguments are an empty object',
    [
      turn({ ...call, id: 'call_2', arguments: 'x', custom: true }, { ...call, arguments: '' }),
      { role: 'tool', at: 't', callId: 'call_2', content: [text('a'), text('b')] },
      { role: 'tool', at: 't', callId: 'call_1', content: [text('it broke')], isError: true },
    ],
    [
      { type: 'custom_tool_call', call_id: 'call_2', name: 'f', input: 'x' },
      { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
      {
        type: 'custom_tool_call_output',
        call_id: 'call_2',
        output: [
          { type: 'input_text', text: 'a' },
          { type: 'input_text', text: 'b' },
        ],
      },
      { type: 'function_call_output', call_id: 'call_1', output: 'Error: it broke' },
    ],
    [],
  ],
  [
    "another format's signed reasoning is a loss, with and without text",
    [
      turn(
        { type: 'reasoning', at: 'a', text: 'hm', signature: { origin: 'anthropic-messages', value: 's' } },
        { type: 'reasoning', at: 'b', text: '', signature: { origin: 'anthropic-messages', value: 's' } },
        { type: 'reasoning', at: 'c', text: '' },
        text('yes'),
      ),
    ],
    [{ type: 'message', role: 'assistant', content: 'yes' }],
    [
      ['a', false],
      ['b', false],
    ],
  ],
  [
    'message names are losses',
    [{ ...user(text('hi')), extras: [{ at: 'messages[0].name', name: 'name', value: 'Ann', essential: false }] }],
    [{ type: 'message', role: 'user', content: 'hi' }],
    [['messages[0].name', false]],
  ],
]
for (const [name, from, input, losses] of messages)
  test(`responses encodes: ${name}`, () => {
    const { body, losses: lost } = encoded({ messages: from })
    assert.deepEqual(body.input, input)
    assert.deepEqual(
      lost.map(({ path, essential }) => [path, essential]),
      losses,
    )
    valid(body)
  })

test('responses encodes: a call id above the limit is replaced, the same for call and result', () => {
  const id = 'x'.repeat(65)
  const { body } = encoded({
    messages: [turn({ ...call, id }), { role: 'tool', at: 't', callId: id, content: [text('1')] }],
  })
  const [made, result] = body.input as readonly JsonObject[]
  assert.equal(made?.call_id, result?.call_id)
  assert.match(String(made?.call_id), /^call_[a-z0-9]{40}$/)
  valid(body)
})

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const at = <T>(value: T, path: string) => ({ value, at: path })
const settings: readonly (readonly [
  string,
  GenerationSettings,
  JsonObject,
  readonly (readonly [string, boolean])[],
])[] = [
  ['no settings: store is false', {}, { store: false }, []],
  ['store, if requested', { store: at(true, 'store') }, { store: true }, []],
  [
    'the plain ones',
    {
      temperature: at(0.2, 'temperature'),
      topP: at(0.9, 'top_p'),
      maxOutputTokens: at(100, 'max_completion_tokens'),
      parallelToolCalls: at(false, 'parallel_tool_calls'),
      promptCacheKey: at('k', 'prompt_cache_key'),
      metadata: at({ a: 'b' }, 'metadata'),
      serviceTier: at('flex', 'service_tier'),
      streamUsage: at(true, 'stream_options.include_usage'),
      choices: at(1, 'n'),
      presencePenalty: at(0, 'presence_penalty'),
      stop: at([], 'stop'),
    },
    {
      store: false,
      temperature: 0.2,
      top_p: 0.9,
      max_output_tokens: 100,
      parallel_tool_calls: false,
      prompt_cache_key: 'k',
      metadata: { a: 'b' },
      service_tier: 'flex',
    },
    [],
  ],
  [
    'an output limit below the minimum is raised and reported',
    { maxOutputTokens: at(1, 'max_tokens') },
    { store: false, max_output_tokens: 16 },
    [['max_tokens', false]],
  ],
  [
    'settings without an equivalent',
    {
      stop: at(['x'], 'stop'),
      seed: at(1, 'seed'),
      topK: at(5, 'top_k'),
      presencePenalty: at(1, 'presence_penalty'),
      frequencyPenalty: at(1, 'frequency_penalty'),
      logitBias: at({ 1: 2 }, 'logit_bias'),
      serviceTier: at('standard_only', 'service_tier'),
    },
    { store: false },
    ['frequency_penalty', 'logit_bias', 'presence_penalty', 'seed', 'service_tier', 'stop', 'top_k'].map(
      (path) => [path, false] as const,
    ),
  ],
  [
    'a thinking budget, to a model that may reason',
    { thinkingBudget: at(2_000, 'thinking.budget_tokens') },
    { reasoning: { effort: 'low' }, store: false },
    [],
  ],
  ['several answers', { choices: at(2, 'n') }, { store: false }, [['n', true]]],
  [
    'reasoning, text and include',
    {
      effort: at('low', 'reasoning_effort'),
      reasoningSummary: at('auto', 'x'),
      verbosity: at('low', 'verbosity'),
      format: at({ kind: 'schema', name: 'n', schema: { type: 'object' } }, 'response_format'),
      logprobs: at(true, 'logprobs'),
      topLogprobs: at(2, 'top_logprobs'),
      encryptedReasoning: at(true, 'y'),
    },
    {
      store: false,
      reasoning: { effort: 'low', summary: 'auto' },
      text: { verbosity: 'low', format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: false } },
      include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
      top_logprobs: 2,
    },
    [],
  ],
  ['the user, by the name the client used', { user: at('u', 'user') }, { store: false, user: 'u' }, []],
  ['the user, by the newer name', { user: at('u', 'safety_identifier') }, { store: false, safety_identifier: 'u' }, []],
]
for (const [name, from, expected, losses] of settings)
  test(`responses settings: ${name}`, () => {
    const { body, losses: lost } = encoded({ settings: from })
    const { model, input, ...rest } = body
    assert.deepEqual(rest, expected)
    assert.deepEqual(lost.map((loss) => [loss.path, loss.essential]).sort(), [...losses].sort())
    valid(body)
  })

test('responses encodes: each member has the path of its source', () => {
  const { from } = encoded({
    settings: { maxOutputTokens: at(100, 'max_tokens'), format: at({ kind: 'json' }, 'response_format') },
    tools: [{ kind: 'function', at: 'tools[0]', name: 'f' }],
  })
  assert.deepEqual(from, {
    model: 'model',
    input: 'messages',
    tools: 'tools',
    max_output_tokens: 'max_tokens',
    text: 'response_format',
    'text.format': 'response_format',
    store: 'store',
  })
})

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const empty = { type: 'object', properties: {}, required: [], additionalProperties: false }
const tools: readonly (readonly [string, Tool, readonly JsonObject[], readonly (readonly [string, boolean])[]])[] = [
  [
    'strict is always written',
    { kind: 'function', at: 't', name: 'f', parameters: { type: 'object' } },
    [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} }, strict: false }],
    [],
  ],
  [
    'strict without parameters',
    { kind: 'function', at: 't', name: 'f', strict: true },
    [{ type: 'function', name: 'f', parameters: empty, strict: true }],
    [],
  ],
  [
    'free-form',
    {
      kind: 'custom',
      at: 't',
      name: 'f',
      description: 'd',
      format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } },
    },
    [{ type: 'custom', name: 'f', description: 'd', format: { type: 'grammar', syntax: 'lark', definition: 'x' } }],
    [],
  ],
  [
    'a hosted tool of this format',
    { kind: 'foreign', at: 't', protocol: 'openai-responses', raw: { type: 'web_search' } },
    [{ type: 'web_search' }],
    [],
  ],
  [
    "another format's hosted tool",
    { kind: 'foreign', at: 'tools[0]', protocol: 'anthropic-messages', raw: {} },
    [],
    [['tools[0]', true]],
  ],
]
for (const [name, tool, expected, losses] of tools)
  test(`responses tools: ${name}`, () => {
    const { body, losses: lost } = encoded({ tools: [tool] })
    assert.deepEqual(body.tools ?? [], expected)
    assert.deepEqual(
      lost.map((loss) => [loss.path, loss.essential]),
      losses,
    )
    valid(body)
  })

test('responses tools: a choice names the kind of its tool', () => {
  const both: readonly Tool[] = [
    { kind: 'function', at: 'tools[0]', name: 'f' },
    { kind: 'custom', at: 'tools[1]', name: 'g' },
  ]
  const choose = (settings: GenerationSettings) => {
    const { body } = encoded({ tools: both, settings })
    valid(body)
    return body.tool_choice
  }
  assert.deepEqual(choose({ toolChoice: at({ kind: 'tool', name: 'g' }, 'tool_choice') }), {
    type: 'custom',
    name: 'g',
  })
  assert.deepEqual(choose({ toolChoice: at({ kind: 'allowed', mode: 'auto', names: ['f', 'g'] }, 'tool_choice') }), {
    type: 'allowed_tools',
    mode: 'auto',
    tools: [
      { type: 'function', name: 'f' },
      { type: 'custom', name: 'g' },
    ],
  })
})

test('responses tools: an invalid name is replaced everywhere and restored in the answer', () => {
  const name = `mcp.server:${'x'.repeat(80)}`
  const request: ChatRequest = {
    ...asked,
    messages: [turn({ ...call, name })],
    tools: [{ kind: 'function', at: 'tools[0]', name }],
    settings: { toolChoice: at({ kind: 'tool', name }, 'tool_choice') },
  }
  const { body } = encoded(request)
  const [tool] = list(body.tools)
  const made = String(object(tool)?.name)
  assert.match(made, /^[a-zA-Z0-9_-]{1,64}$/)
  assert.equal(object(list(body.input)[0])?.name, made)
  assert.equal(object(body.tool_choice)?.name, made)
  const restored = codec.restore?.(request)?.push({ type: 'open', block: { type: 'tool-call', id: 'c', name: made } })
  assert.deepEqual(restored, [{ type: 'open', block: { type: 'tool-call', id: 'c', name } }])
  assert.equal(codec.restore?.(asked), undefined)
})

test('responses encodes: extras of this format are kept, others lost, essential ones make the target unfit', () => {
  const { body, losses } = encoded({
    extras: [
      { at: 'prompt_cache_retention', name: 'prompt_cache_retention', value: '24h', essential: false },
      { at: 'prediction', name: 'prediction', value: {}, essential: false },
      { at: 'container', name: 'container', value: 'c', essential: true },
    ],
  })
  assert.equal(body.prompt_cache_retention, '24h')
  assert.deepEqual(losses, [
    { path: 'prediction', essential: false },
    { path: 'container', essential: true },
  ])
})

// ── Same format on both sides ────────────────────────────────────────────────────────────────────────────────────────

test("responses encodes: Anthropic's context_management is not passed on", () => {
  const asked = (value: Json) =>
    encoded({ extras: [{ at: 'context_management', name: 'context_management', value, essential: false }] })
  const own = [{ type: 'compaction', compact_threshold: 1_000 }]
  assert.deepEqual(asked(own).body.context_management, own)
  const { body, losses } = asked({ edits: [{ type: 'clear_thinking_20251015' }] })
  assert.equal(body.context_management, undefined)
  assert.deepEqual(losses, [{ path: 'context_management', essential: false }])
})

test('responses passes: only the model changes', () => {
  const input = [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'SEAL' }]
  const body: JsonObject = { model: 'asked', input, unknown: { a: 1 } }
  const adapted: JsonObject = codec.passing.adaptRequest(body, { model: 'm' })
  assert.deepEqual({ ...adapted }, { ...body, model: 'm' })
  assert.equal(adapted.input, input)
  assert.equal(adapted.unknown, body.unknown)
  assert.equal(codec.passing.adaptRequest(body, { model: 'asked' }), body)
})

test("responses passes: another format's reasoning and reasoning made by the gateway are removed", () => {
  const own = { type: 'reasoning', id: 'rs_0f', summary: [] }
  const said = { role: 'user', content: 'hi' }
  const adapted = codec.passing.adaptRequest(
    {
      model: 'm',
      input: [
        { type: 'reasoning', id: 'rs_hg_abc', summary: [], encrypted_content: 'hg1:anthropic-messages:::0:SIG' },
        { type: 'reasoning', id: 'rs_hg_abd', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
        own,
        said,
      ],
    },
    { model: 'm' },
  )
  assert.deepEqual(adapted, { model: 'm', input: [own, said] })
})

test('responses passes: plain reasoning is kept for upstreams that read it, without a foreign signature', () => {
  const content = [{ type: 'reasoning_text', text: 'hm' }]
  const named = { type: 'reasoning', id: 'rs_hg_abd', summary: [], content }
  const sealed = { ...named, encrypted_content: 'hg1:anthropic-messages:::0:SIG' }
  const empty = { type: 'reasoning', id: 'rs_hg_abe', summary: [] }
  const input = [named, sealed, empty]
  const adapted = codec.passing.adaptRequest({ model: 'm', input }, { model: 'm', acceptsReasoning: true })
  const open = (index: number) => ({ ...named, id: `rs_hg_${index}`, encrypted_content: null })
  assert.deepEqual(adapted, { model: 'm', input: [open(0), open(1)] })
})

test('responses passes: an upstream that reads plain reasoning receives no ID and no encryption of another provider', () => {
  const summary = [{ type: 'summary_text', text: 'The user wants the weather.' }]
  const input = [
    { role: 'user', content: 'hi' },
    { type: 'reasoning', id: 'rs_0f', summary, encrypted_content: 'gAAAABseal=' },
    { type: 'reasoning', id: 'rs_1f', summary: [], encrypted_content: 'gAAAABother=' },
    { type: 'reasoning', id: 'rs_hg_rs_2f', summary },
  ]
  const target = { model: 'm', acceptsReasoning: true }
  const adapted = codec.passing.adaptRequest({ model: 'm', input }, target)
  const open = (index: number) => ({
    type: 'reasoning',
    id: `rs_hg_${index}`,
    summary: [],
    content: [{ type: 'reasoning_text', text: 'The user wants the weather.' }],
    encrypted_content: null,
  })
  assert.deepEqual(adapted, { model: 'm', input: [input[0], open(1), open(3)] })
  assert.deepEqual(codec.passing.omittedEntries?.({ input }, target), ['input[2]'])
})

test('responses passes: reasoning that another instance is known to have encrypted is removed', () => {
  const item = (encrypted_content: string) => ({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content })
  const input = [item('known'), item('other'), { role: 'user', content: 'hi' }]
  const target = { model: 'm', isEncryptedElsewhere: (encrypted: string) => encrypted === 'other' }
  assert.deepEqual(codec.passing.adaptRequest({ model: 'm', input }, target).input, [input[0], input[2]])
  assert.deepEqual(codec.passing.omittedEntries?.({ input }, target), ['input[1]'])
})
