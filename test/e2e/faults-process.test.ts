/**
 * Faults around the gateway: host names that fail or move, oversized answers, a machine without file descriptors or
 * disk space, and clients that disconnect and signals that arrive at each phase of a call.
 */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { answerBody, answerWith, failWith, piecesOf } from '../support/answers.ts'
import { type ToxicProxy, toxicProxy } from '../support/toxics.ts'
import { type Act, type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import { type BadAddress, blackHole } from './support/bad-sockets.ts'
import { type Started, start } from './support/process.ts'
import {
  bodyFor,
  callsOf,
  eventsIn,
  fileOf,
  isComplete,
  PATHS,
  type RawClient,
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

const TEXT = 'one two three four five'

// ── Host names ───────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * A resolver for names under `.test`, which no real resolver may know (RFC 6761). It reads its answer, an address or an
 * error code, from a file on each lookup. Everything else is real.
 */
const RESOLVER = `
import dns from 'node:dns'
import { readFileSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const real = dns.lookup
dns.lookup = (name, options, done) => {
  if (!String(name).endsWith('.test')) return real(name, options, done)
  const [answer, ...rest] = readFileSync('resolver', 'utf8').trim().split(' ')
  if (rest.length > 0) writeFileSync('resolver', rest.join(' '))
  const error = answer.startsWith('E') && Object.assign(new Error('lookup'), { code: answer, syscall: 'getaddrinfo' })
  process.nextTick(() => (error ? done(error) : options.all ? done(null, [{ address: answer, family: 4 }]) : done(null, answer, 4)))
}
syncBuiltinESMExports()
`

describe('faults: names', () => {
  const on = stage()
  let upstream: Upstream
  let second: ToxicProxy
  before(async () => {
    upstream = await on.upstream((upstreamRequest) => answerWith(upstreamRequest, { text: TEXT }))
    // The same port at another loopback address.
    second = await toxicProxy(upstream.port, { host: '127.0.0.2', port: upstream.port })
    on.keep(() => second.close())
  })
  /** `answers`: the resolver's answers, one for each lookup; the last repeats. */
  const gatewayWith = async (answers: string) => {
    const baseUrl = `http://upstream.test:${upstream.port}/named/v1`
    const gateway = await start({
      files: {
        'headgate.yaml': fileOf({
          fallback: 'none',
          providers: { named: { baseUrl } },
          // Each connection looks up its name.
          network: { dns: { keep: 0, stale: 0 } },
        }),
        resolver: answers,
        'resolver.mjs': RESOLVER,
      },
      env: { NODE_OPTIONS: '--import ./resolver.mjs' },
    })
    on.keep(() => gateway.stop())
    return gateway
  }

  for (const style of STYLES)
    test(`a temporary name server failure is retried: ${style}`, async () => {
      // The first lookup is that of the model list.
      const lists = () =>
        upstream.requests.filter(({ method, ended }) => method === 'GET' && ended === 'finished').length
      const before = lists()
      const gateway = await gatewayWith('127.0.0.1 EAI_AGAIN 127.0.0.1')
      await until('the list has arrived', () => lists() > before)
      upstream.closeIdle()
      await until('closed', () => upstream.open() === 0)
      const answer = await sendChat(gateway, { style, model: 'named/m', stream: true })
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.headers.get('x-headgate-trail') ?? '', /^named#\w+:dns, named#\w+:200$/)
      assert.equal(textIn(style, true, answer.text), TEXT)
      await gateway.stop()
    })

  test('a changed address is used once the old connections are closed', async () => {
    const gateway = await gatewayWith('127.0.0.1')
    assert.equal((await sendChat(gateway, { style: 'chat', model: 'named/m', stream: false })).status, 200)
    assert.equal(second.connections(), 0)
    await writeFile(`${gateway.folder}/resolver`, '127.0.0.2')
    assert.equal((await sendChat(gateway, { style: 'chat', model: 'named/m', stream: false })).status, 200)
    assert.equal(second.connections(), 0, 'a kept connection still works')
    const kept = upstream.open()
    assert.ok(kept > 0)
    upstream.closeIdle('reset')
    await until('closed', () => upstream.open() === 0)
    const answer = await sendChat(gateway, { style: 'responses', model: 'named/m', stream: true })
    assert.equal(textIn('responses', true, answer.text), TEXT)
    assert.equal(answer.headers.get('x-headgate-attempts'), '1')
    assert.equal(second.connections(), 1)
    // A name that no longer resolves is an ordinary failure.
    await writeFile(`${gateway.folder}/resolver`, 'ENOTFOUND')
    upstream.closeIdle('reset')
    await until('closed', () => second.open() === 0)
    const gone = await sendChat(gateway, { style: 'chat', model: 'named/m', stream: false })
    assert.deepEqual([gone.status, gone.json().error.code], [502, 'dns'])
    await gateway.stop()
  })
})

// ── Oversized answers ────────────────────────────────────────────────────────────────────────────────────────────

describe('faults: oversized answers', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const BOMB = gzipSync(Buffer.alloc(200 * 1024 * 1024, 0x20))

  before(async () => {
    function* endless(upstreamRequest: UpstreamRequest) {
      const pieces = piecesOf(upstreamRequest, { text: TEXT })
      const at = pieces.findIndex((piece) => piece.includes('one'))
      yield* pieces.slice(0, at)
      for (;;) yield pieces[at] ?? ''
    }
    function* lifecycle(upstreamRequest: UpstreamRequest) {
      const [first = ''] = piecesOf(upstreamRequest, { text: TEXT })
      for (;;) yield first.repeat(500)
    }
    upstream = await on.upstream((upstreamRequest): Act => {
      const [, place = ''] = upstreamRequest.path.split('/')
      if (place === 'good') return answerWith(upstreamRequest, { text: TEXT })
      if (place.startsWith('bomb'))
        return {
          do: 'answer',
          headers: {
            'content-encoding': 'gzip',
            'content-type': upstreamRequest.stream ? 'text/event-stream' : 'application/json',
          },
          body: BOMB,
        }
      return place === 'endless'
        ? { do: 'stream', pieces: endless(upstreamRequest), gap: 2 }
        : { do: 'stream', pieces: lifecycle(upstreamRequest) }
    })
    gateway = await on.gateway({
      fallback: 'same-model',
      timeout: { request: 4_000 },
      keepAlive: { interval: 0 },
      circuit: { minRequests: 100, consecutiveFailures: 0 },
      providers: Object.fromEntries(
        ['bomb', 'bomb2', 'endless', 'lifecycle', 'good'].map((id) => [
          id,
          { baseUrl: `${upstream.url}/${id}/v1`, models: [id] },
        ]),
      ),
      // Separate models, so that no failover happens.
      routes: { two: { targets: ['bomb2/bomb2', 'good/good'] } },
    })
  })

  for (const style of STYLES)
    for (const stream of [false, true]) {
      const how = `${style}${stream ? ', streamed' : ''}`
      test(`200 MB of spaces in 200 KB of gzip: a sole provider: ${how}`, { timeout: 60_000 }, async () => {
        const answer = await sendChat(gateway, { style, model: 'bomb/bomb', stream })
        assert.deepEqual([answer.status, answer.json().error.code], [502, 'malformed'])
      })
      test(`200 MB of spaces in 200 KB of gzip: failover: ${how}`, { timeout: 60_000 }, async () => {
        const answer = await sendChat(gateway, { style, model: 'two', stream })
        assert.equal(answer.status, 200, answer.text)
        assert.equal(textIn(style, stream, answer.text), TEXT)
        assert.equal(answer.headers.get('x-headgate-attempts'), '2')
      })
    }
  for (const style of STYLES)
    test(`an endless answer is ended by timeout.request, in the stream: ${style}`, {
      timeout: 30_000,
    }, async () => {
      const answer = await sendChat(gateway, { style, model: 'endless/endless', stream: true })
      assert.equal(answer.status, 200)
      assert.ok(!isComplete(style, answer.text))
      assert.equal(eventsIn(answer.text).find(({ error }) => error)?.error.code, 'stream_interrupted')
      await until('released', () => callsOf(upstream).every(({ ended }) => ended !== 'open'))
    })
  test('endless stream beginnings are not buffered without limit', { timeout: 30_000 }, async () => {
    const answer = await sendChat(gateway, { style: 'chat', model: 'lifecycle/lifecycle', stream: true })
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'response_too_large'])
    await until('released', () => callsOf(upstream).every(({ ended }) => ended !== 'open'))
    for (const { path, sent } of callsOf(upstream))
      if (path.startsWith('/lifecycle')) assert.ok(sent < 64 * 1024 * 1024, `${sent} bytes`)
  })
  test('the gateway is alive', async () => {
    assert.equal((await sendChat(gateway, { style: 'chat', model: 'good/good', stream: false })).status, 200)
    await gateway.logged()
    assert.doesNotMatch(gateway.output(), /"event":"error"/)
  })
})

