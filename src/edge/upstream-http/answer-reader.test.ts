import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { AnswerReader, type Progress } from './answer-reader.ts'
import { noHeads } from './heads.ts'

type Read = {
  status?: number
  readonly headers: Record<string, string | undefined>
  body: string
  /** Calls of `bytes`. */
  calls: number
  after: Progress | null
  /** What the end of the connection then means. */
  end: string | null
  keeps: boolean
}

const NAMES = ['content-type', 'x-one', 'x-many', 'content-length']

const STALE = Buffer.from('\r\n5\r\nstale\r\n0\r\n\r\n')

const read = (pieces: readonly Buffer[]): Read => {
  const found: Read = { headers: {}, body: '', calls: 0, after: null, end: null, keeps: false }
  const reader = new AnswerReader({
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
    // The reader works in the buffer it is given, and what else stands in it is of earlier reads.
    found.after = reader.read(Buffer.concat([piece, STALE]), piece.length)
    if (typeof found.after === 'object') return found
  }
  if (found.after !== 'done') found.end = reader.end()?.problem ?? null
  found.keeps = reader.keeps
  return found
}

const whole = (text: string): Buffer => Buffer.from(text, 'latin1')

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`

/** `keeps`: the connection can be used again. */
const answers: readonly [name: string, wire: string, body: string, keeps: boolean][] = [
  ['a stated length', `${OK}content-length: 5\r\n\r\nhello`, 'hello', true],
  ['a stated length of nothing', `${OK}content-length: 0\r\n\r\n`, '', true],
  ['leading zeros', `${OK}content-length: 005\r\n\r\nhello`, 'hello', true],
  ['chunks', `${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n`, 'hello', true],
  ['chunks, hexadecimal', `${CHUNKED}1A\r\n${'x'.repeat(26)}\r\n0\r\n\r\n`, 'x'.repeat(26), true],
  ['chunk extensions', `${CHUNKED}5;name="a b"; x\r\nhello\r\n0;last\r\n\r\n`, 'hello', true],
  ['trailers', `${CHUNKED}5\r\nhello\r\n0\r\nx-sum: 1\r\nx-other: 2\r\n\r\n`, 'hello', true],
  ['blanks behind a size', `${CHUNKED}5 \t\r\nhello\r\n0\r\n\r\n`, 'hello', true],
  ['line ends within data', `${CHUNKED}6\r\n\r\n0\r\n\r\r\n0\r\n\r\n`, '\r\n0\r\n\r', true],
  ['until the connection ends', `${OK}\r\nhello`, 'hello', false],
  ['no reason phrase', 'HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok', 'ok', true],
  [
    'a reason with blanks and letters of Latin-1',
    'HTTP/1.1 200 tr\xe8s bien\r\ncontent-length: 2\r\n\r\nok',
    'ok',
    true,
  ],
  ['no body by its status', 'HTTP/1.1 204 No Content\r\n\r\n', '', true],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok', 'ok', false],
  ['that it closes', `${OK}connection: close\r\ncontent-length: 2\r\n\r\nok`, 'ok', false],
  ['that it closes, among others', `${OK}connection: x, Close\r\ncontent-length: 2\r\n\r\nok`, 'ok', false],
  [
    'interim answers',
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nx-one: 0\r\n\r\n${OK}content-length: 1\r\n\r\na`,
    'a',
    true,
  ],
  ['blanks around a value', `${OK}x-one: \t a b \t\r\ncontent-length:0\r\n\r\n`, '', true],
]

