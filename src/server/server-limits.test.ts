/** Limits of header blocks, request targets, time and concurrent model calls. */
import assert from 'node:assert/strict'
import {
  assertRefusal,
  CHAT,
  echo,
  errorOf,
  type HandlerCall,
  onBothServers,
  parseResponse,
  requestText,
  send,
  sendBytes,
} from '../../test/support/app-server.ts'
import { until } from '../../test/support/upstream.ts'

for (const [name, head, status] of [
  ['101 headers', Array.from({ length: 101 }, (_, at) => `x-${at}: 1\r\n`).join(''), 431],
  ['a header block of 17 KiB', `x-a: ${'y'.repeat(17 * 1024)}\r\n`, 431],
] as const)
  onBothServers(`http: ${name} are too many`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = parseResponse(await sendBytes(server.port, `GET /health HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`))
    assert.equal(answer.status, status)
    assert.ok(errorOf(answer).message)
    assert.equal(calls.length, 0)
  })

onBothServers('http: a target of 9 KiB is too long', async ({ given }) => {
  const { server } = await given()
  assert.equal((await send(server.port, 'GET', `/${'x'.repeat(9 * 1024)}`)).status, 414)
})

for (const [name, pieces] of [
  ['a header block that never ends', ['GET /health HTTP/1.1\r\nhost: loc']],
  ['a silent connection', []],
  ['a body that never ends', [requestText('POST', CHAT, { 'content-length': '100' }), '{"a":']],
] as const)
  onBothServers(`http: ${name} times out`, async ({ given }) => {
    const { server, calls } = await given({}, { timing: { head: 100, request: 200 } })
    const text = await sendBytes(server.port, pieces)
    assert.ok(text.endsWith('<closed>'))
    if (pieces.length > 0) {
      const answer = parseResponse(text)
      assertRefusal(answer, 408, 'request_timeout')
      assert.equal(answer.headers.get('x-should-retry'), 'true')
    }
    assert.equal(calls.length, 0)
  })

onBothServers('http: a response has no time limit once the request is complete', async ({ given }) => {
  const made = await given({}, { timing: { head: 50, request: 100 } })
  made.answer = async (call) => {
    await new Promise((resolve) => setTimeout(resolve, 300))
    echo(call)
  }
  assert.equal((await send(made.server.port, 'POST', CHAT, {}, '{}')).status, 200)
})

onBothServers(
  'http: model calls above the concurrency limit get 503 with Retry-After, health does not',
  async ({ given }) => {
    const made = await given({ limit: { concurrent: 2 } })
    const held: HandlerCall[] = []
    made.answer = (call) => {
      if (call.name === 'chat') held.push(call)
      else echo(call)
    }
    const first = [1, 2].map(() => send(made.server.port, 'POST', CHAT, {}, '{}'))
    await until('both under way', () => held.length === 2)
    const third = await send(made.server.port, 'POST', CHAT, {}, '{}')
    assertRefusal(third, 503, 'overloaded')
    assert.equal(third.headers.get('retry-after'), '1')
    assert.equal(third.headers.get('x-should-retry'), 'true')
    assert.equal((await send(made.server.port, 'GET', '/health')).status, 200)
    held.forEach(echo)
    for (const answer of await Promise.all(first)) assert.equal(answer.status, 200)
    made.answer = echo
    assert.equal((await send(made.server.port, 'POST', CHAT, {}, '{}')).status, 200)
  },
)
