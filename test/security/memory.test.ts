/** Memory that clients can take: what they send is counted in one limit, with a share for each client. */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { heldBytes, type LoadMeter, measureLoad } from '../../src/runtime/load.ts'
import type { AdminApi, AdminRequest } from '../../src/server/admin-request.ts'
import { BodyMemory } from '../../src/server/body-memory.ts'
import { SocketMemory } from '../../src/server/socket-memory.ts'
import { unreadAnswers } from '../../src/server/unread-answers.ts'
import { CHAT, errorOf, onBothServers, requestText, send } from '../support/app-server.ts'
import { until } from '../support/upstream.ts'

const MB = 1_048_576
const [ONE, TWO] = ['the-key-of-client-one', 'the-key-of-client-two']
const bearer = (key: string) => ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' })
const KEYED = { auth: { keys: [ONE, TWO] }, limit: { bufferedMegabytes: 4 } }

const loadFor = (t: TestContext): LoadMeter => {
  const load = measureLoad({ held: heldBytes() })
  t.after(() => load.stop())
  return load
}

/** Opens a connection that sends pieces and leaves the request unfinished. */
const unfinished = async (t: TestContext, port: number, pieces: readonly (string | Buffer)[]): Promise<Socket> => {
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  for (const piece of pieces) socket.write(piece)
  return socket
}
const head = (path: string, length: number, headers: Readonly<Record<string, string>>): string =>
  requestText('POST', path, { ...headers, 'content-length': String(length) })

// ── The rule ─────────────────────────────────────────────────────────────────────────────────────────────────────

test('memory of bodies: a client that takes all it can leaves as much for others, however many there are', () => {
  for (const clients of [1, 2, 5, 20]) {
    const held = heldBytes()
    const bodies = new BodyMemory(
      held,
      unreadAnswers(held, () => 64 * MB),
      () => 64 * MB,
    )
    for (let more = true; more; ) {
      more = false
      for (let client = 0; client < clients; client++) if (!bodies.take(`client ${client}`, 4_096)) more = true
    }
    const free = 64 * MB - held.bytes()
    assert.ok(free >= (64 * MB) / (clients + 1) - 64 * 1024, `${clients} clients leave ${free}`)
    assert.equal(bodies.take('another', free / 2), null)
  }
})

test('memory of bodies: what was released is free again', () => {
  const held = heldBytes()
  const bodies = new BodyMemory(
    held,
    unreadAnswers(held, () => MB),
    () => MB,
  )
  assert.equal(bodies.take('a', MB / 2), null)
  assert.equal(bodies.take('a', 1), 'share')
  assert.equal(bodies.take('b', MB), 'buffered')
  bodies.count('a', -MB / 2)
  assert.equal(held.bytes(), 0)
  assert.equal(bodies.take('a', MB / 2), null)
})

// ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────

for (const path of [CHAT, '/v1/route', '/route', '/v1/messages/count_tokens', '/v1/embeddings'])
  onBothServers(
    `memory of bodies: unfinished requests of one client leave room for another (${path})`,
    async ({ given }, t) => {
      const load = loadFor(t)
      const { server, refused } = await given(KEYED, { load })
      for (let n = 0; n < 6; n++)
        await unfinished(t, server.port, [head(path, 2 * MB, bearer(ONE)), Buffer.alloc(MB, 'x')])
      await until('a request is refused', () => refused.length > 0)
      assert.ok(load.held.bytes() <= 2 * MB, String(load.held.bytes()))
      assert.equal(refused[0]?.why, 'share')
      assert.equal((await send(server.port, 'POST', CHAT, bearer(TWO), '{}')).status, 200)
    },
  )

onBothServers('memory of bodies: a cancellation has at most 4 KiB', async ({ given }) => {
  const { server } = await given(KEYED)
  const cancel = (body: string) => send(server.port, 'POST', '/v1/responses/resp_1/cancel', bearer(ONE), body)
  assert.equal((await cancel('{}')).status, 200)
  assert.equal((await cancel(`{"x":"${'x'.repeat(5_000)}"}`)).status, 413)
})

