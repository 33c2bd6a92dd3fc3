/** What a front owes whoever connects, and the house: the wire's own rules, without anything that is asked. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { until } from '../../../../test/support/upstream.ts'
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

type Given = {
  readonly front: HttpServer
  readonly port: number
  readonly served: HttpExchange[]
  readonly failed: unknown[]
  readonly left: ClientConnection[]
  serve: (exchange: HttpExchange) => void
  /** Takes over whoever wants another protocol; null: nobody may. */
  upgrade: ((socket: Socket, first: Buffer) => void) | null
}

const FRONTS: readonly (readonly [name: string, open: OpenHttpServer])[] = [
  ['own', http1Server],
  ['node', nodeServer],
]
const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers) await close()
})

/** Answers 200 and the target, once the body is in. */
const echo = (exchange: HttpExchange): void =>
  exchange.pipeBody({ push() {}, end: () => exchange.answer(200, {}, exchange.target) })

const given = async (
  open: OpenHttpServer,
  {
    timing,
    ...options
  }: Partial<Omit<HttpServerOptions, 'timing'>> & { timing?: Partial<HttpServerOptions['timing']> } = {},
): Promise<Given> => {
  const lines = new Set<ClientConnection>()
  const made: Omit<Given, 'front' | 'port'> = { served: [], failed: [], left: [], serve: echo, upgrade: null }
  const house: ServerHandler<ClientConnection> = {
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
    closed(line) {
      lines.delete(line)
      made.left.push(line)
    },
    failed: (error) => void made.failed.push(error),
  }
  const front = open(house, {
    timing: { head: 2_000, request: 2_000, check: 10, keepAlive: 2_000, linger: 100, ...timing },
    headBytes: 16 * 1024,
    requestsPerSocket: 1_000,
    ...options,
  })
  const port = await front.listen({ port: 0, host: '127.0.0.1' })
  closers.push(async () => {
    const closed = front.close()
    for (const line of lines) line.destroy()
    await closed
  })
  return Object.assign(made, { front, port })
}

type Client = { readonly socket: Socket; text: string; closed: boolean }

