/** HTTP/1.1 rules that every server implementation follows, towards clients and towards its handler. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, describe, type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { until } from '../../../test/support/upstream.ts'
import type {
  ClientConnection,
  HttpExchange,
  HttpServer,
  HttpServerOptions,
  OpenHttpServer,
  ServerHandler,
} from './http-server.ts'
import { http1Server } from './http1-server.ts'
import { nodeServer } from './node-server.ts'

type ServedRequests = {
  readonly server: HttpServer
  readonly port: number
  readonly served: HttpExchange[]
  readonly failed: unknown[]
  readonly left: ClientConnection[]
  serve: (exchange: HttpExchange) => void
  /** Takes over an upgraded socket; null: upgrades are not granted. */
  upgrade: ((socket: Socket, first: Buffer) => void) | null
}

const SERVERS: readonly (readonly [name: string, open: OpenHttpServer])[] = [
  ['own', http1Server],
  ['node', nodeServer],
]
const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers) await close()
})

/** Responds with 200 and the target, after the body. */
const echo = (exchange: HttpExchange): void =>
  exchange.pipeBody({ push() {}, end: () => exchange.answer(200, {}, exchange.target) })

const given = async (
  open: OpenHttpServer,
  {
    timing,
    ...options
  }: Partial<Omit<HttpServerOptions, 'timing'>> & { timing?: Partial<HttpServerOptions['timing']> } = {},
): Promise<ServedRequests> => {
  const lines = new Set<ClientConnection>()
  const made: Omit<ServedRequests, 'server' | 'port'> = { served: [], failed: [], left: [], serve: echo, upgrade: null }
  const handler: ServerHandler<ClientConnection> = {
    connected(line) {
      lines.add(line)
      return line
    },
    serve(_line, exchange) {
      made.served.push(exchange)
      made.serve(exchange)
    },
    grants: () => made.upgrade !== null,
    upgrade: (_line, _head, socket, first) => made.upgrade?.(socket, first),
    malformed: (line, problem) => line.endWith(`HTTP/1.1 400 ${problem}\r\ncontent-length: 0\r\n\r\n`),
    keeps: () => true,
    closed(line) {
      lines.delete(line)
      made.left.push(line)
    },
    failed: (error) => void made.failed.push(error),
  }
  const server = open(handler, {
    timing: { head: 2_000, request: 2_000, check: 10, keepAlive: 2_000, linger: 100, ...timing },
    headBytes: 16 * 1024,
    requestsPerSocket: 1_000,
    ...options,
  })
  const port = await server.listen({ port: 0, host: '127.0.0.1' })
  closers.push(async () => {
    const closed = server.close()
    for (const line of lines) line.destroy()
    await closed
  })
  return Object.assign(made, { server, port })
}

type RawClient = { readonly socket: Socket; text: string; closed: boolean }

const client = async (port: number, ...pieces: readonly string[]): Promise<RawClient> => {
  const socket = connect(port, '127.0.0.1')
  const made: RawClient = { socket, text: '', closed: false }
  socket.setEncoding('latin1')
  socket.on('data', (text: string) => {
    made.text += text
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    made.closed = true
  })
  await new Promise((resolve) => socket.once('connect', resolve))
  for (const piece of pieces) socket.write(piece, 'latin1')
  return made
}