onBothServers('memory of bodies: chunks of one byte count as what they take', async ({ given, httpServer }, t) => {
  const load = loadFor(t)
  const { server } = await given(KEYED, { load })
  const chunked = requestText('POST', CHAT, { ...bearer(ONE), 'transfer-encoding': 'chunked' })
  await unfinished(t, server.port, [chunked, '1\r\nx\r\n'.repeat(1_000)])
  // The own server joins the chunks of a read.
  await until('the chunks are counted', () => load.held.bytes() >= (httpServer === 'own' ? 1_000 : 256_000))
})

onBothServers('memory of bodies: the bytes of a client that has left are free', async ({ given }, t) => {
  const load = loadFor(t)
  const { server } = await given(KEYED, { load })
  const socket = await unfinished(t, server.port, [head(CHAT, MB, bearer(ONE)), 'x'.repeat(500_000)])
  await until('the body is counted', () => load.held.bytes() >= 500_000)
  socket.destroy()
  await until('the body is released', () => load.held.bytes() === 0)
})

// ── Before the sender is known ───────────────────────────────────────────────────────────────────────────────────

/** An admin API whose check of credentials lasts until `open` is called. */
const heldAdmin = (from: 'actor' | 'unknown') => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const bodies: string[] = []
  const waiting: AdminRequest[] = []
  const admin: AdminApi = {
    async serve(request, reply) {
      waiting.push(request)
      await promise
      const body = await request.readBody(from)
      if (!body.ok) return request.refuse(body.failure)
      bodies.push(body.value)
      reply.writeHead(200, { 'content-type': 'application/json' })
      reply.end('{}')
    },
  }
  return { admin, waiting, bodies, open: resolve }
}
const SESSION = '/admin/api/v1/session'
/** Node reads so much of a socket at once, and no less. */
const READ = 65_536

onBothServers(
  'memory before sign-in: no body is read until its sender is known, and then it is whole',
  async ({ given }, t) => {
    const load = loadFor(t)
    const { admin, waiting, bodies, open } = heldAdmin('actor')
    const { server } = await given({ limit: { bufferedMegabytes: 64 } }, { load, admin })
    const body = Array.from({ length: 100_000 }, (_, at) => String(at))
      .join(' ')
      .slice(0, 500_000)
    const text = requestText('POST', '/admin/api/v1/config/check', {}, body)
    // The head alone, with a part of the body, and with all of it that fits into one read.
    const cuts = [text.indexOf('\r\n\r\n') + 4, text.length - body.length + 10, text.length]
    const answers: Promise<void>[] = []
    for (const cut of cuts) {
      const socket = await unfinished(t, server.port, [text.slice(0, cut), text.slice(cut)])
      answers.push(new Promise((resolve) => socket.once('data', () => resolve())))
    }
    await until('the requests wait', () => waiting.length === cuts.length)
    const held = load.held.bytes()
    assert.ok(held > 4_096 && held <= cuts.length * READ, String(held))
    open()
    await Promise.all(answers)
    assert.deepEqual(
      bodies.map((one) => one === body),
      [true, true, true],
    )
    await until('the bodies are released', () => load.held.bytes() === 0)
  },
)

onBothServers(
  'memory before sign-in: unfinished sign-ins take 4 KiB each, and model calls go on',
  async ({ given }, t) => {
    const load = loadFor(t)
    const { admin, waiting, open } = heldAdmin('unknown')
    const { server } = await given({ limit: { bufferedMegabytes: 1 } }, { load, admin })
    open()
    for (let n = 0; n < 20; n++) await unfinished(t, server.port, [head(SESSION, 4_096, {}), 'x'.repeat(4_000)])
    await until('the sign-ins are received', () => waiting.length === 20)
    for (const length of [5_000, MB]) {
      const answer = await send(server.port, 'POST', SESSION, {}, 'x'.repeat(length))
      assert.equal(answer.status, 413)
    }
    assert.ok(load.held.bytes() <= 20 * 4_096, String(load.held.bytes()))
    const answer = await send(server.port, 'POST', CHAT, { 'content-type': 'application/json' }, '{}')
    assert.equal(answer.status, 200)
  },
)

