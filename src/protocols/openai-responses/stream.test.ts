import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { answerContext } from '../../../test/support/builders.ts'
import { type ChatEvent, fold, isContent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { type Json, type JsonObject, object } from '../../core/json.ts'
import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { chain, run } from '../../core/stage.ts'
import { sseFrames, writeFrame } from '../framing/sse.ts'
import { openaiResponses as codec } from './index.ts'

const context = (body: JsonObject = {}): AnswerContext => {
  const made = new Map<string, number>()
  const id = (prefix: string) => {
    made.set(prefix, (made.get(prefix) ?? 0) + 1)
    return `${prefix}_${'abcdefghij'.charAt((made.get(prefix) ?? 1) - 1)}`
  }
  return answerContext({ body, id, created: 1_000, model: 'answering', requestId: 'req_abc' })
}
const wireOf = (events: readonly JsonObject[]): string =>
  events
    .map((event, index) => writeFrame(String(event.type), JSON.stringify({ sequence_number: index, ...event })))
    .join('')
const framesOf = (wire: string): Frame[] => run(sseFrames(), [wire])
const bodiesOf = (wire: string): JsonObject[] =>
  framesOf(wire).flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [JSON.parse(data)]))

// ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const created = {
  type: 'response.created',
  response: { id: 'resp_1', model: 'gpt', created_at: 5, status: 'in_progress', output: [] },
}
const usage = {
  input_tokens: 3,
  output_tokens: 2,
  input_tokens_details: { cached_tokens: 1 },
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 5,
}
const completed = (...output: JsonObject[]) => ({
  type: 'response.completed',
  response: { id: 'resp_1', status: 'completed', output, usage },
})
const added = (index: number, item: JsonObject) => ({ type: 'response.output_item.added', output_index: index, item })
const done = (index: number, item: JsonObject) => ({ type: 'response.output_item.done', output_index: index, item })
const on = (index: number, type: string, more: JsonObject) => ({
  type: `response.${type}`,
  output_index: index,
  item_id: 'whatever',
  ...more,
})
const message = (...texts: string[]) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: texts.map((text) => ({ type: 'output_text', text, annotations: [] })),
})
const call = (id: string, words: string) => ({
  type: 'function_call',
  id: `fc_${id}`,
  call_id: `call_${id}`,
  name: 'f',
  arguments: words,
})

const start: ChatEvent = { type: 'start', id: 'resp_1', model: 'gpt', created: 5 }
const counted: ChatEvent = { type: 'usage', usage: { input: 3, output: 2, cacheRead: 1, reasoning: 0, raw: usage } }
const stop: ChatEvent = { type: 'finish', finish: { kind: 'stop', raw: 'completed' } }
const calls: ChatEvent = { type: 'finish', finish: { kind: 'tool-calls', raw: 'completed' } }
const text = (...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'text' } },
  ...words.map((word): ChatEvent => ({ type: 'delta', text: word })),
  { type: 'close' },
]
const toolCall = (id: string, ...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'tool-call', id: `call_${id}`, name: 'f' } },
  ...words.map((word): ChatEvent => ({ type: 'delta', text: word })),
  { type: 'close' },
]
const url = { type: 'url_citation', url: 'https://a.example', title: 't', start_index: 0, end_index: 2 }

