import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, describe, type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { problemsIfPresent, requireSchemas } from '../../test/support/schemas.ts'
import { until } from '../../test/support/upstream.ts'
import type { IncomingRequest, ResponseWriter } from '../core/http-exchange.ts'
import type { JsonObject } from '../core/json.ts'
import { type Settings, settingsSchema } from '../core/settings.ts'
import type { MemoryStore, StoredResponse } from '../core/stored-response.ts'
import { writeFrame } from '../protocols/framing/sse.ts'
import { type Handlers, ROUTES } from './routes.ts'
import { type Server, type ServerOptions, startServer } from './server.ts'
import type { RefusedRequest } from './server-context.ts'

type ReceivedTurn = {
  readonly received: IncomingRequest
  readonly reply: ResponseWriter
  readonly connection: MemoryStore
}

type SocketFixture = {
  readonly server: Server
  readonly turns: ReceivedTurn[]
  readonly refused: RefusedRequest[]
  readonly errors: unknown[]
  settings: Settings
  answer: (turn: ReceivedTurn) => void | Promise<void>
}

const running: Server[] = []
const clients: WebSocket[] = []
after(async () => {
  for (const client of clients) client.terminate()
  for (const server of running) await server.close()
})

const HEAD = { 'content-type': 'text/event-stream; charset=utf-8' }
const event = (type: string, more: object = {}) => writeFrame(type, JSON.stringify({ type, ...more }))
const DONE = writeFrame(undefined, '[DONE]')

const complete = ({ reply }: ReceivedTurn) => {
  reply.writeHead(200, HEAD)
  reply.write(event('response.created') + event('response.in_progress'))
  reply.end(event('response.completed') + DONE)
}

const fixtureFor = (httpServer: 'own' | 'node') => {
  const given = async (
    settings: Parameters<typeof settingsSchema.parse>[0] = {},
    options: Partial<ServerOptions> = {},
  ): Promise<SocketFixture> => {
    const turns: ReceivedTurn[] = []
    const refused: RefusedRequest[] = []
    const errors: unknown[] = []
    const made: Omit<SocketFixture, 'server'> = {
      turns,
      refused,
      errors,
      settings: settingsSchema.parse(settings),
      answer: complete,
    }
    const unused = (_received: IncomingRequest, reply: ResponseWriter) => {
      reply.writeHead(200, { 'content-type': 'application/json' })
      reply.end('{}')
    }
    const handlers = Object.fromEntries(Object.keys(ROUTES).map((name) => [name, unused])) as Partial<Handlers>
    const server = await startServer({
      port: 0,
      host: '127.0.0.1',
      httpServer,
      settings: () => made.settings,
      // `Object.fromEntries` does not keep the names of the routes.
      handlers: handlers as Handlers,
      answerTurn: async (received, reply, connection) => {
        const turn = { received, reply, connection }
        turns.push(turn)
        await made.answer(turn)
      },
      onError: (error) => errors.push(error),
      onRefused: (one) => refused.push(one),
      timing: { linger: 100, farewell: 200 },
      ...options,
    })
    running.push(server)
    return Object.assign(made, { server })
  }
  return { httpServer, given }
}

/** All tests run on both servers; each is the reference for the other. */
const onBothServers = (
  name: string,
  run: (fixture: ReturnType<typeof fixtureFor>, t: TestContext) => void | Promise<void>,
): void => {
  // Both at once, since most wait.
  describe(name, { concurrency: true }, () => {
    for (const variant of ['own', 'node'] as const)
      test(`${variant} server: ${name}`, (t) => run(fixtureFor(variant), t))
  })
}

type SocketClient = {
  readonly socket: WebSocket
  readonly messages: JsonObject[]
  readonly texts: string[]
  pings: number
  closed: { code: number; reason: string } | null
  send(message: object | string | Buffer): void
  /** Waits until this many messages were received in total. */
  have(count: number): Promise<readonly string[]>
}

