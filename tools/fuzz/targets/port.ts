/** Bytes at the server's port. Every answer is HTTP, no handler is reached past its door, and the server goes on. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import fc from 'fast-check'
import { settingsSchema } from '../../../src/core/settings.ts'
import { type Handlers, ROUTES, type RouteName } from '../../../src/edge/http/app/routes.ts'
import { type Server, startServer } from '../../../src/edge/http/app/server.ts'
import { changed, type Target } from '../engine.ts'

const KEY = 'client-key-9f8e7d6c5b'
const settings = settingsSchema.parse({ auth: { keys: [KEY] } })

type Running = { readonly server: Server; readonly reached: RouteName[]; readonly errors: unknown[] }

/** Both are tried: what holds, holds of either. */
export const FRONTS = ['own', 'node'] as const
export type FrontName = (typeof FRONTS)[number]

const running = new Map<FrontName, Promise<Running>>()

const runningOn = (front: FrontName): Promise<Running> => {
  const known = running.get(front) ?? begin(front)
  running.set(front, known)
  return known
}

const begin = async (front: FrontName): Promise<Running> => {
  const reached: RouteName[] = []
  const errors: unknown[] = []
  const handlers = Object.fromEntries(
    Object.keys(ROUTES).map((name) => [
      name,
      ((received, reply, rest) => {
        reached.push(name as RouteName)
        reply.writeHead(200, { 'content-type': 'application/json' })
        reply.end(JSON.stringify({ name, rest, body: received.body.length }))
      }) satisfies Handlers[RouteName],
    ]),
  )
  const server = await startServer({
    port: 0,
    host: '127.0.0.1',
    httpServer: front,
    settings: () => settings,
    // One for each name of the table, which Object.fromEntries does not tell the compiler.
    handlers: handlers as Handlers,
    onError: (error) => errors.push(error),
    timing: { check: 20, linger: 50, farewell: 100, head: 400, request: 600 },
  })
  return { server, reached, errors }
}

/** What came back until the server closed or was silent for so long (ms). */
const talk = (
  port: number,
  bytes: Buffer,
  quiet: number,
): Promise<{ readonly said: Buffer; readonly closed: boolean }> =>
  new Promise((resolve) => {
    const parts: Buffer[] = []
    const socket = connect(port, '127.0.0.1')
    const finish = (closed: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ said: Buffer.concat(parts), closed })
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

/** The answers in what came back, each with its status; throws for what is none. */
const answersIn = (said: Buffer): readonly number[] => {
  const statuses: number[] = []
  let rest = said.toString('latin1')
  while (rest !== '') {
    const head = /^HTTP\/1\.1 ([1-5]\d\d) [^\r\n]*\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [^\r\n]*\r\n)*)\r\n/.exec(rest)
    assert.ok(head, `this is no answer: ${JSON.stringify(rest.slice(0, 120))}`)
    const [whole, status = '', lines = ''] = head
    statuses.push(Number(status))
    rest = rest.slice(whole.length)
    if (status.startsWith('1') || status === '204' || status === '304') continue
    const length = /^content-length: (\d+)\r$/im.exec(lines)?.[1]
    if (length !== undefined) {
      // To HEAD a length is told and nothing sent.
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

/** ms of silence after which nothing more is awaited. */
const QUIET = 25

export type Probed = {
  readonly statuses: readonly number[]
  /** Handlers that were reached, in order. */
  readonly reached: readonly RouteName[]
  readonly closed: boolean
}

/** What these bytes lead to; `quiet`: ms of silence after which nothing more is awaited. */
export const probe = async (front: FrontName, bytes: string, quiet: number): Promise<Probed> => {
  const { server, reached } = await runningOn(front)
  reached.length = 0
  const { said, closed } = await talk(server.port, Buffer.from(bytes, 'latin1'), quiet)
  return { statuses: answersIn(said), reached: [...reached], closed }
}

const portOf = (front: FrontName): Target => ({
  name: `port-${front}`,
  holds:
    'whatever bytes come, answers are HTTP/1.1 or the connection is closed; no handler without its key; the server stays',
  seeds: VALID,
  made: fc.oneof(
    evil,
    evil.chain((one) => changed([one])),
  ),
  async check(input) {
    const { server, reached, errors } = await runningOn(front)
    reached.length = 0
    errors.length = 0
    const { said } = await talk(server.port, input, QUIET)
    assert.deepEqual(errors, [], 'an error nobody expected')
    const statuses = answersIn(said)
    for (const status of statuses)
      assert.ok(status < 500 || status === 501 || status === 503 || status === 505, String(status))
    const authorised = input.toString('latin1').includes(KEY)
    for (const name of reached)
      assert.ok(authorised || ROUTES[name].access !== 'client', `${name} was reached without a key`)
  },
  async stop() {
    const was = running.get(front)
    running.delete(front)
    await (await was)?.server.close()
  },
})

export const PORTS: readonly Target[] = FRONTS.map(portOf)
