import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { CacheRules } from '../core/cache-rules.ts'
import type { Block, ChatEvent, ClientProtocolName, FinishKind } from '../core/chat.ts'
import { fail } from '../core/failure.ts'
import { type JsonObject, object } from '../core/json.ts'
import type { TraceEvent } from '../core/trace.ts'
import { clientProtocolByStyle, protocols } from '../protocols/index.ts'
import {
  AnswerCheck,
  type BypassReason,
  type CacheKeyParts,
  cacheKeyText,
  chatBypass,
  isChanged,
  requestControl,
  type UnstoredReason,
} from './response-cache.ts'

const controls: readonly (readonly [string | undefined, Partial<ReturnType<typeof requestControl>>])[] = [
  [undefined, {}],
  ['', {}],
  ['no-store', { read: false, write: false }],
  ['NO-STORE', { read: false, write: false }],
  ['no-cache', { read: false }],
  ['no-cache, no-store', { read: false, write: false }],
  ['max-age=0', { maxAge: 0 }],
  ['max-age=60', { maxAge: 60 }],
  ['max-age="60"', { maxAge: 60 }],
  ['max-age = 60 , only-if-cached', { maxAge: 60, onlyIfCached: true }],
  ['max-age=soon', { maxAge: 0 }],
  ['max-age', { maxAge: 0 }],
  ['max-age=-1', { maxAge: 0 }],
  ['max-age=1.5', { maxAge: 0 }],
  ['only-if-cached', { onlyIfCached: true }],
  ['private, x-no-store=1, no-storey', {}],
]
for (const [header, expected] of controls)
  test(`cache: Cache-Control ${JSON.stringify(header)}`, () =>
    assert.deepEqual(requestControl(header), {
      read: true,
      write: true,
      maxAge: null,
      onlyIfCached: false,
      ...expected,
    }))

const RULES: CacheRules = { ttl: 300, scope: 'key', anyTemperature: false, tools: false, requestControl: true }
const user = [{ role: 'user', content: 'hello' }]
const part = (value: object) => [{ role: 'user', content: [value] }]
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
const chat = { model: 'm', messages: user, temperature: 0 }
const turn = { model: 'm', input: 'hello', temperature: 0, store: false }
const message = { model: 'm', max_tokens: 9, messages: user, temperature: 0 }

const reasonFor = (
  style: ClientProtocolName,
  body: string | object,
  { stored, ...rules }: Partial<CacheRules> & { readonly stored?: boolean | undefined } = {},
): BypassReason | null => {
  const source = typeof body === 'string' ? body : JSON.stringify(body)
  const value = object(JSON.parse(source)) ?? {}
  const decoded = protocols[style].decodeRequest(value)
  if (!decoded.ok) throw new Error(decoded.failure.message)
  const { store } = decoded.value.settings
  const isStored = stored ?? store?.value ?? style === 'openai-responses'
  return chatBypass({ source, body: value, request: decoded.value, stored: isStored }, { ...RULES, ...rules })
}

