import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatRequest, lossPaths } from '../../../test/support/builders.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { cohere } from './index.ts'

const requestWith = (more: Partial<ChatRequest>): ChatRequest =>
  chatRequest({
    stream: false,
    messages: [{ role: 'user', at: 'messages[0]', content: [{ type: 'text', at: 'messages[0].content', text: 'q' }] }],
    ...more,
  })

const REASONING_MODEL = 'command-a-reasoning-08-2025'
const PLAIN_MODEL = 'command-a-03-2025'
const OLD_MODEL = 'command-r-plus'

/** The encoded body and its losses; essential losses begin with `!`. A request that fits must be valid. */
const encode = (more: Partial<ChatRequest>, model = PLAIN_MODEL) => {
  const { body, losses } = cohere.encodeRequest(requestWith(more), { model, outputLimit: 1_000 })
  if (!losses.some(({ essential }) => essential)) assert.equal(problemsOf('cohere', 'Request', body), undefined)
  return { body, losses: lossPaths(losses) }
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const textPart = (text: string): Part => ({ type: 'text', at: `text ${text}`, text })
const user = (...content: readonly Part[]): Message => ({ role: 'user', at: 'u', content })
const system = (text: string): Message => ({
  role: 'system',
  at: `s ${text}`,
  as: 'developer',
  content: [textPart(text)],
})
const model = (...content: readonly Part[]): Message => ({ role: 'assistant', at: 'm', content })
const call = (id: string, args = '{}'): Part => ({
  type: 'tool-call',
  at: `call ${id}`,
  id,
  name: 'f',
  arguments: args,
})
const result = (callId: string, ...content: readonly Part[]): Message => ({
  role: 'tool',
  at: `r ${callId}`,
  callId,
  content,
})
const reasoning = (text: string, more: object = {}): Part => ({ type: 'reasoning', at: `t ${text}`, text, ...more })
const plan = (text: string): Part => reasoning(text, { signature: { origin: 'cohere', value: 'tool_plan' } })
const file = (more: object): Part => ({
  type: 'file',
  at: 'f',
  filename: 'a.txt',
  source: { kind: 'data', mediaType: 'text/plain', data: 'aGk=' },
  ...more,
})
const IMAGE = { kind: 'data', mediaType: '', data: 'iVBORw0KGgo=' } as const
const image = (more: object = {}): Part => ({ type: 'image', at: 'i', source: IMAGE, ...more })
const imageUrl = (more: object = {}): JsonObject => ({
  type: 'image_url',
  image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', ...more },
})

const q = { role: 'user', content: 'q' }
const called = (id: string, args = '{}'): JsonObject => ({
  id,
  type: 'function',
  function: { name: 'f', arguments: args },
})

const conversations: readonly (readonly [string, readonly Message[], readonly Json[], readonly string[], string?])[] = [
  ['a text', [user(textPart('q'))], [q], []],
  [
    'system messages go to the front',
    [system('a'), user(textPart('q')), system('b')],
    [
      {
        role: 'system',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      q,
    ],
    [],
  ],
  [
    'the last of only system messages becomes a user message',
    [system('a'), system('b')],
    [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'b' },
    ],
    ['s b.role'],
  ],
  ['no messages', [], [], ['!messages']],
  ['empty texts are dropped', [user(textPart(''), textPart('q')), model(textPart(''))], [q], []],
  [
    'calls and their results',
    [
      user(textPart('q')),
      model(call('1', '{"a":1}'), call('2', '')),
      result('1', textPart('x')),
      result('2', textPart('y')),
    ],
    [
      q,
      { role: 'assistant', tool_calls: [called('1', '{"a":1}'), called('2')] },
      { role: 'tool', tool_call_id: '1', content: 'x' },
      { role: 'tool', tool_call_id: '2', content: 'y' },
    ],
    [],
  ],
  ['a result without its call', [user(textPart('q')), result('9', textPart('x'))], [q], ['!r 9']],
  [
    'a duplicate call ID is made unique',
    [user(textPart('q')), model(call('1')), result('1', textPart('x')), model(call('1')), result('1', textPart('y'))],
    [
      q,
      { role: 'assistant', tool_calls: [called('1')] },
      { role: 'tool', tool_call_id: '1', content: 'x' },
      { role: 'assistant', tool_calls: [called('1_2')] },
      { role: 'tool', tool_call_id: '1_2', content: 'y' },
    ],
    [],
  ],
  [
    'an error result with text and one without',
    [
      user(textPart('q')),
      model(call('1'), call('2')),
      { ...result('1', textPart('no')), isError: true } as Message,
      { ...result('2'), isError: true } as Message,
    ],
    [
      q,
      { role: 'assistant', tool_calls: [called('1'), called('2')] },
      { role: 'tool', tool_call_id: '1', content: 'Error: no' },
      { role: 'tool', tool_call_id: '2', content: [{ type: 'text', text: 'Error:' }] },
    ],
    [],
  ],
  [
    'an image in a tool result follows in a user message',
    [
      user(textPart('q')),
      model(call('1'), call('2')),
      result('1', image()),
      result('2', textPart('x')),
      user(textPart('q')),
    ],
    [
      q,
      { role: 'assistant', tool_calls: [called('1'), called('2')] },
      { role: 'tool', tool_call_id: '1', content: 'The result is in the next user message.' },
      { role: 'tool', tool_call_id: '2', content: 'x' },
      { role: 'user', content: [imageUrl()] },
      q,
    ],
    [],
  ],
  [
    'a plan returns as tool_plan',
    [user(textPart('q')), model(plan('I will.'), call('1'))],
    [q, { role: 'assistant', tool_plan: 'I will.', tool_calls: [called('1')] }],
    [],
  ],
  [
    'text beside calls becomes the plan',
    [user(textPart('q')), model(textPart('Let me see.'), call('1'))],
    [q, { role: 'assistant', tool_plan: 'Let me see.', tool_calls: [called('1')] }],
    [],
  ],
  [
    'reasoning without a signature becomes the plan for a model that does not think',
    [user(textPart('q')), model(reasoning('I will.'), call('1'))],
    [q, { role: 'assistant', tool_plan: 'I will.', tool_calls: [called('1')] }],
    [],
  ],
  [
    'reasoning without a signature is thinking for a model that thinks',
    [user(textPart('q')), model(reasoning('hm'), plan('I will.'), call('1'))],
    [
      q,
      {
        role: 'assistant',
        content: [{ type: 'thinking', thinking: 'hm' }],
        tool_plan: 'I will.',
        tool_calls: [called('1')],
      },
    ],
    [],
    REASONING_MODEL,
  ],
  [
    'thinking before text',
    [user(textPart('q')), model(reasoning('hm'), textPart('a'))],
    [
      q,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm' },
          { type: 'text', text: 'a' },
        ],
      },
    ],
    [],
    REASONING_MODEL,
  ],
  [
    'thinking is dropped for a model that does not think',
    [user(textPart('q')), model(reasoning('hm'), textPart('a'))],
    [q, { role: 'assistant', content: 'a' }],
    ['t hm'],
  ],
  [
    'reasoning of other providers and summaries are dropped',
    [
      user(textPart('q')),
      model(
        reasoning('x', { signature: { origin: 'gemini', value: 'S' } }),
        reasoning('y', { summary: true }),
        textPart('a'),
      ),
    ],
    [q, { role: 'assistant', content: 'a' }],
    ['t x', 't y'],
    REASONING_MODEL,
  ],
  [
    'images',
    [
      user(
        textPart('q'),
        image({ detail: 'low' }),
        image({ source: { kind: 'url', url: 'https://h/a.png' }, detail: 'original' }),
      ),
    ],
    [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'q' },
          imageUrl({ detail: 'low' }),
          { type: 'image_url', image_url: { url: 'https://h/a.png' } },
        ],
      },
    ],
    ['i.detail'],
  ],
  [
    'unsupported parts are unfit',
    [
      user(
        textPart('q'),
        image({ at: 'o', source: { kind: 'id', id: 'f', protocol: 'openai-chat' } }),
        file({ at: 'p', source: { kind: 'data', mediaType: 'application/pdf', data: 'AAAA' } }),
        file({ at: 'w', source: { kind: 'url', url: 'https://h/a.txt' } }),
        { type: 'audio', at: 'a', data: 'AAAA', format: 'wav' },
      ),
    ],
    [q],
    ['!o', '!p', '!w', '!a'],
  ],
]
for (const [name, messages, expected, losses, model] of conversations)
  test(`cohere request: ${name}`, () => {
    const encoded = encode({ messages }, model)
    assert.deepEqual(encoded.body.messages, expected)
    assert.deepEqual(encoded.losses, losses)
  })

