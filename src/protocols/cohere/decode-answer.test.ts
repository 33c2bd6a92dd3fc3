import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { cohere } from './index.ts'

const answer = (message: JsonObject, more: JsonObject = {}): JsonObject => ({
  id: 'a1',
  message: { role: 'assistant', ...message },
  finish_reason: 'COMPLETE',
  ...more,
})
const says = (...blocks: readonly Json[]): JsonObject => ({ content: blocks })
const said = (text: string): JsonObject => ({ type: 'text', text })
const thought = (thinking: string): JsonObject => ({ type: 'thinking', thinking })
const call = (name: string, args: Json, id = 'c'): JsonObject => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
const cites = (start: number, end: number, text: string, sources: Json, more: JsonObject = {}): JsonObject => ({
  start,
  end,
  text,
  sources,
  type: 'TEXT_CONTENT',
  ...more,
})

/** An answer in a line: blocks, then how it ended. A plan has a star. */
const told = (events: readonly ChatEvent[]): string => {
  const { blocks, finish, failure } = fold(events)
  const all = blocks.map((block) => {
    const cited = (block.citations ?? []).map(
      ({ url, title, start, end }) => `<${url}|${title ?? ''} ${start ?? ''}-${end ?? ''}>`,
    )
    const name = block.type === 'tool-call' ? `${block.name} ` : ''
    return `${block.type}${block.signature?.value === 'tool_plan' ? '*' : ''}(${name}${block.text}${cited.join('')})`
  })
  return [...all, failure ? `failure ${failure.kind}` : `${finish?.kind} ${finish?.raw}`].join(' ')
}

