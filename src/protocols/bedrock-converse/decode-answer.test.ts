/** Answers of Converse and ConverseStream: every kind of block, stop reason and failure. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { event, exception, message } from '../../../test/support/event-stream.ts'
import { type ChatAnswer, type ChatEvent, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { eventFrames } from '../framing/event-stream.ts'
import { bedrockConverse } from './index.ts'

const usage = { inputTokens: 3, outputTokens: 5, totalTokens: 8 }
const whole = (content: Json, stopReason = 'end_turn', more: JsonObject = {}): Json => ({
  output: { message: { role: 'assistant', content } },
  stopReason,
  usage,
  metrics: { latencyMs: 1 },
  ...more,
})
const decodedEvents = (bytes: readonly Uint8Array[]): ChatEvent[] =>
  run(bedrockConverse.decodeStream(), run(eventFrames(1_000_000), bytes))

/** A short form of an answer: its blocks and its finish. */
const summaryOf = (events: readonly ChatEvent[]): unknown[] => {
  const { blocks, finish, failure }: ChatAnswer = fold(events)
  const lines = blocks.map((block) => {
    const { type, text, citations, signature } = block
    return [
      type === 'tool-call' ? `${block.id} ${block.name}(${text})` : type === 'foreign' ? block.raw : `${type}: ${text}`,
      ...(citations ?? []).map(({ url, title }) => `cites ${url} ${title ?? ''}`.trim()),
      ...(signature ? [`${signature.redacted ? 'sealed' : 'signed'} ${signature.origin} ${signature.value}`] : []),
    ]
  })
  return [...lines.map((line) => (line.length === 1 ? line[0] : line)), failure?.kind ?? finish?.kind]
}

// ── Blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const start = (contentBlockIndex: number, begun: JsonObject) =>
  event('contentBlockStart', { contentBlockIndex, start: begun, p: 'abcd' })
const delta = (contentBlockIndex: number, piece: JsonObject) =>
  event('contentBlockDelta', { contentBlockIndex, delta: piece, p: 'abcd' })
const stop = (contentBlockIndex: number) => event('contentBlockStop', { contentBlockIndex })
const end = (stopReason = 'end_turn', more: JsonObject = {}) => event('messageStop', { stopReason, ...more })
const SERVER = { toolUseId: 's1', name: 'nova_grounding', type: 'server_tool_use' }
const web = { location: { web: { url: 'https://h/', domain: 'h' } } }
const char = { title: 'facts', location: { documentChar: { documentIndex: 0, start: 0, end: 3 } } }

