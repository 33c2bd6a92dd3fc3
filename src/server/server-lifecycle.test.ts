/** Start of the server, and its drain. */
import assert from 'node:assert/strict'
import {
  CHAT,
  echo,
  type HandlerCall,
  onBothServers,
  openClient,
  requestText,
  send,
} from '../../test/support/app-server.ts'
import { accepts } from '../../test/support/ports.ts'
import { until } from '../../test/support/upstream.ts'

onBothServers(
  'http: a drain continues to serve during its delay, sends Connection: close, lets streams finish, and leaves no connection',
  async ({ given }) => {
    const made = await given()
    const held: HandlerCall[] = []
    made.answer = (call) => {
      if (call.name !== 'chat') return echo(call)
      call.reply.writeHead(200, {})
      call.reply.write('begun')
      held.push(call)
    }
    const stream = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
    const idle = await openClient(made.server.port, requestText('GET', '/health'))
    await until('under way', () => stream.text().includes('begun') && idle.reads.length > 0)
    assert.equal(made.server.draining(), false)
    let ended = 0
    let over = false
    const drained = made.server.drain({ delay: 1_500, timeout: 20_000, endStreams: () => ended++ }).then(() => {
      over = true
    })
    assert.equal(made.server.draining(), true)
    const during = await send(made.server.port, 'GET', '/health')
    assert.equal(during.status, 200)
    assert.equal(during.headers.get('connection'), 'close')
    assert.ok(during.closed)
    await until('the port is closed', () => idle.socket.closed || idle.socket.readableEnded)
    await assert.rejects(fetch(`http://127.0.0.1:${made.server.port}/health`))
    assert.equal(over, false)
    held[0]?.reply.end('complete')
    await drained
    await until('the end of the stream', () => /complete\r\n0\r\n\r\n$/.test(stream.text()))
    assert.equal(ended, 0)
    assert.equal(made.server.live(), 0)
  },
)

onBothServers('http: streams that outlast the drain end with an error event, or are aborted', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('begun')
  }
  const polite = await openClient(made.server.port, requestText('POST', CHAT, {}, '{"polite":true}'))
  const stubborn = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
  await until('under way', () => polite.reads.length > 0 && stubborn.reads.length > 0)
  const begun = performance.now()
  await made.server.drain({
    delay: 0,
    timeout: 100,
    endStreams: () => made.calls.find(({ received }) => received.body.text.includes('polite'))?.reply.end('farewell'),
  })
  assert.ok(performance.now() - begun > 250, 'not before the drain and the farewell are over')
  await until('both closed', () => polite.socket.closed && stubborn.socket.closed)
  assert.match(polite.text(), /farewell\r\n0\r\n\r\n$/)
  assert.doesNotMatch(stubborn.text(), /\r\n0\r\n\r\n$/)
})

onBothServers('http: a second drain call skips the remaining waits', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('begun')
  }
  const { reads } = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
  await until('under way', () => reads.length > 0)
  let ended = 0
  const endStreams = () => {
    ended++
    made.calls[0]?.reply.end()
  }
  const first = made.server.drain({ delay: 3_600_000, timeout: 3_600_000, endStreams })
  const second = made.server.drain({ delay: 3_600_000, timeout: 3_600_000, endStreams })
  await Promise.all([first, second])
  assert.equal(ended, 1)
})

onBothServers('http: leaving the port ends the delay of a drain, and only that', async ({ given }) => {
  for (const isDraining of [true, false]) {
    const made = await given()
    made.answer = ({ reply }) => {
      reply.writeHead(200, {})
      reply.write('begun')
    }
    const { reads, text } = await openClient(made.server.port, requestText('POST', CHAT, {}, '{}'))
    await until('under way', () => reads.length > 0)
    const drain = () => made.server.drain({ delay: 3_600_000, timeout: 3_600_000, endStreams: () => assert.fail() })
    const early = isDraining ? drain() : null
    made.server.leavePort()
    const drained = early ?? drain()
    for (let looks = 0; looks < 1_000 && (await accepts(made.server.port)); looks++);
    assert.equal(await accepts(made.server.port), false)
    made.calls[0]?.reply.end('complete')
    await drained
    assert.match(text(), /complete\r\n0\r\n\r\n$/)
  }
})

onBothServers('http: a port in use is an error, not a crash', async ({ given }) => {
  const { server } = await given()
  await assert.rejects(given({}, { port: server.port }), { code: 'EADDRINUSE' })
})
