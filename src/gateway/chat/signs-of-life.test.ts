/**
 * Keep-alives before the first content are events where clients count events. OpenAI's SDK accepts no event before
 * `response.created` (`accumulateResponse` of openai-node: "When snapshot hasn't been set yet, expected 'response.created'"), and
 * some SDKs no `keepalive` event (openai/openai-node#1964, vercel/ai#20575), so the response itself begins.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CapturedReply,
  chatAnswer,
  type GatewayHarness,
  gatewayHarness,
  instance,
  respondWith,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'

const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const event = (data: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const response = (status: string, output: readonly object[] = []) => ({
  id: 'resp_upstream',
  object: 'response',
  created_at: 5,
  status,
  model: 'm-2026',
  output,
})
const MESSAGE = { id: 'msg_1', type: 'message', status: 'completed', role: 'assistant' }
/** The answer of a responses upstream: OpenAI's sequence of events. */
const responsesStream = () =>
  [
    { type: 'response.created', response: response('in_progress') },
    { type: 'response.in_progress', response: response('in_progress') },
    { type: 'response.output_item.added', output_index: 0, item: { ...MESSAGE, status: 'in_progress', content: [] } },
    {
      type: 'response.content_part.added',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      part: { type: 'output_text', text: '', annotations: [] },
    },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'hello' },
    { type: 'response.output_text.done', item_id: 'msg_1', output_index: 0, content_index: 0, text: 'hello' },
    {
      type: 'response.completed',
      response: {
        ...response('completed', [{ ...MESSAGE, content: [{ type: 'output_text', text: 'hello', annotations: [] }] }]),
        usage: { input_tokens: 3, output_tokens: 1, total_tokens: 4 },
      },
    },
  ]
    .map((data, sequence_number) => event({ ...data, sequence_number }))
    .join('')

const RESPONSES = { speaks: [{ protocol: 'openai-responses' }] } as const
const MESSAGES = { speaks: [{ protocol: 'anthropic-messages' }] } as const
const ask = { model: 'm', input: 'hello', stream: true, store: false }

/** The events of a responses stream. */
// biome-ignore lint/suspicious/noExplicitAny: a test looks into events of every shape
const eventsOf = (reply: CapturedReply): any[] =>
  [...reply.text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))

/** Asserts what clients rely on: one beginning, one id, numbers without a gap. */
const assertSound = (reply: CapturedReply, last: string) => {
  const events = eventsOf(reply)
  assert.deepEqual(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, at) => at),
  )
  assert.equal(events[0]?.type, 'response.created')
  assert.equal(events.filter(({ type }) => type === 'response.created').length, 1)
  const responses = events.flatMap((one) => (one.response ? [one.response] : []))
  assert.equal(new Set(responses.map(({ id }) => id)).size, 1)
  assert.equal(events.at(-1)?.type, last)
  assert.match(reply.text, /data: \[DONE\]\n\n$/)
  return events
}
const lastCall = ({ world }: GatewayHarness, id: string): ScriptedCall => {
  const call = world.calls.findLast((asked) => host(asked) === id)
  assert.ok(call, `${id} received no request`)
  return call
}
const silent = () => {}

for (const [kind, more, answer] of [
  ['a responses upstream', RESPONSES, responsesStream],
  ['a chat upstream', {}, () => chatAnswer.stream('hello')],
] as const)
  test(`signs of life: responses: the response begins while ${kind} is silent, and goes on`, async () => {
    const it = gatewayHarness([instance('a', ['k1'], more)], silent)
    const reply = it.send(ask, 'openai-responses')
    await it.world.advance(29_000)
    const before = eventsOf(reply).map(({ type }) => type)
    assert.deepEqual(before, ['response.created', 'response.in_progress'])
    respondWith.stream(lastCall(it, 'a'), answer())
    await it.world.settle()
    const events = assertSound(reply, 'response.completed')
    assert.equal(events.filter(({ type }) => type === 'response.output_text.delta').length, 1)
    const { response: last } = events.at(-1)
    assert.equal(last.output[0].content[0].text, 'hello')
    assert.notEqual(last.id, 'resp_upstream')
  })