/** Sends a text, and its end where `ends`, before the connection is accepted; returns everything received. */
const early = async (port: number, text: string, ends: boolean): Promise<string> => {
  const written = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads')
     const { port, text, ends, written } = workerData
     const socket = require('node:net').connect(port, '127.0.0.1')
     let received = ''
     socket.setEncoding('latin1').on('data', (part) => { received += part })
     socket.on('error', () => {}).on('close', () => parentPort.postMessage(received))
     socket.write(text, 'latin1', () => { Atomics.store(written, 0, 1); Atomics.notify(written, 0) })
     if (ends) socket.end()`,
    { eval: true, workerData: { port, text, ends, written } },
  )
  Atomics.wait(written, 0, 0, 10_000)
  const [received] = await once(worker, 'message')
  await worker.terminate()
  return received
}

const get = (target: string, headers = '', version = '1.1') =>
  `GET ${target} HTTP/${version}\r\nhost: localhost\r\n${headers}\r\n`
const statuses = ({ text }: RawClient) => text.match(/HTTP\/1\.1 \d+/g)?.length ?? 0

/** All tests run on both servers at once, since most wait; each is the reference for the other. */
const onBothServers = (
  name: string,
  run: (server: { readonly name: string; readonly open: OpenHttpServer }, t: TestContext) => Promise<void>,
): void => {
  describe(name, { concurrency: true }, () => {
    for (const [server, open] of SERVERS) test(`${server} server: ${name}`, (t) => run({ name: server, open }, t))
  })
}

onBothServers('a response has its length, the date, and the connection header', async ({ open }) => {
  const { port } = await given(open)
  const peer = await client(port, get('/a'))
  await until('answered', () => peer.text.endsWith('/a'))
  assert.match(peer.text, /^HTTP\/1\.1 200 OK\r\n/)
  assert.match(peer.text, /\r\ncontent-length: 2\r\n/i)
  assert.match(peer.text, /\r\nconnection: keep-alive\r\nkeep-alive: timeout=2\b/i)
  const date = /\r\ndate: ([^\r]+)/i.exec(peer.text)?.[1] ?? ''
  assert.ok(Math.abs(Date.parse(date) - Date.now()) < 30_000, date)
  peer.socket.destroy()
})

onBothServers('an idle connection is kept for its time, and then closed silently', async ({ open }) => {
  const { port } = await given(open, { timing: { keepAlive: 1_000 } })
  const peer = await client(port, get('/a'))
  await until('answered', () => statuses(peer) === 1)
  await new Promise((resolve) => setTimeout(resolve, 200))
  peer.socket.write(get('/b'))
  await until('answered again', () => statuses(peer) === 2)
  await until('closed', () => peer.closed)
  assert.equal(statuses(peer), 2)
})

onBothServers('the last request of a connection gets Connection: close', async ({ open }) => {
  const { port } = await given(open, { requestsPerSocket: 3 })
  const peer = await client(port)
  for (const number of [1, 2, 3]) {
    peer.socket.write(get('/a'))
    await until('answered', () => statuses(peer) === number)
  }
  // Node's server sometimes closes only after its keep-alive timeout, 3 s here.
  await until('closed', () => peer.closed)
  assert.deepEqual(
    peer.text
      .match(/connection: [a-z-]+/gi)
      ?.at(-1)
      ?.toLowerCase(),
    'connection: close',
  )
})

for (const [what, version, headers, stays] of [
  ['HTTP/1.1', '1.1', '', true],
  ['HTTP/1.1 with close', '1.1', 'connection: close\r\n', false],
  ['HTTP/1.0', '1.0', '', false],
  ['HTTP/1.0 with keep-alive', '1.0', 'connection: keep-alive\r\n', true],
] as const)
  onBothServers(`${what}: the connection ${stays ? 'stays' : 'is closed'}`, async ({ open }) => {
    const { port } = await given(open)
    const peer = await client(port, get('/a', headers, version))
    await until('answered', () => peer.text.endsWith('/a'))
    if (stays) {
      peer.socket.write(get('/b', headers, version))
      await until('answered again', () => peer.text.endsWith('/b'))
    } else await until('closed', () => peer.closed)
    peer.socket.destroy()
  })

onBothServers('HTTP/1.0 gets no chunks; the end of the connection ends the body', async ({ open }) => {
  const made = await given(open)
  made.serve = (exchange) => {
    exchange.begin(200, {})
    exchange.write('one')
    exchange.write(Buffer.from('two'))
    exchange.end('three')
  }
  const peer = await client(made.port, get('/a', 'connection: keep-alive\r\n', '1.0'))
  await until('closed', () => peer.closed)
  assert.match(peer.text, /\r\n\r\nonetwothree$/)
  assert.doesNotMatch(peer.text, /chunked|keep-alive/i)
})

onBothServers('HEAD gets the header block alone, of a complete response and of a stream', async ({ open }) => {
  const made = await given(open)
  made.serve = (exchange) => {
    if (exchange.target === '/whole') return exchange.answer(200, {}, 'whole')
    exchange.begin(200, {})
    exchange.write(Buffer.from('one'))
    exchange.write(Buffer.from('two'))
    exchange.end('three')
  }
  const peer = await client(made.port, get('/whole').replace('GET', 'HEAD'))
  await until('answered', () => peer.text.includes('\r\n\r\n'))
  assert.match(peer.text, /content-length: 5\r\n(?:.+\r\n)*\r\n$/i)
  peer.socket.write(get('/stream').replace('GET', 'HEAD'))
  await until('answered again', () => /chunked\r\n(?:.+\r\n)*\r\n/i.test(peer.text))
  await new Promise((resolve) => setTimeout(resolve, 30))
  assert.doesNotMatch(peer.text, /one|two|three|\r\n\r\n0/)
  peer.socket.destroy()
})

for (const [what, header, body] of [
  ['ASCII', 'plain', 'plain'],
  ['Latin-1 in a header', 'caf\xe9', 'plain'],
  ['a body in UTF-8', 'plain', 'zwölf ☃ 😀'],
  ['both', 'caf\xe9', 'zwölf ☃ 😀'],
] as const)
  for (const how of ['whole', 'streamed', 'streamed as bytes'] as const)
    onBothServers(`the bytes are correct, ${how}: ${what}`, async ({ name, open }) => {
      const made = await given(open)
      const streamed = how !== 'whole'
      made.serve = (exchange) => {
        if (!streamed) return exchange.answer(200, { 'x-name': header }, body)
        exchange.begin(200, { 'x-name': header })
        exchange.write(how === 'streamed' ? body : Buffer.from(body))
        exchange.end(body)
      }
      const peer = await client(made.port, get('/', 'connection: close\r\n'))
      await until('closed', () => peer.closed)
      const bytes = Buffer.from(body)
      const sent = bytes.toString('latin1')
      // Node sends the header block in the encoding of the body.
      if (name === 'own' || header === 'plain') assert.ok(peer.text.includes(`x-name: ${header}\r\n`), peer.text)
      const piece = `${bytes.length.toString(16)}\r\n${sent}\r\n`
      assert.ok(peer.text.endsWith(`\r\n\r\n${streamed ? `${piece}${piece}0\r\n\r\n` : sent}`), peer.text)
      if (!streamed) assert.match(peer.text, new RegExp(`content-length: ${bytes.length}\r\n`, 'i'))
    })

onBothServers('the writer may reuse its bytes at once, though the client is slow', async ({ open }) => {
  const made = await given(open)
  const piece = Buffer.alloc(60_000)
  const full = new Promise<void>((resolve) => {
    made.serve = (exchange) => {
      exchange.begin(200, {})
      let room = true
      // More is queued than the kernel accepts.
      for (let letter = 0; letter < 26 * 10; letter++) {
        room = exchange.write(piece.fill(97 + (letter % 26)))
        piece.fill('-')
      }
      assert.equal(room, false)
      exchange.end('')
      resolve()
    }
  })
  const peer = await client(made.port)
  peer.socket.pause()
  peer.socket.write(get('/', 'connection: close\r\n'))
  await full
  peer.socket.resume()
  await until('closed', () => peer.closed)
  const alphabet = Array.from(
    { length: 26 },
    (_, letter) => `${piece.length.toString(16)}\r\n${String.fromCharCode(97 + letter).repeat(piece.length)}\r\n`,
  ).join('')
  const body = peer.text.slice(peer.text.indexOf('\r\n\r\n') + 4)
  assert.ok(body === `${alphabet.repeat(10)}0\r\n\r\n`, 'the body as it was written')
})

onBothServers('after a response that precedes the request body the next request is served', async ({ open }) => {
  const made = await given(open)
  made.serve = (exchange) => exchange.answer(200, {}, exchange.target)
  const post = 'POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n'
  const peer = await client(made.port, post)
  await until('answered', () => peer.text.endsWith('/a'))
  peer.socket.write(`0123456789${get('/b')}`)
  await until('answered again', () => peer.text.endsWith('/b'))
  assert.equal(statuses(peer), 2)
  peer.socket.destroy()
})

onBothServers('a response larger than the socket buffers reports when it was accepted', async ({ open }) => {
  const made = await given(open)
  let finished = 0
  const large = 'x'.repeat(20_000_000)
  made.serve = (exchange) => {
    exchange.listener = { drained() {}, finished: () => finished++ }
    exchange.answer(200, {}, large)
  }
  const peer = await client(made.port)
  peer.socket.pause()
  peer.socket.write(get('/a'))
  await until('asked', () => made.served.length === 1)
  await new Promise((resolve) => setTimeout(resolve, 100))
  assert.equal(finished, 0)
  assert.ok((made.served[0]?.unsent ?? 0) > 0)
  peer.socket.resume()
  await until('finished', () => finished === 1, 20_000)
  assert.equal(made.served[0]?.unsent, 0)
  await until('read', () => peer.text.length > large.length, 20_000)
  peer.socket.destroy()
})

for (const streamed of [false, true]) {
  const what = streamed ? 'the end of a stream' : 'a complete response'
  const large = 'x'.repeat(streamed ? 10_000_000 : 20_000_000)
  const withTimeout = async (open: OpenHttpServer, writeTimeout: number) => {
    const made = await given(open, { timing: { keepAlive: 60_000 } })
    made.serve = (exchange) => {
      exchange.writeTimeout = writeTimeout
      const body = exchange.target === '/small' ? exchange.target : large
      if (!streamed) return exchange.answer(200, {}, body)
      exchange.begin(200, {})
      exchange.write(body)
      exchange.end(body)
    }
    return made
  }

  for (const [position, sent] of [
    ['', get('/a')],
    [', after a small one', get('/small') + get('/a')],
    [', with a pipelined one after it', get('/a') + get('/small')],
  ] as const)
    onBothServers(`a client that reads nothing of ${what}${position} is disconnected`, async ({ open }, t) => {
      const made = await withTimeout(open, 300)
      const stalled = await client(made.port)
      t.after(() => stalled.socket.destroy())
      stalled.socket.pause()
      stalled.socket.write(sent)
      await until('disconnected', () => made.left.length === 1)
      assert.ok(made.served.length > 0)
    })

  onBothServers(
    `a client that reads ${what} slowly is not disconnected, nor is one that has read it`,
    async ({ open }, t) => {
      const made = await withTimeout(open, 800)
      const slow = await client(made.port)
      t.after(() => slow.socket.destroy())
      // A part each 100 ms, so that the response takes several times the write timeout.
      slow.socket.removeAllListeners('data')
      let taken = 0
      const turns = setInterval(() => {
        const part: string | null = slow.socket.read(500_000) ?? slow.socket.read()
        taken += part?.length ?? 0
      }, 100)
      t.after(() => clearInterval(turns))
      slow.socket.on('readable', () => {})
      slow.socket.write(get('/a'))
      await until('read', () => taken > 20_000_000 || slow.closed, 40_000)
      await new Promise((resolve) => setTimeout(resolve, 1_700))
      assert.deepEqual([taken > 20_000_000, slow.closed, made.left.length], [true, false, 0])
    },
  )
}

for (const how of ['aborted', 'timed out'] as const)
  onBothServers(`a partial response that ends with its connection does not look complete: ${how}`, async ({ open }) => {
    const made = await given(open)
    made.serve = (exchange) => {
      exchange.writeTimeout = 100
      exchange.begin(200, {})
      exchange.write('half')
      if (how === 'aborted') return void setTimeout(() => exchange.cut(), 50)
      exchange.write('x'.repeat(20_000_000))
      exchange.end('')
    }
    const peer = await client(made.port)
    if (how === 'timed out') peer.socket.pause()
    peer.socket.write(get('/a', '', '1.0'))
    await until('left', () => made.left.length === 1)
    peer.socket.resume()
    await until('closed', () => peer.closed)
    assert.match(String(peer.socket.errored), /ECONNRESET/)
  })

onBothServers('a client that half-closes during a response and reads nothing is disconnected', async ({ open }, t) => {
  const made = await given(open)
  made.serve = () => {}
  const stalled = await client(made.port)
  t.after(() => stalled.socket.destroy())
  stalled.socket.pause()
  stalled.socket.write(get('/a'))
  await until('asked', () => made.served.length === 1)
  const [exchange] = made.served
  assert.ok(exchange)
  exchange.begin(200, {})
  // More than the kernel's buffers.
  while (exchange.unsent === 0) exchange.write('x'.repeat(4_000))
  stalled.socket.end()
  await until('left', () => made.left.length === 1)
})

onBothServers('bytes sent before the connection is accepted are read once, in order', async ({ open }) => {
  const made = await given(open)
  const targets = Array.from({ length: 1_000 }, (_, index) => `/${index}`)
  // More than the first read, split anywhere.
  const text = await early(made.port, targets.map((target) => get(target)).join(''), false)
  assert.deepEqual(text.match(/(?<=\r\n\r\n)\/\d+/g), targets)
  assert.deepEqual(made.failed, [])
})

onBothServers('a request and a half-close before the connection is accepted get a response', async ({ open }) => {
  const made = await given(open)
  assert.match(await early(made.port, get('/a'), true), /^HTTP\/1\.1 200 .*\r\n\/a$/s)
  assert.equal(await early(made.port, '', true), '')
  assert.match(await early(made.port, 'rubbish\r\n\r\n', true), /^HTTP\/1\.1 400 /)
  await until('reported', () => made.left.length === 3)
  assert.deepEqual(made.failed, [])
})

onBothServers(
  'an upgrade sent before the connection is accepted is handed over with the bytes after it',
  async ({ open }) => {
    const made = await given(open)
    made.upgrade = (socket, first) => {
      let received = first.toString('latin1')
      socket.on('data', (part: Buffer) => {
        received += part.toString('latin1')
      })
      socket.on('end', () => socket.end(`${received.length} ${received.slice(-3)}`))
    }
    const rest = `${'x'.repeat(40_000)}end`
    const text = await early(made.port, get('/', 'connection: upgrade\r\nupgrade: other\r\n') + rest, true)
    assert.equal(text, `${rest.length} end`)
  },
)

onBothServers('a closed connection is reported once, and idle ones can be closed', async ({ open }) => {
  const made = await given(open)
  const peer = await client(made.port, get('/a'))
  await until('answered', () => statuses(peer) === 1)
  made.server.closeIdle()
  await until('closed', () => peer.closed)
  await until('reported', () => made.left.length === 1)
})

test('own server: pipelined requests wait, and the socket is paused at the limit', async () => {
  const made = await given(http1Server)
  made.serve = () => {}
  const count = 500_000
  const peer = await client(made.port, get('/first'))
  await until('under way', () => made.served.length === 1)
  peer.socket.write(get('/ahead').repeat(count))
  await new Promise((resolve) => setTimeout(resolve, 200))
  assert.equal(made.served.length, 1)
  assert.ok(peer.socket.writableLength > 0, 'the client keeps the rest')
  made.serve = echo
  made.served[0]?.answer(200, {}, '/first')
  await until('all of it', () => statuses(peer) >= 999, 20_000)
  await until('closed', () => peer.closed)
  // The limit of requests per connection.
  assert.equal(statuses(peer), 1_000)
})

test('own server: an error of the handler is reported, and the connection aborted', async () => {
  const made = await given(http1Server)
  made.serve = () => {
    throw new Error('a bug')
  }
  const peer = await client(made.port, get('/a'))
  await until('closed', () => peer.closed)
  assert.deepEqual([peer.text, made.failed.map(String)], ['', ['Error: a bug']])
  made.serve = echo
  const next = await client(made.port, get('/b'))
  await until('answered', () => next.text.endsWith('/b'))
  next.socket.destroy()
})

test('own server: a blocked event loop makes no request late', async () => {
  const made = await given(http1Server, { timing: { head: 600, check: 20 } })
  const silent = await client(made.port)
  const [busy, busier] = [await client(made.port), await client(made.port)]
  const peer = await client(made.port)
  const stand = (ms: number) => {
    for (const over = performance.now() + ms; performance.now() < over; );
  }
  made.serve = (exchange) => {
    // Blocks again right after the check of the timeouts.
    if (exchange.target === '/busy') {
      busier.socket.write(get('/busier'))
      stand(100)
    }
    // It arrives before its timeout, and is read after it.
    if (exchange.target === '/busier') {
      peer.socket.write(get('/a'))
      stand(700)
    }
    echo(exchange)
  }
  busy.socket.write(get('/busy'))
  await until('both have their answers', () => peer.text !== '' && silent.text !== '')
  assert.match(peer.text, /^HTTP\/1\.1 200 OK\r\n/)
  assert.match(silent.text, /^HTTP\/1\.1 400 late\r\n/)
  for (const { socket } of [peer, busy, busier]) socket.destroy()
})
