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
const content = (...blocks: readonly Json[]): JsonObject => ({ content: blocks })
const textPart = (text: string): JsonObject => ({ type: 'text', text })
const thinkingPart = (thinking: string): JsonObject => ({ type: 'thinking', thinking })
const call = (name: string, args: Json, id = 'c'): JsonObject => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
const citation = (start: number, end: number, text: string, sources: Json): JsonObject => ({
  start,
  end,
  text,
  sources,
  type: 'TEXT_CONTENT',
})

/** Summarises an answer in one line: its blocks, then its end. `*` marks a plan. */
const summarize = (events: readonly ChatEvent[]): string => {
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
  ['text', answer(content(textPart('hi'))), 'text(hi) stop COMPLETE'],
  ['content as a string', answer({ content: 'hi' }), 'text(hi) stop COMPLETE'],
  ['thinking before text', answer(content(thinkingPart('hm'), textPart('hi'))), 'reasoning(hm) text(hi) stop COMPLETE'],
  ['two texts', answer(content(textPart('a'), textPart('b'))), 'text(a) text(b) stop COMPLETE'],
  [
    'a plan and calls',
    answer(
      { tool_plan: 'I will.', tool_calls: [call('f', '{"a":1}'), call('g', 'null', 'd')] },
      { finish_reason: 'TOOL_CALL' },
    ),
    'reasoning*(I will.) tool-call(f {"a":1}) tool-call(g {}) tool-calls TOOL_CALL',
  ],
  [
    'a plan and thinking are separate blocks',
    answer({ tool_plan: 'I will.', ...content(thinkingPart('hm')), tool_calls: [call('f', '')] }),
    'reasoning*(I will.) reasoning(hm) tool-call(f {}) tool-calls COMPLETE',
  ],
  ['arguments as an object', answer({ tool_calls: [call('f', { a: 1 })] }), 'tool-call(f {"a":1}) tool-calls COMPLETE'],
  ['no arguments at all', answer({ tool_calls: [{ function: { name: 'f' } }] }), 'tool-call(f {}) tool-calls COMPLETE'],
  ['a call without a name', answer({ tool_calls: [{ id: 'c', function: {} }] }), 'failure malformed'],
  ['a malformed call', answer({ tool_calls: ['f'] }), 'failure malformed'],
  ['the output limit', answer(content(textPart('h')), { finish_reason: 'MAX_TOKENS' }), 'text(h) length MAX_TOKENS'],
  [
    'the output limit within a call',
    answer({ tool_calls: [call('f', '{"a"')] }, { finish_reason: 'MAX_TOKENS' }),
    'tool-call(f {"a") length MAX_TOKENS',
  ],
  ['a stop sequence', answer(content(textPart('h')), { finish_reason: 'STOP_SEQUENCE' }), 'text(h) stop STOP_SEQUENCE'],
  ['filtered', answer({}, { finish_reason: 'ERROR_TOXIC' }), 'content-filter ERROR_TOXIC'],
  [
    'finish reason ERROR',
    answer(content(textPart('h')), { finish_reason: 'ERROR' }),
    'text(h) failure error_in_stream',
  ],
  ['finish reason TIMEOUT', answer(content(textPart('h')), { finish_reason: 'TIMEOUT' }), 'text(h) failure timeout'],
  ['an unknown finish reason', answer(content(textPart('h')), { finish_reason: 'BORED' }), 'text(h) stop BORED'],
  [
    'a finish reason named like a prototype member',
    answer(content(textPart('h')), { finish_reason: 'constructor' }),
    'text(h) stop constructor',
  ],
  ['no finish reason', answer(content(textPart('h')), { finish_reason: null }), 'text(h) failure truncated'],
  [
    'an unknown kind of part',
    answer(content({ type: 'song', notes: [1] }, textPart('h'))),
    'foreign() text(h) stop COMPLETE',
  ],
  ['a malformed part', answer(content('h')), 'failure malformed'],
  ['an error', { id: 'x', message: 'rate limit', error_type: 'x' }, 'failure error_in_stream'],
  [
    'a context length error',
    { id: 'x', message: 'too many tokens: …', error_type: 'TOO_MANY_TOKENS' },
    'failure context_length',
  ],
  ['an answer of API version 1', { text: 'hi', generation_id: 'g', finish_reason: 'COMPLETE' }, 'failure malformed'],
  ['not an object', 'hi', 'failure malformed'],
  [
    'a cited document, for the second part',
    answer({
      ...content(thinkingPart('hm'), textPart('It is Bern.')),
      citations: [
        {
          ...citation(6, 11, 'Bern.', [
            { type: 'document', id: 'd', document: { id: 'd', title: 'T', url: 'https://t' } },
          ]),
          content_index: 1,
        },
      ],
    }),
    'reasoning(hm) text(It is Bern.<https://t|T 6-11>) stop COMPLETE',
  ],
  [
    'sources without a URL, and a citation without a source',
    answer({
      ...content(textPart('15°C')),
      citations: [
        citation(0, 4, '15°C', [{ type: 'tool', id: 'c:0', tool_output: {} }, { id: 'c:1' }]),
        citation(0, 2, '15', []),
      ],
    }),
    'text(15°C<|c:0 0-4><|c:1 0-4><| 0-2>) stop COMPLETE',
  ],
  [
    'positions counted in characters',
    answer({ ...content(textPart('🎉 party')), citations: [citation(2, 7, 'party', [{ id: 'd' }])] }),
    'text(🎉 party<|d 3-8>) stop COMPLETE',
  ],
  [
    'positions that do not match the cited text',
    answer({
      ...content(textPart('a party')),
      citations: [citation(40, 45, 'party', [{ id: 'd' }]), citation(1, 2, 'x', [{ id: 'e' }])],
    }),
    'text(a party<|d 2-7><|e ->) stop COMPLETE',
  ],
  [
    'a citation of the plan',
    answer({ ...content(textPart('x')), citations: [{ ...citation(0, 1, 'x', [{ id: 'd' }]), type: 'PLAN' }] }),
    'text(x) stop COMPLETE',
  ],
]
for (const [name, body, expected] of cases)
  test(`cohere answer: ${name}`, () => assert.equal(summarize(cohere.decodeAnswer(body)), expected))

