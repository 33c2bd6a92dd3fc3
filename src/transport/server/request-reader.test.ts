import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RequestProblem } from './http-server.ts'
import { type ReadHead, RequestReader } from './request-reader.ts'

type Request = {
  readonly line: string
  readonly headers: { readonly [name: string]: string | undefined }
  readonly body: string
  readonly keeps: boolean
  readonly expects: string
  readonly upgrade: string | undefined
}
type ReadRequests = {
  readonly requests: Request[]
  readonly problem: RequestProblem | null
  readonly begun: boolean
  parts: number
}

const NAMES = ['host', 'content-length', 'x-one', 'x-many', 'cookie', 'authorization', '__proto__']

const read = (pieces: readonly Buffer[]): ReadRequests => {
  const requests: Request[] = []
  let head: ReadHead | null = null
  let body = ''
  let parts = 0
  const reader = new RequestReader(
    {
      head(one) {
        head = one
        body = ''
      },
      bytes(part) {
        parts++
        body += part.toString('latin1')
      },
      end() {
        // TypeScript does not see the assignment in the callback.
        const { method, target, version, headers, keeps, expects, upgrade } = head as unknown as ReadHead
        const found = NAMES.flatMap((name) => (headers(name) === undefined ? [] : [[name, headers(name)]]))
        const line = `${method} ${target} ${version}`
        requests.push({ line, headers: Object.fromEntries(found), body, keeps, expects, upgrade })
      },
    },
    16 * 1024,
  )
  for (const piece of pieces) {
    // The reader modifies its buffer.
    const copy = Buffer.from(piece)
    for (let at = 0; at < copy.length && !reader.problem; ) {
      at = reader.push(copy, at)
      if (reader.done) reader.reset()
    }
  }
  return { requests, problem: reader.problem, begun: reader.begun, parts }
}

const whole = (text: string): Buffer => Buffer.from(text, 'latin1')
const single = (bytes: Buffer): readonly Buffer[] => [...bytes].map((byte) => Buffer.of(byte))

const HOST = 'Host: a\r\n'
const POST = `POST /x HTTP/1.1\r\n${HOST}`
const CHUNKED = `${POST}transfer-encoding: chunked\r\n\r\n`
const GET = `GET /y HTTP/1.1\r\n${HOST}\r\n`

