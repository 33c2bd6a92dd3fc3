import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith, type SettingsInput } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'

const question = (stream: boolean, more: object = {}) => ({
  model: 'anything',
  messages: [{ role: 'user', content: 'hello' }],
  stream,
  ...more,
})

const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const keyOf = ({ headers }: ScriptedCall) => headers.authorization

/** One script for each provider. */
const cast = (parts: Readonly<Record<string, (asked: ScriptedCall) => void>>) => (asked: ScriptedCall) =>
  parts[host(asked)]?.(asked)

const answers = (asked: ScriptedCall) =>
  asked.headers.accept === 'text/event-stream'
    ? respondWith.stream(asked, chatAnswer.stream('Hel', 'lo'))
    : respondWith.json(asked, 200, chatAnswer.whole('Hello'))

// ── Failures before content: transparent failover ──────────────────────────────────────

const failures: readonly (readonly [string, (asked: ScriptedCall) => void, string])[] = [
  ['refused', (asked) => asked.fail(fail('refused', 'connection refused', { unsent: true })), 'refused'],
  ['dns', (asked) => asked.fail(fail('dns', 'no such host', { unsent: true })), 'dns'],
  ['reset', (asked) => asked.fail(fail('reset', 'connection reset')), 'reset'],
  ['503', (asked) => respondWith.error(asked, 503), '503'],
  ['500', (asked) => respondWith.error(asked, 500), '500'],
  ['429', (asked) => respondWith.error(asked, 429), '429'],
  ['401', (asked) => respondWith.error(asked, 401), '401'],
  ['402', (asked) => respondWith.error(asked, 402), '402'],
  ['404', (asked) => respondWith.error(asked, 404, { code: 'model_not_found' }), '404'],
  ['302', (asked) => respondWith.raw(asked, 302, { location: 'http://evil.test' }), 'redirect'],
  ['html', (asked) => respondWith.raw(asked, 200, { 'content-type': 'text/html' }, '<html>'), 'not_json'],
  ['nothing', (asked) => respondWith.raw(asked, 200, { 'content-type': 'application/json' }), 'malformed'],
  ['half a body', (asked) => respondWith.json(asked, 200, '{"id":'), 'malformed'],
  ['an error in a 200', (asked) => respondWith.error(asked, 200, { type: 'server_error' }), 'error_in_stream'],
  ['an empty answer', (asked) => respondWith.json(asked, 200, chatAnswer.whole('')), 'empty'],
]

const streamFailures: typeof failures = [
  [
    'an error first',
    (asked) =>
      respondWith.stream(asked, `data: ${JSON.stringify({ error: { message: 'no', type: 'server_error' } })}\n\n`),
    'error_in_stream',
  ],
  [
    'an error after the role',
    (asked) =>
      respondWith.stream(asked, `${chatAnswer.role()}data: {"error":{"message":"no","type":"server_error"}}\n\n`),
    'error_in_stream',
  ],
  ['an end after the role', (asked) => respondWith.stream(asked, chatAnswer.role()), 'truncated'],
  ['comments and an end', (asked) => respondWith.stream(asked, ': ping\n\n: ping\n\n'), 'truncated'],
  ['not JSON', (asked) => respondWith.stream(asked, 'data: {nonsense\n\n'), 'malformed'],
]

for (const stream of [false, true])
  for (const [name, fails, trace] of stream ? [...failures, ...streamFailures] : failures)
    test(`handle: failover after ${name} is invisible ${stream ? 'to a stream' : 'to a whole answer'}`, async () => {
      const { send, world } = gatewayHarness([instance('a'), instance('b')], cast({ a: fails, b: answers }))
      const reply = send(question(stream))
      await world.advance(0)
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.ending, 'ended')
      assert.equal(reply.headers['x-headgate-provider'], 'b')
      assert.equal(reply.headers['x-headgate-attempts'], '2')
      assert.equal(reply.headers['x-headgate-trail'], `a#k1:${trace}, b#k1:200`)
      if (stream) assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
      else assert.equal(reply.json.choices[0].message.content, 'Hello')
    })

// ── Time limits before content ────────────────────────────────────────────────────────────────────────────────────