test('cohere answer: usage counts tokens including images, beside the billed units', () => {
  const usage = {
    billed_units: { input_tokens: 267, output_tokens: 60 },
    tokens: { input_tokens: 34, output_tokens: 70, reasoning_tokens: 20, image_tokens: 259 },
    cached_tokens: 16,
  }
  assert.deepEqual(fold(cohere.decodeAnswer(answer(content(textPart('x')), { usage }))).usage, {
    input: 293,
    output: 70,
    cacheRead: 16,
    reasoning: 20,
    billed: { input: 267, output: 60 },
    raw: usage,
  })
  const billed = answer(content(textPart('x')), { usage: { billed_units: { input_tokens: 3, output_tokens: 1 } } })
  const units = { input: 3, output: 1 }
  const { raw: _, ...counts } = fold(cohere.decodeAnswer(billed)).usage ?? {}
  assert.deepEqual(counts, { ...units, billed: units })
})

test('cohere answer: usage precedes the failure of an answer', () => {
  const usage = { tokens: { input_tokens: 3, output_tokens: 1 } }
  const events = cohere.decodeAnswer(answer({}, { finish_reason: 'ERROR', usage }))
  assert.deepEqual(
    events.map(({ type }) => type),
    ['start', 'usage', 'failure'],
  )
})