/** What is not cached, and with which rules it is. */
const requests: readonly (readonly [
  name: string,
  style: ClientProtocolName,
  body: string | object,
  why: BypassReason | null,
  rules?: Partial<CacheRules> & { readonly stored?: boolean },
])[] = [
  ['temperature 0', 'openai-chat', chat, null],
  ['a seed', 'openai-chat', { model: 'm', messages: user, seed: 7 }, null],
  ['a seed and a temperature', 'openai-chat', { ...chat, temperature: 1, seed: 7 }, null],
  ['the usual temperature', 'openai-chat', { model: 'm', messages: user }, 'temperature'],
  ['a low temperature', 'openai-chat', { ...chat, temperature: 0.1 }, 'temperature'],
  ['any temperature where it is allowed', 'openai-chat', { ...chat, temperature: 1 }, null, { anyTemperature: true }],
  ['two choices', 'openai-chat', { ...chat, n: 2 }, 'choices', { anyTemperature: true }],
  ['one choice', 'openai-chat', { ...chat, n: 1 }, null],
  ['a tool', 'openai-chat', { ...chat, tools: [tool] }, 'tools'],
  ['a tool where tools are allowed', 'openai-chat', { ...chat, tools: [tool] }, null, { tools: true }],
  [
    'functions, the older name of tools',
    'openai-chat',
    { ...chat, functions: [{ name: 'f', parameters: {} }] },
    'tools',
  ],
  ['a web search', 'openai-chat', { ...chat, web_search_options: {} }, 'tools'],
  ['an answer that the provider stores', 'openai-chat', { ...chat, store: true }, 'store'],
  ['an answer that it does not store', 'openai-chat', { ...chat, store: false }, null],
  [
    'an image URL',
    'openai-chat',
    { ...chat, messages: part({ type: 'image_url', image_url: { url: 'https://x.test/a.png' } }) },
    'media',
  ],
  [
    'image data',
    'openai-chat',
    { ...chat, messages: part({ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }) },
    null,
  ],
  [
    'a file by its ID',
    'openai-chat',
    { ...chat, messages: part({ type: 'file', file: { file_id: 'file_1' } }) },
    'media',
  ],
  [
    'an unknown part',
    'openai-chat',
    { ...chat, messages: part({ type: 'something_new', url: 'https://x.test' }) },
    'content',
  ],
  [
    'a member twice',
    'openai-chat',
    '{"model":"m","temperature":0,"temperature":0,"messages":[{"role":"user","content":"x"}]}',
    'duplicate-members',
  ],
  [
    'a nested member twice',
    'openai-chat',
    '{"model":"m","temperature":0,"messages":[{"role":"user","content":"x","content":"y"}]}',
    'duplicate-members',
  ],
  [
    'a body above 256 K characters',
    'openai-chat',
    { ...chat, messages: [{ role: 'user', content: 'x'.repeat(262_144) }] },
    'too-long',
  ],
  ['an unknown member', 'openai-chat', { ...chat, something_new: 1 }, null],
  ['a response that is stored by default', 'openai-responses', { ...turn, store: undefined }, 'store'],
  ['a response that is not stored', 'openai-responses', turn, null],
  ['a turn recorded for a connection', 'openai-responses', turn, 'store', { stored: true }],
  ['a background response', 'openai-responses', { ...turn, background: true }, 'background'],
  [
    'a response that continues another',
    'openai-responses',
    { ...turn, previous_response_id: 'resp_1' },
    'conversation',
  ],
  ['a response in a conversation', 'openai-responses', { ...turn, conversation: 'conv_1' }, 'conversation'],
  [
    'a reference to an item',
    'openai-responses',
    { ...turn, input: [{ type: 'item_reference', id: 'msg_1' }] },
    'conversation',
  ],
  ['a hosted tool', 'openai-responses', { ...turn, tools: [{ type: 'web_search' }] }, 'tools'],
  [
    'a tool with effects, also where tools are allowed',
    'openai-responses',
    { ...turn, tools: [{ type: 'mcp', server_label: 's', server_url: 'https://x.test' }] },
    'effects',
    { tools: true },
  ],
  [
    'an input image by URL',
    'openai-responses',
    { ...turn, input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://x.test/a.png' }] }] },
    'media',
  ],
  ['a message', 'anthropic-messages', message, null],
  ['a message without a temperature', 'anthropic-messages', { ...message, temperature: undefined }, 'temperature'],
  ['a container', 'anthropic-messages', { ...message, container: 'c_1' }, 'conversation'],
  [
    'an MCP server',
    'anthropic-messages',
    { ...message, mcp_servers: [{ type: 'url', url: 'https://x.test', name: 's' }] },
    'effects',
    { tools: true },
  ],
  [
    'a document by URL',
    'anthropic-messages',
    { ...message, messages: part({ type: 'document', source: { type: 'url', url: 'https://x.test/a.pdf' } }) },
    'media',
  ],
  ['a prompt of text completions', 'openai-completions', { model: 'm', prompt: 'x', temperature: 0 }, null],
]
for (const [name, style, body, why, rules] of requests)
  test(`cache: a request with ${name} ${why === null ? 'is cacheable' : `is not cacheable (${why})`}`, () =>
    assert.equal(reasonFor(style, body, rules), why))

const block = (open: Block): ChatEvent => ({ type: 'open', block: open })
const finish = (kind: FinishKind): ChatEvent => ({ type: 'finish', finish: { kind, raw: null } })
const foreign = { type: 'foreign', protocol: 'openai-responses', raw: {} } as const
const answers: readonly (readonly [name: string, events: readonly ChatEvent[], problem: UnstoredReason | null])[] = [
  ['text', [block({ type: 'text' }), finish('stop')], null],
  ['reasoning', [block({ type: 'reasoning' }), finish('stop')], null],
  ['text up to the length limit', [block({ type: 'text' }), finish('length')], null],
  ['no content', [finish('stop')], null],
  ['no end', [block({ type: 'text' })], 'unfinished'],
  ['nothing', [], 'unfinished'],
  [
    'a failure in the middle',
    [block({ type: 'text' }), { type: 'failure', failure: fail('truncated', 'x') }],
    'failure',
  ],
  ['a failure after the end', [finish('stop'), { type: 'failure', failure: fail('truncated', 'x') }], 'failure'],
  ['a tool call', [block({ type: 'tool-call', id: 'c', name: 'f' }), finish('tool-calls')], 'tool-call'],
  ['a tool call that ends as text', [block({ type: 'tool-call', id: 'c', name: 'f' }), finish('stop')], 'tool-call'],
  ['a refusal', [block({ type: 'refusal' }), finish('stop')], 'refusal'],
  ['output of a hosted tool', [block(foreign), finish('stop')], 'foreign'],
  ...(['tool-calls', 'content-filter', 'refusal', 'pause', 'malformed', 'error'] as const).map(
    (kind): [string, ChatEvent[], UnstoredReason] => [
      `the end ${kind}`,
      [block({ type: 'text' }), finish(kind)],
      'finish',
    ],
  ),
  ['two ends, one of them by a filter', [finish('stop'), finish('content-filter')], 'finish'],
]
for (const [name, events, problem] of answers)
  test(`cache: an answer with ${name} ${problem === null ? 'is stored' : `is not stored (${problem})`}`, () => {
    const whole = new AnswerCheck()
    whole.add(events)
    assert.equal(whole.problem, problem)
    const single = new AnswerCheck()
    for (const event of events) single.add([event])
    assert.equal(single.problem, problem)
  })

const changes: readonly TraceEvent[] = [
  { type: 'dropped', paths: ['seed'] },
  { type: 'dropped_events', count: 1 },
  { type: 'continued', at: 1, attempt: 0, failure: fail('truncated', 'x') },
]
for (const event of changes)
  test(`cache: an answer is not stored after ${event.type}`, () => {
    assert.equal(isChanged([event]), true)
    assert.equal(isChanged([{ type: 'committed', at: 1, attempt: 0, status: 200 }]), false)
  })

const PARTS: CacheKeyParts = {
  scope: 'key k',
  style: 'chat',
  facts: {},
  path: '/v1/chat/completions',
  query: '',
  forwarded: [null, null],
  target: { provider: 'a', model: 'm', baseUrl: 'http://a.test' },
  revisions: [],
}
const same: readonly (readonly [name: string, style: string, one: JsonObject, other: JsonObject])[] = [
  ['member order', 'chat', { a: 1, b: { c: 2, d: 3 } }, { b: { d: 3, c: 2 }, a: 1 }],
  ['the name of the model, which the target replaces', 'chat', { model: 'fast' }, { model: 'a/m' }],
  ['the user', 'chat', { user: 'ann' }, { user: 'bob' }],
  ['metadata', 'messages', { metadata: { user_id: 'ann' } }, {}],
  ['the safety identifier', 'chat', { safety_identifier: 'x' }, {}],
  ['the prompt cache key', 'chat', { prompt_cache_key: 'x' }, {}],
  ['client metadata', 'responses', { client_metadata: { a: '1' } }, {}],
  [
    'obfuscation of the stream',
    'chat',
    { stream_options: { include_obfuscation: true, include_usage: true } },
    { stream_options: { include_usage: true } },
  ],
  [
    "Claude Code's billing header",
    'messages',
    {
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cch=1;' },
        { type: 'text', text: 's' },
      ],
    },
    {
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cch=2;' },
        { type: 'text', text: 's' },
      ],
    },
  ],
]
const keyOf = (style: string, body: JsonObject): string =>
  cacheKeyText({ ...PARTS, style, facts: clientProtocolByStyle.get(style) ?? {} }, body)

