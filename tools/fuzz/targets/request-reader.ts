/**
 * The server's request parser, compared with itself on divided input and over sockets with `node:http`. Node must parse
 * what it accepts to the same requests, it must reject what Node rejects, and all it rejects beyond that is in `STRICTER`.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import fc from 'fast-check'
import type {
  ClientConnection,
  HttpExchange,
  HttpServer,
  OpenHttpServer,
  ServerHandler,
} from '../../../src/transport/server/http-server.ts'
import { http1Server } from '../../../src/transport/server/http1-server.ts'
import { nodeServer } from '../../../src/transport/server/node-server.ts'
import { RequestReader } from '../../../src/transport/server/request-reader.ts'
import { changed, slicings, type Target } from '../engine.ts'
import { evil, VALID } from './port.ts'

const HEAD_BYTES = 16 * 1024

type Request = {
  readonly method: string
  readonly target: string
  readonly version: string
  readonly hosts: readonly string[]
  readonly lines: number
  readonly headers: { readonly [name: string]: string | undefined }
  readonly body: string
}

/** `refused`: not all bytes were valid requests. */
type ReadRequests = { readonly requests: Request[]; refused: boolean }

/** All possible header names in these bytes. */
const namesIn = (bytes: Buffer): readonly string[] =>
  [...new Set(bytes.toString('latin1').match(/[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?=:)/g) ?? [])].map((name) =>
    name.toLowerCase(),
  )

type Head = Pick<HttpExchange, 'method' | 'target' | 'version' | 'hosts' | 'lines' | 'headers'>

const request = (names: readonly string[], head: Head, parts: readonly Buffer[]): Request => ({
  method: head.method,
  target: head.target,
  version: head.version,
  hosts: head.hosts,
  lines: head.lines,
  headers: Object.fromEntries(names.map((name) => [name, head.headers(name)])),
  body: Buffer.concat(parts).toString('latin1'),
})

// ── The parser alone ────────────────────────────────────────────────────────────────────────────────────────────────────

const read = (pieces: readonly Buffer[], names: readonly string[]): ReadRequests => {
  const found: ReadRequests = { requests: [], refused: false }
  let head: (Head & { readonly keeps: boolean }) | null = null
  let parts: Buffer[] = []
  const reader = new RequestReader(
    {
      head(one) {
        head = one
        parts = []
      },
      bytes: (part) => void parts.push(Buffer.from(part)),
      end() {
        if (head) found.requests.push(request(names, head, parts))
      },
    },
    HEAD_BYTES,
  )
  for (const piece of pieces) {
    // It parses in place.
    const copy = Buffer.from(piece)
    for (let at = 0; at < copy.length; ) {
      const next = reader.push(copy, at)
      assert.ok(next > at && next <= copy.length, 'progress')
      at = next
      if (reader.problem) return { ...found, refused: true }
      if (!reader.done) continue
      // The compiler does not see the assignment in the callback.
      if ((head as { readonly keeps: boolean } | null)?.keeps === false) return found
      reader.reset()
    }
  }
  if (reader.begun) found.refused = true
  return found
}

// ── Over sockets ─────────────────────────────────────────────────────────────────────────────────────────────────

type Observed = { names: readonly string[]; read: ReadRequests }
type RunningServer = {
  readonly server: HttpServer
  readonly port: number
  readonly observed: Observed
  readonly connections: Set<ClientConnection>
}

const running = new Map<OpenHttpServer, Promise<RunningServer>>()

const start = async (open: OpenHttpServer): Promise<RunningServer> => {
  const observed: Observed = { names: [], read: { requests: [], refused: false } }
  const connections = new Set<ClientConnection>()
  const handler: ServerHandler<ClientConnection> = {
    connected(connection) {
      connections.add(connection)
      return connection
    },
    keeps: () => true,
    serve(_connection, exchange) {
      const parts: Buffer[] = []
      exchange.pipeBody({
        push: (part) => void parts.push(part),
        end() {
          observed.read.requests.push(request(observed.names, exchange, parts))
          exchange.answer(200, {}, '')
        },
      })
    },
    grants: () => false,
    upgrade() {},
    malformed(connection) {
      observed.read.refused = true
      connection.destroy()
    },
    closed: (connection) => void connections.delete(connection),
    failed(error) {
      throw error
    },
  }
  const server = open(handler, {
    timing: { head: 2_000, request: 2_000, check: 50, keepAlive: 2_000, linger: 50 },
    headBytes: HEAD_BYTES,
    requestsPerSocket: 1_000,
  })
  return { server, port: await server.listen({ port: 0, host: '127.0.0.1' }), observed, connections }
}

