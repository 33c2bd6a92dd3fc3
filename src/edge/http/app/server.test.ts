import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { until } from '../../../../test/support/upstream.ts'
import type { IncomingRequest, ResponseWriter } from '../../../core/http-exchange.ts'
import { isObject, type JsonObject, object } from '../../../core/json.ts'
import { type Settings, settingsSchema } from '../../../core/settings.ts'
import { RETRY_TRIGGERS } from '../../../protocols/errors/openai-error.ts'
import { type Handlers, ROUTES } from './routes.ts'
import { type Server, type ServerOptions, startServer } from './server.ts'
import type { RefusedRequest } from './server-context.ts'

type Call = {
  readonly name: string
  readonly received: IncomingRequest
  readonly reply: ResponseWriter
  readonly rest: string
}

type ServerFixture = {
  readonly server: Server
  readonly calls: Call[]
  readonly refused: RefusedRequest[]
  readonly errors: unknown[]
  settings: Settings
  /** Runs for every request that reaches a handler. */
  answer: (call: Call) => void | Promise<void>
}

setFlagsFromString('--expose-gc')
/** Bytes in reachable buffers. */
const held = (): number => {
  // V8's `gc` is not typed.
  ;(runInNewContext('gc') as () => void)()
  return process.memoryUsage().arrayBuffers
}

const running: Server[] = []
after(async () => {
  for (const server of running) await server.close()
})

const echo = ({ name, received, reply, rest }: Call) => {
  reply.writeHead(200, { 'content-type': 'application/json' })
  reply.end(JSON.stringify({ name, rest, body: received.body, query: received.query }))
}

const fixtureFor = (httpServer: 'own' | 'node') => {
  const given = async (
    settings: Parameters<typeof settingsSchema.parse>[0] = {},
    options: Partial<ServerOptions> = {},
  ): Promise<ServerFixture> => {
    const calls: Call[] = []
    const refused: RefusedRequest[] = []
    const errors: unknown[] = []
    const handler = (name: string) => (received: IncomingRequest, reply: ResponseWriter, rest: string) => {
      const call = { name, received, reply, rest }
      calls.push(call)
      return made.answer(call)
    }
    const handlers = Object.fromEntries(Object.keys(ROUTES).map((name) => [name, handler(name)]))
    const made: Omit<ServerFixture, 'server'> = {
      calls,
      refused,
      errors,
      settings: settingsSchema.parse(settings),
      answer: echo,
    }
    const server = await startServer({
      port: 0,
      host: '127.0.0.1',
      settings: () => made.settings,
      // `Object.fromEntries` does not keep the names of the routes.
      handlers: handlers as Handlers,
      onError: (error) => errors.push(error),
      onRefused: (one) => refused.push(one),
      httpServer,
      ...options,
      timing: { check: 20, linger: 100, farewell: 200, ...options.timing },
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
  for (const variant of ['own', 'node'] as const) test(`${variant} server: ${name}`, (t) => run(fixtureFor(variant), t))
}

type Answer = { status: number; headers: Map<string, string>; body: string; json: JsonObject; closed: boolean }

/** Sends bytes, and returns what was received until the server closed or was silent for `quietMs`. */
const talk = async (port: number, pieces: string | readonly (string | Buffer)[], quietMs = 60): Promise<string> => {
  const socket = connect(port, '127.0.0.1')
  let said = ''
  socket.setEncoding('latin1')
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer)
      socket.destroy()
      resolve(said)
    }
    let timer = setTimeout(finish, 2_000)
    socket.on('data', (text: string) => {
      said += text
      clearTimeout(timer)
      timer = setTimeout(finish, quietMs)
    })
    socket.on('close', () => {
      said += '<closed>'
      finish()
    })
    for (const piece of typeof pieces === 'string' ? [pieces] : pieces) socket.write(piece)
  })
}

const read = (text: string): Answer => {
  const closed = text.endsWith('<closed>')
  const plain = text.replace(/<closed>$/, '')
  const end = plain.indexOf('\r\n\r\n')
  const [first = '', ...lines] = plain.slice(0, end).split('\r\n')
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const length = headers.get('content-length')
  const body = plain.slice(end + 4, length === undefined ? undefined : end + 4 + Number(length))
  let json: JsonObject = {}
  try {
    const value: unknown = JSON.parse(body)
    if (isObject(value)) json = value
  } catch {
    // Not every response is JSON; tests check the members of those that are.
  }
  return { status: Number(first.split(' ')[1]), headers, body, json, closed }
}