const blocks: readonly (readonly [
  name: string,
  content: Json,
  stream: readonly Uint8Array[],
  says: readonly unknown[],
])[] = [
  [
    'text',
    [{ text: 'ab' }],
    [delta(0, { text: 'a' }), delta(0, { text: '' }), delta(0, { text: 'b' }), stop(0)],
    ['text: ab', 'stop'],
  ],
  [
    'two text blocks',
    [{ text: 'a' }, { text: 'b' }],
    [delta(0, { text: 'a' }), stop(0), delta(1, { text: 'b' }), stop(1)],
    ['text: a', 'text: b', 'stop'],
  ],
  [
    'two text blocks without a stop event between them',
    [{ text: 'a' }, { text: 'b' }],
    [delta(0, { text: 'a' }), delta(1, { text: 'b' })],
    ['text: a', 'text: b', 'stop'],
  ],
  ['an empty text block', [{ text: '' }], [delta(0, { text: '' }), stop(0)], ['stop']],
  ['no content', [], [], ['stop']],
  [
    'a call',
    [{ text: 'hm' }, { toolUse: { toolUseId: 'c1', name: 'f', input: { a: [1, 'ü'] } } }],
    [
      delta(0, { text: 'hm' }),
      stop(0),
      start(1, { toolUse: { toolUseId: 'c1', name: 'f' } }),
      delta(1, { toolUse: { input: '{"a":[1' } }),
      delta(1, { toolUse: { input: ',"ü"]}' } }),
      stop(1),
    ],
    ['text: hm', 'c1 f({"a":[1,"ü"]})', 'tool-calls'],
  ],
  [
    'two calls without arguments',
    [
      { toolUse: { toolUseId: 'c1', name: 'f', input: {} } },
      { toolUse: { toolUseId: 'c2', name: 'g', input: {}, type: 'tool_use' } },
    ],
    [
      start(0, { toolUse: { toolUseId: 'c1', name: 'f' } }),
      delta(0, { toolUse: { input: '' } }),
      stop(0),
      start(1, { toolUse: { toolUseId: 'c2', name: 'g', type: 'tool_use' } }),
      stop(1),
    ],
    ['c1 f({})', 'c2 g({})', 'tool-calls'],
  ],
  [
    'reasoning with a signature',
    [{ reasoningContent: { reasoningText: { text: 'hm', signature: 'SIG' } } }, { text: 'a' }],
    [
      delta(0, { reasoningContent: { text: 'h' } }),
      delta(0, { reasoningContent: { text: 'm' } }),
      delta(0, { reasoningContent: { signature: 'SIG' } }),
      stop(0),
      delta(1, { text: 'a' }),
      stop(1),
    ],
    [['reasoning: hm', 'signed bedrock-converse SIG'], 'text: a', 'stop'],
  ],
  [
    'a signature without text, reasoning without a signature',
    [
      { reasoningContent: { reasoningText: { text: '', signature: 'SIG' } } },
      { reasoningContent: { reasoningText: { text: 'hm' } } },
    ],
    [
      delta(0, { reasoningContent: { signature: 'SIG' } }),
      stop(0),
      delta(1, { reasoningContent: { text: 'hm' } }),
      stop(1),
    ],
    [['reasoning: ', 'signed bedrock-converse SIG'], 'reasoning: hm', 'stop'],
  ],
  [
    'redacted reasoning',
    [{ reasoningContent: { redactedContent: 'QUJD' } }],
    [delta(0, { reasoningContent: { redactedContent: 'QUJD' } }), stop(0)],
    [['reasoning: ', 'sealed bedrock-converse QUJD'], 'stop'],
  ],
  [
    'a cited text',
    [{ text: 'So: ' }, { citationsContent: { content: [{ text: 'a' }, { text: 'b' }], citations: [char] } }],
    [
      delta(0, { text: 'So: ' }),
      stop(0),
      delta(1, { citation: char }),
      delta(1, { text: 'a' }),
      delta(1, { text: 'b' }),
      stop(1),
    ],
    ['text: So: ', ['text: ab', 'cites  facts'], 'stop'],
  ],
  [
    'citations after their text',
    [{ text: 'a' }, { citationsContent: { citations: [web, web] } }, { text: 'b' }],
    [
      delta(0, { text: 'a' }),
      stop(0),
      delta(1, { citation: web }),
      delta(1, { citation: web }),
      stop(1),
      delta(2, { text: 'b' }),
      stop(2),
    ],
    [['text: a', 'cites https://h/', 'cites https://h/'], 'text: b', 'stop'],
  ],
  [
    'a hosted tool',
    [
      { toolUse: { ...SERVER, input: { query: 'q' } } },
      { toolResult: { toolUseId: 's1', type: 'nova_grounding_result', status: 'success', content: [{ text: 'x' }] } },
      { text: 'a' },
    ],
    [
      start(0, { toolUse: SERVER }),
      delta(0, { toolUse: { input: '{"query":' } }),
      delta(0, { toolUse: { input: '"q"}' } }),
      stop(0),
      start(1, { toolResult: { toolUseId: 's1', type: 'nova_grounding_result', status: 'success' } }),
      delta(1, { toolResult: [{ text: 'x' }] }),
      stop(1),
      delta(2, { text: 'a' }),
      stop(2),
    ],
    [
      { toolUse: { ...SERVER, input: { query: 'q' } } },
      { toolResult: { toolUseId: 's1', type: 'nova_grounding_result', status: 'success', content: [{ text: 'x' }] } },
      'text: a',
      'stop',
    ],
  ],
  [
    'an image',
    [{ image: { format: 'png', source: { bytes: 'iVBORw0KGgo=' } } }],
    [
      start(0, { image: { format: 'png' } }),
      delta(0, { image: { source: { bytes: 'iVBORw0K' } } }),
      delta(0, { image: { source: { bytes: 'Ggo=' } } }),
      stop(0),
    ],
    [{ image: { format: 'png', source: { bytes: 'iVBORw0KGgo=' } } }, 'stop'],
  ],
  [
    'an unknown block',
    [{ hologram: { x: 1 } }],
    [delta(0, { hologram: { x: 1 } }), stop(0)],
    [{ hologram: { x: 1 } }, 'stop'],
  ],
]
for (const [name, content, stream, says] of blocks)
  test(`converse answer: ${name}`, () => {
    const reason = says.at(-1) === 'tool-calls' ? 'tool_use' : 'end_turn'
    assert.deepEqual(summaryOf(bedrockConverse.decodeAnswer(whole(content, reason))), says)
    const messages = [
      event('messageStart', { role: 'assistant' }),
      ...stream,
      end(reason),
      event('metadata', { usage }),
    ]
    assert.deepEqual(summaryOf(decodedEvents(messages)), says)
    // No event precedes its block's start.
    let open = false
    for (const { type } of decodedEvents(messages)) {
      if (type === 'delta' || type === 'citation' || type === 'signature' || type === 'close') assert.ok(open, type)
      if (type === 'open' || type === 'close') open = type === 'open'
    }
  })