/** The requests that a server receives if a client sends these bytes at once and half-closes. */
const requestsVia = async (open: OpenHttpServer, bytes: Buffer, names: readonly string[]): Promise<ReadRequests> => {
  const known = running.get(open) ?? start(open)
  running.set(open, known)
  const { port, observed } = await known
  const result: ReadRequests = { requests: [], refused: false }
  observed.names = names
  observed.read = result
  await new Promise<void>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.end(bytes))
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.resume()
  })
  return result
}

// ── Stricter than Node ──────────────────────────────────────────────────────────────────────────────────────────

/** Rejected on purpose although Node accepts it; known clients send none of it. `theirs`: the request as Node parsed it. */
const STRICTER: readonly (readonly [why: string, is: (theirs: Request, text: string) => boolean])[] = [
  [
    'methods of WebDAV and similar extensions, and tunnels',
    ({ method }) => !/^(?:GET|POST|HEAD|OPTIONS|DELETE|PUT|PATCH|TRACE|QUERY)$/.test(method),
  ],
  [
    'more than one space between the parts of the request line',
    (_, text) => /(?:^|\n)[A-Z-]+(?: {2,}\S+ +| +\S+ {2,})HTTP\//.test(text),
  ],
  ['versions other than 1.0 and 1.1', ({ version }) => !/^1\.[01]$/.test(version)],
  ['targets other than a path, `*`, or an absolute URL of this host', ({ target }) => /^(?:[a-z]+:|\*.)/i.test(target)],
  [
    'chunk extensions other than a name, or a name and a value',
    ({ headers }, text) => chunked(headers) && /[0-9a-f];/i.test(text),
  ],
  ['chunk sizes with more than eight digits', ({ headers }, text) => chunked(headers) && /[0-9a-f]{9}/i.test(text)],
  [
    'trailers with the names of framing headers',
    ({ headers }, text) =>
      chunked(headers) && /\n0+\r\n(?:.*\r\n)*(?:content-length|transfer-encoding|host):/i.test(text),
  ],
  [
    'transfer codings in addition to chunked',
    ({ headers }) => (headers['transfer-encoding'] ?? '').toLowerCase() !== 'chunked' && chunked(headers),
  ],
  [
    'bytes after an HTTP/1.0 request with both close and keep-alive',
    (_, text) => / HTTP\/1\.0\r\n/.test(text) && /close/i.test(text) && /keep-alive/i.test(text),
  ],
  ['chunks in HTTP/1.0', ({ headers, version }) => version === '1.0' && chunked(headers)],
  ['line ends before a request other than a few CR LF', (_, text) => /(?:^|\n)(?:\r(?!\n)|\n)|(?:\r\n){5}/.test(text)],
]

const chunked = (headers: Request['headers']): boolean => headers['transfer-encoding'] !== undefined

const isStricter = (bytes: Buffer, theirs: Request | undefined): boolean => {
  const text = bytes.toString('latin1')
  return theirs !== undefined && STRICTER.some(([, is]) => is(theirs, text))
}

const CHUNKED = 'POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n'
const SEEDS = [
  ...VALID,
  `${CHUNKED}5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n\r\n`,
  `${CHUNKED}1A;a;b="c d"\r\n${'x'.repeat(26)}\r\n0;last\r\nx-sum: 1\r\n\r\n`,
  `${CHUNKED}0\r\n\r\n${VALID[0]}`,
  'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /x HTTP/1.0\r\n\r\n',
  'GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\nGET /x HTTP/1.0\r\n\r\n',
  'PUT /v1?a=b#c HTTP/1.1\r\nhost:localhost\r\nCookie: a=1\r\ncookie: b=2\r\nX: 1\r\nx: 2\r\nAuthorization: a\r\nauthorization: b\r\ncontent-length: 3\r\n\r\nabc',
  '\r\n\r\nGET / HTTP/1.1\r\nhost: \t localhost \t\r\nx-empty:\r\nconnection: x, Close\r\n\r\n',
]

