import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  assistantMessage,
  chatRequest,
  lossPaths,
  textPart,
  toolCallPart,
  toolMessage,
  userMessage,
} from '../../../test/support/builders.ts'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'
import { gemini } from './index.ts'

const asks = (more: Partial<ChatRequest> = {}): ChatRequest =>
  chatRequest({ stream: false, messages: [{ role: 'user', at: 'messages[0]', content: [textPart('hi')] }], ...more })
const signature = (value: string, id?: string, text = ''): Part => ({
  type: 'reasoning',
  at: `proof ${value}`,
  text,
  signature: { origin: 'gemini', value, ...(id !== undefined && { id }) },
})

const encode = (more: Partial<ChatRequest>, name = 'gemini-2.5-flash') => {
  const { body, losses, from } = gemini.encodeRequest(asks(more), { model: name, outputLimit: 1_000 })
  return { body, from, losses: lossPaths(losses) }
}

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────

const called = (id: string, more: JsonObject = {}, name = 'f') => ({
  functionCall: { id, name, args: { a: 1 } },
  ...more,
})
const answered = (id: string, output: string, name = 'f') => ({ functionResponse: { id, name, response: { output } } })

const conversations: readonly (readonly [string, readonly Message[], Json, readonly string[], string?])[] = [
  ['a question', [userMessage(textPart('hi'))], [{ role: 'user', parts: [{ text: 'hi' }] }], []],
  [
    'neighbours are one turn, empty texts none',
    [userMessage(textPart('a')), userMessage(textPart(''), textPart('b')), assistantMessage(textPart(''))],
    [{ role: 'user', parts: [{ text: 'a' }, { text: 'b' }] }],
    [],
  ],
  [
    'results together, in the order of the calls, before what the user said',
    [
      userMessage(textPart('q')),
      assistantMessage(toolCallPart('1'), toolCallPart('2', 'g')),
      toolMessage('2', 'two'),
      userMessage(textPart('and?')),
      toolMessage('1', 'one'),
    ],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1'), called('2', {}, 'g')] },
      { role: 'user', parts: [answered('1', 'one'), answered('2', 'two', 'g'), { text: 'and?' }] },
    ],
    [],
  ],
  [
    'a result without its call',
    [userMessage(textPart('q')), toolMessage('9', 'x')],
    [{ role: 'user', parts: [{ text: 'q' }] }],
    ['!r 9'],
  ],
  [
    'a signature goes to the call it names',
    [
      userMessage(textPart('q')),
      assistantMessage(signature('S', '2'), textPart('hm'), toolCallPart('1'), toolCallPart('2')),
    ],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'hm' }, called('1'), called('2', { thoughtSignature: 'S' })] },
    ],
    [],
  ],
  [
    'one of a call somebody renamed goes to the next',
    [userMessage(textPart('q')), assistantMessage(signature('S', 'gone'), toolCallPart('1'), toolCallPart('2'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1', { thoughtSignature: 'S' }), called('2')] },
    ],
    [],
  ],
  [
    'one of a text stands behind it',
    [userMessage(textPart('q')), assistantMessage(textPart('a'), signature('S'), toolCallPart('1'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'a', thoughtSignature: 'S' }, called('1')] },
    ],
    [],
  ],
  [
    'or before it',
    [userMessage(textPart('q')), assistantMessage(signature('S'), textPart('a'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'a', thoughtSignature: 'S' }] },
    ],
    [],
  ],
  [
    'a signature alone, a signed thought',
    [userMessage(textPart('q')), assistantMessage(signature('S'), signature('T', undefined, 'hm'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      {
        role: 'model',
        parts: [
          { text: '', thoughtSignature: 'S' },
          { text: 'hm', thought: true, thoughtSignature: 'T' },
        ],
      },
    ],
    [],
  ],
  [
    'thoughts of others, and unsigned ones, are lost',
    [
      userMessage(textPart('q')),
      assistantMessage(
        { type: 'reasoning', at: 'one', text: 'hm' },
        { type: 'reasoning', at: 'two', text: 'hm', signature: { origin: 'anthropic-messages', value: 's' } },
        textPart('a'),
      ),
    ],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'a' }] },
    ],
    ['one', 'two'],
  ],
  [
    'the third generation: another maker’s calls are excused, the first of a turn',
    [
      userMessage(textPart('q')),
      assistantMessage(toolCallPart('1'), toolCallPart('2')),
      toolMessage('1', 'x'),
      toolMessage('2', 'y'),
    ],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1', { thoughtSignature: 'skip_thought_signature_validator' }), called('2')] },
      { role: 'user', parts: [answered('1', 'x'), answered('2', 'y')] },
    ],
    [],
    'gemini-3-flash-preview',
  ],
  [
    'the third generation: a signed one is left as it is',
    [userMessage(textPart('q')), assistantMessage(signature('S', '1'), toolCallPart('1'), toolCallPart('2'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1', { thoughtSignature: 'S' }), called('2')] },
    ],
    [],
    'gemini-3.1-pro',
  ],
  [
    'arguments that are none are kept as text',
    [userMessage(textPart('q')), assistantMessage(toolCallPart('1', 'f', '{"a'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ functionCall: { id: '1', name: 'f', args: { unreadable_arguments: '{"a' } } }] },
    ],
    [],
  ],
  [
    'a failed call says so',
    [
      userMessage(textPart('q')),
      assistantMessage(toolCallPart('1')),
      { role: 'tool', at: 'r', callId: '1', content: [textPart('boom')], isError: true },
    ],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1')] },
      { role: 'user', parts: [{ functionResponse: { id: '1', name: 'f', response: { error: 'boom' } } }] },
    ],
    [],
  ],
  [
    'pictures, files, sound',
    [
      userMessage(
        { type: 'image', at: 'i', source: { kind: 'data', mediaType: '', data: 'iVBORw0KGgo=' }, detail: 'low' },
        { type: 'image', at: 'u', source: { kind: 'url', url: 'https://h/a.png?x=1' } },
        { type: 'image', at: 'v', source: { kind: 'url', url: 'http://h/a.png' } },
        {
          type: 'file',
          at: 'f',
          source: { kind: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' },
          filename: 'a.pdf',
        },
        { type: 'file', at: 'o', source: { kind: 'id', id: 'file-1', protocol: 'openai-chat' } },
        { type: 'audio', at: 's', data: 'AAAA', format: 'mp3' },
      ),
    ],
    [
      {
        role: 'user',
        parts: [
          { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } },
          { fileData: { mimeType: 'image/png', fileUri: 'https://h/a.png?x=1' } },
          { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
          { inlineData: { mimeType: 'audio/mpeg', data: 'AAAA' } },
        ],
      },
    ],
    ['i.detail', '!v', 'f.filename', '!o'],
  ],
  ['nothing at all', [], [], ['!messages']],
]
for (const [name, messages, contents, losses, family] of conversations)
  test(`gemini request: ${name}`, () => {
    const made = encode({ messages }, family)
    assert.deepEqual(made.body.contents, contents)
    assert.deepEqual(made.losses, losses)
  })