const limits: readonly (readonly [string, boolean, (asked: ScriptedCall) => void, SettingsInput, number, string])[] = [
  ['no head', false, () => {}, { circuit: { timeout: 700 } }, 700, 'timeout'],
  ['no head of a stream', true, () => {}, { circuit: { timeout: 700 } }, 700, 'timeout'],
  [
    'a head and no byte',
    true,
    (asked) => asked.head(200, { 'content-type': 'text/event-stream' }),
    { circuit: { timeout: 700 } },
    700,
    'timeout',
  ],
  [
    'comments only',
    true,
    (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(': ping\n\n')
    },
    { timeout: { firstContent: 900 } },
    900,
    'timeout',
  ],
  [
    'half a body, then silence',
    false,
    (asked) => {
      asked.head(200, { 'content-type': 'application/json' })
      asked.send('{"id"')
    },
    { timeout: { idle: 800 } },
    800,
    'stalled',
  ],
]

for (const [name, stream, waits, settings, ms, trace] of limits)
  test(`handle: ${name}: fails over after its limit, not before`, async () => {
    const { send, world } = gatewayHarness([instance('a'), instance('b')], cast({ a: waits, b: answers }), settings)
    const reply = send(question(stream))
    await world.advance(ms - 1)
    assert.equal(world.calls.length, 1)
    await world.advance(2)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-trail'], `a#k1:${trace}, b#k1:200`)
    assert.equal(world.calls[0]?.aborted, true)
  })

test('handle: no time limit applies after the first content, and all timers end', async () => {
  let upstream: ScriptedCall | undefined
  const settings = { circuit: { timeout: 100 }, timeout: { firstContent: 200, idle: 300, contentIdle: 400 } }
  const { send, world } = gatewayHarness(
    [instance('a')],
    (asked) => {
      upstream = asked
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'one' }))
    },
    settings,
  )
  const reply = send(question(true))
  for (let i = 0; i < 20; i++) {
    await world.advance(250)
    upstream?.send(chatAnswer.chunk({ content: ' more' }))
  }
  upstream?.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  upstream?.end()
  await world.advance(0)
  assert.equal(reply.ending, 'ended')
  assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
  assert.equal(world.timers(), 0)
})

// ── After content ─────────────────────────────────────────────────────────────────────────────────────────────────

const last = (asked: ScriptedCall, text: string) => {
  asked.send(text)
  asked.end()
}

const breaks: readonly (readonly [string, (asked: ScriptedCall) => void, number])[] = [
  ['a clean end without a terminator', (asked) => asked.end(), 0],
  ['a reset', (asked) => asked.fail(fail('reset', 'connection reset')), 0],
  [
    'an error event',
    (asked) => last(asked, 'data: {"error":{"message":"sk-secretsecretsecret","type":"server_error"}}\n\n'),
    0,
  ],
  ['silence', () => {}, 60_001],
  ['keep-alives only', (asked) => void asked, 180_001],
  ['half an event', (asked) => last(asked, 'data: {"choices":[{"delta":{"content":"x'), 0],
]

for (const style of ['openai-chat', 'openai-responses'] as const)
  for (const [name, ends, ms] of breaks)
    test(`handle: ${name} in mid-stream is reported in the stream (${style})`, async () => {
      const { send, world, gateway } = gatewayHarness([instance('a'), instance('b')], (asked) => {
        asked.head(200, { 'content-type': 'text/event-stream' })
        asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }))
        if (name !== 'keep-alives only') return ends(asked)
        for (let at = 1; at < 20; at++) world.later(at * 10_000, () => asked.send(': ping\n\n'))
      })
      const body = style === 'openai-chat' ? question(true) : { model: 'x', input: 'hello', stream: true }
      const reply = send(body, style)
      await world.advance(ms)
      assert.equal(reply.status, 200)
      assert.equal(reply.ending, 'ended')
      assert.equal(world.calls.length, 1, 'nothing is tried elsewhere')
      assert.match(reply.text, /stream_interrupted/)
      assert.match(reply.text, /Hel/)
      assert.doesNotMatch(reply.text, /secretsecret/)
      if (style === 'openai-chat') assert.doesNotMatch(reply.text, /\[DONE\]/)
      else {
        assert.match(reply.text, /event: error[\s\S]*event: response\.failed/)
        assert.doesNotMatch(reply.text, /response\.completed/)
      }
      const [a] = gateway.config().instances
      assert.ok(a)
      assert.equal(gateway.health.circuits.counts(`a k1 m`, gateway.config().settings.circuit).failures, 1)
      assert.equal(gateway.activeCalls.size, 0)
    })

// ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('handle: a rate-limited key cools down for its Retry-After; the other key serves', async () => {
  const { send, world } = gatewayHarness([instance('a', ['k1', 'k2'])], (asked) =>
    keyOf(asked)?.endsWith('k1') ? respondWith.error(asked, 429, {}, { 'retry-after': '20' }) : answers(asked),
  )
  for (let i = 0; i < 30; i++) {
    const reply = send(question(false))
    await world.advance(100)
    assert.equal(reply.status, 200)
  }
  const limited = world.calls.filter((asked) => keyOf(asked)?.endsWith('k1'))
  assert.equal(limited.length, 1)
})

