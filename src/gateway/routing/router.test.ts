/** Hedges, retry budgets and skipped targets. Other cases of routing are in `serve-chat.test.ts`. */
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
import { fail } from '../../core/failure.ts'
import type { Trace } from '../../core/trace.ts'
import { summarize, type TraceSummary } from '../../core/trace-summary.ts'

const question = (stream: boolean, more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content: 'hello' }],
  stream,
  ...more,
})

/** Settings by section. */
type Sections = Readonly<Record<string, unknown>>
type Part = (asked: ScriptedCall) => void
const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const byHost = (parts: Readonly<Record<string, Part>>) => (asked: ScriptedCall) => parts[host(asked)]?.(asked)
const isStream = ({ headers }: ScriptedCall) => headers.accept === 'text/event-stream'

const answers: Part = (asked) =>
  isStream(asked)
    ? respondWith.stream(asked, chatAnswer.stream(`by ${host(asked)}`))
    : respondWith.json(asked, 200, chatAnswer.whole(`by ${host(asked)}`))
const nothing: Part = (asked) => respondWith.json(asked, 200, chatAnswer.whole(''))
const failsWith =
  (status: number, error: object = {}, headers: Readonly<Record<string, string>> = {}): Part =>
  (asked) =>
    respondWith.error(asked, status, error, headers)
const neverResponds: Part = () => {}
/** Starts an answer and sends nothing more: the start of a stream, or the headers of a JSON answer. */
const startsAnswer: Part = (asked) => {
  asked.head(200, { 'content-type': isStream(asked) ? 'text/event-stream' : 'application/json' })
  if (isStream(asked)) asked.send(chatAnswer.role())
}

const hedged: Sections = { hedge: { percent: 100, delay: 1_000 }, strategy: 'priority' }

const abc = () => [instance('a'), instance('b'), instance('c')]
const calledHosts = ({ world }: GatewayHarness) => world.calls.map(host).join('')
const textOf = (reply: CapturedReply, stream: boolean): string =>
  stream
    ? [...reply.text.matchAll(/"content":"([^"]+)"/g)].map(([, text]) => text).join('')
    : reply.json.choices[0].message.content
const lastOf = ({ events }: GatewayHarness): TraceSummary => {
  const traces = events.flatMap((item): Trace[] => (item.event === 'request' ? [item.trace] : []))
  return summarize(traces.at(-1) ?? [])
}
/** Asserts that nothing of the request remains: no timer, no permit. */
const assertNothingRemains = ({ gateway, world }: GatewayHarness) => {
  assert.equal(world.timers(), 0, 'a timer is left')
  for (const instance of gateway.config().instances)
    for (const key of instance.keys)
      assert.equal(gateway.health.load.inFlight(instance, key), 0, `${instance.id} still counts a request in flight`)
}
const callTo = ({ world }: GatewayHarness, id: string): ScriptedCall => {
  const call = world.calls.findLast((asked) => host(asked) === id)
  assert.ok(call, `${id} received no request`)
  return call
}

type Case = {
  readonly name: string
  readonly parts: Readonly<Record<string, Part>>
  /** What these targets do when the hedge has started, and 500 ms later. */
  readonly next?: readonly (readonly [string, Part])[]
  readonly settings?: Sections
  readonly hosts: string
  readonly trail: string
  readonly by?: string
  readonly status?: number
  readonly code?: string
  readonly hedge: TraceSummary['hedge']
}