const request = (method: string, target: string, headers: Readonly<Record<string, string>> = {}, body = ''): string => {
  const all = {
    host: 'localhost',
    ...(body !== '' && { 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

const ask = async (port: number, ...what: Parameters<typeof request>): Promise<Answer> =>
  read(await talk(port, request(...what)))

const CHAT = '/v1/chat/completions'
const error = (answer: Answer): JsonObject => object(answer.json.error) ?? {}

/** Checks what every refusal has in common. */
const assertRefusal = (answer: Answer, status: number, code: string) => {
  assert.equal(answer.status, status, answer.body)
  assert.equal(answer.headers.get('content-type'), 'application/json')
  assert.equal(error(answer).code, code)
  assert.equal(typeof error(answer).message, 'string')
  assert.equal(error(answer).request_id, answer.headers.get('x-request-id'))
  assert.match(answer.headers.get('x-request-id') ?? '', /^req_[a-z]+$/)
  if (answer.headers.get('x-should-retry') === 'false') assert.doesNotMatch(answer.body, RETRY_TRIGGERS)
}

onBothServers('http: keys in a path appear neither in reports nor in errors', async ({ given }, t) => {
  const unread: string[] = []
  const made = await given(
    { auth: { keys: ['q7Zr/8sT+u/Vw=='] }, limit: { bufferedMegabytes: 1 } },
    { onUnread: ({ path }) => unread.push(path) },
  )
  const { server, refused } = made
  const authorization = 'Bearer q7Zr/8sT+u/Vw=='
  const answer = await ask(server.port, 'GET', '/v1/q7Zr/8sT+u/Vw==/models', { authorization })
  assertRefusal(answer, 404, 'unknown_url')
  assert.match(answer.body, /\/v1\/\[key\]\/models does not exist/)
  assert.deepEqual(
    refused.map(({ path }) => path),
    ['/v1/[key]/models'],
  )

  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.end('w'.repeat(12 * 1_048_576))
  }
  const socket = connect(server.port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  socket.pause()
  socket.write(request('GET', '/v1/models/q7Zr/8sT+u/Vw==', { authorization }))
  await until('the answer is ended', () => unread.length > 0)
  assert.deepEqual(unread, ['/v1/models/[key]'])
})

// ── Routing ──────────────────────────────────────────────────────────────────────────────────────────────

for (const [method, target, name, rest] of [
  ['POST', '/v1/chat/completions', 'chat', ''],
  ['POST', '/chat/completions', 'chat', ''],
  ['POST', '/chat/completions/', 'chat', ''],
  ['POST', '/v1/responses?a=b', 'responses', ''],
  ['POST', '/responses', 'responses', ''],
  ['POST', '/v1/messages?a=b', 'messages', ''],
  ['POST', '/messages', 'messages', ''],
  ['POST', '/v1/messages/count_tokens', 'countTokens', ''],
  ['POST', '/messages/count_tokens?a=b', 'countTokens', ''],
  ['GET', '/v1/models', 'models', ''],
  ['GET', '/models', 'models', ''],
  ['GET', '/v1/models/', 'models', ''],
  ['GET', '/v1/models/gpt-5', 'model', 'gpt-5'],
  ['GET', '/models/openai%2Fgpt-5', 'model', 'openai/gpt-5'],
  ['GET', '/v1/models/openai/gpt-5', 'model', 'openai/gpt-5'],
  ['GET', '/v1/models/%C3%A9', 'model', 'é'],
  ['POST', '/v1/route', 'explain', ''],
  ['POST', '/route', 'explain', ''],
  ['GET', '/health', 'health', ''],
  ['GET', '/health/live', 'live', ''],
  ['GET', '/health/ready', 'ready', ''],
  ['GET', '/providers/status', 'providersStatus', ''],
  ['GET', '/metrics', 'metrics', ''],
  ['GET', '/openapi.json', 'openapi', ''],
] as const)
  onBothServers(`http: ${method} ${target} is ${name}`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await ask(server.port, method, target, {}, method === 'POST' ? '{"model":"é"}' : '')
    assert.equal(answer.status, 200, answer.body)
    assert.equal(calls[0]?.name, name)
    assert.equal(calls[0]?.rest, rest)
    if (method === 'POST') assert.equal(calls[0]?.received.body, '{"model":"é"}')
    if (target.includes('?')) assert.equal(calls[0]?.received.query, 'a=b')
    assert.equal(calls[0]?.received.local, true)
  })

for (const [target, near] of [
  ['/v1/chat/completion', 'POST /v1/chat/completions'],
  ['/v1/respones', 'POST /v1/responses'],
  ['/helth', 'GET /health'],
  ['/v1/error500', undefined],
  ['/', undefined],
  ['/v1/../admin', undefined],
  ['/%61dmin', undefined],
  ['/v1/chat%2Fcompletions', undefined],
  ['/v1/chat\\completions', undefined],
  ['/..%2f..%2fetc/passwd', undefined],
  ['/__proto__', undefined],
  [`/${'x'.repeat(4_000)}`, undefined],
] as const)
  onBothServers(`http: ${target.slice(0, 40)} does not exist`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await ask(server.port, 'POST', target, {}, '{}')
    assertRefusal(answer, 404, 'unknown_url')
    assert.equal(answer.headers.get('x-should-retry'), 'false')
    if (near !== undefined) assert.match(String(error(answer).message), new RegExp(`Did you mean ${near}\\?`))
    assert.ok(answer.body.length < 700)
    assert.equal(calls.length, 0)
  })

for (const [method, target, allow] of [
  ['GET', CHAT, 'POST, OPTIONS'],
  ['PUT', '/responses', 'POST, OPTIONS'],
  ['DELETE', '/v1/models', 'GET, HEAD, OPTIONS'],
  ['POST', '/health', 'GET, HEAD, OPTIONS'],
] as const)
  onBothServers(`http: ${method} ${target} is not allowed, ${allow} is`, async ({ given }) => {
    const { server } = await given()
    const answer = await ask(server.port, method, target)
    assertRefusal(answer, 405, 'method_not_allowed')
    assert.equal(answer.headers.get('allow'), allow)
  })

onBothServers('http: HEAD is served where GET is, with the same headers', async ({ given }) => {
  const { server } = await given()
  const whole = await ask(server.port, 'GET', '/v1/models')
  const head = await ask(server.port, 'HEAD', '/v1/models')
  assert.equal(head.status, 200)
  assert.equal(head.body, '')
  assert.equal(head.headers.get('content-length'), whole.headers.get('content-length'))
  assert.equal((await ask(server.port, 'HEAD', CHAT)).status, 405)
})

onBothServers('http: OPTIONS returns the allowed methods', async ({ given }) => {
  const { server } = await given()
  assert.equal((await ask(server.port, 'OPTIONS', '/v1/models')).headers.get('allow'), 'GET, HEAD, OPTIONS')
  assert.equal((await ask(server.port, 'OPTIONS', '*')).status, 204)
})

for (const target of [CHAT, '/v1/responses', '/responses'])
  onBothServers(`http: a WebSocket at ${target} is refused with 426 at once`, async ({ given }) => {
    const { server } = await given({ auth: { keys: ['k'] } })
    const upgrade = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'x',
    }
    const begun = performance.now()
    const answer = await ask(server.port, 'GET', target, upgrade)
    assertRefusal(answer, 426, 'upgrade_required')
    assert.ok(answer.closed)
    assert.ok(performance.now() - begun < 10_000)
    assert.equal((await ask(server.port, 'GET', '/nowhere', upgrade)).status, 404)
  })

onBothServers('http: an offer of h2c is answered in HTTP/1.1', async ({ given }) => {
  const { server } = await given()
  const answer = await ask(
    server.port,
    'POST',
    CHAT,
    { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' },
    '{}',
  )
  assert.equal(answer.status, 200)
})

// ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────

for (const [type, status] of [
  [undefined, 200],
  ['application/json', 200],
  ['Application/JSON; charset=UTF-8', 200],
  ['application/json;charset="utf-8"', 200],
  ['application/vnd.api+json', 200],
  ['application/json; charset=latin1', 415],
  ['text/plain', 415],
  ['application/x-www-form-urlencoded', 415],
  ['multipart/form-data; boundary=x', 415],
  ['application/jsonp', 415],
] as const)
  onBothServers(`http: content type ${type} is ${status}`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await ask(server.port, 'POST', CHAT, type === undefined ? {} : { 'content-type': type }, '{}')
    if (status === 200) assert.equal(answer.status, 200)
    else assertRefusal(answer, 415, 'unsupported_media_type')
    assert.equal(calls.length, status === 200 ? 1 : 0)
  })

onBothServers('http: a compressed body is refused', async ({ given }) => {
  const { server, calls } = await given()
  for (const encoding of ['gzip', 'br', 'gzip, gzip'])
    assertRefusal(
      await ask(server.port, 'POST', CHAT, { 'content-encoding': encoding }, '{}'),
      415,
      'unsupported_media_type',
    )
  assert.equal((await ask(server.port, 'POST', CHAT, { 'content-encoding': 'identity' }, '{}')).status, 200)
  assert.equal(calls.length, 1)
})

onBothServers('http: a body above the limit is refused by its Content-Length, before it arrives', async ({ given }) => {
  const { server, calls } = await given({ limit: { body: 1_000 } })
  const answer = read(await talk(server.port, request('POST', CHAT, { 'content-length': '1001' })))
  assertRefusal(answer, 413, 'request_too_large')
  assert.ok(answer.closed)
  assert.equal((await ask(server.port, 'POST', CHAT, {}, 'x'.repeat(1_000))).status, 200)
  assert.equal(calls.length, 1)
})

onBothServers('http: a chunked body above the limit is refused as it arrives', async ({ given }) => {
  const { server, calls } = await given({ limit: { body: 100_000 } })
  const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`
  const answer = read(
    await talk(server.port, [
      request('POST', CHAT, { 'transfer-encoding': 'chunked' }),
      ...Array.from({ length: 200 }, () => chunk),
    ]),
  )
  assertRefusal(answer, 413, 'request_too_large')
  assert.ok(answer.closed)
  assert.equal(calls.length, 0)
})

onBothServers('http: a client that sends 20 MB too much reads the refusal, not a reset', async ({ given }) => {
  const { server } = await given({ limit: { body: 1_000 } })
  const response = await fetch(`http://127.0.0.1:${server.port}${CHAT}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: 'x'.repeat(20_000_000),
  }).catch((reason: unknown) => String(reason))
  // fetch may fail to write when the connection closes after the refusal; it never hangs.
  if (typeof response !== 'string') assert.equal(response.status, 413)
})

