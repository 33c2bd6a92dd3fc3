/**
 * Bad networks. A proxy disturbs the traffic between the gateway and an upstream, or between a client and the gateway.
 * In every case the answer is complete or its client gets an error, and no connection stays open.
 */
import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import { answerWith, piecesOf } from '../support/answers.ts'
import { type Direction, type Toxic, type ToxicProxy, toxicProxy } from '../support/toxics.ts'
import { type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import {
  type Answer,
  bodyFor,
  callsOf,
  eventsIn,
  isComplete,
  PATHS,
  type ProviderStatus,
  rawClient,
  rawRequest,
  STYLES,
  type Style,
  sendChat,
  sleep,
  stage,
  statusOf,
  statusPage,
  textIn,
} from './support/stage.ts'

const TEXT = 'Hellö 你好, here I am'
const SPARE = 'the spare one'

/** Open sockets of a process, including the listening one. */
const socketsOf = (pid: number | undefined): number =>
  readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:')
    } catch {
      // Closed between the listing and the check.
      return false
    }
  }).length

type Placed = { readonly on: Direction; readonly toxic: Toxic }
type Line = {
  readonly name: string
  readonly toxics: readonly Placed[]
  readonly only?: 'stream' | 'whole'
  /** `whole`: the answer is complete nevertheless. Otherwise the error before content: status and code. */
  readonly so: 'whole' | readonly [status: number, code: string]
  /** The connection breaks after content: a stream ends with an error, a whole answer fails over to another provider. */
  readonly streamed?: 'interrupted'
  readonly shown?: string
}

const down = (toxic: Toxic): Placed => ({ on: 'down', toxic })
const up = (toxic: Toxic): Placed => ({ on: 'up', toxic })

const LINES: readonly Line[] = [
  {
    name: 'latency both ways',
    toxics: [up({ kind: 'latency', ms: 120 }), down({ kind: 'latency', ms: 120 })],
    so: 'whole',
  },
  { name: 'a jitter of 2 s', toxics: [down({ kind: 'latency', ms: 1_000, jitter: 1_000 })], so: 'whole' },
  { name: 'the answer in single bytes', toxics: [down({ kind: 'slicer', size: 1, gap: 0 })], so: 'whole' },
  { name: 'the answer three bytes at a time', toxics: [down({ kind: 'slicer', size: 3, gap: 1 })], so: 'whole' },
  { name: 'the request in single bytes', toxics: [up({ kind: 'slicer', size: 1, gap: 0 })], so: 'whole' },
  { name: '1 KB/s', toxics: [down({ kind: 'bandwidth', bytesPerSecond: 1_024 })], so: 'whole' },
  {
    name: 'a slow close',
    toxics: [up({ kind: 'slow-close', ms: 800 }), down({ kind: 'slow-close', ms: 800 })],
    so: 'whole',
  },
  {
    name: 'a header block at 1 B/s',
    toxics: [down({ kind: 'slicer', size: 1, gap: 1_000 })],
    so: [504, 'timeout'],
    shown: 'timeout',
  },
  { name: 'the request is lost', toxics: [up({ kind: 'black-hole' })], so: [504, 'timeout'], shown: 'timeout' },
  { name: 'the answer is lost', toxics: [down({ kind: 'black-hole' })], so: [504, 'timeout'], shown: 'timeout' },
  { name: 'no data passes', toxics: [down({ kind: 'stop' })], so: [504, 'timeout'], shown: 'timeout' },
  {
    name: 'a reset before the first byte',
    toxics: [down({ kind: 'reset', after: 0 })],
    so: [502, 'reset'],
    shown: 'reset',
  },
  {
    name: 'a FIN before the first byte',
    toxics: [down({ kind: 'close', after: 0 })],
    so: [502, 'reset'],
    shown: 'reset',
  },
  {
    name: 'a half-close before the first byte',
    toxics: [down({ kind: 'half-close', after: 0 })],
    so: [502, 'reset'],
    shown: 'reset',
  },
  {
    name: 'a reset in mid-request',
    toxics: [up({ kind: 'reset', after: 60 })],
    so: [502, 'reset'],
    shown: 'reset',
  },
  {
    name: 'a reset in mid-header',
    toxics: [down({ kind: 'reset', after: 40 })],
    so: [502, 'reset'],
    shown: 'reset',
  },
  ...(['reset', 'close', 'half-close'] as const).map(
    (kind): Line => ({
      name: `a ${kind} in the middle of the body`,
      only: 'whole',
      toxics: [down({ kind, after: 350 })],
      so: [502, 'truncated'],
      shown: 'truncated',
    }),
  ),
  ...(['reset', 'close', 'half-close'] as const).map(
    (kind): Line => ({
      name: `a ${kind} after content`,
      only: 'stream',
      // After the first content of every format, and before its end.
      toxics: [down({ kind, after: 4_000 })],
      so: 'whole',
      streamed: 'interrupted',
    }),
  ),
]

