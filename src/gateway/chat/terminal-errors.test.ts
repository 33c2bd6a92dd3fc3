/** The client's body ends with the upstream's terminal event, even if the upstream keeps its connection open. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CapturedReply,
  chatAnswer,
  type GatewayHarness,
  gatewayHarness,
  instance,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'

const event = (data: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const MESSAGE = {
  type: 'message',
  id: 'msg_1',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'hello', annotations: [] }],
}
const response = (status: string, output: readonly object[]) => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status,
  model: 'm',
  output,
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
})

/** A complete stream in each upstream format with a terminal event. */
const STREAMS: readonly (readonly [UpstreamProtocolName, string, string])[] = [
  ['openai-chat', 'text/event-stream', chatAnswer.stream('hello')],
  ['mistral', 'text/event-stream', chatAnswer.stream('hello')],
  [
    'openai-responses',
    'text/event-stream',
    [
      { type: 'response.created', sequence_number: 0, response: response('in_progress', []) },
      {
        type: 'response.output_item.added',
        sequence_number: 1,
        output_index: 0,
        item: { ...MESSAGE, status: 'in_progress', content: [] },
      },
      {
        type: 'response.content_part.added',
        sequence_number: 2,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        part: { type: 'output_text', text: '', annotations: [] },
      },
      {
        type: 'response.output_text.delta',
        sequence_number: 3,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        delta: 'hello',
      },
      { type: 'response.completed', sequence_number: 4, response: response('completed', [MESSAGE]) },
    ]
      .map(event)
      .join(''),
  ],
  [
    'anthropic-messages',
    'text/event-stream',
    [
      {
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 3, output_tokens: 0 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hello' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ]
      .map(event)
      .join(''),
  ],
  [
    'ollama',
    'application/x-ndjson',
    [
      { model: 'm', message: { role: 'assistant', content: 'hello' }, done: false },
      {
        model: 'm',
        message: { role: 'assistant', content: '' },
        done: true,
        done_reason: 'stop',
        prompt_eval_count: 3,
        eval_count: 2,
      },
    ]
      .map((line) => `${JSON.stringify(line)}\n`)
      .join(''),
  ],
  [
    'cohere',
    'text/event-stream',
    [
      { type: 'message-start', id: 'x', delta: { message: { role: 'assistant' } } },
      { type: 'content-start', index: 0, delta: { message: { content: { type: 'text', text: '' } } } },
      { type: 'content-delta', index: 0, delta: { message: { content: { text: 'hello' } } } },
      { type: 'content-end', index: 0 },
      {
        type: 'message-end',
        delta: { finish_reason: 'COMPLETE', usage: { tokens: { input_tokens: 3, output_tokens: 2 } } },
      },
    ]
      .map(event)
      .join(''),
  ],
]

const QUESTIONS: readonly (readonly [ClientProtocolName, object])[] = [
  ['openai-chat', { messages: [{ role: 'user', content: 'hi' }] }],
  ['openai-responses', { input: 'hi' }],
  ['anthropic-messages', { max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] }],
  ['openai-completions', { prompt: 'hi' }],
]

const isWhole = (style: ClientProtocolName, { text }: CapturedReply): boolean =>
  style === 'anthropic-messages' ? text.includes('event: message_stop') : text.endsWith('data: [DONE]\n\n')

/** Asserts that no timer and no request in flight is left. */
const isOver = ({ gateway, world }: GatewayHarness) => {
  assert.equal(world.timers(), 0, 'a timer is left')
  for (const one of gateway.config().instances)
    for (const key of one.keys) assert.equal(gateway.health.load.inFlight(one, key), 0)
}

for (const [format, mediaType, text] of STREAMS)
  for (const [style, body] of QUESTIONS) {
    const stays = (asked: ScriptedCall) => {
      asked.head(200, { 'content-type': mediaType })
      asked.send(text)
    }
    const speaks = { speaks: [{ protocol: format }] }

    test(`terminal event of ${format}: the ${style} body ends at once, the upstream call 2 s later`, async () => {
      const it = gatewayHarness([instance('a', ['k1'], speaks)], stays)
      const reply = it.send({ ...body, model: 'm', stream: true }, style)
      await it.world.advance(0)
      assert.equal(reply.ending, 'ended', reply.text)
      assert.ok(isWhole(style, reply), reply.text)
      assert.match(reply.text, /hello/)
      const [call] = it.world.calls
      assert.equal(call?.aborted, false, 'its connection may still be reused')
      await it.world.advance(1_999)
      assert.equal(call?.aborted, false)
      await it.world.advance(2)
      assert.equal(call?.aborted, true)
      isOver(it)
    })

    test(`terminal event of ${format}: a body that ends in time keeps the connection: ${style}`, async () => {
      const it = gatewayHarness([instance('a', ['k1'], speaks)], (asked) => {
        stays(asked)
        it.world.later(500, () => asked.end())
      })
      const reply = it.send({ ...body, model: 'm', stream: true }, style)
      await it.world.advance(0)
      assert.equal(reply.ending, 'ended')
      await it.world.advance(5_000)
      assert.equal(it.world.calls[0]?.aborted, false)
      isOver(it)
    })
  }

test('terminal event: later upstream data is ignored', async () => {
  for (const more of [
    (asked: ScriptedCall) => asked.send(chatAnswer.chunk({ content: 'more' })),
    (asked: ScriptedCall) => asked.send('data: {"error":{"message":"no"}}\n\n'),
    (asked: ScriptedCall) => asked.fail(fail('reset', 'connection reset')),
  ]) {
    const it = gatewayHarness([instance('a')], (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.stream('hello'))
      it.world.later(100, () => more(asked))
    })
    const reply = it.send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true })
    await it.world.advance(0)
    const { text } = reply
    await it.world.advance(5_000)
    assert.equal(reply.text, text)
    assert.doesNotMatch(text, /more|error/)
    const { failures, successes } = it.gateway.health.circuits.counts('a k1 m', it.gateway.config().settings.circuit)
    assert.deepEqual([failures, successes], [0, 1])
    isOver(it)
  }
})

test('terminal event: a slow client receives the complete answer', async () => {
  const it = gatewayHarness([instance('a')], (asked) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'hello' }))
    it.world.later(10, () => asked.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done))
  })
  const reply = it.send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true })
  await it.world.advance(0)
  reply.writable = false
  await it.world.advance(1_000)
  assert.equal(reply.ending, null, 'it has not read what is written')
  reply.drain()
  await it.world.advance(0)
  assert.equal(reply.ending, 'ended')
  assert.ok(isWhole('openai-chat', reply))
  await it.world.advance(5_000)
  isOver(it)
})

test('terminal event: completes an answer that is collected', async () => {
  const it = gatewayHarness([instance('a')], (asked) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.stream('hello'))
  })
  const reply = it.send({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  await it.world.advance(0)
  assert.equal(reply.ending, 'ended')
  assert.equal(reply.json.choices[0].message.content, 'hello')
  await it.world.advance(5_000)
  isOver(it)
})