for (const [name, bytes] of [
  ['a lone continuation byte', [0x22, 0x80, 0x22]],
  ['a surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
  ['an overlong slash', [0x22, 0xc0, 0xaf, 0x22]],
  ['half a character at the end', [0x22, 0xf0, 0x9f]],
] as const)
  onBothServers(`http: ${name} is not UTF-8`, async ({ given }) => {
    const { server, calls } = await given()
    const body = Buffer.from(bytes)
    const answer = read(
      await talk(server.port, [request('POST', CHAT, { 'content-length': String(body.length) }), body]),
    )
    assertRefusal(answer, 400, 'invalid_json')
    assert.equal(calls.length, 0)
  })

onBothServers(
  'http: a body in single bytes, a character split between them, arrives complete, without its byte order mark',
  async ({ given }) => {
    const { server, calls } = await given()
    const body = Buffer.from('{"a":"é😀"}')
    const socket = connect(server.port, '127.0.0.1')
    socket.write(request('POST', CHAT, { 'content-length': String(body.length) }))
    for (const byte of body) {
      socket.write(Buffer.from([byte]))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until('received', () => calls.length === 1)
    assert.equal(calls[0]?.received.body, '{"a":"é😀"}')
    socket.destroy()
    await ask(server.port, 'POST', CHAT, {}, '\ufeff{}')
    assert.equal(calls[1]?.received.body, '{}')
  },
)

onBothServers('http: a large body arrives complete, wherever a piece splits a character', async ({ given }) => {
  const { server, calls } = await given()
  for (let blanks = 0; blanks < 4; blanks++) {
    const body = `{"a":"${' '.repeat(blanks)}${'😀é漢'.repeat(60_000)}"}`
    await ask(server.port, 'POST', CHAT, {}, `\ufeff${body}`)
    const last = calls.at(-1)?.received.source
    assert.ok(last?.text === body && Buffer.from(last.bytes).equals(Buffer.from(body)))
  }
})

for (const at of [262_143, 262_144, 262_145, 400_000])
  onBothServers(`http: a large body that is not UTF-8 at byte ${at} is refused`, async ({ given }) => {
    const { server, calls } = await given()
    const body = Buffer.alloc(600_000, 'é')
    body[at] = 0xff
    const answer = read(
      await talk(server.port, [request('POST', CHAT, { 'content-length': String(body.length) }), body]),
    )
    assertRefusal(answer, 400, 'invalid_json')
    assert.equal(calls.length, 0)
  })

onBothServers(
  'http: a client that leaves while its large body is read gets no response and leaves nothing in memory',
  async ({ given }) => {
    const { server, calls, refused, errors } = await given()
    const bodies = [`{"a":"${'x'.repeat(4_000_000)}"}`, `"${'['.repeat(4_000_000)}`, '['.repeat(4_000_000)]
    for (const body of bodies) {
      const socket = connect(server.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(request('POST', CHAT, { 'content-length': String(body.length) }))
      await new Promise((resolve) => socket.write(body, resolve))
      socket.resetAndDestroy()
    }
    await until('all have left', () => server.live() === 0 && server.connections() === 0)
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.deepEqual([errors.length, server.live()], [0, 0])
    // A connection whose end was seen earlier gets at most the handler's response and a refusal.
    assert.ok(calls.length + refused.length <= bodies.length)
  },
)

onBothServers('http: a body in sparse chunks keeps no more memory than is counted', async ({ given }) => {
  const { server } = await given()
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  const before = held()
  socket.write(request('POST', CHAT, { 'transfer-encoding': 'chunked' }))
  // One byte in a thousand is body; views of the received buffers would keep all of them.
  const spread = `1;${'x'.repeat(1_000)}\r\n \r\n`.repeat(1_000)
  for (let at = 0; at < 48; at++) await new Promise((resolve) => socket.write(spread, resolve))
  await new Promise((resolve) => setTimeout(resolve, 100))
  assert.equal(server.live(), 1)
  const grown = held() - before
  assert.ok(grown < 8_000_000, `${grown} bytes are kept for 48 000`)
  socket.destroy()
})

onBothServers('http: Expect: 100-continue gets 100 Continue, unless the request is refused', async ({ given }) => {
  const { server, calls } = await given()
  const good = await talk(server.port, [request('POST', CHAT, { expect: '100-continue', 'content-length': '2' }), '{}'])
  assert.match(good, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/)
  const bad = await talk(server.port, request('POST', '/nowhere', { expect: '100-continue', 'content-length': '2' }))
  assertRefusal(read(bad), 404, 'unknown_url')
  assert.ok(read(bad).closed, 'the next bytes could be a body or a request')
  const other = await ask(server.port, 'POST', CHAT, { expect: 'a-miracle' })
  assert.equal(other.status, 417)
  assert.equal(calls.length, 1)
})

// ── Admission ─────────────────────────────────────────────────────────────────────────────────────────────────────

const smuggled = (head: string, body = '') => `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n\r\n${body}`
const HIDDEN = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
for (const [name, bytes] of [
  ['length and chunks', smuggled('Content-Length: 4\r\nTransfer-Encoding: chunked', `0\r\n\r\n${HIDDEN}`)],
  ['chunks and length', smuggled('Transfer-Encoding: chunked\r\nContent-Length: 4', `0\r\n\r\n${HIDDEN}`)],
  ['two lengths', smuggled('Content-Length: 2\r\nContent-Length: 3', '{} ')],
  ['one length twice', smuggled('Content-Length: 2\r\nContent-Length: 2', '{}')],
  ['a list of lengths', smuggled('Content-Length: 2, 2', '{}')],
  ['a length with a sign', smuggled('Content-Length: +2', '{}')],
  ['a length in hexadecimal', smuggled('Content-Length: 0x2', '{}')],
  ['another transfer encoding', smuggled('Transfer-Encoding: chunked, identity', '0\r\n\r\n')],
  ['a misspelt transfer encoding', smuggled('Transfer-Encoding: xchunked', '0\r\n\r\n')],
  ['a folded header', smuggled('X-A: b\r\n c', '{}')],
  ['a space before the colon', smuggled('Content-Length : 2', '{}')],
  ['a line feed alone', `POST ${CHAT} HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n{}`],
  ['a NUL in a header', smuggled('X-A: a\0b', '{}')],
  ['a chunk size that overflows', smuggled('Transfer-Encoding: chunked', 'fffffffffffffffff\r\n')],
  ['a chunk size that is no number', smuggled('Transfer-Encoding: chunked', 'zz\r\n{}\r\n0\r\n\r\n')],
  [
    'a chunk extension of 20 KiB',
    smuggled('Transfer-Encoding: chunked', `2;x=${'y'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`),
  ],
  ['HTTP/0.9', 'GET /health\r\n\r\n'],
  ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/3.7', 'GET /health HTTP/3.7\r\nHost: localhost\r\n\r\n'],
  ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['two Hosts', `GET /health HTTP/1.1\r\nHost: localhost\r\nHost: admin\r\n\r\n`],
  ['two equal Hosts', `GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n`],
  ['no Host', 'GET /health HTTP/1.1\r\n\r\n'],
  ['two slashes', request('GET', '//evil/health')],
  ['a slash and a backslash', request('GET', '/\\evil/health')],
  ['an absolute target', request('GET', 'http://localhost/health')],
  ['an authority', request('CONNECT', 'localhost:443')],
  ['a star', request('GET', '*')],
] as const)
  onBothServers(`http: ${name} is refused`, async ({ given }) => {
    const { server, calls } = await given()
    const text = await talk(server.port, bytes)
    const answer = read(text)
    if (name === 'an authority') assert.ok(answer.status === 400 || text === '<closed>', text)
    else if (name === 'a chunk extension of 20 KiB') assert.ok(answer.status === 413 || answer.status === 400, text)
    else assertRefusal(answer, 400, 'invalid_request')
    assert.equal(calls.length, 0)
    assert.equal(
      text.match(/HTTP\/1\.1 \d/g)?.length ?? 0,
      name === 'an authority' && text === '<closed>' ? 0 : 1,
      'one answer only',
    )
    assert.equal((await ask(server.port, 'GET', '/health')).status, 200, 'and the next one is served')
  })

onBothServers(
  'http: random bytes get a complete response or none, and the next client is served',
  async ({ given }) => {
    const { server, calls, errors } = await given({}, { timing: { head: 100, request: 100 } })
    const valid = Buffer.from(request('POST', CHAT, { 'content-type': 'application/json' }, '{"model":"m"}'))
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 300 }),
      // A valid request with some bytes changed, dropped or repeated is parsed further than noise.
      fc
        .array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255), fc.nat(2)), { minLength: 1, maxLength: 4 })
        .map((edits) =>
          edits.reduce((text, [at, byte, how]) => {
            const end = how === 0 ? at + 1 : how === 1 ? at + 3 : at
            return Buffer.concat([text.subarray(0, at), Buffer.from(how === 1 ? [] : [byte]), text.subarray(end)])
          }, valid),
        ),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(bytes, { minLength: 20, maxLength: 20 }), async (batch) => {
        const answers = await Promise.all(batch.map((one) => talk(server.port, [Buffer.from(one)])))
        for (const text of answers) {
          if (text === '' || text === '<closed>') continue
          const answer = read(text)
          assert.ok(answer.status >= 200 && answer.status < 500, text)
          if (answer.status >= 400 && answer.body !== '') assert.ok(error(answer).message, text)
        }
        assert.equal((await ask(server.port, 'GET', '/health')).status, 200)
      }),
      { numRuns: 12 },
    )
    assert.deepEqual(errors, [])
    await until('nothing left', () => server.live() === 0)
    assert.ok(calls.length > 0)
  },
)

