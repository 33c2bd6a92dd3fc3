import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatRequest, lossPaths } from '../../../test/support/builders.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { cohere } from './index.ts'

const asks = (more: Partial<ChatRequest>): ChatRequest =>
  chatRequest({
    stream: false,
    messages: [{ role: 'user', at: 'messages[0]', content: [{ type: 'text', at: 'messages[0].content', text: 'q' }] }],
    ...more,
  })

const THINKS = 'command-a-reasoning-08-2025'
const PLAIN = 'command-a-03-2025'
const OLD = 'command-r-plus'

/** The body, and the losses with an exclamation mark before those that make it unfit. What is sent is always valid. */
const encode = (more: Partial<ChatRequest>, model = PLAIN) => {
  const { body, losses } = cohere.encodeRequest(asks(more), { model, outputLimit: 1_000 })
  if (!losses.some(({ essential }) => essential)) assert.equal(problemsOf('cohere', 'Request', body), undefined)
  return { body, losses: lossPaths(losses) }
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const said = (text: string): Part => ({ type: 'text', at: `said ${text}`, text })
const user = (...content: readonly Part[]): Message => ({ role: 'user', at: 'u', content })
const system = (text: string): Message => ({ role: 'system', at: `s ${text}`, as: 'developer', content: [said(text)] })
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
const thought = (text: string, more: object = {}): Part => ({ type: 'reasoning', at: `t ${text}`, text, ...more })
const plan = (text: string): Part => thought(text, { signature: { origin: 'cohere', value: 'tool_plan' } })
const file = (more: object): Part => ({
  type: 'file',
  at: 'f',
  filename: 'a.txt',
  source: { kind: 'data', mediaType: 'text/plain', data: 'aGk=' },
  ...more,
})
const PICTURE = { kind: 'data', mediaType: '', data: 'iVBORw0KGgo=' } as const
const picture = (more: object = {}): Part => ({ type: 'image', at: 'i', source: PICTURE, ...more })
const shown = (more: object = {}): JsonObject => ({
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
  ['one text', [user(said('q'))], [q], []],
  [
    'system messages go to the front',
    [system('a'), user(said('q')), system('b')],
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
    'of system messages alone the last is the question',
    [system('a'), system('b')],
    [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'b' },
    ],
    ['s b.role'],
  ],
  ['nothing at all', [], [], ['!messages']],
  ['empty texts say nothing', [user(said(''), said('q')), model(said(''))], [q], []],
  [
    'calls and their results',
    [user(said('q')), model(call('1', '{"a":1}'), call('2', '')), result('1', said('x')), result('2', said('y'))],
    [
      q,
      { role: 'assistant', tool_calls: [called('1', '{"a":1}'), called('2')] },
      { role: 'tool', tool_call_id: '1', content: 'x' },
      { role: 'tool', tool_call_id: '2', content: 'y' },
    ],
    [],
  ],
  ['a result of no call', [user(said('q')), result('9', said('x'))], [q], ['!r 9']],
  [
    'an id used twice',
    [user(said('q')), model(call('1')), result('1', said('x')), model(call('1')), result('1', said('y'))],
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
    'an error, and a result of nothing',
    [
      user(said('q')),
      model(call('1'), call('2')),
      { ...result('1', said('no')), isError: true } as Message,
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
    'a picture a tool gave is shown behind',
    [user(said('q')), model(call('1'), call('2')), result('1', picture()), result('2', said('x')), user(said('q'))],
    [
      q,
      { role: 'assistant', tool_calls: [called('1'), called('2')] },
      { role: 'tool', tool_call_id: '1', content: 'The result is in the next user message.' },
      { role: 'tool', tool_call_id: '2', content: 'x' },
      { role: 'user', content: [shown()] },
      q,
    ],
    [],
  ],
  [
    'a plan goes back where it came from',
    [user(said('q')), model(plan('I will.'), call('1'))],
    [q, { role: 'assistant', tool_plan: 'I will.', tool_calls: [called('1')] }],
    [],
  ],
  [
    'beside calls a text is a plan',
    [user(said('q')), model(said('Let me see.'), call('1'))],
    [q, { role: 'assistant', tool_plan: 'Let me see.', tool_calls: [called('1')] }],
    [],
  ],
  [
    'so is what a client kept of a plan without its mark, where nobody thinks',
    [user(said('q')), model(thought('I will.'), call('1'))],
    [q, { role: 'assistant', tool_plan: 'I will.', tool_calls: [called('1')] }],
    [],
  ],
  [
    'where one thinks it is a thought',
    [user(said('q')), model(thought('hm'), plan('I will.'), call('1'))],
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
    THINKS,
  ],
  [
    'thoughts before an answer',
    [user(said('q')), model(thought('hm'), said('a'))],
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
    THINKS,
  ],
  [
    'thoughts of a model that thinks, to one that does not',
    [user(said('q')), model(thought('hm'), said('a'))],
    [q, { role: 'assistant', content: 'a' }],
    ['t hm'],
  ],
  [
    'thoughts of somebody else',
    [
      user(said('q')),
      model(thought('x', { signature: { origin: 'gemini', value: 'S' } }), thought('y', { summary: true }), said('a')),
    ],
    [q, { role: 'assistant', content: 'a' }],
    ['t x', 't y'],
    THINKS,
  ],
  [
    'pictures',
    [
      user(
        said('q'),
        picture({ detail: 'low' }),
        picture({ source: { kind: 'url', url: 'https://h/a.png' }, detail: 'original' }),
      ),
    ],
    [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'q' },
          shown({ detail: 'low' }),
          { type: 'image_url', image_url: { url: 'https://h/a.png' } },
        ],
      },
    ],
    ['i.detail'],
  ],
  [
    'what there is no place for',
    [
      user(
        said('q'),
        picture({ at: 'o', source: { kind: 'id', id: 'f', protocol: 'openai-chat' } }),
        file({ at: 'p', source: { kind: 'data', mediaType: 'application/pdf', data: 'AAAA' } }),
        file({ at: 'w', source: { kind: 'url', url: 'https://h/a.txt' } }),
        { type: 'audio', at: 'a', data: 'AAAA', format: 'wav' },
      ),
    ],
    [q],
    ['!o', '!p', '!w', '!a'],
  ],
]
for (const [name, messages, expected, losses, family] of conversations)
  test(`cohere request: ${name}`, () => {
    const made = encode({ messages }, family)
    assert.deepEqual(made.body.messages, expected)
    assert.deepEqual(made.losses, losses)
  })