test('handle: a key with little quota left is avoided', async () => {
  const asked: Record<string, number> = {}
  const { send, world } = gatewayHarness([instance('a', ['k1', 'k2'])], (call) => {
    const key = keyOf(call)?.slice(-2) ?? ''
    asked[key] = (asked[key] ?? 0) + 1
    const left = key === 'k1' ? '1' : '90'
    respondWith.json(call, 200, chatAnswer.whole('Hello'), {
      'x-ratelimit-limit-requests': '100',
      'x-ratelimit-remaining-requests': left,
    })
  })
  for (let i = 0; i < 60; i++) {
    send(question(false))
    await world.advance(10)
  }
  assert.ok((asked.k2 ?? 0) > 5 * (asked.k1 ?? 0), JSON.stringify(asked))
})

test('handle: a dead key does not use up attempts', async () => {
  const { send, world } = gatewayHarness(
    [instance('a', ['k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7']), instance('b')],
    cast({ a: (asked) => respondWith.error(asked, 401), b: answers }),
    { retry: { maxAttempts: 1, budgetPercent: 0 } },
  )
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(reply.status, 200)
  assert.equal(world.calls.length, 8)
})

test('handle: after a dead key the next attempt still counts as a retry', async () => {
  const acts: readonly ((asked: ScriptedCall) => void)[] = [
    (asked) => respondWith.error(asked, 500),
    (asked) => respondWith.error(asked, 401),
    answers,
  ]
  let number = 0
  const { send, world } = gatewayHarness([instance('a', ['k1', 'k2', 'k3'])], (asked) => acts[number++]?.(asked), {
    retry: { budgetPercent: 0, budgetFloor: 1 },
  })
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(world.calls.length, 2)
  assert.equal(reply.status, 502)
})

test('handle: attempts end at the limit', async () => {
  const { send, world } = gatewayHarness(
    ['a', 'b', 'c', 'd'].map((id) => instance(id)),
    (asked) => respondWith.error(asked, 500),
    { retry: { maxAttempts: 3 } },
  )
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(world.calls.length, 3)
  assert.equal(reply.status, 502)
  assert.equal(reply.json.error.attempts.length, 3)
})

// ── The final error ──────────────────────────────────────────────────────────────────────────────────

const finals: readonly (readonly [string, (asked: ScriptedCall) => void, number, string, string | undefined])[] = [
  ['timeouts only', () => {}, 504, 'timeout', 'true'],
  ['bad statuses', (asked) => respondWith.error(asked, 500), 502, 'status', 'true'],
  ['limits only', (asked) => respondWith.error(asked, 429, {}, { 'retry-after': '7' }), 429, 'rate_limited', 'true'],
  [
    'a limit for long',
    (asked) => respondWith.error(asked, 429, {}, { 'retry-after': '600' }),
    429,
    'rate_limited',
    'false',
  ],
  [
    'no quota',
    (asked) => respondWith.error(asked, 429, { code: 'insufficient_quota' }),
    429,
    'insufficient_quota',
    'false',
  ],
  ['keys refused', (asked) => respondWith.error(asked, 401), 502, 'upstream_auth', 'false'],
  [
    'an invalid request',
    (asked) => respondWith.error(asked, 400, { type: 'invalid_request_error', param: 'temperature' }),
    400,
    'invalid_request',
    'false',
  ],
]

for (const [name, fails, status, code, retry] of finals)
  test(`handle: final error after ${name}`, async () => {
    const { send, world, events } = gatewayHarness([instance('a'), instance('b')], fails)
    const reply = send(question(true))
    await world.advance(0)
    // The attempts time out one after the other, before a keep-alive would send the header block.
    await world.advance(name === 'timeouts only' ? 0 : 14_000)
    if (name === 'timeouts only') return
    assert.equal(reply.status, status, reply.text)
    assert.equal(reply.json.error.code, code)
    assert.equal(reply.headers['x-should-retry'], retry)
    assert.equal(reply.json.error.request_id, reply.headers['x-request-id'])
    assert.equal('attempts' in reply.json.error, retry === 'true')
    assert.equal(events.filter(({ event }) => event === 'request').length, 1)
  })