type Case = { readonly id: string; readonly line: Line; readonly style: Style; readonly stream: boolean }
const CASES: readonly Case[] = LINES.flatMap((line) =>
  STYLES.flatMap((style) =>
    [false, true].flatMap((stream) =>
      line.only && (line.only === 'stream') !== stream ? [] : [{ line, style, stream }],
    ),
  ),
).map((one, at) => ({ ...one, id: `t${at}` }))

const titleOf = ({ line, style, stream }: Case) => `${line.name}: ${style}${stream ? ', streamed' : ''}`

// Long enough that the longest beginning of an answer fits before the cut at 4,000 bytes.
const LONG = 'word '.repeat(60).trim()

const trailOf = ({ headers }: Answer) =>
  (headers.get('x-headgate-trail') ?? '').split(', ').map((step) => step.replace(/#[0-9a-f]{4,}:/, ':'))
/** Checks that the answer is complete and has this text. */
const checkWhole = ({ style, stream }: Case, answer: Answer, text: string) => {
  assert.equal(answer.status, 200, answer.text)
  assert.equal(textIn(style, stream, answer.text), text)
  if (stream) assert.ok(isComplete(style, answer.text), answer.text)
}

/**
 * Checks the answers of a case. `alone`: its provider is the only target. `two`: it has a spare one. `provider`: the
 * status of the only target.
 */
const checkCase = (one: Case, alone: Answer, two: Answer, provider: ProviderStatus): void => {
  const { id, line, style } = one
  if (line.streamed) {
    for (const answer of [alone, two]) {
      assert.equal(answer.status, 200, answer.text)
      assert.ok(!isComplete(style, answer.text), answer.text)
      const receivedText = textIn(style, true, answer.text)
      assert.ok(receivedText !== '' && LONG.startsWith(receivedText) && receivedText !== LONG, receivedText)
      assert.equal(eventsIn(answer.text).find(({ error }) => error)?.error.code, 'stream_interrupted')
      assert.equal(answer.headers.get('x-headgate-attempts'), '1')
    }
    assert.deepEqual([provider.circuit.failures, provider.circuit.successes], [1, 0])
    return
  }
  if (line.so === 'whole') {
    checkWhole(one, alone, TEXT)
    checkWhole(one, two, TEXT)
    assert.deepEqual([provider.circuit.failures, provider.circuit.successes], [0, 1])
    return
  }
  assert.deepEqual([alone.status, alone.json().error.code], [...line.so], alone.text)
  assert.deepEqual(trailOf(alone), [`${id}a:${line.shown}`])
  assert.equal(alone.headers.get('x-should-retry'), 'true')
  checkWhole(one, two, SPARE)
  assert.deepEqual(trailOf(two), [`${id}b:${line.shown}`, 'spare:200'])
  assert.equal(provider.circuit.failures, 1)
  assert.equal(provider.keys[0]?.in_flight, 0)
}

describe('toxics: between the gateway and an upstream', () => {
  const on = stage()
  const proxies: ToxicProxy[] = []
  const proxyOf = new Map<string, ToxicProxy>()
  let gateway: Started
  let upstream: Upstream

  before(async () => {
    upstream = await on.upstream((upstreamRequest) => {
      const [, place = ''] = upstreamRequest.path.split('/')
      if (place === 'spare') return answerWith(upstreamRequest, { text: SPARE })
      const found = CASES.find(({ id }) => place === `${id}a` || place === `${id}b`)
      return answerWith(upstreamRequest, { text: found?.line.streamed ? LONG : TEXT }, { gap: 1 })
    })
    for (const { id, line } of CASES)
      for (const letter of ['a', 'b']) {
        const proxy = await toxicProxy(upstream.port)
        on.keep(() => proxy.close())
        for (const { on: direction, toxic } of line.toxics) proxy.add(direction, toxic)
        proxies.push(proxy)
        proxyOf.set(id + letter, proxy)
      }
    gateway = await on.gateway({
      fallback: 'same-model',
      circuit: { timeout: 4_000, minRequests: 100, consecutiveFailures: 0 },
      timeout: { connect: 4_000, firstContent: 9_000, idle: 3_000 },
      keepAlive: { interval: 0 },
      providers: {
        ...Object.fromEntries([...proxyOf].map(([place, proxy]) => [place, { baseUrl: `${proxy.url}/${place}/v1` }])),
        spare: { baseUrl: `${upstream.url}/spare/v1` },
      },
      routes: Object.fromEntries(
        CASES.flatMap(({ id }) => [
          [`${id}-alone`, { targets: [`${id}a/m`] }],
          [`${id}-two`, { targets: [`${id}b/m`, 'spare/m'] }],
        ]),
      ),
    })
  })

  describe('each', { concurrency: 16 }, () => {
    for (const one of CASES) {
      const { id, style, stream } = one
      test(titleOf(one), { timeout: 45_000 }, async () => {
        const [alone, two] = await Promise.all([
          sendChat(gateway, { style, model: `${id}-alone`, stream }),
          sendChat(gateway, { style, model: `${id}-two`, stream }),
        ])
        checkCase(one, alone, two, await statusOf(gateway, `${id}a`))
      })
    }
  })

  test('afterwards no call is in flight, and broken connections are closed on both sides', async () => {
    for (const { keys } of (await statusPage(gateway)).values())
      assert.ok(keys.every(({ in_flight }) => in_flight === 0))
    // Without toxics, held-back data ends too, and only idle connections stay open.
    for (const proxy of proxies) proxy.clear()
    await until('the upstream call is released', () => callsOf(upstream).every(({ ended }) => ended !== 'open'), 10_000)
    // The model list has a connection of its own, which recovers without toxics; another may be kept where nothing
    // broke. Each is two sockets of the proxy.
    const kept = ({ line }: Case) => (line.so === 'whole' && !line.streamed ? 4 : 2)
    const open = () =>
      CASES.flatMap((one) =>
        ['a', 'b'].map((letter) => one.id + letter).filter((place) => (proxyOf.get(place)?.open() ?? 0) > kept(one)),
      )
    await until('closed', () => open().length === 0, 10_000).catch(() => assert.equal(open().join(), ''))
    await until(
      'released',
      () => socketsOf(gateway.child.pid) <= CASES.reduce((sum, one) => sum + kept(one), 10),
      10_000,
    )
  })
})

describe('toxics: during an answer', () => {
  const on = stage()
  for (const style of STYLES)
    test(`a connection that stalls and recovers during an answer: ${style}`, async () => {
      const upstream = await on.upstream((upstreamRequest) => answerWith(upstreamRequest, { text: TEXT }, { gap: 60 }))
      const proxy = await toxicProxy(upstream.port)
      on.keep(() => proxy.close())
      const own = await on.gateway({
        fallback: 'none',
        timeout: { idle: 5_000 },
        providers: { live: { baseUrl: `${proxy.url}/v1` } },
      })
      const client = await rawClient(own.url, rawRequest(PATHS[style], JSON.stringify(bodyFor(style, 'live/m', true))))
      await until('content', () => client.text().includes('Hell'), 5_000)
      const mend = proxy.add('down', { kind: 'stop' })
      await sleep(250)
      const had = client.text().length
      await sleep(250)
      assert.equal(client.text().length, had, 'no data arrives')
      mend()
      proxy.add('down', { kind: 'slicer', size: 5, gap: 1 })
      await until('the end', () => client.text().includes('[DONE]'), 8_000)
      const body = client
        .text()
        .replace(/^[\s\S]*?\r\n\r\n/, '')
        .replace(/(?:^|\r\n)[0-9a-f]+\r\n/g, '')
      assert.equal(textIn(style, true, body), TEXT)
      client.socket.destroy()
      await own.stop()
      assert.equal(proxy.open(), 0)
    })
})

// ── Between a client and the gateway ─────────────────────────────────────────────────────────────────────────────

type Client = {
  readonly name: string
  readonly toxics: readonly Placed[]
  /** The outcome of the upstream call; `none`: it is never made. */
  readonly upstream: 'finished' | 'aborted' | 'none'
  /** Whether the client gets its answer. */
  readonly answered: boolean
}

const CLIENTS: readonly Client[] = [
  {
    name: 'latency and jitter',
    toxics: [up({ kind: 'latency', ms: 100 }), down({ kind: 'latency', ms: 200, jitter: 200 })],
    upstream: 'finished',
    answered: true,
  },
  {
    name: 'the request in single bytes',
    toxics: [up({ kind: 'slicer', size: 1, gap: 0 })],
    upstream: 'finished',
    answered: true,
  },
  {
    name: 'the answer in single bytes',
    toxics: [down({ kind: 'slicer', size: 1, gap: 0 })],
    upstream: 'finished',
    answered: true,
  },
  {
    name: '2 KB/s',
    toxics: [down({ kind: 'bandwidth', bytesPerSecond: 2_048 })],
    upstream: 'finished',
    answered: true,
  },
  { name: 'a slow close', toxics: [up({ kind: 'slow-close', ms: 500 })], upstream: 'finished', answered: true },
  { name: 'the answer is lost', toxics: [down({ kind: 'black-hole' })], upstream: 'finished', answered: false },
  {
    name: 'a reset in mid-request',
    toxics: [up({ kind: 'reset', after: 60 })],
    upstream: 'none',
    answered: false,
  },
  {
    name: 'a reset at the start of the answer',
    toxics: [down({ kind: 'reset', after: 10 })],
    upstream: 'aborted',
    answered: false,
  },
]

describe('toxics: between a client and the gateway', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const cases = CLIENTS.flatMap((one) => STYLES.map((style) => ({ one, style }))).map((each, at) => ({
    ...each,
    id: `c${at}`,
  }))
  let idle = 0

  before(async () => {
    const paced = (upstreamRequest: UpstreamRequest) => {
      const pieces = piecesOf(upstreamRequest, { text: LONG })
      const { one } = cases.find(({ id }) => id === upstreamRequest.path.split('/')[1]) ?? {}
      return answerWith(
        upstreamRequest,
        { text: one?.upstream === 'aborted' ? LONG : TEXT },
        one?.upstream === 'aborted' ? { gap: 4_000 / pieces.length } : { gap: 5 },
      )
    }
    upstream = await on.upstream(paced)
    gateway = await on.gateway({
      fallback: 'none',
      keepAlive: { interval: 0 },
      providers: Object.fromEntries(cases.map(({ id }) => [id, { baseUrl: `${upstream.url}/${id}/v1` }])),
    })
    idle = socketsOf(gateway.child.pid)
  })

  describe('each', { concurrency: 8 }, () => {
    for (const { one, style, id } of cases)
      test(`${one.name}: ${style}, streamed`, { timeout: 30_000 }, async () => {
        const proxy = await toxicProxy(Number(new URL(gateway.url).port))
        on.keep(() => proxy.close())
        for (const { on: direction, toxic } of one.toxics) proxy.add(direction, toxic)
        const calls = () => callsOf(upstream).filter(({ path }) => path.startsWith(`/${id}/`))
        if (one.answered) {
          const answer = await sendChat(proxy, { style, model: `${id}/m`, stream: true })
          assert.equal(textIn(style, true, answer.text), TEXT)
          assert.ok(isComplete(style, answer.text), answer.text)
        } else {
          const request = rawRequest(PATHS[style], JSON.stringify(bodyFor(style, `${id}/m`, true)))
          const client = await rawClient(proxy.url, request)
          if (one.upstream === 'none') await until('the client gets an error', () => client.closed(), 5_000)
          else await until('the call has ended', () => calls().some(({ ended }) => ended !== 'open'), 10_000)
          client.socket.destroy()
          proxy.clear()
        }
        await until('closed', () => proxy.open() === 0 || one.answered, 5_000)
        await until('all calls have ended', () => calls().every(({ ended }) => ended !== 'open'), 5_000)
        assert.deepEqual(
          calls().map(({ ended }) => ended),
          one.upstream === 'none' ? [] : [one.upstream],
        )
        const { circuit, keys } = await statusOf(gateway, id)
        assert.deepEqual(
          [circuit.failures, keys[0]?.in_flight],
          [0, 0],
          'a bad client connection is no upstream failure',
        )
      })
  })

  test('afterwards the gateway has at most one kept connection for each provider', async () => {
    // `fetch` clients keep their connections through the proxies: closing those closes them.
    const kept = () => socketsOf(gateway.child.pid) - idle
    await until(
      'released',
      () => kept() <= cases.length + 1 + CLIENTS.filter(({ answered }) => answered).length * 2,
      10_000,
    )
  })
})