const cases: readonly Case[] = [
  {
    name: 'the second is faster',
    parts: { a: neverResponds, b: answers },
    hosts: 'ab',
    trail: 'a:abandoned, b:200',
    by: 'b',
    hedge: 'won',
  },
  {
    name: 'the first has started its answer',
    parts: { a: startsAnswer, b: answers },
    hosts: 'ab',
    trail: 'a:abandoned, b:200',
    by: 'b',
    hedge: 'won',
  },
  {
    name: 'the first is faster after all',
    parts: { a: neverResponds, b: startsAnswer },
    next: [['a', answers]],
    hosts: 'ab',
    trail: 'a:200, b:abandoned',
    by: 'a',
    hedge: 'lost',
  },
  {
    name: 'the first fails, and the second replaces it',
    parts: { a: neverResponds, b: neverResponds },
    next: [
      ['a', failsWith(500)],
      ['b', answers],
    ],
    hosts: 'ab',
    trail: 'a:500, b:200',
    by: 'b',
    hedge: 'won',
  },
  {
    name: 'the second fails, and the first answers later',
    parts: { a: neverResponds, b: failsWith(500) },
    next: [['a', answers]],
    hosts: 'ab',
    trail: 'a:200, b:500',
    by: 'a',
    hedge: 'lost',
  },
  {
    name: 'both fail, and a third answers',
    parts: { a: neverResponds, b: neverResponds, c: answers },
    next: [
      ['b', failsWith(500)],
      ['a', failsWith(503)],
    ],
    hosts: 'abc',
    trail: 'a:503, b:500, c:200',
    by: 'c',
    hedge: 'lost',
  },
  {
    name: 'both count as attempts',
    parts: { a: neverResponds, b: neverResponds, c: answers },
    next: [
      ['a', failsWith(500)],
      ['b', failsWith(500)],
    ],
    settings: { retry: { maxAttempts: 2 } },
    hosts: 'ab',
    trail: 'a:500, b:500',
    status: 502,
    code: 'status',
    hedge: 'lost',
  },
  {
    name: 'no attempt is left',
    parts: { a: neverResponds, b: answers },
    next: [['a', failsWith(500)]],
    settings: { retry: { maxAttempts: 1 } },
    hosts: 'a',
    trail: 'a:500',
    status: 502,
    code: 'status',
    hedge: undefined,
  },
  {
    name: 'a rejected key does not count as an attempt',
    parts: { a: neverResponds, b: failsWith(401), c: answers },
    next: [['a', failsWith(500)]],
    settings: { retry: { maxAttempts: 2 } },
    hosts: 'abc',
    trail: 'a:500, b:401, c:200',
    by: 'c',
    hedge: 'lost',
  },
  {
    name: 'a content refusal of the first cancels the second',
    parts: { a: neverResponds, b: startsAnswer },
    next: [
      ['a', failsWith(400, { code: 'content_policy_violation' })],
      ['b', answers],
    ],
    hosts: 'ab',
    trail: 'a:400, b:abandoned',
    status: 400,
    code: 'content_policy_violation',
    hedge: 'lost',
  },
  {
    name: 'refused content at the first cancels the second',
    parts: { a: neverResponds, b: startsAnswer },
    next: [['a', failsWith(400, { code: 'content_policy_violation' })]],
    hosts: 'ab',
    trail: 'a:400, b:abandoned',
    status: 400,
    hedge: 'lost',
  },
  {
    name: 'a refusal by the second leaves the first running',
    parts: { a: neverResponds, b: failsWith(400, { type: 'invalid_request_error' }) },
    next: [['a', answers]],
    hosts: 'ab',
    trail: 'a:200, b:incompatible',
    by: 'a',
    hedge: 'lost',
  },
  {
    name: 'refused content at the second, and a failing first: no other target is tried',
    parts: { a: neverResponds, b: failsWith(400, { code: 'content_policy_violation' }), c: answers },
    next: [['a', failsWith(503)]],
    hosts: 'ab',
    trail: 'a:503, b:400',
    status: 400,
    code: 'content_policy_violation',
    hedge: 'lost',
  },
  {
    name: 'two empty answers',
    parts: { a: neverResponds, b: nothing, c: answers },
    next: [['a', nothing]],
    hosts: 'ab',
    trail: 'a:empty, b:empty',
    by: 'a',
    hedge: 'lost',
  },
]

