/** Request bodies: content types, size limits, UTF-8, memory, and `Expect: 100-continue`. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import {
  assertRefusal,
  CHAT,
  onBothServers,
  parseResponse,
  requestText,
  send,
  sendBytes,
} from '../../test/support/app-server.ts'
import { until } from '../../test/support/upstream.ts'
import { heldBytes, measureLoad } from '../runtime/load.ts'

setFlagsFromString('--expose-gc')
/** Bytes in reachable buffers. */
const reachableBufferBytes = (): number => {
  // V8's `gc` is not typed.
  ;(runInNewContext('gc') as () => void)()
  return process.memoryUsage().arrayBuffers
}

for (const [type, status] of [
  [undefined, 200],
  ['application/json', 200],
  ['Application/JSON; charset=UTF-8', 200],
  ['application/json;charset="utf-8"', 200],
  ['application/vnd.api+json', 200],
  ['application/json; charset=latin1', 415],
  ['text/plain', 415],
  ['application/x-www-form-urlencoded', 415],
  ['multipart/form-data; boundary=x', 415],
  ['application/jsonp', 415],
] as const)
  onBothServers(`http: content type ${type} is ${status}`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await send(server.port, 'POST', CHAT, type === undefined ? {} : { 'content-type': type }, '{}')
    if (status === 200) assert.equal(answer.status, 200)
    else assertRefusal(answer, 415, 'unsupported_media_type')
    assert.equal(calls.length, status === 200 ? 1 : 0)
  })

onBothServers('http: a body in several encodings or an unknown one is refused', async ({ given }) => {
  const { server, calls } = await given()
  for (const encoding of ['compress', 'gzip, br', 'gzip, gzip'])
    assertRefusal(
      await send(server.port, 'POST', CHAT, { 'content-encoding': encoding }, '{}'),
      415,
      'unsupported_media_type',
    )
  assert.equal((await send(server.port, 'POST', CHAT, { 'content-encoding': 'identity' }, '{}')).status, 200)
  assert.equal(calls.length, 1)
})

onBothServers('http: a client that leaves while its body is inflated leaves nothing counted', async ({ given }) => {
  const load = measureLoad({ held: heldBytes() })
  const { server, errors } = await given({}, { load })
  const body = gzipSync(randomBytes(8_000_000).toString('base64'), { level: 1 })
  for (let turn = 0; turn < 5; turn++) {
    const socket = connect(server.port, '127.0.0.1')
    socket.on('error', () => {})
    const lines = { 'content-encoding': 'gzip', 'content-length': String(body.length + 1) }
    socket.write(requestText('POST', CHAT, lines))
    await new Promise((resolve) => socket.write(body, resolve))
    await until('a part of it is read', () => load.held.bytes() > 100_000)
    socket.resetAndDestroy()
    await until('it has left', () => server.live() === 0 && server.connections() === 0)
  }
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.deepEqual([load.held.bytes(), errors.length], [0, 0])
})

onBothServers('http: a body above the limit is refused by its Content-Length, before it arrives', async ({ given }) => {
  const { server, calls } = await given({ limit: { body: 1_000 } })
  const answer = parseResponse(await sendBytes(server.port, requestText('POST', CHAT, { 'content-length': '1001' })))
  assertRefusal(answer, 413, 'request_too_large')
  assert.ok(answer.closed)
  assert.equal((await send(server.port, 'POST', CHAT, {}, 'x'.repeat(1_000))).status, 200)
  assert.equal(calls.length, 1)
})

onBothServers('http: a chunked body above the limit is refused as it arrives', async ({ given }) => {
  const { server, calls } = await given({ limit: { body: 100_000 } })
  const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`
  const answer = parseResponse(
    await sendBytes(server.port, [
      requestText('POST', CHAT, { 'transfer-encoding': 'chunked' }),
      ...Array.from({ length: 200 }, () => chunk),
    ]),
  )
  assertRefusal(answer, 413, 'request_too_large')
  assert.ok(answer.closed)
  assert.equal(calls.length, 0)
})

onBothServers('http: a client that sends 20 MB too much reads the refusal, not a reset', async ({ given }) => {
  const { server } = await given({ limit: { body: 1_000 } })
  const response = await fetch(`http://127.0.0.1:${server.port}${CHAT}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: 'x'.repeat(20_000_000),
  }).catch((reason: unknown) => String(reason))
  // fetch may fail to write when the connection closes after the refusal; it never hangs.
  if (typeof response !== 'string') assert.equal(response.status, 413)
})

