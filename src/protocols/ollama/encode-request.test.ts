import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  assistantMessage,
  lossPaths,
  textPart,
  toolCallPart,
  toolMessage,
  userMessage,
} from '../../../test/support/builders.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { ollama } from './index.ts'

const system = (text: string): Message => ({ role: 'system', at: 's', as: 'system', content: [textPart(text)] })

const encode = (more: Partial<ChatRequest>) => {
  const asked = {
    model: 'm',
    stream: false,
    messages: [userMessage(textPart('hi'))],
    tools: [],
    settings: {},
    extras: [],
    ...more,
  }
  const { body, losses, from } = ollama.encodeRequest(asked, { model: 'llama3' })
  if (losses.every(({ essential }) => !essential)) assert.equal(problemsOf('ollama', 'ChatRequest', body), undefined)
  return { body, from, losses: lossPaths(losses) }
}

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────

const called = (id: string, name = 'f', given: JsonObject = { a: 1 }) => ({ id, function: { name, arguments: given } })

const conversations: readonly (readonly [string, readonly Message[], Json, readonly string[]])[] = [
  ['one user message', [userMessage(textPart('hi'))], [{ role: 'user', content: 'hi' }], []],
  [
    'system messages keep their position',
    [userMessage(textPart('q')), system('b'), userMessage(textPart('a'), textPart('b'))],
    [
      { role: 'user', content: 'q' },
      { role: 'system', content: 'b' },
      { role: 'user', content: 'a\nb' },
    ],
    [],
  ],
  [
    'calls with arguments as objects, results with the tool name',
    [
      userMessage(textPart('q')),
      assistantMessage(textPart('wait'), toolCallPart('1'), toolCallPart('2', 'g', '')),
      toolMessage('2', 'two'),
      toolMessage('1', 'no', true),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'wait', tool_calls: [called('1'), called('2', 'g', {})] },
      { role: 'tool', content: 'two', tool_name: 'g', tool_call_id: '2' },
      { role: 'tool', content: 'Error: no', tool_name: 'f', tool_call_id: '1' },
    ],
    [],
  ],
  [
    'a result without its call',
    [userMessage(textPart('q')), toolMessage('9', 'x')],
    [
      { role: 'user', content: 'q' },
      { role: 'tool', content: 'x', tool_call_id: '9' },
    ],
    [],
  ],
  [
    'arguments that are not an object are kept as text',
    [userMessage(textPart('q')), assistantMessage(toolCallPart('1', 'f', '{"a":'))],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '', tool_calls: [called('1', 'f', { unreadable_arguments: '{"a":' })] },
    ],
    [],
  ],
  [
    'a free-form call',
    [
      userMessage(textPart('q')),
      assistantMessage({ type: 'tool-call', at: 'c', id: '1', name: 'c', arguments: 'ls', custom: true }),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '', tool_calls: [called('1', 'c', { input: 'ls' })] },
    ],
    [],
  ],
  [
    'reasoning with text',
    [
      userMessage(textPart('q')),
      assistantMessage({ type: 'reasoning', at: 't', text: 'hm' }, textPart('r')),
      userMessage(textPart('s')),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'r', thinking: 'hm' },
      { role: 'user', content: 's' },
    ],
    [],
  ],
  [
    'reasoning without text',
    [
      userMessage(textPart('q')),
      assistantMessage({
        type: 'reasoning',
        at: 't',
        text: '',
        signature: { origin: 'anthropic-messages', value: 'S' },
      }),
      userMessage(textPart('s')),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'user', content: 's' },
    ],
    ['t'],
  ],
  ['no messages', [], [], ['!messages']],
]

for (const [name, messages, expected, losses] of conversations)
  test(`ollama: conversation: ${name}`, () => {
    const encoded = encode({ messages })
    assert.deepEqual(encoded.body.messages, expected)
    assert.deepEqual(encoded.losses, losses)
  })

// ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

const PNG = 'iVBORw0KGgo='
const image = (source: Extract<Part, { type: 'image' }>['source'], detail?: string): Part => ({
  type: 'image',
  at: 'p',
  source,
  ...(detail && { detail }),
})