const open = async (
  server: Server,
  options: ConstructorParameters<typeof WebSocket>[2] = {},
  path = '/v1/responses',
): Promise<SocketClient> => {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`, options)
  clients.push(socket)
  const texts: string[] = []
  const messages: JsonObject[] = []
  const client: SocketClient = {
    socket,
    texts,
    messages,
    pings: 0,
    closed: null,
    send: (message) =>
      socket.send(typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message)),
    async have(count) {
      await until(`${count} messages`, () => messages.length >= count)
      return messages.map(({ type }) => String(type))
    },
  }
  socket.on('message', (data) => {
    texts.push(String(data))
    messages.push(JSON.parse(String(data)))
  })
  socket.on('ping', () => client.pings++)
  socket.on('close', (code, reason) => {
    client.closed = { code, reason: String(reason) }
  })
  socket.on('error', () => {})
  await new Promise<void>((resolve, reject) => {
    socket.once('open', () => resolve())
    socket.once('unexpected-response', (_req, res) => reject(new Error(`status ${res.statusCode}`)))
  })
  return client
}

const create = (more: object = {}) => ({ type: 'response.create', model: 'm', input: 'hi', ...more })

/** Tries to connect, and returns the HTTP response. */
const turnedAway = async (server: Server, headers: Record<string, string>, path = '/v1/responses', method = 'GET') => {
  const all = {
    host: `127.0.0.1:${server.port}`,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    ...headers,
  }
  const lines = Object.entries(all).flatMap(([name, value]) => (value === '' ? [] : [`${name}: ${value}\r\n`]))
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  let said = ''
  socket.setEncoding('latin1').on('data', (text: string) => {
    said += text
  })
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1_000))])
  socket.destroy()
  const [head = '', body = ''] = said.split('\r\n\r\n')
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1])
  return { status, head, error: body.startsWith('{') ? JSON.parse(body).error : null }
}

// ── Admission ─────────────────────────────────────────────────────────────────────────────────────────────────────

const doors: readonly (readonly [string, Record<string, string>, number, string, string?, string?])[] = [
  ['no client key', {}, 401, 'invalid_api_key'],
  ['a wrong key', { authorization: 'Bearer nope' }, 401, 'invalid_api_key'],
  [
    'a page of another origin',
    { authorization: 'Bearer k', origin: 'https://evil.example' },
    403,
    'origin_not_allowed',
  ],
  ['another host', { authorization: 'Bearer k', host: 'evil.example' }, 403, 'host_not_allowed'],
  ['no handshake key', { authorization: 'Bearer k', 'sec-websocket-key': '' }, 400, 'invalid_request'],
  ['an unknown version', { authorization: 'Bearer k', 'sec-websocket-version': '9' }, 400, 'invalid_request'],
  ['two slashes', { authorization: 'Bearer k' }, 400, 'invalid_request', '//v1/responses'],
  ['chat', {}, 426, 'upgrade_required', '/v1/chat/completions'],
  ['compaction', {}, 426, 'upgrade_required', '/v1/responses/compact'],
  ['messages', {}, 426, 'invalid_request_error', '/v1/messages'],
  ['another method', {}, 426, 'upgrade_required', '/v1/responses', 'POST'],
  ['nowhere', {}, 404, 'unknown_url', '/v1/nowhere'],
]
for (const [name, headers, status, code, path, method] of doors)
  onBothServers(`web socket: refused: ${name}`, async ({ given }) => {
    const { server, refused } = await given({ auth: { keys: ['k'] } })
    const answer = await turnedAway(server, headers, path, method)
    assert.equal(answer.status, status, answer.head)
    assert.equal(answer.error.code ?? answer.error.type, code)
    assert.match(answer.head, /\r\nx-request-id: req_[a-z]+/i)
    assert.deepEqual(
      refused.map((one) => one.status),
      [status],
    )
  })

for (const [name, path, headers] of [
  ['with a bearer key', '/v1/responses', { authorization: 'Bearer k' }],
  ['with x-api-key', '/responses', { 'x-api-key': 'k' }],
  ['from a page of this gateway', '/v1/responses/', { 'x-api-key': 'k', origin: 'http://localhost:PORT' }],
  ['with a request ID', '/v1/responses?beta=true', { 'x-api-key': 'k', 'x-request-id': 'mine-1' }],
] as const)
  onBothServers(`web socket: admitted ${name}`, async ({ given }) => {
    const { server, turns } = await given({ auth: { keys: ['k'] } })
    const sent = Object.entries(headers).map(([key, value]) => [key, value.replace('PORT', String(server.port))])
    const client = await open(server, { headers: Object.fromEntries(sent) }, path)
    client.send(create())
    await client.have(3)
    const [turn] = turns
    assert.equal(turn?.received.method, 'POST')
    assert.equal(turn?.received.path, path.split('?')[0])
    assert.match(turn?.received.id ?? '', 'x-request-id' in headers ? /^mine-1\.a$/ : /^req_[a-z]+\.a$/)
    assert.equal(turn?.received.client.owner.length, 32)
  })

onBothServers('web socket: compression is not negotiated', async ({ given }) => {
  const { server } = await given()
  const client = await open(server, { perMessageDeflate: true })
  assert.equal(client.socket.extensions, '')
})

onBothServers('web socket: without a turn handler an upgrade gets 426', async ({ httpServer, given }) => {
  const { server } = await given()
  const bare = await startServer({
    port: 0,
    host: '127.0.0.1',
    httpServer,
    settings: () => settingsSchema.parse({}),
    handlers: {} as Handlers,
    onError: () => {},
  })
  running.push(bare)
  assert.equal((await turnedAway(bare, {})).status, 426)
  assert.ok(server.port)
})

// ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────

const bodies: readonly (readonly [string, string, string])[] = [
  ['a plain one', '{"type":"response.create","model":"m","input":"hi"}', '{"model":"m","input":"hi","stream":true}'],
  [
    'unknown members and the digits of large numbers stay',
    '{"model":"m","x":12345678901234567890,"type":"response.create","y":1.50}',
    '{"model":"m","x":12345678901234567890,"y":1.50,"stream":true}',
  ],
  ['an explicit stream', '{"type":"response.create","stream":true,"model":"m"}', '{"stream":true,"model":"m"}'],
  ['stream: false', '{"type":"response.create","stream":false,"model":"m"}', '{"stream":true,"model":"m"}'],
  ['not in the background', '{"type":"response.create","background":false,"model":"m"}', '{"model":"m","stream":true}'],
  ['with a stream_id', '{"type":"response.create","stream_id":"a.b-1","model":"m"}', '{"model":"m","stream":true}'],
  ['generate: true', '{"type":"response.create","generate":true,"model":"m"}', '{"model":"m","stream":true}'],
  [
    'sent ahead',
    '{"type":"response.create","generate":false,"model":"m"}',
    '{"generate":false,"model":"m","stream":true}',
  ],
  // The gateway refuses these.
  ['no JSON', '{"type"', '{"type"'],
  ['no object', '[1]', '[1]'],
]
for (const [name, message, body] of bodies)
  onBothServers(`web socket: the body of a turn: ${name}`, async ({ given }) => {
    const { server, turns } = await given()
    const client = await open(server)
    client.send(message)
    await client.have(3)
    assert.equal(turns[0]?.received.body.text, body)
  })

onBothServers(
  'web socket: a turn has the headers of the upgrade, without those of the transport',
  async ({ given }) => {
    const { server, turns } = await given()
    const client = await open(server, {
      headers: { 'openai-beta': 'responses_websockets=2026-02-06', 'user-agent': 'codex' },
    })
    client.send(create())
    await client.have(3)
    assert.equal(turns[0]?.received.headers('user-agent'), 'codex')
    assert.equal(turns[0]?.received.headers('openai-beta'), undefined)
    const other = await open(server, { headers: { 'openai-beta': 'responses_websockets=1, assistants=v2' } })
    other.send(create())
    await other.have(3)
    assert.equal(turns[1]?.received.headers('openai-beta'), ' assistants=v2')
  },
)

onBothServers('web socket: each event is one message; comments are pings, and [DONE] is dropped', async ({ given }) => {
  const setting = await given()
  setting.answer = ({ reply }) => {
    reply.writeHead(200, HEAD)
    reply.write(': ping\n')
    reply.write(event('response.created') + event('response.in_progress'))
    reply.write(': headgate provider=x\n')
    // Another valid way to write a stream.
    reply.write(
      'event: response.output_text.delta\r\ndata: {"type":"response.output_text.delta",\r\ndata: "x":1}\r\n\r\n',
    )
    reply.end(event('response.completed') + DONE)
  }
  const client = await open(setting.server)
  client.send(create())
  assert.deepEqual(await client.have(4), [
    'response.created',
    'response.in_progress',
    'response.output_text.delta',
    'response.completed',
  ])
  await until('two pings', () => client.pings === 2)
  assert.equal(client.texts.length, 4)
})

onBothServers('web socket: the events of a turn carry its stream_id, others do not', async ({ given }) => {
  const { server } = await given()
  const client = await open(server)
  client.send(create({ stream_id: 'main' }))
  client.send(create())
  client.send(create({ stream_id: 'main', background: true }))
  await client.have(7)
  assert.deepEqual(
    client.messages.map(({ stream_id }) => stream_id),
    ['main', 'main', 'main', undefined, undefined, undefined, 'main'],
  )
})

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

requireSchemas()
const wrong: readonly (readonly [string, object | string | Buffer, number, string, string | null])[] = [
  ['a binary message', Buffer.from('{}'), 400, 'invalid_request', null],
  ['an unknown type', { type: 'response.cancel' }, 400, 'invalid_value', 'type'],
  ['no type', { model: 'm' }, 400, 'invalid_value', 'type'],
  ['in the background', create({ background: true }), 400, 'unsupported_parameter', 'background'],
  ['an empty stream_id', create({ stream_id: '' }), 400, 'invalid_value', 'stream_id'],
  ['a stream_id with a blank', create({ stream_id: 'a b' }), 400, 'invalid_value', 'stream_id'],
  ['a stream_id that is a number', create({ stream_id: 7 }), 400, 'invalid_value', 'stream_id'],
]
for (const [name, message, status, code, param] of wrong)
  onBothServers(`web socket: ${name} is an error, and the connection stays`, async ({ given }) => {
    const { server, turns, refused } = await given()
    const client = await open(server)
    client.send(message)
    await client.have(1)
    const [error] = client.messages
    assert.equal(problemsIfPresent('openresponses', 'WebSocketErrorEvent', error), undefined)
    assert.deepEqual([error?.type, error?.status], ['error', status])
    assert.partialDeepStrictEqual(error, { error: { code, param, type: 'invalid_request_error' } })
    assert.partialDeepStrictEqual(error, { headers: { 'x-should-retry': 'false' } })
    client.send(create())
    assert.equal((await client.have(4)).at(-1), 'response.completed')
    assert.equal(turns.length, 1)
    assert.equal(refused.length, 1)
  })

onBothServers('web socket: response.processed, as Codex sends it, gets no response', async ({ given }) => {
  const { server } = await given()
  const client = await open(server)
  client.send({ type: 'response.processed', response_id: 'resp_1' })
  client.send(create())
  assert.deepEqual(await client.have(3), ['response.created', 'response.in_progress', 'response.completed'])
})

onBothServers('web socket: a refused turn is an error with its status, headers and message', async ({ given }) => {
  const setting = await given()
  const body = '{"error":{"message":"Slower.","type":"rate_limit_error","code":"rate_limited","param":null}}'
  setting.answer = ({ reply }) => {
    reply.writeHead(429, { 'content-type': 'application/json', 'retry-after': '7', 'x-should-retry': 'true' })
    reply.end(body)
  }
  const client = await open(setting.server)
  client.send(create({ stream_id: 'x' }))
  await client.have(1)
  assert.deepEqual(client.messages[0], {
    type: 'error',
    status: 429,
    headers: { 'retry-after': '7', 'x-should-retry': 'true' },
    ...JSON.parse(body),
    stream_id: 'x',
  })
})

onBothServers('web socket: the text of an error is passed on unchanged', async ({ given }) => {
  const setting = await given()
  // Escaped as retry-neutral text: a search of it finds no reason to retry.
  const body = String.raw`{"error":{"message":"o\u0076erloaded","type":"x","code":"y"}}`
  setting.answer = ({ reply }) => {
    reply.writeHead(400, { 'content-type': 'application/json' })
    reply.end(body)
  }
  const client = await open(setting.server)
  client.send(create())
  await client.have(1)
  assert.ok(client.texts[0]?.includes(String.raw`o\u0076erloaded`), client.texts[0])
})

const failure = (code: string) =>
  event('error', { sequence_number: 3, error: { code, message: 'x', type: 't', param: null } }) +
  event('response.failed', { response: { status: 'failed', error: { code, message: 'x' } } }) +
  DONE

onBothServers('web socket: a response that has begun fails with exactly one event', async ({ given }) => {
  const setting = await given()
  setting.answer = ({ reply }) => {
    reply.writeHead(200, HEAD)
    reply.write(event('response.created'))
    reply.end(failure('stream_interrupted'))
  }
  const client = await open(setting.server)
  client.send(create())
  client.send(create())
  assert.deepEqual(await client.have(4), ['response.created', 'response.failed', 'response.created', 'response.failed'])
})

onBothServers('web socket: a turn that fails after pings only is an error with its HTTP status', async ({ given }) => {
  const setting = await given()
  setting.answer = ({ reply }) => {
    reply.writeHead(200, HEAD)
    reply.write(': ping\n')
    reply.end(event('response.created') + event('response.in_progress') + failure('no_target_available'))
  }
  const client = await open(setting.server)
  client.send(create())
  await client.have(1)
  assert.partialDeepStrictEqual(client.messages[0], {
    type: 'error',
    status: 503,
    error: { code: 'no_target_available' },
  })
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(client.messages.length, 1)
})

for (const [name, answer, expected] of [
  ['before the first event', () => Promise.reject(new Error('bug')), 'error'],
  [
    'after that',
    ({ reply }: ReceivedTurn) => {
      reply.writeHead(200, HEAD)
      reply.write(event('response.created'))
      throw new Error('bug')
    },
    'closed',
  ],
] as const)
  onBothServers(`web socket: an internal error ${name}`, async ({ given }) => {
    const setting = await given()
    setting.answer = answer
    const client = await open(setting.server)
    client.send(create())
    await until('an end', () => client.closed !== null || client.messages.at(-1)?.type === 'error')
    assert.equal(client.closed ? 'closed' : 'error', expected)
    assert.equal(setting.errors.length, 1)
    if (expected === 'error') assert.partialDeepStrictEqual(client.messages[0], { status: 500 })
  })

onBothServers('web socket: a message above limit.body closes the connection with 1009', async ({ given }) => {
  const setting = await given({ limit: { body: 1_000 } })
  const client = await open(setting.server)
  client.send(create({ input: 'x'.repeat(2_000) }))
  await until('closed', () => client.closed !== null)
  assert.equal(client.closed?.code, 1009)
  assert.equal(setting.turns.length, 0)
  setting.settings = settingsSchema.parse({ limit: { body: 10_000 } })
  const other = await open(setting.server)
  other.send(create({ input: 'x'.repeat(2_000) }))
  await other.have(3)
})

// ── Queue ────────────────────────────────────────────────────────────────────────────────────────────

/** Turns that the test ends. */
const held = () => {
  const waiting: (() => void)[] = []
  return {
    answer: (turn: ReceivedTurn) =>
      new Promise<void>((resolve) =>
        waiting.push(() => {
          complete(turn)
          resolve()
        }),
      ),
    waiting,
    release: () => waiting.shift()?.(),
  }
}

onBothServers('web socket: messages during a turn are queued in order, errors too', async ({ given }) => {
  const setting = await given()
  const hold = held()
  setting.answer = hold.answer
  const client = await open(setting.server)
  client.send(create({ input: 'one' }))
  client.send({ type: 'nonsense' })
  client.send(create({ input: 'two' }))
  await until('the first turn', () => hold.waiting.length === 1)
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(setting.turns.length, 1)
  assert.equal(client.messages.length, 0)
  hold.release()
  await until('the second turn', () => hold.waiting.length === 1)
  assert.deepEqual(await client.have(4), ['response.created', 'response.in_progress', 'response.completed', 'error'])
  hold.release()
  await client.have(7)
  assert.deepEqual(
    setting.turns.map(({ received }) => JSON.parse(received.body.text).input),
    ['one', 'two'],
  )
})

onBothServers(
  'web socket: a large message is parsed in pieces, and later messages keep their order',
  async ({ given }) => {
    const setting = await given()
    const client = await open(setting.server)
    const words = 'a "word" é😀 '.repeat(60_000)
    client.send(create({ input: words, stream_id: 'x' }))
    client.send(create({ input: 'two' }))
    client.send(Buffer.from('binary'))
    client.send(`{"type":"response.create","input":"${words.replaceAll('"', '')}`)
    client.send(create({ input: 'three', tools: ['x'.repeat(300_000)] }))
    await until('all are turns', () => setting.turns.length === 4)
    const inputs = setting.turns.map(({ received: { body } }) =>
      body.text.endsWith('}') ? JSON.parse(body.text).input : 'cut',
    )
    assert.deepEqual(
      inputs.map((input) => (input === words ? 'the words' : input)),
      ['the words', 'two', 'cut', 'three'],
    )
    const [first] = setting.turns
    assert.deepEqual(Object.keys(JSON.parse(first?.received.body.text ?? '')), ['model', 'input', 'stream'])
  },
)