for (const [name, bytes] of [
  ['a lone continuation byte', [0x22, 0x80, 0x22]],
  ['a surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
  ['an overlong slash', [0x22, 0xc0, 0xaf, 0x22]],
  ['half a character at the end', [0x22, 0xf0, 0x9f]],
] as const)
  onBothServers(`http: ${name} is not UTF-8`, async ({ given }) => {
    const { server, calls } = await given()
    const body = Buffer.from(bytes)
    const answer = parseResponse(
      await sendBytes(server.port, [requestText('POST', CHAT, { 'content-length': String(body.length) }), body]),
    )
    assertRefusal(answer, 400, 'invalid_json')
    assert.equal(calls.length, 0)
  })

onBothServers(
  'http: a body in single bytes, a character split between them, arrives complete, without its byte order mark',
  async ({ given }) => {
    const { server, calls } = await given()
    const body = Buffer.from('{"a":"é😀"}')
    const socket = connect(server.port, '127.0.0.1')
    socket.write(requestText('POST', CHAT, { 'content-length': String(body.length) }))
    for (const byte of body) {
      socket.write(Buffer.from([byte]))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until('received', () => calls.length === 1)
    assert.equal(calls[0]?.received.body.text, '{"a":"é😀"}')
    socket.destroy()
    await send(server.port, 'POST', CHAT, {}, '\ufeff{}')
    assert.equal(calls[1]?.received.body.text, '{}')
  },
)

onBothServers('http: a large body arrives complete, wherever a piece splits a character', async ({ given }) => {
  const { server, calls } = await given()
  for (let blanks = 0; blanks < 4; blanks++) {
    const body = `{"a":"${' '.repeat(blanks)}${'😀é漢'.repeat(60_000)}"}`
    await send(server.port, 'POST', CHAT, {}, `\ufeff${body}`)
    const last = calls.at(-1)?.received.body
    assert.ok(last?.text === body && Buffer.from(last.bytes ?? '').equals(Buffer.from(body)))
  }
})

for (const at of [262_143, 262_144, 262_145, 400_000])
  onBothServers(`http: a large body that is not UTF-8 at byte ${at} is refused`, async ({ given }) => {
    const { server, calls } = await given()
    const body = Buffer.alloc(600_000, 'é')
    body[at] = 0xff
    const answer = parseResponse(
      await sendBytes(server.port, [requestText('POST', CHAT, { 'content-length': String(body.length) }), body]),
    )
    assertRefusal(answer, 400, 'invalid_json')
    assert.equal(calls.length, 0)
  })

onBothServers(
  'http: a client that leaves while its large body is read gets no response and leaves nothing in memory',
  async ({ given }) => {
    const { server, calls, refused, errors } = await given()
    const bodies = [`{"a":"${'x'.repeat(4_000_000)}"}`, `"${'['.repeat(4_000_000)}`, '['.repeat(4_000_000)]
    for (const body of bodies) {
      const socket = connect(server.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write(requestText('POST', CHAT, { 'content-length': String(body.length) }))
      await new Promise((resolve) => socket.write(body, resolve))
      socket.resetAndDestroy()
    }
    await until('all have left', () => server.live() === 0 && server.connections() === 0)
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.deepEqual([errors.length, server.live()], [0, 0])
    // A connection whose end was seen earlier gets at most the handler's response and a refusal.
    assert.ok(calls.length + refused.length <= bodies.length)
  },
)

onBothServers('http: a body in sparse chunks keeps no more memory than is counted', async ({ given }) => {
  const { server } = await given()
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  const before = reachableBufferBytes()
  socket.write(requestText('POST', CHAT, { 'transfer-encoding': 'chunked' }))
  // One byte in a thousand is body; views of the received buffers would keep all of them.
  const spread = `1;${'x'.repeat(1_000)}\r\n \r\n`.repeat(1_000)
  for (let at = 0; at < 48; at++) await new Promise((resolve) => socket.write(spread, resolve))
  // What is still on its way is kept for a moment; views would keep 48 MB.
  await until('little memory is kept', () => server.live() === 1 && reachableBufferBytes() - before < 8_000_000)
  socket.destroy()
})

onBothServers('http: Expect: 100-continue gets 100 Continue, unless the request is refused', async ({ given }) => {
  const { server, calls } = await given()
  const good = await sendBytes(server.port, [
    requestText('POST', CHAT, { expect: '100-continue', 'content-length': '2' }),
    '{}',
  ])
  assert.match(good, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/)
  const bad = await sendBytes(
    server.port,
    requestText('POST', '/nowhere', { expect: '100-continue', 'content-length': '2' }),
  )
  assertRefusal(parseResponse(bad), 404, 'unknown_url')
  assert.ok(parseResponse(bad).closed, 'the next bytes could be a body or a request')
  const other = await send(server.port, 'POST', CHAT, { expect: 'a-miracle' })
  assert.equal(other.status, 417)
  assert.equal(calls.length, 1)
})