const streams: readonly (readonly [string, readonly JsonObject[], readonly ChatEvent[]])[] = [
  [
    'text in the documented order',
    [
      created,
      { ...created, type: 'response.in_progress' },
      added(0, message()),
      on(0, 'content_part.added', { content_index: 0, part: { type: 'output_text', text: '' } }),
      on(0, 'output_text.delta', { content_index: 0, delta: 'He', logprobs: [] }),
      on(0, 'output_text.delta', { content_index: 0, delta: 'llo', logprobs: [{ token: 'llo', logprob: -1 }] }),
      on(0, 'output_text.done', { content_index: 0, text: 'Hello' }),
      on(0, 'content_part.done', {
        content_index: 0,
        part: { type: 'output_text', text: 'Hello', annotations: [url] },
      }),
      done(0, message('Hello')),
      completed(message('Hello')),
    ],
    [
      start,
      { type: 'ping' },
      { type: 'open', block: { type: 'text' } },
      { type: 'delta', text: 'He' },
      { type: 'delta', text: 'llo', logprobs: [{ token: 'llo', logprob: -1 }] },
      { type: 'citation', citation: { url: 'https://a.example', title: 't', start: 0, end: 2, raw: url } },
      { type: 'close' },
      counted,
      stop,
    ],
  ],
  [
    'only a terminal event',
    [completed(message('Hello'))],
    [{ type: 'start', id: 'resp_1' }, ...text('Hello'), counted, stop],
  ],
  [
    'deltas without added and done events',
    [created, on(0, 'output_text.delta', { content_index: 0, delta: 'Hi' }), completed()],
    [start, ...text('Hi'), counted, stop],
  ],
  [
    'text without deltas',
    [
      created,
      added(0, message()),
      on(0, 'output_text.done', { content_index: 0, text: 'Hi' }),
      done(0, message('Hi')),
      completed(),
    ],
    [start, ...text('Hi'), counted, stop],
  ],
  [
    'events at another content index than the finished item',
    [
      created,
      added(0, message()),
      on(0, 'content_part.added', { content_index: 1, part: { type: 'output_text', text: '' } }),
      on(0, 'output_text.delta', { content_index: 1, delta: 'Hi' }),
      on(0, 'output_text.done', { content_index: 1, text: 'Hi' }),
      on(0, 'content_part.done', { content_index: 1, part: { type: 'output_text', text: 'Hi', annotations: [] } }),
      done(0, message('Hi')),
      completed(message('Hi')),
    ],
    [start, ...text('Hi'), counted, stop],
  ],
  [
    'deltas at another content index than the finished item, one of them lost',
    [
      created,
      on(0, 'output_text.delta', { content_index: 1, delta: 'He' }),
      done(0, message('Hello', 'you')),
      completed(),
    ],
    [start, ...text('He', 'llo'), ...text('you'), counted, stop],
  ],
  [
    'two equal texts, the second only in the finished item',
    [created, on(0, 'output_text.delta', { content_index: 0, delta: 'Hi' }), done(0, message('Hi', 'Hi')), completed()],
    [start, ...text('Hi'), ...text('Hi'), counted, stop],
  ],
  [
    'a last delta that was lost',
    [created, on(0, 'output_text.delta', { content_index: 0, delta: 'He' }), done(0, message('Hello')), completed()],
    [start, ...text('He', 'llo'), counted, stop],
  ],
  [
    'a message of two parts',
    [created, done(0, message('a', 'b')), completed(message('a', 'b'))],
    [start, ...text('a'), ...text('b'), counted, stop],
  ],
  [
    'a refusal',
    [
      created,
      on(0, 'refusal.delta', { content_index: 0, delta: 'No' }),
      on(0, 'refusal.done', { content_index: 0, refusal: 'No.' }),
      done(0, { type: 'message', content: [{ type: 'refusal', refusal: 'No.' }] }),
      completed(),
    ],
    [
      start,
      { type: 'open', block: { type: 'refusal' } },
      { type: 'delta', text: 'No' },
      { type: 'delta', text: '.' },
      { type: 'close' },
      counted,
      { type: 'finish', finish: { kind: 'refusal', raw: 'completed' } },
    ],
  ],
  [
    'two calls, arguments in pieces and whole',
    [
      created,
      added(0, call('a', '')),
      on(0, 'function_call_arguments.delta', { delta: '{"x"' }),
      on(0, 'function_call_arguments.delta', { delta: ':1}' }),
      on(0, 'function_call_arguments.done', { arguments: '{"x":1}' }),
      done(0, call('a', '{"x":1}')),
      added(1, call('b', '')),
      on(1, 'function_call_arguments.done', { arguments: '{}' }),
      done(1, call('b', '{}')),
      completed(call('a', '{"x":1}'), call('b', '{}')),
    ],
    [start, ...toolCall('a', '{"x"', ':1}'), ...toolCall('b', '{}'), counted, calls],
  ],
  [
    'arguments in the item only',
    [created, added(0, call('a', '')), done(0, call('a', '{"x":1}')), completed()],
    [start, ...toolCall('a', '{"x":1}'), counted, calls],
  ],
  [
    'arguments with other spelling at the end are not repeated',
    [
      created,
      added(0, call('a', '')),
      on(0, 'function_call_arguments.delta', { delta: '{"x":1}' }),
      done(0, call('a', '{ "x": 1 }')),
      completed(),
    ],
    [start, ...toolCall('a', '{"x":1}'), counted, calls],
  ],
  [
    'a call whose name arrives late',
    [
      created,
      added(0, { type: 'function_call', id: 'fc_a' }),
      on(0, 'function_call_arguments.delta', { delta: '{}' }),
      done(0, call('a', '{}')),
      completed(),
    ],
    [start, ...toolCall('a', '{}'), counted, calls],
  ],
  [
    'changing ids: items are matched by index',
    [
      created,
      added(0, { ...message(), id: 'msg_x' }),
      on(0, 'output_text.delta', { item_id: 'msg_y', content_index: 0, delta: 'Hi' }),
      done(0, { ...message('Hi'), id: 'msg_z' }),
      completed({ ...message('Hi'), id: 'msg_w' }),
    ],
    [start, ...text('Hi'), counted, stop],
  ],
  [
    'interleaved items are read one after another',
    [
      created,
      added(0, call('a', '')),
      added(1, call('b', '')),
      on(1, 'function_call_arguments.delta', { delta: '2' }),
      on(0, 'function_call_arguments.delta', { delta: '1' }),
      done(1, call('b', '2')),
      done(0, call('a', '1')),
      completed(),
    ],
    [start, ...toolCall('a', '1'), ...toolCall('b', '2'), counted, calls],
  ],
  [
    'items without an end event are ended',
    [
      created,
      added(0, call('a', '')),
      on(0, 'function_call_arguments.delta', { delta: '1' }),
      added(1, call('b', '')),
      on(1, 'function_call_arguments.delta', { delta: '2' }),
      completed(),
    ],
    [start, ...toolCall('a', '1'), ...toolCall('b', '2'), counted, calls],
  ],
  [
    'a free-form call',
    [
      created,
      added(0, { type: 'custom_tool_call', call_id: 'call_a', name: 'f', input: '' }),
      on(0, 'custom_tool_call_input.delta', { delta: 'x' }),
      done(0, { type: 'custom_tool_call', call_id: 'call_a', name: 'f', input: 'xy' }),
      completed(),
    ],
    [
      start,
      { type: 'open', block: { type: 'tool-call', id: 'call_a', name: 'f', custom: true } },
      { type: 'delta', text: 'x' },
      { type: 'delta', text: 'y' },
      { type: 'close' },
      counted,
      calls,
    ],
  ],
  [
    'reasoning: summaries are paragraphs, the last signature is valid',
    [
      created,
      added(0, { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'FIRST' }),
      on(0, 'reasoning_summary_part.added', { summary_index: 0, part: { type: 'summary_text', text: '' } }),
      on(0, 'reasoning_summary_text.delta', { summary_index: 0, delta: 'one' }),
      on(0, 'reasoning_summary_text.done', { summary_index: 0, text: 'one' }),
      on(0, 'reasoning_summary_text.delta', { summary_index: 1, delta: 'tw' }),
      on(0, 'reasoning_summary_text.done', { summary_index: 1, text: 'two' }),
      done(0, {
        type: 'reasoning',
        id: 'rs_1',
        summary: [
          { type: 'summary_text', text: 'one' },
          { type: 'summary_text', text: 'two' },
          { type: 'summary_text', text: 'three' },
        ],
        encrypted_content: 'LAST',
      }),
      done(1, message('Hi')),
      completed(),
    ],
    [
      start,
      { type: 'open', block: { type: 'reasoning', summary: true } },
      { type: 'delta', text: 'one' },
      { type: 'delta', text: '\n\ntw' },
      { type: 'delta', text: 'o' },
      { type: 'delta', text: '\n\nthree' },
      { type: 'signature', signature: { origin: 'openai-responses', value: 'LAST', id: 'rs_1' } },
      { type: 'close' },
      ...text('Hi'),
      counted,
      stop,
    ],
  ],
  [
    'reasoning without content',
    [created, done(0, { type: 'reasoning', id: 'rs_1', summary: [] }), done(1, message('Hi')), completed()],
    [start, ...text('Hi'), counted, stop],
  ],
  [
    'reasoning text, by either event name',
    [
      created,
      on(0, 'content_part.added', { content_index: 0, part: { type: 'reasoning_text', text: '' } }),
      on(0, 'reasoning_text.delta', { content_index: 0, delta: 'a' }),
      on(0, 'reasoning.delta', { content_index: 0, delta: 'b' }),
      on(0, 'reasoning_text.done', { content_index: 0, text: 'abc' }),
      done(0, { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'abc' }] }),
      completed(),
    ],
    [
      start,
      { type: 'open', block: { type: 'reasoning' } },
      { type: 'delta', text: 'a' },
      { type: 'delta', text: 'b' },
      { type: 'delta', text: 'c' },
      { type: 'close' },
      counted,
      stop,
    ],
  ],
  [
    "a hosted tool's item is kept unchanged",
    [
      created,
      added(0, { type: 'web_search_call', id: 'ws_1', status: 'in_progress' }),
      on(0, 'web_search_call.searching', {}),
      done(0, { type: 'web_search_call', id: 'ws_1', status: 'completed' }),
      completed(),
    ],
    [
      start,
      {
        type: 'open',
        block: {
          type: 'foreign',
          protocol: 'openai-responses',
          raw: { type: 'web_search_call', id: 'ws_1', status: 'completed' },
        },
      },
      { type: 'close' },
      counted,
      stop,
    ],
  ],
  [
    'stopped by the output limit',
    [
      created,
      {
        type: 'response.incomplete',
        response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, output: [message('H')] },
      },
    ],
    [start, ...text('H'), { type: 'finish', finish: { kind: 'length', raw: 'max_output_tokens' } }],
  ],
  [
    'stopped by a content filter',
    [
      created,
      {
        type: 'response.incomplete',
        response: { status: 'incomplete', incomplete_details: { reason: 'content_filter' }, output: [] },
      },
    ],
    [start, { type: 'finish', finish: { kind: 'content-filter', raw: 'content_filter' } }],
  ],
]

