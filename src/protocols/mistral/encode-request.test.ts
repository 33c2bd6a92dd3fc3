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
import { skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import type { ChatRequest, GenerationSettings, Message, Part, Tool } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { callId } from './ids.ts'
import { mistral } from './index.ts'

const system = (text: string): Message => ({
  role: 'system',
  at: `s ${text}`,
  as: 'developer',
  content: [textPart(text)],
})
const thought = (text: string): Part => ({ type: 'reasoning', at: 'thought', text })

const requestWith = (more: Partial<ChatRequest> = {}): ChatRequest =>
  chatRequest({ stream: false, messages: [userMessage(textPart('hi'))], ...more })

const encode = (more: Partial<ChatRequest>, name = 'mistral-small-latest') => {
  const { body, losses, from } = mistral.encodeRequest(requestWith(more), { model: name })
  // A request that does not fit is not sent, so its body need not be valid.
  if (!skipWithoutRecordings && losses.every(({ essential }) => !essential))
    assert.equal(problemsOf('mistral', 'ChatCompletionRequest', body), undefined)
  return { body, from, losses: lossPaths(losses) }
}

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────

const called = (id: string, name = 'f', given = '{"a":1}') => ({
  id,
  type: 'function',
  function: { name, arguments: given },
})
const answered = (id: string, content: Json) => ({ role: 'tool', tool_call_id: id, content })
const ONE = 'aaaaaaaa1'
const TWO = 'aaaaaaaa2'

const conversations: readonly (readonly [string, readonly Message[], Json, readonly string[], string?])[] = [
  ['one user message', [userMessage(textPart('hi'))], [{ role: 'user', content: 'hi' }], []],
  [
    'system messages move to the front',
    [system('a'), userMessage(textPart('q')), assistantMessage(textPart('r')), system('b'), userMessage(textPart('s'))],
    [
      { role: 'system', content: 'a' },
      { role: 'system', content: 'b' },
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'r' },
      { role: 'user', content: 's' },
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
  [
    'calls and results keep valid IDs',
    [
      userMessage(textPart('q')),
      assistantMessage(textPart('wait'), toolCallPart(ONE), toolCallPart(TWO, 'g', '')),
      toolMessage(ONE, 'one'),
      toolMessage(TWO, 'two'),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'wait', tool_calls: [called(ONE), called(TWO, 'g', '{}')] },
      answered(ONE, 'one'),
      answered(TWO, 'two'),
    ],
    [],
  ],
  [
    "another vendor's ids become nine letters and digits, the same for call and result",
    [userMessage(textPart('q')), assistantMessage(toolCallPart('call_abc')), toolMessage('call_abc', 'one')],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '', tool_calls: [called(callId('call_abc'))] },
      answered(callId('call_abc'), 'one'),
    ],
    [],
  ],
  [
    'an assistant message is inserted between a result and a user message',
    [
      userMessage(textPart('q')),
      assistantMessage(toolCallPart(ONE)),
      toolMessage(ONE, 'one'),
      userMessage(textPart('and?')),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '', tool_calls: [called(ONE)] },
      answered(ONE, 'one'),
      { role: 'assistant', content: 'OK.' },
      { role: 'user', content: 'and?' },
    ],
    [],
  ],
  [
    'an image in a tool result follows in a user message',
    [
      userMessage(textPart('q')),
      assistantMessage(toolCallPart(ONE)),
      {
        role: 'tool',
        at: 'r',
        callId: ONE,
        isError: true,
        content: [textPart('no'), { type: 'image', at: 'i', source: { kind: 'url', url: 'https://x.example/a.png' } }],
      },
      userMessage(textPart('and?')),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '', tool_calls: [called(ONE)] },
      answered(ONE, 'Error: no'),
      { role: 'assistant', content: 'OK.' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x.example/a.png' } }] },
      { role: 'user', content: 'and?' },
    ],
    [],
  ],
  [
    'a prefill',
    [userMessage(textPart('q')), assistantMessage(textPart('It is '))],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'It is ', prefix: true },
    ],
    [],
  ],
  [
    'a prefix mark without a prefill',
    [
      userMessage(textPart('q')),
      {
        role: 'assistant',
        at: 'a',
        content: [textPart('r')],
        extras: [{ at: 'a.prefix', name: 'prefix', value: true, essential: false }],
      },
      userMessage(textPart('s')),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'r' },
      { role: 'user', content: 's' },
    ],
    ['a.prefix'],
  ],
  [
    'a free-form call',
    [
      userMessage(textPart('q')),
      assistantMessage({ type: 'tool-call', at: 'c', id: ONE, name: 'c', arguments: 'ls', custom: true }),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '', tool_calls: [called(ONE, 'c', '{"input":"ls"}')] },
    ],
    [],
  ],
  [
    'reasoning for a model that thinks',
    [userMessage(textPart('q')), assistantMessage(thought('hm'), textPart('r')), userMessage(textPart('s'))],
    [
      { role: 'user', content: 'q' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
          { type: 'text', text: 'r' },
        ],
      },
      { role: 'user', content: 's' },
    ],
    [],
    'magistral-medium-latest',
  ],
  [
    'reasoning for a model that does not think',
    [userMessage(textPart('q')), assistantMessage(thought('hm'), textPart('r')), userMessage(textPart('s'))],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'r' },
      { role: 'user', content: 's' },
    ],
    ['thought'],
  ],
  [
    'an empty assistant message is dropped',
    [userMessage(textPart('q')), assistantMessage(thought('hm')), userMessage(textPart('s'))],
    [
      { role: 'user', content: 'q' },
      { role: 'user', content: 's' },
    ],
    ['thought'],
  ],
  [
    'a refusal becomes text',
    [
      userMessage(textPart('q')),
      assistantMessage({ type: 'refusal', at: 'n', text: 'no' }),
      userMessage(textPart('s')),
    ],
    [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'no' },
      { role: 'user', content: 's' },
    ],
    [],
  ],
]