const header = fc.constantFrom(
  'content-length: 3',
  'content-length: 003',
  'content-length: 3 ',
  'content-length: 3,3',
  'Transfer-Encoding: Chunked',
  'transfer-encoding:chunked',
  'transfer-encoding: gzip, chunked',
  'transfer-encoding: chunked ',
  'te: trailers',
  'connection: close',
  'connection: keep-alive, upgrade',
  'upgrade: websocket',
  'expect: 100-continue',
  'x: \xe9\t"',
  'x: \x7f',
  'x\xe9: y',
  'x[: y',
  'proxy-connection: keep-alive',
  'trailer: x',
)
const unusual = fc
  .tuple(
    fc.constantFrom('GET', 'POST', 'PROPFIND', 'M-SEARCH', 'get', 'FOO', 'PATCH', 'QUERY', 'LINK'),
    fc.constantFrom(
      '/',
      '*',
      '/a?b#c#d?e',
      '/"<>\\^`{|}',
      '/\xe9',
      '/\x7f',
      'http://a',
      'http://a:1/b',
      'a',
      '',
      '/a b',
      '*a',
      'http://[::1]/',
      'x://y?z',
    ),
    fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.1 '),
    fc.array(header, { maxLength: 4 }),
    fc.constantFrom(
      'abc',
      '3\r\nabc\r\n0\r\n\r\n',
      '3 \r\nabc\r\n0\r\n\r\n',
      '3;\r\nabc\r\n0\r\n\r\n',
      '3;a=\r\nabc\r\n0\r\n\r\n',
      '3 ;a\r\nabc\r\n0\r\n\r\n',
      '3;a="\\""\r\nabc\r\n0\r\n\r\n',
      '00000003\r\nabc\r\n0\r\n\r\n',
      '0000000003\r\nabc\r\n0\r\n\r\n',
      '3\r\nabc\r\n0\r\ncontent-length: 3\r\n\r\n',
      '3\r\nabc\r\n0\r\nhost: 3\r\n\r\n',
      '3\r\nabc\r\n0\r\nx : 3\r\n\r\n',
      '3\r\nabc\r\n0\r\n x: 3\r\n\r\n',
      '3\r\nabc\r\n000\r\n\r\n',
    ),
  )
  .map(([method, target, version, headers, body]) =>
    Buffer.from([`${method} ${target} ${version}`, 'host: localhost', ...headers, '', body].join('\r\n'), 'latin1'),
  )

export const REQUEST_READER: Target = {
  name: 'request-reader',
  property:
    'parses divided input and sockets alike; Node parses what it accepts to the same requests, and it rejects what Node rejects',
  seeds: SEEDS,
  generated: fc.oneof(
    unusual,
    evil,
    unusual.chain((one) => changed([one])),
  ),
  async check(input) {
    const names = namesIn(input)
    const whole = read([input], names)
    for (const pieces of slicings(input)) {
      const cut = read(pieces, names)
      assert.deepEqual(cut, whole, `${pieces.length} pieces`)
    }
    const ours = await requestsVia(http1Server, input, names)
    assert.deepEqual(ours, whole, 'over a socket')
    const theirs = await requestsVia(nodeServer, input, names)
    const same = theirs.requests.slice(0, whole.requests.length)
    assert.deepEqual(whole.requests, same, 'Node parses other requests')
    if (theirs.requests.length > whole.requests.length)
      assert.ok(
        isStricter(input, theirs.requests[whole.requests.length]),
        `rejected although Node accepts it: ${JSON.stringify(theirs)}`,
      )
  },
  async stop() {
    for (const known of running.values()) {
      const { server, connections } = await known
      const closed = server.close()
      for (const connection of connections) connection.destroy()
      await closed
    }
    running.clear()
  },
}