describe('answers', () => {
  for (const [name, wire, body, keeps] of answers)
    test(name, () => {
      const bytes = whole(wire)
      const once = read([bytes])
      assert.equal(once.body, body)
      assert.equal(once.end, null)
      assert.equal(once.keeps, keeps)
      assert.ok(once.calls <= 1, 'one read is told in one call')
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
test('headers are found by their names in small letters, several of a name together', () => {
  const { headers } = read([whole(`${HEADERS}content-length: 0\r\n\r\n`)])
  assert.deepEqual(headers, { 'content-type': 'a/b', 'x-one': '1', 'x-many': 'a, b', 'content-length': '0' })
})

/** What no two readers may understand differently, and what is no answer at all: refused at the last byte at the latest, however it is cut. */
const refused: readonly [name: string, wire: string][] = [
  ['another protocol', 'SSH-2.0-OpenSSH_9.9\r\n'],
  ['HTTP/2', 'HTTP/2 200 OK\r\n\r\n'],
  ['HTTP/1.2', 'HTTP/1.2 200 OK\r\n\r\n'],
  ['small letters', 'http/1.1 200 OK\r\n\r\n'],
  ['a line before', '\r\nHTTP/1.1 200 OK\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
  ['a status that is none', 'HTTP/1.1 099 OK\r\n\r\n'],
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
  ['a name that is none', `${OK}x(one): 1\r\n\r\n`],
  ['two lengths', `${OK}content-length: 3\r\ncontent-length: 4\r\n\r\n`],
  ['two equal lengths', `${OK}content-length: 3\r\ncontent-length: 3\r\n\r\n`],
  ['two lengths in one line', `${OK}content-length: 3, 3\r\n\r\n`],
  ['a length with a sign', `${OK}content-length: +3\r\n\r\n`],
  ['a negative length', `${OK}content-length: -3\r\n\r\n`],
  ['a hexadecimal length', `${OK}content-length: 0x3\r\n\r\n`],
  ['an empty length', `${OK}content-length:\r\n\r\n`],
  ['a length beyond numbers', `${OK}content-length: 99999999999999999999\r\n\r\n`],
  ['a length and chunks', `${OK}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n`],
  ['chunks and a length', `${OK}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n`],
  ['two codings', `${OK}transfer-encoding: gzip, chunked\r\n\r\n`],
  ['a coding given twice', `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`],
  ['an unknown coding', `${OK}transfer-encoding: xchunked\r\n\r\n`],
  ['an empty coding', `${OK}transfer-encoding:\r\n\r\n`],
  ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'],
  ['an upgrade', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ['interim answers only', 'HTTP/1.1 103 E\r\n\r\n'.repeat(9)],
  ['a size that is no number', `${CHUNKED}zz\r\n`],
  ['a size with a sign', `${CHUNKED}+5\r\nhello\r\n`],
  ['a size with 0x', `${CHUNKED}0x5\r\nhello\r\n`],
  ['an empty size', `${CHUNKED}\r\nhello\r\n`],
  ['a blank before a size', `${CHUNKED} 5\r\nhello\r\n`],
  ['a size of nine digits', `${CHUNKED}000000005\r\nhello\r\n`],
  ['a size that ends with a bare line feed', `${CHUNKED}5\nhello\r\n0\r\n\r\n`],
  ['a bare carriage return in an extension', `${CHUNKED}5;a\rb\r\nhello\r\n`],
  ['an extension longer than anybody needs', `${CHUNKED}5;${'x'.repeat(1100)}\r\nhello\r\n`],
  ['a chunk longer than it said', `${CHUNKED}5\r\nhello!\r\n0\r\n\r\n`],
  ['a chunk that ends with a bare line feed', `${CHUNKED}5\r\nhello\n0\r\n\r\n`],
  ['a trailer that is none', `${CHUNKED}0\r\nnonsense\r\n\r\n`],
  ['a trailer that ends with a bare line feed', `${CHUNKED}0\r\nx: 1\n\r\n`],
]
describe('refused', () => {
  for (const [name, wire] of refused)
    test(name, () => {
      const bytes = whole(wire)
      const ways = [[bytes], [...bytes].map((byte) => Buffer.of(byte))]
      for (let cut = 1; cut < bytes.length; cut++) ways.push([bytes.subarray(0, cut), bytes.subarray(cut)])
      for (const pieces of ways) {
        const { after, body } = read(pieces)
        assert.equal(typeof after === 'object' && after?.problem, 'not_http')
        assert.ok('hello'.startsWith(body))
      }
    })
})

test('a head or trailers beyond 16 KiB are not waited for', () => {
  const long = `x-long: ${'x'.repeat(17 * 1024)}`
  for (const wire of [`${OK}${long}`, `${CHUNKED}0\r\n${long}`, `${OK}${'a: b\r\n'.repeat(4_000)}`]) {
    const found = [[whole(wire)], [...whole(wire)].map((byte) => Buffer.of(byte))].map(read)
    for (const { after } of found) assert.equal(typeof after === 'object' && after?.problem, 'too_long')
  }
})

/** Every place at which a connection can end before the answer does. */
test('an answer whose connection ends early is cut, wherever it ends', () => {
  for (const [name, wire, , keeps] of answers) {
    if (wire.startsWith(`${OK}\r\n`)) continue
    const bytes = whole(wire)
    for (let cut = 1; cut < bytes.length; cut++) {
      const { after, end } = read([bytes.subarray(0, cut)])
      assert.deepEqual([after, end], ['more', 'cut'], `${name}, cut at ${cut}, ${keeps}`)
    }
  }
})

test('what came before a fault in the same read is told', () => {
  for (const fault of ['zz\r\n', '5\nhello', '\r\n', '3\r\nabcd\r\n', '0\r\nnonsense\r\n\r\n']) {
    const { body, after } = read([whole(`${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n${fault}`)])
    assert.equal(body, fault.startsWith('3') ? 'helloabc' : 'hello', fault)
    assert.equal(typeof after === 'object' && after?.problem, 'not_http')
  }
})

test('what stands behind an answer is dropped, and the connection is not used again', () => {
  for (const wire of [`${OK}content-length: 2\r\n\r\nok`, `${CHUNKED}2\r\nok\r\n0\r\n\r\n`]) {
    const { after, body, keeps } = read([whole(`${wire}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`)])
    assert.deepEqual([after, body, keeps], ['done', 'ok', false])
  }
})

test('the payloads of all chunks of one read are told in one call, and a full sink is heard', () => {
  const reader = new AnswerReader({ head() {}, bytes: () => false })
  assert.equal(reader.push(whole(`${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n`)), 'full')
  assert.equal(reader.push(whole('0\r\n\r\n')), 'done')
  const calls: string[] = []
  reader.again({ head() {}, bytes: (chunk) => calls.push(Buffer.from(chunk).toString()) > 0 })
  assert.equal(reader.push(whole(`${CHUNKED}2\r\nhe\r\n3\r\nllo\r\n1\r\n!\r\n0\r\n\r\n`)), 'done')
  assert.deepEqual(calls, ['hello!'])
})

test('how long the server keeps an idle connection', () => {
  const idle = (value: string) => {
    const reader = new AnswerReader({ head() {}, bytes: () => true })
    reader.push(whole(`${OK}keep-alive: ${value}\r\ncontent-length: 0\r\n\r\n`))
    return reader.idle
  }
  assert.equal(idle('timeout=5, max=100'), 5)
  assert.equal(idle('max=100'), undefined)
  assert.equal(idle('timeout=-1'), undefined)
})

test('an answer reads the same whichever came before it', () => {
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
  const read = (known: ReturnType<typeof noHeads>, head: string) => {
    const told: unknown[] = []
    const reader = new AnswerReader(
      { head: (_, headers) => told.push(...['date', ...NAMES].map(headers)), bytes: () => true },
      known,
    )
    return [reader.push(whole(`${OK}${head}content-length: 0\r\n\r\n`)), ...told]
  }
  for (const before of heads)
    for (const head of heads) {
      const known = noHeads()
      read(known, before)
      assert.deepEqual(read(known, head), read(noHeads(), head), `${before} then ${head}`)
    }
})

test('of heads with a thousand lines what is kept for the next one is little', () => {
  const heads = noHeads()
  const names: (string | undefined)[] = []
  // Each has its own line at another place: what is kept of a line keeps all of its head.
  for (let count = 1_000; count > 0; count--) {
    const reader = new AnswerReader({ head: (_, headers) => names.push(headers('x-last')), bytes: () => true }, heads)
    reader.push(whole(`${OK}${'a:b\r\n'.repeat(count)}x-last: of ${count}\r\ncontent-length: 0\r\n\r\n`))
    assert.equal(names.at(-1), `of ${count}`)
  }
  const { lines = [] } = heads.answer ?? {}
  assert.ok(lines.length <= 100, `${lines.length} lines are kept`)
})