test('signs of life: responses: an event for each interval, also during failover', async () => {
  const it = gatewayHarness([instance('a', ['k1'], RESPONSES), instance('b')], silent, {
    circuit: { timeout: 40_000 },
    timeout: { firstContent: 0 },
  })
  const reply = it.send(ask, 'openai-responses')
  await it.world.advance(40_000)
  assert.equal(it.world.calls.length, 2)
  await it.world.advance(20_000)
  assert.deepEqual(
    eventsOf(reply).map(({ type }) => type),
    [
      'response.created',
      'response.in_progress',
      'response.in_progress',
      'response.in_progress',
      'response.in_progress',
    ],
  )
  respondWith.stream(lastCall(it, 'b'), chatAnswer.stream('hello'))
  await it.world.settle()
  const events = assertSound(reply, 'response.completed')
  assert.match(reply.text, /: headgate provider=b model=m trail=a#k1:timeout, b#k1:200/)
  assert.equal(events.at(-1).response.output[0].content[0].text, 'hello')
})

test('signs of life: responses: also while a hedge runs', async () => {
  const it = gatewayHarness([instance('a', ['k1'], RESPONSES), instance('b', ['k1'], RESPONSES)], silent, {
    hedge: { percent: 100, delay: 1_000 },
  })
  const reply = it.send(ask, 'openai-responses')
  await it.world.advance(16_000)
  assert.equal(it.world.calls.length, 2)
  respondWith.stream(lastCall(it, 'b'), responsesStream())
  await it.world.settle()
  assertSound(reply, 'response.completed')
})

test('signs of life: responses: a failure ends the response that has begun', async () => {
  const it = gatewayHarness([instance('a', ['k1'], RESPONSES)], silent)
  const reply = it.send(ask, 'openai-responses')
  await it.world.advance(16_000)
  respondWith.error(lastCall(it, 'a'), 503, { message: 'Service Unavailable' })
  await it.world.settle()
  const events = assertSound(reply, 'response.failed')
  assert.equal(events.at(-1).response.error.code, 'server_error')
})

test('signs of life: responses: a stream that breaks off after content ends the response that has begun', async () => {
  const it = gatewayHarness([instance('a', ['k1'], RESPONSES)], silent)
  const reply = it.send(ask, 'openai-responses')
  await it.world.advance(16_000)
  const call = lastCall(it, 'a')
  call.head(200, { 'content-type': 'text/event-stream' })
  call.send(responsesStream().slice(0, responsesStream().indexOf('event: response.output_text.done')))
  call.end()
  await it.world.settle()
  assertSound(reply, 'response.failed')
})

test('signs of life: responses: a whole answer to a request for a stream', async () => {
  const it = gatewayHarness([instance('a', ['k1'], RESPONSES)], silent)
  const reply = it.send(ask, 'openai-responses')
  await it.world.advance(16_000)
  const whole = { ...response('completed', [{ ...MESSAGE, content: [{ type: 'output_text', text: 'hello' }] }]) }
  respondWith.json(lastCall(it, 'a'), 200, JSON.stringify(whole))
  await it.world.settle()
  assertSound(reply, 'response.completed')
})

test('signs of life: responses: an answer that comes in time has its own id and events', async () => {
  const it = gatewayHarness([instance('a', ['k1'], RESPONSES)], (call) => respondWith.stream(call, responsesStream()))
  const reply = it.send(ask, 'openai-responses')
  await it.world.settle()
  assert.equal(reply.text, `${responsesStream()}data: [DONE]\n\n`)
})

for (const [kind, more] of [
  ['a messages upstream', MESSAGES],
  ['a chat upstream', {}],
] as const)
  test(`signs of life: messages: a ping for each interval while ${kind} is silent`, async () => {
    const it = gatewayHarness([instance('a', ['k1'], more)], silent)
    const body = { model: 'm', max_tokens: 10, stream: true, messages: [{ role: 'user', content: 'hello' }] }
    const reply = it.send(body, 'anthropic-messages')
    await it.world.advance(29_000)
    assert.equal(reply.text, 'event: ping\ndata: {"type": "ping"}\n\n')
    respondWith.error(lastCall(it, 'a'), 503, { message: 'Overloaded' })
    await it.world.settle()
    assert.match(reply.text, /^event: ping\n[\s\S]*event: error\ndata: \{"type":"error"/)
  })

test('signs of life: chat: comments, which clients of this style ignore', async () => {
  const it = gatewayHarness([instance('a')], silent)
  const reply = it.send({ model: 'm', messages: [{ role: 'user', content: 'hello' }], stream: true })
  await it.world.advance(29_000)
  assert.equal(reply.text, ': ping\n')
})

/** [source, chunks of a chat stream without content] */
const unknownEnds: readonly (readonly [string, string])[] = [
  ['a reason of another version', 'interrupted'],
  ['the reason of a server that was interrupted', 'abort'],
  ['a reason in other words', 'unknown'],
]
for (const [name, reason] of unknownEnds)
  test(`an end without content for ${name} is a failure, also if tokens are counted`, async () => {
    const end = { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: reason }] }
    const usage = { id: 'c', choices: [], usage: { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 } }
    const it = gatewayHarness([instance('a'), instance('b')], (call) =>
      respondWith.stream(
        call,
        host(call) === 'a'
          ? `data: ${JSON.stringify(end)}\n\ndata: ${JSON.stringify(usage)}\n\ndata: [DONE]\n\n`
          : chatAnswer.stream('hello'),
      ),
    )
    const reply = it.send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true })
    await it.world.settle()
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:empty, b#k1:200')
  })