onBothServers(
  'memory before sign-in: a refused request whose body waits leaves its connection usable',
  async ({ given }) => {
    const admin: AdminApi = {
      async serve(request) {
        await Promise.resolve()
        request.refuse({ kind: 'unauthenticated', source: 'client', message: 'No.' } as Parameters<
          typeof request.refuse
        >[0])
      },
    }
    const { server } = await given({}, { admin })
    const first = requestText('POST', SESSION, {}, 'x'.repeat(30_000))
    const both = `${first}${requestText('GET', '/health')}`
    const text = await new Promise<string>((resolve) => {
      let received = ''
      const socket = connect(server.port, '127.0.0.1', () => socket.write(both))
      socket.setEncoding('latin1')
      socket.on('data', (part: string) => {
        received += part
        if (received.includes('"name":"health"')) socket.destroy()
      })
      socket.on('close', () => resolve(received))
    })
    assert.match(text, /^HTTP\/1\.1 401/)
    assert.match(text, /"name":"health"/)
  },
)

onBothServers('memory before sign-in: what is held counts, and 4 KiB are always held', async ({ given }, t) => {
  const load = loadFor(t)
  const { admin, waiting, bodies, open } = heldAdmin('actor')
  const { server } = await given({ limit: { bufferedMegabytes: 1 } }, { load, admin })
  const check = (bytes: number) => requestText('POST', '/admin/api/v1/config/check', {}, 'x'.repeat(bytes))
  const answers: Promise<string>[] = []
  const ask = async (bytes: number) => {
    const socket = await unfinished(t, server.port, [check(bytes)])
    answers.push(new Promise((resolve) => socket.once('data', (part) => resolve(String(part).slice(9, 12)))))
  }
  for (let n = 0; n < 40; n++) await ask(50_000)
  await until('the requests wait', () => waiting.length === 40)
  assert.ok(load.held.bytes() > 400_000 && load.held.bytes() <= MB, String(load.held.bytes()))
  await ask(4_000)
  await until('a small request waits', () => waiting.length === 41)
  open()
  const statuses = await Promise.all(answers)
  assert.equal(statuses.at(-1), '200')
  assert.ok(statuses.includes('503') && statuses[0] === '200', statuses.join())
  assert.deepEqual(new Set(bodies.map((body) => body.length)), new Set([50_000, 4_000]))
  await until('the bodies are released', () => load.held.bytes() === 0)
})

// `node:http` reports no bytes that belong to no request.
for (const [what, begun, more] of [
  [
    'header blocks',
    '',
    `GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ${'x'.repeat(7_000)}\r\nx-b: ${'x'.repeat(7_000)}`,
  ],
  ['pipelined requests', requestText('GET', SESSION), requestText('GET', '/health').repeat(600)],
] as const)
  onBothServers(`memory before sign-in: unfinished ${what} count`, async ({ given, httpServer }, t) => {
    if (httpServer === 'node') return t.skip('it does not report them')
    const load = loadFor(t)
    const { admin } = heldAdmin('actor')
    const { server } = await given({ limit: { bufferedMegabytes: 1 } }, { load, admin })
    const sockets: Socket[] = []
    let text = ''
    for (let n = 0; n < 120; n++) {
      const socket = await unfinished(t, server.port, begun === '' ? [more] : [begun, more])
      socket.on('data', (part) => {
        text += part
      })
      sockets.push(socket)
    }
    await until('the bytes are counted', () => load.held.bytes() > 300_000)
    assert.ok(load.held.bytes() <= MB, String(load.held.bytes()))
    if (begun === '') await until('some are refused', () => text.includes('HTTP/1.1 503'))
    assert.equal((await send(server.port, 'POST', CHAT, bearer(ONE), '{}')).status, 200)
    for (const socket of sockets) socket.destroy()
    await until('the bytes are released', () => load.held.bytes() === 0)
  })