test('cohere request: drops earlier thinking if thinking is disabled', () => {
  const messages = [user(textPart('q')), model(reasoning('hm'), textPart('a')), user(textPart('q'))]
  const encoded = encode({ messages, settings: { effort: { value: 'none', at: 'e' } } }, REASONING_MODEL)
  assert.deepEqual(encoded.body.thinking, { type: 'disabled' })
  assert.deepEqual(encoded.losses, ['t hm'])
})

// ── Documents ────────────────────────────────────────────────────────────────────────────────────────────────────

const extra = (name: string, value: Json) => ({ name, value, essential: false, at: `f.${name}` })

test('cohere request: a text file becomes a document', () => {
  const extras = [extra('citations', { enabled: true }), extra('context', 'from Ann'), extra('cache_control', {})]
  const { body, losses } = encode({ messages: [user(textPart('q'), file({ extras }))] })
  assert.deepEqual(body.messages, [q])
  assert.deepEqual(body.documents, [{ data: { title: 'a.txt', context: 'from Ann', text: 'hi' } }])
  assert.deepEqual(losses, ['f.cache_control'])
  assert.equal(list(encode({ messages: [user(file({}))] }).body.messages).length, 1)
})

test('cohere request: with an output format, a document becomes text of the message', () => {
  const settings: GenerationSettings = { format: { value: { kind: 'json' }, at: 'format' } }
  const { body, losses } = encode({ messages: [user(textPart('q'), file({}))], settings })
  assert.deepEqual(body.messages, [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'q' },
        { type: 'text', text: 'a.txt\n\nhi' },
      ],
    },
  ])
  assert.equal(body.documents, undefined)
  assert.deepEqual(losses, [])
})