test('converse answer: fragments of redacted reasoning are joined', () => {
  const pieces = [btoa('one'), btoa('and two')].map((redactedContent) =>
    delta(0, { reasoningContent: { redactedContent } }),
  )
  assert.deepEqual(summaryOf(decodedEvents([...pieces, stop(0), end()])), [
    ['reasoning: ', `sealed bedrock-converse ${btoa('oneand two')}`],
    'stop',
  ])
})

// ── Ends and counts ──────────────────────────────────────────────────────────────────────────────────────────────────

const CALL = [{ toolUse: { toolUseId: 'c1', name: 'f', input: {} } }]
const ends: readonly (readonly [reason: string, content: Json, kind: string])[] = [
  ['end_turn', [{ text: 'a' }], 'stop'],
  ['end_turn', CALL, 'tool-calls'],
  ['tool_use', CALL, 'tool-calls'],
  ['tool_use', [{ text: 'a' }], 'stop'],
  ['stop_sequence', [{ text: 'a' }], 'stop'],
  ['max_tokens', CALL, 'length'],
  ['model_context_window_exceeded', [{ text: 'a' }], 'length'],
  ['guardrail_intervened', [{ text: 'No.' }], 'content-filter'],
  ['content_filtered', [], 'content-filter'],
  ['malformed_tool_use', [{ text: 'a' }], 'malformed'],
  ['malformed_model_output', [], 'malformed'],
  ['a_new_word', [{ text: 'a' }], 'stop'],
  ['constructor', [{ text: 'a' }], 'stop'],
]
for (const [reason, content, kind] of ends)
  test(`converse ends: ${reason} after ${JSON.stringify(content).slice(0, 12)}`, () => {
    const answer = fold(bedrockConverse.decodeAnswer(whole(content, reason)))
    if (kind === 'malformed') {
      assert.equal(answer.failure?.kind, 'malformed')
      assert.equal(answer.finish, undefined)
    } else assert.deepEqual(answer.finish, { kind, raw: reason })
    assert.equal(answer.usage?.input, 3)
  })

test('converse ends: the matched stop sequence, if requested', () => {
  for (const fields of [{ stop_sequence: 'END' }, { delta: { stop_sequence: 'END' } }]) {
    const more = { additionalModelResponseFields: fields }
    const finish = { kind: 'stop', raw: 'stop_sequence', stopSequence: 'END' }
    assert.deepEqual(fold(bedrockConverse.decodeAnswer(whole([{ text: 'a' }], 'stop_sequence', more))).finish, finish)
    assert.deepEqual(fold(decodedEvents([delta(0, { text: 'a' }), end('stop_sequence', more)])).finish, finish)
  }
})