for (const [name, events, expected] of streams)
  test(`responses stream: ${name}`, () => {
    const wire = wireOf(events)
    const reader = () => chain(sseFrames(), codec.decodeStream())
    assert.deepEqual(run(reader(), [wire]), expected)
    assert.deepEqual(run(reader(), wire), expected, 'one character at a time')
    for (let cut = 0; cut <= wire.length; cut += 7)
      assert.deepEqual(run(reader(), [wire.slice(0, cut), wire.slice(cut)]), expected, `cut at ${cut}`)
    assert.deepEqual(run(reader(), [wire.replaceAll(/event: .*\n/g, '')]), expected, 'without names')
    assert.deepEqual(run(reader(), [`${wire}data: [DONE]\n\n`]), expected, 'with an end mark')
  })

const ends: readonly (readonly [string, string, string])[] = [
  ['no end', wireOf([created, on(0, 'output_text.delta', { delta: 'Hi' })]), 'truncated'],
  ['nothing at all', '', 'truncated'],
  ['only an end mark', 'data: [DONE]\n\n', 'truncated'],
  ['half an event', wireOf([created]).slice(0, -20), 'truncated'],
  ['broken JSON', 'data: {"type":\n\n', 'malformed'],
  ['JSON that is not an object', 'data: 5\n\n', 'malformed'],
  [
    'a call that has no name',
    wireOf([created, done(0, { type: 'function_call', call_id: 'c', arguments: '{}' })]),
    'malformed',
  ],
  ['an end without a response', wireOf([created, { type: 'response.completed' }]), 'malformed'],
  [
    'still in progress at its end',
    wireOf([{ type: 'response.completed', response: { status: 'in_progress' } }]),
    'malformed',
  ],
  [
    'a nested error',
    wireOf([created, { type: 'error', error: { type: 'tokens', code: 'rate_limit_exceeded', message: 'slow' } }]),
    'rate_limited',
  ],
  ['a flat error', wireOf([created, { type: 'error', code: 'insufficient_quota', message: 'pay' }]), 'quota'],
  ['an error without a type', 'data: {"error":{"message":"x","code":"server_error"}}\n\n', 'error_in_stream'],
  [
    'a failed response',
    wireOf([
      created,
      {
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'server_error', message: 'x' }, output: [message('Hi')] },
      },
    ]),
    'error_in_stream',
  ],
  [
    'a cancelled response',
    wireOf([created, { type: 'response.cancelled', response: { status: 'cancelled', output: [] } }]),
    'error_in_stream',
  ],
]
for (const [name, wire, kind] of ends)
  test(`responses stream: ${name} is a failure`, () => {
    const events = run(chain(sseFrames(), codec.decodeStream()), [wire])
    const failures = events.flatMap((event) => (event.type === 'failure' ? [event.failure.kind] : []))
    assert.deepEqual(failures, [kind])
    assert.equal(events.at(-1)?.type, 'failure')
    assert.ok(!events.some(({ type }) => type === 'finish'))
    // A failed response does not commit to its content.
    if (name === 'a failed response') assert.ok(!events.some(isContent))
  })