for (const [name, head, status] of [
  ['101 headers', Array.from({ length: 101 }, (_, at) => `x-${at}: 1\r\n`).join(''), 431],
  ['a header block of 17 KiB', `x-a: ${'y'.repeat(17 * 1024)}\r\n`, 431],
] as const)
  onBothServers(`http: ${name} are too many`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = read(await talk(server.port, `GET /health HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`))
    assert.equal(answer.status, status)
    assert.ok(error(answer).message)
    assert.equal(calls.length, 0)
  })

onBothServers('http: a target of 9 KiB is too long', async ({ given }) => {
  const { server } = await given()
  assert.equal((await ask(server.port, 'GET', `/${'x'.repeat(9 * 1024)}`)).status, 414)
})

for (const [name, headers, status, code] of [
  ['a page of another origin', { origin: 'https://evil.example' }, 403, 'origin_not_allowed'],
  ['a page that hides its origin', { 'sec-fetch-site': 'cross-site' }, 403, 'origin_not_allowed'],
  ['a sandboxed page', { origin: 'null' }, 403, 'origin_not_allowed'],
  ['a foreign host name', { host: 'evil.example' }, 403, 'host_not_allowed'],
] as const)
  onBothServers(`http: ${name} is refused`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await ask(server.port, 'POST', CHAT, headers, '{}')
    assertRefusal(answer, status, code)
    assert.equal(answer.headers.get('access-control-allow-origin'), undefined)
    assert.equal(calls.length, 0)
  })

