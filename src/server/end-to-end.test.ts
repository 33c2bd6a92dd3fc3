/** Client, server, gateway, HTTP client and upstream over real sockets. */

import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { testAccounts } from '../../test/support/accounts.ts'
import { answerWith, errorBody, failWith, piecesOf } from '../../test/support/answers.ts'
import { instance, type SettingsInput } from '../../test/support/gateway.ts'
import { testStore } from '../../test/support/stores.ts'
import {
  type Act,
  refusingUrl,
  type Script,
  startUpstream,
  type Upstream,
  type UpstreamRequest,
  until,
} from '../../test/support/upstream.ts'
import type { Config } from '../core/config.ts'
import { fail } from '../core/failure.ts'
import { settingsSchema } from '../core/settings.ts'
import type { GatewayEvent } from '../core/trace.ts'
import { ActiveCalls } from '../gateway/call/cancellation.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { UpstreamHealth } from '../gateway/health/upstream-health.ts'
import { ResponseCache } from '../gateway/sharing/response-cache.ts'
import { priceBook } from '../policy/accounts/price-book.ts'
import { realWorld } from '../runtime/world.ts'
import { dialer } from '../transport/client/dial.ts'
import { handlersFor } from './handlers.ts'
import { type Server, startServer } from './server.ts'

type Setup = {
  readonly port: number
  readonly url: string
  readonly server: Server
  readonly news: GatewayEvent[]
  readonly gateway: Gateway
}

const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const fixtureFor = (httpServer: 'own' | 'node') => {
  /** A gateway for these upstreams, tried in this order. */
  const gatewayTo = async (urls: readonly string[], settings: SettingsInput = {}): Promise<Setup> => {
    const news: GatewayEvent[] = []
    const tell = (one: GatewayEvent) => {
      news.push(one)
    }
    const made = dialer()
    const world = realWorld(made)
    const instances = urls.map((url, at) => ({ ...instance(`up-${'abc'[at]}`), baseUrl: `${url}/v1` }))
    const config: Config = { settings: settingsSchema.parse(settings), instances, routes: new Map() }
    const gateway: Gateway = {
      world,
      emit: tell,
      health: new UpstreamHealth(world, tell),
      catalogue: () => undefined,
      prices: () => priceBook(() => undefined, []),
      config: () => config,
      lists: () => new Map(),
      activeCalls: new ActiveCalls(),
      responses: testStore(1_000_000),
      accounts: testAccounts(world),
      cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 67_108_864 }),
      jobs: new Map(),
    }
    const server: Server = await startServer({
      port: 0,
      host: '127.0.0.1',
      httpServer,
      settings: () => config.settings,
      handlers: handlersFor({
        gateway,
        version: '0.0.0',
        started: 0,
        uptime: () => 0,
        problems: () => [],
        keyed: () => false,
        draining: () => server.draining(),
        loading: () => false,
        metrics: () => '',
        clientPages: () => Promise.reject(new Error('not used')),
      }),
      onError: (error) => tell({ event: 'error', error }),
      timing: { farewell: 500 },
    })
    closers.push(async () => {
      await server.close()
      await made.close()
    })
    return { port: server.port, url: `http://127.0.0.1:${server.port}`, server, news, gateway }
  }
  return { gatewayTo }
}

/** All tests run on both servers; each is the reference for the other. */
const onBothServers = (
  name: string,
  run: (fixture: ReturnType<typeof fixtureFor>, t: TestContext) => void | Promise<void>,
): void => {
  for (const variant of ['own', 'node'] as const) test(`${variant} server: ${name}`, (t) => run(fixtureFor(variant), t))
}

const upstreamWith = async (script: Script): Promise<Upstream> => {
  const upstream = await startUpstream(script)
  closers.push(() => upstream.close())
  return upstream
}

const STYLES = {
  chat: {
    path: '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'hello' }] },
    last: 'data: [DONE]',
  },
  responses: { path: '/v1/responses', body: { input: 'hello' }, last: 'event: response.completed' },
} as const
type ClientStyle = keyof typeof STYLES

const post = async (url: string, style: ClientStyle, stream: boolean, more: object = {}) => {
  const { path, body } = STYLES[style]
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', stream, ...body, ...more }),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** A client that controls its socket. */
const raw = async (port: number, style: ClientStyle, stream: boolean) => {
  const socket: Socket = connect(port, '127.0.0.1')
  const client = { socket, text: '' }
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    client.text += text
  })
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  const { path, body } = STYLES[style]
  const json = JSON.stringify({ model: 'm', stream, ...body })
  socket.write(`POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${json.length}\r\n\r\n${json}`)
  return client
}

// ── Failover before the first content ─────────────────────────────────────────────────────

