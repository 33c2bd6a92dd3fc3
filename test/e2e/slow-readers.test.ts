/** Clients that read more slowly than an answer arrives: the upstream is held back, and memory stays bounded. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { answerWith } from '../support/answers.ts'
import { gauge, residentBytes, settles, skipWithoutProc } from './support/gauges.ts'
import { bodyFor, callsOf, rawRequest, sendChat, sleep, stage, textIn } from './support/stage.ts'

const MEGABYTE = 1_048_576
const SIZE = 50 * MEGABYTE
const PATH = '/v1/chat/completions'

/** A stream of this many bytes, generated on demand. */
function* pieces(bytes: number): Generator<string> {
  const words = 'w'.repeat(8_000)
  const event = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  yield event({ role: 'assistant', content: '' })
  for (let sent = 0; sent < bytes; sent += words.length) yield event({ content: words })
  yield event({}, 'stop')
  yield 'data: [DONE]\n\n'
}

/** Reads 1 KB a second from its connection, and leaves the rest in the kernel's buffer. */
const slowReader = async (url: string): Promise<{ readonly socket: Socket; taken(): number }> => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let taken = 0
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(rawRequest(PATH, JSON.stringify(bodyFor('chat', 'm', true))))
  socket.on('readable', () => {})
  const timer = setInterval(() => {
    const part: Buffer | null = socket.read(1024) ?? socket.read()
    taken += part?.length ?? 0
  }, 1_000)
  socket.once('close', () => clearInterval(timer))
  return { socket, taken: () => taken }
}

const on = stage()

test('twenty clients that read 50 MB at 1 KB/s: the upstream waits, memory stays bounded, others are served', {
  skip: skipWithoutProc,
}, async (t) => {
  const upstream = await on.upstream((request) =>
    request.stream ? { do: 'stream', pieces: pieces(SIZE) } : answerWith(request, { text: 'quick' }),
  )
  const gateway = await on.gateway({ providers: { a: { baseUrl: `${upstream.url}/v1` } } })
  for (let at = 0; at < 20; at++) await sendChat(gateway, { style: 'chat', model: 'm', stream: false })
  const before = await residentBytes(gateway)
  const readers = await Promise.all(Array.from({ length: 20 }, () => slowReader(gateway.url)))
  await sleep(6_000)
  const streams = callsOf(upstream).filter(({ stream }) => stream)
  const sent = () => streams.map((one) => one.sent)
  const early = Math.max(...sent())
  await sleep(2_000)
  const grown = (await residentBytes(gateway)) - before
  const held = await gauge(gateway, 'headgate_buffered_bytes')
  t.diagnostic(
    `20 readers: ${(grown / MEGABYTE / 20).toFixed(2)} MB of resident memory each, ${Math.round(held / 20 / 1024)} KiB unsent each in the process; upstream sent at most ${(early / MEGABYTE).toFixed(1)} MB of 50`,
  )
  assert.equal(streams.length, 20)
  // Sent bytes fill the buffers of two connections each, which the kernel grows to some MB.
  assert.ok(early < 20 * MEGABYTE, `${early} bytes were sent`)
  assert.ok(Math.max(...sent()) - early < 2 * MEGABYTE, 'the upstream waits')
  assert.ok(held > 0 && held <= 20 * 320 * 1024, `${held} bytes are unsent`)
  assert.ok(grown < 100 * MEGABYTE, `${grown} bytes more`)
  assert.ok(readers.every(({ taken }) => taken() > 0))
  const quick = await sendChat(gateway, { style: 'chat', model: 'm', stream: false })
  assert.equal(textIn('chat', false, quick.text), 'quick')
  for (const { socket } of readers) socket.destroy()
  const open = async () => streams.filter(({ ended }) => ended === 'open').length
  assert.equal(await settles(open, (count) => count === 0), 0)
  assert.equal(
    await settles(
      () => gauge(gateway, 'headgate_buffered_bytes'),
      (bytes) => bytes === 0,
    ),
    0,
  )
  assert.equal(
    await settles(
      () => gauge(gateway, 'headgate_in_flight'),
      (calls) => calls === 0,
    ),
    0,
  )
})

test('a client that reads nothing is disconnected, and its upstream call aborted', async () => {
  const upstream = await on.upstream(() => ({ do: 'stream', pieces: pieces(SIZE) }))
  const gateway = await on.gateway({
    timeout: { clientWrite: 1_000 },
    providers: { a: { baseUrl: `${upstream.url}/v1` } },
  })
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.pause()
  socket.write(rawRequest(PATH, JSON.stringify(bodyFor('chat', 'm', true))))
  const ended = async () => (callsOf(upstream)[0]?.ended === 'aborted' ? 1 : 0)
  assert.equal(await settles(ended, (one) => one === 1), 1)
  assert.equal(
    await settles(
      () => gauge(gateway, 'headgate_buffered_bytes'),
      (bytes) => bytes === 0,
    ),
    0,
  )
  assert.equal(await gauge(gateway, 'headgate_client_aborts_total'), 1)
  socket.destroy()
})