for (const stream of [false, true])
  for (const { name, parts, next = [], settings, hedge, trail, by, status = 200, code, ...one } of cases)
    test(`hedge: ${name}: ${stream ? 'a stream' : 'a whole answer'}`, async () => {
      const it = gatewayHarness(abc(), byHost(parts), { ...hedged, ...settings })
      const reply = it.send(question(stream))
      await it.world.advance(999)
      assert.equal(calledHosts(it), 'a')
      await it.world.advance(1)
      for (const [id, respond] of next) {
        await it.world.advance(500)
        const call = it.world.calls.findLast((asked) => host(asked) === id)
        if (call && !call.aborted) respond(call)
        await it.world.settle()
      }
      assert.equal(calledHosts(it), one.hosts)
      assert.equal(reply.ending, 'ended', reply.text)
      assert.equal(reply.status, status, reply.text)
      assert.equal(reply.headers['x-headgate-trail'], trail.replaceAll(/([abc]):/g, '$1#k1:'))
      assert.equal(reply.headers['x-headgate-attempts'], String(one.hosts.length))
      if (by) assert.equal(reply.headers['x-headgate-provider'], by)
      if (by && !trail.includes('empty')) assert.equal(textOf(reply, stream), `by ${by}`)
      if (code) assert.equal(reply.json.error.code, code)
      const summary = lastOf(it)
      assert.equal(summary.hedge, hedge)
      assert.ok(summary.overheadMs < 1, `${summary.overheadMs}`)
      for (const [index, attempt] of summary.attempts.entries())
        if (attempt.end === 'abandoned')
          assert.equal(it.world.calls[index]?.aborted, true, 'the losing call is still open')
      assertNothingRemains(it)
    })

test('hedge: only a hedge that replaces a failed first emits a fallback event', async () => {
  const fallbacksOf = ({ events }: GatewayHarness) =>
    events.flatMap((item) => (item.event === 'fallback' ? [`${item.from} ${item.to} ${item.kind}`] : []))
  for (const [first, second, expected] of [
    [failsWith(500), answers, ['a#k1/m b#k1/m status']],
    [answers, failsWith(500), []],
  ] as const) {
    const it = gatewayHarness(abc(), byHost({ a: neverResponds, b: neverResponds, c: answers }), hedged)
    it.send(question(false))
    await it.world.advance(1_000)
    // The failing one fails first.
    for (const [id, respond] of expected.length > 0
      ? ([
          ['a', first],
          ['b', second],
        ] as const)
      : ([
          ['b', second],
          ['a', first],
        ] as const)) {
      respond(callTo(it, id))
      await it.world.settle()
    }
    assert.deepEqual(fallbacksOf(it), expected)
  }
})

test('hedge: a target that may not be tried now is skipped', async () => {
  const limited = failsWith(429, {}, { 'retry-after': '60' })
  const it = gatewayHarness(abc(), byHost({ a: neverResponds, b: limited, c: answers }), hedged)
  // This request finds b rate limited.
  const first = it.send({ ...question(false), model: 'b/m' })
  await it.world.advance(0)
  answers(callTo(it, 'a'))
  await it.world.settle()
  assert.equal(first.headers['x-headgate-trail'], 'b#k1:429, a#k1:200')
  it.send(question(false))
  await it.world.advance(1_000)
  assert.equal(calledHosts(it), 'baac')
  assertNothingRemains(it)
})

// ── Without a hedge ───────────────────────────────────────────────────────────────────────────────────────────────

const chatTool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }

/** [reason, instances, settings, other members of the request] */
const none: readonly (readonly [string, ReturnType<typeof abc>, Sections, object])[] = [
  ['it is not configured', abc(), {}, {}],
  ['its percentage is 0', abc(), { hedge: { percent: 0, delay: 0 } }, {}],
  ['there is only another key of the provider', [instance('a', ['k1', 'k2'])], hedged, {}],
  [
    'no other target is fit',
    [instance('a'), instance('b', ['k1'], { speaks: [{ protocol: 'ollama' }] })],
    hedged,
    { n: 2 },
  ],
  ['the provider stores the answer', abc(), hedged, { store: true }],
  ['the provider runs a tool', abc(), hedged, { web_search_options: {} }],
  ['the retry budget is used up', abc(), { ...hedged, retry: { budgetPercent: 0, budgetFloor: 0 } }, {}],
  ['the hedge credit is too low', abc(), { hedge: { percent: 99, delay: 1_000 } }, {}],
]
for (const stream of [false, true])
  for (const [why, instances, settings, more] of none)
    test(`hedge: none where ${why}: ${stream ? 'a stream' : 'a whole answer'}`, async () => {
      const it = gatewayHarness(instances, neverResponds, {
        ...settings,
        circuit: { timeout: 0 },
        timeout: { firstContent: 0 },
      })
      const reply = it.send(question(stream, more))
      await it.world.advance(60_000)
      assert.equal(calledHosts(it), 'a')
      answers(callTo(it, 'a'))
      await it.world.settle()
      assert.equal(reply.status, 200, reply.text)
      assert.equal(lastOf(it).hedge, undefined)
      assertNothingRemains(it)
    })

test('hedge: functions that the client runs do not prevent it', async () => {
  const it = gatewayHarness(abc(), neverResponds, hedged)
  it.send(question(false, { tools: [chatTool], store: false }))
  await it.world.advance(1_000)
  assert.equal(calledHosts(it), 'ab')
})

test('hedge: at most once per request', async () => {
  const it = gatewayHarness(abc(), byHost({ a: neverResponds, b: failsWith(500), c: neverResponds }), {
    ...hedged,
    circuit: { timeout: 0 },
  })
  it.send(question(false))
  await it.world.advance(30_000)
  assert.equal(calledHosts(it), 'ab')
})

test('hedge: half of the requests at 50 percent', async () => {
  const it = gatewayHarness(abc(), byHost({ a: neverResponds, b: answers }), {
    hedge: { percent: 50, delay: 1_000 },
    circuit: { timeout: 0 },
  })
  const trails: string[] = []
  for (let n = 0; n < 6; n++) {
    const reply = it.send(question(false))
    await it.world.advance(1_500)
    if (!reply.ending) answers(callTo(it, 'a'))
    await it.world.settle()
    trails.push(reply.headers['x-headgate-provider'] ?? '')
  }
  assert.equal(trails.join(''), 'ababab')
})

test('hedge: the delay adapts to a slow provider, for streams and JSON answers apart', async () => {
  for (const stream of [false, true]) {
    const it = gatewayHarness(abc(), neverResponds, { ...hedged, hedge: { percent: 1, delay: 1_000 } })
    for (let n = 0; n < 99; n++) {
      it.send(question(stream))
      await it.world.advance(n < 94 ? 2_500 : 4_000)
      answers(callTo(it, 'a'))
      await it.world.settle()
    }
    assert.equal(calledHosts(it), 'a'.repeat(99))
    // 89 of the last 94 answers within five minutes took 2.5 s, so that is still the 95th percentile.
    it.send(question(stream))
    await it.world.advance(2_499)
    assert.equal(it.world.calls.length, 99 + 1)
    await it.world.advance(1_501)
    assert.equal(calledHosts(it).slice(99), 'ab')
  }
})

test('hedge: a cancelled first attempt is not charged', async () => {
  const it = gatewayHarness(abc(), byHost({ a: neverResponds, b: answers }), {
    ...hedged,
    circuit: { consecutiveFailures: 1 },
  })
  for (let n = 0; n < 3; n++) {
    it.send(question(n % 2 === 0))
    await it.world.advance(1_000)
  }
  assert.equal(calledHosts(it), 'ababab')
  assert.deepEqual(
    it.events.filter(({ event }) => event !== 'request'),
    [],
  )
})

// ── Cancelled with two attempts running ───────────────────────────────────────────────────────────────────────────