for (const [name, messages, waits] of [
  ['messages', Array.from({ length: 20 }, () => create()), 16],
  ['characters', Array.from({ length: 4 }, () => create({ input: 'x'.repeat(400) })), 2],
] as const)
  onBothServers(`web socket: the queue is limited: ${name}`, async ({ given }) => {
    const setting = await given({ limit: { body: 1_000 } })
    const hold = held()
    setting.answer = hold.answer
    const client = await open(setting.server)
    for (const message of messages) client.send(message)
    await client.have(messages.length - 1 - waits)
    for (const { status, error } of client.messages)
      assert.partialDeepStrictEqual({ status, error }, { status: 503, error: { code: 'overloaded' } })
    for (let left = 0; left <= waits; left++) {
      await until('the next turn', () => hold.waiting.length === 1)
      hold.release()
    }
    await until('all', () => client.messages.filter(({ type }) => type === 'response.completed').length === waits + 1)
    assert.equal(client.messages.filter(({ type }) => type === 'error').length, messages.length - 1 - waits)
  })

onBothServers('web socket: turns count towards the concurrency limit', async ({ given }) => {
  const setting = await given({ limit: { concurrent: 1 } })
  const hold = held()
  setting.answer = hold.answer
  const one = await open(setting.server)
  const two = await open(setting.server)
  one.send(create())
  await until('a turn', () => hold.waiting.length === 1)
  two.send(create())
  await two.have(1)
  assert.partialDeepStrictEqual(two.messages[0], { status: 503, error: { code: 'overloaded' } })
  assert.equal((await turnedAway(setting.server, {})).status, 503)
  assert.equal(
    (await fetch(`http://127.0.0.1:${setting.server.port}/v1/responses`, { method: 'POST', body: '{}' })).status,
    503,
  )
  hold.release()
  await one.have(3)
  two.send(create())
  await until('its turn', () => hold.waiting.length === 1)
  hold.release()
  await two.have(4)
})