test('cohere request: documents of a tool result stay in the result', () => {
  const { body } = encode({ messages: [user(textPart('q')), model(call('1')), result('1', file({}))] })
  assert.deepEqual(list(body.messages)[2], {
    role: 'tool',
    tool_call_id: '1',
    content: [{ type: 'document', document: { data: { title: 'a.txt', text: 'hi' } } }],
  })
  assert.equal(body.documents, undefined)
})

test('cohere request: accepts its own members from the client', () => {
  const own = (name: string, value: Json) => ({ name, value, essential: false, at: name })
  const { body, losses } = encode({
    messages: [user(textPart('q'), file({}))],
    extras: [
      own('safety_mode', 'STRICT'),
      own('citation_options', { mode: 'FAST' }),
      own('documents', ['more']),
      own('connectors', []),
      own('p', 0.5),
      own('k', 501),
    ],
  })
  assert.equal(body.safety_mode, 'STRICT')
  assert.deepEqual(body.citation_options, { mode: 'FAST' })
  assert.deepEqual(body.documents, [{ data: { title: 'a.txt', text: 'hi' } }, 'more'])
  assert.equal(body.p, 0.5)
  assert.deepEqual(losses, ['connectors', 'k'])
  const withFormat = encode({
    extras: [own('documents', ['d'])],
    settings: { format: { value: { kind: 'json' }, at: 'x' } },
  })
  assert.deepEqual(withFormat.losses, ['!documents'])
})

test('cohere request: accepts a thinking member from the client', () => {
  const own = (value: Json) => [{ name: 'thinking', value, essential: false, at: 'thinking' }]
  const thinking = (value: Json, model: string) => {
    const { body, losses } = encode({ extras: own(value) }, model)
    return [body.thinking, losses]
  }
  const budget = { type: 'enabled', token_budget: 500 }
  assert.deepEqual(thinking(budget, REASONING_MODEL), [budget, []])
  assert.deepEqual(thinking({ type: 'adaptive' }, REASONING_MODEL), [{ type: 'enabled' }, []])
  assert.deepEqual(thinking({ type: 'adaptive' }, PLAIN_MODEL), [undefined, ['thinking']])
  assert.deepEqual(thinking({ type: 'hard' }, REASONING_MODEL), [undefined, ['thinking']])
})

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = <T>(value: T, path: string) => ({ value, at: path })
const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string', minLength: 1 } },
  required: ['a'],
  additionalProperties: false,
}
const schemaFormat = (schema: Json): GenerationSettings => ({ format: at({ kind: 'schema', name: 'n', schema }, 'f') })