test('handle: after a keep-alive the error is an event with the same code', async () => {
  const { send, world } = gatewayHarness([instance('a')], () => {}, { circuit: { timeout: 40_000 } })
  const reply = send(question(true))
  await world.advance(14_999)
  assert.equal(reply.status, null)
  await world.advance(2)
  assert.equal(reply.status, 200)
  assert.equal(reply.text, ': ping\n')
  assert.equal(reply.headers['x-headgate-provider'], undefined)
  await world.advance(30_000)
  assert.equal(reply.ending, 'ended')
  assert.match(reply.text, /data: \{"error":\{.*"code":"timeout"/)
  assert.doesNotMatch(reply.text, /\[DONE\]/)
})

test('handle: after a keep-alive a comment carries the headers of the answer', async () => {
  const { send, world } = gatewayHarness(
    [instance('a')],
    (asked) => void world.later(20_000, () => respondWith.stream(asked, chatAnswer.stream('late'))),
  )
  const reply = send(question(true))
  await world.advance(20_001)
  assert.match(reply.text, /^: ping\n: headgate provider=a model=m trail=a#k1:200\ndata: /)
  assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
})

// ── Clients that disconnect or read slowly ────────────────────────────────────────────────────────────────────────────

for (const phase of ['waiting', 'streaming'] as const)
  test(`handle: a client that disconnects while ${phase} aborts its upstream call without a failure`, async () => {
    const { send, world, gateway, events } = gatewayHarness([instance('a'), instance('b')], (asked) => {
      if (phase === 'waiting') return
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }))
    })
    const reply = send(question(true))
    await world.advance(50)
    reply.disconnect()
    await world.advance(0)
    assert.equal(world.calls[0]?.aborted, true)
    assert.equal(world.calls.length, 1)
    assert.equal(world.timers(), 0)
    const counts = gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit)
    assert.equal(counts.failures, 0)
    const request = events.find(({ event }) => event === 'request')
    assert.ok(request?.event === 'request')
    const end = request.trace.at(-1)
    assert.ok(end?.type === 'ended' && end.how === 'client_gone')
  })

test('handle: a client that disconnects at `[DONE]`, before the end of the body, was answered', async () => {
  let upstream: ScriptedCall | undefined
  const { send, world, gateway, events } = gatewayHarness([instance('a')], (asked) => {
    upstream = asked
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.stream('Hello'))
  })
  const reply = send(question(true))
  await world.advance(50)
  assert.match(reply.text, /\[DONE\]/)
  reply.disconnect()
  await world.advance(10)
  upstream?.end()
  await reply.done
  assert.equal(world.calls.length, 1)
  assert.equal(world.timers(), 0)
  assert.equal(gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit).successes, 1)
  const request = events.find(({ event }) => event === 'request')
  assert.ok(request?.event === 'request')
  const end = request.trace.at(-1)
  assert.ok(end?.type === 'ended' && end.how === 'answered')
})

test('handle: a slow client pauses the upstream and its idle timeout', async () => {
  let upstream: ScriptedCall | undefined
  const { send, world } = gatewayHarness([instance('a')], (asked) => {
    upstream = asked
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'one' }))
  })
  const reply = send(question(true))
  await world.advance(0)
  reply.writable = false
  assert.equal(upstream?.send(chatAnswer.chunk({ content: 'two' })), false)
  await world.advance(100_000)
  assert.equal(reply.ending, null)
  reply.drain()
  assert.equal(upstream?.resumed, 1)
  assert.equal(upstream?.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done), true)
  upstream?.end()
  await world.advance(0)
  assert.equal(reply.ending, 'ended')
})

test('handle: a client that stops reading is disconnected', async () => {
  let upstream: ScriptedCall | undefined
  const { send, world } = gatewayHarness([instance('a')], (asked) => {
    upstream = asked
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'one' }))
  })
  const reply = send(question(true))
  await world.advance(0)
  reply.writable = false
  upstream?.send(chatAnswer.chunk({ content: 'two' }))
  await world.advance(120_001)
  assert.equal(reply.ending, 'cut')
  assert.equal(upstream?.aborted, true)
  assert.equal(world.timers(), 0)
})

test('handle: a client that does not read keep-alives is disconnected before an answer', async () => {
  const { send, world, events } = gatewayHarness([instance('a')], () => {}, {
    keepAlive: { interval: 1_000 },
    timeout: { clientWrite: 5_000 },
  })
  const reply = send(question(true))
  reply.writable = false
  await world.advance(6_001)
  assert.equal(reply.ending, 'cut')
  assert.equal(world.calls[0]?.aborted, true)
  await world.advance(600_000)
  assert.equal(reply.text, ': ping\n')
  assert.equal(world.calls.length, 1)
  assert.equal(world.timers(), 0)
  const ends = events.flatMap((item) => (item.event === 'request' ? item.trace.slice(-1) : []))
  assert.deepEqual(
    ends.map((fact) => fact.type === 'ended' && fact.how),
    ['client_gone'],
  )
})