test('cohere answer: log probabilities, added for a piece of several tokens', () => {
  const logprobs = [
    { text: 'h', token_ids: [1], logprobs: [-0.5] },
    { text: 'éy', token_ids: [2, 3], logprobs: [-0.5, -1] },
    { text: 'no', token_ids: [] },
  ]
  assert.deepEqual(fold(cohere.decodeAnswer(answer(content(textPart('héy')), { logprobs }))).blocks, [
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
const startPart = (type: string): JsonObject => event('content-start', { content: { type, [type]: '' } })
const textDelta = (piece: string): JsonObject => event('content-delta', { content: { text: piece } })
const thinkingDelta = (piece: string): JsonObject => event('content-delta', { content: { thinking: piece } })
const planDelta = (piece: string): JsonObject => event('tool-plan-delta', { tool_plan: piece })
const startCall = (name: string): JsonObject => event('tool-call-start', { tool_calls: call(name, '') })
const argumentsDelta = (piece: string): JsonObject =>
  event('tool-call-delta', { tool_calls: { function: { arguments: piece } } })
const startCitation = (raw: JsonObject): JsonObject => event('citation-start', { citations: raw })
const end = (reason: Json, more: JsonObject = {}): JsonObject => ({
  type: 'message-end',
  delta: { finish_reason: reason, ...more },
})
const endOf = (type: string): JsonObject => ({ type, index: 0 })

const streams: readonly (readonly [string, readonly Json[], string])[] = [
  [
    'text',
    [start, startPart('text'), textDelta('h'), textDelta('i'), endOf('content-end'), end('COMPLETE')],
    'text(hi) stop COMPLETE',
  ],
  [
    'thinking, then text',
    [
      start,
      startPart('thinking'),
      thinkingDelta('hm'),
      endOf('content-end'),
      startPart('text'),
      textDelta('hi'),
      end('COMPLETE'),
    ],
    'reasoning(hm) text(hi) stop COMPLETE',
  ],
  [
    'empty parts are dropped',
    [
      start,
      startPart('thinking'),
      endOf('content-end'),
      startPart('text'),
      textDelta('hi'),
      endOf('content-end'),
      end('COMPLETE'),
    ],
    'text(hi) stop COMPLETE',
  ],
  [
    'a plan and calls, one without arguments',
    [
      start,
      planDelta('I '),
      planDelta('will.'),
      startCall('f'),
      argumentsDelta('{"a"'),
      argumentsDelta(':1}'),
      endOf('tool-call-end'),
      startCall('g'),
      endOf('tool-call-end'),
      end('TOOL_CALL'),
    ],
    'reasoning*(I will.) tool-call(f {"a":1}) tool-call(g {}) tool-calls TOOL_CALL',
  ],
  [
    'null arguments in pieces',
    [start, startCall('f'), argumentsDelta('nu'), argumentsDelta('ll'), endOf('tool-call-end'), end('TOOL_CALL')],
    'tool-call(f {}) tool-calls TOOL_CALL',
  ],
  [
    'arguments that start like null',
    [start, startCall('f'), argumentsDelta('n'), argumentsDelta('o'), endOf('tool-call-end'), end('TOOL_CALL')],
    'tool-call(f no) tool-calls TOOL_CALL',
  ],
  ['arguments without a call', [start, argumentsDelta('{}'), end('TOOL_CALL')], 'failure malformed'],
  ['a call without a name', [start, event('tool-call-start', { tool_calls: {} })], 'failure malformed'],
  [
    'citations within the text and after its end',
    [
      start,
      startPart('text'),
      textDelta('Ruby'),
      startCitation(citation(0, 4, 'Ruby', [{ id: 'd' }])),
      endOf('citation-end'),
      textDelta(' is'),
      endOf('content-end'),
      startCitation(citation(5, 7, 'is', [{ id: 'e' }])),
      end('COMPLETE'),
    ],
    'text(Ruby is<|d 0-4><|e 5-7>) stop COMPLETE',
  ],
  [
    'unknown events',
    [start, { type: 'debug', prompt: 'x' }, textDelta('h'), { type: 'new' }, {}, end('COMPLETE')],
    'text(h) stop COMPLETE',
  ],
  [
    'an unknown part',
    [start, event('content-start', { content: { type: 'song' } }), textDelta('h'), end('COMPLETE')],
    'foreign() text(h) stop COMPLETE',
  ],
  ['a truncated stream', [start, textDelta('h')], 'text(h) failure truncated'],
  ['an end without a finish reason', [start, textDelta('h'), end(null)], 'text(h) failure truncated'],
  [
    'an error at the end, with a message',
    [start, textDelta('h'), end('ERROR', { error: 'no GPU' }), textDelta('more')],
    'text(h) failure error_in_stream',
  ],
  ['an error event', [start, textDelta('h'), { id: 'x', message: 'internal' }], 'text(h) failure error_in_stream'],
  ['an empty stream', [], 'failure truncated'],
  ['an event that is not an object', ['h'], 'failure malformed'],
]
for (const [name, events, expected] of streams)
  test(`cohere stream: ${name}`, () => {
    const wire = events.map((entry) => `data: ${JSON.stringify(entry)}\n\n`).join('')
    const first = run(cohere.decodeStream(), run(sseFrames(), [wire]))
    assert.equal(summarize(first), expected)
    for (let cut = 0; cut <= wire.length; cut += 7)
      assert.deepEqual(run(cohere.decodeStream(), run(sseFrames(), [wire.slice(0, cut), wire.slice(cut)])), first)
  })

test('cohere stream: reads the event type from the SSE event name if the data has none', () => {
  const frames = [
    { event: 'message-start', data: '{"id":"a1"}' },
    { event: 'content-delta', data: '{"delta":{"message":{"content":{"text":"h"}}}}' },
    { event: 'message-end', data: '{"delta":{"finish_reason":"COMPLETE"}}' },
    { data: '[DONE]' },
  ]
  assert.equal(summarize(run(cohere.decodeStream(), frames)), 'text(h) stop COMPLETE')
})

test('cohere stream: fails on an oversized event and on invalid JSON', () => {
  assert.equal(summarize(run(cohere.decodeStream(), [{ data: '', oversized: true }])), 'failure too_large')
  assert.equal(summarize(run(cohere.decodeStream(), [{ data: '{' }, { data: '{}' }])), 'failure malformed')
})

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

const errors: readonly (readonly [number, Json, string])[] = [
  [400, { id: 'i', message: 'invalid request: list of documents must not be empty' }, 'incompatible'],
  [400, { id: 'i', message: 'too many tokens: …', error_type: 'TOO_MANY_TOKENS' }, 'context_length'],
  [401, { id: 'i', message: 'invalid api token' }, 'auth'],
  [402, { message: 'Please add or update your payment method' }, 'quota'],
  [404, { message: "model 'x' not found" }, 'model_missing'],
  [429, { message: 'trial token rate limit exceeded' }, 'rate_limited'],
  [500, { message: 'internal server error' }, 'status'],
  [503, { data: 'upstream' }, 'overloaded'],
  [400, 'what', 'incompatible'],
]
for (const [status, body, kind] of errors)
  test(`cohere errors: ${status} ${JSON.stringify(body)}`, () => {
    const failure = cohere.decodeFailure(status, body, () => undefined)
    assert.equal(failure.kind, kind)
    assert.equal(failure.status, status)
  })