test('responses stream: an event above the size limit is a failure', () => {
  const events = run(codec.decodeStream(), [{ data: '', oversized: true }])
  assert.deepEqual(
    events.map((event) => event.type === 'failure' && event.failure.kind),
    ['too_large'],
  )
})

test('responses stream: items without an end are bounded in memory', () => {
  const reader = codec.decodeStream()
  const events = Array.from({ length: 200 }, (_, index) => added(index, call(String(index), ''))).flatMap((event) =>
    reader.push({ data: JSON.stringify(event) }),
  )
  const last = events.at(-1)
  assert.equal(last?.type === 'failure' && last.failure.kind, 'malformed')
})

const answers: readonly (readonly [string, Json, string])[] = [
  ['an error body', { error: { message: 'x', code: 'rate_limit_exceeded' } }, 'rate_limited'],
  [
    'a failed response',
    { status: 'failed', output: [], error: { code: 'server_error', message: 'x' } },
    'error_in_stream',
  ],
  ['a chat completion', { choices: [] }, 'malformed'],
  ['not an object', [], 'malformed'],
  ['queued without a background request', { status: 'queued', output: [] }, 'malformed'],
]
for (const [name, body, kind] of answers)
  test(`responses answer: ${name} is a failure`, () => assert.equal(fold(codec.decodeAnswer(body)).failure?.kind, kind))

test('responses answer: a background response in progress is a pause', () => {
  const { finish, failure } = fold(codec.decodeAnswer({ status: 'queued', background: true, output: [] }))
  assert.deepEqual([finish, failure], [{ kind: 'pause', raw: 'queued' }, undefined])
})

// ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const whole: readonly ChatEvent[] = [
  { type: 'start', id: 'chatcmpl-1', model: 'gpt', created: 2_000 },
  { type: 'open', block: { type: 'reasoning' } },
  { type: 'delta', text: 'hm' },
  { type: 'signature', signature: { origin: 'anthropic-messages', value: 'SIG' } },
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  { type: 'delta', text: 'He' },
  { type: 'delta', text: 'llo' },
  { type: 'citation', citation: { url: 'https://a.example' } },
  { type: 'close' },
  { type: 'open', block: { type: 'tool-call', id: 'call_1', name: 'f' } },
  { type: 'close' },
  { type: 'open', block: { type: 'tool-call', id: 'call_2', name: 'g' } },
  { type: 'delta', text: '{"a":1}' },
  { type: 'close' },
  { type: 'usage', usage: { input: 5, output: 7, reasoning: 2 } },
  { type: 'finish', finish: { kind: 'tool-calls', raw: 'tool_calls' } },
]
const write = (writer: StreamWriter, events: readonly ChatEvent[]): string =>
  run(
    writer,
    events.map((event): StreamStep => ({ events: [event] })),
  ).join('')

test('responses writer: events in the documented order', () => {
  const wire = write(codec.encodeStream(context()), whole)
  const bodies = bodiesOf(wire)
  assert.deepEqual(
    bodies.map(({ type, output_index }) => (output_index === undefined ? type : `${output_index} ${type}`)),
    [
      'response.created',
      'response.in_progress',
      '0 response.output_item.added',
      '0 response.content_part.added',
      '0 response.reasoning_text.delta',
      '0 response.reasoning_text.done',
      '0 response.content_part.done',
      '0 response.output_item.done',
      '1 response.output_item.added',
      '1 response.content_part.added',
      '1 response.output_text.delta',
      '1 response.output_text.delta',
      '1 response.output_text.annotation.added',
      '1 response.output_text.done',
      '1 response.content_part.done',
      '1 response.output_item.done',
      '2 response.output_item.added',
      '2 response.function_call_arguments.done',
      '2 response.output_item.done',
      '3 response.output_item.added',
      '3 response.function_call_arguments.delta',
      '3 response.function_call_arguments.done',
      '3 response.output_item.done',
      'response.completed',
    ],
  )
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.ok(wire.endsWith('\n\ndata: [DONE]\n\n'))
  assert.ok(!/^id:/m.test(wire))
  const response = bodies.at(-1)?.response as JsonObject
  assert.deepEqual(response.output, [
    {
      type: 'reasoning',
      id: 'rs_hg_a',
      status: 'completed',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'hm' }],
      encrypted_content: 'hg1:anthropic-messages:::SIG',
    },
    {
      type: 'message',
      id: 'msg_a',
      status: 'completed',
      role: 'assistant',
      content: [
        {
          type: 'output_text',
          text: 'Hello',
          annotations: [{ type: 'url_citation', url: 'https://a.example', title: '', start_index: 0, end_index: 5 }],
          logprobs: [],
        },
      ],
    },
    { type: 'function_call', id: 'fc_a', status: 'completed', call_id: 'call_1', name: 'f', arguments: '{}' },
    { type: 'function_call', id: 'fc_b', status: 'completed', call_id: 'call_2', name: 'g', arguments: '{"a":1}' },
  ])
  assert.deepEqual(codec.encodeAnswer(fold(whole), context()), response, 'a whole answer is what its stream ends with')
  assert.deepEqual(
    [response.model, response.created_at, response.completed_at, response.store],
    ['gpt', 2_000, 2_000, false],
  )
})

