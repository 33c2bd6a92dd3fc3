/**
 * Circuit breakers as the settings describe them, observed from outside: upstream requests, client responses, the log
 * and `/providers/status`. Each test has a provider of its own.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import { type Act, type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import { type BadAddress, resettingUrl } from './support/bad-sockets.ts'
import type { Started } from './support/process.ts'
import {
  type Answer,
  callsOf,
  PATHS,
  rawClient,
  rawRequest,
  sendChat,
  sleep,
  stage,
  statusOf,
} from './support/stage.ts'

type Circuit = Readonly<Record<string, number | string>>

/** Upstream behaviour, by letter. */
const ACTS: Readonly<Record<string, (request: UpstreamRequest) => Act>> = {
  o: (request) => answerWith(request, { text: 'fine' }),
  f: (request) => failWith(request, 500, { type: 'server_error', message: 'broken' }),
  /** Rate-limited for 1 ms. */
  l: (request) => failWith(request, 429, { type: 'rate_limit_error', message: 'slow down' }, { 'retry-after-ms': '1' }),
  a: (request) => failWith(request, 401, { type: 'authentication_error', message: 'who?' }),
  i: (request) => failWith(request, 400, { type: 'invalid_request_error', message: 'no such thing' }),
  q: (request) => failWith(request, 402, { type: 'billing_error', message: 'no credit' }),
  /** Ends the connection after content. */
  b: (request) => ({
    do: 'stream',
    pieces: piecesOf(request, { text: 'one two three' }).slice(0, 3),
    gap: 2,
    ending: 'close',
  }),
  /** Content, and then silence. */
  s: (request) => ({ do: 'stream', pieces: piecesOf(request, { text: 'one two three' }).slice(0, 3), ending: 'stall' }),
  h: () => ({ do: 'hang' }),
}

const NAMES = ['p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7', 'p8', 'p9'] as const
type Name = (typeof NAMES)[number]

type Bench = {
  gateway(): Started
  upstream(): Upstream
  /** Sets the behaviour of this provider from now on. */
  play(name: Name, act: (request: UpstreamRequest) => Act | Promise<Act>): void
  /** One call without retries, with the upstream behaviour of the letter. */
  one(name: Name, letter: string, model?: string, stream?: boolean): Promise<Answer>
  /** Sequential calls; returns their statuses. */
  many(name: Name, letters: string, model?: string): Promise<number[]>
  calls(name: Name): number
  state(name: Name): Promise<string>
  /** Waits until the circuit is half-open, at most 20 s. */
  halfOpen(name: Name): Promise<void>
  /** Circuit changes so far, as `from>to`. */
  changes(name: Name): Promise<string[]>
}

const bench = (
  circuit: Circuit,
  more: {
    readonly keys?: Readonly<Partial<Record<Name, number>>>
    readonly at?: (name: Name) => string | undefined
    readonly settings?: object
  } = {},
): Bench => {
  const on = stage()
  const acts = new Map<string, (request: UpstreamRequest) => Act | Promise<Act>>()
  let gateway: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) => acts.get(request.path.split('/')[1] ?? '')?.(request) ?? { do: 'hang' })
    gateway = await on.gateway({
      fallback: 'none',
      // One attempt for each call, so that each call is one outcome.
      retry: { maxAttempts: 1 },
      keepAlive: { interval: 0 },
      circuit: { timeout: 15_000, ...circuit },
      providers: Object.fromEntries(
        NAMES.map((name) => [
          name,
          {
            baseUrl: `${more.at?.(name) ?? upstream.url}/${name}/v1`,
            keys: Array.from({ length: more.keys?.[name] ?? 1 }, (_, at) => `sk-${name}-${'abcdefgh'[at]}-0123456789`),
          },
        ]),
      ),
      ...more.settings,
    })
  })
  const made: Bench = {
    gateway: () => gateway,
    upstream: () => upstream,
    play: (name, act) => void acts.set(name, act),
    async one(name, letter, model = 'm', stream = letter === 'b' || letter === 's') {
      const act = ACTS[letter]
      assert.ok(act)
      acts.set(name, act)
      return sendChat(gateway, { style: 'chat', model: `${name}/${model}`, stream })
    },
    async many(name, letters, model) {
      const statuses: number[] = []
      for (const letter of letters) statuses.push((await made.one(name, letter, model)).status)
      return statuses
    },
    calls: (name) => callsOf(upstream).filter(({ path }) => path.startsWith(`/${name}/`)).length,
    state: async (name) => (await statusOf(gateway, name)).circuit.state,
    halfOpen: (name) => eventually('half open', async () => (await made.state(name)) === 'half_open'),
    changes: async (name) =>
      (await gateway.logged())
        .filter(
          ({ event, name: of }) =>
            event === 'circuit' && (String(of).startsWith(`${name} `) || String(of).includes(`/${name}/`)),
        )
        .map(({ from, to }) => `${from}>${to}`),
  }
  return made
}

