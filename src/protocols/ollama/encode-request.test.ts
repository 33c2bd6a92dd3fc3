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
  ['a question', [userMessage(textPart('hi'))], [{ role: 'user', content: 'hi' }], []],
  [
    'system messages stay where they are',
    [userMessage(textPart('q')), system('b'), userMessage(textPart('a'), textPart('b'))],
    [
      { role: 'user', content: 'q' },
      { role: 'system', content: 'b' },
      { role: 'user', content: 'a\nb' },
    ],
    [],
  ],
  [
    'calls as objects, results by the name of their tool',
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
    'a result whose call nobody made',
    [userMessage(textPart('q')), toolMessage('9', 'x')],
    [
      { role: 'user', content: 'q' },
      { role: 'tool', content: 'x', tool_call_id: '9' },
    ],
    [],
  ],
  [
    'arguments that are no object are kept',
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
    'thoughts in words',
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
    'thoughts without words',
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
  ['nothing asked', [], [], ['!messages']],
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
  ['a picture', image({ kind: 'data', mediaType: 'image/png', data: PNG }, 'auto'), { images: [PNG] }, []],
  ['a picture in a data URL', image({ kind: 'url', url: `data:image/png;base64,${PNG}` }), { images: [PNG] }, []],
  ['a picture in a detail', image({ kind: 'data', mediaType: '', data: PNG }, 'low'), { images: [PNG] }, ['p.detail']],
  ["a picture's address", image({ kind: 'url', url: 'https://x.example/a.png' }), {}, ['!p']],
  ['a picture kept elsewhere', image({ kind: 'id', id: 'f', protocol: 'openai-chat' }), {}, ['!p']],
  [
    'a file of text',
    { type: 'file', at: 'p', source: { kind: 'data', mediaType: 'text/plain', data: 'aGVsbG8=' }, filename: 'a.txt' },
    { content: 'q\nhello' },
    ['p.filename'],
  ],
  [
    'a file of anything else',
    { type: 'file', at: 'p', source: { kind: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' } },
    {},
    ['!p'],
  ],
  ['sound', { type: 'audio', at: 'p', data: 'AA==', format: 'wav' }, {}, ['!p']],
  ['a part nobody knows', { type: 'foreign', at: 'p', protocol: 'openai-chat', raw: { type: 'x' } }, {}, ['!p']],
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
  // The same names, each value with where it stood.
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
  ['a seed it cannot take', set({ seed: 'x' }), {}, ['seed']],
  [
    'wishes it has no word for',
    set({ user: 'u', logitBias: { 1: 2 }, store: true, verbosity: 'low', metadata: { a: 'b' }, promptCacheKey: 'k' }),
    {},
    ['logitBias', 'verbosity', 'user', 'promptCacheKey', 'metadata', 'store'],
  ],
  [
    'wishes that say nothing',
    set({ serviceTier: 'auto', store: false, choices: 1, metadata: {}, streamUsage: true }),
    {},
    [],
  ],
  ['several answers', set({ choices: 2 }), {}, ['!choices']],
  ['probabilities', set({ topLogprobs: 3 }), { logprobs: true, top_logprobs: 3 }, []],
  ['no thoughts', set({ effort: 'none' }), { think: false }, []],
  ['some thoughts', set({ effort: 'medium' }), { think: 'medium' }, []],
  ['more than it knows', set({ effort: 'max' }), { think: 'high' }, ['effort']],
  ['less than it knows', set({ effort: 'minimal' }), { think: 'low' }, ['effort']],
  ['a budget', set({ thinkingBudget: 2_000 }), { think: true }, ['thinkingBudget']],
  ['no budget', set({ thinkingBudget: 0 }), { think: false }, []],
  ['an effort outweighs a budget', set({ thinkingBudget: 2_000, effort: 'low' }), { think: 'low' }, ['thinkingBudget']],
  ['a summary of thoughts it is shown', set({ effort: 'high', reasoningSummary: 'auto' }), { think: 'high' }, []],
  ['a summary of none', set({ reasoningSummary: 'auto' }), {}, ['reasoningSummary']],
  ['text', set({ format: { kind: 'text' } }), {}, []],
  ['JSON', set({ format: { kind: 'json' } }), { format: 'json' }, []],
  [
    'JSON by a schema',
    set({ format: { kind: 'schema', name: 'n', schema, description: 'd' } }),
    { format: { ...schema, title: 'n', description: 'd' } },
    [],
  ],
  ['a schema that is none', set({ format: { kind: 'schema', name: 'n', schema: true } }), {}, ['!format']],
]

for (const [name, wishes, expected, losses] of settings)
  test(`ollama: setting: ${name}`, () => {
    const encoded = encode({ settings: wishes })
    const { model: _, messages: __, stream, truncate: ___, ...rest } = encoded.body
    assert.equal(stream, false)
    assert.deepEqual(rest, expected)
    assert.deepEqual(encoded.losses, losses)
    for (const member of Object.keys(rest))
      if (member !== 'options') assert.ok(encoded.from[member], `${member} came from nowhere`)
    for (const option of Object.keys(object(rest.options) ?? {})) assert.ok(encoded.from[`options.${option}`])
  })

test('ollama: a prompt that is too long is refused, not cut, unless the client says so', () => {
  assert.equal(encode({}).body.truncate, false)
  assert.equal(encode({ extras: [extra('truncate', true)] }).body.truncate, true)
})

test('ollama: a stream is asked for by name', () => assert.equal(encode({ stream: true }).body.stream, true))

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

test("ollama: what has a word everywhere outweighs its own option's", () => {
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
    ['a strict one', [{ ...f, strict: true }], {}, [fDeclared], ['t.strict']],
    ['one that says strict and could not be', [{ ...g, strict: true }], {}, [gDeclared], []],
    ['may', [f], set({ toolChoice: { kind: 'auto' }, parallelToolCalls: true }), [fDeclared], []],
    [
      'must, one at a time',
      [f],
      set({ toolChoice: { kind: 'required' }, parallelToolCalls: false }),
      [fDeclared],
      ['toolChoice', 'parallelToolCalls'],
    ],
    ['may not', [f, g], set({ toolChoice: { kind: 'none' } }), undefined, ['t', 't2']],
    ['one of them', [f, g], set({ toolChoice: { kind: 'tool', name: 'g' } }), [gDeclared], ['toolChoice', 't']],
    ['some of them', [f, g], set({ toolChoice: { kind: 'allowed', mode: 'auto', names: ['g'] } }), [gDeclared], ['t']],
    [
      'a hosted one',
      [{ kind: 'foreign', at: 't', protocol: 'openai-responses', raw: { type: 'mcp' } }],
      {},
      undefined,
      ['!t'],
    ],
    ['no schema', [{ ...f, parameters: true }], {}, undefined, ['!t']],
  ]

for (const [name, offered, wishes, expected, losses] of tools)
  test(`ollama: tools: ${name}`, () => {
    const encoded = encode({ tools: offered, settings: wishes })
    assert.deepEqual(encoded.body.tools, expected)
    assert.deepEqual(encoded.losses, losses)
  })