test('gemini request: system messages go to the front, a lone one is the question', () => {
  const system = (text: string): Message => ({
    role: 'system',
    at: `s ${text}`,
    as: 'system',
    content: [textPart(text)],
  })
  const { body } = encode({ messages: [system('a'), userMessage(textPart('q')), system('b')] })
  assert.deepEqual(body.systemInstruction, { parts: [{ text: 'a' }, { text: 'b' }] })
  const alone = encode({ messages: [system('a'), system('b')] })
  assert.deepEqual(alone.body, {
    contents: [{ role: 'user', parts: [{ text: 'b' }] }],
    systemInstruction: { parts: [{ text: 'a' }] },
  })
  assert.deepEqual(alone.losses, ['s b.role'])
})

test('gemini request: a signature kept by a client of the compatible endpoint', () => {
  const extra = (value: Json) => ({ name: 'extra_content', value, essential: false, at: 'call 1.extra_content' })
  const message = (value: Json): Message =>
    ({ ...assistantMessage(toolCallPart('1')), extras: [extra(value)] }) as Message
  const kept = encode(
    { messages: [userMessage(textPart('q')), message({ google: { thought_signature: 'S' } })] },
    'gemini-3-pro',
  )
  assert.deepEqual(object((kept.body.contents as Json[])[1])?.parts, [called('1', { thoughtSignature: 'S' })])
  assert.deepEqual(kept.losses, [])
  assert.deepEqual(encode({ messages: [userMessage(textPart('q')), message({ other: 1 })] }).losses, [
    'call 1.extra_content',
  ])
})