test('a client that does not read a whole answer is disconnected', async (t) => {
  // More than the kernel buffers for a connection.
  const upstream = await on.upstream((request) => answerWith(request, { text: 'w'.repeat(12 * MEGABYTE) }))
  const gateway = await on.gateway({
    timeout: { clientWrite: 1_000 },
    providers: { a: { baseUrl: `${upstream.url}/v1` } },
  })
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  socket.pause()
  socket.write(rawRequest(PATH, JSON.stringify(bodyFor('chat', 'm', false))))
  const inFlight = () => gauge(gateway, 'headgate_in_flight')
  const held = () => gauge(gateway, 'headgate_buffered_bytes')
  const large = (bytes: number) => bytes > MEGABYTE
  const ended = async () => (callsOf(upstream)[0]?.ended === 'finished' ? 1 : 0)
  assert.equal(await settles(ended, (one) => one === 1), 1)
  assert.ok(large(await settles(held, large)))
  assert.equal(await settles(held, (bytes) => bytes === 0), 0)
  assert.equal(await settles(inFlight, (calls) => calls === 0), 0)
})

for (const front of ['own', 'node'])
  test(`unread answers of one client do not use the memory of another: its oldest is ended (${front})`, async (t) => {
    const upstream = await on.upstream((request) =>
      answerWith(request, { text: request.body.includes('much') ? 'w'.repeat(12 * MEGABYTE) : 'quick' }),
    )
    const gateway = await on.gateway(
      { limit: { bufferedMegabytes: 16 }, providers: { a: { baseUrl: `${upstream.url}/v1` } } },
      { AUTH_KEYS: 'greedy-key-0001,patient-key-0002', HTTP_SERVER: front },
    )
    const { hostname, port } = new URL(gateway.url)
    const call = (key: string, id: string, content: string) => {
      const socket = connect(Number(port), hostname)
      t.after(() => socket.destroy())
      socket.on('error', () => {})
      socket.pause()
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] })
      socket.write(rawRequest(PATH, body, { authorization: `Bearer ${key}`, 'x-request-id': id }))
      return socket
    }
    const answered = (id: string) => gateway.line((line) => line.event === 'request' && line.id === id)
    const names = ['first', 'second', 'third', 'fourth', 'fifth']
    for (const name of names) {
      call('greedy-key-0001', name, 'much')
      assert.equal((await answered(name)).status, 200)
      const response = await fetch(`${gateway.url}${PATH}`, {
        method: 'POST',
        headers: { authorization: 'Bearer patient-key-0002', 'content-type': 'application/json' },
        body: JSON.stringify(bodyFor('chat', 'm', false)),
      })
      assert.equal(response.status, 200, await response.text())
    }
    const ended = gateway.lines().filter(({ event }) => event === 'unread_ended')
    assert.ok(ended.length >= 2, `${ended.length} answers were ended`)
    assert.deepEqual(
      ended.map(({ id }) => id),
      names.slice(0, ended.length),
      'the oldest first',
    )
    const lines = gateway.lines().filter(({ event }) => event === 'request')
    const [greedy] = lines.filter(({ id }) => id === 'first').map(({ client }) => client)
    const others = lines.filter(({ id }) => !names.includes(String(id))).map(({ client }) => client)
    assert.match(String(greedy), /^[0-9a-f]{4,}$/)
    assert.ok(ended.every(({ client }) => client === greedy))
    assert.ok(others.length > 0 && others.every((client) => client !== greedy && /^[0-9a-f]{4,}$/.test(String(client))))
    assert.doesNotMatch(JSON.stringify(gateway.lines()), /greedy-key|patient-key/)
    const headers = { authorization: 'Bearer patient-key-0002' }
    const page = await (await fetch(`${gateway.url}/metrics`, { headers })).text()
    assert.match(page, new RegExp(`^headgate_requests_total\\{.*client="${String(greedy)}"\\} 5$`, 'm'))
    assert.match(page, new RegExp(`^headgate_shed_total\\{why="unread"\\} ${ended.length}$`, 'm'))
    assert.doesNotMatch(page, /why="buffered"|greedy-key|patient-key/)
  })

test('unread answers over WebSockets are ended as well', async (t) => {
  const upstream = await on.upstream((request) =>
    request.body.includes('much') ? { do: 'stream', pieces: pieces(SIZE) } : answerWith(request, { text: 'quick' }),
  )
  const gateway = await on.gateway(
    { limit: { bufferedMegabytes: 1 }, providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat'] } } },
    { AUTH_KEYS: 'greedy-key-0001,patient-key-0002' },
  )
  const greedy = async () => {
    const headers = { authorization: 'Bearer greedy-key-0001' }
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`, { headers })
    t.after(() => socket.terminate())
    socket.on('error', () => {})
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'response.create', model: 'm', input: 'much', store: false }))
    socket.pause()
  }
  const ended = async () => gateway.lines().filter(({ event }) => event === 'unread_ended').length
  // Backpressure leaves little to buffer for each connection, so it takes many.
  for (let at = 0; at < 40; at++) await greedy()
  assert.ok((await settles(ended, (count) => count > 0, 30_000)) > 0)
  const response = await fetch(`${gateway.url}${PATH}`, {
    method: 'POST',
    headers: { authorization: 'Bearer patient-key-0002', 'content-type': 'application/json' },
    body: JSON.stringify(bodyFor('chat', 'm', false)),
  })
  assert.equal(response.status, 200, await response.text())
  const lines = gateway.lines().filter(({ event }) => event === 'unread_ended')
  for (const { path, client } of lines) {
    assert.equal(path, '/v1/responses')
    assert.match(String(client), /^[0-9a-f]{4,}$/)
  }
})
