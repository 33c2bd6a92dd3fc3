/** Malformed and ambiguous requests, request smuggling, and random bytes. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import {
  assertRefusal,
  CHAT,
  errorOf,
  onBothServers,
  parseResponse,
  requestText,
  send,
  sendBytes,
} from '../../test/support/app-server.ts'
import { until } from '../../test/support/upstream.ts'

const smuggled = (head: string, body = '') => `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n\r\n${body}`
const HIDDEN = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
for (const [name, bytes] of [
  ['length and chunks', smuggled('Content-Length: 4\r\nTransfer-Encoding: chunked', `0\r\n\r\n${HIDDEN}`)],
  ['chunks and length', smuggled('Transfer-Encoding: chunked\r\nContent-Length: 4', `0\r\n\r\n${HIDDEN}`)],
  ['two lengths', smuggled('Content-Length: 2\r\nContent-Length: 3', '{} ')],
  ['one length twice', smuggled('Content-Length: 2\r\nContent-Length: 2', '{}')],
  ['a list of lengths', smuggled('Content-Length: 2, 2', '{}')],
  ['a length with a sign', smuggled('Content-Length: +2', '{}')],
  ['a length in hexadecimal', smuggled('Content-Length: 0x2', '{}')],
  ['another transfer encoding', smuggled('Transfer-Encoding: chunked, identity', '0\r\n\r\n')],
  ['a misspelt transfer encoding', smuggled('Transfer-Encoding: xchunked', '0\r\n\r\n')],
  ['a folded header', smuggled('X-A: b\r\n c', '{}')],
  ['a space before the colon', smuggled('Content-Length : 2', '{}')],
  ['a line feed alone', `POST ${CHAT} HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n{}`],
  ['a NUL in a header', smuggled('X-A: a\0b', '{}')],
  ['a chunk size that overflows', smuggled('Transfer-Encoding: chunked', 'fffffffffffffffff\r\n')],
  ['a chunk size that is no number', smuggled('Transfer-Encoding: chunked', 'zz\r\n{}\r\n0\r\n\r\n')],
  [
    'a chunk extension of 20 KiB',
    smuggled('Transfer-Encoding: chunked', `2;x=${'y'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`),
  ],
  ['HTTP/0.9', 'GET /health\r\n\r\n'],
  ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/3.7', 'GET /health HTTP/3.7\r\nHost: localhost\r\n\r\n'],
  ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['two Hosts', `GET /health HTTP/1.1\r\nHost: localhost\r\nHost: admin\r\n\r\n`],
  ['two equal Hosts', `GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n`],
  ['no Host', 'GET /health HTTP/1.1\r\n\r\n'],
  ['two slashes', requestText('GET', '//evil/health')],
  ['a slash and a backslash', requestText('GET', '/\\evil/health')],
  ['an absolute target', requestText('GET', 'http://localhost/health')],
  ['an authority', requestText('CONNECT', 'localhost:443')],
  ['a star', requestText('GET', '*')],
] as const)
  onBothServers(`http: ${name} is refused`, async ({ given }) => {
    const { server, calls } = await given()
    const text = await sendBytes(server.port, bytes)
    const answer = parseResponse(text)
    if (name === 'an authority') assert.ok(answer.status === 400 || text === '<closed>', text)
    else if (name === 'a chunk extension of 20 KiB') assert.ok(answer.status === 413 || answer.status === 400, text)
    else assertRefusal(answer, 400, 'invalid_request')
    assert.equal(calls.length, 0)
    assert.equal(
      text.match(/HTTP\/1\.1 \d/g)?.length ?? 0,
      name === 'an authority' && text === '<closed>' ? 0 : 1,
      'one answer only',
    )
    assert.equal((await send(server.port, 'GET', '/health')).status, 200, 'and the next one is served')
  })

onBothServers(
  'http: random bytes get a complete response or none, and the next client is served',
  async ({ given }) => {
    const { server, calls, errors } = await given({}, { timing: { head: 100, request: 100 } })
    const valid = Buffer.from(requestText('POST', CHAT, { 'content-type': 'application/json' }, '{"model":"m"}'))
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 300 }),
      // A valid request with some bytes changed, dropped or repeated is parsed further than noise.
      fc
        .array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255), fc.nat(2)), { minLength: 1, maxLength: 4 })
        .map((edits) =>
          edits.reduce((text, [at, byte, how]) => {
            const end = how === 0 ? at + 1 : how === 1 ? at + 3 : at
            return Buffer.concat([text.subarray(0, at), Buffer.from(how === 1 ? [] : [byte]), text.subarray(end)])
          }, valid),
        ),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(bytes, { minLength: 20, maxLength: 20 }), async (batch) => {
        const answers = await Promise.all(batch.map((one) => sendBytes(server.port, [Buffer.from(one)])))
        for (const text of answers) {
          if (text === '' || text === '<closed>') continue
          const answer = parseResponse(text)
          assert.ok(answer.status >= 200 && answer.status < 500, text)
          if (answer.status >= 400 && answer.body !== '') assert.ok(errorOf(answer).message, text)
        }
        assert.equal((await send(server.port, 'GET', '/health')).status, 200)
      }),
      // Other bytes are the task of `npm run fuzz`.
      { numRuns: 12, seed: 27 },
    )
    assert.deepEqual(errors, [])
    await until('nothing left', () => server.live() === 0)
    assert.ok(calls.length > 0)
  },
)