for (const [name, style, one, other] of same)
  test(`cache: ${name} does not change the key`, () => assert.equal(keyOf(style, one), keyOf(style, other)))

const different: readonly (readonly [name: string, style: string, one: JsonObject, other: JsonObject])[] = [
  ['an unknown member', 'chat', { something_new: 1 }, {}],
  ['streaming', 'chat', { stream: true }, {}],
  ['usage in the stream', 'chat', { stream_options: { include_usage: true } }, { stream_options: {} }],
  ['a number and its text', 'chat', { a: 1 }, { a: '1' }],
  ['null and a missing member', 'chat', { a: null }, {}],
  ['a number that is too large and null', 'chat', { a: Number.POSITIVE_INFINITY }, { a: null }],
  ['an empty list and an empty object', 'chat', { a: [] }, { a: {} }],
  ['the order of a list', 'chat', { a: [1, 2] }, { a: [2, 1] }],
  ['a member named __proto__', 'chat', JSON.parse('{"__proto__":1}'), {}],
  ['metadata of a response, which its answer repeats', 'responses', { metadata: { a: '1' } }, { metadata: { a: '2' } }],
  ['the user of a response', 'responses', { user: 'ann' }, { user: 'bob' }],
  [
    'another first system block',
    'messages',
    { system: [{ type: 'text', text: 'a' }] },
    { system: [{ type: 'text', text: 'b' }] },
  ],
]
for (const [name, style, one, other] of different)
  test(`cache: ${name} changes the key`, () => assert.notEqual(keyOf(style, one), keyOf(style, other)))

