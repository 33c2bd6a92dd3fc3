/**
 * Required behaviour of the server for malformed and unusual requests, by clause of RFC 9112 and 9110. `refused`: an error
 * or a closed connection, and no handler runs; `once`: served once.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { PORTS, probe, SERVERS } from './targets/port.ts'

after(async () => {
  for (const { stop } of PORTS) await stop?.()
})

const HOST = 'Host: localhost\r\n'
const get = (headers: string, target = '/health', version = 'HTTP/1.1') => `GET ${target} ${version}\r\n${headers}\r\n`
const KEY = 'Authorization: Bearer client-key-9f8e7d6c5b\r\n'
const post = (headers: string, body: string) =>
  `POST /v1/chat/completions HTTP/1.1\r\n${HOST}${KEY}${headers}\r\n${body}`
/** Served only if a parser reads bytes after the body as a request. */
const SECOND = get(HOST, '/metrics')

const rows: readonly (readonly [clause: string, name: string, bytes: string, 'refused' | 'once'])[] = [
  ['9112 2.2', 'lines that end in LF alone', 'GET /health HTTP/1.1\nHost: localhost\n\n', 'refused'],
  ['9112 2.2', 'a lone CR in a header', get(`${HOST}X: a\rb\r\n`), 'refused'],
  ['9112 2.2', 'spaces before the first header', get(` X: a\r\n${HOST}`), 'refused'],
  ['9112 2.2', 'empty lines before a request', `\r\n\r\n${get(HOST)}`, 'once'],
  ['9112 2.3', 'another major version', get(HOST, '/health', 'HTTP/2.0'), 'refused'],
  ['9112 2.3', 'a version in lower case', get(HOST, '/health', 'http/1.1'), 'refused'],
  ['9112 3', 'a target with a space in it', get(HOST, '/hea lth'), 'refused'],
  ['9112 3.2', 'no Host', get(''), 'refused'],
  ['9112 3.2', 'two Hosts', get(`${HOST}${HOST}`), 'refused'],
  ['9112 3.2', 'an invalid Host', get('Host: local host\r\n'), 'refused'],
  ['9112 3.2', 'an empty Host, on loopback', get('Host:\r\n'), 'refused'],
  ['9112 3.2.2', 'an absolute target with another host', get(HOST, 'http://evil.example/health'), 'refused'],
  ['9112 3.2.3', 'an authority as target', `CONNECT evil.example:443 HTTP/1.1\r\n${HOST}\r\n`, 'refused'],
  ['9112 5.1', 'a space before the colon', get(`Host : localhost\r\n`), 'refused'],
  ['9112 5.1', 'a header without a name', get(`${HOST}: x\r\n`), 'refused'],
  ['9112 5.2', 'a folded header', get(`${HOST}X: a\r\n b\r\n`), 'refused'],
  ['9110 5.5', 'a NUL in a header', get(`${HOST}X: a\0b\r\n`), 'refused'],
  [
    '9112 6.1',
    'an unknown transfer coding',
    post('Transfer-Encoding: xchunked\r\n', `5\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 6.1',
    'chunked is not the last coding',
    post('Transfer-Encoding: chunked, gzip\r\n', `5\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 6.1',
    'chunked twice',
    post('Transfer-Encoding: chunked, chunked\r\n', `5\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 6.1',
    'a space before the colon of Transfer-Encoding',
    post('Transfer-Encoding : chunked\r\n', `5\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 6.3',
    'a length and a transfer coding',
    post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${SECOND}`),
    'refused',
  ],
  ['9112 6.3', 'two different lengths', post('Content-Length: 5\r\nContent-Length: 6\r\n', 'hello!'), 'refused'],
  ['9112 6.3', 'a length below zero', post('Content-Length: -5\r\n', 'hello'), 'refused'],
  ['9112 6.3', 'a length with a sign', post('Content-Length: +5\r\n', 'hello'), 'refused'],
  ['9112 6.3', 'a length in hexadecimal', post('Content-Length: 0x5\r\n', 'hello'), 'refused'],
  ['9112 6.3', 'a length with a space in it', post('Content-Length: 1 2\r\n', 'hello'), 'refused'],
  ['9112 6.3', 'a length above 2^64', post('Content-Length: 99999999999999999999\r\n', 'hello'), 'refused'],
  [
    '9112 7.1',
    'an invalid chunk size',
    post('Transfer-Encoding: chunked\r\n', `x\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 7.1',
    'a chunk longer than its size',
    post('Transfer-Encoding: chunked\r\n', `3\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 7.1',
    'a chunk size above 2^64',
    post('Transfer-Encoding: chunked\r\n', `fffffffffffffffff\r\nhello\r\n0\r\n\r\n`),
    'refused',
  ],
  [
    '9112 7.1',
    'a chunk size with a sign',
    post('Transfer-Encoding: chunked\r\n', `+5\r\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  [
    '9112 7.1',
    'a chunk size line that ends in LF alone',
    post('Transfer-Encoding: chunked\r\n', `5\nhello\r\n0\r\n\r\n${SECOND}`),
    'refused',
  ],
  ['9112 7.1', 'valid chunks', post('Transfer-Encoding: chunked\r\n', '5;x="y"\r\nhello\r\n0\r\n\r\n'), 'once'],
  ['9112 8', 'a body that ends too early', post('Content-Length: 50\r\n', 'hello'), 'refused'],
  ['9110 9.1', 'an unknown method', `BREW /health HTTP/1.1\r\n${HOST}\r\n`, 'refused'],
  ['9110 10.1.1', 'an unknown expectation', post('Expect: something\r\nContent-Length: 5\r\n', 'hello'), 'refused'],
  ['9110 7.8', 'an unsupported upgrade is ignored', get(`${HOST}Connection: Upgrade\r\nUpgrade: h2c\r\n`), 'once'],
]

/** ms of silence: after a response, and until the server's request timeout (0.6 s) closes an incomplete request. */
const QUIET = { once: 300, refused: 2_000 }

for (const server of SERVERS)
  for (const [clause, name, bytes, expected] of rows)
    test(`${server} server: RFC ${clause}: ${name}`, async () => {
      const { statuses, reached, closed } = await probe(server, bytes, QUIET[expected])
      if (expected === 'once') {
        assert.deepEqual([statuses, reached.length], [[200], 1])
        return
      }
      assert.deepEqual(reached, [])
      assert.ok(
        statuses.every((status) => status >= 400),
        String(statuses),
      )
      assert.ok(statuses.length > 0 || closed, 'neither a response nor a closed connection')
    })