const taken: readonly [name: string, wire: string, requests: readonly Partial<Request>[]][] = [
  ['no body', GET, [{ line: 'GET /y 1.1', body: '', keeps: true, expects: 'nothing' }]],
  ['a stated length', `${POST}content-length: 5\r\n\r\nhello`, [{ line: 'POST /x 1.1', body: 'hello' }]],
  ['leading zeros', `${POST}content-length: 005\r\n\r\nhello`, [{ body: 'hello' }]],
  ['chunks', `${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n`, [{ body: 'hello' }]],
  [
    'chunks, in capitals',
    `${POST}Transfer-Encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n`,
    [{ body: '0123456789' }],
  ],
  ['chunk extensions', `${CHUNKED}5;name="a b";x=y;z\r\nhello\r\n0;last\r\n\r\n`, [{ body: 'hello' }]],
  [
    'trailers, which are dropped',
    `${CHUNKED}5\r\nhello\r\n0\r\nx-one: 1\r\n\r\n`,
    [{ body: 'hello', headers: { host: 'a' } }],
  ],
  ['line ends within data', `${CHUNKED}6\r\n\r\n0\r\n\r\r\n0\r\n\r\n`, [{ body: '\r\n0\r\n\r' }]],
  ['control characters within data', `${POST}content-length: 3\r\n\r\n\0\n\r`, [{ body: '\0\n\r' }]],
  [
    'several, sent ahead',
    `${CHUNKED}1\r\na\r\n0\r\n\r\n${GET}${POST}content-length: 1\r\n\r\nb`,
    [{ body: 'a' }, { line: 'GET /y 1.1' }, { body: 'b' }],
  ],
  ['empty lines before', `\r\n\r\n${GET}\r\n${GET}`, [{ line: 'GET /y 1.1' }, { line: 'GET /y 1.1' }]],
  ['HTTP/1.0', `GET / HTTP/1.0\r\n\r\n`, [{ line: 'GET / 1.0', keeps: false }]],
  ['HTTP/1.0 with keep-alive', `GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n`, [{ keeps: true }]],
  ['HTTP/1.0 with both', `GET / HTTP/1.0\r\nconnection: close, keep-alive\r\n\r\n`, [{ keeps: false }]],
  ['close in a list', `GET / HTTP/1.1\r\n${HOST}connection: x, Close\r\n\r\n`, [{ keeps: false }]],
  ['a token that contains close', `GET / HTTP/1.1\r\n${HOST}connection: closely\r\n\r\n`, [{ keeps: true }]],
  ['100-continue', `${POST}expect: 100-Continue\r\ncontent-length: 1\r\n\r\na`, [{ expects: 'continue', body: 'a' }]],
  ['an unknown expectation', `${POST}expect: a-miracle\r\n\r\n`, [{ expects: 'other' }]],
  ['an expectation in HTTP/1.0', `GET / HTTP/1.0\r\nexpect: a-miracle\r\n\r\n`, [{ expects: 'nothing' }]],
  [
    'another protocol',
    `GET / HTTP/1.1\r\n${HOST}connection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\r\n`,
    [{ upgrade: 'websocket' }],
  ],
  [
    'an upgrade without the connection header',
    `GET / HTTP/1.1\r\n${HOST}upgrade: websocket\r\n\r\n`,
    [{ upgrade: undefined }],
  ],
  [
    'an offer with a body',
    `${POST}connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 1\r\n\r\na`,
    [{ upgrade: undefined, body: 'a' }],
  ],
  [
    'blanks around a value',
    `GET / HTTP/1.1\r\nhost: \t a b \t\r\nx-one:\r\n\r\n`,
    [{ headers: { host: 'a b', 'x-one': '' } }],
  ],
  [
    'letters of Latin-1 in a value',
    `GET / HTTP/1.1\r\n${HOST}x-one: \xe9\r\n\r\n`,
    [{ headers: { host: 'a', 'x-one': '\xe9' } }],
  ],
  [
    'several lines of a name: lists are joined, of others the first counts',
    `GET / HTTP/1.1\r\n${HOST}x-many: a\r\nX-MANY: b\r\ncookie: c\r\ncookie: d\r\nauthorization: e\r\nauthorization: f\r\n\r\n`,
    [{ headers: { host: 'a', 'x-many': 'a, b', cookie: 'c; d', authorization: 'e' } }],
  ],
  [
    'a name of JavaScript',
    `GET / HTTP/1.1\r\n${HOST}__proto__: x\r\n\r\n`,
    [
      {
        headers: Object.fromEntries([
          ['host', 'a'],
          ['__proto__', 'x'],
        ]),
      },
    ],
  ],
  [
    'targets of every form',
    'OPTIONS * HTTP/1.1\r\n\r\nGET http://a:1/b?c HTTP/1.1\r\n\r\nGET /a?b#c"<>\\^`{|} HTTP/1.1\r\n\r\n',
    [{ line: 'OPTIONS * 1.1' }, { line: 'GET http://a:1/b?c 1.1' }, { line: 'GET /a?b#c"<>\\^`{|} 1.1' }],
  ],
]

describe('requests', () => {
  for (const [name, wire, requests] of taken)
    test(name, () => {
      const bytes = whole(wire)
      const { parts, ...once } = read([bytes])
      assert.deepEqual([once.problem, once.begun, once.requests.length], [null, false, requests.length])
      assert.ok(parts <= requests.length, 'the body bytes of one read are emitted in one call')
      for (const [at, wanted] of requests.entries()) assert.partialDeepStrictEqual(once.requests[at], wanted)
      for (let cut = 1; cut < bytes.length; cut++) {
        const { parts: _, ...cutUp } = read([bytes.subarray(0, cut), bytes.subarray(cut)])
        assert.deepEqual(cutUp, once, `cut at ${cut}`)
        const { requests: early, problem } = read([bytes.subarray(0, cut)])
        assert.ok(problem === null && early.length <= requests.length, `until ${cut}`)
      }
      const { parts: _, ...byBytes } = read(single(bytes))
      assert.deepEqual(byBytes, once, 'byte by byte')
    })
})

