/**
 * SEC-14: an upstream that sends more, less or something else than one response. Smuggled data reaches no client, in
 * particular not the next one on the same connection, and no upstream header is passed on.
 */
import assert from 'node:assert/strict'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { before, describe, test } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import type { Started } from '../e2e/support/process.ts'
import { stage } from '../e2e/support/stage.ts'

const answer = (text: string): string =>
  JSON.stringify({
    id: 'chatcmpl-x',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })

const http = (body: string | Buffer, lines = '', status = '200 OK'): Buffer =>
  Buffer.concat([
    Buffer.from(
      `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\n${lines}content-length: ${Buffer.byteLength(body)}\r\n\r\n`,
      'latin1',
    ),
    Buffer.from(body),
  ])
/** The same without a content-length. */
const bare = (body: string | Buffer, lines: string, status = '200 OK'): Buffer =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 ${status}\r\ncontent-type: application/json\r\n${lines}\r\n`, 'latin1'),
    Buffer.from(body),
  ])

const fine = answer('fine')
const size = Buffer.byteLength(fine)
const second = http(answer('evil-second')).toString('latin1')
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const chunked = `${chunk(fine)}0\r\n\r\n`

const HEADERS = [
  'set-cookie: evil=1; Path=/\r\nset-cookie: evil=2\r\n',
  'location: http://evil.example/\r\nrefresh: 0; url=http://evil.example/\r\n',
  'alt-svc: h3="evil.example:443"; ma=86400\r\nstrict-transport-security: max-age=evil\r\n',
  'access-control-allow-origin: *\r\naccess-control-allow-credentials: true\r\nclear-site-data: "evil"\r\n',
  'content-disposition: attachment; filename=evil.html\r\ncontent-security-policy: evil\r\nlink: <evil>\r\n',
  'x-headgate-provider: evil\r\nx-headgate-trail: evil\r\nx-request-id: evil\r\nx-should-retry: evil\r\nvia: evil\r\n',
  'connection: keep-alive, x-evil\r\nx-evil: evil\r\nkeep-alive: timeout=evil\r\ntrailer: evil\r\nproxy-authenticate: evil\r\n',
  'www-authenticate: Basic realm="evil"\r\nserver: evil\r\nx-powered-by: evil\r\nx-ratelimit-remaining-requests: 1\r\n',
  'x-evil: a\x01evil\r\n',
  `${'x-evil: evil\r\n'.repeat(500)}`,
] as const

/** The bytes sent for a request, and whether the connection then ends. */
const ATTACKS: readonly (readonly [string, Buffer | string, 'stays' | 'ends'])[] = [
  ...HEADERS.map((lines) => [lines.slice(0, 60), http(fine, lines), 'stays'] as const),
  ['a whole answer after the answer', Buffer.concat([http(fine), Buffer.from(second)]), 'stays'],
  ['many answers after the answer', Buffer.concat([http(fine), Buffer.from(second.repeat(20))]), 'stays'],
  [
    'an answer after connection: close',
    Buffer.concat([http(fine, 'connection: close\r\n'), Buffer.from(second)]),
    'stays',
  ],
  [
    'an answer after a chunked one',
    Buffer.concat([bare(chunked, 'transfer-encoding: chunked\r\n'), Buffer.from(second)]),
    'stays',
  ],
  [
    'an answer in a trailer',
    bare(`${chunk(fine)}0\r\nx-evil: evil\r\n\r\n${second}`, 'transfer-encoding: chunked\r\n'),
    'stays',
  ],
  [
    'two lengths, the shorter first',
    bare(fine + second, `content-length: ${size}\r\ncontent-length: ${size + second.length}\r\n`),
    'stays',
  ],
  [
    'two lengths, the longer first',
    bare(fine + second, `content-length: ${size + second.length}\r\ncontent-length: ${size}\r\n`),
    'stays',
  ],
  ['a list of lengths', bare(fine + second, `content-length: ${size}, ${size + second.length}\r\n`), 'stays'],
  ['one length twice', bare(fine + second, `content-length: ${size}\r\ncontent-length: ${size}\r\n`), 'stays'],
  ['a length with a sign', bare(fine + second, `content-length: +${size}\r\n`), 'stays'],
  ['a negative length', bare(fine + second, `content-length: -${size}\r\n`), 'stays'],
  ['a length in hexadecimal', bare(fine + second, `content-length: 0x${size.toString(16)}\r\n`), 'stays'],
  ['a length beyond 2^64', bare(fine + second, `content-length: 18446744073709551${size}\r\n`), 'ends'],
  ['a length and chunks', bare(chunked + second, `content-length: ${size}\r\ntransfer-encoding: chunked\r\n`), 'stays'],
  ['chunks and a length', bare(chunked + second, `transfer-encoding: chunked\r\ncontent-length: 5\r\n`), 'stays'],
  ['chunked twice', bare(chunked + second, 'transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n'), 'stays'],
  ['chunks within another encoding', bare(chunked + second, 'transfer-encoding: chunked, identity\r\n'), 'ends'],
  ['an unknown encoding of the transfer', bare(chunked + second, 'transfer-encoding: xchunked\r\n'), 'ends'],
  ['a vertical tab before chunked', bare(chunked + second, 'transfer-encoding: \x0bchunked\r\n'), 'ends'],
  ['a space before the colon', bare(chunked + second, 'transfer-encoding : chunked\r\n'), 'ends'],
  ['a folded header', bare(fine + second, `x-a: b\r\n content-length: 5\r\ncontent-length: ${size}\r\n`), 'stays'],
  [
    'a chunk size beyond 2^64',
    bare(`1${'0'.repeat(16)}${size.toString(16)}\r\n${fine}\r\n0\r\n\r\n${second}`, 'transfer-encoding: chunked\r\n'),
    'ends',
  ],
  ['a chunk size with a sign', bare(`+${chunked}${second}`, 'transfer-encoding: chunked\r\n'), 'ends'],
  ['a chunk size with 0x', bare(`0x${chunked}${second}`, 'transfer-encoding: chunked\r\n'), 'ends'],
  [
    'a chunk longer than its size',
    bare(`5\r\n${fine}\r\n0\r\n\r\n${second}`, 'transfer-encoding: chunked\r\n'),
    'ends',
  ],
  [
    'a line feed in a chunk extension',
    bare(`${size.toString(16)};\n0\r\n\r\n${second}\r\n${fine}\r\n0\r\n\r\n`, 'transfer-encoding: chunked\r\n'),
    'ends',
  ],
  [
    'an endless chunk extension',
    bare(`${size.toString(16)};${'x'.repeat(100_000)}`, 'transfer-encoding: chunked\r\n'),
    'ends',
  ],
  [
    'an endless trailer',
    bare(`${chunk(fine)}0\r\n${'x-evil: evil\r\n'.repeat(20_000)}`, 'transfer-encoding: chunked\r\n'),
    'ends',
  ],
  ['a body with a 204', bare(fine + second, `content-length: ${size}\r\n`, '204 No Content'), 'stays'],
  ['a body with a 304', bare(fine + second, `content-length: ${size}\r\n`, '304 Not Modified'), 'stays'],
  ['endless interim responses', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(10_000), 'stays'],
  [
    'interim responses with headers',
    `HTTP/1.1 103 Early Hints\r\nset-cookie: evil=1\r\nlink: <evil>\r\n\r\n${http(fine).toString('latin1')}`,
    'stays',
  ],
  [
    'an unrequested upgrade',
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: evil\r\nconnection: upgrade\r\n\r\n${second}`,
    'stays',
  ],
  ['HTTP/0.9', fine, 'ends'],
  [
    'HTTP/1.0 followed by more bytes',
    `HTTP/1.0 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${size}\r\n\r\n${fine}${second}`,
    'stays',
  ],
  ['HTTP/2.0', `HTTP/2.0 200 OK\r\ncontent-length: ${size}\r\n\r\n${fine}${second}`, 'ends'],
  ['a status of two digits', bare(fine, `content-length: ${size}\r\n`, '20 OK'), 'ends'],
  ['a status of four digits', bare(fine, `content-length: ${size}\r\n`, '2000 OK'), 'ends'],
  ['status 999', bare(fine, `content-length: ${size}\r\n`, '999 evil'), 'stays'],
  ['status 000', bare(fine, `content-length: ${size}\r\n`, '000 evil'), 'ends'],
  ['a reason with control characters', bare(fine, `content-length: ${size}\r\n`, '200 evil\x07\x1b[31m'), 'ends'],
  ['a NUL in a header', http(fine, 'x-evil: a\0b\r\n'), 'ends'],
  ['a carriage return in a header', http(fine, 'x-evil: a\rset-cookie: evil=1\r\n'), 'ends'],
  ['a lone line feed', http(fine, 'x-evil: a\nset-cookie: evil=1\r\n'), 'ends'],
  ['an endless header block', `HTTP/1.1 200 OK\r\n${'x-evil: evil\r\n'.repeat(100_000)}`, 'ends'],
  ['an endless header', `HTTP/1.1 200 OK\r\nx-evil: ${'e'.repeat(1_000_000)}`, 'ends'],
  ['declared as gzip and is not', http(fine, 'content-encoding: gzip\r\n'), 'stays'],
  ['gzip', http(gzipSync(fine), 'content-encoding: gzip\r\n'), 'stays'],
  ['gzip within gzip', http(gzipSync(gzipSync(fine)), 'content-encoding: gzip, gzip\r\n'), 'stays'],
  [
    'a chain of forty encodings',
    http(gzipSync(fine), `content-encoding: ${Array(40).fill('gzip').join(', ')}\r\n`),
    'stays',
  ],
  [
    'gzip followed by a second stream',
    http(Buffer.concat([gzipSync(fine), gzipSync(answer('evil'))]), 'content-encoding: gzip\r\n'),
    'stays',
  ],
  ['a bomb in gzip', http(gzipSync(Buffer.alloc(200_000_000)), 'content-encoding: gzip\r\n'), 'stays'],
  ['a bomb in brotli', http(brotliCompressSync(Buffer.alloc(200_000_000)), 'content-encoding: br\r\n'), 'stays'],
  ['an immediate end', '', 'ends'],
  ['a truncated header block', 'HTTP/1.1 200 OK\r\ncontent-len', 'ends'],
]

