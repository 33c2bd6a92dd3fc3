/** A vendor that refuses a member, a feature or a history shape: the next vendor is tried, and nothing is charged. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { summarize } from '../../core/trace-summary.ts'

const hostOf = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''

/** The answer of each host: a text, an error as status and `error` members. */
type Answers = { readonly [host: string]: string | readonly [status: number, error: object] }

const ask = async (answers: Answers, body: object = {}, settings: object = {}) => {
  const { send, world, events, gateway } = gatewayHarness(
    Object.keys(answers).map((id) => instance(id)),
    (asked) => {
      const answer = answers[hostOf(asked)] ?? 'nothing'
      if (typeof answer !== 'string') respondWith.error(asked, answer[0], answer[1])
      else if (asked.headers.accept === 'text/event-stream') respondWith.stream(asked, chatAnswer.stream(answer))
      else respondWith.json(asked, 200, chatAnswer.whole(answer))
    },
    { ...settings, strategy: 'priority' },
  )
  const reply = send({ model: 'x', messages: [{ role: 'user', content: 'hi' }], ...body })
  await world.advance(20_000)
  const exchange = events.find((item) => item.event === 'request')
  assert.ok(exchange?.event === 'request')
  return { reply, events, gateway, summary: summarize(exchange.trace), calls: world.calls.map(hostOf) }
}

const unknown = (message = 'Unrecognized request argument supplied: foo') =>
  [400, { message, type: 'invalid_request_error', code: 'unknown_parameter', param: 'foo' }] as const

for (const stream of [false, true])
  test(`a refused member leads to the next vendor (stream: ${stream})`, async () => {
    const { reply, calls, events, gateway, summary } = await ask({ a: unknown(), b: 'by b' }, { stream })
    assert.equal(reply.status, 200)
    assert.match(reply.text, /by b/)
    assert.deepEqual(calls, ['a', 'b'])
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:incompatible, b#k1:200')
    const fallback = events.find((item) => item.event === 'fallback')
    assert.ok(fallback?.event === 'fallback')
    assert.equal(fallback.kind, 'incompatible')
    assert.equal(summary.attempts[0]?.failure?.kind, 'incompatible')
    const [first] = gateway.config().instances
    assert.ok(first)
    assert.equal(gateway.health.lastError(first), undefined)
  })

test('five refusals in a row open no circuit', async () => {
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
    hostOf(asked) === 'a'
      ? respondWith.error(asked, ...unknown())
      : respondWith.json(asked, 200, chatAnswer.whole('by b')),
  )
  for (let turn = 0; turn < 8; turn++) {
    const reply = send({ model: 'a/m', messages: [{ role: 'user', content: `hi ${turn}` }] })
    await world.advance(5_000)
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:incompatible, b#k1:200')
  }
})

test('the first refusal reaches the client when every vendor refuses', async () => {
  const { reply, summary } = await ask({
    a: unknown('first refusal'),
    b: [422, { message: 'second refusal', code: 'unsupported_parameter' }],
  })
  assert.equal(reply.status, 400)
  assert.equal(reply.json.error.message, 'first refusal')
  assert.equal(reply.json.error.code, 'unknown_parameter')
  assert.equal(reply.json.error.param, 'foo')
  assert.equal(reply.headers['x-should-retry'], 'false')
  assert.equal(reply.headers['x-headgate-trail'], 'a#k1:incompatible, b#k1:incompatible')
  assert.equal(summary.failure?.kind, 'invalid_request')
})

test('a refusal and an unavailable vendor make an outage, not an invalid request', async () => {
  const { reply } = await ask({ a: unknown(), b: [503, { message: 'no room' }] })
  assert.equal(reply.status, 502)
  assert.equal(reply.json.error.code, 'overloaded')
  assert.deepEqual(
    reply.json.error.attempts.map(({ kind }: { kind: string }) => kind),
    ['incompatible', 'overloaded'],
  )
})

test('after a refusal the vendor’s other keys are not tried', async () => {
  const { send, world } = gatewayHarness([instance('a', ['k1', 'k2']), instance('b')], (asked) =>
    hostOf(asked) === 'a'
      ? respondWith.error(asked, ...unknown())
      : respondWith.json(asked, 200, chatAnswer.whole('by b')),
  )
  const reply = send({ model: 'a/m', messages: [{ role: 'user', content: 'hi' }] })
  await world.advance(5_000)
  assert.equal(reply.status, 200)
  assert.equal(world.calls.length, 2)
})

test('waits for a briefly rate-limited vendor when the others refuse', async () => {
  let limited = true
  const { send, world } = gatewayHarness(
    [instance('a'), instance('b')],
    (asked) => {
      if (hostOf(asked) === 'a') respondWith.error(asked, ...unknown())
      else if (limited) respondWith.error(asked, 429, { message: 'slow down' }, { 'retry-after': '1' })
      else respondWith.json(asked, 200, chatAnswer.whole('by b'))
    },
    { strategy: 'priority' },
  )
  const reply = send({ model: 'x', messages: [{ role: 'user', content: 'hi' }] })
  await world.settle()
  limited = false
  await world.advance(5_000)
  assert.equal(reply.status, 200)
})

const OWN: readonly (readonly [what: string, error: object])[] = [
  ['a value out of range', { code: 'decimal_above_max_value', param: 'temperature', message: 'Invalid temperature' }],
  ['a missing member', { code: 'missing_required_parameter', param: 'messages[0].role' }],
  ['content policy', { code: 'content_policy_violation' }],
]
for (const [what, error] of OWN)
  test(`${what} is still an invalid request`, async () => {
    const { reply, calls } = await ask({ a: [400, error], b: 'by b' })
    assert.equal(reply.status, 400)
    assert.deepEqual(calls, ['a'])
  })
