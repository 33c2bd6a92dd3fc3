/** The HTTP/1.1 response parser: compared with itself on divided input, and for a sample with undici over a socket. */
import assert from 'node:assert/strict'
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import { Client } from 'undici'
import { HttpAnswerReader, type Progress } from '../../../src/transport/client/http-answer-reader.ts'
import { changed, slicings, type Target } from '../engine.ts'

type ReadAnswers = {
  readonly heads: { readonly status: number; readonly type: string | undefined }[]
  body: string
  /** `whole`, or the problem. */
  end: string
  keeps: boolean
}

const STALE = Buffer.from('\r\n5\r\nstale\r\n0\r\n\r\n')

const read = (pieces: readonly Buffer[]): ReadAnswers => {
  const found: ReadAnswers = { heads: [], body: '', end: '', keeps: false }
  const reader = new HttpAnswerReader({
    head: (status, headers) => void found.heads.push({ status, type: headers('content-type') }),
    bytes(chunk) {
      assert.ok(chunk.length > 0)
      found.body += Buffer.from(chunk).toString('latin1')
      return true
    },
  })
  let after: Progress = 'more'
  for (const piece of pieces) {
    // It parses in place; the rest of the buffer contains data of earlier reads.
    after = reader.read(Buffer.concat([piece, STALE]), piece.length)
    if (typeof after === 'object') break
  }
  found.end = typeof after === 'object' ? after.problem : (reader.end()?.problem ?? 'whole')
  found.keeps = reader.reusable
  return found
}

/** The response as undici parses it; null if undici rejects it. */
const asUndici = async (input: Buffer): Promise<{ readonly status: number; readonly body: string } | null> => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(input))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = new Client(`http://127.0.0.1:${port}`, { headersTimeout: 5_000, bodyTimeout: 5_000, pipelining: 0 })
  try {
    const { statusCode, body } = await client.request({ method: 'GET', path: '/' })
    const bytes = Buffer.from(await body.arrayBuffer())
    return { status: statusCode, body: bytes.toString('latin1') }
  } catch {
    // Rejected.
    return null
  } finally {
    await client.destroy()
    server.close()
  }
}

const OK = 'HTTP/1.1 200 OK\r\n'
const SEEDS = [
  `${OK}content-type: application/json\r\ncontent-length: 5\r\n\r\nhello`,
  `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n\r\n`,
  `${OK}transfer-encoding: chunked\r\n\r\n1a\r\n${'x'.repeat(26)}\r\n0\r\nx-sum: 1\r\n\r\n`,
  `${OK}\r\nuntil it closes`,
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ncontent-length: 2\r\n\r\n{}',
  'HTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.0 200 OK\r\nconnection: close\r\n\r\nold',
  'HTTP/1.1 500\r\ncontent-length: 0\r\nkeep-alive: timeout=5\r\n\r\n',
]

const header = fc.constantFrom(
  'content-length: 3',
  'content-length: 03',
  'Content-Length: +3',
  'content-length: 3, 3',
  'transfer-encoding: chunked',
  'transfer-encoding: gzip, chunked',
  'transfer-encoding:chunked',
  'x: y',
  'x : y',
  ' folded',
  'x:',
  ': x',
  'connection: close',
  'content-type: text/event-stream',
)
const head = fc.tuple(
  fc.constantFrom(
    'HTTP/1.1 200 OK',
    'HTTP/1.1 200',
    'HTTP/1.1 99 X',
    'HTTP/1.1  200 OK',
    'HTTP/2 200',
    'http/1.1 200 OK',
    'HTTP/1.1 304 X',
    'HTTP/1.0 200 OK',
  ),
  fc.array(header, { maxLength: 4 }),
  fc.constantFrom('\r\n', '\r\n', '\r\n', '\n'),
  fc.constantFrom(
    '',
    'abc',
    '3\r\nabc\r\n0\r\n\r\n',
    '3\r\nabc\r\n0\r\n',
    '3\nabc\n0\n\n',
    '3 \r\nabc\r\n0\r\n\r\n',
    '0x3\r\nabc\r\n0\r\n\r\n',
    '-1\r\n',
    'ffffffff\r\nabc',
  ),
)
const response = head.map(([first, headers, eol, body]) => Buffer.from([first, ...headers, '', body].join(eol)))

let sampled = 0
/** One case in this many is sent over a socket. */
const SAMPLE = 25

export const ANSWER_READER: Target = {
  name: 'answer-reader',
  property: 'parses divided input alike and never throws; undici parses what it accepts to the same response',
  seeds: SEEDS,
  generated: fc.oneof(response, changed(SEEDS)),
  async check(input) {
    const whole = read([input])
    assert.ok(whole.heads.length <= 1, 'more than one head')
    for (const pieces of slicings(input)) {
      const cut = read(pieces)
      // Of an invalid response, any part before the fault may have been reported.
      if (whole.end === 'whole' || whole.end === 'cut') assert.deepEqual(cut, whole, `${pieces.length} pieces`)
      else assert.equal(cut.end, whole.end, `${pieces.length} pieces`)
    }
    const [answer] = whole.heads
    if (sampled++ % SAMPLE !== 0 || whole.end !== 'whole' || !answer) return
    const theirs = await asUndici(input)
    if (theirs) assert.deepEqual(theirs, { status: answer.status, body: whole.body })
  },
}