const cases: readonly (readonly [string, Json, string])[] = [
  ['text', answer(says(said('hi'))), 'text(hi) stop COMPLETE'],
  ['text that is no list', answer({ content: 'hi' }), 'text(hi) stop COMPLETE'],
  ['a thought before', answer(says(thought('hm'), said('hi'))), 'reasoning(hm) text(hi) stop COMPLETE'],
  ['two texts', answer(says(said('a'), said('b'))), 'text(a) text(b) stop COMPLETE'],
  [
    'a plan, and calls',
    answer(
      { tool_plan: 'I will.', tool_calls: [call('f', '{"a":1}'), call('g', 'null', 'd')] },
      { finish_reason: 'TOOL_CALL' },
    ),
    'reasoning*(I will.) tool-call(f {"a":1}) tool-call(g {}) tool-calls TOOL_CALL',
  ],
  [
    'a plan and thoughts are told apart',
    answer({ tool_plan: 'I will.', ...says(thought('hm')), tool_calls: [call('f', '')] }),
    'reasoning*(I will.) reasoning(hm) tool-call(f {}) tool-calls COMPLETE',
  ],
  ['arguments as an object', answer({ tool_calls: [call('f', { a: 1 })] }), 'tool-call(f {"a":1}) tool-calls COMPLETE'],
  ['no arguments at all', answer({ tool_calls: [{ function: { name: 'f' } }] }), 'tool-call(f {}) tool-calls COMPLETE'],
  ['a call of nothing', answer({ tool_calls: [{ id: 'c', function: {} }] }), 'failure malformed'],
  ['a call that is none', answer({ tool_calls: ['f'] }), 'failure malformed'],
  ['at its limit', answer(says(said('h')), { finish_reason: 'MAX_TOKENS' }), 'text(h) length MAX_TOKENS'],
  [
    'at its limit with a call',
    answer({ tool_calls: [call('f', '{"a"')] }, { finish_reason: 'MAX_TOKENS' }),
    'tool-call(f {"a") length MAX_TOKENS',
  ],
  ['at a stop', answer(says(said('h')), { finish_reason: 'STOP_SEQUENCE' }), 'text(h) stop STOP_SEQUENCE'],
  ['filtered', answer({}, { finish_reason: 'ERROR_TOXIC' }), 'content-filter ERROR_TOXIC'],
  ['broken off', answer(says(said('h')), { finish_reason: 'ERROR' }), 'text(h) failure error_in_stream'],
  ['too slow', answer(says(said('h')), { finish_reason: 'TIMEOUT' }), 'text(h) failure timeout'],
  ['a new reason', answer(says(said('h')), { finish_reason: 'BORED' }), 'text(h) stop BORED'],
  ['a reason of prototypes', answer(says(said('h')), { finish_reason: 'constructor' }), 'text(h) stop constructor'],
  ['no reason', answer(says(said('h')), { finish_reason: null }), 'text(h) failure truncated'],
  ['a new kind of part', answer(says({ type: 'song', notes: [1] }, said('h'))), 'foreign() text(h) stop COMPLETE'],
  ['a part that is none', answer(says('h')), 'failure malformed'],
  ['an error', { id: 'x', message: 'rate limit', error_type: 'x' }, 'failure error_in_stream'],
  ['too long', { id: 'x', message: 'too many tokens: …', error_type: 'TOO_MANY_TOKENS' }, 'failure context_length'],
  ['the older version', { text: 'hi', generation_id: 'g', finish_reason: 'COMPLETE' }, 'failure malformed'],
  ['no object', 'hi', 'failure malformed'],
  [
    'a document cited, in the second part',
    answer({
      ...says(thought('hm'), said('It is Bern.')),
      citations: [
        cites(6, 11, 'Bern.', [{ type: 'document', id: 'd', document: { id: 'd', title: 'T', url: 'https://t' } }], {
          content_index: 1,
        }),
      ],
    }),
    'reasoning(hm) text(It is Bern.<https://t|T 6-11>) stop COMPLETE',
  ],
  [
    'a source without an address, cited twice, and one of none',
    answer({
      ...says(said('15°C')),
      citations: [
        cites(0, 4, '15°C', [{ type: 'tool', id: 'c:0', tool_output: {} }, { id: 'c:1' }]),
        cites(0, 2, '15', []),
      ],
    }),
    'text(15°C<|c:0 0-4><|c:1 0-4><| 0-2>) stop COMPLETE',
  ],
  [
    'places counted in characters',
    answer({ ...says(said('🎉 party')), citations: [cites(2, 7, 'party', [{ id: 'd' }])] }),
    'text(🎉 party<|d 3-8>) stop COMPLETE',
  ],
  [
    'a place that does not hold its words',
    answer({
      ...says(said('a party')),
      citations: [cites(40, 45, 'party', [{ id: 'd' }]), cites(1, 2, 'x', [{ id: 'e' }])],
    }),
    'text(a party<|d 2-7><|e ->) stop COMPLETE',
  ],
  [
    'a plan cited',
    answer({ ...says(said('x')), citations: [cites(0, 1, 'x', [{ id: 'd' }], { type: 'PLAN' })] }),
    'text(x) stop COMPLETE',
  ],
]
for (const [name, body, expected] of cases)
  test(`cohere answer: ${name}`, () => assert.equal(told(cohere.decodeAnswer(body)), expected))

test('cohere answer: tokens are counted, not billed units, with those of images', () => {
  const usage = {
    billed_units: { input_tokens: 267, output_tokens: 60 },
    tokens: { input_tokens: 34, output_tokens: 70, reasoning_tokens: 20, image_tokens: 259 },
    cached_tokens: 16,
  }
  assert.deepEqual(fold(cohere.decodeAnswer(answer(says(said('x')), { usage }))).usage, {
    input: 293,
    output: 70,
    cacheRead: 16,
    reasoning: 20,
    raw: usage,
  })
  const billed = answer(says(said('x')), { usage: { billed_units: { input_tokens: 1 } } })
  assert.equal(fold(cohere.decodeAnswer(billed)).usage, undefined)
})

