/** Every timer of the settings, with small values: the ended phase, the time, and the resulting error. */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { answerWith, piecesOf } from '../support/answers.ts'
import { type Act, type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import { type BadAddress, blackHole } from './support/bad-sockets.ts'
import type { Started } from './support/process.ts'
import {
  bodyFor,
  callsOf,
  eventsIn,
  isComplete,
  PATHS,
  rawClient,
  rawRequest,
  STYLES,
  type Style,
  sendChat,
  sleep,
  stage,
  startWith,
  statusOf,
  textIn,
} from './support/stage.ts'

/** ms. Later than this after its time fails, even on a busy machine. */
const SLACK = 10_000

/** ms. A limit that data must meet, in a case that tests a later limit: even a busy machine sends in this time. */
const BEGUN = 2_000

const within = (ms: number, least: number, what: string) => {
  assert.ok(ms >= least - 5, `${what}: after ${Math.round(ms)} ms, before its time of ${least}`)
  assert.ok(ms <= least + SLACK, `${what}: only after ${Math.round(ms)} ms, not ${least}`)
}

const TEXT = 'one two three four five'

function* pings(): Generator<string> {
  for (;;) yield ': keep-alive\n\n'
}
/** The beginning of an answer up to its first content, then the given pieces. */
function* begunThen(request: UpstreamRequest, then: Iterable<string>): Generator<string> {
  const pieces = piecesOf(request, { text: TEXT })
  yield pieces.slice(0, request.path.endsWith('/responses') ? 6 : 3).join('')
  yield* then
}

const HANG: Act = { do: 'hang' }
const WHOLE_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"id":'

type Row = {
  readonly name: string
  readonly stream: boolean
  readonly act: (request: UpstreamRequest) => Act
  readonly settings: object
  readonly after: number
  /** Before content: status and code. After it: an error event with this code. */
  readonly clientError: readonly [number, string] | 'in the stream'
  readonly shown?: string
  /** How many failures it counts in the circuits. */
  readonly failures: number
}

const ROWS: readonly Row[] = [
  {
    name: 'circuit.timeout: no header block of a whole answer',
    stream: false,
    act: () => HANG,
    settings: { circuit: { timeout: 300 } },
    after: 300,
    clientError: [504, 'timeout'],
    shown: 'timeout',
    failures: 1,
  },
  {
    name: 'circuit.timeout: no header block of a stream',
    stream: true,
    act: () => HANG,
    settings: { circuit: { timeout: 300 } },
    after: 300,
    clientError: [504, 'timeout'],
    shown: 'timeout',
    failures: 1,
  },
  {
    name: 'circuit.timeout: no byte of a stream',
    stream: true,
    act: () => ({ do: 'stream', pieces: [], ending: 'stall' }),
    settings: { circuit: { timeout: 300 } },
    after: 300,
    clientError: [504, 'timeout'],
    shown: 'timeout',
    failures: 1,
  },
  {
    name: 'timeout.firstContent: comments only',
    stream: true,
    act: () => ({ do: 'stream', pieces: pings(), gap: 40 }),
    settings: { circuit: { timeout: BEGUN }, timeout: { firstContent: BEGUN + 500 } },
    after: BEGUN + 500,
    clientError: [504, 'timeout'],
    shown: 'timeout',
    failures: 1,
  },
  {
    name: 'timeout.idle: a truncated whole answer',
    stream: false,
    act: () => ({ do: 'raw', bytes: WHOLE_HEAD, ending: 'stall' }),
    settings: { circuit: { timeout: BEGUN }, timeout: { idle: BEGUN + 400 } },
    after: BEGUN + 400,
    clientError: [504, 'timeout'],
    shown: 'stalled',
    failures: 1,
  },
  {
    name: 'timeout.idle: a truncated stream',
    stream: true,
    act: (request) => ({ do: 'stream', pieces: begunThen(request, []), ending: 'stall' }),
    settings: { timeout: { idle: 400 } },
    after: 400,
    clientError: 'in the stream',
    failures: 1,
  },
  {
    name: 'timeout.contentIdle: comments in mid-stream',
    stream: true,
    act: (request) => ({ do: 'stream', pieces: begunThen(request, pings()), gap: 40 }),
    settings: { timeout: { idle: BEGUN, contentIdle: BEGUN + 500 } },
    after: BEGUN + 500,
    clientError: 'in the stream',
    failures: 1,
  },
  {
    name: 'timeout.request: before the header block',
    stream: false,
    act: () => HANG,
    settings: { timeout: { request: 400 } },
    after: 400,
    clientError: [504, 'timeout'],
    failures: 0,
  },
  {
    name: 'timeout.request: before the header block of a stream',
    stream: true,
    act: () => HANG,
    settings: { timeout: { request: 400 } },
    after: 400,
    clientError: [504, 'timeout'],
    failures: 0,
  },
  {
    name: 'timeout.request: in mid-stream',
    stream: true,
    act: (request) => ({ do: 'stream', pieces: begunThen(request, []), ending: 'stall' }),
    settings: { timeout: { request: BEGUN } },
    after: BEGUN,
    clientError: 'in the stream',
    failures: 0,
  },
]

const interrupted = (style: Style, text: string, code = 'stream_interrupted') => {
  const events = eventsIn(text)
  assert.ok(!isComplete(style, text), 'it is not passed on as complete')
  if (style === 'chat') {
    assert.equal(events.at(-1)?.error?.code, code)
    assert.doesNotMatch(text, /\[DONE\]/)
    return
  }
  const error = events.find(({ type }) => type === 'error')
  assert.equal(error?.error?.code, code)
  const failed = events.at(-1)
  assert.equal(failed?.type, 'response.failed')
  assert.equal(failed?.response.id, events[0]?.response?.id ?? failed?.response.id)
  assert.equal(failed?.response.status, 'failed')
  assert.ok(text.endsWith('data: [DONE]\n\n'))
}

describe('timers: attempts', { concurrency: 4 }, () => {
  for (const { name, stream, act, settings, after, clientError, shown, failures } of ROWS)
    describe(name, () => {
      const on = stage()
      let gateway: Started
      let upstream: Upstream
      before(async () => {
        upstream = await on.upstream(act)
        gateway = await on.gateway({
          fallback: 'none',
          keepAlive: { interval: 0 },
          ...settings,
          providers: Object.fromEntries(STYLES.map((style) => [style, { baseUrl: `${upstream.url}/${style}/v1` }])),
        })
      })
      for (const style of STYLES)
        test(style, async () => {
          const answer = await sendChat(gateway, { style, model: `${style}/m`, stream })
          within(answer.ms, after, name)
          if (clientError === 'in the stream') {
            assert.equal(answer.status, 200)
            interrupted(style, answer.text)
          } else {
            assert.deepEqual([answer.status, answer.json().error.code], [...clientError])
            assert.equal(answer.json().error.type, 'upstream_error')
            assert.equal(answer.headers.get('x-should-retry'), 'true')
            if (shown) assert.match(answer.headers.get('x-headgate-trail') ?? '', new RegExp(`:${shown}$`))
          }
          await until('the upstream call was aborted', () =>
            callsOf(upstream)
              .filter(({ path }) => path.startsWith(`/${style}/`))
              .every(({ ended }) => ended === 'aborted'),
          )
          const { circuit, keys } = await statusOf(gateway, style)
          assert.equal(circuit.failures, failures)
          assert.equal(keys[0]?.in_flight, 0)
        })
    })

  describe('timeout.connect', () => {
    const on = stage()
    let gateway: Started
    let hole: BadAddress | null
    before(async () => {
      hole = await blackHole()
      on.keep(() => hole?.close())
      const good = await on.upstream((request) => answerWith(request, { text: TEXT }))
      gateway = await on.gateway({
        timeout: { connect: 400 },
        fallback: 'same-model',
        providers: { dark: { baseUrl: `${hole?.url ?? good.url}/v1` }, good: { baseUrl: `${good.url}/v1` } },
        routes: { both: { targets: ['dark/m', 'good/m'] }, alone: { targets: ['dark/m'] } },
      })
    })
    for (const style of STYLES)
      test(style, async (t) => {
        if (!hole) return t.skip('a full queue does not swallow connections on this system')
        const alone = await sendChat(gateway, { style, model: 'alone', stream: true })
        assert.equal(alone.status, 504)
        within(alone.ms, 400, 'connect')
        const both = await sendChat(gateway, { style, model: 'both', stream: true })
        assert.equal(textIn(style, true, both.text), TEXT)
        within(both.ms, 400, 'connect and go on')
      })
  })

  describe('disabled', () => {
    const on = stage()
    let gateway: Started
    before(async () => {
      const slow = await on.upstream((request) =>
        answerWith(request, { text: TEXT }, { after: 300, first: 300, gap: 120 }),
      )
      gateway = await on.gateway({
        circuit: { timeout: 0 },
        timeout: { firstContent: 0, idle: 0, contentIdle: 0, request: 0, clientWrite: 0 },
        keepAlive: { interval: 0 },
        drain: { timeout: 0 },
        providers: { slow: { baseUrl: `${slow.url}/v1` } },
      })
    })
    for (const style of STYLES)
      test(`${style}: 0 disables the timer`, async () => {
        const answer = await sendChat(gateway, { style, model: 'slow/m', stream: true })
        assert.ok(isComplete(style, answer.text), answer.text)
        assert.doesNotMatch(answer.text, /^: /m, 'no keep-alive')
      })
  })
})

describe('timers: streams and clients', { concurrency: 4 }, () => {
  describe('a continuous answer', () => {
    const on = stage()
    let gateway: Started
    before(async () => {
      // Each pause is shorter than the timers, the whole much longer.
      const slow = await on.upstream((request) => answerWith(request, { text: TEXT.repeat(2) }, { gap: 400 }))
      gateway = await on.gateway({
        circuit: { timeout: 2_000 },
        timeout: { firstContent: 2_600, idle: 2_000, contentIdle: 2_300 },
        keepAlive: { interval: 0 },
        providers: { slow: { baseUrl: `${slow.url}/v1` } },
      })
    })
    for (const style of STYLES)
      test(`${style}: is not ended by any timer`, async () => {
        const answer = await sendChat(gateway, { style, model: 'slow/m', stream: true })
        assert.ok(isComplete(style, answer.text), answer.text)
        assert.equal(textIn(style, true, answer.text), TEXT.repeat(2))
        assert.ok(answer.ms > 2_600)
      })
  })

  describe('timeout.clientWrite', () => {
    const on = stage()
    let gateway: Started
    let upstream: Upstream
    before(async () => {
      function* much(request: UpstreamRequest) {
        const piece = (piecesOf(request, { text: TEXT })[1] ?? '').replace('one t', 'x'.repeat(8_000))
        for (let at = 0; at < 20_000; at++) yield piece
      }
      upstream = await on.upstream((request) => ({ do: 'stream', pieces: much(request) }))
      gateway = await on.gateway({
        timeout: { clientWrite: 500 },
        providers: { much: { baseUrl: `${upstream.url}/v1` } },
      })
    })
    test('a client that stopped reading is disconnected, without an effect on health', async () => {
      const client = await rawClient(
        gateway.url,
        rawRequest(PATHS.chat, JSON.stringify(bodyFor('chat', 'much/m', true))),
      )
      await until('begun', () => client.text().length > 0)
      client.socket.pause()
      const paused = performance.now()
      await until(
        'the upstream call is aborted',
        () => upstream.requests.some(({ ended }) => ended === 'aborted'),
        500 + SLACK,
      )
      const { endedAt = 0 } = upstream.requests.find(({ ended }) => ended === 'aborted') ?? {}
      within(endedAt - paused, 500, 'clientWrite')
      client.socket.resume()
      await until('cut', () => client.closed())
      assert.doesNotMatch(client.text(), /\[DONE\]/)
      const line = await gateway.line(({ event }) => event === 'request')
      assert.equal(line.outcome, 'client_gone')
      assert.equal((await statusOf(gateway, 'much')).circuit.failures, 0)
    })
  })
})

describe('timers: keep-alives', { concurrency: 4 }, () => {
  describe('keepAlive.interval', () => {
    const on = stage()
    let gateway: Started
    before(async () => {
      const slow = await on.upstream((request) =>
        request.path.startsWith('/fails')
          ? {
              do: 'answer',
              status: 400,
              after: 700,
              body: { error: { message: 'no', type: 'invalid_request_error', code: 'invalid_value', param: 'seed' } },
            }
          : answerWith(request, { text: 'a b' }, { after: 700, gap: 350 }),
      )
      gateway = await on.gateway({
        keepAlive: { interval: 200 },
        fallback: 'none',
        providers: { slow: { baseUrl: `${slow.url}/slow/v1` }, fails: { baseUrl: `${slow.url}/fails/v1` } },
      })
    })
    test('chat: the first one sends the header block, later ones are comments before the content', async () => {
      const answer = await sendChat(gateway, { style: 'chat', model: 'slow/m', stream: true })
      assert.equal(answer.status, 200)
      assert.equal(answer.headers.get('x-headgate-provider'), null)
      assert.match(answer.headers.get('x-request-id') ?? '', /^req_/)
      const lines = answer.text.split('\n')
      const comment = lines.findIndex((line) =>
        /^: headgate provider=slow model=m .*trail=slow#[0-9a-f]+:200$/.test(line),
      )
      assert.ok(comment > 0, answer.text)
      assert.ok(lines.slice(0, comment).every((line) => line === ': ping' || line === ''))
      const before = lines.slice(0, comment).filter((line) => line === ': ping').length
      assert.ok(before >= 2 && before <= 6, `${before} before`)
      assert.ok(
        lines.slice(comment).some((line) => line === ': ping'),
        'in mid-stream as well',
      )
      assert.ok(isComplete('chat', answer.text))
    })
    test('responses: an event after response.created, numbered without a gap', async () => {
      const answer = await sendChat(gateway, { style: 'responses', model: 'slow/m', stream: true })
      const events = eventsIn(answer.text)
      assert.deepEqual(
        events.map(({ sequence_number }) => sequence_number),
        events.map((_, at) => at),
      )
      assert.ok(events.filter(({ type }) => type === 'response.in_progress').length > 1)
      assert.equal(textIn('responses', true, answer.text), 'a b')
      assert.ok(isComplete('responses', answer.text))
    })
    for (const style of STYLES)
      test(`${style}: a failure after the header block is an error event with the same code`, async () => {
        const answer = await sendChat(gateway, { style, model: 'fails/m', stream: true })
        assert.equal(answer.status, 200)
        assert.match(answer.text, style === 'chat' ? /^: ping\n/ : /^event: response\.created\n/)
        const events = eventsIn(answer.text)
        const error = events.find((event) => event.error?.code)?.error
        assert.deepEqual([error?.code, error?.type, error?.param], ['invalid_value', 'invalid_request_error', 'seed'])
        assert.ok(!isComplete(style, answer.text))
        if (style === 'chat') assert.doesNotMatch(answer.text, /\[DONE\]/)
        else assert.equal(events.at(-1)?.type, 'response.failed')
      })
  })
})

// ── Shutdown ─────────────────────────────────────────────────────────────────────────────────────────────────────

describe('timers: drain', { concurrency: 4 }, () => {
  const on = stage()
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) =>
      request.path.startsWith('/long')
        ? { do: 'stream', pieces: begunThen(request, []), ending: 'stall' }
        : answerWith(request, { text: TEXT }, request.path.startsWith('/slow') ? { gap: 100 } : {}),
    )
  })
  const gatewayWith = async (drain: object) => {
    const gateway = await startWith({
      drain,
      fallback: 'none',
      keepAlive: { interval: 0 },
      providers: Object.fromEntries(
        ['long', 'slow', 'quick'].map((name) => [name, { baseUrl: `${upstream.url}/${name}/v1` }]),
      ),
    })
    on.keep(() => gateway.stop())
    const ended = new Promise<number | null>((resolve) => gateway.child.once('exit', (code) => resolve(code)))
    return { gateway, ended }
  }
  const readyOf = async ({ url }: Started) => (await fetch(`${url}/health/ready`)).status

  test('drain.delay: not ready at once, still serving, with Connection: close; then exit 0', async () => {
    const { gateway, ended } = await gatewayWith({ delay: 900, timeout: 2_000 })
    assert.equal(await readyOf(gateway), 200)
    const begun = performance.now()
    gateway.child.kill('SIGTERM')
    await gateway.line(({ event }) => event === 'draining')
    const health = await fetch(`${gateway.url}/health`)
    assert.equal(health.status, 503)
    assert.equal(((await health.json()) as { status: string }).status, 'draining')
    assert.equal(await readyOf(gateway), 503)
    const answer = await sendChat(gateway, { style: 'chat', model: 'quick/m', stream: false })
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('connection'), 'close')
    assert.equal(await ended, 0)
    within(performance.now() - begun, 900, 'delay')
    await assert.rejects(fetch(gateway.url))
  })

  for (const style of STYLES)
    test(`drain.timeout: ${style}: a stream that ends in time completes`, async () => {
      const { gateway, ended } = await gatewayWith({ delay: 0, timeout: 5_000 })
      const answer = sendChat(gateway, { style, model: 'slow/m', stream: true })
      await sleep(250)
      gateway.child.kill('SIGTERM')
      assert.ok(isComplete(style, (await answer).text))
      assert.equal(await ended, 0)
    })

  for (const style of STYLES)
    test(`drain.timeout: ${style}: a stream that does not end in time gets an error event of its style`, async () => {
      const { gateway, ended } = await gatewayWith({ delay: 0, timeout: 600 })
      const answer = sendChat(gateway, { style, model: 'long/m', stream: true })
      await sleep(300)
      const begun = performance.now()
      gateway.child.kill('SIGTERM')
      const { text } = await answer
      within(performance.now() - begun, 600, 'timeout')
      interrupted(style, text, 'server_shutdown')
      assert.equal(await ended, 0)
    })

  test('a whole answer in flight fails when the time is over', async () => {
    const { gateway, ended } = await gatewayWith({ delay: 0, timeout: 400 })
    const answer = sendChat(gateway, { style: 'chat', model: 'long/m', stream: false })
    await sleep(200)
    gateway.child.kill('SIGTERM')
    const { status, json } = await answer
    assert.equal(status, 503)
    assert.equal(json().error.code, 'server_shutdown')
    assert.equal(await ended, 0)
  })

  for (const [name, drain] of [
    ['the delay', { delay: 20_000, timeout: 20_000 }],
    ['the time for streams', { delay: 0, timeout: 20_000 }],
  ] as const)
    test(`a second signal cuts short ${name}`, async () => {
      const { gateway, ended } = await gatewayWith(drain)
      const answer = sendChat(gateway, { style: 'chat', model: 'long/m', stream: true }).then(
        ({ text }) => text,
        () => '',
      )
      await sleep(250)
      gateway.child.kill('SIGINT')
      await gateway.line(({ event }) => event === 'draining')
      await sleep(100)
      const begun = performance.now()
      gateway.child.kill('SIGTERM')
      const code = await ended
      assert.ok(performance.now() - begun < SLACK)
      assert.equal(code, 0)
      assert.doesNotMatch(await answer, /\[DONE\]/)
    })
})
