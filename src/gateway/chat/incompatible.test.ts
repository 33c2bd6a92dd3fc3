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

/** OpenAI's body (github.com/generative-computing/mellea/issues/270), of a member that this request does not have. */
const unknown = (message = 'Unrecognized request argument supplied: reasoning_effort') =>
  [400, { message, type: 'invalid_request_error', param: null, code: null }] as const

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
    a: [
      400,
      { message: 'first refusal', type: 'invalid_request_error', code: 'invalid_parameter_error', param: 'foo' },
    ],
    b: [422, { message: 'second refusal' }],
  })
  assert.equal(reply.status, 400)
  assert.equal(reply.json.error.message, 'first refusal')
  assert.equal(reply.json.error.code, 'invalid_parameter_error')
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

test('a value outside the range that the API publishes is an invalid request; a value inside leads to the next vendor', async () => {
  const error = { code: 'decimal_above_max_value', param: 'temperature', message: 'Invalid temperature' }
  const outside = await ask({ a: [400, error], b: 'by b' }, { temperature: 2.5 })
  assert.deepEqual([outside.reply.status, outside.calls], [400, ['a']])
  assert.equal(outside.reply.json.error.code, 'decimal_above_max_value')
  const inside = await ask({ a: [400, error], b: 'by b' }, { temperature: 1.5 })
  assert.deepEqual([inside.reply.status, inside.calls], [200, ['a', 'a', 'b']])
})

test('content policy is not routed around', async () => {
  for (const error of [
    { code: 'content_policy_violation' },
    // github.com/anthropics/claude-code/issues/58367.
    { type: 'invalid_request_error', message: 'Output blocked by content filtering policy' },
  ]) {
    const { reply, calls } = await ask({ a: [400, error], b: 'by b' })
    assert.deepEqual([reply.status, calls], [400, ['a']])
  }
})

test('vendors of two families that refuse the same member end the request', async () => {
  const error = (path: string) => ({ message: `Invalid value for ${path}`, param: path })
  const { reply, calls } = await ask({
    a: [400, error('tools[0].function.name')],
    b: [422, error('tools.0.function.name')],
    c: 'by c',
  })
  assert.deepEqual([reply.status, calls], [400, ['a', 'b']])
  assert.equal(reply.json.error.param, 'tools[0].function.name')
  const others = await ask({ a: [400, error('tools[0].type')], b: [422, error('tools.0.function.name')], c: 'by c' })
  assert.deepEqual([others.reply.status, others.calls], [200, ['a', 'b', 'c']])
})

/** 413 in the shapes of vendors and proxies (cases of tashfeenahmed/freellmapi#64, boldsoftware/exe.dev#8, gemini-cli#13776). */
const TOO_LARGE: readonly (readonly [string, object | string])[] = [
  ['Anthropic', { type: 'request_too_large', message: 'Request exceeds the maximum size' }],
  ['Google', { message: 'Maximum request body size 1048576 exceeded, actual body size 1056562', code: 413 }],
  ['nothing', {}],
]
for (const [who, error] of TOO_LARGE)
  test(`a body that is too large for one target goes to the next: ${who}`, async () => {
    const { reply, calls, gateway } = await ask({ a: [413, Object(error)], b: 'by b' })
    assert.deepEqual([reply.status, calls], [200, ['a', 'b']])
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:413, b#k1:200')
    const [first] = gateway.config().instances
    assert.ok(first)
    assert.equal(gateway.health.lastError(first), undefined)
    const alone = await ask({ a: [413, Object(error)] })
    assert.deepEqual([alone.reply.status, alone.reply.json.error.code], [413, 'request_too_large'])
    assert.equal(alone.reply.headers['x-should-retry'], 'false')
  })

test('a 404 about a feature books no model as missing', async () => {
  // github.com/nexu-io/nexu/issues/733.
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
    hostOf(asked) === 'a' && (asked.body ?? '').includes('image_url')
      ? respondWith.error(asked, 404, { message: 'No endpoints found that support image input', code: 404 })
      : respondWith.json(asked, 200, chatAnswer.whole(`by ${hostOf(asked)}`)),
  )
  const image = { type: 'image_url', image_url: { url: 'https://x.test/a.png' } }
  const picture = send({ model: 'a/m', messages: [{ role: 'user', content: [image] }] })
  await world.advance(2_000)
  assert.match(picture.text, /by b/)
  const text = send({ model: 'a/m', messages: [{ role: 'user', content: 'hi' }] })
  await world.advance(2_000)
  assert.match(text.text, /by a/)
})

test('a prompt that is too long for one target is tried at every target whose window is not known to be smaller', async () => {
  const tooLong = (window: number) =>
    [
      400,
      {
        message: `This model's maximum context length is ${window} tokens. However, your messages resulted in 9631 tokens.`,
      },
    ] as const
  const { reply, calls } = await ask({ a: tooLong(8192), b: tooLong(4096), c: 'by c' })
  assert.deepEqual([reply.status, calls], [200, ['a', 'b', 'c']])
  const none = await ask({ a: tooLong(8192), b: tooLong(4096) })
  assert.deepEqual([none.reply.status, none.reply.json.error.code], [400, 'context_length_exceeded'])
})

for (const error of [
  { message: 'Unrecognized request argument supplied: reasoning_effort', type: 'invalid_request_error' },
  { message: 'Request exceeds the maximum size', type: 'request_too_large' },
  { message: 'prompt is too long: 210000 tokens > 200000 maximum', type: 'invalid_request_error' },
])
  test(`a refusal inside a 200 leads to the next vendor: ${error.message}`, async () => {
    const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
      respondWith.stream(
        asked,
        hostOf(asked) === 'a' ? `data: ${JSON.stringify({ error })}\n\n` : chatAnswer.stream('by b'),
      ),
    )
    const reply = send({ model: 'a/m', stream: true, messages: [{ role: 'user', content: 'hi' }] })
    await world.advance(2_000)
    assert.deepEqual([reply.status, world.calls.map(hostOf)], [200, ['a', 'b']])
    assert.match(reply.text, /by b/)
  })

test('the error names a combination that no target takes, not only its member', async () => {
  const gemini = { ...instance('google', ['k1'], { speaks: [{ protocol: 'gemini' }] }), models: ['gemini-2.5-flash'] }
  const { send, world } = gatewayHarness([gemini], () => assert.fail('no target is called'))
  const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
  const reply = send(
    {
      model: 'google/gemini-2.5-flash',
      input: 'hi',
      tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }],
      text: { format: { type: 'json_schema', name: 'n', strict: true, schema } },
    },
    'openai-responses',
  )
  await world.advance(0)
  assert.equal(reply.status, 400)
  assert.equal(reply.json.error.param, 'text.format')
  assert.equal(
    reply.json.error.message,
    'No configured provider supports text.format: google/gemini-2.5-flash takes a schema or tools, not both in one request. Leave one out, or add a provider that takes both.',
  )
})