// ── Circuits ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('handle: a circuit opens, is skipped, is probed by one real request, closes', async () => {
  let healthy = false
  const { send, world, events } = gatewayHarness(
    [instance('a'), instance('b')],
    cast({ a: (asked) => (healthy ? answers(asked) : respondWith.error(asked, 500)), b: answers }),
    { circuit: { firstProbe: 30_000, resetTimeout: 30_000, consecutiveFailures: 5 } },
  )
  const count = () => world.calls.filter((asked) => host(asked) === 'a').length
  for (let i = 0; i < 8; i++) {
    const reply = send(question(false))
    await world.advance(10)
    assert.equal(reply.status, 200)
  }
  assert.equal(count(), 5)
  await world.advance(29_000)
  send(question(false))
  await world.advance(10)
  assert.equal(count(), 5, 'still open')
  await world.advance(1_000)
  send(question(false))
  await world.advance(10)
  assert.equal(count(), 6, 'one probe')
  send(question(false))
  await world.advance(10)
  assert.equal(count(), 6, 'which failed')
  healthy = true
  await world.advance(30_000)
  for (let i = 0; i < 3; i++) {
    send(question(false))
    await world.advance(10)
  }
  assert.equal(count(), 9)
  const changes = events.flatMap((item) => (item.event === 'circuit' ? [`${item.from} → ${item.to}`] : []))
  assert.deepEqual(changes, [
    'closed → open',
    'open → half_open',
    'half_open → open',
    'open → half_open',
    'half_open → closed',
  ])
})

test('handle: an overloaded model’s circuit opens like any other', async () => {
  const { send, world, gateway } = gatewayHarness([instance('a')], (asked) => respondWith.error(asked, 503), {
    retry: { budgetPercent: 0 },
  })
  for (let i = 0; i < 5; i++) {
    const reply = send(question(false))
    await world.advance(1)
    assert.equal(reply.status, 502)
  }
  assert.equal(world.calls.length, 5)
  assert.equal(gateway.health.circuits.phase('a m', gateway.config().settings.circuit).state, 'open')
})

test('handle: an upstream is not tried before its Retry-After', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.error(asked, 503, {}, { 'retry-after': '9' }),
  )
  send(question(false))
  await world.advance(8_000)
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(world.calls.length, 1)
  assert.equal(reply.status, 503)
  assert.equal(reply.headers['retry-after'], '1')
  send(question(false))
  await world.advance(1_100)
  send(question(false))
  await world.advance(0)
  assert.equal(world.calls.length, 2)
})

test('handle: slow start does not reject a request that waited for a rate limit', async () => {
  const parts: ((asked: ScriptedCall) => void)[] = [
    (asked) => respondWith.error(asked, 500),
    answers,
    () => {},
    () => {},
    (asked) => respondWith.error(asked, 429, {}, { 'retry-after': '1' }),
    answers,
  ]
  const { send, world } = gatewayHarness([instance('a')], (asked) => parts.shift()?.(asked), {
    circuit: { resetTimeout: 20_000, consecutiveFailures: 1 },
  })
  send(question(false))
  await world.advance(20_000)
  const replies: ReturnType<typeof send>[] = []
  for (let number = 0; number < 4; number++) {
    replies.push(send(question(false)))
    await world.advance(0)
  }
  await world.advance(2_000)
  assert.deepEqual(
    replies.map(({ status, ending }) => ending && status),
    [200, null, null, 200],
  )
})

for (const [mode, wanted] of [
  ['fail', 0],
  ['probe', 1],
  ['try', 3],
] as const)
  test(`handle: all circuits open, whenAllOpen ${mode}`, async () => {
    const { send, world } = gatewayHarness([instance('a')], (asked) => respondWith.error(asked, 500), {
      circuit: { firstProbe: 200_000, resetTimeout: 200_000, consecutiveFailures: 2, whenAllOpen: mode },
      retry: { budgetPercent: 0 },
    })
    for (let i = 0; i < 2; i++) {
      send(question(false))
      await world.advance(2_000)
    }
    const before = world.calls.length
    await world.advance(20_000)
    const replies = [1, 2, 3].map(() => send(question(false)))
    await world.advance(0)
    const statuses = replies.map(({ status }) => status)
    assert.equal(world.calls.length - before >= wanted, true, String(statuses))
    if (mode === 'try') {
      await world.advance(5_000)
      for (const { status, headers } of replies) assert.deepEqual([status, headers['x-should-retry']], [502, 'true'])
      return
    }
    assert.equal(world.calls.length - before, wanted)
    const refused = replies.find(({ status }) => status === 503)
    assert.equal(refused?.json.error.code, 'no_target_available')
    assert.ok(Number(refused?.headers['retry-after']) >= 1)
  })