onBothServers('http: a listed origin gets CORS headers, in errors too; preflight needs no key', async ({ given }) => {
  const { server, calls } = await given({ cors: { origins: ['https://app.example'] }, auth: { keys: ['k'] } })
  const origin = 'https://app.example'
  const preflight = await ask(server.port, 'OPTIONS', CHAT, {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  })
  assert.equal(preflight.status, 204)
  assert.equal(preflight.headers.get('access-control-allow-origin'), origin)
  assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /authorization/)
  assert.ok(preflight.headers.get('x-request-id'))
  for (const [key, status] of [
    ['k', 200],
    ['wrong', 401],
  ] as const) {
    const answer = await ask(server.port, 'POST', CHAT, { origin, authorization: `Bearer ${key}` }, '{}')
    assert.equal(answer.status, status)
    assert.equal(answer.headers.get('access-control-allow-origin'), origin)
    assert.match(answer.headers.get('access-control-expose-headers') ?? '', /x-request-id/)
  }
  assert.equal(calls.length, 1)
  assert.equal(
    (
      await ask(server.port, 'OPTIONS', CHAT, {
        origin: 'https://evil.example',
        'access-control-request-method': 'POST',
      })
    ).status,
    403,
  )
})

const doors = { auth: { keys: ['client-one', 'client-two'], admin: 'operator' } }
for (const [name, method, target, headers, status] of [
  ['a model call without a key', 'POST', CHAT, {}, 401],
  ['a model call with a key', 'POST', CHAT, { authorization: 'Bearer client-two' }, 200],
  ['a model call with a key as Anthropic’s clients send it', 'POST', CHAT, { 'x-api-key': 'client-one' }, 200],
  ['a model call with half a key', 'POST', CHAT, { authorization: 'Bearer client-on' }, 401],
  ['a model call with the operator’s token', 'POST', CHAT, { authorization: 'Bearer operator' }, 401],
  ['the unprefixed twin without a key', 'POST', '/chat/completions', {}, 401],
  ['explaining without a key', 'POST', '/v1/route', {}, 401],
  ['the list of models without a key', 'GET', '/models', {}, 401],
  ['health', 'GET', '/health', {}, 200],
  ['the API’s description', 'GET', '/openapi.json', {}, 200],
  ['metrics from this machine', 'GET', '/metrics', {}, 200],
  ['metrics through a proxy', 'GET', '/metrics', { 'x-forwarded-for': '10.0.0.1' }, 401],
  [
    'metrics behind a proxy with the operator’s token',
    'GET',
    '/metrics',
    { via: '1.1 p', authorization: 'Bearer operator' },
    200,
  ],
  [
    'status behind a proxy with a client key',
    'GET',
    '/providers/status',
    { forwarded: 'for=1', 'x-api-key': 'client-one' },
    200,
  ],
] as const)
  onBothServers(`http: ${name} is ${status}`, async ({ given }) => {
    const { server, calls } = await given(doors)
    const answer = await ask(server.port, method, target, headers, method === 'POST' ? '{}' : '')
    assert.equal(answer.status, status)
    if (status === 401) {
      assertRefusal(answer, 401, 'invalid_api_key')
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
      assert.doesNotMatch(answer.body, /client-|operator"/)
    }
    assert.equal(calls.length, status === 200 ? 1 : 0)
  })

onBothServers('http: without configured keys, metrics are served to local requests only', async ({ given }) => {
  const { server } = await given()
  assert.equal((await ask(server.port, 'GET', '/metrics')).status, 200)
  assert.equal((await ask(server.port, 'GET', '/metrics', { 'x-real-ip': '10.0.0.1' })).status, 401)
})

onBothServers('http: changed keys apply from the next request', async ({ given }) => {
  const made = await given({ auth: { keys: ['old'] } })
  const status = async (key: string) => (await ask(made.server.port, 'POST', CHAT, { 'x-api-key': key }, '{}')).status
  assert.deepEqual([await status('old'), await status('new')], [200, 401])
  made.settings = settingsSchema.parse({ auth: { keys: ['new'] } })
  assert.deepEqual([await status('old'), await status('new')], [401, 200])
})

// ── IDs, connections, timeouts ───────────────────────────────────────────────────────────────────────────────────────

for (const [presented, kept] of [
  ['abc-DEF_123', true],
  ['a'.repeat(128), true],
  ['a'.repeat(129), false],
  ['abc def', false],
  // Digits are allowed: error messages are written so that no search finds the ID in them.
  ['id-500-x', true],
  ['01J:a.b', true],
  ['<script>', false],
] as const)
  onBothServers(`http: the ID ${presented.slice(0, 20)} is ${kept ? 'kept' : 'replaced'}`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await ask(server.port, 'POST', CHAT, { 'x-request-id': presented }, '{}')
    const id = answer.headers.get('x-request-id') ?? ''
    assert.equal(id === presented, kept)
    if (!kept) assert.match(id, /^req_[a-z]{20}$/)
    assert.equal(calls[0]?.received.id, id)
  })

