/**
 * Our server's reader: against itself in other slices, and over real sockets against `node:http`. What we take, Node takes
 * as the same request; what Node refuses, we refuse; and what only we refuse is one of the cases below.
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
} from '../../../src/edge/http/server/http-server.ts'
import { http1Server } from '../../../src/edge/http/server/http1-server.ts'
import { nodeServer } from '../../../src/edge/http/server/node-server.ts'
import { RequestReader } from '../../../src/edge/http/server/request-reader.ts'
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

/** `refused`: not all of what came was requests. */
type Read = { readonly requests: Request[]; refused: boolean }

/** The names of all headers there can be in these bytes. */
const namesIn = (bytes: Buffer): readonly string[] =>
  [...new Set(bytes.toString('latin1').match(/[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?=:)/g) ?? [])].map((name) =>
    name.toLowerCase(),
  )

type Told = Pick<HttpExchange, 'method' | 'target' | 'version' | 'hosts' | 'lines' | 'headers'>

const request = (names: readonly string[], head: Told, parts: readonly Buffer[]): Request => ({
  method: head.method,
  target: head.target,
  version: head.version,
  hosts: head.hosts,
  lines: head.lines,
  headers: Object.fromEntries(names.map((name) => [name, head.headers(name)])),
  body: Buffer.concat(parts).toString('latin1'),
})

// ── By itself ────────────────────────────────────────────────────────────────────────────────────────────────────

const read = (pieces: readonly Buffer[], names: readonly string[]): Read => {
  const found: Read = { requests: [], refused: false }
  let head: (Told & { readonly keeps: boolean }) | null = null
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
    // It works in the buffer it is given.
    const copy = Buffer.from(piece)
    for (let at = 0; at < copy.length; ) {
      const next = reader.push(copy, at)
      assert.ok(next > at && next <= copy.length, 'it goes on')
      at = next
      if (reader.problem) return { ...found, refused: true }
      if (!reader.done) continue
      // Assigned in a call, which the compiler does not see.
      if ((head as { readonly keeps: boolean } | null)?.keeps === false) return found
      reader.reset()
    }
  }
  if (reader.begun) found.refused = true
  return found
}

// ── Over sockets ─────────────────────────────────────────────────────────────────────────────────────────────────

type Heard = { names: readonly string[]; read: Read }
type Running = {
  readonly front: HttpServer
  readonly port: number
  readonly heard: Heard
  readonly lines: Set<ClientConnection>
}

const running = new Map<OpenHttpServer, Promise<Running>>()

const begin = async (open: OpenHttpServer): Promise<Running> => {
  const heard: Heard = { names: [], read: { requests: [], refused: false } }
  const lines = new Set<ClientConnection>()
  const house: ServerHandler<ClientConnection> = {
    connected(line) {
      lines.add(line)
      return line
    },
    serve(_line, exchange) {
      const parts: Buffer[] = []
      exchange.pipeBody({
        push: (part) => void parts.push(part),
        end() {
          heard.read.requests.push(request(heard.names, exchange, parts))
          exchange.answer(200, {}, '')
        },
      })
    },
    grants: () => false,
    upgrade() {},
    malformed(line) {
      heard.read.refused = true
      line.destroy()
    },
    closed: (line) => void lines.delete(line),
    failed(error) {
      throw error
    },
  }
  const front = open(house, {
    timing: { head: 2_000, request: 2_000, check: 50, keepAlive: 2_000, linger: 50 },
    headBytes: HEAD_BYTES,
    requestsPerSocket: 1_000,
  })
  return { front, port: await front.listen({ port: 0, host: '127.0.0.1' }), heard, lines }
}

/** What a front makes of the bytes of a client that says them at once and no more. */
const asked = async (open: OpenHttpServer, bytes: Buffer, names: readonly string[]): Promise<Read> => {
  const made = running.get(open) ?? begin(open)
  running.set(open, made)
  const { port, heard } = await made
  const result: Read = { requests: [], refused: false }
  heard.names = names
  heard.read = result
  await new Promise<void>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.end(bytes))
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.resume()
  })
  return result
}

// ── What only we refuse ──────────────────────────────────────────────────────────────────────────────────────────

/** What Node took of it, and all that came; each is refused on purpose, and nobody's client sends it. */
const STRICTER: readonly (readonly [why: string, is: (theirs: Request, text: string) => boolean])[] = [
  [
    'methods that only WebDAV and the like know, and tunnels',
    ({ method }) => !/^(?:GET|POST|HEAD|OPTIONS|DELETE|PUT|PATCH|TRACE|QUERY)$/.test(method),
  ],
  [
    'more than one blank between the parts of the first line',
    (_, text) => /(?:^|\n)[A-Z-]+(?: {2,}\S+ +| +\S+ {2,})HTTP\//.test(text),
  ],
  ['versions there are no more, or not here', ({ version }) => !/^1\.[01]$/.test(version)],
  [
    'targets that are no path and no star, or in the name of another with more than its name and port',
    ({ target }) => /^(?:[a-z]+:|\*.)/i.test(target),
  ],
  [
    'chunk extensions that are not a name, or a name and its value',
    ({ headers }, text) => chunked(headers) && /[0-9a-f];/i.test(text),
  ],
  ['sizes of chunks with more than eight digits', ({ headers }, text) => chunked(headers) && /[0-9a-f]{9}/i.test(text)],
  [
    'trailers that might be framing',
    ({ headers }, text) =>
      chunked(headers) && /\n0+\r\n(?:.*\r\n)*(?:content-length|transfer-encoding|host):/i.test(text),
  ],
  [
    'codings beside chunked',
    ({ headers }) => (headers['transfer-encoding'] ?? '').toLowerCase() !== 'chunked' && chunked(headers),
  ],
  [
    'what comes behind a request of HTTP/1.0 that says both close and keep-alive',
    (_, text) => / HTTP\/1\.0\r\n/.test(text) && /close/i.test(text) && /keep-alive/i.test(text),
  ],
  ['chunks in HTTP/1.0', ({ headers, version }) => version === '1.0' && chunked(headers)],
  [
    'lines before a request that are not CR LF, or more than a few',
    (_, text) => /(?:^|\n)(?:\r(?!\n)|\n)|(?:\r\n){5}/.test(text),
  ],
]

const chunked = (headers: Request['headers']): boolean => headers['transfer-encoding'] !== undefined

const explained = (bytes: Buffer, theirs: Request | undefined): boolean => {
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
const made = fc
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
  holds:
    'the same requests in any slices and over sockets; Node takes what we take as the same, and we refuse what it refuses',
  seeds: SEEDS,
  made: fc.oneof(
    made,
    evil,
    made.chain((one) => changed([one])),
  ),
  async check(input) {
    const names = namesIn(input)
    const whole = read([input], names)
    for (const pieces of slicings(input)) {
      const cut = read(pieces, names)
      assert.deepEqual(cut, whole, `${pieces.length} pieces`)
    }
    const ours = await asked(http1Server, input, names)
    assert.deepEqual(ours, whole, 'over a socket')
    const theirs = await asked(nodeServer, input, names)
    const same = theirs.requests.slice(0, whole.requests.length)
    assert.deepEqual(whole.requests, same, 'Node sees other requests')
    if (theirs.requests.length > whole.requests.length)
      assert.ok(explained(input, theirs.requests[whole.requests.length]), `only we refuse: ${JSON.stringify(theirs)}`)
  },
  async stop() {
    for (const made of running.values()) {
      const { front, lines } = await made
      const closed = front.close()
      for (const line of lines) line.destroy()
      await closed
    }
    running.clear()
  },
}
