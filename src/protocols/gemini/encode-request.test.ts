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

const requestWith = (more: Partial<ChatRequest> = {}): ChatRequest =>
  chatRequest({ stream: false, messages: [{ role: 'user', at: 'messages[0]', content: [textPart('hi')] }], ...more })
const signature = (value: string, id?: string, text = ''): Part => ({
  type: 'reasoning',
  at: `signature ${value}`,
  text,
  signature: { origin: 'gemini', value, ...(id !== undefined && { id }) },
})

const encode = (more: Partial<ChatRequest>, name = 'gemini-2.5-flash') => {
  const { body, losses, from } = gemini.encodeRequest(requestWith(more), { model: name, outputLimit: 1_000 })
  return { body, from, losses: lossPaths(losses) }
}

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────

const called = (id: string, more: JsonObject = {}, name = 'f') => ({
  functionCall: { id, name, args: { a: 1 } },
  ...more,
})
const answered = (id: string, output: string, name = 'f') => ({ functionResponse: { id, name, response: { output } } })

const conversations: readonly (readonly [string, readonly Message[], Json, readonly string[], string?])[] = [
  ['one user message', [userMessage(textPart('hi'))], [{ role: 'user', parts: [{ text: 'hi' }] }], []],
  [
    'adjacent messages become one turn; empty texts are dropped',
    [userMessage(textPart('a')), userMessage(textPart(''), textPart('b')), assistantMessage(textPart(''))],
    [{ role: 'user', parts: [{ text: 'a' }, { text: 'b' }] }],
    [],
  ],
  [
    'results come first in their turn, in the order of the calls',
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
    'a signature with an unknown call ID goes to the next call',
    [userMessage(textPart('q')), assistantMessage(signature('S', 'gone'), toolCallPart('1'), toolCallPart('2'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1', { thoughtSignature: 'S' }), called('2')] },
    ],
    [],
  ],
  [
    'the signature of a text follows it',
    [userMessage(textPart('q')), assistantMessage(textPart('a'), signature('S'), toolCallPart('1'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'a', thoughtSignature: 'S' }, called('1')] },
    ],
    [],
  ],
  [
    'the signature of a text precedes it',
    [userMessage(textPart('q')), assistantMessage(signature('S'), textPart('a'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ text: 'a', thoughtSignature: 'S' }] },
    ],
    [],
  ],
  [
    'a signature alone, and a signed thought',
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
    'unsigned reasoning, and that of other providers, is dropped',
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
    'Gemini 3: the first unsigned call of a turn gets the placeholder signature',
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
    'Gemini 3: a signed call stays unchanged',
    [userMessage(textPart('q')), assistantMessage(signature('S', '1'), toolCallPart('1'), toolCallPart('2'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [called('1', { thoughtSignature: 'S' }), called('2')] },
    ],
    [],
    'gemini-3.1-pro',
  ],
  [
    'invalid arguments are kept as text',
    [userMessage(textPart('q')), assistantMessage(toolCallPart('1', 'f', '{"a'))],
    [
      { role: 'user', parts: [{ text: 'q' }] },
      { role: 'model', parts: [{ functionCall: { id: '1', name: 'f', args: { unreadable_arguments: '{"a' } } }] },
    ],
    [],
  ],
  [
    'an error result',
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
    'images, files and audio',
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
  ['no messages', [], [], ['!messages']],
]
for (const [name, messages, contents, losses, model] of conversations)
  test(`gemini request: ${name}`, () => {
    const encoded = encode({ messages }, model)
    assert.deepEqual(encoded.body.contents, contents)
    assert.deepEqual(encoded.losses, losses)
  })

test('gemini request: system messages move to the front; the last of only system messages becomes a user turn', () => {
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

test('gemini request: reads signatures from extra_content of the OpenAI-compatible endpoint', () => {
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

test('gemini request: places an image of a tool result beside it, or inside it for Gemini 3', () => {
  const image: Part = {
    type: 'image',
    at: 'i',
    source: { kind: 'data', mediaType: 'image/png', data: 'iVBORw0KGgo=' },
  }
  const messages = [
    userMessage(textPart('q')),
    assistantMessage(toolCallPart('1')),
    { ...toolMessage('1', 'x'), content: [textPart('x'), image] } as Message,
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
    'supported settings',
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
      responseLogprobs: true,
      logprobs: 2,
    },
    ['s', 'pp', 'fp'],
  ],
  ['several choices', { choices: at(8, 'n') }, { candidateCount: 8 }, []],
  [
    'values out of range are clamped',
    { maxOutputTokens: at(5_000, 'max'), temperature: at(3, 't'), seed: at(2 ** 40, 'seed'), choices: at(9, 'n') },
    { maxOutputTokens: 1_000, temperature: 2 },
    ['max', 't', 'seed', '!n'],
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
      streamUsage: at(true, 'su'),
    },
    undefined as unknown as Json,
    ['lb', 'v', 'user', 'key', 'tier', 'm', 'store'],
  ],
  ['JSON', { format: at({ kind: 'json' }, 'f') }, { responseMimeType: 'application/json' }, []],
  [
    'a schema of an unnamed format has no title',
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
    'effort as a budget',
    { effort: at('medium', 'e') },
    { thinkingConfig: { thinkingBudget: 8_192, includeThoughts: true } },
    [],
  ],
  ['effort none', { effort: at('none', 'e') }, { thinkingConfig: { thinkingBudget: 0 } }, []],
  [
    'effort none for a model that always thinks',
    { effort: at('none', 'e') },
    { thinkingConfig: { thinkingBudget: 128 } },
    ['e'],
    'gemini-2.5-pro',
  ],
  [
    'effort as a level',
    { effort: at('xhigh', 'e') },
    { thinkingConfig: { thinkingLevel: 'HIGH', includeThoughts: true } },
    ['e'],
    'gemini-3-pro-preview',
  ],
  [
    'a budget overrides an effort',
    { effort: at('low', 'e'), thinkingBudget: at(99_999, 'b') },
    { thinkingConfig: { thinkingBudget: 24_576, includeThoughts: true } },
    ['e', 'b'],
  ],
  [
    'a reasoning summary includes thoughts',
    { reasoningSummary: at('auto', 's') },
    { thinkingConfig: { includeThoughts: true } },
    [],
  ],
  [
    'reasoning settings for a model that does not think',
    { effort: at('high', 'e'), reasoningSummary: at('auto', 's') },
    undefined as unknown as Json,
    ['e', 's'],
    'gemini-2.0-flash',
  ],
]
for (const [name, generation, config, losses, model] of settings)
  test(`gemini settings: ${name}`, () => {
    const encoded = encode({ settings: generation }, model)
    assert.deepEqual(encoded.body.generationConfig, config)
    assert.deepEqual(encoded.losses.toSorted(), [...losses].toSorted())
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
  ['no choice', {}, undefined, ['f', 'g'], []],
  ['auto', { toolChoice: at({ kind: 'auto' }, 'c') }, { mode: 'AUTO' }, ['f', 'g'], []],
  ['none', { toolChoice: at({ kind: 'none' }, 'c') }, { mode: 'NONE' }, ['f', 'g'], []],
  ['required', { toolChoice: at({ kind: 'required' }, 'c') }, { mode: 'ANY' }, ['f', 'g'], []],
  [
    'a named tool',
    { toolChoice: at({ kind: 'tool', name: 'g' }, 'c') },
    { mode: 'ANY', allowedFunctionNames: ['g'] },
    ['f', 'g'],
    [],
  ],
  [
    'allowed tools, required',
    { toolChoice: at({ kind: 'allowed', mode: 'required', names: ['g'] }, 'c') },
    { mode: 'ANY', allowedFunctionNames: ['g'] },
    ['f', 'g'],
    [],
  ],
  [
    'allowed tools, optional',
    { toolChoice: at({ kind: 'allowed', mode: 'auto', names: ['g'] }, 'c') },
    { mode: 'AUTO' },
    ['g'],
    [],
  ],
  ['no parallel tool calls', { parallelToolCalls: at(false, 'p') }, undefined, ['f', 'g'], ['p']],
]
for (const [name, generation, config, names, losses] of choices)
  test(`gemini tools: ${name}`, () => {
    const { body, losses: lost } = encode({ tools: [tool('f'), tool('g')], settings: generation })
    assert.deepEqual(body.tools, [
      { functionDeclarations: names.map((each) => ({ name: each, parametersJsonSchema: PARAMETERS })) },
    ])
    assert.deepEqual(object(body.toolConfig)?.functionCallingConfig, config)
    assert.deepEqual(lost, losses)
  })

test('gemini tools: strict tools set the mode VALIDATED', () => {
  const { body, losses } = encode({ tools: [tool('f', true), tool('g')] })
  assert.deepEqual(body.toolConfig, { functionCallingConfig: { mode: 'VALIDATED' } })
  assert.deepEqual(losses, [])
})

test('gemini tools: hosted tools are unfit; a schema with tools requires Gemini 3', () => {
  const hosted: Tool = { kind: 'foreign', at: 'tools[0]', protocol: 'openai-responses', raw: { type: 'web_search' } }
  assert.deepEqual(encode({ tools: [hosted] }).losses, ['!tools[0]'])
  const request: Partial<ChatRequest> = {
    tools: [tool('f')],
    settings: { format: at({ kind: 'schema', name: 'n', schema: PARAMETERS }, 'f') },
  }
  assert.deepEqual(encode(request).losses, ['!f'])
  assert.deepEqual(encode(request, 'gemini-3-pro').losses, [])
})

test('gemini tools: restores replaced names and free-form input in the answer', () => {
  const tools: Tool[] = [
    { kind: 'custom', at: 't', name: 'shell' },
    { kind: 'function', at: 't', name: '1 wéird/name' },
  ]
  const { body } = encode({ tools })
  const declared = object((body.tools as Json[])[0])?.functionDeclarations as JsonObject[]
  const [, odd] = declared.map(({ name }) => String(name))
  assert.match(odd ?? '', /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/)
  const stage = gemini.restore?.(requestWith({ tools }))
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