// ── Machine resources ────────────────────────────────────────────────────────────────────────────────────────────

describe('faults: this machine', () => {
  const on = stage()
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((upstreamRequest) => answerWith(upstreamRequest, { text: TEXT }))
  })
  const files = () => ({
    'headgate.yaml': fileOf({ fallback: 'none', providers: { good: { baseUrl: `${upstream.url}/good/v1` } } }),
  })

  test('out of file descriptors: connections are rejected or dropped, it is logged, and service resumes', async () => {
    const gateway = await start({ files: files(), limits: '-n 60' })
    on.keep(() => gateway.stop())
    assert.equal((await sendChat(gateway, { style: 'chat', model: 'good/m', stream: false })).status, 200)
    const crowd: RawClient[] = []
    for (let at = 0; at < 100; at++) crowd.push(await rawClient(gateway.url, ''))
    await sleep(300)
    // A client that connects before descriptors run out is served, or gets an error that does not charge the provider.
    const request = rawRequest(PATHS.chat, JSON.stringify(bodyFor('chat', 'good/m', false)))
    upstream.closeIdle()
    await until('closed', () => upstream.open() === 0)
    const early = crowd.slice(0, 5)
    for (const { socket } of early) socket.write(request)
    await until('they are answered', () => early.every((one) => /^HTTP\/1\.1 (200|503) /.test(one.text())), 10_000)
    assert.equal(gateway.child.exitCode, null)
    for (const { socket } of crowd) socket.destroy()
    await until('the gateway serves again', () => crowd.every((one) => one.closed()))
    await sleep(200)
    for (const style of STYLES)
      assert.equal((await sendChat(gateway, { style, model: 'good/m', stream: true })).status, 200)
    const { circuit } = await statusOf(gateway, 'good')
    assert.equal(circuit.failures, 0, 'a local shortage is no provider failure')
    assert.equal(await gateway.stop(), 0)
  })

  for (const style of STYLES)
    test(`a full disk: requests are answered, and the log states that responses cannot be stored: ${style}`, async () => {
      // Files of this process may not exceed 160 blocks of 512 bytes: SQLite creates its tables, then gets the error of a full disk.
      const gateway = await start({ files: files(), limits: '-f 160' })
      on.keep(() => gateway.stop())
      const ids: string[] = []
      for (let at = 0; at < 12; at++) {
        const answer = await sendChat(gateway, {
          style,
          model: 'good/m',
          stream: true,
          more: style === 'responses' ? { input: 'x'.repeat(20_000) } : {},
        })
        assert.equal(answer.status, 200, answer.text)
        assert.equal(textIn(style, true, answer.text), TEXT)
        assert.ok(isComplete(style, answer.text))
        ids.push(String(eventsIn(answer.text)[0]?.response?.id))
      }
      if (style === 'responses') {
        const line = await gateway.line(({ event, level }) => event === 'store' && level === 'error')
        assert.match(String(line.message), /disk|full|written|large/i)
        const statuses = await Promise.all(
          ids.map(async (id) => (await fetch(`${gateway.base}/responses/${id}`)).status),
        )
        assert.ok(
          statuses.every((status) => status === 200 || status === 404),
          statuses.join(),
        )
      }
      assert.equal((await fetch(`${gateway.url}/health`)).status, 200)
      assert.equal(await gateway.stop(), 0)
    })
})

