/** Bytes sent to the server's port: every response is HTTP, access is checked before any handler, and the server survives. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import fc from 'fast-check'
import { bytesOrText } from '../../../src/core/encoded-text.ts'
import type { IncomingRequest, RequestBody, ResponseWriter } from '../../../src/core/http-exchange.ts'
import { settingsSchema } from '../../../src/core/settings.ts'
import { type Handlers, ROUTES, type RouteName } from '../../../src/server/routes.ts'
import { type Server, startServer } from '../../../src/server/server.ts'
import { changed, type Target } from '../engine.ts'

const KEY = 'client-key-9f8e7d6c5b'
const settings = settingsSchema.parse({ auth: { keys: [KEY] } })

type Running = { readonly server: Server; readonly reached: RouteName[]; readonly errors: unknown[] }

/** Both server implementations must have the properties. */
export const SERVERS = ['own', 'node'] as const
export type ServerName = (typeof SERVERS)[number]

const running = new Map<ServerName, Promise<Running>>()

const lengthOf = (body: RequestBody): number => ('parts' in body ? body.bytes.length : bytesOrText(body).length)

const startedServer = (name: ServerName): Promise<Running> => {
  const known = running.get(name) ?? start(name)
  running.set(name, known)
  return known
}

const start = async (name: ServerName): Promise<Running> => {
  const reached: RouteName[] = []
  const errors: unknown[] = []
  const handlers = Object.fromEntries(
    Object.keys(ROUTES).map((name) => [
      name,
      ((received: IncomingRequest<RequestBody>, reply: ResponseWriter, rest: string) => {
        reached.push(name as RouteName)
        reply.writeHead(200, { 'content-type': 'application/json' })
        reply.end(JSON.stringify({ name, rest, body: lengthOf(received.body) }))
      }) satisfies Handlers[RouteName],
    ]),
  )
  const server = await startServer({
    port: 0,
    host: '127.0.0.1',
    httpServer: name,
    settings: () => settings,
    // It has every name of the table; the type of Object.fromEntries does not.
    handlers: handlers as Handlers,
    onError: (error) => errors.push(error),
    timing: { check: 20, linger: 50, farewell: 100, head: 400, request: 600 },
  })
  return { server, reached, errors }
}

/** Sends bytes and returns the response until the server closes the connection or is silent for `quiet` ms. */
const talk = (
  port: number,
  bytes: Buffer,
  quiet: number,
): Promise<{ readonly received: Buffer; readonly closed: boolean }> =>
  new Promise((resolve) => {
    const parts: Buffer[] = []
    const socket = connect(port, '127.0.0.1')
    const finish = (closed: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ received: Buffer.concat(parts), closed })
    }
    let timer = setTimeout(() => finish(false), 5_000)
    socket.on('error', () => finish(true))
    socket.on('close', () => finish(true))
    socket.on('data', (part) => {
      parts.push(part)
      clearTimeout(timer)
      timer = setTimeout(() => finish(false), quiet)
    })
    socket.on('connect', () => {
      socket.write(bytes)
      clearTimeout(timer)
      timer = setTimeout(() => finish(false), quiet)
    })
  })

/** The status of each response; throws for anything else. */
const statusesIn = (received: Buffer): readonly number[] => {
  const statuses: number[] = []
  let rest = received.toString('latin1')
  while (rest !== '') {
    const head = /^HTTP\/1\.1 ([1-5]\d\d) [^\r\n]*\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [^\r\n]*\r\n)*)\r\n/.exec(rest)
    assert.ok(head, `not a response: ${JSON.stringify(rest.slice(0, 120))}`)
    const [whole, status = '', lines = ''] = head
    statuses.push(Number(status))
    rest = rest.slice(whole.length)
    if (status.startsWith('1') || status === '204' || status === '304') continue
    const length = /^content-length: (\d+)\r$/im.exec(lines)?.[1]
    if (length !== undefined) {
      // A response to HEAD has a length but no body.
      const body = rest.slice(0, Number(length))
      rest = rest.startsWith('HTTP/1.1 ') ? rest : rest.slice(body.length)
    } else if (/^transfer-encoding: chunked\r$/im.test(lines)) {
      for (;;) {
        const size = /^([0-9a-f]+)\r\n/i.exec(rest)
        if (!size?.[1]) break
        const bytes = Number.parseInt(size[1], 16)
        rest = rest.slice(size[0].length + bytes + 2)
        if (bytes === 0) break
      }
    }
  }
  return statuses
}