const parts: readonly Partial<CacheKeyParts>[] = [
  {},
  { scope: 'team k' },
  { style: 'messages' },
  { path: '/v1/completions' },
  { query: 'beta=true' },
  { forwarded: ['x', null] },
  { forwarded: [null, 'x'] },
  { target: { ...PARTS.target, provider: 'b' } },
  { target: { ...PARTS.target, model: 'n' } },
  { target: { ...PARTS.target, baseUrl: 'http://b.test' } },
  { revisions: ['mask 1'] },
  { revisions: ['mask 2'] },
]
test('cache: everything around the body is part of the key', () =>
  assert.equal(new Set(parts.map((one) => cacheKeyText({ ...PARTS, ...one }, {}))).size, parts.length))

test('cache: two bodies have the same key only if they are equal', () => {
  const body = fc.dictionary(fc.constantFrom('a', 'b', 'messages', 'seed'), fc.jsonValue(), { maxKeys: 3 })
  fc.assert(
    fc.property(body, body, (one, other) => {
      const equal = isDeepEqual(one, other)
      const key = (value: unknown) => cacheKeyText(PARTS, JSON.parse(JSON.stringify(value)))
      assert.equal(key(one) === key(other), equal)
    }),
    { numRuns: 2_000 },
  )
})

function isDeepEqual(one: unknown, other: unknown): boolean {
  try {
    assert.deepEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)))
    return true
  } catch {
    return false
  }
}
