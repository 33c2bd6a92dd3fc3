import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { emptyHeadCache } from './heads.ts'
import { HttpAnswerReader, type Progress } from './http-answer-reader.ts'

type ReadAnswer = {
  status?: number
  readonly headers: Record<string, string | undefined>
  body: string
  /** Calls of `bytes`. */
  calls: number
  after: Progress | null
  /** The problem that the end of the connection causes. */
  end: string | null
  reusable: boolean
}

const NAMES = ['content-type', 'x-one', 'x-many', 'content-length']

const STALE = Buffer.from('\r\n5\r\nstale\r\n0\r\n\r\n')

const read = (pieces: readonly Buffer[]): ReadAnswer => {
  const found: ReadAnswer = { headers: {}, body: '', calls: 0, after: null, end: null, reusable: false }
  const reader = new HttpAnswerReader({
    head(status, headers) {
      found.status = status
      for (const name of NAMES) if (headers(name) !== undefined) found.headers[name] = headers(name)
    },
    bytes(chunk) {
      found.calls++
      found.body += Buffer.from(chunk).toString('latin1')
      return true
    },
  })
  for (const piece of pieces) {
    // The reader parses in place; the rest of the buffer contains bytes of earlier reads.
    found.after = reader.read(Buffer.concat([piece, STALE]), piece.length)
    if (typeof found.after === 'object') return found
  }
  if (found.after !== 'done') found.end = reader.end()?.problem ?? null
  found.reusable = reader.reusable
  return found
}

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`

/** `reusable`: the connection can be used again. */
const answers: readonly [name: string, wire: string, body: string, reusable: boolean][] = [
  ['a stated length', `${OK}content-length: 5\r\n\r\nhello`, 'hello', true],
  ['a length of 0', `${OK}content-length: 0\r\n\r\n`, '', true],
  ['leading zeros', `${OK}content-length: 005\r\n\r\nhello`, 'hello', true],
  ['chunks', `${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n`, 'hello', true],
  ['chunks, hexadecimal', `${CHUNKED}1A\r\n${'x'.repeat(26)}\r\n0\r\n\r\n`, 'x'.repeat(26), true],
  ['chunk extensions', `${CHUNKED}5;name="a b"; x\r\nhello\r\n0;last\r\n\r\n`, 'hello', true],
  ['trailers', `${CHUNKED}5\r\nhello\r\n0\r\nx-sum: 1\r\nx-other: 2\r\n\r\n`, 'hello', true],
  ['blanks after a size', `${CHUNKED}5 \t\r\nhello\r\n0\r\n\r\n`, 'hello', true],
  ['line ends within data', `${CHUNKED}6\r\n\r\n0\r\n\r\r\n0\r\n\r\n`, '\r\n0\r\n\r', true],
  ['until the connection ends', `${OK}\r\nhello`, 'hello', false],
  ['no reason phrase', 'HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok', 'ok', true],
  [
    'a reason phrase with blanks and Latin-1 characters',
    'HTTP/1.1 200 tr\xe8s bien\r\ncontent-length: 2\r\n\r\nok',
    'ok',
    true,
  ],
  ['a status without a body', 'HTTP/1.1 204 No Content\r\n\r\n', '', true],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok', 'ok', false],
  ['connection: close', `${OK}connection: close\r\ncontent-length: 2\r\n\r\nok`, 'ok', false],
  ['connection: close in a list', `${OK}connection: x, Close\r\ncontent-length: 2\r\n\r\nok`, 'ok', false],
  [
    'interim answers',
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nx-one: 0\r\n\r\n${OK}content-length: 1\r\n\r\na`,
    'a',
    true,
  ],
  ['blanks around a value', `${OK}x-one: \t a b \t\r\ncontent-length:0\r\n\r\n`, '', true],
]

describe('answers', () => {
  for (const [name, wire, body, reusable] of answers)
    test(name, () => {
      const bytes = latin1(wire)
      const once = read([bytes])
      assert.equal(once.body, body)
      assert.equal(once.end, null)
      assert.equal(once.reusable, reusable)
      assert.ok(once.calls <= 1, 'at most one call per read')
      const { calls: _, after: __, ...same } = once
      for (let cut = 1; cut < bytes.length; cut++) {
        const { calls, after, ...rest } = read([bytes.subarray(0, cut), bytes.subarray(cut)])
        assert.deepEqual(rest, same, `cut at ${cut}`)
      }
      const { calls, after, ...single } = read([...bytes].map((byte) => Buffer.of(byte)))
      assert.deepEqual(single, same, 'byte by byte')
    })
})

const HEADERS = `${OK}Content-Type: a/b\r\nX-One: 1\r\nx-many: a\r\nX-MANY: b\r\n`
test('headers are looked up by lower-case names, and repeated headers are joined', () => {
  const { headers } = read([latin1(`${HEADERS}content-length: 0\r\n\r\n`)])
  assert.deepEqual(headers, { 'content-type': 'a/b', 'x-one': '1', 'x-many': 'a, b', 'content-length': '0' })
})

