/** Responses: request IDs, pipelining, streaming, backpressure, and clients that disconnect. */
import assert from 'node:assert/strict'
import {
  CHAT,
  echo,
  onBothServers,
  openClient,
  parseResponse,
  requestText,
  send,
  sendBytes,
} from '../../test/support/app-server.ts'
import { until } from '../../test/support/upstream.ts'

for (const [presented, kept] of [
  ['abc-DEF_123', true],
  ['a'.repeat(128), true],
  ['a'.repeat(129), false],
  ['abc def', false],
  // Digits are allowed: error messages are written so that no search finds the ID in them.
  ['id-500-x', true],
  ['01J:a.b', true],
  ['<script>', false],
  // The ID is shown in headers, errors and the log.
  ['hgk_0123456789abcdefghijklmnop', false],
  ['sk-proj-0123456789abcdef', false],
] as const)
  onBothServers(`http: the ID ${presented.slice(0, 20)} is ${kept ? 'kept' : 'replaced'}`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await send(server.port, 'POST', CHAT, { 'x-request-id': presented }, '{}')
    const id = answer.headers.get('x-request-id') ?? ''
    assert.equal(id === presented, kept)
    if (!kept) assert.match(id, /^req_[a-z]{20}$/)
    assert.equal(calls[0]?.received.id, id)
  })

onBothServers('http: one connection serves many requests, also after refusals', async ({ given }) => {
  const { server, calls } = await given()
  const text = await sendBytes(
    server.port,
    [
      requestText('POST', CHAT, {}, '{"n":1}'),
      requestText('POST', '/nowhere', {}, '{"n":2}'),
      requestText('POST', CHAT, { 'content-type': 'text/plain' }, '{"n":3}'),
      requestText('POST', CHAT, {}, '{"n":4}'),
    ],
    4,
  )
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 415', 'HTTP/1.1 200'])
  assert.ok(!text.endsWith('<closed>'))
  assert.deepEqual(
    calls.map(({ received }) => received.body.text),
    ['{"n":1}', '{"n":4}'],
  )
})

onBothServers('http: garbage after a valid request does not replace its response', async ({ httpServer, given }) => {
  const made = await given()
  made.answer = async (call) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    echo(call)
  }
  const text = await sendBytes(
    made.server.port,
    [requestText('POST', CHAT, {}, '{}'), 'rubbish\r\n\r\n', 'more\r\n\r\n'],
    Number.POSITIVE_INFINITY,
  )
  // Node parses ahead; the own server parses the garbage and refuses it after the response.
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', ...(httpServer === 'own' ? ['HTTP/1.1 400'] : [])])
  assert.ok(text.endsWith('<closed>'))
})

onBothServers('http: each write arrives as one piece at once', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => reply.writeHead(200, { 'content-type': 'text/event-stream' })
  const { socket, reads, text } = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
  await until('called', () => made.calls.length === 1)
  const reply = made.calls[0]?.reply
  for (const event of ['data: one\n\n', 'data: zwölf\n\n']) {
    const before = reads.length
    assert.equal(reply?.write(event), true)
    await until('read', () => reads.length > before)
    await new Promise((resolve) => setTimeout(resolve, 10))
    assert.equal(reads.length, before + 1)
  }
  reply?.end('data: [DONE]\n\n')
  await until('ended', () => text().endsWith('0\r\n\r\n'))
  assert.match(text(), /transfer-encoding: chunked/i)
  assert.doesNotMatch(text(), /content-length/i)
  socket.destroy()
})

onBothServers('http: a complete response is one write with its length', async ({ given }) => {
  const { server } = await given()
  const { socket, reads } = await openClient(server.port, requestText('POST', CHAT, {}, '{"é":1}'))
  await until('answered', () => reads.length > 0)
  await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(reads.length, 1)
  const answer = parseResponse(reads.join(''))
  assert.equal(Number(answer.headers.get('content-length')), answer.body.length)
  socket.destroy()
})

for (const how of ['destroy', 'resetAndDestroy', 'end'] as const)
  for (const when of ['before the head', 'in the middle'] as const)
    onBothServers(
      `http: a client that disconnects (${how}) ${when} is detected at once and reported once`,
      async ({ given }) => {
        const made = await given()
        let gone = 0
        made.answer = ({ reply }) => {
          reply.onDisconnect(() => gone++)
          if (when === 'in the middle') {
            reply.writeHead(200, {})
            reply.write('x')
          }
        }
        const { socket, reads } = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
        await until('under way', () => made.calls.length === 1 && (when === 'before the head' || reads.length > 0))
        assert.equal(made.server.live(), 1)
        socket[how]()
        // All other time limits of this server are longer.
        await until('noticed', () => gone === 1)
        const reply = made.calls[0]?.reply
        let late = 0
        reply?.onDisconnect(() => late++)
        assert.equal(late, 1, 'a later listener is called at once')
        assert.equal(reply?.write('y'), true)
        reply?.end('z')
        reply?.abort()
        assert.equal(gone, 1)
        await until('nothing left', () => made.server.live() === 0)
        socket.destroy()
      },
    )

onBothServers('http: a client that read the complete response does not count as gone', async ({ given }) => {
  const made = await given()
  let gone = 0
  made.answer = (call) => {
    call.reply.onDisconnect(() => gone++)
    echo(call)
  }
  await send(made.server.port, 'POST', CHAT, { connection: 'close' }, '{}')
  await until('nothing left', () => made.server.live() === 0)
  assert.equal(gone, 0)
})

onBothServers('http: all pipelined requests are cancelled when the client leaves', async ({ httpServer, given }) => {
  const made = await given()
  let gone = 0
  made.answer = ({ reply }) => reply.onDisconnect(() => gone++)
  const { socket } = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}').repeat(3))
  // Node serves them all at once, the own server one after the other.
  const under = httpServer === 'own' ? 1 : 3
  await until('under way', () => made.calls.length === under)
  socket.destroy()
  await until('noticed', () => gone === under)
  assert.equal(made.server.live(), 0)
})

onBothServers('http: a slow client pauses the writer until it has caught up', async ({ given }) => {
  const made = await given()
  let drained = 0
  let written = 0
  const piece = 'x'.repeat(64 * 1024)
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    const pour = () => {
      while (written < 400) {
        written++
        if (!reply.write(piece)) return
      }
      reply.end()
    }
    reply.onDrain(() => {
      drained++
      pour()
    })
    pour()
  }
  const { socket, text } = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
  socket.pause()
  await until('begun', () => written > 0)
  await new Promise((resolve) => setTimeout(resolve, 150))
  const held = written
  assert.ok(held < 200, `${held} pieces were written to a client that does not read`)
  socket.resume()
  await until('everything', () => text().endsWith('0\r\n\r\n'))
  assert.equal(written, 400)
  assert.ok(drained > 0)
  socket.destroy()
})

onBothServers('http: an aborted response does not look complete', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('half')
    setTimeout(() => reply.abort(), 20)
  }
  const text = await sendBytes(made.server.port, requestText('POST', CHAT, {}, '{}'))
  assert.match(text, /half/)
  assert.ok(text.endsWith('<closed>') && !text.includes('\r\n0\r\n\r\n'))
})
