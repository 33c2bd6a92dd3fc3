/** A probe of an open circuit does not make its client wait, and its outcome still counts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  chatAnswer,
  type GatewayHarness,
  gatewayHarness,
  instance,
  respondWith,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'

const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const isStream = ({ headers }: ScriptedCall) => headers.accept === 'text/event-stream'
const question = (stream: boolean, more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content: 'hello' }],
  stream,
  ...more,
})

type Part = (asked: ScriptedCall) => void
const answers: Part = (asked) =>
  isStream(asked)
    ? respondWith.stream(asked, chatAnswer.stream(`by ${host(asked)}`))
    : respondWith.json(asked, 200, chatAnswer.whole(`by ${host(asked)}`))
const silent: Part = () => {}
/** The message of vLLM behind nginx while it loads a model. */
const down: Part = (asked) => respondWith.error(asked, 503, { message: 'Service Unavailable', type: 'server_error' })

/** A gateway whose provider `a` is down, so that its circuit is open; its wait for a probe is over. */
const probing = async (stream: boolean, settings: object = {}, keys: readonly string[] = ['k1']) => {
  const parts: Record<string, Part> = { a: down, b: answers, c: answers }
  const it = gatewayHarness(
    [instance('a', keys), instance('b'), instance('c')],
    (asked) => parts[host(asked)]?.(asked),
    { circuit: { slowStart: 0 }, ...settings },
  )
  for (let n = 0; n < 5; n++) {
    it.send(question(stream))
    await it.world.advance(0)
  }
  assert.equal(stateOf(it), 'open')
  await it.world.advance(10_000)
  const before = it.world.calls.length
  return { it, parts, called: () => it.world.calls.slice(before).map(host).join(''), before }
}
const stateOf = ({ gateway }: GatewayHarness) =>
  gateway.health.circuits.phase('a m', gateway.config().settings.circuit).state
const assertNothingRemains = ({ gateway, world }: GatewayHarness) => {
  assert.equal(world.timers(), 0, 'a timer is left')
  assert.equal(gateway.activeCalls.size, 0)
  for (const { keys, ...one } of gateway.config().instances)
    for (const key of keys) assert.equal(gateway.health.load.inFlight({ ...one, keys }, key), 0)
}