const parts: readonly (readonly [string, Part, JsonObject, readonly string[]])[] = [
  ['an image', image({ kind: 'data', mediaType: 'image/png', data: PNG }, 'auto'), { images: [PNG] }, []],
  ['an image as a data URL', image({ kind: 'url', url: `data:image/png;base64,${PNG}` }), { images: [PNG] }, []],
  ['an image with a detail', image({ kind: 'data', mediaType: '', data: PNG }, 'low'), { images: [PNG] }, ['p.detail']],
  ['an image URL', image({ kind: 'url', url: 'https://x.example/a.png' }), {}, ['!p']],
  ['an image stored at another provider', image({ kind: 'id', id: 'f', protocol: 'openai-chat' }), {}, ['!p']],
  [
    'a text file',
    { type: 'file', at: 'p', source: { kind: 'data', mediaType: 'text/plain', data: 'aGVsbG8=' }, filename: 'a.txt' },
    { content: 'q\nhello' },
    ['p.filename'],
  ],
  [
    'another file',
    { type: 'file', at: 'p', source: { kind: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' } },
    {},
    ['!p'],
  ],
  ['audio', { type: 'audio', at: 'p', data: 'AA==', format: 'wav' }, {}, ['!p']],
  ['an unknown part', { type: 'foreign', at: 'p', protocol: 'openai-chat', raw: { type: 'x' } }, {}, ['!p']],
]

for (const [name, part, more, losses] of parts)
  test(`ollama: part: ${name}`, () => {
    const encoded = encode({ messages: [userMessage(textPart('q'), part)] })
    assert.deepEqual(list(encoded.body.messages)[0], { role: 'user', content: 'q', ...more })
    assert.deepEqual(encoded.losses, losses)
  })

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const set = (
  settings: { [name in keyof GenerationSettings]: NonNullable<GenerationSettings[name]>['value'] },
): GenerationSettings =>
  // The same names, each value with its path.
  Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, { value, at: name }])) as GenerationSettings

const schema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'], additionalProperties: false }

const settings: readonly (readonly [string, GenerationSettings, JsonObject, readonly string[]])[] = [
  [
    'options',
    set({
      maxOutputTokens: 5,
      temperature: 0.5,
      topP: 0.9,
      topK: 3,
      seed: 7,
      stop: ['END'],
      presencePenalty: 1,
      frequencyPenalty: -1,
    }),
    {
      options: {
        num_predict: 5,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 3,
        stop: ['END'],
        seed: 7,
        presence_penalty: 1,
        frequency_penalty: -1,
      },
    },
    [],
  ],
  ['a seed that is not a number', set({ seed: 'x' }), {}, ['seed']],
  [
    'unsupported settings',
    set({ user: 'u', logitBias: { 1: 2 }, store: true, verbosity: 'low', metadata: { a: 'b' }, promptCacheKey: 'k' }),
    {},
    ['logitBias', 'verbosity', 'user', 'promptCacheKey', 'metadata', 'store'],
  ],
  [
    'unsupported settings with neutral values',
    set({ serviceTier: 'auto', store: false, choices: 1, metadata: {}, streamUsage: true }),
    {},
    [],
  ],
  ['several choices', set({ choices: 2 }), {}, ['!choices']],
  ['log probabilities', set({ topLogprobs: 3 }), { logprobs: true, top_logprobs: 3 }, []],
  ['effort none', set({ effort: 'none' }), { think: false }, []],
  ['effort medium', set({ effort: 'medium' }), { think: 'medium' }, []],
  ['effort max', set({ effort: 'max' }), { think: 'high' }, ['effort']],
  ['effort minimal', set({ effort: 'minimal' }), { think: 'low' }, ['effort']],
  ['a budget', set({ thinkingBudget: 2_000 }), { think: true }, ['thinkingBudget']],
  ['a budget of zero', set({ thinkingBudget: 0 }), { think: false }, []],
  ['an effort overrides a budget', set({ thinkingBudget: 2_000, effort: 'low' }), { think: 'low' }, ['thinkingBudget']],
  ['a reasoning summary with reasoning', set({ effort: 'high', reasoningSummary: 'auto' }), { think: 'high' }, []],
  ['a reasoning summary without reasoning', set({ reasoningSummary: 'auto' }), {}, ['reasoningSummary']],
  ['text', set({ format: { kind: 'text' } }), {}, []],
  ['JSON', set({ format: { kind: 'json' } }), { format: 'json' }, []],
  [
    'a schema',
    set({ format: { kind: 'schema', name: 'n', schema, description: 'd' } }),
    { format: { ...schema, title: 'n', description: 'd' } },
    [],
  ],
  ['a schema that is not an object', set({ format: { kind: 'schema', name: 'n', schema: true } }), {}, ['!format']],
]