/** A client that leaves once it has received content, or immediately. */
const leave = async ({ gateway, upstream, play, calls }: Bench, name: Name, letter: 's' | 'h'): Promise<void> => {
  play(name, ACTS[letter] ?? (() => ({ do: 'hang' })))
  const seen = calls(name)
  const body = JSON.stringify({ model: `${name}/m`, stream: true, messages: [{ role: 'user', content: 'x' }] })
  const client = await rawClient(gateway().url, rawRequest(PATHS.chat, body))
  await until('in flight', () => calls(name) > seen && (letter === 'h' || client.text().includes('one')))
  client.socket.destroy()
  await until('released', () =>
    upstream().requests.every(({ path, ended }) => !path.startsWith(`/${name}/`) || ended !== 'open'),
  )
}

/** ms. Long enough that calls made to an open circuit still find it open on a busy machine. */
const RESET = 4_000

/** Waits until an asynchronous check holds, at most 20 s. */
const eventually = async (what: string, check: () => Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 120_000; !(await check()); await sleep(20))
    assert.ok(performance.now() < end, `not within 20 s: ${what}`)
}

const WINDOW = {
  errorThreshold: 50,
  minRequests: 4,
  consecutiveFailures: 0,
  resetTimeout: RESET,
  whenAllOpen: 'fail',
}

describe('circuits: the window', { concurrency: true }, () => {
  const it = bench(WINDOW)
  const { one, many, calls, state, changes } = it

  test('opens when half of the minimum outcomes failed, and then sends nothing', async () => {
    assert.deepEqual(await many('p1', 'oof'), [200, 200, 502])
    assert.equal(await state('p1'), 'closed')
    await one('p1', 'f')
    const status = await statusOf(it.gateway(), 'p1')
    assert.equal(status.circuit.state, 'open')
    assert.equal(status.status, 'unavailable')
    assert.deepEqual([status.circuit.failures, status.circuit.error_rate], [2, 50])
    const { opened_at, retry_at } = status.circuit
    const openFor = Date.parse(retry_at ?? '') - Date.parse(opened_at ?? '')
    assert.ok(openFor >= RESET - 5 && openFor <= RESET + 5, `open for ${openFor}`)
    assert.equal(status.models[0]?.status, 'unavailable')
    assert.equal(status.models[0]?.circuit.state, 'open')

    const refused = await one('p1', 'o')
    assert.equal(refused.status, 503)
    assert.equal(refused.json().error.code, 'no_target_available')
    assert.equal(refused.headers.get('x-headgate-attempts'), '0')
    const wait = Number(refused.headers.get('retry-after'))
    assert.ok(wait >= 1 && wait <= RESET / 1_000, `retry-after: ${wait}`)
    assert.equal(refused.headers.get('x-should-retry'), 'true')
    assert.equal(calls('p1'), 4)
    const health = (await (await fetch(`${it.gateway().url}/health`)).json()) as { status: string }
    assert.equal(health.status, 'degraded')
  })

  test('stays closed below the minimum number of outcomes', async () => {
    await many('p2', 'fff')
    assert.equal(await state('p2'), 'closed')
    await one('p2', 'f')
    assert.equal(await state('p2'), 'open')
  })

  test('stays closed below the threshold and opens at it', async () => {
    await many('p3', 'oooff')
    assert.equal((await statusOf(it.gateway(), 'p3')).circuit.error_rate, 40)
    assert.equal(await state('p3'), 'closed')
    await one('p3', 'f')
    assert.equal(await state('p3'), 'open')
  })

  test('after the reset time one real request probes: a failure reopens it, a success closes it', async () => {
    await many('p4', 'ffff')
    assert.equal(await state('p4'), 'open')
    await it.halfOpen('p4')
    const before = calls('p4')
    assert.equal((await one('p4', 'f')).status, 502, 'the probe is a real request')
    assert.equal(calls('p4'), before + 1)
    assert.equal(await state('p4'), 'open')
    assert.equal((await one('p4', 'o')).status, 503)
    assert.equal(calls('p4'), before + 1)

    await it.halfOpen('p4')
    let answer: (act: Act) => void = () => {}
    it.play(
      'p4',
      (request) => new Promise<Act>((resolve) => (answer = () => resolve(answerWith(request, { text: 'fine' })))),
    )
    const probe = sendChat(it.gateway(), { style: 'chat', model: 'p4/m', stream: false })
    await until('probing', () => calls('p4') === before + 2)
    const others = await Promise.all(
      Array.from({ length: 5 }, () => sendChat(it.gateway(), { style: 'chat', model: 'p4/m', stream: false })),
    )
    assert.deepEqual(
      others.map(({ status }) => status),
      [503, 503, 503, 503, 503],
      'one probe at a time',
    )
    answer({ do: 'hang' })
    assert.equal((await probe).status, 200)
    const after = await statusOf(it.gateway(), 'p4')
    assert.equal(after.circuit.state, 'closed')
    assert.equal(after.status, 'available')
    assert.deepEqual(await many('p4', 'ooo'), [200, 200, 200])
    assert.deepEqual(await changes('p4'), [
      'closed>open',
      'open>half_open',
      'half_open>open',
      'open>half_open',
      'half_open>closed',
    ])
  })
})