/** Invalid and ambiguous responses: rejected by the last byte at the latest, however the bytes are split. */
const refused: readonly [name: string, wire: string][] = [
  ['another protocol', 'SSH-2.0-OpenSSH_9.9\r\n'],
  ['HTTP/2', 'HTTP/2 200 OK\r\n\r\n'],
  ['HTTP/1.2', 'HTTP/1.2 200 OK\r\n\r\n'],
  ['lower case', 'http/1.1 200 OK\r\n\r\n'],
  ['a line before', '\r\nHTTP/1.1 200 OK\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
  ['a status below 100', 'HTTP/1.1 099 OK\r\n\r\n'],
  ['two blanks before the status', 'HTTP/1.1  200 OK\r\n\r\n'],
  ['NUL in the reason', 'HTTP/1.1 200 O\0K\r\n\r\n'],
  ['a bare line feed in the head', `${OK}x-one: 1\ncontent-length: 0\r\n\r\n`],
  ['bare line feeds only', 'HTTP/1.1 200 OK\ncontent-length: 0\n\n'],
  ['a bare carriage return in a value', `${OK}x-one: 1\r2\r\n\r\n`],
  ['NUL in a value', `${OK}x-one: 1\x002\r\n\r\n`],
  ['a folded line', `${OK}x-one: 1\r\n 2\r\n\r\n`],
  ['a blank before the colon', `${OK}x-one : 1\r\n\r\n`],
  ['a blank before the name', `${OK} x-one: 1\r\n\r\n`],
  ['no colon', `${OK}x-one\r\n\r\n`],
  ['no name', `${OK}: 1\r\n\r\n`],
  ['an invalid name', `${OK}x(one): 1\r\n\r\n`],
  ['two lengths', `${OK}content-length: 3\r\ncontent-length: 4\r\n\r\n`],
  ['two equal lengths', `${OK}content-length: 3\r\ncontent-length: 3\r\n\r\n`],
  ['two lengths in one line', `${OK}content-length: 3, 3\r\n\r\n`],
  ['a length with a sign', `${OK}content-length: +3\r\n\r\n`],
  ['a negative length', `${OK}content-length: -3\r\n\r\n`],
  ['a hexadecimal length', `${OK}content-length: 0x3\r\n\r\n`],
  ['an empty length', `${OK}content-length:\r\n\r\n`],
  ['a length above 15 digits', `${OK}content-length: 99999999999999999999\r\n\r\n`],
  ['a length and chunks', `${OK}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n`],
  ['chunks and a length', `${OK}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n`],
  ['two codings', `${OK}transfer-encoding: gzip, chunked\r\n\r\n`],
  ['a coding given twice', `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`],
  ['an unknown coding', `${OK}transfer-encoding: xchunked\r\n\r\n`],
  ['an empty coding', `${OK}transfer-encoding:\r\n\r\n`],
  ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'],
  ['an upgrade', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ['interim answers only', 'HTTP/1.1 103 E\r\n\r\n'.repeat(9)],
  ['a size that is not a number', `${CHUNKED}zz\r\n`],
  ['a size with a sign', `${CHUNKED}+5\r\nhello\r\n`],
  ['a size with 0x', `${CHUNKED}0x5\r\nhello\r\n`],
  ['an empty size', `${CHUNKED}\r\nhello\r\n`],
  ['a blank before a size', `${CHUNKED} 5\r\nhello\r\n`],
  ['a size of nine digits', `${CHUNKED}000000005\r\nhello\r\n`],
  ['a size that ends with a bare line feed', `${CHUNKED}5\nhello\r\n0\r\n\r\n`],
  ['a bare carriage return in an extension', `${CHUNKED}5;a\rb\r\nhello\r\n`],
  ['an extension above 1 KiB', `${CHUNKED}5;${'x'.repeat(1100)}\r\nhello\r\n`],
  ['a chunk longer than its size', `${CHUNKED}5\r\nhello!\r\n0\r\n\r\n`],
  ['a chunk that ends with a bare line feed', `${CHUNKED}5\r\nhello\n0\r\n\r\n`],
  ['an invalid trailer', `${CHUNKED}0\r\nnonsense\r\n\r\n`],
  ['a trailer that ends with a bare line feed', `${CHUNKED}0\r\nx: 1\n\r\n`],
]
describe('refused', () => {
  for (const [name, wire] of refused)
    test(name, () => {
      const bytes = latin1(wire)
      const ways = [[bytes], [...bytes].map((byte) => Buffer.of(byte))]
      for (let cut = 1; cut < bytes.length; cut++) ways.push([bytes.subarray(0, cut), bytes.subarray(cut)])
      for (const pieces of ways) {
        const { after, body } = read(pieces)
        assert.equal(typeof after === 'object' && after?.problem, 'not_http')
        assert.ok('hello'.startsWith(body))
      }
    })
})

test('a header block or trailers above 16 KiB are rejected before their end', () => {
  const long = `x-long: ${'x'.repeat(17 * 1024)}`
  for (const wire of [`${OK}${long}`, `${CHUNKED}0\r\n${long}`, `${OK}${'a: b\r\n'.repeat(4_000)}`]) {
    const found = [[latin1(wire)], [...latin1(wire)].map((byte) => Buffer.of(byte))].map(read)
    for (const { after } of found) assert.equal(typeof after === 'object' && after?.problem, 'too_long')
  }
})

test('a connection that ends at any byte before the end of the response is reported as cut', () => {
  for (const [name, wire, , reusable] of answers) {
    if (wire.startsWith(`${OK}\r\n`)) continue
    const bytes = latin1(wire)
    for (let cut = 1; cut < bytes.length; cut++) {
      const { after, end } = read([bytes.subarray(0, cut)])
      assert.deepEqual([after, end], ['more', 'cut'], `${name}, cut at ${cut}, ${reusable}`)
    }
  }
})

test('payload before an invalid chunk of the same read is emitted', () => {
  for (const fault of ['zz\r\n', '5\nhello', '\r\n', '3\r\nabcd\r\n', '0\r\nnonsense\r\n\r\n']) {
    const { body, after } = read([latin1(`${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n${fault}`)])
    assert.equal(body, fault.startsWith('3') ? 'helloabc' : 'hello', fault)
    assert.equal(typeof after === 'object' && after?.problem, 'not_http')
  }
})

test('bytes after a response are discarded, and the connection is not reusable', () => {
  for (const wire of [`${OK}content-length: 2\r\n\r\nok`, `${CHUNKED}2\r\nok\r\n0\r\n\r\n`]) {
    const { after, body, reusable } = read([latin1(`${wire}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`)])
    assert.deepEqual([after, body, reusable], ['done', 'ok', false])
  }
})

test('the payloads of all chunks of one read are emitted in one call, and a full sink is reported', () => {
  const reader = new HttpAnswerReader({ head() {}, bytes: () => false })
  assert.equal(reader.read(latin1(`${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n`)), 'full')
  assert.equal(reader.read(latin1('0\r\n\r\n')), 'done')
  const calls: string[] = []
  reader.reset({ head() {}, bytes: (chunk) => calls.push(Buffer.from(chunk).toString()) > 0 })
  assert.equal(reader.read(latin1(`${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n1\r\n!\r\n0\r\n\r\n`)), 'done')
  assert.deepEqual(calls, ['hello!'])
})

test('the idle timeout is read from the keep-alive header', () => {
  const idle = (value: string) => {
    const reader = new HttpAnswerReader({ head() {}, bytes: () => true })
    reader.read(latin1(`${OK}keep-alive: ${value}\r\ncontent-length: 0\r\n\r\n`))
    return reader.idleTimeout
  }
  assert.equal(idle('timeout=5, max=100'), 5)
  assert.equal(idle('max=100'), undefined)
  assert.equal(idle('timeout=-1'), undefined)
})

test('a cached header block does not change how the next is parsed', () => {
  const heads = [
    'date: 1\r\nx-one: a\r\n',
    'date: 2\r\nx-one: a\r\n',
    'date: 2\r\nx-one:  b\r\n',
    'date: 2\r\nx-one: b\r\nx-many: c\r\n',
    'x-one: b\r\ndate: 2\r\nx-many: c\r\n',
    'X-One: b\r\ndate: 2\r\nx-many: c\r\n',
    'x-one: b\r\ndate: 2\r\nx-one: c\r\n',
    'date: 2\r\nx-one: b\r\nx-one: b\r\n',
    'x-one: b\r\n',
    'date: x-one: b\r\n',
    'date: 1\nx-one: a\r\n',
    'date: 1\r\n x-one: a\r\n',
    'x-many : c\r\n',
    'content-length: 0\r\n',
    '',
  ]
  const read = (cache: ReturnType<typeof emptyHeadCache>, head: string) => {
    const values: unknown[] = []
    const reader = new HttpAnswerReader(
      { head: (_, headers) => values.push(...['date', ...NAMES].map(headers)), bytes: () => true },
      cache,
    )
    return [reader.read(latin1(`${OK}${head}content-length: 0\r\n\r\n`)), ...values]
  }
  for (const before of heads)
    for (const head of heads) {
      const cache = emptyHeadCache()
      read(cache, before)
      assert.deepEqual(read(cache, head), read(emptyHeadCache(), head), `${before} then ${head}`)
    }
})

test('long header blocks are not cached', () => {
  const heads = emptyHeadCache()
  const names: (string | undefined)[] = []
  // Each has its last line at another position; a cached slice would keep its latin1 header block in memory.
  for (let count = 1_000; count > 0; count--) {
    const reader = new HttpAnswerReader(
      { head: (_, headers) => names.push(headers('x-last')), bytes: () => true },
      heads,
    )
    reader.read(latin1(`${OK}${'a:b\r\n'.repeat(count)}x-last: of ${count}\r\ncontent-length: 0\r\n\r\n`))
    assert.equal(names.at(-1), `of ${count}`)
  }
  const { lines = [] } = heads.answer ?? {}
  assert.ok(lines.length <= 100, `${lines.length} cached lines`)
})
