/**
 * SEC-13: requests that two parsers may split differently, sent directly and through proxies that share pooled
 * connections among clients. Each client gets the answer to its own request, none gets another's, and the upstream
 * receives exactly the answered requests.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Started } from '../e2e/support/process.ts'
import { callsOf, rawClient, rawRequest, sleep, stage } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { type Upstream, until } from '../support/upstream.ts'
import { FRONTS, startFront } from './support/fronts.ts'

const PATH = '/v1/chat/completions'
const body = (text: string) => JSON.stringify({ model: 'good/m', messages: [{ role: 'user', content: text }] })
const HIDDEN = 'smuggled-in'
const OPEN = 'sent-openly'
const JSON_TYPE = { 'content-type': 'application/json' }
/** A complete request that no parser may see as one. */
const hidden = rawRequest(PATH, body(HIDDEN), JSON_TYPE)
const open = body(OPEN)

const head = (lines: string, start = `POST ${PATH} HTTP/1.1`) =>
  `${start}\r\nHost: localhost\r\nContent-Type: application/json\r\n${lines}\r\n\r\n`
const size = (text: string) => Buffer.byteLength(text)
const hex = (text: string) => size(text).toString(16)
const chunk = (text: string, extension = '') => `${hex(text)}${extension}\r\n${text}\r\n`
const chunked = `${chunk(open)}0\r\n\r\n`
/** For a parser of chunks the body ends at once; for one that counts bytes it contains the hidden request. */
const early = `0\r\n\r\n${hidden}`

const OBFUSCATED = [
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding:\tchunked',
  'Transfer-Encoding: \x0bchunked',
  'Transfer-Encoding: \x00chunked',
  'Transfer-Encoding: chunked\x00',
  'Transfer-Encoding: "chunked"',
  'Transfer-Encoding: chunked;q=1',
  'Transfer-Encoding:\r\n chunked',
  'Transfer-Encoding\r\n: chunked',
  ' Transfer-Encoding: chunked',
  'X: y\nTransfer-Encoding: chunked',
  'X: y\rTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
  'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding: identity, chunked',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: CHUNKED',
  'Transfer_Encoding: chunked',
  'Transfer-Encoding:',
  'Transfer-Encoding: c\u0125unked',
  'Content-Encoding: chunked',
] as const