describe('circuits: outcomes that do not count', { concurrency: true }, () => {
  const it = bench(WINDOW)
  const { one, many, calls, state, changes } = it

  test('late outcomes of earlier calls neither close it nor count later', async () => {
    const late: ((act: Act) => void)[] = []
    it.play('p5', () => new Promise<Act>((resolve) => void late.push(resolve)))
    const succeeds = sendChat(it.gateway(), { style: 'chat', model: 'p5/m', stream: false })
    const fails = sendChat(it.gateway(), { style: 'chat', model: 'p5/m', stream: false })
    await until('both in flight', () => late.length === 2)
    await many('p5', 'ffff')
    assert.equal(await state('p5'), 'open')
    const request = callsOf(it.upstream()).find(({ path }) => path.startsWith('/p5/'))
    assert.ok(request)
    late[0]?.(answerWith(request, { text: 'late' }))
    assert.equal((await succeeds).status, 200)
    assert.equal(await state('p5'), 'open', 'still')
    await it.halfOpen('p5')
    assert.equal((await one('p5', 'o')).status, 200)
    assert.equal(await state('p5'), 'closed')
    late[1]?.(failWith(request, 500, { type: 'server_error', message: 'late' }))
    assert.equal((await fails).status, 502)
    assert.equal((await statusOf(it.gateway(), 'p5')).circuit.failures, 0)
  })

  test('a probe that is cancelled or rate-limited frees its slot', async () => {
    await many('p6', 'ffff')
    await it.halfOpen('p6')
    await leave(it, 'p6', 'h')
    assert.equal(await state('p6'), 'half_open')
    assert.equal((await one('p6', 'l')).status, 429)
    assert.equal(await state('p6'), 'half_open')
    await sleep(5)
    assert.equal((await one('p6', 'o')).status, 200)
    assert.equal(await state('p6'), 'closed')
  })

  test('outcomes unrelated to health do not count', async () => {
    for (const letter of 'llllll') {
      assert.equal((await one('p7', letter)).status, 429)
      await sleep(5)
    }
    assert.deepEqual(await many('p7', 'iiiiii'), [400, 400, 400, 400, 400, 400])
    for (let at = 0; at < 6; at++) await leave(it, 'p7', at % 2 === 0 ? 'h' : 's')
    assert.equal(calls('p7'), 18)
    const { circuit } = await statusOf(it.gateway(), 'p7')
    assert.deepEqual([circuit.state, circuit.failures], ['closed', 0])
    assert.equal((await one('p7', 'o')).status, 200)
    await one('p7', 'q')
    assert.equal((await statusOf(it.gateway(), 'p7')).circuit.failures, 0)
    assert.deepEqual(await changes('p7'), [])
  })

  test('an open circuit of one model does not affect other models of the key', async () => {
    await many('p8', 'ffff', 'bad')
    assert.equal((await one('p8', 'o', 'bad')).status, 503)
    assert.equal((await one('p8', 'o', 'good')).status, 200)
    const { models, circuit, status } = await statusOf(it.gateway(), 'p8')
    const stateOf = (id: string) => models.find((model) => model.id === id)?.circuit.state
    assert.deepEqual([stateOf('bad'), stateOf('good'), circuit.state, status], ['open', 'closed', 'closed', 'degraded'])
  })
})