// ── Disconnects and signals at each phase ────────────────────────────────────────────────────────────────────────

type Phase = {
  readonly name: string
  readonly act?: (upstreamRequest: UpstreamRequest) => Act
  /** Bytes that are missing at the end of the request. */
  readonly short?: number
  readonly at?: 'hole'
  readonly stream: boolean
  /** Whether the phase has been reached. */
  readonly reached: (progress: { readonly calls: number; readonly text: string; readonly ms: number }) => boolean
  /** The number of upstream calls at that time. */
  readonly calls: 0 | 1
  /** After SIGTERM with little time: status and code, or the code in the stream. Null: the client gets no response. */
  readonly clientError: readonly [number, string] | 'in the stream' | null
}

const PHASES: readonly Phase[] = [
  { name: 'sending its request', short: 10, stream: true, reached: ({ ms }) => ms > 150, calls: 0, clientError: null },
  {
    name: 'while connecting',
    at: 'hole',
    stream: true,
    reached: ({ ms }) => ms > 250,
    calls: 0,
    clientError: [503, 'server_shutdown'],
  },
  {
    name: 'before the header block',
    act: () => ({ do: 'hang' }),
    stream: true,
    reached: ({ calls }) => calls === 1,
    calls: 1,
    clientError: [503, 'server_shutdown'],
  },
  {
    name: 'before content',
    act: (upstreamRequest) => ({
      do: 'stream',
      pieces: piecesOf(upstreamRequest, { text: TEXT }).slice(0, 1),
      ending: 'stall',
    }),
    stream: true,
    reached: ({ calls, ms }) => calls === 1 && ms > 200,
    calls: 1,
    clientError: [503, 'server_shutdown'],
  },
  {
    name: 'waiting for a retry',
    act: (upstreamRequest) =>
      failWith(upstreamRequest, 429, { type: 'rate_limit_error', message: 'slow down' }, { 'retry-after-ms': '1900' }),
    stream: true,
    reached: ({ calls, ms }) => calls === 1 && ms > 200,
    calls: 1,
    clientError: [503, 'server_shutdown'],
  },
  {
    name: 'in mid-stream',
    act: (upstreamRequest) => ({
      do: 'stream',
      pieces: piecesOf(upstreamRequest, { text: TEXT }).slice(0, 6),
      ending: 'stall',
    }),
    stream: true,
    reached: ({ text }) => text.includes('one'),
    calls: 1,
    clientError: 'in the stream',
  },
  {
    name: 'in the middle of a whole answer',
    act: (upstreamRequest) => {
      const body = JSON.stringify(answerBody(upstreamRequest, { text: TEXT }))
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
      return { do: 'raw', bytes: head + body.slice(0, 40), ending: 'stall' }
    },
    stream: false,
    reached: ({ calls, ms }) => calls === 1 && ms > 200,
    calls: 1,
    clientError: [503, 'server_shutdown'],
  },
]