test('cohere request: thoughts stay behind when the model is told not to think', () => {
  const messages = [user(said('q')), model(thought('hm'), said('a')), user(said('q'))]
  const made = encode({ messages, settings: { effort: { value: 'none', at: 'e' } } }, THINKS)
  assert.deepEqual(made.body.thinking, { type: 'disabled' })
  assert.deepEqual(made.losses, ['t hm'])
})

// ── Documents ────────────────────────────────────────────────────────────────────────────────────────────────────

const extra = (name: string, value: Json) => ({ name, value, essential: false, at: `f.${name}` })

test('cohere request: a file of text is a document', () => {
  const extras = [extra('citations', { enabled: true }), extra('context', 'from Ann'), extra('cache_control', {})]
  const { body, losses } = encode({ messages: [user(said('q'), file({ extras }))] })
  assert.deepEqual(body.messages, [q])
  assert.deepEqual(body.documents, [{ data: { title: 'a.txt', context: 'from Ann', text: 'hi' } }])
  assert.deepEqual(losses, ['f.cache_control'])
  assert.equal(list(encode({ messages: [user(file({}))] }).body.messages).length, 1)
})

test('cohere request: where the answer has a form, its words stand in the message', () => {
  const settings: GenerationSettings = { format: { value: { kind: 'json' }, at: 'format' } }
  const { body, losses } = encode({ messages: [user(said('q'), file({}))], settings })
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

test('cohere request: documents a tool gave stay with its result', () => {
  const { body } = encode({ messages: [user(said('q')), model(call('1')), result('1', file({}))] })
  assert.deepEqual(list(body.messages)[2], {
    role: 'tool',
    tool_call_id: '1',
    content: [{ type: 'document', document: { data: { title: 'a.txt', text: 'hi' } } }],
  })
  assert.equal(body.documents, undefined)
})

test('cohere request: members of its own that a client sends through', () => {
  const own = (name: string, value: Json) => ({ name, value, essential: false, at: name })
  const { body, losses } = encode({
    messages: [user(said('q'), file({}))],
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
  const formed = encode({
    extras: [own('documents', ['d'])],
    settings: { format: { value: { kind: 'json' }, at: 'x' } },
  })
  assert.deepEqual(formed.losses, ['!documents'])
})

test('cohere request: a client’s own way to say that the model shall think', () => {
  const own = (value: Json) => [{ name: 'thinking', value, essential: false, at: 'thinking' }]
  const thinking = (value: Json, model: string) => {
    const { body, losses } = encode({ extras: own(value) }, model)
    return [body.thinking, losses]
  }
  const budget = { type: 'enabled', token_budget: 500 }
  assert.deepEqual(thinking(budget, THINKS), [budget, []])
  assert.deepEqual(thinking({ type: 'adaptive' }, THINKS), [{ type: 'enabled' }, []])
  assert.deepEqual(thinking({ type: 'adaptive' }, PLAIN), [undefined, ['thinking']])
  assert.deepEqual(thinking({ type: 'hard' }, THINKS), [undefined, ['thinking']])
})

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = <T>(value: T, path: string) => ({ value, at: path })
const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string', minLength: 1 } },
  required: ['a'],
  additionalProperties: false,
}
const formed = (schema: Json): GenerationSettings => ({ format: at({ kind: 'schema', name: 'n', schema }, 'f') })

const settings: readonly (readonly [string, GenerationSettings, JsonObject, readonly string[], string?])[] = [
  [
    'those with a like here',
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
    'those beyond its bounds',
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
    'of two penalties one',
    { presencePenalty: at(0.5, 'pp'), frequencyPenalty: at(0.25, 'fp') },
    { frequency_penalty: 0.25 },
    ['pp'],
  ],
  [
    'those without a like',
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
    'a schema, its bounds in words',
    formed(SCHEMA),
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
  ['a schema that is no object', formed({ type: 'string' }), {}, ['!f']],
  ['a schema with everything optional', formed({ type: 'object', properties: { a: {} } }), {}, ['!f']],
  ['a schema put together', formed({ ...SCHEMA, allOf: [] }), {}, ['!f']],
  ['a lot of thinking', { effort: at('high', 'e') }, { thinking: { type: 'enabled' } }, [], THINKS],
  ['some thinking', { effort: at('low', 'e') }, { thinking: { type: 'enabled' } }, ['e'], THINKS],
  [
    'so many tokens of it outweigh an effort',
    { effort: at('high', 'e'), thinkingBudget: at(500, 'b') },
    { thinking: { type: 'enabled', token_budget: 500 } },
    ['e'],
    THINKS,
  ],
  ['none', { thinkingBudget: at(0, 'b') }, { thinking: { type: 'disabled' } }, [], THINKS],
  ['thoughts are shown anyway', { reasoningSummary: at('auto', 's') }, {}, [], THINKS],
  [
    'none, and shown',
    { effort: at('none', 'e'), reasoningSummary: at('auto', 's') },
    { thinking: { type: 'disabled' } },
    ['s'],
    THINKS,
  ],
  [
    'a model that does not think',
    { effort: at('high', 'e'), reasoningSummary: at('auto', 's'), thinkingBudget: at(9, 'b') },
    {},
    ['b', 'e', 's'],
  ],
  ['and is told not to', { effort: at('none', 'e') }, {}, []],
]
for (const [name, wishes, members, losses, family = PLAIN] of settings)
  test(`cohere settings: ${name}`, () => {
    const made = encode({ settings: wishes }, family)
    const { model: named, messages, stream, ...rest } = made.body
    assert.deepEqual([named, messages, stream], [family, [q], false])
    assert.deepEqual(rest, members)
    assert.deepEqual(made.losses.toSorted(), [...losses].toSorted())
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
  ['unsaid', [tool('f'), tool('g')], {}, ['f', 'g']],
  ['auto', [tool('f')], { toolChoice: at({ kind: 'auto' }, 'c') }, ['f']],
  ['none', [tool('f')], { toolChoice: at({ kind: 'none' }, 'c') }, ['f'], 'NONE'],
  ['required', [tool('f'), tool('g')], { toolChoice: at({ kind: 'required' }, 'c') }, ['f', 'g'], 'REQUIRED'],
  [
    'one of two is the only one',
    [tool('f'), tool('g')],
    { toolChoice: at({ kind: 'tool', name: 'g' }, 'c') },
    ['g', 'lost tools.f'],
    'REQUIRED',
  ],
  [
    'one that is not there',
    [tool('f')],
    { toolChoice: at({ kind: 'tool', name: 'x' }, 'c') },
    ['lost tools.f', 'lost !c'],
  ],
  [
    'some, of which one has to be called',
    [tool('f'), tool('g'), tool('h')],
    { toolChoice: at({ kind: 'allowed', mode: 'required', names: ['f', 'h'] }, 'c') },
    ['f', 'h', 'lost tools.g'],
    'REQUIRED',
  ],
  [
    'some, past a hosted one',
    [hosted, tool('f')],
    { toolChoice: at({ kind: 'allowed', mode: 'auto', names: ['f'] }, 'c') },
    ['f', 'lost tools.web'],
  ],
  ['a hosted one', [hosted, tool('f')], {}, ['f', 'lost !tools.web']],
  ['one at a time', [tool('f')], { parallelToolCalls: at(false, 'p') }, ['f', 'lost p']],
  ['required of none', [], { toolChoice: at({ kind: 'required' }, 'c') }, ['lost c']],
  [
    'required, of a model too old for it',
    [tool('f')],
    { toolChoice: at({ kind: 'required' }, 'c') },
    ['f', 'lost !c'],
    'REQUIRED',
    OLD,
  ],
  [
    'none, of a model too old for it',
    [tool('f')],
    { toolChoice: at({ kind: 'none' }, 'c') },
    ['lost tools.f'],
    undefined,
    OLD,
  ],
  ['JSON beside tools', [tool('f')], { format: at({ kind: 'json' }, 'x') }, ['f', 'lost x']],
  ['a schema beside tools', [tool('f')], formed(PARAMETERS), ['f', 'lost !f']],
]
for (const [name, tools, wishes, expected, choice, family] of choices)
  test(`cohere tools: ${name}`, () => {
    const { body, losses } = encode({ tools, settings: wishes }, family)
    const names = list(body.tools).map((one) => object(object(one)?.function)?.name)
    assert.deepEqual([...names, ...losses.map((lost) => `lost ${lost}`)], expected)
    assert.equal(body.tool_choice, choice)
  })

const OPEN = { type: 'object', properties: { a: { type: 'string' } } }
const many = (count: number) => Array.from({ length: count }, (_, index) => `p${index}`)
const strictness: readonly (readonly [string, readonly Tool[], true | undefined, readonly string[]])[] = [
  ['nobody wants it', [tool('f')], undefined, []],
  ['everybody does', [tool('f', { strict: true }), tool('g', { strict: true })], true, []],
  ['one does', [tool('f', { strict: true }), tool('g')], undefined, ['tools.f.strict']],
  ['one has nothing to hold to', [tool('f', { strict: true, parameters: OPEN })], undefined, []],
  ['one cannot be held', [tool('f', { strict: true, parameters: SCHEMA })], undefined, ['tools.f.strict']],
  [
    'one has no arguments',
    [tool('f', { strict: true }), { kind: 'function', at: 'tools.g', name: 'g', strict: true }],
    undefined,
    ['tools.f.strict'],
  ],
  [
    'too many members',
    [
      tool('f', {
        strict: true,
        parameters: {
          ...PARAMETERS,
          properties: Object.fromEntries(many(201).map((each) => [each, { type: 'string' }])),
          required: many(201),
        },
      }),
    ],
    undefined,
    ['tools.f.strict'],
  ],
]
for (const [name, tools, strict, losses] of strictness)
  test(`cohere tools: held to their schemas: ${name}`, () => {
    const made = encode({ tools })
    assert.equal(made.body.strict_tools, strict)
    assert.deepEqual(made.losses, losses)
  })

test('cohere tools: one without arguments says so, one of any is free', () => {
  const { body } = encode({
    tools: [
      { kind: 'function', at: 't', name: 'f', description: 'd' },
      { kind: 'custom', at: 't', name: 'g' },
    ],
  })
  const [first, second] = list(body.tools).map((one) => object(object(one)?.function))
  assert.deepEqual(first, { name: 'f', description: 'd', parameters: { type: 'object', properties: {} } })
  assert.deepEqual(object(second?.parameters)?.required, ['input'])
})

test('cohere tools: names it does not take and free-form input are undone in the answer', () => {
  const tools: Tool[] = [
    { kind: 'custom', at: 't', name: 'shell' },
    { kind: 'function', at: 't', name: 'mcp__my-server' },
    { kind: 'function', at: 't', name: '1st' },
  ]
  const { body } = encode({ tools })
  const names = list(body.tools).map((one) => String(object(object(one)?.function)?.name))
  assert.equal(new Set(names).size, 3)
  const stage = cohere.restore?.(asks({ tools }))
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

test('cohere request: says whether it streams, and whose member each is', () => {
  const { body, from } = cohere.encodeRequest(asks({ stream: true, settings: { topP: at(0.5, 'top_p') } }), {
    model: 'm',
  })
  assert.equal(body.stream, true)
  assert.equal(from.p, 'top_p')
  assert.equal(from.messages, 'messages')
})