describe('circuits: keys and addresses', { concurrency: true }, () => {
  let resetting: BadAddress | undefined
  const on = stage()
  before(async () => {
    resetting = await resettingUrl()
    on.keep(() => resetting?.close())
  })
  const it = bench(
    {
      errorThreshold: 50,
      minRequests: 4,
      consecutiveFailures: 0,
      firstProbe: 60_000,
      resetTimeout: 60_000,
      whenAllOpen: 'fail',
    },
    {
      keys: { p1: 2, p5: 4 },
      settings: { retry: { maxAttempts: 2, budgetPercent: 100 }, keyStrategy: 'round-robin' },
      // Two providers with one address share an endpoint circuit.
      at: (name) => (name === 'p2' || name === 'p3' ? `${resetting?.url}/shared` : undefined),
    },
  )

  test('when one key’s circuit is open, the other key serves all requests', async () => {
    it.play('p1', (request) => (request.key?.includes('-a-') ? ACTS.f : ACTS.o)?.(request) ?? { do: 'hang' })
    const statuses: number[] = []
    for (let at = 0; at < 16; at++)
      statuses.push((await sendChat(it.gateway(), { style: 'chat', model: 'p1/m', stream: false })).status)
    assert.ok(
      statuses.every((status) => status === 200),
      statuses.join(),
    )
    const bad = callsOf(it.upstream()).filter(({ path, key }) => path.startsWith('/p1/') && key?.includes('-a-')).length
    assert.equal(bad, 4, 'called only until its circuit opened')
    const status = await statusOf(it.gateway(), 'p1')
    assert.deepEqual([status.circuit.state, status.models[0]?.circuit.state], ['closed', 'closed'])
    assert.deepEqual(await it.changes('p1'), ['closed>open'])
    const line = await it.gateway().line(({ event, name }) => event === 'circuit' && String(name).startsWith('p1 '))
    assert.deepEqual([line.what, line.why, line.level], ['deployment', 'status', 'warn'])
    assert.match(String(line.name), /^p1 [0-9a-f]{4,} m$/)
  })

  test('an endpoint circuit applies to every model and provider at the address', async () => {
    const answers: Answer[] = []
    for (let at = 0; at < 4; at++)
      answers.push(await sendChat(it.gateway(), { style: 'chat', model: `p2/model-${at}`, stream: false }))
    assert.deepEqual(
      answers.map(({ status }) => status),
      [502, 502, 502, 502],
    )
    const connections = resetting?.connections()
    assert.equal((await sendChat(it.gateway(), { style: 'chat', model: 'p2/another', stream: false })).status, 503)
    assert.equal(resetting?.connections(), connections, 'no connection attempt')
    const status = await statusOf(it.gateway(), 'p2')
    assert.deepEqual([status.circuit.state, status.circuit.failures, status.status], ['open', 4, 'unavailable'])
    assert.ok(
      status.models.every((model) => model.circuit.state === 'closed'),
      'key and model circuits are not charged',
    )
    const line = await it.gateway().line(({ event, what }) => event === 'circuit' && what === 'endpoint')
    assert.deepEqual([line.from, line.to, line.why], ['closed', 'open', 'reset'])
  })

  test('rejected keys do not count as failures', async () => {
    const answer = await it.one('p5', 'a')
    assert.equal(answer.json().error.code, 'upstream_auth')
    assert.equal(it.calls('p5'), 4, 'each key was tried: a rejected key does not use up one of the two attempts')
    const { circuit, keys, status } = await statusOf(it.gateway(), 'p5')
    assert.deepEqual([circuit.state, circuit.failures, status], ['closed', 0, 'unavailable'])
    assert.ok(keys.every((key) => key.status === 'suspended'))
    assert.equal((await it.one('p5', 'o')).json().error.code, 'upstream_auth')
    assert.equal(it.calls('p5'), 4)
  })

  test('overload affects the model for every key', async () => {
    it.play('p6', (request) => failWith(request, 529, { type: 'overloaded_error', message: 'too much' }))
    for (let at = 0; at < 4; at++) await sendChat(it.gateway(), { style: 'chat', model: 'p6/m', stream: false })
    const { models, circuit } = await statusOf(it.gateway(), 'p6')
    assert.deepEqual([models[0]?.circuit.state, circuit.state, circuit.failures], ['open', 'open', 4])
    const line = await it.gateway().line(({ event, name }) => event === 'circuit' && String(name).startsWith('p6 '))
    assert.deepEqual([line.what, line.name], ['model', 'p6 m'])
  })
})