const counted: readonly (readonly [Json, object | undefined])[] = [
  [usage, { input: 3, output: 5 }],
  [
    { ...usage, cacheReadInputTokens: 10, cacheWriteInputTokens: 0 },
    { input: 13, output: 5, cacheRead: 10, cacheWrite: 0 },
  ],
  [
    { ...usage, cacheReadInputTokens: 10, cacheWriteInputTokens: 7 },
    { input: 20, output: 5, cacheRead: 10, cacheWrite: 7 },
  ],
  [
    { ...usage, cacheReadInputTokenCount: 10, cacheWriteInputTokenCount: 0 },
    { input: 13, output: 5, cacheRead: 10, cacheWrite: 0 },
  ],
  [{ outputTokens: 5 }, { input: 0, output: 5, unknown: 'input' }],
  [
    { outputTokens: 5, totalTokens: 8 },
    { input: 3, output: 5 },
  ],
  [{ inputTokens: -1, outputTokens: 'x' }, undefined],
  [{}, undefined],
  [null, undefined],
]
for (const [raw, expected] of counted)
  test(`converse usage: ${JSON.stringify(raw)}`, () => {
    const { raw: kept, ...counts } = fold(bedrockConverse.decodeAnswer(whole([], 'end_turn', { usage: raw })))
      .usage ?? {
      raw: undefined,
    }
    assert.deepEqual(counts, expected ?? {})
    assert.deepEqual(kept, expected && raw)
    assert.deepEqual(
      fold(decodedEvents([end(), event('metadata', { usage: raw })])).usage,
      expected && { ...expected, raw },
    )
  })

// ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const text = delta(0, { text: 'a' })
const flipped = (bytes: Uint8Array, at: number): Uint8Array =>
  bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))

const broken: readonly (readonly [name: string, stream: readonly Uint8Array[], kind: string, says?: string])[] = [
  ['an empty stream', [], 'truncated'],
  ['no end', [text, stop(0)], 'truncated'],
  ['the end truncated', [text, stop(0), end().subarray(0, 40)], 'truncated'],
  ['usage without an end', [text, event('metadata', { usage })], 'truncated'],
  ['a damaged message', [text, flipped(delta(0, { text: 'b' }), 100), end()], 'malformed'],
  ['a damaged end', [text, flipped(end(), 60)], 'malformed'],
  [
    'invalid JSON',
    [message({ ':event-type': 'contentBlockDelta', ':message-type': 'event' }, '{"delta"')],
    'malformed',
  ],
  [
    'a list instead of an object',
    [message({ ':event-type': 'contentBlockDelta', ':message-type': 'event' }, '[]')],
    'malformed',
  ],
  ['a message without an event name', [message({ ':message-type': 'event' }, '{}'), end()], 'malformed'],
  ['a malformed delta', [event('contentBlockDelta', { contentBlockIndex: 0, delta: 'a' }), end()], 'malformed'],
  ['input without its call', [delta(0, { toolUse: { input: '{}' } }), end('tool_use')], 'malformed'],
  [
    'input of another call',
    [start(0, { toolUse: { toolUseId: 'c', name: 'f' } }), delta(1, { toolUse: { input: '{}' } })],
    'malformed',
  ],
  ['a call without a name', [start(0, { toolUse: { toolUseId: 'c' } }), end('tool_use')], 'malformed'],
  ['an end without a reason', [text, event('messageStop', {})], 'malformed'],
  ['content after the end', [text, end(), delta(1, { text: 'b' })], 'malformed'],
  ['two ends', [text, end(), end()], 'malformed'],
  [
    'throttled',
    [text, exception('throttlingException', { message: 'Too many tokens, please wait.' })],
    'rate_limited',
    'Too many tokens, please wait.',
  ],
  [
    'the model failed',
    [exception('modelStreamErrorException', { message: 'x', originalStatusCode: 500 })],
    'error_in_stream',
    'x',
  ],
  ['the service failed', [exception('internalServerException', { message: 'x' })], 'error_in_stream', 'x'],
  ['the service is unavailable', [exception('serviceUnavailableException', { message: 'x' })], 'overloaded', 'x'],
  ['the model timed out', [exception('modelTimeoutException', { message: 'x' })], 'timeout', 'x'],
  ['an invalid request', [exception('validationException', { message: 'x' })], 'incompatible', 'x'],
  ['an exception without a message', [exception('somethingNewException', {})], 'error_in_stream'],
  ['an exception as an event', [event('throttlingException', { message: 'x' })], 'rate_limited', 'x'],
  [
    'an error message instead of an exception',
    [message({ ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'broken' }, '')],
    'error_in_stream',
    'broken',
  ],
  ['a message above the size limit', [delta(0, { text: 'x'.repeat(1_100_000) })], 'too_large'],
]
for (const [name, stream, kind, says] of broken)
  test(`converse stream: ${name}`, () => {
    // Nothing follows a failure.
    const events = decodedEvents([...stream, ...(kind === 'truncated' ? [] : [text])])
    const failures = events.filter(({ type }) => type === 'failure')
    assert.equal(failures.length, 1)
    const last = events.at(-1)
    assert.ok(last?.type === 'failure')
    assert.equal(last.failure.kind, kind)
    if (says !== undefined) assert.equal(last.failure.message, says)
  })