test('cohere answer: the usage of one that failed is told before its failure', () => {
  const usage = { tokens: { input_tokens: 3, output_tokens: 1 } }
  const events = cohere.decodeAnswer(answer({}, { finish_reason: 'ERROR', usage }))
  assert.deepEqual(
    events.map(({ type }) => type),
    ['start', 'usage', 'failure'],
  )
})

test('cohere answer: probabilities, those of a piece of several tokens together', () => {
  const logprobs = [
    { text: 'h', token_ids: [1], logprobs: [-0.5] },
    { text: 'éy', token_ids: [2, 3], logprobs: [-0.5, -1] },
    { text: 'no', token_ids: [] },
  ]
  assert.deepEqual(fold(cohere.decodeAnswer(answer(says(said('héy')), { logprobs }))).blocks, [
    {
      type: 'text',
      text: 'héy',
      logprobs: [
        { token: 'h', logprob: -0.5, bytes: [104], top_logprobs: [] },
        { token: 'éy', logprob: -1.5, bytes: [195, 169, 121], top_logprobs: [] },
      ],
    },
  ])
})

// ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

const event = (type: string, message: JsonObject = {}, more: JsonObject = {}): JsonObject => ({
  type,
  delta: { message },
  ...more,
})
const start = { id: 'a1', type: 'message-start', delta: { message: { role: 'assistant', content: [] } } }
const opens = (type: string): JsonObject => event('content-start', { content: { type, [type]: '' } })
const text = (words: string): JsonObject => event('content-delta', { content: { text: words } })
const thinks = (words: string): JsonObject => event('content-delta', { content: { thinking: words } })
const plans = (words: string): JsonObject => event('tool-plan-delta', { tool_plan: words })
const calls = (name: string): JsonObject => event('tool-call-start', { tool_calls: call(name, '') })
const argues = (words: string): JsonObject =>
  event('tool-call-delta', { tool_calls: { function: { arguments: words } } })
const cite = (citation: JsonObject): JsonObject => event('citation-start', { citations: citation })
const end = (reason: Json, more: JsonObject = {}): JsonObject => ({
  type: 'message-end',
  delta: { finish_reason: reason, ...more },
})
const shut = (type: string): JsonObject => ({ type, index: 0 })