test('responses writer: an answer that a client sends back is decoded unchanged', () => {
  const { output } = codec.encodeAnswer(fold(whole), context())
  const decoded = codec.decodeRequest({ model: 'm', input: output as Json })
  assert.ok(decoded.ok)
  const parts = decoded.value.messages.flatMap(({ content }) => content)
  assert.deepEqual(parts[0], {
    type: 'reasoning',
    at: 'input[0]',
    text: 'hm',
    signature: { origin: 'anthropic-messages', value: 'SIG' },
  })
  assert.deepEqual(
    parts.slice(1).map((part) => (part.type === 'tool-call' ? part.id : part.type)),
    ['text', 'call_1', 'call_2'],
  )
})

test('responses writer: the request settings are repeated', () => {
  const body = {
    instructions: 'be brief',
    tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }],
    text: { format: { type: 'json_schema', name: 'n', schema: {} }, verbosity: 'low' },
    reasoning: { effort: 'low' },
    metadata: { a: 'b' },
    temperature: 0,
    store: true,
    max_output_tokens: 50,
    parallel_tool_calls: null,
    tool_choice: null,
  }
  const {
    tools,
    text,
    reasoning,
    metadata,
    temperature,
    store,
    max_output_tokens,
    parallel_tool_calls,
    tool_choice,
    instructions,
  } = codec.encodeAnswer(fold([stop]), context(body))
  assert.deepEqual(
    {
      tools,
      text,
      reasoning,
      metadata,
      temperature,
      store,
      max_output_tokens,
      parallel_tool_calls,
      tool_choice,
      instructions,
    },
    {
      instructions: 'be brief',
      tools: [
        { type: 'function', name: 'f', description: null, parameters: null, strict: true },
        { type: 'web_search' },
      ],
      text: {
        format: { type: 'json_schema', name: 'n', schema: {}, description: null, strict: true },
        verbosity: 'low',
      },
      reasoning: { effort: 'low', summary: null },
      metadata: { a: 'b' },
      temperature: 0,
      store: true,
      max_output_tokens: 50,
      parallel_tool_calls: true,
      tool_choice: 'auto',
    },
  )
})

const finishes: readonly (readonly [string, readonly ChatEvent[], unknown])[] = [
  [
    'length',
    [...text('a'), { type: 'finish', finish: { kind: 'length', raw: 'length' } }],
    ['incomplete', 'max_output_tokens', 'incomplete'],
  ],
  [
    'content filter',
    [...text('a'), { type: 'finish', finish: { kind: 'content-filter', raw: null } }],
    ['incomplete', 'content_filter', 'incomplete'],
  ],
  [
    'a refusal with text',
    [
      { type: 'open', block: { type: 'refusal' } },
      { type: 'delta', text: 'no' },
      { type: 'close' },
      { type: 'finish', finish: { kind: 'refusal', raw: null } },
    ],
    ['completed', undefined, 'completed'],
  ],
  [
    'a refusal without text',
    [{ type: 'finish', finish: { kind: 'refusal', raw: 'refusal' } }],
    ['completed', undefined, 'completed'],
  ],
  [
    'a malformed call',
    [...toolCall('a', '{'), { type: 'finish', finish: { kind: 'malformed', raw: 'MALFORMED' } }],
    ['failed', undefined, 'incomplete'],
  ],
  ['no end', text('a'), ['failed', undefined, 'incomplete']],
]
for (const [name, events, expected] of finishes)
  test(`responses writer: ${name}`, () => {
    const { status, incomplete_details, output } = codec.encodeAnswer(fold(events), context())
    const last = (output as readonly JsonObject[]).at(-1)
    assert.deepEqual([status, object(incomplete_details)?.reason, last?.status], expected)
  })

const failure: ChatEvent = { type: 'failure', failure: fail('reset', 'The connection broke.') }

test('responses writer: a failure during the stream', () => {
  const wire = write(codec.encodeStream(context()), [start, ...text('a').slice(0, 2), failure, ...text('b'), stop])
  const bodies = bodiesOf(wire)
  const [error, failed] = bodies.slice(-2)
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.deepEqual(error, {
    type: 'error',
    sequence_number: bodies.length - 2,
    error: {
      type: 'upstream_error',
      code: 'stream_interrupted',
      message: 'The connection broke.',
      param: null,
      request_id: 'req_abc',
    },
  })
  const response = failed?.response as JsonObject
  assert.equal(failed?.type, 'response.failed')
  assert.deepEqual(
    [response.id, response.status, response.error],
    ['resp_1', 'failed', { code: 'server_error', message: 'The connection broke.' }],
  )
  assert.ok(wire.endsWith('data: [DONE]\n\n'))
})