test('gemini request: a picture in a result, where each generation takes it', () => {
  const picture: Part = {
    type: 'image',
    at: 'i',
    source: { kind: 'data', mediaType: 'image/png', data: 'iVBORw0KGgo=' },
  }
  const messages = [
    userMessage(textPart('q')),
    assistantMessage(toolCallPart('1')),
    { ...toolMessage('1', 'x'), content: [textPart('x'), picture] } as Message,
  ]
  const inlineData = { mimeType: 'image/png', data: 'iVBORw0KGgo=' }
  const last = (name: string) => object((encode({ messages }, name).body.contents as Json[])[2])?.parts
  assert.deepEqual(last('gemini-2.5-pro'), [answered('1', 'x'), { inlineData }])
  assert.deepEqual(last('gemini-3-pro'), [
    { functionResponse: { id: '1', name: 'f', response: { output: 'x' }, parts: [{ inlineData }] } },
  ])
})

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = <T>(value: T, path: string) => ({ value, at: path })
const SCHEMA = { type: 'object', properties: { a: { type: 'string', minLength: 1 } }, required: ['a'] }

const settings: readonly (readonly [string, GenerationSettings, Json, readonly string[], string?])[] = [
  [
    'those with a like here',
    {
      maxOutputTokens: at(50, 'max'),
      temperature: at(0.5, 't'),
      topP: at(0.9, 'p'),
      topK: at(7, 'k'),
      stop: at(['a', ''], 's'),
      seed: at(3, 'seed'),
      presencePenalty: at(1, 'pp'),
      frequencyPenalty: at(-1, 'fp'),
      logprobs: at(true, 'l'),
      topLogprobs: at(2, 'tl'),
      choices: at(1, 'n'),
    },
    {
      maxOutputTokens: 50,
      temperature: 0.5,
      topP: 0.9,
      topK: 7,
      stopSequences: ['a'],
      seed: 3,
      presencePenalty: 1,
      frequencyPenalty: -1,
      responseLogprobs: true,
      logprobs: 2,
    },
    ['s'],
  ],
  ['several choices', { choices: at(8, 'n') }, { candidateCount: 8 }, []],
  [
    'those beyond its bounds',
    { maxOutputTokens: at(5_000, 'max'), temperature: at(3, 't'), seed: at(2 ** 40, 'seed'), choices: at(9, 'n') },
    { maxOutputTokens: 1_000, temperature: 2 },
    ['max', 't', 'seed', '!n'],
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
      streamUsage: at(true, 'su'),
    },
    undefined as unknown as Json,
    ['lb', 'v', 'user', 'key', 'tier', 'm', 'store'],
  ],
  ['JSON', { format: at({ kind: 'json' }, 'f') }, { responseMimeType: 'application/json' }, []],
  [
    'a schema of a format that has no names: none is made up',
    { format: at({ kind: 'schema', name: DEFAULT_FORMAT_NAME, schema: SCHEMA }, 'f') },
    { responseMimeType: 'application/json', responseJsonSchema: SCHEMA },
    ['f.schema.properties.a.minLength'],
  ],
  [
    'a schema',
    { format: at({ kind: 'schema', name: 'n', description: 'd', schema: SCHEMA }, 'f') },
    { responseMimeType: 'application/json', responseJsonSchema: { ...SCHEMA, title: 'n', description: 'd' } },
    ['f.schema.properties.a.minLength'],
  ],
  [
    'thinking by tokens',
    { effort: at('medium', 'e') },
    { thinkingConfig: { thinkingBudget: 8_192, includeThoughts: true } },
    [],
  ],
  ['no thinking', { effort: at('none', 'e') }, { thinkingConfig: { thinkingBudget: 0 } }, []],
  [
    'no thinking, where it cannot be helped',
    { effort: at('none', 'e') },
    { thinkingConfig: { thinkingBudget: 128 } },
    ['e'],
    'gemini-2.5-pro',
  ],
  [
    'thinking by words',
    { effort: at('xhigh', 'e') },
    { thinkingConfig: { thinkingLevel: 'HIGH', includeThoughts: true } },
    ['e'],
    'gemini-3-pro-preview',
  ],
  [
    'a budget outweighs an effort',
    { effort: at('low', 'e'), thinkingBudget: at(99_999, 'b') },
    { thinkingConfig: { thinkingBudget: 24_576, includeThoughts: true } },
    ['e', 'b'],
  ],
  ['thoughts shown', { reasoningSummary: at('auto', 's') }, { thinkingConfig: { includeThoughts: true } }, []],
  [
    'a model that does not think',
    { effort: at('high', 'e'), reasoningSummary: at('auto', 's') },
    undefined as unknown as Json,
    ['e', 's'],
    'gemini-2.0-flash',
  ],
]
for (const [name, wishes, config, losses, family] of settings)
  test(`gemini settings: ${name}`, () => {
    const made = encode({ settings: wishes }, family)
    assert.deepEqual(made.body.generationConfig, config)
    assert.deepEqual(made.losses.toSorted(), [...losses].toSorted())
  })

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