for (const [name, messages, expected, losses, target] of conversations)
  test(`mistral: conversation: ${name}`, () => {
    const encoded = encode({ messages }, target)
    assert.deepEqual(encoded.body.messages, expected)
    assert.deepEqual(encoded.losses, losses)
  })

test('mistral: encodes call IDs uniquely and repeatably', () => {
  const ids = [
    '',
    'call_abc',
    'call_abd',
    'toolu_01A09q90qw90lq917835lq9',
    ...Array.from({ length: 20_000 }, (_, n) => `call_${n}`),
  ]
  const names = ids.map(callId)
  for (const name of names) assert.match(name, /^[a-zA-Z0-9]{9}$/)
  assert.equal(new Set(names).size, ids.length)
  assert.deepEqual(names.map(callId), names)
})

// ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

const PNG = 'iVBORw0KGgo='
const foreign = (raw: JsonObject): Part => ({ type: 'foreign', at: 'p', protocol: 'openai-chat', raw })

const parts: readonly (readonly [string, Part, Json, readonly string[]])[] = [
  [
    'an image',
    { type: 'image', at: 'p', source: { kind: 'data', mediaType: '', data: PNG }, detail: 'low' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}`, detail: 'low' } },
    [],
  ],
  [
    'an image with an unknown detail',
    { type: 'image', at: 'p', source: { kind: 'url', url: 'https://x.example/a.png' }, detail: 'original' },
    { type: 'image_url', image_url: { url: 'https://x.example/a.png' } },
    ['p.detail'],
  ],
  [
    'an image stored at another provider',
    { type: 'image', at: 'p', source: { kind: 'id', id: 'file-1', protocol: 'openai-chat' } },
    null,
    ['!p'],
  ],
  [
    'an inline document',
    {
      type: 'file',
      at: 'p',
      source: { kind: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' },
      filename: 'a.pdf',
    },
    { type: 'document_url', document_url: 'data:application/pdf;base64,JVBERi0=', document_name: 'a.pdf' },
    [],
  ],
  [
    'a document by URL',
    { type: 'file', at: 'p', source: { kind: 'url', url: 'https://x.example/a.pdf' } },
    { type: 'document_url', document_url: 'https://x.example/a.pdf' },
    [],
  ],
  [
    'a document stored at another provider',
    { type: 'file', at: 'p', source: { kind: 'id', id: 'f', protocol: 'openai-chat' } },
    null,
    ['!p'],
  ],
  ['audio', { type: 'audio', at: 'p', data: 'AA==', format: 'wav' }, { type: 'input_audio', input_audio: 'AA==' }, []],
  [
    "Mistral's own part from a client",
    foreign({ type: 'document_url', document_url: 'https://x.example/a.pdf', detail: 1 }),
    { type: 'document_url', document_url: 'https://x.example/a.pdf' },
    ['p.detail'],
  ],
  [
    'a reference',
    foreign({ type: 'reference', reference_ids: [1, 2] }),
    { type: 'reference', reference_ids: [1, 2] },
    [],
  ],
  ['a malformed reference', foreign({ type: 'reference', reference_ids: ['1'] }), null, ['!p']],
  ['an unknown part', foreign({ type: 'video_url', video_url: 'x' }), null, ['!p']],
  ['a part type named like a prototype member', foreign({ type: 'constructor' }), null, ['!p']],
]

for (const [name, part, expected, losses] of parts)
  test(`mistral: part: ${name}`, () => {
    const encoded = encode({ messages: [userMessage(textPart('q'), part)] })
    const content = object(list(encoded.body.messages)[0])?.content
    assert.deepEqual(content, expected === null ? 'q' : [{ type: 'text', text: 'q' }, expected])
    assert.deepEqual(encoded.losses, losses)
  })

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const set = (
  settings: { [name in keyof GenerationSettings]: NonNullable<GenerationSettings[name]>['value'] },
): GenerationSettings =>
  // The same names, each value with its path.
  Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, { value, at: name }])) as GenerationSettings

const settings: readonly (readonly [string, GenerationSettings, JsonObject, readonly string[]])[] = [
  ['output limit', set({ maxOutputTokens: 5 }), { max_tokens: 5 }, []],
  ['sampling', set({ temperature: 0.5, topP: 0.9 }), { temperature: 0.5, top_p: 0.9 }, []],
  ['a temperature out of range', set({ temperature: 2 }), { temperature: 1.5 }, ['temperature']],
  [
    'penalties',
    set({ presencePenalty: -3, frequencyPenalty: 1 }),
    { presence_penalty: -2, frequency_penalty: 1 },
    ['presencePenalty'],
  ],
  ['seed', set({ seed: 7 }), { random_seed: 7 }, []],
  ['a seed out of range', set({ seed: -7 }), {}, ['seed']],
  ['stop', set({ stop: ['END'] }), { stop: ['END'] }, []],
  [
    'unsupported settings',
    set({ user: 'u', logprobs: true, topLogprobs: 2, logitBias: { 1: 2 }, store: true, topK: 3, verbosity: 'low' }),
    {},
    ['topK', 'logitBias', 'logprobs', 'topLogprobs', 'verbosity', 'user', 'store'],
  ],
  [
    'unsupported settings with neutral values',
    set({ logprobs: false, serviceTier: 'auto', store: false, choices: 1, logitBias: {}, streamUsage: true }),
    {},
    [],
  ],
  ['several choices', set({ choices: 2 }), { n: 2 }, []],
  ['a supported effort', set({ effort: 'none' }), { reasoning_effort: 'none' }, []],
  ['an effort without an equivalent', set({ effort: 'medium' }), { reasoning_effort: 'high' }, ['effort']],
  ['minimal effort', set({ effort: 'minimal' }), { reasoning_effort: 'none' }, ['effort']],
  ['a budget', set({ thinkingBudget: 2_000 }), { reasoning_effort: 'high' }, ['thinkingBudget']],
  ['a budget of zero', set({ thinkingBudget: 0 }), { reasoning_effort: 'none' }, []],
  [
    'a reasoning summary with reasoning',
    set({ effort: 'high', reasoningSummary: 'auto' }),
    { reasoning_effort: 'high' },
    [],
  ],
  ['a reasoning summary without reasoning', set({ reasoningSummary: 'auto' }), {}, ['reasoningSummary']],
  [
    'prompt cache key and metadata',
    set({ metadata: { a: 'b' }, promptCacheKey: 'k' }),
    { metadata: { a: 'b' }, prompt_cache_key: 'k' },
    [],
  ],
  ['JSON', set({ format: { kind: 'json' } }), { response_format: { type: 'json_object' } }, []],
  [
    'a schema',
    set({ format: { kind: 'schema', name: '', schema: { type: 'object' }, description: 'd', strict: true } }),
    {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', description: 'd', schema: { type: 'object' }, strict: true },
      },
    },
    [],
  ],
  ['a schema that is not an object', set({ format: { kind: 'schema', name: 'n', schema: true } }), {}, ['!format']],
  ['parallel calls without tools', set({ parallelToolCalls: false }), {}, []],
]

for (const [name, wishes, expected, losses] of settings)
  test(`mistral: setting: ${name}`, () => {
    const encoded = encode({ settings: wishes })
    const { model: _, messages: __, ...rest } = encoded.body
    assert.deepEqual(rest, expected)
    assert.deepEqual(encoded.losses, losses)
    for (const member of Object.keys(rest)) assert.ok(encoded.from[member], `${member} has no client path`)
  })

const extras: readonly (readonly [string, Json, Json | undefined])[] = [
  ['safe_prompt', true, true],
  ['safe_prompt', 'yes', undefined],
  ['prompt_mode', 'reasoning', 'reasoning'],
  ['prompt_mode', 'other', undefined],
  ['random_seed', 3, 3],
  ['random_seed', -3, undefined],
  ['guardrails', [{ block_on_error: true }], [{ block_on_error: true }]],
  ['prediction', { type: 'content', content: 'x' }, { type: 'content', content: 'x' }],
  [
    'prediction',
    {
      type: 'content',
      content: [
        { type: 'text', text: 'x' },
        { type: 'text', text: 'y' },
      ],
    },
    { type: 'content', content: 'xy' },
  ],
  ['prediction', { type: 'content', content: [1] }, undefined],
  ['seed_of_another', 1, undefined],
  ['constructor', {}, undefined],
]

for (const [name, value, expected] of extras)
  test(`mistral: member: ${name} ${JSON.stringify(value)}`, () => {
    const encoded = encode({ extras: [{ at: name, name, value, essential: false }] })
    assert.deepEqual(Object.hasOwn(encoded.body, name) ? encoded.body[name] : undefined, expected)
    assert.deepEqual(encoded.losses, expected === undefined ? [name] : [])
  })

test('mistral: encodes streaming without stream options', () => {
  const { body } = encode({ stream: true, settings: set({ streamUsage: true }) })
  assert.deepEqual(body, { model: 'mistral-small-latest', messages: [{ role: 'user', content: 'hi' }], stream: true })
})

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

const closed = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'], additionalProperties: false }
const f: Tool = { kind: 'function', at: 't', name: 'f', description: 'd', parameters: closed }
const g: Tool = { kind: 'function', at: 't2', name: 'g' }
const fDeclared = { type: 'function', function: { name: 'f', description: 'd', parameters: closed } }
const gDeclared = { type: 'function', function: { name: 'g', parameters: { type: 'object', properties: {} } } }

const tools: readonly (readonly [string, readonly Tool[], GenerationSettings, JsonObject, readonly string[]])[] = [
  ['functions', [f, g], {}, { tools: [fDeclared, gDeclared] }, []],
  [
    'a strict tool',
    [{ ...f, strict: true }],
    {},
    { tools: [{ type: 'function', function: { ...fDeclared.function, strict: true } }] },
    [],
  ],
  ['required', [f], set({ toolChoice: { kind: 'required' } }), { tools: [fDeclared], tool_choice: 'any' }, []],
  ['auto', [f], set({ toolChoice: { kind: 'auto' } }), { tools: [fDeclared], tool_choice: 'auto' }, []],
  [
    'a named tool',
    [f, g],
    set({ toolChoice: { kind: 'tool', name: 'f' }, parallelToolCalls: false }),
    {
      tools: [fDeclared, gDeclared],
      tool_choice: { type: 'function', function: { name: 'f' } },
      parallel_tool_calls: false,
    },
    [],
  ],
  [
    'allowed tools',
    [f, g],
    set({ toolChoice: { kind: 'allowed', mode: 'required', names: ['g'] } }),
    { tools: [gDeclared], tool_choice: 'any' },
    [],
  ],
  ['a choice without tools', [], set({ toolChoice: { kind: 'required' } }), {}, ['toolChoice']],
  ['a hosted tool', [{ kind: 'foreign', at: 't', protocol: 'openai-responses', raw: { type: 'mcp' } }], {}, {}, ['!t']],
]

for (const [name, offered, wishes, expected, losses] of tools)
  test(`mistral: tools: ${name}`, () => {
    const encoded = encode({ tools: offered, settings: wishes })
    const { model: _, messages: __, ...rest } = encoded.body
    assert.deepEqual(rest, expected)
    assert.deepEqual(encoded.losses, losses)
  })

test('mistral: restores free-form input and long tool names in the answer', () => {
  const long = 'n'.repeat(80)
  const offered: Tool[] = [
    { kind: 'custom', at: 't', name: 'shell', description: 'd', format: { type: 'grammar', syntax: 'lark' } },
    { kind: 'function', at: 't2', name: long },
  ]
  const { body, losses } = encode({ tools: offered })
  assert.deepEqual(losses, ['t.format'])
  const names = list(body.tools).map((tool) => text(object(object(tool)?.function)?.name) ?? '')
  assert.equal(names[0], 'shell')
  assert.match(names[1] ?? '', /^[a-zA-Z0-9_-]{1,64}$/)
  const restore = mistral.restore?.(requestWith({ tools: offered }))
  assert.ok(restore)
  const events = [
    { type: 'open', block: { type: 'tool-call', id: ONE, name: 'shell' } },
    { type: 'delta', text: '{"inp' },
    { type: 'delta', text: 'ut":"ls"}' },
    { type: 'close' },
    { type: 'open', block: { type: 'tool-call', id: TWO, name: names[1] ?? '' } },
  ] as const
  assert.deepEqual(
    events.flatMap((event) => restore.push(event)),
    [
      { type: 'open', block: { type: 'tool-call', id: ONE, name: 'shell', custom: true } },
      { type: 'delta', text: 'ls' },
      { type: 'close' },
      { type: 'open', block: { type: 'tool-call', id: TWO, name: long } },
    ],
  )
})

// ── Prefill ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const beginnings: readonly (readonly [string, readonly string[], readonly string[]])[] = [
  ['repeated', ['It is ', 'wet.'], ['wet.']],
  ['repeated in several deltas', ['It', ' is wet', '.'], ['wet', '.']],
  ['repeated without more text', ['It is '], []],
  ['not repeated', ['wet', '.'], ['wet', '.']],
  ['a different text with the same beginning', ['It', ' was wet.'], ['It was wet.']],
  ['truncated within the prefill', ['It'], ['It']],
]

for (const [name, deltas, expected] of beginnings)
  test(`mistral: prefill ${name}`, () => {
    const restore = mistral.restore?.(
      requestWith({ messages: [userMessage(textPart('q')), assistantMessage(textPart('It is '))] }),
    )
    assert.ok(restore)
    const events = [
      { type: 'open', block: { type: 'text' } } as const,
      ...deltas.map((words) => ({ type: 'delta', text: words }) as const),
      { type: 'close' } as const,
    ]
    const received = events.flatMap((event) => restore.push(event))
    assert.deepEqual(
      received.slice(1, -1),
      expected.map((words) => ({ type: 'delta', text: words })),
    )
    assert.equal(received.at(0)?.type, 'open')
    assert.equal(received.at(-1)?.type, 'close')
  })

// ── Sources ──────────────────────────────────────────────────────────────────────────────────────────────────────

const A = { url: 'https://a.example/', title: 'A' }
const B = { url: 'https://b.example/' }
const numbered = JSON.stringify({ 0: { ...A, snippets: [['x']] }, 1: B, 2: { title: 'no address' }, x: A })

const cited: readonly (readonly [string, readonly string[], readonly number[], readonly JsonObject[]])[] = [
  ['references to entries of a tool result', [numbered], [0, 1], [A, B]],
  ['a reference to an entry without a URL', [numbered], [2], [{ url: '' }]],
  ['a reference to an unknown entry', [numbered], [7], [{ url: '' }]],
  ['the later of two entries with the same number', [numbered, JSON.stringify({ 0: B })], [0], [B]],
]

for (const [name, results, numbers, expected] of cited)
  test(`mistral: sources: ${name}`, () => {
    const messages = [
      userMessage(textPart('q')),
      assistantMessage(toolCallPart(ONE)),
      ...results.map((text) => toolMessage(ONE, text)),
    ]
    const restore = mistral.restore?.(requestWith({ messages }))
    assert.ok(restore)
    const raw = { type: 'reference', reference_ids: numbers }
    assert.deepEqual(
      restore.push({ type: 'citation', citation: { url: '', raw } }),
      expected.map((source) => ({ type: 'citation', citation: { ...source, raw } })),
    )
  })

test('mistral: sources: ignores results without numbered entries', () => {
  for (const text of ['', 'sunny', '{"a":', '[1]', '{"a":{"url":"https://a.example/"}}', '{"0":"x"}', 'null'])
    assert.equal(mistral.restore?.(requestWith({ messages: [toolMessage(ONE, text)] })), undefined)
})

test('mistral: does not change an answer without a prefill', () =>
  assert.equal(mistral.restore?.(requestWith()), undefined))