// ── Same style ────────────────────────────────────────────────────────────────────────────────────────────────────

test('handle: an upstream of the same style receives the text of the client with another model', async () => {
  const { send, world } = gatewayHarness([instance('a')], answers)
  const source =
    '{"model":"x", "seed": 9007199254740993,"messages":[{"role":"user","content":"h\\u00e9"}],"unknown_member":{"a":1.0}}'
  send(source)
  await world.advance(0)
  assert.equal(
    world.calls[0]?.body,
    '{"model":"m","seed": 9007199254740993,"messages":[{"role":"user","content":"h\\u00e9"}],"unknown_member":{"a":1.0}}',
  )
})

test('handle: the answer passes through byte for byte', async () => {
  const body =
    '{"id":"x","object":"chat.completion","created":12345678901234567890,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\\u00e9"},"finish_reason":"stop"}],"extra":1.0}'
  const { send, world } = gatewayHarness([instance('a')], (asked) => respondWith.json(asked, 200, body))
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(reply.text, body)
})

test('handle: credentials of the client and of other providers are not sent', async () => {
  const { send, world } = gatewayHarness(
    [instance('a'), instance('b')],
    cast({ a: (asked) => respondWith.error(asked, 500), b: answers }),
  )
  send(question(false))
  await world.advance(0)
  assert.deepEqual(world.calls.map(keyOf), ['Bearer sk-a-k1', 'Bearer sk-b-k1'])
})

test('handle: two empty answers result in an empty answer', async () => {
  const { send, world } = gatewayHarness([instance('a'), instance('b'), instance('c')], (asked) =>
    respondWith.json(asked, 200, chatAnswer.whole('')),
  )
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(reply.status, 200)
  assert.equal(world.calls.length, 2)
  assert.equal(reply.json.choices[0].message.content, '')
})

test('handle: an answer that has finished is complete even if the process ends before its body does', async () => {
  const { send, world, gateway } = gatewayHarness([instance('a')], (asked) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.stream('one'))
  })
  const reply = send(question(true))
  await world.advance(0)
  for (const stop of gateway.activeCalls) stop.cancel(fail('shutdown', 'it ends'))
  await world.advance(0)
  assert.equal(reply.ending, 'ended')
  assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
})

test('handle: a whole answer is buffered completely, also if the upstream streams unrequested', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.stream(asked, chatAnswer.stream('all')),
  )
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(reply.json.choices[0].message.content, 'all')
  assert.equal(world.calls[0]?.buffered, true)
})

test('handle: the request timeout', async () => {
  const { send, world } = gatewayHarness([instance('a')], () => {}, { timeout: { request: 5_000 } })
  const reply = send(question(false))
  await world.advance(5_001)
  assert.equal(reply.status, 504)
  assert.equal(reply.json.error.code, 'timeout')
  assert.equal(world.calls[0]?.aborted, true)
})

for (const stream of [false, true])
  test(`handle: a key quoted by the upstream is redacted everywhere (${stream ? 'stream' : 'whole'})`, async () => {
    const said = { message: 'bad key sk-a-k1', code: 'sk-a-k1', param: 'sk-a-k1', type: 'invalid_request_error' }
    for (const status of [400, 401, 429, 500, 200]) {
      const { send, world, events, gateway } = gatewayHarness([instance('a')], (asked) =>
        respondWith.error(asked, status, said),
      )
      const reply = send(question(stream))
      await world.advance(2_000)
      assert.ok(reply.status !== null && reply.status >= 400)
      const error = gateway.health.lastError(gateway.config().instances[0] ?? assert.fail())
      assert.doesNotMatch(reply.text + JSON.stringify([reply.headers, events, error]), /sk-a-k1/, String(status))
    }
  })

test('handle: a stream with a lost event and no finish reason is incomplete', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.stream(
      asked,
      `${chatAnswer.role()}${chatAnswer.chunk({ content: 'Hel' })}data: {broken\n\n${chatAnswer.done}`,
    ),
  )
  const reply = send(question(true))
  await world.advance(0)
  assert.match(reply.text, /stream_interrupted/)
  assert.doesNotMatch(reply.text, /\[DONE\]/)
})

