/**
 * The gateway's own limits, over real sockets: requests above them are rejected at once, and health is still answered.
 */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { gauge, settles } from './support/gauges.ts'
import type { Started } from './support/process.ts'
import { bodyFor, callsOf, rawClient, rawRequest, sendChat, sleep, stage } from './support/stage.ts'

const CHAT = '/v1/chat/completions'
const small = JSON.stringify(bodyFor('chat', 'm', false))

/** Opens connections that send nothing. */
const idle = async (gateway: Started, count: number): Promise<readonly Socket[]> => {
  const { hostname, port } = new URL(gateway.url)
  return Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<Socket>((resolve, reject) => {
          const socket = connect(Number(port), hostname, () => resolve(socket))
          socket.once('error', reject)
        }),
    ),
  )
}

/** Sends bytes on a new connection and returns the response; the server may close the connection. */
const talk = async (gateway: Started, bytes: string): Promise<string> => {
  const client = await rawClient(gateway.url, bytes)
  for (const end = performance.now() + 120_000; performance.now() < end && !client.closed(); await sleep(5))
    if (/\r\n\r\n[{#]/.test(client.text())) break
  client.socket.destroy()
  return client.text()
}
const chat = (gateway: Started) => talk(gateway, rawRequest(CHAT, small))
const health = (gateway: Started) => talk(gateway, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')

const assertShed = (answer: string) => {
  assert.match(answer, /^HTTP\/1\.1 503 /)
  assert.match(answer, /\r\nretry-after: 1\r\n/i)
  assert.match(answer, /\r\nx-should-retry: true\r\n/i)
  assert.match(answer, /"type":"overloaded_error","code":"overloaded"/)
}

const on = stage()
const begin = async (limit: object, env: Readonly<Record<string, string>> = {}) => {
  const upstream = await on.upstream((upstreamRequest) =>
    upstreamRequest.body.includes('wait') ? { do: 'hang' } : answerWith(upstreamRequest, { text: 'hello' }),
  )
  const gateway = await on.gateway({ limit, providers: { a: { baseUrl: `${upstream.url}/v1` } } }, env)
  return { upstream, gateway }
}
const shed = (gateway: Started, why: string) => gauge(gateway, 'headgate_shed_total', `why="${why}"`)
const ten = <T>(one: T): T[] => Array.from({ length: 10 }, () => one)
const user = { role: 'user', content: 'x' }
const part = { type: 'text', text: 'x' }
const named = { name: 'f', input_schema: { type: 'object' }, type: 'function', function: { name: 'f' } }
const tools = ten(named)
const messages = [{ role: 'user', content: ten(part) }]

for (const [setting, why] of [
  ['connections', 'connections'],
  ['connectionsPerAddress', 'address'],
] as const)
  test(`limit.${setting}: the next connection's call is rejected and the connection closed, health is answered`, async () => {
    const { gateway } = await begin({ [setting]: 5 })
    const others = await idle(gateway, 5)
    const answer = await chat(gateway)
    assertShed(answer)
    assert.match(answer, /\r\nconnection: close\r\n/i)
    assert.match(await health(gateway), /^HTTP\/1\.1 200 /)
    assert.equal(await shed(gateway, why), 1)
    for (const socket of others) socket.destroy()
    await settles(
      () => gauge(gateway, 'headgate_connections'),
      (open) => open <= 1,
    )
    assert.match(await chat(gateway), /^HTTP\/1\.1 200 /)
  })

test('limit.connections: far above it connections are closed at once', async () => {
  const { gateway } = await begin({ connections: 4 })
  const sockets = await idle(gateway, 60)
  let closed = 0
  for (const socket of sockets) {
    socket.on('error', () => {})
    socket.on('close', () => closed++)
    socket.resume()
  }
  // Four, and sixteen reserved for health.
  assert.ok(
    (await settles(
      async () => closed,
      (count) => count >= 40,
    )) >= 40,
  )
  for (const socket of sockets) socket.destroy()
})

test('metrics: 1,000 unknown model names add no label, and known models keep theirs', async () => {
  const { gateway } = await begin({})
  const post = async (model: string) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' } }
    const response = await fetch(`${gateway.url}${CHAT}`, {
      ...init,
      body: JSON.stringify(bodyFor('chat', model, false)),
    })
    assert.equal(response.status, 200, await response.text())
  }
  for (let at = 0; at < 1_000; at += 20)
    await Promise.all(Array.from({ length: 20 }, (_, more) => post(`a/invented-${at + more}`)))
  await post('a/m')
  const page = await (await fetch(`${gateway.url}/metrics`)).text()
  assert.doesNotMatch(page, /invented/)
  assert.match(page, /^headgate_attempts_total\{provider="a",model="other",class="ok"\} 1000$/m)
  assert.match(page, /^headgate_attempts_total\{provider="a",model="m",class="ok"\} 1$/m)
  assert.ok(page.length < 100_000, `${page.length} characters`)
})

for (const [path, setting, body] of [
  ['/v1/chat/completions', 'messages', { messages: ten(user) }],
  ['/v1/chat/completions', 'parts', { messages }],
  ['/v1/chat/completions', 'tools', { messages: [user], tools }],
  ['/v1/responses', 'messages', { input: ten(user) }],
  ['/v1/responses', 'parts', { input: messages }],
  ['/v1/responses', 'tools', { input: 'x', tools }],
  ['/v1/responses/compact', 'messages', { input: ten(user) }],
  ['/v1/messages', 'messages', { max_tokens: 9, messages: ten(user) }],
  ['/v1/messages', 'parts', { max_tokens: 9, messages }],
  ['/v1/messages', 'tools', { max_tokens: 9, messages: [user], tools }],
  ['/v1/messages/count_tokens', 'messages', { messages: ten(user) }],
  ['/v1/completions', 'messages', { prompt: ten('x') }],
  ['/v1/embeddings', 'messages', { input: ten('x') }],
  ['/v1/route', 'messages', { messages: ten(user) }],
] as const)
  test(`limit.${setting}: ${path} returns 400 with the count, the limit and the setting`, async () => {
    const { gateway, upstream } = await begin({ messages: 9, parts: 9, tools: 9 })
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', ...body }),
    })
    const text = await response.text()
    assert.equal(response.status, 400, text)
    assert.match(text, new RegExp(`(?:10|more than 9) [a-z ]+ in .*the limit is 9 \\(limit.${setting}, LIMIT_`))
    assert.equal(callsOf(upstream).length, 0)
  })

test('limit.messages: a turn over a WebSocket is rejected with the same message', async () => {
  const { gateway } = await begin({ messages: 9 })
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`)
  const answer = await new Promise<string>((resolve, reject) => {
    socket.addEventListener('error', () => reject(new Error('the WebSocket failed')))
    socket.addEventListener('message', ({ data }) => resolve(String(data)))
    socket.addEventListener('open', () =>
      socket.send(JSON.stringify({ type: 'response.create', model: 'm', input: ten(user) })),
    )
  })
  socket.close()
  assert.match(answer, /"status":400/)
  assert.match(answer, /10 items in `input`; the limit is 9 \(limit.messages, LIMIT_MESSAGES\)/)
})

test('limit.messages: a conversation counts with its earlier turns', async () => {
  const { gateway } = await begin({ messages: 9 })
  const post = async (body: object) => {
    const headers = { 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify({ model: 'm', ...body }) }
    const response = await fetch(`${gateway.url}/v1/responses`, init)
    const json = (await response.json()) as { id: string; error: { message: string } }
    return { status: response.status, json }
  }
  const first = await post({ input: ten(user).slice(0, 6) })
  assert.equal(first.status, 200)
  const second = await post({ input: ten(user).slice(0, 6), previous_response_id: first.json.id })
  assert.equal(second.status, 400)
  assert.match(second.json.error.message, /the limit is 9 \(limit.messages/)
})

test('limit.bufferedMegabytes: bounds the sum of bodies in flight, and releases their memory', async () => {
  // One client may hold at most as much as stays free for the others.
  const { gateway } = await begin({ bufferedMegabytes: 2 })
  const body = (kilobytes: number, words: string) =>
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: words + 'x'.repeat(kilobytes * 1024) }] })
  assertShed(await talk(gateway, rawRequest(CHAT, body(1_100, 'one body too large'))))
  const first = await rawClient(gateway.url, rawRequest(CHAT, body(700, 'wait')))
  const held = () => gauge(gateway, 'headgate_buffered_bytes')
  assert.ok((await settles(held, (bytes) => bytes > 700 * 1024)) > 700 * 1024)
  assertShed(await talk(gateway, rawRequest(CHAT, body(700, 'together too large'))))
  assert.match(await chat(gateway), /^HTTP\/1\.1 200 /)
  first.socket.destroy()
  assert.equal(await settles(held, (bytes) => bytes === 0), 0)
  assert.match(await talk(gateway, rawRequest(CHAT, body(700, 'within the limit'))), /^HTTP\/1\.1 200 /)
  assert.equal(await shed(gateway, 'share'), 2)
  assert.equal(await settles(held, (bytes) => bytes === 0), 0)
})

test('limit.bufferedMegabytes: an answer far above the limit is aborted, without an effect on health', async () => {
  const upstream = await on.upstream((upstreamRequest) =>
    answerWith(upstreamRequest, { text: upstreamRequest.body.includes('long') ? 'x'.repeat(3_000_000) : 'short' }),
  )
  const gateway = await on.gateway({
    limit: { bufferedMegabytes: 1 },
    circuit: { consecutiveFailures: 1 },
    providers: { a: { baseUrl: `${upstream.url}/v1` } },
  })
  const { status, text, headers } = await sendChat(gateway, {
    style: 'chat',
    model: 'm',
    stream: false,
    more: { user: 'long' },
  })
  assert.deepEqual([status, headers.get('retry-after'), headers.get('x-should-retry')], [503, '1', 'true'])
  assert.match(text, /"type":"overloaded_error","code":"overloaded"/)
  const held = () => gauge(gateway, 'headgate_buffered_bytes')
  assert.equal(await settles(held, (bytes) => bytes === 0), 0)
  assert.match(await chat(gateway), /^HTTP\/1\.1 200 /)
  assert.equal(
    (await sendChat(gateway, { style: 'chat', model: 'm', stream: true, more: { user: 'long' } })).status,
    200,
  )
})

test('limit.eventLoopDelay: an overloaded process rejects requests until it has recovered', async () => {
  // Blocks the event loop for 80 ms out of 100, until a signal.
  const busy = `const timer = setInterval(() => { const until = Date.now() + 80; while (Date.now() < until); }, 20)
      process.on('SIGUSR2', () => clearInterval(timer))`
  const preload = `data:text/javascript,${encodeURIComponent(busy)}`
  const { gateway } = await begin({ eventLoopDelay: 40 }, { NODE_OPTIONS: `--import ${preload}` })
  const status = async () => Number(/^HTTP\/1\.1 (\d+)/.exec(await chat(gateway))?.[1])
  assert.equal(await settles(status, (code) => code === 503, 30_000), 503)
  assert.match(await health(gateway), /^HTTP\/1\.1 200 /)
  assert.ok((await shed(gateway, 'event_loop')) > 0)
  assert.ok((await gauge(gateway, 'headgate_event_loop_delay_seconds')) > 0)
  gateway.child.kill('SIGUSR2')
  assert.equal(await settles(status, (code) => code === 200), 200)
})

test('limit.concurrent: counts calls whose bodies arrive at the same time', async () => {
  const { gateway, upstream } = await begin({ concurrent: 2 })
  const waiting = small.replace('hello', 'wait')
  const request = rawRequest(CHAT, waiting)
  const heads = await Promise.all(
    Array.from({ length: 8 }, () => rawClient(gateway.url, request.slice(0, -waiting.length))),
  )
  // All header blocks are admitted before any body has arrived.
  await sleep(300)
  for (const { socket } of heads) socket.write(waiting)
  const refused = () => heads.filter(({ text }) => text() !== '')
  await settles(
    async () => refused().length,
    (count) => count >= 6,
  )
  for (const { text } of refused()) assertShed(text())
  assert.equal(refused().length, 6)
  const calls = async () => upstream.requests.filter(({ method }) => method === 'POST').length
  await settles(calls, (count) => count >= 2)
  assert.equal(await calls(), 2)
  assert.equal(await shed(gateway, 'concurrent'), 6)
  for (const { socket } of heads) socket.destroy()
})

test('limit.concurrent: rejection is cheap, and nothing is sent upstream', async (t) => {
  const { gateway, upstream } = await begin({ concurrent: 1 })
  const first = await rawClient(gateway.url, rawRequest(CHAT, small.replace('hello', 'wait')))
  await settles(
    async () => upstream.requests.length,
    (seen) => seen === 2,
  )
  const before = process.hrtime.bigint()
  const times: number[] = []
  for (let at = 0; at < 200; at++) {
    const { status, ms } = await sendChat(gateway, { style: 'chat', model: 'm', stream: false })
    assert.equal(status, 503)
    times.push(ms)
  }
  const middle = times.sort((a, b) => a - b)[100] ?? 0
  t.diagnostic(
    `rejected in ${middle.toFixed(2)} ms (median of 200, round trip), ${Number(process.hrtime.bigint() - before) / 1e6} ms for all`,
  )
  assert.ok(middle < 100, `${middle} ms`)
  assert.equal(upstream.requests.filter(({ method }) => method === 'POST').length, 1)
  assert.equal(await shed(gateway, 'concurrent'), 200)
  first.socket.destroy()
})