const HOST = 'Host: localhost\r\n'
const AUTH = `Authorization: Bearer ${KEY}\r\n`
const BODY = '{"model":"m","messages":[{"role":"user","content":"x"}]}'
const post = (headers: string, body: string) => `POST /v1/chat/completions HTTP/1.1\r\n${headers}\r\n${body}`
const LENGTH = `Content-Length: ${BODY.length}\r\n`

export const VALID = [
  `GET /health HTTP/1.1\r\n${HOST}\r\n`,
  `HEAD /health/live HTTP/1.1\r\n${HOST}\r\n`,
  `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`,
  `GET /v1/models/a%2Fb HTTP/1.1\r\n${HOST}${AUTH}\r\n`,
  `DELETE /v1/responses/resp_1 HTTP/1.1\r\n${HOST}${AUTH}\r\n`,
  post(`${HOST}${AUTH}Content-Type: application/json\r\n${LENGTH}`, BODY),
  post(`${HOST}Content-Type: application/json\r\n${LENGTH}`, BODY),
  post(`${HOST}${AUTH}Transfer-Encoding: chunked\r\n`, `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`),
  post(`${HOST}${AUTH}Expect: 100-continue\r\n${LENGTH}`, BODY),
  `GET /v1/responses HTTP/1.1\r\n${HOST}${AUTH}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  `GET /health HTTP/1.1\r\n${HOST}\r\nGET /metrics HTTP/1.1\r\n${HOST}\r\n`,
]

export const evil = fc
  .tuple(
    fc.constantFrom('POST', 'GET', 'post', 'PO ST', 'CONNECT', 'PRI', 'TRACE'),
    fc.constantFrom(
      '/v1/chat/completions',
      '/health',
      'http://localhost/health',
      '//x',
      '*',
      '/v1/models?a=b#c',
      '/\\x',
      '/a b',
    ),
    fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/1.2', 'http/1.1', ''),
    fc.array(
      fc.constantFrom(
        'Host: localhost',
        'Host: evil.example',
        'Host:',
        `Authorization: Bearer ${KEY}`,
        'Content-Length: 5',
        'Content-Length: 05',
        'Content-Length: -5',
        'Content-Length: 5, 5',
        'Transfer-Encoding: chunked',
        'Transfer-Encoding: xchunked',
        'Transfer-Encoding : chunked',
        'transfer-encoding: identity',
        'X: a\0b',
        'X\t: a',
        ' folded: x',
        'Content-Encoding: gzip',
        'Expect: x',
        'Connection: close',
        'Origin: https://evil.example',
        'Upgrade: h2c',
      ),
      { maxLength: 6 },
    ),
    fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r'),
    fc.constantFrom(
      '',
      'hello',
      '5\r\nhello\r\n0\r\n\r\n',
      '5\nhello\n0\n\n',
      'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n',
      '{"a":1}',
    ),
  )
  .map(([method, path, version, headers, eol, body]) =>
    Buffer.from([`${method} ${path} ${version}`, ...headers, '', body].join(eol)),
  )

/** ms of silence after which a response counts as complete. */
const QUIET = 25

export type Probed = {
  readonly statuses: readonly number[]
  /** The handlers that ran, in order. */
  readonly reached: readonly RouteName[]
  readonly closed: boolean
}

/** Sends bytes and returns their effect. `quiet`: ms of silence after which a response counts as complete. */
export const probe = async (name: ServerName, bytes: string, quiet: number): Promise<Probed> => {
  const { server, reached } = await startedServer(name)
  reached.length = 0
  const { received, closed } = await talk(server.port, Buffer.from(bytes, 'latin1'), quiet)
  return { statuses: statusesIn(received), reached: [...reached], closed }
}

const portTarget = (name: ServerName): Target => ({
  name: `port-${name}`,
  property:
    'for any bytes, responses are HTTP/1.1 or the connection is closed; no handler runs without its key; the server survives',
  seeds: VALID,
  generated: fc.oneof(
    evil,
    evil.chain((one) => changed([one])),
  ),
  async check(input) {
    const { server, reached, errors } = await startedServer(name)
    reached.length = 0
    errors.length = 0
    const { received } = await talk(server.port, input, QUIET)
    assert.deepEqual(errors, [], 'unexpected errors')
    const statuses = statusesIn(received)
    for (const status of statuses)
      assert.ok(status < 500 || status === 501 || status === 503 || status === 505, String(status))
    const authorised = input.toString('latin1').includes(KEY)
    for (const handler of reached)
      assert.ok(authorised || ROUTES[handler].access !== 'client', `${handler} ran without a key`)
  },
  async stop() {
    const server = running.get(name)
    running.delete(name)
    await (await server)?.server.close()
  },
})

export const PORTS: readonly Target[] = SERVERS.map(portTarget)