const settings: readonly (readonly [string, GenerationSettings, JsonObject, readonly string[], string?])[] = [
  [
    'supported settings',
    {
      maxOutputTokens: at(50, 'max'),
      temperature: at(0.5, 't'),
      topP: at(0.9, 'p'),
      topK: at(7, 'k'),
      stop: at(['a', ''], 's'),
      seed: at(3, 'seed'),
      presencePenalty: at(0, 'pp'),
      frequencyPenalty: at(0.5, 'fp'),
      logprobs: at(true, 'l'),
      choices: at(1, 'n'),
      store: at(false, 'store'),
      streamUsage: at(true, 'su'),
    },
    {
      max_tokens: 50,
      temperature: 0.5,
      p: 0.9,
      k: 7,
      stop_sequences: ['a'],
      seed: 3,
      frequency_penalty: 0.5,
      logprobs: true,
    },
    ['s'],
  ],
  [
    'values out of range are clamped',
    {
      maxOutputTokens: at(5_000, 'max'),
      temperature: at(1.5, 't'),
      topP: at(1, 'p'),
      topK: at(900, 'k'),
      stop: at(['1', '2', '3', '4', '5', '6'], 's'),
      seed: at(-1, 'seed'),
      presencePenalty: at(-1, 'pp'),
      topLogprobs: at(3, 'tl'),
      choices: at(2, 'n'),
    },
    {
      max_tokens: 1_000,
      temperature: 1,
      p: 0.99,
      k: 500,
      stop_sequences: ['1', '2', '3', '4', '5'],
      presence_penalty: 0,
      logprobs: true,
    },
    ['max', 't', 'p', 'k', 's', 'seed', 'pp', 'tl', '!n'],
  ],
  [
    'only one of two penalties is sent',
    { presencePenalty: at(0.5, 'pp'), frequencyPenalty: at(0.25, 'fp') },
    { frequency_penalty: 0.25 },
    ['pp'],
  ],
  [
    'unsupported settings',
    {
      logitBias: at({ 1: 2 }, 'lb'),
      verbosity: at('low', 'v'),
      user: at('u', 'user'),
      promptCacheKey: at('c', 'key'),
      serviceTier: at('flex', 'tier'),
      metadata: at({ a: 'b' }, 'm'),
      store: at(true, 'store'),
    },
    {},
    ['lb', 'v', 'user', 'key', 'tier', 'm', 'store'],
  ],
  ['JSON', { format: at({ kind: 'json' }, 'f') }, { response_format: { type: 'json_object' } }, []],
  [
    'a schema with a bound in the description',
    schemaFormat(SCHEMA),
    {
      response_format: {
        type: 'json_object',
        json_schema: {
          ...SCHEMA,
          properties: { a: { type: 'string', description: '(minLength: 1)' } },
          title: 'n',
        },
      },
    },
    ['f.schema.properties.a.minLength'],
  ],
  ['a schema without an object at the top level', schemaFormat({ type: 'string' }), {}, ['!f']],
  ['a schema without required members', schemaFormat({ type: 'object', properties: { a: {} } }), {}, ['!f']],
  ['a schema with allOf', schemaFormat({ ...SCHEMA, allOf: [] }), {}, ['!f']],
  ['effort high', { effort: at('high', 'e') }, { thinking: { type: 'enabled' } }, [], REASONING_MODEL],
  ['effort low', { effort: at('low', 'e') }, { thinking: { type: 'enabled' } }, ['e'], REASONING_MODEL],
  [
    'a token budget overrides an effort',
    { effort: at('high', 'e'), thinkingBudget: at(500, 'b') },
    { thinking: { type: 'enabled', token_budget: 500 } },
    ['e'],
    REASONING_MODEL,
  ],
  ['a budget of zero', { thinkingBudget: at(0, 'b') }, { thinking: { type: 'disabled' } }, [], REASONING_MODEL],
  ['a reasoning summary needs no member', { reasoningSummary: at('auto', 's') }, {}, [], REASONING_MODEL],
  [
    'a reasoning summary without thinking',
    { effort: at('none', 'e'), reasoningSummary: at('auto', 's') },
    { thinking: { type: 'disabled' } },
    ['s'],
    REASONING_MODEL,
  ],
  [
    'reasoning settings for a model that does not think',
    { effort: at('high', 'e'), reasoningSummary: at('auto', 's'), thinkingBudget: at(9, 'b') },
    {},
    ['b', 'e', 's'],
  ],
  ['effort none for a model that does not think', { effort: at('none', 'e') }, {}, []],
]
for (const [name, generation, members, losses, model = PLAIN_MODEL] of settings)
  test(`cohere settings: ${name}`, () => {
    const encoded = encode({ settings: generation }, model)
    const { model: name, messages, stream, ...rest } = encoded.body
    assert.deepEqual([name, messages, stream], [model, [q], false])
    assert.deepEqual(rest, members)
    assert.deepEqual(encoded.losses.toSorted(), [...losses].toSorted())
  })

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