const bodyOfRaw = (text: string): string =>
  text.replace(/^[\s\S]*?\r\n\r\n/, '').replace(/(?:^|\r\n)[0-9a-f]+\r\n/g, '')

/** An upstream for all phases, and a port where connecting hangs, for one suite. */
const phaseStage = () => {
  const on = stage()
  let upstream: Upstream
  let hole: BadAddress | null = null
  before(async () => {
    upstream = await on.upstream((upstreamRequest) => {
      const phase = PHASES[Number(upstreamRequest.path.split('/')[1]?.replace(/\D/g, ''))]
      return phase?.act?.(upstreamRequest) ?? answerWith(upstreamRequest, { text: TEXT })
    })
    hole = await blackHole()
    on.keep(() => hole?.close())
  })
  const callsTo = (id: string) => callsOf(upstream).filter(({ path }) => path.startsWith(`/${id}/`))
  return {
    on,
    callsTo,
    placeOf: (id: string, phase: Phase) => ({
      baseUrl: `${phase.at === 'hole' ? hole?.url : upstream.url}/${id}/v1`,
    }),
    /** The reason to skip the tests of a phase, if this system cannot produce it. */
    skipReason: (phase: Phase) =>
      phase.at && !hole ? 'on this system connections to a full backlog do not hang' : undefined,
    /** Starts a client of this phase and waits until it has been reached. */
    async startClient(
      gateway: Started,
      phase: Phase,
      { id, style, halfOpen = false }: { readonly id: string; readonly style: Style; readonly halfOpen?: boolean },
    ): Promise<RawClient> {
      const whole = rawRequest(PATHS[style], JSON.stringify(bodyFor(style, `${id}/m`, phase.stream)))
      const begun = performance.now()
      const seen = callsTo(id).length
      const client = await rawClient(gateway.url, whole.slice(0, whole.length - (phase.short ?? 0)), halfOpen)
      const there = () =>
        phase.reached({ calls: callsTo(id).length - seen, text: client.text(), ms: performance.now() - begun })
      await until(phase.name, there, 5_000)
      return client
    },
  }
}