const client = async (port: number, ...pieces: readonly string[]): Promise<Client> => {
  const socket = connect(port, '127.0.0.1')
  const made: Client = { socket, text: '', closed: false }
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

/** A client that has said all of it, and its end if it is to, before its connection is accepted; what it then hears until the end. */
const early = async (port: number, text: string, ends: boolean): Promise<string> => {
  const said = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads')
     const { port, text, ends, said } = workerData
     const socket = require('node:net').connect(port, '127.0.0.1')
     let heard = ''
     socket.setEncoding('latin1').on('data', (part) => { heard += part })
     socket.on('error', () => {}).on('close', () => parentPort.postMessage(heard))
     socket.write(text, 'latin1', () => { Atomics.store(said, 0, 1); Atomics.notify(said, 0) })
     if (ends) socket.end()`,
    { eval: true, workerData: { port, text, ends, said } },
  )
  Atomics.wait(said, 0, 0, 10_000)
  const [heard] = await once(worker, 'message')
  await worker.terminate()
  return heard
}

const get = (target: string, headers = '', version = '1.1') =>
  `GET ${target} HTTP/${version}\r\nhost: localhost\r\n${headers}\r\n`
const statuses = ({ text }: Client) => text.match(/HTTP\/1\.1 \d+/g)?.length ?? 0

for (const [name, open] of FRONTS)
  describe(`${name} front`, () => {
    test('an answer carries its length, the time, and what becomes of the connection', async () => {
      const { port } = await given(open)
      const asker = await client(port, get('/a'))
      await until('answered', () => asker.text.endsWith('/a'))
      assert.match(asker.text, /^HTTP\/1\.1 200 OK\r\n/)
      assert.match(asker.text, /\r\ncontent-length: 2\r\n/i)
      assert.match(asker.text, /\r\nconnection: keep-alive\r\nkeep-alive: timeout=2\b/i)
      const date = /\r\ndate: ([^\r]+)/i.exec(asker.text)?.[1] ?? ''
      assert.ok(Math.abs(Date.parse(date) - Date.now()) < 30_000, date)
      asker.socket.destroy()
    })

    test('an idle connection is kept for its time, and then closed without a word', async () => {
      const { port } = await given(open, { timing: { keepAlive: 1_000 } })
      const asker = await client(port, get('/a'))
      await until('answered', () => statuses(asker) === 1)
      await new Promise((resolve) => setTimeout(resolve, 200))
      asker.socket.write(get('/b'))
      await until('answered again', () => statuses(asker) === 2)
      await until('closed', () => asker.closed, 10_000)
      assert.equal(statuses(asker), 2)
    })

    test('the last request a connection may have is answered with its end', async () => {
      const { port } = await given(open, { requestsPerSocket: 3 })
      const asker = await client(port)
      for (const number of [1, 2, 3]) {
        asker.socket.write(get('/a'))
        await until('answered', () => statuses(asker) === number)
      }
      // Node's server now and then leaves the closing to its keep-alive timeout, 3 s here.
      await until('closed', () => asker.closed, 10_000)
      assert.deepEqual(
        asker.text
          .match(/connection: [a-z-]+/gi)
          ?.at(-1)
          ?.toLowerCase(),
        'connection: close',
      )
    })

    for (const [what, version, headers, stays] of [
      ['HTTP/1.1', '1.1', '', true],
      ['HTTP/1.1 that says close', '1.1', 'connection: close\r\n', false],
      ['HTTP/1.0', '1.0', '', false],
      ['HTTP/1.0 that says keep-alive', '1.0', 'connection: keep-alive\r\n', true],
    ] as const)
      test(`${what}: the connection ${stays ? 'stays' : 'is closed'}`, async () => {
        const { port } = await given(open)
        const asker = await client(port, get('/a', headers, version))
        await until('answered', () => asker.text.endsWith('/a'))
        if (stays) {
          asker.socket.write(get('/b', headers, version))
          await until('answered again', () => asker.text.endsWith('/b'))
        } else await until('closed', () => asker.closed)
        asker.socket.destroy()
      })

    test('to HTTP/1.0 nothing is chunked, the end of the connection is the end of the answer', async () => {
      const made = await given(open)
      made.serve = (exchange) => {
        exchange.begin(200, {})
        exchange.write('one')
        exchange.write(Buffer.from('two'))
        exchange.end('three')
      }
      const asker = await client(made.port, get('/a', 'connection: keep-alive\r\n', '1.0'))
      await until('closed', () => asker.closed)
      assert.match(asker.text, /\r\n\r\nonetwothree$/)
      assert.doesNotMatch(asker.text, /chunked|keep-alive/i)
    })

    test('to HEAD goes the head alone, of a whole answer and of a stream', async () => {
      const made = await given(open)
      made.serve = (exchange) => {
        if (exchange.target === '/whole') return exchange.answer(200, {}, 'whole')
        exchange.begin(200, {})
        exchange.write(Buffer.from('one'))
        exchange.write(Buffer.from('two'))
        exchange.end('three')
      }
      const asker = await client(made.port, get('/whole').replace('GET', 'HEAD'))
      await until('answered', () => asker.text.includes('\r\n\r\n'))
      assert.match(asker.text, /content-length: 5\r\n(?:.+\r\n)*\r\n$/i)
      asker.socket.write(get('/stream').replace('GET', 'HEAD'))
      await until('answered again', () => /chunked\r\n(?:.+\r\n)*\r\n/i.test(asker.text))
      await new Promise((resolve) => setTimeout(resolve, 30))
      assert.doesNotMatch(asker.text, /one|two|three|\r\n\r\n0/)
      asker.socket.destroy()
    })

    for (const [what, header, body] of [
      ['ASCII', 'plain', 'plain'],
      ['letters of Latin-1 in a header', 'caf\xe9', 'plain'],
      ['a body in UTF-8', 'plain', 'zwölf ☃ 😀'],
      ['both', 'caf\xe9', 'zwölf ☃ 😀'],
    ] as const)
      for (const how of ['whole', 'streamed', 'streamed as bytes'] as const)
        test(`bytes are what they should be, ${how}: ${what}`, async () => {
          const made = await given(open)
          const streamed = how !== 'whole'
          made.serve = (exchange) => {
            if (!streamed) return exchange.answer(200, { 'x-name': header }, body)
            exchange.begin(200, { 'x-name': header })
            exchange.write(how === 'streamed' ? body : Buffer.from(body))
            exchange.end(body)
          }
          const asker = await client(made.port, get('/', 'connection: close\r\n'))
          await until('closed', () => asker.closed)
          const bytes = Buffer.from(body)
          const sent = bytes.toString('latin1')
          // Node sends a head in the encoding of the body.
          if (name === 'own' || header === 'plain') assert.ok(asker.text.includes(`x-name: ${header}\r\n`), asker.text)
          const piece = `${bytes.length.toString(16)}\r\n${sent}\r\n`
          assert.ok(asker.text.endsWith(`\r\n\r\n${streamed ? `${piece}${piece}0\r\n\r\n` : sent}`), asker.text)
          if (!streamed) assert.match(asker.text, new RegExp(`content-length: ${bytes.length}\r\n`, 'i'))
        })

    test('bytes are the writer’s again at once, though their reader is slow', async () => {
      const made = await given(open)
      const piece = Buffer.alloc(60_000)
      const full = new Promise<void>((resolve) => {
        made.serve = (exchange) => {
          exchange.begin(200, {})
          let room = true
          // What waits is more than what the system takes.
          for (let letter = 0; letter < 26 * 10; letter++) {
            room = exchange.write(piece.fill(97 + (letter % 26)))
            piece.fill('-')
          }
          assert.equal(room, false)
          exchange.end('')
          resolve()
        }
      })
      const asker = await client(made.port)
      asker.socket.pause()
      asker.socket.write(get('/', 'connection: close\r\n'))
      await full
      asker.socket.resume()
      await until('closed', () => asker.closed)
      const alphabet = Array.from(
        { length: 26 },
        (_, letter) => `${piece.length.toString(16)}\r\n${String.fromCharCode(97 + letter).repeat(piece.length)}\r\n`,
      ).join('')
      const body = asker.text.slice(asker.text.indexOf('\r\n\r\n') + 4)
      assert.ok(body === `${alphabet.repeat(10)}0\r\n\r\n`, 'as it was written')
    })

    test('a request whose answer does not wait for its body is followed by the next one', async () => {
      const made = await given(open)
      made.serve = (exchange) => exchange.answer(200, {}, exchange.target)
      const post = 'POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n'
      const asker = await client(made.port, post)
      await until('answered', () => asker.text.endsWith('/a'))
      asker.socket.write(`0123456789${get('/b')}`)
      await until('answered again', () => asker.text.endsWith('/b'))
      assert.equal(statuses(asker), 2)
      asker.socket.destroy()
    })

    test('of an answer too large for the connection it is told when it has been taken', async () => {
      const made = await given(open)
      let finished = 0
      const large = 'x'.repeat(20_000_000)
      made.serve = (exchange) => {
        exchange.listener = { drained() {}, finished: () => finished++ }
        exchange.answer(200, {}, large)
      }
      const asker = await client(made.port)
      asker.socket.pause()
      asker.socket.write(get('/a'))
      await until('asked', () => made.served.length === 1)
      await new Promise((resolve) => setTimeout(resolve, 100))
      assert.equal(finished, 0)
      assert.ok((made.served[0]?.unsent ?? 0) > 0)
      asker.socket.resume()
      await until('finished', () => finished === 1, 20_000)
      assert.equal(made.served[0]?.unsent, 0)
      await until('read', () => asker.text.length > large.length, 20_000)
      asker.socket.destroy()
    })

    for (const streamed of [false, true]) {
      const what = streamed ? 'the end of a stream' : 'a whole answer'
      const large = 'x'.repeat(streamed ? 10_000_000 : 20_000_000)
      const patient = async (patience: number) => {
        const made = await given(open, { timing: { keepAlive: 60_000 } })
        made.serve = (exchange) => {
          exchange.writeTimeout = patience
          const body = exchange.target === '/small' ? exchange.target : large
          if (!streamed) return exchange.answer(200, {}, body)
          exchange.begin(200, {})
          exchange.write(body)
          exchange.end(body)
        }
        return made
      }

      for (const [behind, sent] of [
        ['', get('/a')],
        [', behind a small one', get('/small') + get('/a')],
        [', with another one behind it', get('/a') + get('/small')],
      ] as const)
        test(`whoever takes nothing of ${what}${behind} is hung up on`, async (t) => {
          const made = await patient(300)
          const deaf = await client(made.port)
          t.after(() => deaf.socket.destroy())
          deaf.socket.pause()
          deaf.socket.write(sent)
          await until('hung up on', () => made.left.length === 1, 10_000)
          assert.ok(made.served.length > 0)
        })

      test(`whoever takes ${what} slowly is not hung up on, nor is who has taken it`, async (t) => {
        const made = await patient(800)
        const slow = await client(made.port)
        t.after(() => slow.socket.destroy())
        // A part each 100 ms, so that all of it takes several times the patience.
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
      })
    }

    for (const how of ['cut', 'hung up on'] as const)
      test(`half an answer that ends with its connection is not taken for whole: ${how}`, async () => {
        const made = await given(open)
        made.serve = (exchange) => {
          exchange.writeTimeout = 100
          exchange.begin(200, {})
          exchange.write('half')
          if (how === 'cut') return void setTimeout(() => exchange.cut(), 50)
          exchange.write('x'.repeat(20_000_000))
          exchange.end('')
        }
        const asker = await client(made.port)
        if (how === 'hung up on') asker.socket.pause()
        asker.socket.write(get('/a', '', '1.0'))
        await until('left', () => made.left.length === 1)
        asker.socket.resume()
        await until('closed', () => asker.closed)
        assert.match(String(asker.socket.errored), /ECONNRESET/)
      })

    test('who says no more in the middle of an answer, and takes nothing of it, has left', async (t) => {
      const made = await given(open)
      made.serve = () => {}
      const deaf = await client(made.port)
      t.after(() => deaf.socket.destroy())
      deaf.socket.pause()
      deaf.socket.write(get('/a'))
      await until('asked', () => made.served.length === 1)
      const [exchange] = made.served
      assert.ok(exchange)
      exchange.begin(200, {})
      // More than the kernel keeps for a connection.
      while (exchange.unsent === 0) exchange.write('x'.repeat(4_000))
      deaf.socket.end()
      await until('left', () => made.left.length === 1)
    })

    test('what was said before the connection is accepted is read once, and what follows behind it', async () => {
      const made = await given(open)
      const targets = Array.from({ length: 1_000 }, (_, index) => `/${index}`)
      // More than is taken of it at first, cut anywhere.
      const text = await early(made.port, targets.map((target) => get(target)).join(''), false)
      assert.deepEqual(text.match(/(?<=\r\n\r\n)\/\d+/g), targets)
      assert.deepEqual(made.failed, [])
    })

    test('who has said all before the connection is accepted, and its end, is answered', async () => {
      const made = await given(open)
      assert.match(await early(made.port, get('/a'), true), /^HTTP\/1\.1 200 .*\r\n\/a$/s)
      assert.equal(await early(made.port, '', true), '')
      assert.match(await early(made.port, 'rubbish\r\n\r\n', true), /^HTTP\/1\.1 400 /)
      await until('told', () => made.left.length === 3)
      assert.deepEqual(made.failed, [])
    })

    test('who wants another protocol before the connection is accepted is handed over with what stands behind', async () => {
      const made = await given(open)
      made.upgrade = (socket, first) => {
        let heard = first.toString('latin1')
        socket.on('data', (part: Buffer) => {
          heard += part.toString('latin1')
        })
        socket.on('end', () => socket.end(`${heard.length} ${heard.slice(-3)}`))
      }
      const behind = `${'x'.repeat(40_000)}end`
      const text = await early(made.port, get('/', 'connection: upgrade\r\nupgrade: other\r\n') + behind, true)
      assert.equal(text, `${behind.length} end`)
    })

    test('whoever leaves is told of once, and who is idle can be hung up on', async () => {
      const made = await given(open)
      const asker = await client(made.port, get('/a'))
      await until('answered', () => statuses(asker) === 1)
      made.front.closeIdle()
      await until('closed', () => asker.closed)
      await until('told', () => made.left.length === 1)
    })
  })

test('own front: what is sent ahead waits its turn, and no more of it is read than that', async () => {
  const made = await given(http1Server)
  made.serve = () => {}
  const count = 500_000
  const asker = await client(made.port, get('/first'))
  await until('under way', () => made.served.length === 1)
  asker.socket.write(get('/ahead').repeat(count))
  await new Promise((resolve) => setTimeout(resolve, 200))
  assert.equal(made.served.length, 1)
  assert.ok(asker.socket.writableLength > 0, 'the rest waits with the client')
  made.serve = echo
  made.served[0]?.answer(200, {}, '/first')
  await until('all of it', () => statuses(asker) >= 999, 20_000)
  await until('closed', () => asker.closed)
  // A connection has its number of requests.
  assert.equal(statuses(asker), 1_000)
})

test('own front: an error of the house is told, and the connection is cut', async () => {
  const made = await given(http1Server)
  made.serve = () => {
    throw new Error('a bug')
  }
  const asker = await client(made.port, get('/a'))
  await until('closed', () => asker.closed)
  assert.deepEqual([asker.text, made.failed.map(String)], ['', ['Error: a bug']])
  made.serve = echo
  const next = await client(made.port, get('/b'))
  await until('answered', () => next.text.endsWith('/b'))
  next.socket.destroy()
})

test('own front: nobody is late because the process stood still', async () => {
  const made = await given(http1Server, { timing: { head: 600, check: 20 } })
  const silent = await client(made.port)
  const [busy, busier] = [await client(made.port), await client(made.port)]
  const asker = await client(made.port)
  const stand = (ms: number) => {
    for (const over = performance.now() + ms; performance.now() < over; );
  }
  made.serve = (exchange) => {
    // And stands still again as soon as it has looked at the time.
    if (exchange.target === '/busy') {
      busier.socket.write(get('/busier'))
      stand(100)
    }
    // It is here before its time is over, and is read after it.
    if (exchange.target === '/busier') {
      asker.socket.write(get('/a'))
      stand(700)
    }
    echo(exchange)
  }
  busy.socket.write(get('/busy'))
  await until('both have their answers', () => asker.text !== '' && silent.text !== '')
  assert.match(asker.text, /^HTTP\/1\.1 200 OK\r\n/)
  assert.match(silent.text, /^HTTP\/1\.1 400 late\r\n/)
  for (const { socket } of [asker, busy, busier]) socket.destroy()
})