for (const [name, generation, expected, losses] of settings)
  test(`ollama: setting: ${name}`, () => {
    const encoded = encode({ settings: generation })
    const { model: _, messages: __, stream, truncate: ___, ...rest } = encoded.body
    assert.equal(stream, false)
    assert.deepEqual(rest, expected)
    assert.deepEqual(encoded.losses, losses)
    for (const member of Object.keys(rest))
      if (member !== 'options') assert.ok(encoded.from[member], `${member} has no client path`)
    for (const option of Object.keys(object(rest.options) ?? {})) assert.ok(encoded.from[`options.${option}`])
  })

test('ollama: disables truncation of long prompts unless the client enables it', () => {
  assert.equal(encode({}).body.truncate, false)
  assert.equal(encode({ extras: [extra('truncate', true)] }).body.truncate, true)
})

test('ollama: always encodes stream', () => assert.equal(encode({ stream: true }).body.stream, true))

const extra = (name: string, value: Json) => ({ at: name, name, value, essential: false })

const extras: readonly (readonly [string, Json, JsonObject, readonly string[]])[] = [
  ['keep_alive', '1m', { keep_alive: '1m' }, []],
  ['keep_alive', -1, { keep_alive: -1 }, []],
  ['keep_alive', {}, {}, ['keep_alive']],
  ['think', true, { think: true }, []],
  ['think', 'very', {}, ['think']],
  ['options', { num_ctx: 8_192, min_p: 0.1 }, { options: { num_ctx: 8_192, min_p: 0.1 } }, []],
  ['constructor', 1, {}, ['constructor']],
]

for (const [name, value, expected, losses] of extras)
  test(`ollama: member: ${name} ${JSON.stringify(value)}`, () => {
    const encoded = encode({ extras: [extra(name, value)] })
    const { model: _, messages: __, stream: ___, truncate: ____, ...rest } = encoded.body
    assert.deepEqual(rest, expected)
    assert.deepEqual(encoded.losses, losses)
  })

test('ollama: canonical settings override options', () => {
  const { body } = encode({
    settings: set({ temperature: 1 }),
    extras: [extra('options', { temperature: 0, top_k: 5 })],
  })
  assert.deepEqual(body.options, { temperature: 1, top_k: 5 })
})

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

const f: Tool = { kind: 'function', at: 't', name: 'f', description: 'd', parameters: schema }
const g: Tool = { kind: 'function', at: 't2', name: 'g' }
const fDeclared = { type: 'function', function: { name: 'f', description: 'd', parameters: schema } }
const gDeclared = { type: 'function', function: { name: 'g', parameters: { type: 'object', properties: {} } } }

const tools: readonly (readonly [string, readonly Tool[], GenerationSettings, Json | undefined, readonly string[]])[] =
  [
    ['functions', [f, g], {}, [fDeclared, gDeclared], []],
    ['a strict tool', [{ ...f, strict: true }], {}, [fDeclared], ['t.strict']],
    ['a strict tool with open objects', [{ ...g, strict: true }], {}, [gDeclared], []],
    ['auto', [f], set({ toolChoice: { kind: 'auto' }, parallelToolCalls: true }), [fDeclared], []],
    [
      'required, without parallel calls',
      [f],
      set({ toolChoice: { kind: 'required' }, parallelToolCalls: false }),
      [fDeclared],
      ['toolChoice', 'parallelToolCalls'],
    ],
    ['none', [f, g], set({ toolChoice: { kind: 'none' } }), undefined, ['t', 't2']],
    ['a named tool', [f, g], set({ toolChoice: { kind: 'tool', name: 'g' } }), [gDeclared], ['toolChoice', 't']],
    ['allowed tools', [f, g], set({ toolChoice: { kind: 'allowed', mode: 'auto', names: ['g'] } }), [gDeclared], ['t']],
    [
      'a hosted tool',
      [{ kind: 'foreign', at: 't', protocol: 'openai-responses', raw: { type: 'mcp' } }],
      {},
      undefined,
      ['!t'],
    ],
    ['a schema that is not an object', [{ ...f, parameters: true }], {}, undefined, ['!t']],
  ]

for (const [name, offered, generation, expected, losses] of tools)
  test(`ollama: tools: ${name}`, () => {
    const encoded = encode({ tools: offered, settings: generation })
    assert.deepEqual(encoded.body.tools, expected)
    assert.deepEqual(encoded.losses, losses)
  })