test('converse stream: pings and unknown events have no content', () => {
  const events = decodedEvents([
    message({ ':event-type': 'initial-response', ':message-type': 'event' }, ''),
    event('news', { a: 1 }),
  ])
  assert.deepEqual(
    events.map(({ type }) => type),
    ['ping', 'start', 'ping', 'failure'],
  )
})

const odd: readonly (readonly [name: string, body: Json, kind: string])[] = [
  ['no object', [], 'malformed'],
  ['null', null, 'malformed'],
  ['no answer', {}, 'malformed'],
  ['an error in a 200', { message: 'Too many requests', __type: 'ThrottlingException' }, 'rate_limited'],
  [
    'an error in a 200 with another spelling',
    { Message: 'x', __type: 'com.amazon.coral.service#AccessDeniedException' },
    'permission',
  ],
  ['malformed content', { output: { message: { content: 'a' } }, stopReason: 'end_turn' }, 'malformed'],
  ['a malformed block', whole(['a']), 'malformed'],
  ['no reason', { output: { message: { content: [{ text: 'a' }] } } }, 'truncated'],
  ['arguments too deep', whole([{ toolUse: { toolUseId: 'c', name: 'f', input: deep(100) } }]), 'malformed'],
  ['a block too deep', whole([{ toolResult: { content: [{ json: deep(100) }] } }]), 'malformed'],
]
function deep(levels: number): Json {
  let value: Json = 1
  for (let level = 0; level < levels; level++) value = { a: value }
  return value
}
for (const [name, body, kind] of odd)
  test(`converse answer: ${name}`, () => {
    const events = bedrockConverse.decodeAnswer(body)
    assert.equal(fold(events).failure?.kind, kind)
    assert.equal(events.filter(({ type }) => type === 'failure').length, 1)
    assert.equal(events.at(-1)?.type, 'failure')
  })

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const errors: readonly (readonly [status: number, type: string | undefined, body: Json | undefined, kind: string])[] = [
  [403, 'UnrecognizedClientException:http://internal.amazon.com/coral/', { message: 'x' }, 'auth'],
  [403, 'ExpiredTokenException', { message: 'x' }, 'auth'],
  [403, 'AccessDeniedException', { Message: 'x' }, 'permission'],
  [403, undefined, { message: 'x' }, 'permission'],
  [403, undefined, undefined, 'not_json'],
  [404, 'ResourceNotFoundException', { message: 'The requested resource could not be found.' }, 'not_there'],
  [408, 'ModelTimeoutException', { message: 'x' }, 'timeout'],
  [424, 'ModelErrorException', { message: 'x' }, 'overloaded'],
  [429, 'ThrottlingException', { message: 'x' }, 'rate_limited'],
  [429, 'ModelNotReadyException', { message: 'x' }, 'overloaded'],
  [429, undefined, undefined, 'rate_limited'],
  [400, 'ValidationException', { message: 'x' }, 'incompatible'],
  [400, 'ValidationException', { message: 'prompt is too long: 300000 tokens > 200000 maximum' }, 'context_length'],
  [400, undefined, { __type: 'ThrottlingException', message: 'x' }, 'rate_limited'],
  [500, 'InternalServerException', { message: 'x' }, 'status'],
  [503, 'ServiceUnavailableException', { message: 'x' }, 'overloaded'],
  [502, undefined, undefined, 'status'],
  [500, undefined, 'a text', 'status'],
]
for (const [status, type, body, kind] of errors)
  test(`converse errors: ${status} ${type} ${JSON.stringify(body)}`, () => {
    const headers = (name: string) =>
      name === 'x-amzn-errortype' ? type : name === 'x-amzn-requestid' ? 'r-1' : undefined
    const failure = bedrockConverse.decodeFailure(status, body, headers)
    assert.equal(failure.kind, kind)
    if (kind !== 'not_json') assert.equal(failure.upstream?.requestId, 'r-1')
  })