describe('circuits: in a row', { concurrency: true }, () => {
  const it = bench({
    errorThreshold: 100,
    minRequests: 1_000,
    consecutiveFailures: 3,
    firstProbe: 60_000,
    resetTimeout: 60_000,
    whenAllOpen: 'fail',
  })
  const { one, many, state } = it

  test('three consecutive failures open it, regardless of the window', async () => {
    await many('p1', 'ooooooooff')
    assert.equal(await state('p1'), 'closed')
    await one('p1', 'f')
    assert.equal(await state('p1'), 'open')
    const { circuit } = await statusOf(it.gateway(), 'p1')
    assert.deepEqual([circuit.successes, circuit.failures], [8, 3])
  })

  test('a complete answer ends the run', async () => {
    await many('p2', 'ffoff')
    assert.equal(await state('p2'), 'closed')
    await one('p2', 'f')
    assert.equal(await state('p2'), 'open')
  })

  test('broken streams count as consecutive failures', async () => {
    await many('p3', 'bb')
    const { circuit } = await statusOf(it.gateway(), 'p3')
    assert.deepEqual([circuit.state, circuit.failures, circuit.error_rate], ['closed', 2, 100])
    await one('p3', 'b')
    assert.equal(await state('p3'), 'open')
  })

  test('neither a disconnect nor a rate limit ends the run', async () => {
    await many('p4', 'ff')
    await leave(it, 'p4', 's')
    await one('p4', 'l')
    await sleep(5)
    await one('p4', 'i')
    assert.equal(await state('p4'), 'closed')
    await one('p4', 'f')
    assert.equal(await state('p4'), 'open')
  })
})

describe('circuits: old outcomes', () => {
  const it = bench({
    errorThreshold: 50,
    minRequests: 3,
    consecutiveFailures: 0,
    window: 3_000,
    firstProbe: 60_000,
    resetTimeout: 60_000,
    whenAllOpen: 'fail',
  })

  test('expire after the window', async () => {
    await it.many('p1', 'ff')
    await eventually('forgotten', async () => (await statusOf(it.gateway(), 'p1')).circuit.failures === 0)
    await it.one('p1', 'f')
    assert.equal(await it.state('p1'), 'closed')
    await it.many('p1', 'ff')
    assert.equal(await it.state('p1'), 'open')
  })
})

describe('circuits: several probes', () => {
  const it = bench({
    errorThreshold: 50,
    minRequests: 2,
    consecutiveFailures: 0,
    resetTimeout: 300,
    probes: 2,
    whenAllOpen: 'fail',
  })

  test('run concurrently up to the limit', async () => {
    await it.many('p1', 'ff')
    await it.halfOpen('p1')
    const waiting: (() => void)[] = []
    it.play(
      'p1',
      (request) =>
        new Promise<Act>((resolve) => void waiting.push(() => resolve(answerWith(request, { text: 'fine' })))),
    )
    const probes = [
      sendChat(it.gateway(), { style: 'chat', model: 'p1/m', stream: false }),
      sendChat(it.gateway(), { style: 'chat', model: 'p1/m', stream: true }),
    ]
    await until('two probes', () => waiting.length === 2)
    assert.equal((await sendChat(it.gateway(), { style: 'chat', model: 'p1/m', stream: false })).status, 503)
    for (const go of waiting) go()
    assert.deepEqual(
      (await Promise.all(probes)).map(({ status }) => status),
      [200, 200],
    )
    assert.equal(await it.state('p1'), 'closed')
  })
})