// ── End of a connection ──────────────────────────────────────────────────────────────────────────────────────

for (const [name, leave] of [
  ['closes', (socket: WebSocket) => socket.close()],
  ['vanishes', (socket: WebSocket) => socket.terminate()],
] as const)
  onBothServers(`web socket: a client that ${name} ends its turn and frees its call`, async ({ given }) => {
    // The close timeout is longer than the test.
    const setting = await given({ limit: { concurrent: 1 } }, { socketTiming: { close: 60_000 } })
    let gone = false
    let done: () => void = () => {}
    setting.answer = ({ reply }) =>
      new Promise((resolve) => {
        done = resolve
        reply.writeHead(200, HEAD)
        reply.write(event('response.created'))
        reply.onDisconnect(() => {
          gone = true
          resolve()
        })
      })
    const client = await open(setting.server)
    client.send(create())
    client.send(create())
    await client.have(1)
    leave(client.socket)
    await until('gone', () => gone)
    // Queued turns do not start.
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal(setting.turns.length, 1)
    setting.answer = complete
    const other = await open(setting.server)
    other.send(create())
    await other.have(3)
    done()
  })

onBothServers('web socket: a client that sends a close frame and stays counts as gone', async ({ given }) => {
  // Longer than the test waits: the connection ends before the closing handshake times out.
  const setting = await given({}, { socketTiming: { close: 60_000 } })
  let gone = false
  setting.answer = ({ reply }) =>
    new Promise((resolve) =>
      reply.onDisconnect(() => {
        gone = true
        resolve()
      }),
    )
  const socket = connect({ port: setting.server.port, host: '127.0.0.1', allowHalfOpen: true })
  const key = Buffer.alloc(16).toString('base64')
  socket.write(
    `GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
  )
  await new Promise((resolve) => socket.once('data', resolve))
  /** A client frame with a zero mask. */
  const frame = (opcode: number, payload: Buffer) =>
    Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), payload])
  socket.write(frame(1, Buffer.from('{"type":"response.create","model":"m"}')))
  await until('a turn', () => setting.turns.length === 1)
  socket.write(frame(8, Buffer.from([3, 232])))
  await until('gone', () => gone)
  socket.destroy()
})

onBothServers('web socket: an aborted turn ends the connection', async ({ given }) => {
  const setting = await given()
  setting.answer = ({ reply }) => {
    reply.writeHead(200, HEAD)
    reply.write(event('response.created'))
    reply.abort()
  }
  const client = await open(setting.server)
  client.send(create())
  await until('closed', () => client.closed !== null)
  assert.equal(client.closed?.code, 1006)
})

onBothServers('web socket: a slow client gets everything', async ({ given }) => {
  const setting = await given()
  const piece = 'x'.repeat(64 * 1024)
  let written = 0
  let drained = 0
  setting.answer = ({ reply }) =>
    new Promise((resolve) => {
      reply.writeHead(200, HEAD)
      const go = () => {
        while (written < 400)
          if (!reply.write(event('response.output_text.delta', { number: written++, piece }))) return
        reply.end(event('response.completed'))
        resolve()
      }
      reply.onDrain(() => {
        drained++
        go()
      })
      go()
    })
  const client = await open(setting.server)
  client.socket.pause()
  client.send(create())
  await until('the turn', () => written > 0)
  // The kernel's buffers fill first.
  let last = -1
  await until('it waits', () => {
    const still = last === written
    last = written
    return still && written < 400
  })
  client.socket.resume()
  await client.have(401)
  assert.ok(drained > 0)
  assert.deepEqual(
    client.messages.slice(0, 400).map(({ number }) => number),
    Array.from({ length: 400 }, (_, at) => at),
  )
})

onBothServers('web socket: a client without a pong for too long counts as dead', async ({ given }) => {
  // Both ends share this process, which a busy machine may stop for a second.
  const { server } = await given({}, { socketTiming: { ping: 50, deaf: 3_000 } })
  const deaf = await open(server, { autoPong: false })
  const alive = await open(server)
  await until('closed', () => deaf.closed !== null)
  assert.equal(deaf.closed?.code, 1006)
  await until('pinged', () => alive.pings > 70)
  assert.equal(alive.closed, null)
})

onBothServers(
  'web socket: at its maximum age a connection gets an error and closes, after the turn in progress',
  async ({ given }) => {
    const setting = await given({}, { socketTiming: { lifetime: 500 } })
    const hold = held()
    setting.answer = hold.answer
    const idle = await open(setting.server)
    const busy = await open(setting.server)
    busy.send(create())
    busy.send(create())
    await until('a turn', () => hold.waiting.length === 1)
    await new Promise((resolve) => setTimeout(resolve, 600))
    await until('idle closed', () => idle.closed !== null)
    assert.partialDeepStrictEqual(idle.messages, [
      { type: 'error', status: 400, error: { code: 'websocket_connection_limit_reached' } },
    ])
    assert.equal(idle.closed?.code, 1000)
    assert.equal(busy.closed, null)
    hold.release()
    await until('busy closed', () => busy.closed !== null)
    const types = busy.messages.map(({ type }) => type)
    assert.deepEqual(types.slice(0, 4), ['response.created', 'response.in_progress', 'response.completed', 'error'])
    assert.equal(setting.turns.length, 1)
  },
)

onBothServers('web socket: a drain closes idle connections, and others after their turn', async ({ given }) => {
  const setting = await given()
  const hold = held()
  setting.answer = hold.answer
  const idle = await open(setting.server)
  const busy = await open(setting.server)
  busy.send(create())
  await until('a turn', () => hold.waiting.length === 1)
  let over = false
  const drained = setting.server.drain({ delay: 200, timeout: 5_000, endStreams: () => {} }).then(() => {
    over = true
  })
  await until('idle closed', () => idle.closed !== null)
  assert.equal(idle.closed?.code, 1001)
  assert.equal((await turnedAway(setting.server, {})).error?.code, 'draining')
  busy.send(create())
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(over, false)
  assert.equal(setting.server.live(), 1)
  hold.release()
  await drained
  await until('busy closed', () => busy.closed !== null)
  assert.equal(busy.closed?.code, 1001)
  assert.deepEqual(
    busy.messages.map(({ type }) => type),
    ['response.created', 'response.in_progress', 'response.completed', 'error'],
  )
  assert.partialDeepStrictEqual(busy.messages.at(-1), { status: 503, error: { code: 'draining' } })
  assert.equal(setting.turns.length, 1)
})

onBothServers('web socket: a client that does not answer the close frame does not delay a drain', async ({ given }) => {
  const setting = await given({}, { socketTiming: { close: 100 } })
  const client = await open(setting.server)
  client.socket.pause()
  await setting.server.drain({ delay: 0, timeout: 3_600_000, endStreams: () => {} })
})

// ── Memory of a connection ──────────────────────────────────────────────────────────────────────────────────

const stored = (id: string): StoredResponse => ({
  id,
  owner: '',
  previous: null,
  status: 'completed',
  created: 1,
  input: '[]',
  response: '{}',
  events: null,
  items: [`item_${id}`],
  maker: null,
})

onBothServers(
  'web socket: a connection keeps its own responses until it ends, without those a failed turn continued',
  async ({ given }) => {
    const setting = await given()
    const one = await open(setting.server)
    const two = await open(setting.server)
    setting.answer = (turn) => {
      turn.connection.put(stored(`resp_${setting.turns.length}`))
      complete(turn)
    }
    one.send(create())
    await one.have(3)
    two.send(create())
    await two.have(3)
    const [mine, other] = setting.turns.map(({ connection }) => connection)
    assert.deepEqual(mine?.get('resp_1', ''), stored('resp_1'))
    assert.deepEqual(mine?.findByItem('item_resp_1', ''), stored('resp_1'))
    assert.equal(mine?.get('resp_2', ''), undefined)
    assert.equal(other?.get('resp_1', ''), undefined)
    assert.equal(other?.findByItem('item_resp_1', ''), undefined)
    assert.equal(mine?.get('resp_1', 'another owner'), undefined)

    // A turn that fails before the response it continues was read.
    setting.answer = ({ reply }) => {
      reply.writeHead(400, { 'content-type': 'application/json' })
      reply.end('{"error":{"message":"x","code":"invalid_value"}}')
    }
    one.send(create({ previous_response_id: 'resp_1' }))
    await one.have(4)
    assert.equal(mine?.get('resp_1', ''), undefined)

    two.socket.close()
    await until('forgotten', () => other?.get('resp_2', '') === undefined)
  },
)

onBothServers('web socket: a turn refused for load evicts nothing', async ({ given }) => {
  const setting = await given({ limit: { concurrent: 1 } })
  setting.answer = (turn) => {
    turn.connection.put(stored('resp_1'))
    complete(turn)
  }
  const client = await open(setting.server)
  client.send(create())
  await client.have(3)
  const hold = held()
  setting.answer = hold.answer
  const other = await open(setting.server)
  other.send(create())
  await until('a turn', () => hold.waiting.length === 1)
  client.send(create({ previous_response_id: 'resp_1' }))
  await client.have(4)
  assert.equal(client.messages.at(-1)?.status, 503)
  assert.ok(setting.turns[0]?.connection.get('resp_1', ''))
  hold.release()
})

onBothServers('web socket: a revoked key is refused on open connections too', async ({ given }) => {
  const setting = await given({ auth: { keys: ['client-key-one', 'client-key-two'] } })
  const client = await open(setting.server, { headers: { authorization: 'Bearer client-key-one' } })
  const other = await open(setting.server, { headers: { authorization: 'Bearer client-key-two' } })
  client.send(create())
  await client.have(3)
  setting.settings = settingsSchema.parse({ auth: { keys: ['client-key-two'] } })
  client.send(create())
  other.send(create())
  await client.have(4)
  await other.have(3)
  assert.equal(setting.turns.length, 2)
  assert.partialDeepStrictEqual(client.messages[3], {
    type: 'error',
    status: 401,
    error: { code: 'invalid_api_key' },
  })
  await until('it is closed', () => client.closed !== null)
  assert.equal(other.closed, null)
})

onBothServers('web socket: a client that reads no responses is not read from', async ({ given }) => {
  const { server, refused } = await given()
  const { socket, messages } = await open(server)
  socket.pause()
  const most = 60_000
  let sent = 0
  while (sent < most) {
    for (let at = 0; at < 1_000; at++, sent++) socket.send('{"type":"x"}')
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  // Until the server stops reading.
  for (let before = -1; refused.length !== before; ) {
    before = refused.length
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  // What the kernel buffers, not more: all responses would be 27 MB.
  assert.ok(refused.length < most / 2, String(refused.length))
  socket.resume()
  await until('all are answered', () => messages.length === most, 30_000)
})