const ATTACKS: readonly (readonly [string, string])[] = [
  ['a length and chunks', head(`Content-Length: ${size(early)}\r\nTransfer-Encoding: chunked`) + early],
  ['chunks and a length', head(`Transfer-Encoding: chunked\r\nContent-Length: ${size(early)}`) + early],
  [
    'chunks within a length that is too short',
    `${head(`Content-Length: 4\r\nTransfer-Encoding: chunked`) + chunk(hidden)}0\r\n\r\n`,
  ],
  ...OBFUSCATED.map(
    (line) => [JSON.stringify(line), head(`Content-Length: ${size(early)}\r\n${line}`) + early] as const,
  ),
  ...OBFUSCATED.map((line) => [`${JSON.stringify(line)} alone`, head(line) + early] as const),
  ['two lengths', head(`Content-Length: ${size(open)}\r\nContent-Length: ${size(open + hidden)}`) + open + hidden],
  [
    'two lengths, the longer first',
    head(`Content-Length: ${size(open + hidden)}\r\nContent-Length: ${size(open)}`) + open + hidden,
  ],
  ['one length twice', head(`Content-Length: ${size(open)}\r\nContent-Length: ${size(open)}`) + open + hidden],
  ['a list of lengths', head(`Content-Length: ${size(open)}, ${size(open)}`) + open + hidden],
  ['a length with a sign', head(`Content-Length: +${size(open)}`) + open + hidden],
  ['a negative length', head(`Content-Length: -${size(open)}`) + open + hidden],
  ['a length in hexadecimal', head(`Content-Length: 0x${hex(open)}`) + open + hidden],
  ['a length in octal', head(`Content-Length: 0${size(open)}`) + open + hidden],
  [
    'a length with a space in it',
    head(`Content-Length: ${String(size(open)).slice(0, 1)} ${String(size(open)).slice(1)}`) + open + hidden,
  ],
  ['a length beyond 2^64', head(`Content-Length: 18446744073709551${size(open)}`) + open + hidden],
  ['a length with a NUL', head(`Content-Length: ${size(open)}\0`) + open + hidden],
  ['a space before the colon', head(`Content-Length : ${size(open)}`) + open + hidden],
  ['a length on a folded line', head(`X: y\r\n Content-Length: ${size(open)}`) + open + hidden],
  ['a length after a lone line feed', head(`X: y\nContent-Length: ${size(open)}`) + open + hidden],
  ['no length', head('X: y') + open + hidden],
  ['lone line feeds', (head(`Content-Length: ${size(open)}`) + open + hidden).replaceAll('\r\n', '\n')],
  [
    'a chunk size beyond 2^64',
    `${head('Transfer-Encoding: chunked')}1${'0'.repeat(16)}${hex(open)}\r\n${open}\r\n0\r\n\r\n${hidden}`,
  ],
  ['a chunk size with 0x', `${head('Transfer-Encoding: chunked')}0x${chunked}${hidden}`],
  ['a chunk size with a sign', `${head('Transfer-Encoding: chunked')}+${chunked}${hidden}`],
  ['a negative chunk size', `${head('Transfer-Encoding: chunked')}-1\r\n${chunked}${hidden}`],
  ['a chunk size after a space', `${head('Transfer-Encoding: chunked')} ${chunked}${hidden}`],
  [
    'a chunk longer than its size',
    `${head('Transfer-Encoding: chunked')}${hex(open)}\r\n${open}${hidden}\r\n0\r\n\r\n`,
  ],
  ['a chunk ended by a line feed', `${head('Transfer-Encoding: chunked')}${hex(open)}\n${open}\n0\n\n${hidden}`],
  [
    'a line feed in a chunk extension',
    `${head('Transfer-Encoding: chunked')}${chunk(open, `;x\n0\r\n\r\n${hidden}`)}0\r\n\r\n`,
  ],
  [
    'a carriage return in a chunk extension',
    `${head('Transfer-Encoding: chunked')}${chunk(open, ';x\rxx')}0\r\n\r\n${hidden}`,
  ],
  [
    'a huge chunk extension',
    `${head('Transfer-Encoding: chunked')}${chunk(open, `;${'x'.repeat(20_000)}`)}0\r\n\r\n${hidden}`,
  ],
  ['a length in the trailer', `${head('Transfer-Encoding: chunked')}${chunk(open)}0\r\nContent-Length: 9999\r\n\r\n`],
  ['chunks in HTTP/1.0', head('Transfer-Encoding: chunked', `POST ${PATH} HTTP/1.0`) + early],
  ['a GET with a body', head(`Content-Length: ${size(hidden)}`, 'GET /health HTTP/1.1') + hidden],
  ['a HEAD with a body', head(`Content-Length: ${size(hidden)}`, 'HEAD /health HTTP/1.1') + hidden],
  ['a GET whose body is a request, of no length', `${head('X: y', 'GET /health HTTP/1.1').trimEnd()}\r\nX: ${hidden}`],
  ['an unmet expectation', head(`Expect: 100-continue\r\nContent-Length: ${size(hidden)}`) + hidden],
  ['an unknown expectation', head(`Expect: x\r\nContent-Length: ${size(hidden)}`) + hidden],
  [
    'an offer of h2c',
    head(
      `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: 0`,
    ) + hidden,
  ],
  [
    'a WebSocket upgrade with an unknown version',
    head(
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      'GET /v1/responses HTTP/1.1',
    ) + hidden,
  ],
  ['HTTP/0.9', `GET /health\r\n\r\n${hidden}`],
  ['HTTP/2 without negotiation', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`],
  ['HTTP/1.10', head(`Content-Length: ${size(open)}`, `POST ${PATH} HTTP/1.10`) + open + hidden],
  ['two Hosts', head(`Host: admin\r\nContent-Length: ${size(open)}`) + open],
  ['an absolute target', head(`Content-Length: ${size(open)}`, `POST http://admin${PATH} HTTP/1.1`) + open],
  ['a target with a request in it', head('X: y', `GET /health?x=\r\n${hidden}\r\n HTTP/1.1`)],
  ['a header name with a request in it', head(`X\r\n\r\n${hidden}: y`)],
  ['a hop-by-hop header', head(`Connection: Content-Length\r\nContent-Length: ${size(open)}`) + open + hidden],
]

describe('smuggling', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) => {
      const { messages } = JSON.parse(request.body) as { messages: { content: string }[] }
      return answerWith(request, { text: `answer to ${messages[0]?.content}` })
    })
    gateway = await on.gateway({ providers: { good: { baseUrl: `${upstream.url}/v1` } } })
  })

  /** Sends a regular request and checks that its answer belongs to it. */
  const askHonestly = async (url: string, name: string) => {
    const response = await fetch(url + PATH, { method: 'POST', headers: JSON_TYPE, body: body(name) })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    assert.ok(text.includes(`answer to ${name}`), `${name} received: ${text}`)
    assert.ok(!text.includes(HIDDEN), text)
  }

  const callsReceived = (name: string) => callsOf(upstream).filter((one) => one.body.includes(name)).length
  const answered = (text: string, name: string) => text.split(`answer to ${name}`).length - 1

  for (const name of ['nothing', ...(Object.keys(FRONTS) as (keyof typeof FRONTS)[])] as const)
    test(`smuggling: ${name} in front`, async (t) => {
      const front =
        name === 'nothing' ? { url: gateway.url, stop: async () => {} } : await startFront(name, gateway.url)
      if (!front) {
        if (process.env.HEADGATE_CI === '1') throw new Error(`${name} is not installed`)
        return t.skip(`${name} is not installed`)
      }
      try {
        for (const [at, [what, bytes]] of ATTACKS.entries()) {
          const victim = (which: number) => `victim-${name.replaceAll(' ', '-')}-${at}-${which}`
          const before = { hidden: callsReceived(HIDDEN), open: callsReceived(OPEN) }
          const attacker = await rawClient(front.url, Buffer.from(bytes, 'latin1'))
          // Concurrently, and then on the connection it has left open.
          await askHonestly(front.url, victim(0))
          await settled(attacker)
          await askHonestly(front.url, victim(1))
          attacker.socket.destroy()
          await askHonestly(front.url, victim(2))
          const received = attacker.text()
          assert.doesNotMatch(received, /victim/, `${what}: the attacker received another client’s answer`)
          for (const which of [0, 1, 2])
            assert.equal(callsReceived(victim(which)), 1, `${what}: ${victim(which)} reached the upstream once`)
          // Requests that reached the upstream were attributed to the attacker by every parser, and answered to it.
          const gone = { hidden: callsReceived(HIDDEN) - before.hidden, open: callsReceived(OPEN) - before.open }
          assert.ok(gone.open <= 1, `${what}: ${gone.open} open requests reached the upstream`)
          assert.ok(gone.hidden <= 1, `${what}: ${gone.hidden} hidden requests reached the upstream`)
          if (gone.hidden > 0) assert.equal(answered(received, HIDDEN), gone.hidden, `${what}:\n${received}`)
        }
        for (const { body } of callsOf(upstream)) assert.doesNotMatch(body, /HTTP\/1\.1|\r\n0\r\n/)
        assert.equal(gateway.child.exitCode, null)
      } finally {
        await front.stop()
      }
    })

  test('smuggling: a request after a rejected one is not answered', async () => {
    const client = await rawClient(
      gateway.url,
      head(`Content-Length: ${size(early)}\r\nTransfer-Encoding: chunked`) + early,
    )
    await until('the end of the connection', () => client.closed(), 5_000)
    assert.equal(client.text().match(/HTTP\/1\.1 \d/g)?.length, 1, client.text())
    assert.match(client.text(), /^HTTP\/1\.1 400 /)
  })
})

/** Waits until the connection is closed, or silent for a while after a response. */
const settled = async (client: Awaited<ReturnType<typeof rawClient>>): Promise<void> => {
  let before = -1
  for (let quiet = 0; quiet < 4 && !client.closed(); ) {
    await sleep(15)
    const now = client.text().length
    quiet = now === before ? quiet + 1 : 0
    before = now
  }
}
