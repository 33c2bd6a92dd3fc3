/** Clients that send a byte a second are cut off when their time is over, without an effect on others. */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import type { Handlers } from '../../src/server/routes.ts'
import { startServer } from '../../src/server/server.ts'
import { answerWith } from '../support/answers.ts'
import { defaultSettings } from '../support/settings.ts'
import { gauge, settles, skipWithoutProc, socketsOf } from './support/gauges.ts'
import { BELOW } from './support/process.ts'
import { sendChat, sleep, stage } from './support/stage.ts'

type Drip = { readonly socket: Socket; closed(): boolean; text(): string }

/**
 * Sends the first part at once, and then a byte a second. Received data is read before each byte is sent: Node
 * discards unread data when a write fails.
 */
const drip = async (port: number, first: string, rest: string): Promise<Drip> => {
  const socket = connect(port, '127.0.0.1')
  let closed = false
  let text = ''
  let at = 0
  socket.setEncoding('utf8')
  socket.on('data', (piece: string) => {
    text += piece
  })
  socket.on('error', () => {})
  const byte = () => {
    if (socket.writable) socket.write(rest[at++ % rest.length] ?? 'x')
  }
  let timer: NodeJS.Timeout | undefined
  socket.on('close', () => {
    closed = true
    clearInterval(timer)
  })
  // Connecting may take longer than a second, and earlier writes are sent together.
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(first)
  timer = setInterval(() => setImmediate(byte), 1_000)
  return { socket, closed: () => closed, text: () => text }
}

const HEAD = `POST ${BELOW}/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n`
const many = process.env.HEADGATE_CI === '1' ? 2_000 : 500

describe('slowloris', () => {
  const on = stage()

  test(`${many} header blocks at a byte a second are cut off after ten, and others are served meanwhile`, {
    skip: skipWithoutProc,
    timeout: 120_000,
  }, async (t) => {
    const upstream = await on.upstream((request) => answerWith(request, { text: 'hello' }))
    const gateway = await on.gateway({ providers: { a: { baseUrl: `${upstream.url}/v1` } } })
    const { port } = new URL(gateway.url)
    const before = await socketsOf(gateway)
    const begun = performance.now()
    const drips: Drip[] = []
    while (drips.length < many)
      drips.push(
        ...(await Promise.all(Array.from({ length: 100 }, () => drip(Number(port), HEAD, 'x-slow: abcdefgh')))),
      )
    const opened = performance.now() - begun
    const times: number[] = []
    const open = () => drips.filter(({ closed }) => !closed()).length
    assert.ok((await gauge(gateway, 'headgate_connections')) > many * 0.9 || opened > 9_000, 'all are connected')
    const limit = performance.now() + 60_000
    while (open() > 0 && performance.now() < limit) {
      const { status, ms } = await sendChat(gateway, { style: 'chat', model: 'm', stream: false })
      assert.equal(status, 200)
      times.push(ms)
      await sleep(100)
    }
    const cut = performance.now() - begun
    t.diagnostic(
      `${many} cut ${(cut / 1000).toFixed(1)} s after the first; ${times.length} others meanwhile, the slowest in ${Math.max(...times).toFixed(0)} ms`,
    )
    assert.equal(open(), 0)
    assert.ok(cut > 9_000, 'not before their time')
    const isTimeout = (text: string) => text.startsWith('HTTP/1.1 408 ') && text.includes('request_timeout')
    assert.deepEqual(
      drips.map(({ text }) => text()).filter((text) => !isTimeout(text)),
      [],
    )
    assert.ok(
      (await settles(
        () => socketsOf(gateway),
        (sockets) => sockets <= before + 4,
      )) <=
        before + 4,
    )
  })

  test('bodies at a byte a second are cut off at the request timeout', { timeout: 60_000 }, async () => {
    const entered: string[] = []
    const page: Handlers['live'] = ({ path }, reply) => {
      entered.push(path)
      reply.writeHead(200, {})
      reply.end('')
    }
    // The path does not matter: the test is about incomplete requests.
    const handlers = new Proxy({}, { get: () => page }) as Handlers
    const server = await startServer({
      port: 0,
      host: '127.0.0.1',
      settings: () => defaultSettings,
      handlers,
      onError: () => {},
      timing: { head: 1_000, request: 2_500 },
    })
    after(() => server.close())
    const first = `${HEAD}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"model":`
    const drips = await Promise.all(Array.from({ length: 200 }, () => drip(server.port, first, ' ')))
    const open = async () => drips.filter(({ closed }) => !closed()).length
    assert.equal(await settles(open, (count) => count === 0, 30_000), 0)
    assert.deepEqual(
      drips.map(({ text }) => text()).filter((text) => !text.startsWith('HTTP/1.1 408 ')),
      [],
    )
    assert.deepEqual(entered, [])
    assert.equal(
      await settles(
        async () => server.live(),
        (count) => count === 0,
      ),
      0,
    )
  })
})