test('responses writer: a failure before any event has a response and its own code', () => {
  const types = bodiesOf(write(codec.encodeStream(context()), [failure]))
  assert.deepEqual(
    types.map(({ type }) => type),
    ['response.created', 'response.in_progress', 'error', 'response.failed'],
  )
  assert.equal(object(types[2]?.error)?.code, 'reset')
})

test('responses writer: keep-alives', () => {
  const writer = codec.encodeStream(context())
  assert.equal(writer.keepAlive(), ': ping\n')
  const first = writer.push({ events: [start] }).join('')
  const alive = writer.keepAlive()
  const rest = [...writer.push({ events: [...text('a'), stop] }), ...writer.end()].join('')
  assert.equal(writer.keepAlive(), '')
  const bodies = bodiesOf(first + alive + rest)
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.equal(bodies[2]?.type, 'response.in_progress')
  assert.equal(object(bodies[2]?.response)?.id, 'resp_1')
})

test('responses writer: usage after the finish is in the last event', () => {
  const usage: ChatEvent = { type: 'usage', usage: { input: 3, output: 2 } }
  const bodies = bodiesOf(write(codec.encodeStream(context()), [start, ...text('a'), stop, usage]))
  assert.equal(bodies.at(-1)?.type, 'response.completed')
  assert.equal(object(object(bodies.at(-1)?.response)?.usage)?.total_tokens, 5)
})

test('responses writer: a ping does not begin the response', () =>
  assert.deepEqual(codec.encodeStream(context()).push({ events: [{ type: 'ping' }] }), []))

// ── Passing on ───────────────────────────────────────────────────────────────────────────────────────────────────────

const stepsOf = (wire: string): StreamStep[] => {
  const reader = codec.decodeStream()
  const steps: StreamStep[] = framesOf(wire).map((frame) => ({ frame, events: reader.push(frame) }))
  const rest = reader.end()
  return rest.length > 0 ? [...steps, { events: rest }] : steps
}
const passed = (wire: string): string => run(codec.passing.passStream(context()), stepsOf(wire)).join('')

const hello = [
  created,
  added(0, message()),
  on(0, 'output_text.delta', { content_index: 0, delta: 'Hi' }),
  done(0, message('Hi')),
  completed(message('Hi')),
]
const END = 'data: [DONE]\n\n'
const passes: readonly (readonly [string, string, string])[] = [
  ['byte for byte', wireOf(hello), wireOf(hello) + END],
  ['one end marker', wireOf(hello) + END, wireOf(hello) + END],
  ['nothing after the end', `${wireOf(hello)}data: {"type":"x"}\n\n${END}`, wireOf(hello) + END],
  [
    'comments and line ends',
    `: hi\n\n${wireOf(hello).replaceAll('\n', '\r\n')}`,
    `: hi\n\n${wireOf(hello).replaceAll('\n', '\r\n')}${END}`,
  ],
  ['no ids', wireOf(hello).replaceAll('data:', 'id: 7\ndata:'), wireOf(hello) + END],
  ['missing event names are added', wireOf(hello).replaceAll(/event: .*\n/g, ''), wireOf(hello) + END],
]
for (const [name, wire, expected] of passes)
  test(`responses passes: ${name}`, () => assert.equal(passed(wire), expected))

/** The same events with the numbers of `numbersOf`; undefined: no number. */
const renumbered = (numbersOf: (place: number) => number | undefined): string =>
  hello
    .map((event, place) => {
      const number = numbersOf(place)
      return writeFrame(
        event.type,
        JSON.stringify({ ...(number !== undefined && { sequence_number: number }), ...event }),
      )
    })
    .join('')
const misnumbered: readonly (readonly [string, string])[] = [
  ['without numbers', renumbered(() => undefined)],
  ['with a gap', renumbered((place) => (place < 2 ? place : place + 3))],
  ['from 1', renumbered((place) => place + 1)],
  ['with the same number twice', renumbered((place) => Math.max(0, place - 1))],
  ['with numbers on some events', renumbered((place) => (place === 2 ? undefined : place))],
  ['all with 0', renumbered(() => 0)],
]
for (const [name, wire] of misnumbered)
  test(`responses passes: events ${name} are numbered without a gap from 0`, () =>
    assert.equal(passed(wire), wireOf(hello) + END))

test('responses passes: a number is replaced without changing another byte', () => {
  const event = (number: string) =>
    `event: response.x\ndata: { "big":12345678901234567890, "item":{"sequence_number":7} ${number}}\n\n`
  const wire = (number: string, last: number) =>
    `${wireOf(hello.slice(0, 1))}${event(number)}${wireOf(hello.slice(-1)).replace('"sequence_number":0', `"sequence_number":${last}`)}`
  assert.equal(passed(wire(', "sequence_number" : 5', 9)), wire(', "sequence_number" : 1', 2) + END)
  const [, added] = framesOf(passed(wire('', 9)))
  assert.equal(JSON.parse(added?.data ?? '').sequence_number, 1)
  assert.match(added?.data ?? '', /"big":12345678901234567890/)
})

test('responses passes: an empty event is numbered too', () => {
  const [, event] = framesOf(passed(`${wireOf(hello.slice(0, 1))}event: response.x\ndata: { }\n\n`))
  assert.deepEqual(JSON.parse(event?.data ?? ''), { sequence_number: 1 })
})