onBothServers('http: one connection serves many requests, also after refusals', async ({ given }) => {
  const { server, calls } = await given()
  const text = await talk(server.port, [
    request('POST', CHAT, {}, '{"n":1}'),
    request('POST', '/nowhere', {}, '{"n":2}'),
    request('POST', CHAT, { 'content-type': 'text/plain' }, '{"n":3}'),
    request('POST', CHAT, {}, '{"n":4}'),
  ])
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 415', 'HTTP/1.1 200'])
  assert.ok(!text.endsWith('<closed>'))
  assert.deepEqual(
    calls.map(({ received }) => received.body),
    ['{"n":1}', '{"n":4}'],
  )
})

onBothServers('http: garbage after a valid request does not replace its response', async ({ httpServer, given }) => {
  const made = await given()
  made.answer = async (call) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    echo(call)
  }
  const text = await talk(made.server.port, [request('POST', CHAT, {}, '{}'), 'rubbish\r\n\r\n', 'more\r\n\r\n'])
  // Node parses ahead; the own server parses the garbage and refuses it after the response.
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', ...(httpServer === 'own' ? ['HTTP/1.1 400'] : [])])
  assert.ok(text.endsWith('<closed>'))
})

for (const [name, pieces] of [
  ['a header block that never ends', ['GET /health HTTP/1.1\r\nhost: loc']],
  ['a silent connection', []],
  ['a body that never ends', [request('POST', CHAT, { 'content-length': '100' }), '{"a":']],
] as const)
  onBothServers(`http: ${name} times out`, async ({ given }) => {
    const { server, calls } = await given({}, { timing: { head: 100, request: 200 } })
    const begun = performance.now()
    const text = await talk(server.port, pieces)
    assert.ok(performance.now() - begun < 10_000)
    assert.ok(text.endsWith('<closed>'))
    if (pieces.length > 0) {
      const answer = read(text)
      assertRefusal(answer, 408, 'request_timeout')
      assert.equal(answer.headers.get('x-should-retry'), 'true')
    }
    assert.equal(calls.length, 0)
  })

onBothServers('http: a response has no time limit once the request is complete', async ({ given }) => {
  const made = await given({}, { timing: { head: 50, request: 100 } })
  made.answer = async (call) => {
    await new Promise((resolve) => setTimeout(resolve, 300))
    echo(call)
  }
  assert.equal((await ask(made.server.port, 'POST', CHAT, {}, '{}')).status, 200)
})

onBothServers(
  'http: model calls above the concurrency limit get 503 with Retry-After, health does not',
  async ({ given }) => {
    const made = await given({ limit: { concurrent: 2 } })
    const held: Call[] = []
    made.answer = (call) => {
      if (call.name === 'chat') held.push(call)
      else echo(call)
    }
    const first = [1, 2].map(() => ask(made.server.port, 'POST', CHAT, {}, '{}'))
    await until('both under way', () => held.length === 2)
    const third = await ask(made.server.port, 'POST', CHAT, {}, '{}')
    assertRefusal(third, 503, 'overloaded')
    assert.equal(third.headers.get('retry-after'), '1')
    assert.equal(third.headers.get('x-should-retry'), 'true')
    assert.equal((await ask(made.server.port, 'GET', '/health')).status, 200)
    held.forEach(echo)
    for (const answer of await Promise.all(first)) assert.equal(answer.status, 200)
    made.answer = echo
    assert.equal((await ask(made.server.port, 'POST', CHAT, {}, '{}')).status, 200)
  },
)

onBothServers('http: a handler that throws is an internal error, without a stack', async ({ given }) => {
  const made = await given()
  for (const answer of [
    () => {
      throw new Error('secret detail')
    },
    async () => {
      throw new Error('secret detail')
    },
  ]) {
    made.answer = answer
    const got = await ask(made.server.port, 'POST', CHAT, {}, '{}')
    assertRefusal(got, 500, 'internal_error')
    assert.doesNotMatch(got.body, /secret|stack|at /)
  }
  assert.equal(made.errors.length, 2)
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('half')
    throw new Error('in the middle')
  }
  const cut = await talk(made.server.port, request('POST', CHAT, {}, '{}'))
  assert.ok(cut.endsWith('<closed>') && !cut.includes('\r\n0\r\n\r\n'), 'never a clean end')
})

// ── Responses ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** A client that counts what it reads, and can stop reading. */
const client = async (port: number, text: string) => {
  const socket: Socket = connect(port, '127.0.0.1')
  const reads: string[] = []
  socket.setEncoding('latin1')
  socket.on('data', (read: string) => reads.push(read))
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(text)
  return { socket, reads, text: () => reads.join('') }
}

