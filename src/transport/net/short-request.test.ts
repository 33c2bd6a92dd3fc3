import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { after, test } from 'node:test'
import type { Failure } from '../../core/failure.ts'
import { dialer } from '../client/dial.ts'
import { shortRequest } from './short-request.ts'

const { dial, close } = dialer({})
after(close)

const serve = async (listener: RequestListener) => {
  const server = createServer(listener).listen(0, '127.0.0.1')
  after(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  // A server that listens on TCP has an address with a port.
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

const request = (url: string, signal: AbortSignal) =>
  shortRequest(dial, { method: 'GET', url, headers: {}, connectTimeout: 2_000 }, signal)

/** The end of a connection, also by a reset. */
const closed = (socket: Socket) =>
  new Promise<void>((resolve) => {
    socket.on('error', () => {}).once('close', () => resolve())
  })

const kindOf = (outcome: { readonly ok: true } | { readonly ok: false; readonly failure: Failure }) =>
  outcome.ok ? 'answered' : outcome.failure.kind

const cases: readonly (readonly [string, RequestListener])[] = [
  ['before an answer begins', () => {}],
  ['in the middle of its body', (_, response) => void response.writeHead(200).write('a piece')],
]

for (const [when, listener] of cases)
  test(`short request: an abort ${when} settles it and ends the connection`, { timeout: 10_000 }, async () => {
    const { server, url } = await serve(listener)
    const abort = new AbortController()
    const sent = request(url, abort.signal)
    const [{ socket }] = await once(server, 'request')
    const ended = closed(socket)
    abort.abort()
    assert.equal(kindOf(await sent), 'timeout')
    await ended
  })

test('short request: nothing is sent after an abort', { timeout: 10_000 }, async () => {
  const { server, url } = await serve(() => {})
  let connections = 0
  server.on('connection', () => connections++)
  assert.equal(kindOf(await request(url, AbortSignal.abort())), 'timeout')
  assert.equal(kindOf(await request(url, AbortSignal.timeout(200))), 'timeout')
  assert.equal(connections, 1, 'the second one only')
})

test('short request: an abort after the answer changes nothing', { timeout: 10_000 }, async () => {
  const { url } = await serve((_, response) => response.end('text'))
  const abort = new AbortController()
  const sent = await request(url, abort.signal)
  abort.abort()
  assert.ok(sent.ok)
  assert.equal(sent.value.body?.toString(), 'text')
})

test('short request: an answer above 256 KiB has no body, and its connection ends', { timeout: 10_000 }, async () => {
  const { server, url } = await serve((_, response) => void response.write(Buffer.alloc(256 * 1024 + 1)))
  const sent = request(url, AbortSignal.timeout(5_000))
  const [{ socket }] = await once(server, 'request')
  const ended = closed(socket)
  const answer = await sent
  assert.ok(answer.ok)
  assert.equal(answer.value.body, null)
  await ended
})