const PARAMETERS = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
}
const tool = (name: string, strict = false): Tool => ({
  kind: 'function',
  at: `t ${name}`,
  name,
  parameters: PARAMETERS,
  strict,
})

const choices: readonly (readonly [
  string,
  GenerationSettings,
  Json | undefined,
  readonly string[],
  readonly string[],
])[] = [
  ['unsaid', {}, undefined, ['f', 'g'], []],
  ['auto', { toolChoice: at({ kind: 'auto' }, 'c') }, { mode: 'AUTO' }, ['f', 'g'], []],
  ['none', { toolChoice: at({ kind: 'none' }, 'c') }, { mode: 'NONE' }, ['f', 'g'], []],
  ['required', { toolChoice: at({ kind: 'required' }, 'c') }, { mode: 'ANY' }, ['f', 'g'], []],
  [
    'one',
    { toolChoice: at({ kind: 'tool', name: 'g' }, 'c') },
    { mode: 'ANY', allowedFunctionNames: ['g'] },
    ['f', 'g'],
    [],
  ],
  [
    'some, of which one has to be called',
    { toolChoice: at({ kind: 'allowed', mode: 'required', names: ['g'] }, 'c') },
    { mode: 'ANY', allowedFunctionNames: ['g'] },
    ['f', 'g'],
    [],
  ],
  ['some', { toolChoice: at({ kind: 'allowed', mode: 'auto', names: ['g'] }, 'c') }, { mode: 'AUTO' }, ['g'], []],
  ['one at a time', { parallelToolCalls: at(false, 'p') }, undefined, ['f', 'g'], ['p']],
]
for (const [name, wishes, config, names, losses] of choices)
  test(`gemini tools: ${name}`, () => {
    const { body, losses: lost } = encode({ tools: [tool('f'), tool('g')], settings: wishes })
    assert.deepEqual(body.tools, [
      { functionDeclarations: names.map((each) => ({ name: each, parametersJsonSchema: PARAMETERS })) },
    ])
    assert.deepEqual(object(body.toolConfig)?.functionCallingConfig, config)
    assert.deepEqual(lost, losses)
  })

test('gemini tools: strict ones are held to their schemas', () => {
  const { body, losses } = encode({ tools: [tool('f', true), tool('g')] })
  assert.deepEqual(body.toolConfig, { functionCallingConfig: { mode: 'VALIDATED' } })
  assert.deepEqual(losses, [])
})

test('gemini tools: another vendor’s own are not to be had, and JSON beside tools only in the third generation', () => {
  const hosted: Tool = { kind: 'foreign', at: 'tools[0]', protocol: 'openai-responses', raw: { type: 'web_search' } }
  assert.deepEqual(encode({ tools: [hosted] }).losses, ['!tools[0]'])
  const wishes: Partial<ChatRequest> = {
    tools: [tool('f')],
    settings: { format: at({ kind: 'schema', name: 'n', schema: PARAMETERS }, 'f') },
  }
  assert.deepEqual(encode(wishes).losses, ['!f'])
  assert.deepEqual(encode(wishes, 'gemini-3-pro').losses, [])
})

test('gemini tools: names it does not take and free-form input are undone in the answer', () => {
  const tools: Tool[] = [
    { kind: 'custom', at: 't', name: 'shell' },
    { kind: 'function', at: 't', name: '1 wéird/name' },
  ]
  const { body } = encode({ tools })
  const declared = object((body.tools as Json[])[0])?.functionDeclarations as JsonObject[]
  const [, odd] = declared.map(({ name }) => String(name))
  assert.match(odd ?? '', /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/)
  const stage = gemini.restore?.(asks({ tools }))
  assert.ok(stage)
  const parts = [
    { functionCall: { name: 'shell', args: { input: 'ls -l' } } },
    { functionCall: { name: odd ?? '', args: {} } },
  ]
  const events = run(stage, gemini.decodeAnswer({ candidates: [{ content: { parts }, finishReason: 'STOP' }] }))
  const opened = events.flatMap((event) =>
    event.type === 'open' && event.block.type === 'tool-call' ? [event.block] : [],
  )
  assert.deepEqual(
    opened.map(({ name, custom }) => [name, custom]),
    [
      ['shell', true],
      ['1 wéird/name', undefined],
    ],
  )
  assert.ok(events.some((event) => event.type === 'delta' && event.text === 'ls -l'))
})