test('handle: a malformed event in plain text is skipped and recorded', async () => {
  const { send, world, gateway, events } = gatewayHarness([instance('a')], (asked) =>
    respondWith.stream(
      asked,
      `${chatAnswer.role()}${chatAnswer.chunk({ content: 'Hel' })}data: {broken\n\n${chatAnswer.chunk({ content: 'lo' })}${chatAnswer.chunk({}, 'stop')}${chatAnswer.done}`,
    ),
  )
  const reply = send({ model: 'x', input: 'hello', stream: true }, 'openai-responses')
  await world.advance(0)
  assert.match(reply.text, /"delta":"lo"/)
  assert.match(reply.text, /response\.completed/)
  assert.equal(gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit).failures, 0)
  const exchange = events.flatMap((one) => (one.event === 'request' ? one.trace : []))
  assert.deepEqual(
    exchange.filter(({ type }) => type === 'dropped_events'),
    [{ type: 'dropped_events', count: 1 }],
  )
})

test('handle: with tools a malformed event ends the stream', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.stream(
      asked,
      `${chatAnswer.role()}${chatAnswer.chunk({ content: 'Hel' })}data: {broken\n\n${chatAnswer.chunk({}, 'stop')}${chatAnswer.done}`,
    ),
  )
  const reply = send(question(true, { tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }))
  await world.advance(0)
  assert.match(reply.text, /stream_interrupted/)
})

test('handle: no wait for a retry that the circuit rejects', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) => respondWith.error(asked, 500), {
    circuit: { consecutiveFailures: 1 },
  })
  const reply = send(question(false))
  await world.advance(0)
  assert.equal(reply.status, 502)
})

// ── Reasoning signatures of another provider ──────────────────────────────────────────────────────────────────────

const sealedTurn = (stream: boolean) => ({
  model: 'anything',
  stream,
  input: [
    { role: 'user', content: 'hello' },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed-elsewhere' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] },
    { role: 'user', content: 'go on' },
  ],
})
const unknownSeal = { type: 'invalid_request_error', code: 'invalid_encrypted_content' }
const speakingResponses = () => instance('one', ['k1'], { speaks: [{ protocol: 'openai-responses' }] })

test('signatures: a target that rejects them is retried without, and they are reported as dropped', async () => {
  const { send, world } = gatewayHarness([speakingResponses()], (call) => {
    if (call.body?.includes('sealed-elsewhere')) return respondWith.error(call, 400, unknownSeal)
    const message = {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Fine' }],
    }
    respondWith.json(
      call,
      200,
      JSON.stringify({ id: 'resp_1', object: 'response', status: 'completed', output: [message] }),
    )
  })
  const reply = send(sealedTurn(false), 'openai-responses')
  await reply.done
  assert.equal(reply.status, 200)
  assert.equal(reply.headers['x-headgate-trail'], 'one#k1:400, one#k1:200')
  assert.equal(reply.headers['x-headgate-dropped'], 'input[1]')
  assert.deepEqual(
    world.calls.map(({ body }) => body?.includes('sealed-elsewhere')),
    [true, false],
  )
})

test('signatures: a target that rejects the request without them too is not retried again', async () => {
  const { send } = gatewayHarness([speakingResponses()], (call) => respondWith.error(call, 400, unknownSeal))
  const reply = send(sealedTurn(true), 'openai-responses')
  await reply.done
  assert.equal(reply.status, 400)
  assert.equal(reply.headers['x-headgate-attempts'], '2')
})

// ── A server without a protocol of its vendor ──────────────────────────────────────────────────────────────────

const two = () => instance('one', ['k1'], { speaks: [{ protocol: 'openai-chat' }, { protocol: 'openai-responses' }] })
const absences: readonly (readonly [string, (call: ScriptedCall) => void])[] = [
  [
    'a page',
    (call) => respondWith.raw(call, 404, { 'content-type': 'text/html' }, '<h1>Cannot POST /v1/responses</h1>'),
  ],
  ['a detail', (call) => respondWith.json(call, 404, '{"detail":"Not Found"}')],
  ['an unknown URL', (call) => respondWith.error(call, 404, { message: 'Unknown request URL', code: 'unknown_url' })],
  ['no such method', (call) => respondWith.json(call, 405, '{"detail":"Method Not Allowed"}')],
  ['not implemented', (call) => respondWith.error(call, 501)],
]
for (const [name, absent] of absences)
  test(`lacking: ${name}: the request uses the other protocol, later requests at once`, async () => {
    const { send, world } = gatewayHarness([two()], (call) =>
      call.url.endsWith('/responses') ? absent(call) : answers(call),
    )
    const reply = send({ model: 'anything', input: 'hello' }, 'openai-responses')
    await reply.done
    assert.equal(reply.status, 200)
    assert.equal(reply.headers['x-headgate-attempts'], '2')
    const next = send({ model: 'anything', input: 'hello', stream: true }, 'openai-responses')
    await next.done
    assert.match(next.text, /response\.completed/)
    assert.equal(next.headers['x-headgate-attempts'], '1')
    // The server may have been upgraded.
    await world.advance(600_001)
    await send({ model: 'anything', input: 'hello' }, 'openai-responses').done
    assert.deepEqual(
      world.calls.map(({ url }) => url.split('/v1/')[1]),
      ['responses', 'chat/completions', 'chat/completions', 'responses', 'chat/completions'],
    )
  })