const PARAMETERS = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
}
const tool = (name: string, more: object = {}): Tool => ({
  kind: 'function',
  at: `tools.${name}`,
  name,
  parameters: PARAMETERS,
  ...more,
})
const hosted: Tool = { kind: 'foreign', at: 'tools.web', protocol: 'openai-responses', raw: { type: 'web_search' } }

const choices: readonly (readonly [
  string,
  readonly Tool[],
  GenerationSettings,
  readonly string[],
  (Json | undefined)?,
  string?,
])[] = [
  ['no choice', [tool('f'), tool('g')], {}, ['f', 'g']],
  ['auto', [tool('f')], { toolChoice: at({ kind: 'auto' }, 'c') }, ['f']],
  ['none', [tool('f')], { toolChoice: at({ kind: 'none' }, 'c') }, ['f'], 'NONE'],
  ['required', [tool('f'), tool('g')], { toolChoice: at({ kind: 'required' }, 'c') }, ['f', 'g'], 'REQUIRED'],
  [
    'a named tool is the only one sent',
    [tool('f'), tool('g')],
    { toolChoice: at({ kind: 'tool', name: 'g' }, 'c') },
    ['g', 'lost tools.f'],
    'REQUIRED',
  ],
  [
    'an unknown named tool',
    [tool('f')],
    { toolChoice: at({ kind: 'tool', name: 'x' }, 'c') },
    ['lost tools.f', 'lost !c'],
  ],
  [
    'allowed tools, required',
    [tool('f'), tool('g'), tool('h')],
    { toolChoice: at({ kind: 'allowed', mode: 'required', names: ['f', 'h'] }, 'c') },
    ['f', 'h', 'lost tools.g'],
    'REQUIRED',
  ],
  [
    'allowed tools without a hosted tool',
    [hosted, tool('f')],
    { toolChoice: at({ kind: 'allowed', mode: 'auto', names: ['f'] }, 'c') },
    ['f', 'lost tools.web'],
  ],
  ['a hosted tool', [hosted, tool('f')], {}, ['f', 'lost !tools.web']],
  ['no parallel tool calls', [tool('f')], { parallelToolCalls: at(false, 'p') }, ['f', 'lost p']],
  ['required without tools', [], { toolChoice: at({ kind: 'required' }, 'c') }, ['lost c']],
  [
    'required, not supported by an old model',
    [tool('f')],
    { toolChoice: at({ kind: 'required' }, 'c') },
    ['f', 'lost !c'],
    'REQUIRED',
    OLD_MODEL,
  ],
  [
    'none, not supported by an old model',
    [tool('f')],
    { toolChoice: at({ kind: 'none' }, 'c') },
    ['lost tools.f'],
    undefined,
    OLD_MODEL,
  ],
  ['JSON mode with tools', [tool('f')], { format: at({ kind: 'json' }, 'x') }, ['f', 'lost x']],
  ['a schema with tools', [tool('f')], schemaFormat(PARAMETERS), ['f', 'lost !f']],
]
for (const [name, tools, generation, expected, choice, model] of choices)
  test(`cohere tools: ${name}`, () => {
    const { body, losses } = encode({ tools, settings: generation }, model)
    const names = list(body.tools).map((entry) => object(object(entry)?.function)?.name)
    assert.deepEqual([...names, ...losses.map((path) => `lost ${path}`)], expected)
    assert.equal(body.tool_choice, choice)
  })