onBothServers('http: each write arrives as one piece at once', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => reply.writeHead(200, { 'content-type': 'text/event-stream' })
  const { socket, reads, text } = await client(made.server.port, request('POST', CHAT, {}, '{}'))
  await until('called', () => made.calls.length === 1)
  const reply = made.calls[0]?.reply
  for (const event of ['data: one\n\n', 'data: zwölf\n\n']) {
    const before = reads.length
    assert.equal(reply?.write(event), true)
    await until('read', () => reads.length > before)
    await new Promise((resolve) => setTimeout(resolve, 10))
    assert.equal(reads.length, before + 1)
  }
  reply?.end('data: [DONE]\n\n')
  await until('ended', () => text().endsWith('0\r\n\r\n'))
  assert.match(text(), /transfer-encoding: chunked/i)
  assert.doesNotMatch(text(), /content-length/i)
  socket.destroy()
})

onBothServers('http: a complete response is one write with its length', async ({ given }) => {
  const { server } = await given()
  const { socket, reads } = await client(server.port, request('POST', CHAT, {}, '{"é":1}'))
  await until('answered', () => reads.length > 0)
  await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(reads.length, 1)
  const answer = read(reads.join(''))
  assert.equal(Number(answer.headers.get('content-length')), answer.body.length)
  socket.destroy()
})

for (const how of ['destroy', 'resetAndDestroy', 'end'] as const)
  for (const when of ['before the head', 'in the middle'] as const)
    onBothServers(
      `http: a client that disconnects (${how}) ${when} is detected at once and reported once`,
      async ({ given }) => {
        const made = await given()
        let gone = 0
        made.answer = ({ reply }) => {
          reply.onDisconnect(() => gone++)
          if (when === 'in the middle') {
            reply.writeHead(200, {})
            reply.write('x')
          }
        }
        const { socket, reads } = await client(made.server.port, request('POST', CHAT, {}, '{}'))
        await until('under way', () => made.calls.length === 1 && (when === 'before the head' || reads.length > 0))
        assert.equal(made.server.live(), 1)
        socket[how]()
        // All other time limits of this server are longer.
        await until('noticed', () => gone === 1)
        const reply = made.calls[0]?.reply
        let late = 0
        reply?.onDisconnect(() => late++)
        assert.equal(late, 1, 'a later listener is called at once')
        assert.equal(reply?.write('y'), true)
        reply?.end('z')
        reply?.abort()
        assert.equal(gone, 1)
        await until('nothing left', () => made.server.live() === 0)
        socket.destroy()
      },
    )

onBothServers('http: a client that read the complete response does not count as gone', async ({ given }) => {
  const made = await given()
  let gone = 0
  made.answer = (call) => {
    call.reply.onDisconnect(() => gone++)
    echo(call)
  }
  await ask(made.server.port, 'POST', CHAT, { connection: 'close' }, '{}')
  await until('nothing left', () => made.server.live() === 0)
  assert.equal(gone, 0)
})

onBothServers('http: all pipelined requests are cancelled when the client leaves', async ({ httpServer, given }) => {
  const made = await given()
  let gone = 0
  made.answer = ({ reply }) => reply.onDisconnect(() => gone++)
  const { socket } = await client(made.server.port, request('POST', CHAT, {}, '{}').repeat(3))
  // Node serves them all at once, the own server one after the other.
  const under = httpServer === 'own' ? 1 : 3
  await until('under way', () => made.calls.length === under)
  socket.destroy()
  await until('noticed', () => gone === under)
  assert.equal(made.server.live(), 0)
})

onBothServers('http: a slow client pauses the writer until it has caught up', async ({ given }) => {
  const made = await given()
  let drained = 0
  let written = 0
  const piece = 'x'.repeat(64 * 1024)
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    const pour = () => {
      while (written < 400) {
        written++
        if (!reply.write(piece)) return
      }
      reply.end()
    }
    reply.onDrain(() => {
      drained++
      pour()
    })
    pour()
  }
  const { socket, text } = await client(made.server.port, request('POST', CHAT, {}, '{}'))
  socket.pause()
  await until('begun', () => written > 0)
  await new Promise((resolve) => setTimeout(resolve, 150))
  const held = written
  assert.ok(held < 200, `${held} pieces were written to a client that does not read`)
  socket.resume()
  await until('everything', () => text().endsWith('0\r\n\r\n'), 10_000)
  assert.equal(written, 400)
  assert.ok(drained > 0)
  socket.destroy()
})

onBothServers('http: an aborted response does not look complete', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('half')
    setTimeout(() => reply.abort(), 20)
  }
  const text = await talk(made.server.port, request('POST', CHAT, {}, '{}'))
  assert.match(text, /half/)
  assert.ok(text.endsWith('<closed>') && !text.includes('\r\n0\r\n\r\n'))
})

onBothServers('http: an invalid response header fails the request, not the process', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, { 'x-headgate-model': 'a\r\nset-cookie: b' })
    reply.end('fine')
  }
  const answer = await ask(made.server.port, 'POST', CHAT, {}, '{}')
  assert.equal(answer.status, 500)
  assert.equal(answer.headers.get('set-cookie'), undefined)
  assert.equal(made.errors.length, 1)
})

// ── Shutdown ──────────────────────────────────────────────────────────────────────────────────────────────────────

onBothServers(
  'http: a drain continues to serve during its delay, sends Connection: close, lets streams finish, and leaves no connection',
  async ({ given }) => {
    const made = await given()
    const held: Call[] = []
    made.answer = (call) => {
      if (call.name !== 'chat') return echo(call)
      call.reply.writeHead(200, {})
      call.reply.write('begun')
      held.push(call)
    }
    const stream = await client(made.server.port, request('POST', CHAT, {}, '{}'))
    const idle = await client(made.server.port, request('GET', '/health'))
    await until('under way', () => stream.text().includes('begun') && idle.reads.length > 0)
    assert.equal(made.server.draining(), false)
    let ended = 0
    let over = false
    const drained = made.server.drain({ delay: 150, timeout: 5_000, endStreams: () => ended++ }).then(() => {
      over = true
    })
    assert.equal(made.server.draining(), true)
    const during = await ask(made.server.port, 'GET', '/health')
    assert.equal(during.status, 200)
    assert.equal(during.headers.get('connection'), 'close')
    assert.ok(during.closed)
    await until('the port is closed', () => idle.socket.closed || idle.socket.readableEnded)
    await assert.rejects(fetch(`http://127.0.0.1:${made.server.port}/health`))
    assert.equal(over, false)
    held[0]?.reply.end('complete')
    await drained
    assert.match(stream.text(), /complete\r\n0\r\n\r\n$/)
    assert.equal(ended, 0)
    assert.equal(made.server.live(), 0)
  },
)