/** Ambiguous or malformed requests: refused at their last byte at the latest, however they are split. */
const refused: readonly [name: string, wire: string, problem?: RequestProblem][] = [
  ['TLS', '\x16\x03\x01\x02\x00\x01'],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\n'],
  ['HTTP/1.2', 'GET / HTTP/1.2\r\n\r\n'],
  ['HTTP/0.9', 'GET /\r\n\r\n'],
  ['small letters', 'get / HTTP/1.1\r\n\r\n'],
  ['an unknown method', 'BREW / HTTP/1.1\r\n\r\n'],
  ['a tunnel', 'CONNECT a:443 HTTP/1.1\r\n\r\n'],
  ['two blanks before the target', 'GET  / HTTP/1.1\r\n\r\n'],
  ['two blanks before the version', 'GET /  HTTP/1.1\r\n\r\n'],
  ['a blank in the target', 'GET /a b HTTP/1.1\r\n\r\n'],
  ['a tab in the first line', 'GET\t/ HTTP/1.1\r\n\r\n'],
  ['letters beyond ASCII in the target', 'GET /\xe9 HTTP/1.1\r\n\r\n'],
  ['a target that is no path', 'GET a HTTP/1.1\r\n\r\n'],
  ['five empty lines', `${'\r\n'.repeat(5)}${GET}`],
  ['a lone carriage return before', `\r${GET}`],
  ['a lone line feed before', `\n${GET}`],
  ['lone line feeds', 'GET / HTTP/1.1\nHost: a\n\n'],
  ['a lone line feed in the header block', `GET / HTTP/1.1\r\n${HOST}x: 1\ny: 2\r\n\r\n`],
  ['a lone carriage return in a value', `GET / HTTP/1.1\r\n${HOST}x: 1\r2\r\n\r\n`],
  ['NUL in a value', `GET / HTTP/1.1\r\n${HOST}x: 1\x002\r\n\r\n`],
  ['DEL in a value', `GET / HTTP/1.1\r\n${HOST}x: 1\x7f\r\n\r\n`],
  ['a folded line', `GET / HTTP/1.1\r\n${HOST}x: 1\r\n 2\r\n\r\n`],
  ['a blank before the colon', `GET / HTTP/1.1\r\n${HOST}x : 1\r\n\r\n`],
  ['a blank before the first name', `GET / HTTP/1.1\r\n x: 1\r\n\r\n`],
  ['no colon', `GET / HTTP/1.1\r\n${HOST}x\r\n\r\n`],
  ['no colon in this line, but one in the next', `GET / HTTP/1.1\r\nx\r\n${HOST}\r\n`],
  ['no name', `GET / HTTP/1.1\r\n${HOST}: 1\r\n\r\n`],
  ['an invalid name', `GET / HTTP/1.1\r\n${HOST}x(one): 1\r\n\r\n`],
  ['two lengths', `${POST}content-length: 3\r\ncontent-length: 4\r\n\r\n`],
  ['two equal lengths', `${POST}content-length: 3\r\ncontent-length: 3\r\n\r\n`],
  ['two lengths in one line', `${POST}content-length: 3, 3\r\n\r\n`],
  ['a length with a sign', `${POST}content-length: +3\r\n\r\n`],
  ['a negative length', `${POST}content-length: -3\r\n\r\n`],
  ['a hexadecimal length', `${POST}content-length: 0x3\r\n\r\n`],
  ['an empty length', `${POST}content-length:\r\n\r\n`],
  ['a length that overflows', `${POST}content-length: 99999999999999999999\r\n\r\n`],
  ['a length and chunks', `${POST}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n`],
  ['chunks and a length', `${POST}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n`],
  ['two codings', `${POST}transfer-encoding: gzip, chunked\r\n\r\n`],
  ['a repeated coding', `${POST}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`],
  ['an unknown coding', `${POST}transfer-encoding: xchunked\r\n\r\n`],
  ['an empty coding', `${POST}transfer-encoding:\r\n\r\n`],
  ['chunks in HTTP/1.0', 'POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n'],
  ['a size that is no number', `${CHUNKED}zz\r\n`],
  ['a size with a sign', `${CHUNKED}+5\r\nhello\r\n`],
  ['a size with 0x', `${CHUNKED}0x5\r\nhello\r\n`],
  ['an empty size', `${CHUNKED}\r\nhello\r\n`],
  ['a blank before a size', `${CHUNKED} 5\r\nhello\r\n`],
  ['a blank behind a size', `${CHUNKED}5 \r\nhello\r\n`],
  ['a size of nine digits', `${CHUNKED}000000005\r\nhello\r\n`],
  ['a size that ends with a lone line feed', `${CHUNKED}5\nhello\r\n0\r\n\r\n`],
  ['a lone carriage return in an extension', `${CHUNKED}5;a\rb\r\nhello\r\n`],
  ['a malformed extension', `${CHUNKED}5; a\r\nhello\r\n`],
  ['an extension above the limit', `${CHUNKED}5;${'x'.repeat(1100)}\r\nhello\r\n`, 'long_extension'],
  ['a chunk longer than its size', `${CHUNKED}5\r\nhello!\r\n0\r\n\r\n`],
  ['a chunk that ends with a lone line feed', `${CHUNKED}5\r\nhello\n0\r\n\r\n`],
  ['a malformed trailer', `${CHUNKED}0\r\nnonsense\r\n\r\n`],
  ['a trailer that is a length', `${CHUNKED}0\r\nContent-Length: 3\r\n\r\n`],
  ['a trailer that ends with a lone line feed', `${CHUNKED}0\r\nx: 1\n\r\n`],
  ['trailers above 16 KiB', `${CHUNKED}0\r\n${'a: b\r\n'.repeat(4_000)}`, 'long_head'],
  ['a header block above 16 KiB', `GET / HTTP/1.1\r\nx: ${'y'.repeat(17 * 1024)}`, 'long_head'],
  ['a complete header block of 17 KiB', `GET / HTTP/1.1\r\nx: ${'y'.repeat(17 * 1024)}\r\n\r\n`, 'long_head'],
]
describe('refused', () => {
  for (const [name, wire, problem = 'not_http'] of refused)
    test(name, () => {
      const bytes = whole(wire)
      const step = Math.max(1, Math.floor(bytes.length / 200))
      const ways = [[bytes], single(bytes)]
      for (let cut = 1; cut < bytes.length; cut += step) ways.push([bytes.subarray(0, cut), bytes.subarray(cut)])
      for (const pieces of ways) {
        const found = read(pieces)
        assert.deepEqual([found.problem, found.requests], [problem, []])
      }
    })
})

test('a valid request before a malformed one is emitted, the malformed one is not', () => {
  const { requests, problem } = read([whole(`${GET}${CHUNKED}zz\r\n`)])
  assert.deepEqual([requests.map(({ line }) => line), problem], [['GET /y 1.1'], 'not_http'])
})

test('bytes that cannot become a request are refused at once', () => {
  for (const wire of ['x', 'SSH-2.0', '\0', `${GET}\x16`, 'GET / HTTP/1.1\r\nhost: a\n'])
    assert.equal(read([whole(wire)]).problem, 'not_http', JSON.stringify(wire))
})

test('more names than the cache holds are read correctly', () => {
  const lines = (from: number) => Array.from({ length: 90 }, (_, at) => `X-${from}-${at}: ${at}\r\n`).join('')
  const wire = Array.from({ length: 6 }, (_, at) => `GET /${at} HTTP/1.1\r\n${lines(at)}X-One: ${at}\r\n\r\n`).join('')
  const { requests } = read([whole(wire)])
  assert.deepEqual(
    requests.map(({ headers }) => headers['x-one']),
    ['0', '1', '2', '3', '4', '5'],
  )
})