const streams: readonly (readonly [string, readonly Json[], string])[] = [
  [
    'text',
    [start, opens('text'), text('h'), text('i'), shut('content-end'), end('COMPLETE')],
    'text(hi) stop COMPLETE',
  ],
  [
    'thoughts, then text',
    [start, opens('thinking'), thinks('hm'), shut('content-end'), opens('text'), text('hi'), end('COMPLETE')],
    'reasoning(hm) text(hi) stop COMPLETE',
  ],
  [
    'parts that say nothing are none',
    [start, opens('thinking'), shut('content-end'), opens('text'), text('hi'), shut('content-end'), end('COMPLETE')],
    'text(hi) stop COMPLETE',
  ],
  [
    'a plan and calls, one without arguments',
    [
      start,
      plans('I '),
      plans('will.'),
      calls('f'),
      argues('{"a"'),
      argues(':1}'),
      shut('tool-call-end'),
      calls('g'),
      shut('tool-call-end'),
      end('TOOL_CALL'),
    ],
    'reasoning*(I will.) tool-call(f {"a":1}) tool-call(g {}) tool-calls TOOL_CALL',
  ],
  [
    'null for arguments, in pieces',
    [start, calls('f'), argues('nu'), argues('ll'), shut('tool-call-end'), end('TOOL_CALL')],
    'tool-call(f {}) tool-calls TOOL_CALL',
  ],
  [
    'arguments that only begin like it',
    [start, calls('f'), argues('n'), argues('o'), shut('tool-call-end'), end('TOOL_CALL')],
    'tool-call(f no) tool-calls TOOL_CALL',
  ],
  ['arguments of no call', [start, argues('{}'), end('TOOL_CALL')], 'failure malformed'],
  ['a call of no name', [start, event('tool-call-start', { tool_calls: {} })], 'failure malformed'],
  [
    'sources, while the text goes on and after its end',
    [
      start,
      opens('text'),
      text('Ruby'),
      cite(cites(0, 4, 'Ruby', [{ id: 'd' }])),
      shut('citation-end'),
      text(' is'),
      shut('content-end'),
      cite(cites(5, 7, 'is', [{ id: 'e' }])),
      end('COMPLETE'),
    ],
    'text(Ruby is<|d 0-4><|e 5-7>) stop COMPLETE',
  ],
  [
    'events nobody knows',
    [start, { type: 'debug', prompt: 'x' }, text('h'), { type: 'new' }, {}, end('COMPLETE')],
    'text(h) stop COMPLETE',
  ],
  [
    'a part nobody knows',
    [start, event('content-start', { content: { type: 'song' } }), text('h'), end('COMPLETE')],
    'foreign() text(h) stop COMPLETE',
  ],
  ['cut off', [start, text('h')], 'text(h) failure truncated'],
  ['without a reason', [start, text('h'), end(null)], 'text(h) failure truncated'],
  [
    'broken off, and why',
    [start, text('h'), end('ERROR', { error: 'no GPU' }), text('more')],
    'text(h) failure error_in_stream',
  ],
  ['an error in between', [start, text('h'), { id: 'x', message: 'internal' }], 'text(h) failure error_in_stream'],
  ['nothing', [], 'failure truncated'],
  ['no object', ['h'], 'failure malformed'],
]
for (const [name, events, expected] of streams)
  test(`cohere stream: ${name}`, () => {
    const wire = events.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')
    const first = run(cohere.decodeStream(), run(sseFrames(), [wire]))
    assert.equal(told(first), expected)
    for (let cut = 0; cut <= wire.length; cut += 7)
      assert.deepEqual(run(cohere.decodeStream(), run(sseFrames(), [wire.slice(0, cut), wire.slice(cut)])), first)
  })

test('cohere stream: an event is known by its name where its data does not say it', () => {
  const frames = [
    { event: 'message-start', data: '{"id":"a1"}' },
    { event: 'content-delta', data: '{"delta":{"message":{"content":{"text":"h"}}}}' },
    { event: 'message-end', data: '{"delta":{"finish_reason":"COMPLETE"}}' },
    { data: '[DONE]' },
  ]
  assert.equal(told(run(cohere.decodeStream(), frames)), 'text(h) stop COMPLETE')
})

test('cohere stream: an event too large, and one that is not JSON', () => {
  assert.equal(told(run(cohere.decodeStream(), [{ data: '', oversized: true }])), 'failure too_large')
  assert.equal(told(run(cohere.decodeStream(), [{ data: '{' }, { data: '{}' }])), 'failure malformed')
})

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

const errors: readonly (readonly [number, Json, string])[] = [
  [400, { id: 'i', message: 'invalid request: list of documents must not be empty' }, 'invalid_request'],
  [400, { id: 'i', message: 'too many tokens: …', error_type: 'TOO_MANY_TOKENS' }, 'context_length'],
  [401, { id: 'i', message: 'invalid api token' }, 'auth'],
  [402, { message: 'Please add or update your payment method' }, 'quota'],
  [404, { message: "model 'x' not found" }, 'model_missing'],
  [429, { message: 'trial token rate limit exceeded' }, 'rate_limited'],
  [500, { message: 'internal server error' }, 'status'],
  [503, { data: 'upstream' }, 'overloaded'],
  [400, 'what', 'invalid_request'],
]
for (const [status, body, kind] of errors)
  test(`cohere errors: ${status} ${JSON.stringify(body)}`, () => {
    const failure = cohere.decodeFailure(status, body, () => undefined)
    assert.equal(failure.kind, kind)
    assert.equal(failure.status, status)
  })