describe('faults: a client disconnects at each phase', () => {
  const { on, callsTo, placeOf, skipReason, startClient } = phaseStage()
  let gateway: Started
  const cases = PHASES.flatMap((phase, at) => STYLES.map((style) => ({ phase, style, id: `${style}${at}` })))
  before(async () => {
    gateway = await on.gateway({
      fallback: 'none',
      timeout: { connect: 20_000 },
      keepAlive: { interval: 0 },
      providers: Object.fromEntries(cases.map(({ id, phase }) => [id, placeOf(id, phase)])),
    })
  })
  for (const { phase, style, id } of cases)
    for (const how of ['RST', 'FIN', 'half'] as const)
      test(`${phase.name}: ${style}, ${how === 'half' ? 'closing its sending side only' : how}`, async (t) => {
        const reason = skipReason(phase)
        if (reason) return t.skip(reason)
        const gone = () =>
          gateway
            .lines()
            .filter(
              ({ event, outcome, provider }) =>
                event === 'request' && outcome === 'client_gone' && (provider === id || phase.calls === 0),
            ).length
        const before = gone()
        const calls = callsTo(id).length
        const client = await startClient(gateway, phase, { id, style, halfOpen: how === 'half' })
        const left = performance.now()
        if (how === 'RST') client.socket.resetAndDestroy()
        else if (how === 'FIN') client.socket.destroy()
        // A half-closed client is treated like a crashed one: its connection is closed completely.
        else client.socket.end()
        await until('released', () => callsTo(id).every(({ ended }) => ended !== 'open'))
        if (how === 'half') await until('closed', () => client.closed(), 3_000)
        const call = callsTo(id).at(-1)
        if (call?.ended === 'aborted') assert.ok((call.endedAt ?? Number.POSITIVE_INFINITY) - left < 1_000)
        assert.equal(callsTo(id).length - calls, phase.calls)
        client.socket.destroy()
        if (!phase.short) await until('the request is logged', () => gone() > before)
        // A waiting retry is cancelled.
        if (phase.name.startsWith('waiting')) {
          await sleep(2_000)
          assert.equal(callsTo(id).length - calls, 1)
        }
        const { circuit, keys } = await statusOf(gateway, id)
        assert.deepEqual([circuit.failures, circuit.state], [0, 'closed'])
        assert.ok(keys.every(({ in_flight }) => in_flight === 0))
      })
})

describe('faults: signals at each phase', { concurrency: 4 }, () => {
  const { on, callsTo, placeOf, skipReason, startClient } = phaseStage()
  PHASES.forEach((phase, at) => {
    for (const style of STYLES)
      test(`SIGTERM, ${phase.name}: ${style}`, async (t) => {
        const reason = skipReason(phase)
        if (reason) return t.skip(reason)
        const id = `${style === 'chat' ? 'x' : 'y'}${at}`
        const gateway = await startWith({
          fallback: 'none',
          drain: { delay: 0, timeout: 300 },
          timeout: { connect: 20_000 },
          keepAlive: { interval: 0 },
          providers: { [id]: placeOf(id, phase) },
        })
        on.keep(() => gateway.stop())
        const client = await startClient(gateway, phase, { id, style })
        gateway.child.kill('SIGTERM')
        const ended = new Promise<number | null>((resolve) => gateway.child.once('exit', resolve))
        assert.equal(await ended, 0)
        await until('closed', () => client.closed())
        const text = client.text()
        if (phase.clientError === 'in the stream') {
          const body = bodyOfRaw(text)
          assert.ok(!isComplete(style, body), text)
          assert.equal(eventsIn(body).find(({ error }) => error)?.error.code, 'server_shutdown', text)
          assert.match(text, /0\r\n\r\n$/, 'the body has ended')
        } else if (phase.clientError) {
          const [status, code] = phase.clientError
          assert.match(text, new RegExp(`^HTTP/1\\.1 ${status} `))
          assert.match(text, new RegExp(`"code":"${code}"`))
        } else assert.doesNotMatch(text, /^HTTP\/1\.1 200/)
        assert.ok(callsTo(id).every(({ ended }) => ended !== 'open'))
        assert.equal(callsTo(id).length, phase.calls)
      })
  })

  for (const style of STYLES)
    test(`SIGKILL in mid-stream: the client sees a break and no end: ${style}`, async () => {
      const at = PHASES.findIndex(({ name }) => name === 'in mid-stream')
      const phase = PHASES[at]
      assert.ok(phase)
      const id = `${style === 'chat' ? 'k' : 'l'}${at}`
      const gateway = await startWith({ fallback: 'none', providers: { [id]: placeOf(id, phase) } })
      const client = await startClient(gateway, phase, { id, style })
      gateway.child.kill('SIGKILL')
      await until('closed', () => client.closed())
      assert.doesNotMatch(client.text(), /\[DONE\]|0\r\n\r\n$/)
      await until('the upstream call is released', () => callsTo(id).every(({ ended }) => ended === 'aborted'))
      await gateway.stop()
    })
})