const stops: readonly (readonly [
  string,
  (it: GatewayHarness, reply: CapturedReply) => Promise<void> | void,
  string,
])[] = [
  ['the client leaves', (_, reply) => reply.disconnect(), 'client_gone'],
  ['its deadline passes', (it) => it.world.advance(10_000), 'deadline'],
  [
    'the process shuts down',
    ({ gateway }) => {
      for (const stop of gateway.activeCalls) stop.cancel(fail('shutdown', 'the process shuts down'))
    },
    'shutdown',
  ],
]
for (const stream of [false, true])
  for (const [name, stop, kind] of stops)
    test(`hedge: ${name}: both end, and no other target is tried: ${stream ? 'a stream' : 'a whole answer'}`, async () => {
      const it = gatewayHarness(abc(), startsAnswer, { ...hedged, timeout: { request: 5_000 } })
      const reply = it.send(question(stream))
      await it.world.advance(1_000)
      assert.equal(calledHosts(it), 'ab')
      await stop(it, reply)
      await it.world.settle()
      assert.equal(calledHosts(it), 'ab')
      assert.deepEqual(
        it.world.calls.map(({ aborted }) => aborted),
        [true, true],
      )
      assert.equal(reply.ending, kind === 'client_gone' ? 'cut' : 'ended')
      assert.equal(lastOf(it).failure?.kind, kind)
      assertNothingRemains(it)
    })

test('hedge: none starts during cancellation', async () => {
  const it = gatewayHarness(abc(), neverResponds, { ...hedged, timeout: { request: 1_000 } })
  const reply = it.send(question(false))
  await it.world.advance(5_000)
  assert.equal(calledHosts(it), 'a')
  assert.equal(reply.status, 504)
  assertNothingRemains(it)
})

// ── The retry budget ──────────────────────────────────────────────────────────────────────────────────────────────

test('budget: a key skipped for the retry budget is in the trail and the log, and the last error is returned', async () => {
  const settings: Sections = { retry: { budgetPercent: 0, budgetFloor: 1 }, circuit: { consecutiveFailures: 0 } }
  const it = gatewayHarness([instance('a', ['k1', 'k2'])], failsWith(500, { message: 'it broke' }), settings)
  const seen: (readonly [attempts: string | undefined, trail: string | undefined, skipped: readonly string[]])[] = []
  for (let n = 0; n < 2; n++) {
    const reply = it.send(question(false))
    await it.world.advance(0)
    assert.equal(reply.status, 502)
    assert.match(reply.json.error.message, /it broke/)
    const { 'x-headgate-attempts': attempts, 'x-headgate-trail': trail } = reply.headers
    assert.equal(reply.json.error.attempts.length, Number(attempts), 'only attempts are listed as such')
    seen.push([attempts, trail?.replaceAll(/k[12]/g, 'k'), lastOf(it).skipped.map(({ why }) => why)])
  }
  assert.deepEqual(seen, [
    ['2', 'a#k:500, a#k:500', []],
    ['1', 'a#k:500, a#k:retry_budget', ['retry_budget']],
  ])
})

test('budget: failover to another model of the same provider is never refused', async () => {
  const settings: Sections = {
    retry: { budgetPercent: 0, budgetFloor: 0 },
    circuit: { consecutiveFailures: 0, minRequests: 1_000 },
    routes: { pair: ['a/big', 'a/small'] },
  }
  const bigFails: Part = (asked) => (asked.body?.includes('"big"') ? failsWith(500)(asked) : answers(asked))
  const it = gatewayHarness([instance('a')], bigFails, settings)
  for (let n = 0; n < 20; n++) {
    const reply = it.send({ ...question(n % 2 === 0), model: 'pair' })
    await it.world.advance(0)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-model'], 'small')
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:500, a#k1:200')
  }
})