describe('circuits: when all are open', { concurrency: true }, () => {
  const rules = {
    errorThreshold: 50,
    minRequests: 2,
    consecutiveFailures: 0,
    firstProbe: 100_000,
    resetTimeout: 100_000,
  }

  describe('fail', () => {
    const it = bench({ ...rules, whenAllOpen: 'fail' })
    test('states when to retry, and that an SDK should not wait that long', async () => {
      await it.many('p1', 'ff')
      const answer = await it.one('p1', 'o')
      assert.equal(answer.status, 503)
      assert.equal(answer.headers.get('x-should-retry'), 'false')
      assert.ok(Number(answer.headers.get('retry-after')) > 90)
      assert.equal(it.calls('p1'), 2)
    })
  })

  describe('try', () => {
    const it = bench({ ...rules, whenAllOpen: 'try' })
    test('makes calls anyway', async () => {
      assert.deepEqual(await it.many('p1', 'fffo'), [502, 502, 502, 200])
      assert.equal(it.calls('p1'), 4)
    })
  })

  describe('probe', () => {
    const it = bench({ ...rules, whenAllOpen: 'probe' })
    test('one early probe every ten seconds', { timeout: 60_000 }, async () => {
      await it.many('p1', 'ff')
      const refused = await it.one('p1', 'o')
      assert.equal(refused.status, 503)
      const wait = Number(refused.headers.get('retry-after'))
      assert.ok(wait >= 1 && wait <= 10, `retry-after: ${wait}`)
      // Waits above 5 s are marked as not retryable, so that an agent does not wait silently.
      assert.equal(refused.headers.get('x-should-retry'), String(wait <= 5))
      assert.equal(it.calls('p1'), 2)
      await eventually('an early probe', async () => (await it.one('p1', 'f')).status === 502)
      assert.equal(it.calls('p1'), 3)
      const times = callsOf(it.upstream()).map(({ at }) => at)
      // The gateway and this process read the clock independently: 50 ms of tolerance.
      assert.ok((times[2] ?? 0) - (times[1] ?? 0) >= 9_950, `probed after ${(times[2] ?? 0) - (times[1] ?? 0)} ms`)
      assert.equal((await it.one('p1', 'o')).status, 503, 'no second probe immediately afterwards')
      assert.equal(it.calls('p1'), 3)
      assert.equal(await it.state('p1'), 'open')
    })
  })
})

describe('circuits: with another provider', () => {
  const it = bench(
    { errorThreshold: 50, minRequests: 2, consecutiveFailures: 0, resetTimeout: 3_000, whenAllOpen: 'probe' },
    {
      settings: { retry: { maxAttempts: 6 }, fallback: 'same-model', routes: { pair: { targets: ['p1/m', 'p2/m'] } } },
    },
  )

  test('an open circuit is skipped, and a failing probe does not fail its request', async () => {
    const ask1 = () => sendChat(it.gateway(), { style: 'responses', model: 'pair', stream: true })
    it.play('p1', (request) => ACTS.f?.(request) ?? { do: 'hang' })
    it.play('p2', (request) => ACTS.o?.(request) ?? { do: 'hang' })
    const attempts: (string | null)[] = []
    for (let at = 0; at < 4; at++) attempts.push((await ask1()).headers.get('x-headgate-attempts'))
    assert.deepEqual(attempts, ['2', '2', '1', '1'])
    await it.halfOpen('p1')
    const probe = await ask1()
    assert.deepEqual([probe.status, probe.headers.get('x-headgate-attempts')], [200, '2'])
    assert.equal(it.calls('p1'), 3)
    await it.halfOpen('p1')
    it.play('p1', (request) => ACTS.o?.(request) ?? { do: 'hang' })
    const back = await ask1()
    assert.deepEqual([back.headers.get('x-headgate-provider'), back.headers.get('x-headgate-attempts')], ['p1', '1'])
    const fallbacks = (await it.gateway().logged()).filter(({ event }) => event === 'fallback')
    assert.equal(fallbacks.length, 3)
    for (const { from, to, kind } of fallbacks) {
      assert.match(String(from), /^p1#[0-9a-f]{4,}\/m$/)
      assert.match(String(to), /^p2#[0-9a-f]{4,}\/m$/)
      assert.equal(kind, 'status')
    }
  })
})