// ── WebSocket messages ───────────────────────────────────────────────────────────────────────────────────────────

const FRAME = Buffer.alloc(200_000, 'x')

onBothServers(
  'memory of WebSocket messages: an unfinished one counts, and a client has a share',
  async ({ given }, t) => {
    const load = loadFor(t)
    const { server, refused } = await given(
      { auth: { keys: [ONE, TWO] }, limit: { bufferedMegabytes: 2 } },
      { load, answerTurn: async () => {} },
    )
    const open = async () => {
      const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/responses`, { headers: bearer(ONE) })
      t.after(() => socket.terminate())
      socket.on('error', () => {})
      await new Promise((resolve) => socket.once('open', resolve))
      return socket
    }
    const first = await open()
    for (let n = 0; n < 4; n++) first.send(FRAME, { fin: false, binary: false })
    await until('the unfinished message is counted', () => load.held.bytes() >= 4 * FRAME.length)
    const second = await open()
    const closed = new Promise<number>((resolve) => second.once('close', resolve))
    for (let n = 0; n < 4; n++) {
      second.send(FRAME, { fin: false, binary: false })
      // Pings between the parts of a message release nothing.
      second.ping()
    }
    assert.equal(await closed, 1013)
    assert.equal(refused[0]?.failure.kind, 'busy')
    assert.ok(load.held.bytes() <= MB + FRAME.length, String(load.held.bytes()))
    assert.equal((await send(server.port, 'POST', CHAT, bearer(TWO), '{}')).status, 200)
    first.terminate()
    await until('the bytes are released', () => load.held.bytes() === 0)
  },
)

test('memory of WebSocket messages: a message counts until it is done', () => {
  const held = heldBytes()
  const bodies = new BodyMemory(
    held,
    unreadAnswers(held, () => MB),
    () => MB,
  )
  const memory = new SocketMemory(bodies, 'a')
  memory.received(1_000)
  memory.received(1_000)
  assert.equal(held.bytes(), 2_256)
  memory.message(1_900)
  assert.equal(held.bytes(), 1_900)
  memory.received(100)
  assert.equal(held.bytes(), 2_128)
  memory.control(50)
  memory.done(1_900)
  assert.equal(held.bytes(), 172)
  assert.equal(memory.received(MB), 'buffered')
  memory.clear()
  memory.done(1_900)
  assert.equal(held.bytes(), 0)
})

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

onBothServers('memory of answers: clients that do not read stay within the limit together', async ({ given }, t) => {
  const load = loadFor(t)
  let most = 0
  const ended: number[] = []
  const made = await given(
    { ...KEYED, limit: { bufferedMegabytes: 32 } },
    { load, onUnread: ({ bytes }) => ended.push(bytes) },
  )
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.end('w'.repeat(12 * MB))
    most = Math.max(most, load.held.bytes())
  }
  for (let n = 0; n < 10; n++) {
    const socket = await unfinished(t, made.server.port, [requestText('POST', CHAT, bearer(n % 2 ? ONE : TWO), '{}')])
    socket.pause()
  }
  await until('answers are ended', () => made.calls.length === 10 && ended.length >= 2)
  assert.ok(most <= 32 * MB, String(most))
})

onBothServers('memory of bodies: the refusal names the setting and may be retried', async ({ given }, t) => {
  const { server } = await given({ ...KEYED, limit: { bufferedMegabytes: 1 } }, { load: loadFor(t) })
  const answer = await send(server.port, 'POST', CHAT, bearer(ONE), `"${'x'.repeat(900_000)}"`)
  assert.equal(answer.status, 503)
  assert.match(String(errorOf(answer).message), /limit\.bufferedMegabytes/)
})