for (const stream of [false, true]) {
  const kind = stream ? 'a stream' : 'a whole answer'

  test(`probe: the next target answers after a second: ${kind}`, async () => {
    const { it, parts, called } = await probing(stream)
    parts.a = silent
    const reply = it.send(question(stream))
    await it.world.advance(999)
    assert.equal(called(), 'a')
    await it.world.advance(1)
    assert.equal(called(), 'ab')
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:abandoned, b#k1:200')
    assert.equal(stateOf(it), 'half_open', 'the outcome is still open')
    assert.equal(it.world.calls.filter((call) => host(call) === 'a').at(-1)?.aborted, false)
  })

  test(`probe: its late answer closes the circuit and is not delivered: ${kind}`, async () => {
    const { it, parts } = await probing(stream)
    parts.a = silent
    const reply = it.send(question(stream))
    await it.world.advance(5_000)
    const probe = it.world.calls.filter((call) => host(call) === 'a').at(-1)
    assert.ok(probe)
    const text = reply.text
    answers(probe)
    await it.world.settle()
    assert.equal(stateOf(it), 'closed')
    assert.equal(probe.aborted, true, 'the rest is not read')
    assert.equal(reply.text, text)
    assertNothingRemains(it)
  })

  test(`probe: its late failure keeps the circuit open: ${kind}`, async () => {
    const { it, parts } = await probing(stream)
    parts.a = silent
    it.send(question(stream))
    await it.world.advance(5_000)
    const probe = it.world.calls.filter((call) => host(call) === 'a').at(-1)
    assert.ok(probe)
    down(probe)
    await it.world.settle()
    assert.equal(stateOf(it), 'open')
    assertNothingRemains(it)
  })

  test(`probe: without any answer it fails after circuit.timeout: ${kind}`, async () => {
    const it = gatewayHarness(
      [instance('a'), instance('b')],
      (asked) => (host(asked) === 'a' ? silent(asked) : answers(asked)),
      { fallback: 'any', circuit: { consecutiveFailures: 1 } },
    )
    const circuit = () => it.gateway.health.circuits.phase('a k1 m', it.gateway.config().settings.circuit)
    for (const [wait, expected] of [
      [30_000, 'open'],
      [10_000, 'half_open'],
    ] as const) {
      it.send(question(stream))
      await it.world.advance(wait)
      assert.equal(circuit().state, expected)
    }
    const reply = it.send(question(stream))
    await it.world.advance(1_000)
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:abandoned, b#k1:200')
    await it.world.advance(29_000)
    assert.equal(circuit().state, 'open')
    assertNothingRemains(it)
  })

  test(`probe: a fast failure is not hedged, and a fast answer is delivered: ${kind}`, async () => {
    const { it, parts, called } = await probing(stream)
    it.send(question(stream))
    await it.world.advance(0)
    assert.equal(called(), 'ab')
    await it.world.advance(10_000)
    parts.a = answers
    const reply = it.send(question(stream))
    await it.world.advance(0)
    assert.equal(called(), 'aba')
    assert.equal(reply.headers['x-headgate-provider'], 'a')
    assert.equal(stateOf(it), 'closed')
    await it.world.advance(10_000)
    assertNothingRemains(it)
  })

  test(`probe: if its hedge fails too, the next target is tried at once: ${kind}`, async () => {
    const { it, parts, called } = await probing(stream)
    parts.a = silent
    parts.b = down
    const reply = it.send(question(stream))
    await it.world.advance(1_000)
    assert.equal(called(), 'abc')
    assert.equal(reply.headers['x-headgate-provider'], 'c')
  })

  test(`probe: the hedge needs neither hedging nor the retry budget: ${kind}`, async () => {
    const { it, parts, called } = await probing(stream, {
      retry: { budgetPercent: 0, budgetFloor: 0 },
      hedge: { percent: 0 },
    })
    parts.a = silent
    it.send(question(stream))
    await it.world.advance(1_000)
    assert.equal(called(), 'ab')
  })

  test(`probe: with no other target the client waits, as at any target: ${kind}`, async () => {
    const { it, parts, called } = await probing(stream, { fallback: 'none' })
    parts.a = silent
    const reply = it.send({ ...question(stream), model: 'a/m' })
    await it.world.advance(5_000)
    assert.equal(called(), 'a')
    const probe = it.world.calls.at(-1)
    assert.ok(probe)
    answers(probe)
    await it.world.settle()
    assert.equal(reply.headers['x-headgate-provider'], 'a')
    assert.equal(stateOf(it), 'closed')
  })

  test(`probe: a request that must not be repeated is not hedged: ${kind}`, async () => {
    const { it, parts, called } = await probing(stream)
    parts.a = silent
    it.send(question(stream, { store: true }))
    await it.world.advance(5_000)
    assert.equal(called(), 'a')
  })

  test(`probe: if its client leaves, the probe ends without a verdict: ${kind}`, async () => {
    const { it, parts } = await probing(stream)
    parts.a = silent
    const reply = it.send(question(stream))
    await it.world.advance(500)
    reply.disconnect()
    await it.world.advance(0)
    assert.equal(stateOf(it), 'half_open')
    assertNothingRemains(it)
  })
}

test('probe: the end of the process ends a probe without a client', async () => {
  const { it, parts } = await probing(true)
  parts.a = silent
  it.send(question(true))
  await it.world.advance(1_000)
  for (const call of [...it.gateway.activeCalls])
    call.cancel({ kind: 'shutdown', message: 'The gateway is shutting down.' })
  await it.world.settle()
  assert.equal(stateOf(it), 'half_open')
  assertNothingRemains(it)
})

test('probe: a stream that sends only its start for two minutes is no verdict', async () => {
  const { it, parts } = await probing(true, { timeout: { firstContent: 0, idle: 0 } })
  parts.a = (asked) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role())
  }
  it.send(question(true))
  await it.world.advance(1_000)
  await it.world.advance(120_000)
  assert.equal(stateOf(it), 'half_open')
  assertNothingRemains(it)
})

test('probe: a provider that was down for a minute is used again within half a minute', async () => {
  const start = 1_000
  const it = gatewayHarness([instance('a'), instance('b')], (asked) =>
    host(asked) === 'a' && asked.at < start + 60_000 ? down(asked) : answers(asked),
  )
  const byA: number[] = []
  for (let at = 0; at <= 92_000; at += 4_000) {
    const reply = it.send(question(true))
    await it.world.advance(0)
    assert.equal(reply.status, 200)
    if (reply.headers['x-headgate-provider'] === 'a') byA.push(at)
    await it.world.advance(4_000)
  }
  assert.ok((byA[0] ?? Number.POSITIVE_INFINITY) <= 76_000, `${byA}`)
})