test('responses passes: an event of several lines is numbered as one event', () => {
  const wire = `${wireOf(hello.slice(0, 1))}event: response.x\ndata: {"type":"response.x",\ndata: "a":1}\n\n`
  const [, event] = framesOf(passed(wire))
  assert.deepEqual(JSON.parse(event?.data ?? ''), { sequence_number: 1, type: 'response.x', a: 1 })
})

test('responses passes: an upstream error is rewritten, with the response id and the next numbers', () => {
  const wire = passed(
    wireOf([
      ...hello.slice(0, 3),
      { type: 'error', error: { code: 'server_error', message: 'x' } },
      { type: 'response.failed', response: { id: 'resp_1' } },
    ]),
  )
  const bodies = bodiesOf(wire)
  assert.ok(wire.startsWith(wireOf(hello.slice(0, 3))))
  assert.deepEqual(
    bodies.slice(3).map(({ type, sequence_number }) => [type, sequence_number]),
    [
      ['error', 3],
      ['response.failed', 4],
    ],
  )
  assert.equal(object(bodies[3]?.error)?.code, 'stream_interrupted')
  assert.deepEqual([object(bodies[4]?.response)?.id, object(bodies[4]?.response)?.status], ['resp_1', 'failed'])
  assert.ok(wire.endsWith(END))
})

test('responses passes: a truncated stream ends with an error', () => {
  const types = framesOf(passed(wireOf(hello.slice(0, 3)))).map(({ event, data }) => event ?? data)
  assert.deepEqual(types.slice(3), ['error', 'response.failed', '[DONE]'])
})

test('responses passes: a failure before the first event', () => {
  const types = framesOf(passed('')).map(({ event, data }) => event ?? data)
  assert.deepEqual(types, ['response.created', 'response.in_progress', 'error', 'response.failed', '[DONE]'])
})

test('responses passes: keep-alives change only the numbers', () => {
  const writer = codec.passing.passStream(context())
  const steps = stepsOf(wireOf(hello))
  assert.equal(writer.keepAlive(), ': ping\n')
  const before = steps.slice(0, 2).flatMap((step) => writer.push(step))
  const alive = [writer.keepAlive(), writer.keepAlive()]
  const after = [...steps.slice(2).flatMap((step) => writer.push(step)), ...writer.end()]
  const bodies = bodiesOf([...before, ...alive, ...after].join(''))
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    [0, 1, 2, 3, 4, 5, 6],
  )
  assert.deepEqual([bodies[2]?.type, object(bodies[3]?.response)?.id], ['response.in_progress', 'resp_1'])
  const unnumbered = (wire: string) => wire.replaceAll(/"sequence_number":\d+/g, '')
  assert.equal(unnumbered(after.join('')), unnumbered(wireOf(hello.slice(2)) + END))
})

test('responses passes: a failure after keep-alives has the next number', () => {
  const writer = codec.passing.passStream(context())
  const [first, second] = stepsOf(wireOf(hello))
  assert.ok(first && second)
  const wire = [
    ...writer.push(first),
    writer.keepAlive(),
    writer.keepAlive(),
    ...writer.push(second),
    ...writer.push({ events: [failure] }),
  ].join('')
  assert.deepEqual(
    bodiesOf(wire).map(({ sequence_number }) => sequence_number),
    [0, 1, 2, 3, 4, 5],
  )
})

test('responses writer: the first id is kept', () => {
  const wire = write(codec.encodeStream(context()), [start, { type: 'start', id: 'resp_2', model: 'other' }, stop])
  const responses = bodiesOf(wire).map(({ response }) => object(response) ?? {})
  assert.deepEqual(new Set(responses.map(({ id, model }) => `${id} ${model}`)), new Set(['resp_1 gpt']))
})

test('responses passes: a number in the model text is unchanged', () => {
  const words = 'see "sequence_number":5 and \\"sequence_number\\": 6'
  const writer = codec.passing.passStream(context())
  const steps = stepsOf(wireOf([created, on(0, 'output_text.delta', { delta: words, nested: { sequence_number: 3 } })]))
  writer.push(steps[0] ?? { events: [] })
  writer.keepAlive()
  const [body] = bodiesOf(writer.push(steps[1] ?? { events: [] }).join(''))
  assert.deepEqual([body?.sequence_number, body?.delta, body?.nested], [2, words, { sequence_number: 3 }])
})

test('responses passes: a complete answer instead of a stream is written as a stream', () => {
  const events = codec.decodeAnswer({ id: 'resp_1', status: 'completed', output: [message('Hi')], usage })
  const wire = run(codec.passing.passStream(context()), [{ whole: '{}', events }]).join('')
  const bodies = bodiesOf(wire)
  assert.deepEqual([bodies[0]?.type, bodies.at(-1)?.type], ['response.created', 'response.completed'])
  assert.ok(wire.endsWith(END))
})

// ── Random input ──────────────────────────────────────────────────────────────────────────────────────────────────