onBothServers('http: streams that outlast the drain end with an error event, or are aborted', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('begun')
  }
  const polite = await client(made.server.port, request('POST', CHAT, {}, '{"polite":true}'))
  const stubborn = await client(made.server.port, request('POST', CHAT, {}, '{}'))
  await until('under way', () => polite.reads.length > 0 && stubborn.reads.length > 0)
  const begun = performance.now()
  await made.server.drain({
    delay: 0,
    timeout: 100,
    endStreams: () => made.calls.find(({ received }) => received.body.includes('polite'))?.reply.end('farewell'),
  })
  const took = performance.now() - begun
  assert.ok(took > 250 && took < 15_000, `${took} ms`)
  await until('both closed', () => polite.socket.closed && stubborn.socket.closed)
  assert.match(polite.text(), /farewell\r\n0\r\n\r\n$/)
  assert.doesNotMatch(stubborn.text(), /\r\n0\r\n\r\n$/)
})

onBothServers('http: a second drain call skips the remaining waits', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('begun')
  }
  const { reads } = await client(made.server.port, request('POST', CHAT, {}, '{}'))
  await until('under way', () => reads.length > 0)
  const begun = performance.now()
  let ended = 0
  const endStreams = () => {
    ended++
    made.calls[0]?.reply.end()
  }
  const first = made.server.drain({ delay: 10_000, timeout: 60_000, endStreams })
  const second = made.server.drain({ delay: 10_000, timeout: 60_000, endStreams })
  await Promise.all([first, second])
  // The delay alone would take 10 s.
  assert.ok(performance.now() - begun < 9_000)
  assert.equal(ended, 1)
})

onBothServers('http: a port in use is an error, not a crash', async ({ given }) => {
  const { server } = await given()
  await assert.rejects(given({}, { port: server.port }), { code: 'EADDRINUSE' })
})

onBothServers('http: a refusal is reported without the content of the request', async ({ given }) => {
  const { server, refused } = await given({ auth: { keys: ['secret-key'] } })
  await ask(server.port, 'POST', CHAT, { authorization: 'Bearer wrong-key' }, '{"prompt":"private"}')
  await talk(server.port, 'nonsense\r\n\r\n')
  assert.deepEqual(
    refused.map(({ status, path }) => [status, path]),
    [
      [401, CHAT],
      [400, ''],
    ],
  )
  assert.doesNotMatch(JSON.stringify(refused), /wrong-key|secret-key|private/)
})

// ── Anthropic's paths ────────────────────────────────────────────────────────────────────────────────────────────

const anthropicErrors: readonly (readonly [string, string, string, string, Record<string, string>, string, number])[] =
  [
    ['no key', 'authentication_error', 'POST', '/v1/messages', {}, '{}', 401],
    ['no key, counting', 'authentication_error', 'POST', '/messages/count_tokens', {}, '{}', 401],
    ['another method', 'invalid_request_error', 'GET', '/v1/messages', {}, '', 405],
    ['something below it', 'not_found_error', 'POST', '/v1/messages/batches', {}, '{}', 404],
    ['no JSON', 'invalid_request_error', 'POST', '/messages', { 'content-type': 'text/plain' }, '{}', 415],
    ['too large', 'request_too_large', 'POST', '/v1/messages', {}, `"${'x'.repeat(2_000)}"`, 413],
    ['a foreign page', 'permission_error', 'POST', '/v1/messages', { origin: 'http://evil.example' }, '{}', 403],
    ['a foreign host', 'permission_error', 'POST', '/v1/messages?beta=true', { host: 'evil.example' }, '{}', 403],
    [
      'a WebSocket',
      'invalid_request_error',
      'GET',
      '/v1/messages',
      { connection: 'upgrade', upgrade: 'websocket' },
      '',
      426,
    ],
    ['an expectation', 'invalid_request_error', 'POST', '/v1/messages', { expect: 'the-best' }, '', 417],
  ]
for (const [name, type, method, target, headers, body, status] of anthropicErrors)
  onBothServers(`http: an error on Anthropic's path has Anthropic's format: ${name}`, async ({ given }) => {
    const { server, calls } = await given({ auth: { keys: ['client-one'] }, limit: { body: 1_000 } })
    const key = status === 401 ? {} : { 'x-api-key': 'client-one' }
    const answer = await ask(server.port, method, target, { ...key, ...headers }, body)
    assert.equal(answer.status, status, answer.body)
    const error = JSON.parse(answer.body)
    assert.deepEqual([error.type, error.error.type], ['error', type])
    assert.deepEqual(Object.keys(error), ['type', 'error', 'request_id'])
    assert.match(error.request_id, /^req_[a-z]+$/)
    assert.equal(answer.headers.get('request-id'), error.request_id)
    assert.equal(answer.headers.get('x-request-id'), error.request_id)
    assert.equal(answer.headers.get('x-should-retry'), 'false')
    assert.doesNotMatch(answer.body, RETRY_TRIGGERS)
    assert.equal(calls.length, 0)
  })

onBothServers(
  'http: an internal error on Anthropic’s path has its format; only there the ID is sent twice',
  async ({ given }) => {
    const setting = await given()
    setting.answer = () => {
      throw new Error('a bug')
    }
    const presented = await ask(setting.server.port, 'POST', '/v1/messages', {}, '{}')
    assert.equal(presented.status, 500)
    assert.equal(JSON.parse(presented.body).error.type, 'api_error')
    assert.equal(presented.headers.get('request-id'), presented.headers.get('x-request-id'))
    for (const target of ['/v1/chat/completions', '/v1/messagesx', '/v1/models/x']) {
      const ours = await ask(setting.server.port, target.includes('models') ? 'GET' : 'POST', target, {}, '')
      assert.equal(ours.headers.get('request-id'), undefined, target)
      assert.ok(JSON.parse(ours.body).error.code, target)
    }
  },
)