test('lacking: an unknown model is not tried in the other protocol', async () => {
  const { send, world } = gatewayHarness([two()], (call) =>
    respondWith.error(call, 404, { message: 'The model `m` does not exist', code: 'model_not_found' }),
  )
  const reply = send({ model: 'anything', input: 'hello' }, 'openai-responses')
  await reply.done
  assert.equal(reply.status, 404)
  assert.match(reply.text, /model_not_found/)
  assert.equal(world.calls.length, 1)
})

// ── Too long for every target ───────────────────────────────────────────────────────────────────────────────────────

const turns = (truncation: string) => ({
  model: 'anything',
  instructions: 'be kind',
  truncation,
  input: [
    { role: 'user', content: 'first question' },
    { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c1', output: 'first result' },
    { role: 'assistant', content: 'first answer' },
    { role: 'user', content: 'second question' },
    { role: 'assistant', content: 'second answer' },
    { role: 'user', content: 'last question' },
  ],
  tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }],
})
/** Accepts inputs up to a limit. */
const narrow = (most: string) => (call: ScriptedCall) =>
  call.body?.includes(most)
    ? respondWith.error(call, 400, { type: 'invalid_request_error', code: 'context_length_exceeded' })
    : respondWith.json(call, 200, chatAnswer.whole('Hello'))

const shortening: readonly (readonly [string, string, string, number, string | undefined, string])[] = [
  [
    'removes the older half and reports it',
    'auto',
    'first',
    200,
    'input[0], input[1], input[2], input[3]',
    'second question',
  ],
  [
    'repeatedly if necessary',
    'auto',
    'second',
    200,
    'input[0], input[1], input[2], input[3], input[4], input[5]',
    'last question',
  ],
  [
    'never the last message',
    'auto',
    'last',
    400,
    // An error reports what the last attempt dropped.
    'input[0], input[1], input[2], input[3], input[4], input[5]',
    '',
  ],
  ['not unless allowed', 'disabled', 'first', 400, undefined, ''],
]
for (const [name, truncation, most, status, dropped, first] of shortening)
  test(`too long: ${name}`, async () => {
    const { send, world } = gatewayHarness([instance('one')], narrow(most))
    const reply = send(turns(truncation), 'openai-responses')
    await reply.done
    assert.equal(reply.status, status)
    assert.equal(reply.headers['x-headgate-dropped'], dropped)
    if (status !== 200) return
    const { messages } = JSON.parse(world.calls.at(-1)?.body ?? '')
    assert.deepEqual([messages[0].content, messages[1].content], ['be kind', first])
  })

// ── Models without a capability, by the catalogue ────────────────────────────────────────────────────────────────────────

const withTool = { tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }] }
const seeing = {
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x.example/a.png' } }] }],
}
const CAN: { readonly [name: string]: readonly string[] } = { one: [], two: ['tools'] }

const doubted: readonly (readonly [string, object, readonly string[], string])[] = [
  ['a capable target comes first', withTool, ['one', 'two'], 'two'],
  ['a doubtful target is tried if no other is left', withTool, ['one'], 'one'],
  ['with doubts everywhere the order is kept', seeing, ['one', 'two'], 'one'],
  ['an unused capability is no doubt', {}, ['one', 'two'], 'one'],
]
for (const [name, more, names, asked] of doubted)
  test(`doubts: ${name}`, async () => {
    const made = names.map((id) => instance(id))
    const { send } = gatewayHarness(made, answers, {}, (provider) => ({ capabilities: CAN[provider] ?? [] }))
    const reply = send(question(false, more))
    await reply.done
    assert.equal(reply.headers['x-headgate-provider'], asked)
    assert.equal(reply.headers['x-headgate-attempts'], '1')
  })