const words = [
  'response.output_item.added',
  'response.output_item.done',
  'response.content_part.added',
  'response.content_part.done',
  'response.output_text.delta',
  'response.output_text.done',
  'response.function_call_arguments.delta',
  'response.function_call_arguments.done',
  'response.reasoning_summary_text.delta',
  'response.reasoning_text.delta',
  'response.refusal.delta',
  'response.completed',
  'response.created',
  'error',
  'message',
  'function_call',
  'reasoning',
  'output_text',
  'refusal',
  'reasoning_text',
  'completed',
  'incomplete',
  'user',
  'assistant',
  'function',
  'json_schema',
]
const names = [
  'type',
  'item',
  'part',
  'output_index',
  'content_index',
  'summary_index',
  'delta',
  'text',
  'arguments',
  'name',
  'call_id',
  'id',
  'content',
  'summary',
  'encrypted_content',
  'response',
  'output',
  'status',
  'usage',
  'error',
  'annotations',
  'logprobs',
  'role',
  'input',
  'tools',
  'tool_choice',
  'reasoning',
  'include',
  'model',
  '__proto__',
]
/** JSON built from the format's own terms, so that it reaches deeper than random text. */
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom(...words),
    fc.constantFrom(0, 1, 2, -1, 0.5),
    fc.jsonValue({ maxDepth: 1 }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 6, noNullPrototype: true }),
  ),
})).value as fc.Arbitrary<Json>
const anObject = fc.dictionary(fc.constantFrom(...names), json, { noNullPrototype: true }) as fc.Arbitrary<JsonObject>

/** Checks that blocks open and close in order and that nothing follows the end. */
const lawful = (events: readonly ChatEvent[]) => {
  let open = false
  let over = false
  for (const { type } of events) {
    assert.ok(!over, `${type} after the end`)
    if (type === 'open') assert.ok(!open, 'opened twice')
    if (type === 'close' || type === 'delta' || type === 'citation' || type === 'signature')
      assert.ok(open, `${type} of nothing`)
    if (type === 'open') open = true
    if (type === 'close') open = false
    if (type === 'finish') assert.ok(!open, 'finished with an open block')
    if (type === 'finish' || type === 'failure') over = true
  }
  assert.ok(over)
}

test('responses: any request is decoded or rejected, and a decoded one can be encoded', () =>
  fc.assert(
    fc.property(anObject, (body) => {
      const decoded = codec.decodeRequest({ model: 'm', input: 'x', ...body })
      if (decoded.ok) codec.encodeRequest(decoded.value, { model: 'm' })
      codec.passing.adaptRequest(body, { model: 'm' })
    }),
  ))

test('responses: any answer is decoded and can be encoded', () =>
  fc.assert(
    fc.property(fc.oneof(json, anObject), anObject, (body, asked) => {
      const events = codec.decodeAnswer(body)
      lawful(events)
      codec.encodeAnswer(fold(events), context(asked))
    }),
  ))

test('responses: any stream is decoded, encoded and passed', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          anObject.map((event) => JSON.stringify(event)),
          fc.string(),
        ),
        { maxLength: 12 },
      ),
      (datas) => {
        const wire = datas.map((data) => `data: ${data.replaceAll(/[\r\n]/g, '')}\n\n`).join('')
        const steps = stepsOf(wire)
        lawful(steps.flatMap(({ events }) => events))
        const written = run(codec.encodeStream(context()), steps).join('')
        assert.equal(written.split(END).length, 2)
        for (const [index, { sequence_number }] of bodiesOf(written).entries()) assert.equal(sequence_number, index)
        assert.ok(run(codec.passing.passStream(context()), steps).join('').endsWith(END))
      },
    ),
    { numRuns: 300 },
  ))

test('responses stream: a frame written from a template equals one written in full', () => {
  const words = ['plain', '"quoted" \\ and "delta":""', 'é\u2028\n\u0000 \ud83d', '"sequence_number":0,', '']
  const said = words.map((text): ChatEvent => ({ type: 'delta', text }))
  const blocks = [
    { type: 'reasoning' },
    { type: 'reasoning' },
    { type: 'reasoning', summary: true },
    { type: 'text' },
    { type: 'text' },
    { type: 'refusal' },
    { type: 'tool-call', id: 'c"1', name: 'n' },
    { type: 'tool-call', id: 'c3', name: 'n' },
    { type: 'tool-call', id: 'c2', name: 'n', custom: true },
    { type: 'text' },
  ] as const
  const probable: ChatEvent = {
    type: 'delta',
    text: 'so',
    logprobs: [{ token: 'so', logprob: -1, bytes: [], top_logprobs: [] }],
  }
  const events: ChatEvent[] = [
    { type: 'start' },
    ...blocks.flatMap((block): ChatEvent[] => [
      { type: 'open', block },
      ...said,
      ...(block.type === 'text' ? [probable] : []),
      ...said,
      { type: 'close' },
    ]),
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ]
  const stream = codec.encodeStream(context())
  const frames = framesOf([...events.flatMap((event) => stream.push({ events: [event] })), ...stream.end()].join(''))
  let open: unknown
  let place = -1
  let steps = 0
  for (const [index, { event, data }] of frames.slice(0, -1).entries()) {
    const parsed: JsonObject = JSON.parse(data)
    assert.equal(data, JSON.stringify(parsed))
    assert.equal(parsed.type, event)
    assert.equal(parsed.sequence_number, index)
    if (event === 'response.output_item.added') {
      open = object(parsed.item)?.id
      place++
    }
    if (!event?.endsWith('.delta')) continue
    steps++
    assert.equal(parsed.item_id, open)
    assert.equal(parsed.output_index, place)
  }
  const expected = blocks.length * 2 * (words.length - 1) + blocks.filter(({ type }) => type === 'text').length
  assert.equal(steps, expected)
  const text = fold(run(codec.decodeStream(), frames))
  assert.deepEqual(
    text.blocks.map((block) => ('text' in block ? block.text : null)),
    blocks.map(({ type }) => words.join('') + (type === 'text' ? 'so' : '') + words.join('')),
  )
})