test('budget: each model of a provider has a separate one', async () => {
  const settings: Sections = {
    retry: { budgetPercent: 0, budgetFloor: 1 },
    circuit: { consecutiveFailures: 0, minRequests: 1_000 },
    fallback: 'none',
  }
  const it = gatewayHarness([instance('a', ['k1', 'k2'])], failsWith(500), settings)
  const attempts: string[] = []
  for (const model of ['a/one', 'a/one', 'a/two', 'a/two']) {
    const reply = it.send({ ...question(false), model })
    await it.world.advance(0)
    attempts.push(reply.headers['x-headgate-attempts'] ?? '')
  }
  assert.deepEqual(attempts, ['2', '1', '2', '1'])
})

test('budget: one client’s failing requests do not use up the budget of others', async () => {
  const settings: Sections = {
    retry: { budgetPercent: 0, budgetFloor: 4 },
    circuit: { consecutiveFailures: 0, minRequests: 1_000 },
  }
  const it = gatewayHarness([instance('a', ['k1', 'k2'])], failsWith(500), settings)
  const attempts: string[] = []
  for (const client of ['x', 'x', 'x', 'x', 'y', 'y', 'y', 'z']) {
    const reply = it.send(question(false), 'openai-chat', client)
    await it.world.advance(0)
    attempts.push(`${client}${reply.headers['x-headgate-attempts']}`)
  }
  assert.deepEqual(attempts, ['x2', 'x2', 'x1', 'x1', 'y2', 'y2', 'y1', 'z1'])
})

test('budget: a request with side effects is not sent again to the only target', async () => {
  const tool = { type: 'mcp', server_label: 'mail', server_url: 'https://mail.example' }
  const responses = () => [instance('a', ['k1'], { speaks: [{ protocol: 'openai-responses' }] })]
  for (const [tools, calls] of [
    [[], 2],
    [[tool], 1],
  ] as const) {
    const it = gatewayHarness(responses(), failsWith(500), {})
    it.send({ model: 'm', input: 'hello', tools }, 'openai-responses')
    await it.world.advance(5_000)
    assert.equal(it.world.calls.length, calls)
    // The HTTP client must not resend it on a new connection either.
    assert.equal(it.world.calls[0]?.once === true, calls === 1)
  }
})

/** 60 providers, each of which counts the requests prepared for it. */
const counting = (parts: (id: string) => Part, more: object = {}) => {
  const written: string[] = []
  const ids = Array.from({ length: 60 }, (_, n) => `p${n}`)
  const instances = ids.map((id) =>
    instance(id, ['k1'], {
      quirks: {
        requestBody: (body) => {
          written.push(id)
          return body
        },
      },
    }),
  )
  const circuit = { consecutiveFailures: 1, slowStart: 0, whenAllOpen: 'fail' }
  const it = gatewayHarness(instances, (asked) => parts(host(asked))(asked), {
    circuit,
    retry: { maxAttempts: 100 },
    ...more,
  })
  return { it, written }
}
const refuses: Part = (asked) => asked.fail(fail('refused', 'refused'))

test('open circuits: no request is prepared for skipped targets', async () => {
  const { it, written } = counting((id) => (id === 'p59' ? answers : refuses))
  for (const wanted of [60, 1, 1]) {
    written.length = 0
    const reply = it.send(question(false))
    for (let n = 0; n < 60 && reply.status === null; n++) await it.world.advance(10)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(written.length, wanted)
  }
})

test('open circuits: without a target, an unsupported member is reported rather than the open circuits', async () => {
  // A member that no other protocol supports and that the answer needs.
  const foreign = { tools: [{ type: 'local_shell' }] }
  const it = gatewayHarness([instance('a'), instance('b')], refuses, {
    circuit: { consecutiveFailures: 1, whenAllOpen: 'fail' },
  })
  it.send(question(false))
  await it.world.advance(5_000)
  assert.equal(it.world.calls.length, 2)
  const out = it.send(question(false))
  const unfit = it.send({ model: 'm', input: 'hello', ...foreign }, 'openai-responses')
  await it.world.advance(5_000)
  assert.deepEqual([out.status, unfit.status], [503, 400])
  assert.equal(it.world.calls.length, 2)
})