const page: Act = { do: 'answer', headers: { 'content-type': 'text/html' }, body: '<html>' }
const faults: readonly [name: string, fault: (asked: UpstreamRequest) => Act, shown: RegExp][] = [
  ['resets', () => ({ do: 'reset' }), /:reset$/],
  ['closes', () => ({ do: 'close' }), /:reset$/],
  ['speaks no HTTP', () => ({ do: 'raw', bytes: 'hello\r\n' }), /:not_http$/],
  ['is down', (asked) => failWith(asked, 500, { type: 'server_error', message: 'oops!' }), /:500$/],
  ['is overloaded', (asked) => failWith(asked, 503, { type: 'server_error', message: 'busy' }), /:503$/],
  [
    'is at its limit',
    (asked) => failWith(asked, 429, { type: 'rate_limit', message: 'slow' }, { 'retry-after': '3' }),
    /:429$/,
  ],
  ['does not know the key', (asked) => failWith(asked, 401, { type: 'authentication_error', message: 'who' }), /:401$/],
  ['returns an HTML page', () => page, /:not_json$/],
  ['returns an HTML page of its CDN', () => ({ ...page, status: 502 }), /:502$/],
  [
    'sends elsewhere',
    () => ({ do: 'answer', status: 302, headers: { location: 'http://127.0.0.1:1/' } }),
    /:(redirect|302)$/,
  ],
  [
    'answers with an error as if it were none',
    (asked) => ({ do: 'answer', body: errorBody(asked, { type: 'server_error', message: 'oops!' }) }),
    /./,
  ],
  [
    'answers half',
    () => ({
      do: 'raw',
      bytes: 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"id":',
    }),
    /:truncated$/,
  ],
  [
    'answers with broken chunks',
    () => ({ do: 'raw', bytes: 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n' }),
    /:not_http$/,
  ],
  ['does not respond', () => ({ do: 'hang' }), /:timeout$/],
]

for (const [name, fault, shown] of faults)
  for (const style of ['chat', 'responses'] as const)
    for (const stream of [false, true])
      onBothServers(
        `end to end: ${style}${stream ? ', streamed' : ''}: an upstream that ${name} causes a failover`,
        async ({ gatewayTo }) => {
          const bad = await upstreamWith(fault)
          const good = await upstreamWith((asked) => answerWith(asked, { text: 'Hallo Welt' }))
          // Short only where it has to expire: on a busy machine an answer may take longer than 150 ms.
          const timeout = name === 'does not respond' ? 150 : 10_000
          const { url } = await gatewayTo([bad.url, good.url], { circuit: { timeout } })
          const answer = await post(url, style, stream)
          assert.equal(answer.status, 200, answer.text)
          assert.equal(answer.headers.get('x-headgate-provider'), 'up-b')
          assert.equal(answer.headers.get('x-headgate-attempts'), '2')
          const [first = '', second = ''] = (answer.headers.get('x-headgate-trail') ?? '').split(', ')
          assert.match(first, shown)
          assert.match(second, /^up-b#.*:200$/)
          if (stream) assert.ok(answer.text.includes(STYLES[style].last))
          else assert.match(answer.text, /Hallo Welt/)
          assert.doesNotMatch(answer.text, /oops!|<html>/)
          assert.equal(good.requests.length, 1)
          assert.equal(good.requests[0]?.key, 'sk-up-b-k1', 'each upstream sees its own key only')
          assert.equal(bad.requests[0]?.key, 'sk-up-a-k1')
        },
      )

onBothServers('end to end: the first upstream refuses connections', async ({ gatewayTo }) => {
  const good = await upstreamWith((asked) => answerWith(asked, { text: 'Hallo' }))
  const { url } = await gatewayTo([await refusingUrl(), good.url])
  const answer = await post(url, 'chat', true)
  assert.match(answer.headers.get('x-headgate-trail') ?? '', /^up-a#\w+:refused, up-b#\w+:200$/)
})

// ── Failures after the first content ─────────────────────────────────────────────────────────────────────

for (const style of ['chat', 'responses'] as const)
  for (const ending of ['close', 'reset', 'end'] as const)
    onBothServers(
      `end to end: ${style}: a stream that breaks off (${ending}) after content ends with an error`,
      async ({ gatewayTo }) => {
        const upstream = await upstreamWith((asked) => ({
          do: 'stream',
          // Role and some text, without the rest.
          pieces: piecesOf(asked, { text: 'one two three four five' }).slice(0, 3),
          gap: 5,
          ending,
        }))
        const second = await upstreamWith((asked) => answerWith(asked, { text: 'never asked' }))
        const { url } = await gatewayTo([upstream.url, second.url])
        const answer = await post(url, style, true)
        assert.equal(answer.status, 200)
        assert.equal(second.requests.length, 0)
        assert.doesNotMatch(answer.text, /never asked/)
        assert.match(answer.text, /stream_interrupted/)
        if (style === 'chat') assert.doesNotMatch(answer.text, /\[DONE\]/)
        else {
          assert.match(answer.text, /event: error\n/)
          assert.match(answer.text, /event: response\.failed\n/)
          assert.doesNotMatch(answer.text, /response\.completed/)
        }
      },
    )

// ── Cancellation and backpressure ──────────────────────────────────────────────────────────────────────────────────

for (const style of ['chat', 'responses'] as const)
  for (const [name, act, begun] of [
    ['before the response header block', () => ({ do: 'hang' }), () => true],
    [
      'in the middle of a stream',
      (asked: UpstreamRequest) => ({
        do: 'stream',
        pieces: piecesOf(asked, { text: 'one two three' }).slice(0, 3),
        ending: 'stall',
      }),
      (text: string) => text.includes('one'),
    ],
  ] as readonly [string, (asked: UpstreamRequest) => Act, (text: string) => boolean][])
    onBothServers(
      `end to end: ${style}: a client that leaves ${name} aborts the upstream request at once`,
      async ({ gatewayTo }) => {
        const upstream = await upstreamWith(act)
        const spare = await upstreamWith((asked) => answerWith(asked, { text: 'never asked' }))
        const { port, news, server } = await gatewayTo([upstream.url, spare.url])
        const client = await raw(port, style, true)
        await until('under way', () => upstream.requests.length === 1 && begun(client.text))
        client.socket.destroy()
        await until('aborted upstream', () => upstream.requests[0]?.ended === 'aborted')
        await until('recorded', () => news.some(({ event }) => event === 'request'))
        const request = news.find((one) => one.event === 'request')
        const last = request?.event === 'request' ? request.trace.at(-1) : undefined
        assert.equal(last?.type === 'ended' ? last.how : '', 'client_gone')
        assert.equal(news.filter(({ event }) => event === 'circuit').length, 0)
        assert.equal(spare.requests.length, 0)
        assert.equal(server.live(), 0)
      },
    )

onBothServers(
  'end to end: a client that does not read pauses the upstream, and loses nothing',
  async ({ gatewayTo }) => {
    const event = `data: ${JSON.stringify({
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [{ index: 0, delta: { content: 'x'.repeat(4_000) }, finish_reason: null }],
    })}\n\n`
    const count = 8_000
    function* events() {
      for (let at = 0; at < count; at++) yield event
      yield event.replace('"finish_reason":null', '"finish_reason":"stop"')
      yield 'data: [DONE]\n\n'
    }
    const upstream = await upstreamWith(() => ({ do: 'stream', pieces: events() }))
    const { port } = await gatewayTo([upstream.url])
    const client = await raw(port, 'chat', true)
    await until('begun', () => client.text.length > 0)
    client.socket.pause()
    let before = -1
    // The upstream writes until every buffer between the two is full, and not one byte more.
    await until(
      'standing still',
      () => {
        const now = upstream.requests[0]?.sent ?? 0
        const still = now === before
        before = now
        return still
      },
      5_000,
    )
    await new Promise((resolve) => setTimeout(resolve, 300))
    const sent = upstream.requests[0]?.sent ?? 0
    assert.ok(
      sent < count * event.length * 0.6,
      `${sent} of ${count * event.length} bytes were sent to a client that does not read`,
    )
    client.socket.resume()
    await until('everything', () => client.text.endsWith('0\r\n\r\n'), 20_000)
    assert.equal(client.text.match(/"content":"x+"/g)?.length, count + 1)
    client.socket.destroy()
  },
)

onBothServers('end to end: each of many concurrent requests gets its own response', async ({ gatewayTo }) => {
  const upstream = await upstreamWith((asked) =>
    answerWith(asked, { text: `<${JSON.stringify(asked.json.messages)}>`.repeat(5) }, { slice: 37 }),
  )
  const closing = setInterval(() => upstream.closeIdle(), 3)
  const { url } = await gatewayTo([upstream.url])
  const ask = async (number: number) => {
    const content = `question ${number} ${'é'.repeat(number % 50)}`
    const stream = number % 2 === 0
    const { text, status } = await post(url, 'chat', stream, { messages: [{ role: 'user', content }] })
    assert.equal(status, 200, text)
    const said = stream
      ? text
          .split('\n\n')
          .filter((line) => line.startsWith('data: {'))
          .map((line) => JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '')
          .join('')
      : JSON.parse(text).choices[0].message.content
    assert.equal(said, `<${JSON.stringify([{ role: 'user', content }])}>`.repeat(5))
  }
  for (let round = 0; round < 8; round++) await Promise.all(Array.from({ length: 25 }, (_, at) => ask(round * 25 + at)))
  clearInterval(closing)
  assert.equal(new Set(upstream.requests.map(({ body }) => body)).size, 200)
})

onBothServers(
  'end to end: at shutdown a stream in progress ends with an error in its format',
  async ({ gatewayTo }) => {
    const upstream = await upstreamWith((asked) => ({
      do: 'stream',
      pieces: piecesOf(asked, { text: 'one two three' }).slice(0, 3),
      ending: 'stall',
    }))
    const { port, server, gateway } = await gatewayTo([upstream.url])
    const client = await raw(port, 'chat', true)
    await until('content', () => client.text.includes('one'))
    await server.drain({
      delay: 0,
      timeout: 50,
      endStreams: () => {
        for (const stop of [...gateway.activeCalls]) stop.cancel(fail('shutdown', 'The gateway is shutting down.'))
      },
    })
    assert.match(client.text, /server_shutdown/)
    assert.doesNotMatch(client.text, /\[DONE\]/)
    await until('closed', () => client.socket.closed || client.socket.readableEnded)
    await until('let go upstream', () => upstream.requests[0]?.ended === 'aborted')
  },
)