/** The headers that a gateway response may have. */
const OURS = new Set([
  'content-type',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'date',
  'cache-control',
  'x-accel-buffering',
  'x-request-id',
  'x-headgate-provider',
  'x-headgate-model',
  'x-headgate-attempts',
  'x-headgate-trail',
  'x-headgate-dropped',
  'link',
  'x-should-retry',
  'retry-after',
])

/** An upstream that writes raw bytes. The model name selects the attack; any other model gets a valid answer. */
const startHostile = async () => {
  const sockets = new Set<Socket>()
  let honest = 0
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    let held = ''
    socket.setEncoding('latin1').on('data', (text: string) => {
      held += text
      for (;;) {
        const end = held.indexOf('\r\n\r\n')
        if (end === -1) return
        const length = Number(/\r\ncontent-length: *(\d+)/i.exec(held.slice(0, end))?.[1] ?? 0)
        if (held.length < end + 4 + length) return
        const body = held.slice(end + 4, end + 4 + length)
        held = held.slice(end + 4 + length)
        const [, attack] = /"model":"attack-(\d+)"/.exec(body) ?? []
        const [, prompt] = /"content":"(honest-[a-z0-9-]+)"/.exec(body) ?? []
        const act = attack === undefined ? undefined : ATTACKS[Number(attack)]
        if (act) {
          const [, bytes, then] = act
          socket.write(bytes)
          if (then === 'ends') socket.end()
        } else if (prompt !== undefined) {
          honest++
          socket.write(http(answer(`answer to ${prompt}`)))
        } else socket.write(http('{"error":{"message":"no list"}}', '', '404 Not Found'))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // Its address is that of a TCP port.
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    honest: () => honest,
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise<void>((resolve) => void server.close(() => resolve()))
    },
  }
}

describe('hostile upstream', { concurrency: 1 }, () => {
  const on = stage()
  let upstream: Awaited<ReturnType<typeof startHostile>>
  let gateway: Started
  let request = 0

  before(async () => {
    upstream = await startHostile()
    on.keep(() => upstream.close())
    gateway = await on.gateway(
      {
        fallback: 'none',
        circuit: { whenAllOpen: 'try', consecutiveFailures: 0, minRequests: 1_000_000 },
        timeout: { idle: 3_000, request: 10_000 },
        retry: { maxAttempts: 1 },
        providers: {
          hostile: { baseUrl: `${upstream.url}/v1`, keys: ['sk-hostile-0123456789abcdef'], styles: ['chat'] },
        },
      },
      { LOG_LEVEL: 'debug' },
    )
  })

  const ask = async (model: string, content: string, stream = false) => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: `hostile/${model}`, stream, messages: [{ role: 'user', content }] }),
      signal: AbortSignal.timeout(120_000),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  const askHonestly = async (name: string) => {
    request++
    const { status, text } = await ask('m', name)
    assert.equal(status, 200, text)
    assert.equal(JSON.parse(text).choices[0].message.content, `answer to ${name}`)
  }

  for (const [at, [name]] of ATTACKS.entries())
    test(`hostile upstream: ${JSON.stringify(name)}`, async () => {
      for (const stream of [false, true]) {
        const [{ status, headers, text }] = await Promise.all([
          ask(`attack-${at}`, 'x', stream),
          askHonestly(`honest-${at}-beside-${stream}`),
        ])
        assert.ok(status === 200 || status >= 400, String(status))
        assert.deepEqual(
          [...headers.keys()].filter((one) => !OURS.has(one)),
          [],
        )
        // An ID of the gateway is random, so it may contain the word.
        const id = headers.get('x-request-id') ?? ''
        assert.match(id, /^req_[a-z]{20}$/)
        assert.doesNotMatch(JSON.stringify([...headers]).replaceAll(id, ''), /evil/)
        assert.doesNotMatch(text.replaceAll(id, ''), /evil/, text.slice(0, 500))
        if (status === 200 && !stream) assert.equal(JSON.parse(text).choices[0].message.content, 'fine')
        for (const which of [1, 2, 3]) await askHonestly(`honest-${at}-${stream}-${which}`)
      }
    })

  test('hostile upstream: every regular request was sent once, and the process is healthy', async () => {
    assert.equal(upstream.honest(), request)
    assert.equal(gateway.child.exitCode, null)
    await gateway.logged()
    assert.doesNotMatch(gateway.output(), /"event":"error"|evil=/)
    assert.ok(!gateway.output().includes('\u001b'))
  })
})