// ── Skipped targets ───────────────────────────────────────────────────────────────────────────────────────────────

test('skipped: an open circuit, a limited key and an unfit model are in the trail and the log, and do not count as attempts', async () => {
  const parts = {
    a: refuses,
    b: failsWith(429, {}, { 'retry-after': '60' }),
    d: answers,
  }
  // Two keys of an unfit model are one skip, under either key.
  const unfit = instance('c', ['k1', 'k2'], { speaks: [{ protocol: 'ollama' }] })
  const oneKey = (text = '') => text.replaceAll('c#k2', 'c#k1')
  const it = gatewayHarness([instance('a'), instance('b'), unfit, instance('d')], byHost(parts), {
    circuit: { consecutiveFailures: 1, whenAllOpen: 'fail' },
  })
  const first = it.send(question(false, { n: 2 }))
  await it.world.advance(0)
  assert.equal(oneKey(first.headers['x-headgate-trail']), 'a#k1:refused, b#k1:429, c#k1:unfit, d#k1:200')
  for (const stream of [false, true]) {
    const reply = it.send(question(stream, { n: 2 }))
    await it.world.advance(0)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(oneKey(reply.headers['x-headgate-trail']), 'a#k1:circuit, b#k1:rate_limited, c#k1:unfit, d#k1:200')
    assert.equal(reply.headers['x-headgate-attempts'], '1')
    const { skipped, attempts } = lastOf(it)
    assert.deepEqual(
      skipped.map(({ provider, model, key, why }) => oneKey(`${provider}#${key}/${model}:${why}`)),
      ['a#k1/m:circuit', 'b#k1/m:rate_limited', 'c#k1/m:unfit'],
    )
    assert.equal(attempts.length, 1)
  }
})

test('skipped: a target is listed once, regardless of the number of attempts', async () => {
  // A conflict is charged to no circuit.
  const it = gatewayHarness(abc(), byHost({ a: refuses, b: failsWith(409), c: answers }), {
    circuit: { consecutiveFailures: 1, whenAllOpen: 'fail' },
  })
  const trails: (string | undefined)[] = []
  for (let n = 0; n < 2; n++) {
    const reply = it.send(question(false))
    await it.world.advance(0)
    trails.push(reply.headers['x-headgate-trail'])
  }
  assert.deepEqual(trails, ['a#k1:refused, b#k1:409, c#k1:200', 'a#k1:circuit, b#k1:409, c#k1:200'])
})

test('skipped: a model with a window no larger than one that was too small', async () => {
  const tooLong = failsWith(400, { code: 'context_length_exceeded' })
  const windows: Readonly<Record<string, number>> = { a: 8_000, b: 4_000, c: 32_000 }
  const it = gatewayHarness(abc(), byHost({ a: tooLong, c: answers }), {}, (provider) => ({
    contextWindow: windows[provider] ?? 0,
  }))
  const reply = it.send(question(false))
  await it.world.advance(0)
  assert.equal(reply.headers['x-headgate-trail'], 'a#k1:400, b#k1:window, c#k1:200')
})

test('skipped: twelve are listed and the others counted, so that the trail ends with the answer', async () => {
  const { it } = counting((id) => (id === 'p59' ? answers : refuses))
  for (let n = 0; n < 2; n++) {
    const reply = it.send(question(false))
    for (let tries = 0; tries < 60 && reply.status === null; tries++) await it.world.advance(10)
    if (n === 0) continue
    const trail = reply.headers['x-headgate-trail'] ?? ''
    assert.equal(trail.split(', ').length, 14)
    assert.match(trail, /^p0#k1:circuit, p1#k1:circuit, .*p11#k1:circuit, \+47 skipped, p59#k1:200$/)
  }
})