const OPEN = { type: 'object', properties: { a: { type: 'string' } } }
const fieldNames = (count: number) => Array.from({ length: count }, (_, index) => `p${index}`)
const strictness: readonly (readonly [string, readonly Tool[], true | undefined, readonly string[]])[] = [
  ['no tool is strict', [tool('f')], undefined, []],
  ['all tools are strict', [tool('f', { strict: true }), tool('g', { strict: true })], true, []],
  ['one tool is strict', [tool('f', { strict: true }), tool('g')], undefined, ['tools.f.strict']],
  ['a strict tool with open objects', [tool('f', { strict: true, parameters: OPEN })], undefined, []],
  [
    'a strict tool with an unsupported keyword',
    [tool('f', { strict: true, parameters: SCHEMA })],
    undefined,
    ['tools.f.strict'],
  ],
  [
    'a strict tool without arguments',
    [tool('f', { strict: true }), { kind: 'function', at: 'tools.g', name: 'g', strict: true }],
    undefined,
    ['tools.f.strict'],
  ],
  [
    'more than 200 fields',
    [
      tool('f', {
        strict: true,
        parameters: {
          ...PARAMETERS,
          properties: Object.fromEntries(fieldNames(201).map((each) => [each, { type: 'string' }])),
          required: fieldNames(201),
        },
      }),
    ],
    undefined,
    ['tools.f.strict'],
  ],
]
for (const [name, tools, strict, losses] of strictness)
  test(`cohere strict tools: ${name}`, () => {
    const encoded = encode({ tools })
    assert.equal(encoded.body.strict_tools, strict)
    assert.deepEqual(encoded.losses, losses)
  })

test('cohere tools: declares parameters for functions without arguments and for custom tools', () => {
  const { body } = encode({
    tools: [
      { kind: 'function', at: 't', name: 'f', description: 'd' },
      { kind: 'custom', at: 't', name: 'g' },
    ],
  })
  const [first, second] = list(body.tools).map((entry) => object(object(entry)?.function))
  assert.deepEqual(first, { name: 'f', description: 'd', parameters: { type: 'object', properties: {} } })
  assert.deepEqual(object(second?.parameters)?.required, ['input'])
})

test('cohere tools: restores replaced names and free-form input in the answer', () => {
  const tools: Tool[] = [
    { kind: 'custom', at: 't', name: 'shell' },
    { kind: 'function', at: 't', name: 'mcp__my-server' },
    { kind: 'function', at: 't', name: '1st' },
  ]
  const { body } = encode({ tools })
  const names = list(body.tools).map((entry) => String(object(object(entry)?.function)?.name))
  assert.equal(new Set(names).size, 3)
  const stage = cohere.restore?.(requestWith({ tools }))
  assert.ok(stage)
  const tool_calls = names.map((name, index) => ({
    id: `c${index}`,
    function: { name, arguments: index === 0 ? '{"input":"ls -l"}' : '{}' },
  }))
  const events = run(stage, cohere.decodeAnswer({ id: 'a', message: { tool_calls }, finish_reason: 'TOOL_CALL' }))
  const opened = events.flatMap((event) =>
    event.type === 'open' && event.block.type === 'tool-call' ? [[event.block.name, event.block.custom]] : [],
  )
  assert.deepEqual(opened, [
    ['shell', true],
    ['mcp__my-server', undefined],
    ['1st', undefined],
  ])
  assert.ok(events.some((event) => event.type === 'delta' && event.text === 'ls -l'))
})

test('cohere request: encodes streaming and records the path of each member', () => {
  const { body, from } = cohere.encodeRequest(requestWith({ stream: true, settings: { topP: at(0.5, 'top_p') } }), {
    model: 'm',
  })
  assert.equal(body.stream, true)
  assert.equal(from.p, 'top_p')
  assert.equal(from.messages, 'messages')
})
