import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  completedEvent,
  createdEvent,
  itemAdded,
  itemDone,
  itemEvent,
  messageItem,
  startEvent,
  stopEvent,
  textBlock,
  toolCallBlock,
  usageMember,
  wireOf,
} from '../../../test/support/responses-stream.ts'
import { type ChatEvent, fold, isContent } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { chain, run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { openaiResponses as codec } from './index.ts'

const call = (id: string, words: string) => ({
  type: 'function_call',
  id: `fc_${id}`,
  call_id: `call_${id}`,
  name: 'f',
  arguments: words,
})
const counted: ChatEvent = {
  type: 'usage',
  usage: { input: 3, output: 2, cacheRead: 1, reasoning: 0, raw: usageMember },
}
const calls: ChatEvent = { type: 'finish', finish: { kind: 'tool-calls', raw: 'completed' } }
const url = { type: 'url_citation', url: 'https://a.example', title: 't', start_index: 0, end_index: 2 }

const streams: readonly (readonly [string, readonly JsonObject[], readonly ChatEvent[]])[] = [
  [
    'text in the documented order',
    [
      createdEvent,
      { ...createdEvent, type: 'response.in_progress' },
      itemAdded(0, messageItem()),
      itemEvent(0, 'content_part.added', { content_index: 0, part: { type: 'output_text', text: '' } }),
      itemEvent(0, 'output_text.delta', { content_index: 0, delta: 'He', logprobs: [] }),
      itemEvent(0, 'output_text.delta', { content_index: 0, delta: 'llo', logprobs: [{ token: 'llo', logprob: -1 }] }),
      itemEvent(0, 'output_text.done', { content_index: 0, text: 'Hello' }),
      itemEvent(0, 'content_part.done', {
        content_index: 0,
        part: { type: 'output_text', text: 'Hello', annotations: [url] },
      }),
      itemDone(0, messageItem('Hello')),
      completedEvent(messageItem('Hello')),
    ],
    [
      startEvent,
      { type: 'ping' },
      { type: 'open', block: { type: 'text' } },
      { type: 'delta', text: 'He' },
      { type: 'delta', text: 'llo', logprobs: [{ token: 'llo', logprob: -1 }] },
      { type: 'citation', citation: { url: 'https://a.example', title: 't', start: 0, end: 2, raw: url } },
      { type: 'close' },
      counted,
      stopEvent,
    ],
  ],
  [
    'only a terminal event',
    [completedEvent(messageItem('Hello'))],
    [{ type: 'start', id: 'resp_1' }, ...textBlock('Hello'), counted, stopEvent],
  ],
  [
    'deltas without added and done events',
    [createdEvent, itemEvent(0, 'output_text.delta', { content_index: 0, delta: 'Hi' }), completedEvent()],
    [startEvent, ...textBlock('Hi'), counted, stopEvent],
  ],
  [
    'text without deltas',
    [
      createdEvent,
      itemAdded(0, messageItem()),
      itemEvent(0, 'output_text.done', { content_index: 0, text: 'Hi' }),
      itemDone(0, messageItem('Hi')),
      completedEvent(),
    ],
    [startEvent, ...textBlock('Hi'), counted, stopEvent],
  ],
  [
    'events at another content index than the finished item',
    [
      createdEvent,
      itemAdded(0, messageItem()),
      itemEvent(0, 'content_part.added', { content_index: 1, part: { type: 'output_text', text: '' } }),
      itemEvent(0, 'output_text.delta', { content_index: 1, delta: 'Hi' }),
      itemEvent(0, 'output_text.done', { content_index: 1, text: 'Hi' }),
      itemEvent(0, 'content_part.done', {
        content_index: 1,
        part: { type: 'output_text', text: 'Hi', annotations: [] },
      }),
      itemDone(0, messageItem('Hi')),
      completedEvent(messageItem('Hi')),
    ],
    [startEvent, ...textBlock('Hi'), counted, stopEvent],
  ],
  [
    'deltas at another content index than the finished item, one of them lost',
    [
      createdEvent,
      itemEvent(0, 'output_text.delta', { content_index: 1, delta: 'He' }),
      itemDone(0, messageItem('Hello', 'you')),
      completedEvent(),
    ],
    [startEvent, ...textBlock('He', 'llo'), ...textBlock('you'), counted, stopEvent],
  ],
  [
    'two equal texts, the second only in the finished item',
    [
      createdEvent,
      itemEvent(0, 'output_text.delta', { content_index: 0, delta: 'Hi' }),
      itemDone(0, messageItem('Hi', 'Hi')),
      completedEvent(),
    ],
    [startEvent, ...textBlock('Hi'), ...textBlock('Hi'), counted, stopEvent],
  ],
  [
    'a last delta that was lost',
    [
      createdEvent,
      itemEvent(0, 'output_text.delta', { content_index: 0, delta: 'He' }),
      itemDone(0, messageItem('Hello')),
      completedEvent(),
    ],
    [startEvent, ...textBlock('He', 'llo'), counted, stopEvent],
  ],
  [
    'a message of two parts',
    [createdEvent, itemDone(0, messageItem('a', 'b')), completedEvent(messageItem('a', 'b'))],
    [startEvent, ...textBlock('a'), ...textBlock('b'), counted, stopEvent],
  ],
  [
    'a refusal',
    [
      createdEvent,
      itemEvent(0, 'refusal.delta', { content_index: 0, delta: 'No' }),
      itemEvent(0, 'refusal.done', { content_index: 0, refusal: 'No.' }),
      itemDone(0, { type: 'message', content: [{ type: 'refusal', refusal: 'No.' }] }),
      completedEvent(),
    ],
    [
      startEvent,
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
      createdEvent,
      itemAdded(0, call('a', '')),
      itemEvent(0, 'function_call_arguments.delta', { delta: '{"x"' }),
      itemEvent(0, 'function_call_arguments.delta', { delta: ':1}' }),
      itemEvent(0, 'function_call_arguments.done', { arguments: '{"x":1}' }),
      itemDone(0, call('a', '{"x":1}')),
      itemAdded(1, call('b', '')),
      itemEvent(1, 'function_call_arguments.done', { arguments: '{}' }),
      itemDone(1, call('b', '{}')),
      completedEvent(call('a', '{"x":1}'), call('b', '{}')),
    ],
    [startEvent, ...toolCallBlock('a', '{"x"', ':1}'), ...toolCallBlock('b', '{}'), counted, calls],
  ],
  [
    'arguments in the item only',
    [createdEvent, itemAdded(0, call('a', '')), itemDone(0, call('a', '{"x":1}')), completedEvent()],
    [startEvent, ...toolCallBlock('a', '{"x":1}'), counted, calls],
  ],
  [
    'arguments with other spelling at the end are not repeated',
    [
      createdEvent,
      itemAdded(0, call('a', '')),
      itemEvent(0, 'function_call_arguments.delta', { delta: '{"x":1}' }),
      itemDone(0, call('a', '{ "x": 1 }')),
      completedEvent(),
    ],
    [startEvent, ...toolCallBlock('a', '{"x":1}'), counted, calls],
  ],
  [
    'a call whose name arrives late',
    [
      createdEvent,
      itemAdded(0, { type: 'function_call', id: 'fc_a' }),
      itemEvent(0, 'function_call_arguments.delta', { delta: '{}' }),
      itemDone(0, call('a', '{}')),
      completedEvent(),
    ],
    [startEvent, ...toolCallBlock('a', '{}'), counted, calls],
  ],
  [
    'changing ids: items are matched by index',
    [
      createdEvent,
      itemAdded(0, { ...messageItem(), id: 'msg_x' }),
      itemEvent(0, 'output_text.delta', { item_id: 'msg_y', content_index: 0, delta: 'Hi' }),
      itemDone(0, { ...messageItem('Hi'), id: 'msg_z' }),
      completedEvent({ ...messageItem('Hi'), id: 'msg_w' }),
    ],
    [startEvent, ...textBlock('Hi'), counted, stopEvent],
  ],
  [
    'interleaved items are read one after another',
    [
      createdEvent,
      itemAdded(0, call('a', '')),
      itemAdded(1, call('b', '')),
      itemEvent(1, 'function_call_arguments.delta', { delta: '2' }),
      itemEvent(0, 'function_call_arguments.delta', { delta: '1' }),
      itemDone(1, call('b', '2')),
      itemDone(0, call('a', '1')),
      completedEvent(),
    ],
    [startEvent, ...toolCallBlock('a', '1'), ...toolCallBlock('b', '2'), counted, calls],
  ],
  [
    'items without an end event are ended',
    [
      createdEvent,
      itemAdded(0, call('a', '')),
      itemEvent(0, 'function_call_arguments.delta', { delta: '1' }),
      itemAdded(1, call('b', '')),
      itemEvent(1, 'function_call_arguments.delta', { delta: '2' }),
      completedEvent(),
    ],
    [startEvent, ...toolCallBlock('a', '1'), ...toolCallBlock('b', '2'), counted, calls],
  ],
  [
    'a free-form call',
    [
      createdEvent,
      itemAdded(0, { type: 'custom_tool_call', call_id: 'call_a', name: 'f', input: '' }),
      itemEvent(0, 'custom_tool_call_input.delta', { delta: 'x' }),
      itemDone(0, { type: 'custom_tool_call', call_id: 'call_a', name: 'f', input: 'xy' }),
      completedEvent(),
    ],
    [
      startEvent,
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
      createdEvent,
      itemAdded(0, { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'FIRST' }),
      itemEvent(0, 'reasoning_summary_part.added', { summary_index: 0, part: { type: 'summary_text', text: '' } }),
      itemEvent(0, 'reasoning_summary_text.delta', { summary_index: 0, delta: 'one' }),
      itemEvent(0, 'reasoning_summary_text.done', { summary_index: 0, text: 'one' }),
      itemEvent(0, 'reasoning_summary_text.delta', { summary_index: 1, delta: 'tw' }),
      itemEvent(0, 'reasoning_summary_text.done', { summary_index: 1, text: 'two' }),
      itemDone(0, {
        type: 'reasoning',
        id: 'rs_1',
        summary: [
          { type: 'summary_text', text: 'one' },
          { type: 'summary_text', text: 'two' },
          { type: 'summary_text', text: 'three' },
        ],
        encrypted_content: 'LAST',
      }),
      itemDone(1, messageItem('Hi')),
      completedEvent(),
    ],
    [
      startEvent,
      { type: 'open', block: { type: 'reasoning', summary: true } },
      { type: 'delta', text: 'one' },
      { type: 'delta', text: '\n\ntw' },
      { type: 'delta', text: 'o' },
      { type: 'delta', text: '\n\nthree' },
      { type: 'signature', signature: { origin: 'openai-responses', value: 'LAST', id: 'rs_1' } },
      { type: 'close' },
      ...textBlock('Hi'),
      counted,
      stopEvent,
    ],
  ],
  [
    'reasoning without content',
    [
      createdEvent,
      itemDone(0, { type: 'reasoning', id: 'rs_1', summary: [] }),
      itemDone(1, messageItem('Hi')),
      completedEvent(),
    ],
    [startEvent, ...textBlock('Hi'), counted, stopEvent],
  ],
  [
    'reasoning text, by either event name',
    [
      createdEvent,
      itemEvent(0, 'content_part.added', { content_index: 0, part: { type: 'reasoning_text', text: '' } }),
      itemEvent(0, 'reasoning_text.delta', { content_index: 0, delta: 'a' }),
      itemEvent(0, 'reasoning.delta', { content_index: 0, delta: 'b' }),
      itemEvent(0, 'reasoning_text.done', { content_index: 0, text: 'abc' }),
      itemDone(0, { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'abc' }] }),
      completedEvent(),
    ],
    [
      startEvent,
      { type: 'open', block: { type: 'reasoning' } },
      { type: 'delta', text: 'a' },
      { type: 'delta', text: 'b' },
      { type: 'delta', text: 'c' },
      { type: 'close' },
      counted,
      stopEvent,
    ],
  ],
  [
    "a hosted tool's item is kept unchanged",
    [
      createdEvent,
      itemAdded(0, { type: 'web_search_call', id: 'ws_1', status: 'in_progress' }),
      itemEvent(0, 'web_search_call.searching', {}),
      itemDone(0, { type: 'web_search_call', id: 'ws_1', status: 'completed' }),
      completedEvent(),
    ],
    [
      startEvent,
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
      stopEvent,
    ],
  ],
  [
    'stopped by the output limit',
    [
      createdEvent,
      {
        type: 'response.incomplete',
        response: {
          status: 'incomplete',
          incomplete_details: { reason: 'max_output_tokens' },
          output: [messageItem('H')],
        },
      },
    ],
    [startEvent, ...textBlock('H'), { type: 'finish', finish: { kind: 'length', raw: 'max_output_tokens' } }],
  ],
  [
    'stopped by a content filter',
    [
      createdEvent,
      {
        type: 'response.incomplete',
        response: { status: 'incomplete', incomplete_details: { reason: 'content_filter' }, output: [] },
      },
    ],
    [startEvent, { type: 'finish', finish: { kind: 'content-filter', raw: 'content_filter' } }],
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
  ['no end', wireOf([createdEvent, itemEvent(0, 'output_text.delta', { delta: 'Hi' })]), 'truncated'],
  ['nothing at all', '', 'truncated'],
  ['only an end mark', 'data: [DONE]\n\n', 'truncated'],
  ['half an event', wireOf([createdEvent]).slice(0, -20), 'truncated'],
  ['broken JSON', 'data: {"type":\n\n', 'malformed'],
  ['JSON that is not an object', 'data: 5\n\n', 'malformed'],
  [
    'a call that has no name',
    wireOf([createdEvent, itemDone(0, { type: 'function_call', call_id: 'c', arguments: '{}' })]),
    'malformed',
  ],
  ['an end without a response', wireOf([createdEvent, { type: 'response.completed' }]), 'malformed'],
  [
    'still in progress at its end',
    wireOf([{ type: 'response.completed', response: { status: 'in_progress' } }]),
    'malformed',
  ],
  [
    'a nested error',
    wireOf([createdEvent, { type: 'error', error: { type: 'tokens', code: 'rate_limit_exceeded', message: 'slow' } }]),
    'rate_limited',
  ],
  ['a flat error', wireOf([createdEvent, { type: 'error', code: 'insufficient_quota', message: 'pay' }]), 'quota'],
  ['an error without a type', 'data: {"error":{"message":"x","code":"server_error"}}\n\n', 'error_in_stream'],
  [
    'a failed response',
    wireOf([
      createdEvent,
      {
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'server_error', message: 'x' }, output: [messageItem('Hi')] },
      },
    ]),
    'error_in_stream',
  ],
  [
    'a cancelled response',
    wireOf([createdEvent, { type: 'response.cancelled', response: { status: 'cancelled', output: [] } }]),
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
  const events = Array.from({ length: 200 }, (_, index) => itemAdded(index, call(String(index), ''))).flatMap((event) =>
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
