import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import {
  brotliCompressSync,
  constants,
  createGzip,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib'
import { selfSigned } from '../../../test/support/certificate.ts'
import { egressWith } from '../../../test/support/egress.ts'
import type { SecureServer } from '../../../test/support/secure-server.ts'
import { type Act, refusingUrl, type Script, startUpstream, until } from '../../../test/support/upstream.ts'
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, OngoingCall, UpstreamCall } from '../../core/world.ts'
import { connectionFor, dialer } from './dial.ts'

/** The events of one call, in order. */
type CallRecord = {
  readonly order: string[]
  status?: number
  headers?: HeaderLookup
  text: string
  failure?: Failure
  readonly done: Promise<void>
  ongoing: OngoingCall
}

const send = (
  dial: Dial,
  call: Partial<UpstreamCall> & { url: string },
  onBytes: (record: CallRecord) => boolean = () => true,
): CallRecord => {
  let settle = () => {}
  const decoder = new TextDecoder()
  const done = new Promise<void>((resolve) => {
    settle = resolve
  })
  const record: CallRecord = { order: [], text: '', done, ongoing: { abort() {}, resume() {} } }
  const note = (what: string) => {
    if (record.order.at(-1) !== what || what !== 'bytes') record.order.push(what)
  }
  record.ongoing = dial(
    { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}', connectTimeout: 2_000, ...call },
    {
      onHeaders(status, headers) {
        note('head')
        record.status = status
        record.headers = headers
      },
      onBody(chunk) {
        note('bytes')
        record.text += decoder.decode(chunk, { stream: true })
        return onBytes(record)
      },
      onEnd() {
        note('end')
        settle()
      },
      onFailure(failure) {
        note('failed')
        record.failure = failure
        settle()
      },
    },
  )
  return record
}

const clients = { own: await connectionFor('own'), undici: await connectionFor('undici') }

const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers) await close()
})

const fixtureFor = (client: 'own' | 'undici') => {
  const open = clients[client]
  const given = async (script: Script | Act, options: Parameters<typeof startUpstream>[1] = {}) => {
    const upstream = await startUpstream(typeof script === 'function' ? script : () => script, options)
    const made = dialer({ open, egress: () => egressWith(options.tls ? { ca: options.tls.cert } : {}) })
    closers.push(async () => {
      await made.close()
      await upstream.close()
    })
    return { upstream, dial: made.dial, url: `${upstream.url}/v1/chat/completions` }
  }
  return { open, given }
}

/** All tests run on both clients; each is the reference for the other. */
const onBothClients = (
  name: string,
  run: (fixture: ReturnType<typeof fixtureFor>, t: TestContext) => void | Promise<void>,
): void => {
  for (const variant of ['own', 'undici'] as const)
    test(`${variant} client: ${name}`, (t) => run(fixtureFor(variant), t))
}

onBothClients(
  'dial: a response is emitted as head, bytes, end, and the request is sent unchanged',
  async ({ given }) => {
    const { upstream, dial, url } = await given({
      do: 'answer',
      body: { fine: true },
      headers: { 'x-request-id': 'abc' },
    })
    const record = send(dial, {
      url: `${url}?api-version=1`,
      headers: { authorization: 'Bearer sk-test', 'content-type': 'application/json' },
      body: '{"model":"é"}',
    })
    await record.done
    assert.deepEqual(record.order, ['head', 'bytes', 'end'])
    assert.equal(record.status, 200)
    assert.equal(record.text, '{"fine":true}')
    assert.equal(record.headers?.('x-request-id'), 'abc')
    assert.equal(record.headers?.('constructor'), undefined)
    const [request] = upstream.requests
    assert.equal(request?.path, '/v1/chat/completions?api-version=1')
    assert.equal(request?.key, 'sk-test')
    assert.equal(request?.body, '{"model":"é"}')
    assert.equal(request?.headers['content-length'], '14')
  },
)

onBothClients('dial: sequential calls share one connection, concurrent calls use several', async ({ given }) => {
  const { upstream, dial, url } = await given({ do: 'answer', body: 'a', after: 20 })
  for (let i = 0; i < 3; i++) await send(dial, { url }).done
  assert.equal(upstream.connections(), 1)
  await Promise.all([1, 2, 3].map(() => send(dial, { url }).done))
  assert.equal(upstream.connections(), 3)
})

onBothClients('dial: TLS connections are reused under load', async ({ open }) => {
  const server = new Worker(new URL('../../../test/support/secure-server.ts', import.meta.url))
  // The first message of that worker.
  const [{ port, cert }]: [SecureServer] = (await once(server, 'message')) as [SecureServer]
  const made = dialer({ open, egress: () => egressWith({ ca: cert }) })
  closers.push(async () => {
    await made.close()
    await server.terminate()
  })
  const many = 32
  const worker = async () => {
    for (let call = 0; call < 40; call++) {
      const record = send(made.dial, { url: `https://127.0.0.1:${port}/x`, body: 'x'.repeat(900) })
      await record.done
      assert.equal(record.status, 200)
      // A blocked loop: responses arrive before Node reports their requests as sent.
      for (const until = performance.now() + 0.05; performance.now() < until; );
    }
  }
  await Promise.all(Array.from({ length: many }, worker))
  server.postMessage('how many')
  const [connections]: [number] = (await once(server, 'message')) as [number]
  assert.ok(connections <= many + 2, `${connections} connections for ${many} at once`)
})

onBothClients('dial: a redirect is not followed', async ({ given }) => {
  const { upstream, dial, url } = await given({ do: 'answer', status: 302, headers: { location: '/elsewhere' } })
  const record = send(dial, { url })
  await record.done
  assert.equal(record.status, 302)
  assert.equal(upstream.requests.length, 1)
})

const sse = ['data: one\n\n', 'data: two\n\n']
const breaks: [name: string, act: Act, order: string[], kind: string | undefined][] = [
  ['a stream in one piece', { do: 'stream', pieces: sse }, ['head', 'bytes', 'end'], undefined],
  ['a stream in single bytes', { do: 'stream', pieces: sse, slice: 1, gap: 1 }, ['head', 'bytes', 'end'], undefined],
  [
    'a stream that ends with its connection',
    { do: 'stream', pieces: sse, untilClose: true },
    ['head', 'bytes', 'end'],
    undefined,
  ],
  ['a response without a body', { do: 'answer', status: 204 }, ['head', 'end'], undefined],
  ['RST without a head', { do: 'reset' }, ['failed'], 'reset'],
  ['FIN without a head', { do: 'close' }, ['failed'], 'reset'],
  [
    'FIN in the middle of a stream',
    { do: 'stream', pieces: sse, gap: 2, ending: 'close' },
    ['head', 'bytes', 'failed'],
    'truncated',
  ],
  [
    'RST in the middle of a stream',
    { do: 'stream', pieces: sse, gap: 2, ending: 'reset' },
    ['head', 'bytes', 'failed'],
    'reset',
  ],
  [
    'shorter than its content-length',
    { do: 'raw', bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nshort' },
    ['head', 'bytes', 'failed'],
    'truncated',
  ],
  ['not HTTP at all', { do: 'raw', bytes: 'SSH-2.0-OpenSSH_9.9\r\n' }, ['failed'], 'not_http'],
  [
    'a chunk whose size is not a number',
    { do: 'raw', bytes: 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n', ending: 'stall' },
    ['head', 'failed'],
    'not_http',
  ],
  [
    'both a length and chunks',
    {
      do: 'raw',
      bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
    },
    ['failed'],
    'not_http',
  ],
  [
    'a head of 17 KiB',
    { do: 'raw', bytes: `HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(17 * 1024)}\r\ncontent-length: 0\r\n\r\n` },
    ['failed'],
    'not_http',
  ],
  [
    'interim responses before the final one',
    {
      do: 'raw',
      bytes: 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
      ending: 'stall',
    },
    ['head', 'bytes', 'end'],
    undefined,
  ],
  [
    'endless interim responses',
    { do: 'raw', bytes: 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100), ending: 'stall' },
    ['failed'],
    'not_http',
  ],
  [
    'an unrequested upgrade',
    { do: 'raw', bytes: 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n' },
    ['failed'],
    'not_http',
  ],
  [
    'bytes after the response',
    {
      do: 'raw',
      bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil',
      ending: 'stall',
    },
    ['head', 'bytes', 'end'],
    undefined,
  ],
]
for (const [name, act, order, kind] of breaks)
  onBothClients(`dial: ${name}`, async ({ given }) => {
    const { upstream, dial, url } = await given(act)
    const record = send(dial, { url })
    await record.done
    assert.deepEqual(record.order, order)
    assert.equal(record.failure?.kind, kind)
    assert.equal(record.failure?.unsent, undefined)
    assert.equal(upstream.requests.length, 1, 'a failure on a new connection is not retried')
  })

onBothClients('dial: bytes after a response are never part of the next one', async ({ given }) => {
  const { dial, url, upstream } = await given(({ number }) =>
    number === 0
      ? {
          do: 'raw',
          bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil',
          ending: 'stall',
        }
      : { do: 'answer', body: 'good' },
  )
  const first = send(dial, { url })
  await first.done
  const second = send(dial, { url })
  await second.done
  assert.equal(first.text, 'ok')
  assert.equal(second.text, 'good')
  assert.equal(upstream.connections(), 2)
})

onBothClients('dial: a refused connection is reported as unsent', async ({ open }) => {
  const made = dialer({ open })
  const record = send(made.dial, { url: `${await refusingUrl()}/v1` })
  await record.done
  assert.deepEqual(record.order, ['failed'])
  assert.equal(record.failure?.kind, 'refused')
  assert.equal(record.failure?.unsent, true)
  await made.close()
})

onBothClients('dial: an unknown host name', async ({ open }) => {
  const made = dialer({ open })
  const record = send(made.dial, { url: 'http://does-not-exist.invalid/v1' })
  await record.done
  assert.equal(record.failure?.kind, 'dns')
  assert.equal(record.failure?.unsent, true)
  await made.close()
})

// Resolving a name takes several turns of the event loop, like a TLS handshake.
for (const host of ['127.0.0.1', 'localhost'])
  onBothClients(`dial: a blocked event loop does not count towards the connect timeout: ${host}`, async ({ given }) => {
    const { dial, url } = await given({ do: 'answer', body: 'fine' })
    const record = send(dial, { url: url.replace('127.0.0.1', host), connectTimeout: 300 })
    for (const over = performance.now() + 600; performance.now() < over; );
    await record.done
    assert.deepEqual([record.text, record.failure], ['fine', undefined])
  })

onBothClients('dial: a TLS handshake that exceeds the connect timeout', async ({ open }) => {
  // Accepts connections and sends nothing, like a host after a firewall that drops packets.
  const sockets: Socket[] = []
  const silent = createServer((socket) => sockets.push(socket.resume()))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const made = dialer({ open })
  const record = send(made.dial, { url: `https://127.0.0.1:${port}/v1`, connectTimeout: 60 })
  await record.done
  assert.equal(record.failure?.kind, 'connect_timeout')
  assert.equal(record.failure?.unsent, true)
  const left = send(made.dial, { url: `https://127.0.0.1:${port}/v1`, connectTimeout: 0 })
  await until('connected', () => sockets.length === 2)
  left.ongoing.abort()
  await until('closed by the abort', () => sockets.every((socket) => socket.destroyed || socket.readableEnded))
  assert.deepEqual(left.order, [])
  await made.close()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => silent.close(resolve))
})

onBothClients(
  'dial: an untrusted certificate is rejected even with NODE_TLS_REJECT_UNAUTHORIZED=0; a trusted one works',
  async ({ open }) => {
    const { key, cert } = selfSigned()
    const upstream = await startUpstream(() => ({ do: 'answer', body: 'secret' }), { tls: { key, cert } })
    const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    const strict = dialer({ open })
    const refused = send(strict.dial, { url: `${upstream.url}/v1` })
    await refused.done
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
    assert.equal(refused.failure?.kind, 'tls')
    assert.equal(refused.failure?.unsent, true)
    assert.equal(upstream.requests.length, 0)
    const trusting = dialer({ open, egress: () => egressWith({ ca: cert }) })
    for (let i = 0; i < 2; i++) {
      const record = send(trusting.dial, { url: `${upstream.url}/v1` })
      await record.done
      assert.equal(record.text, 'secret')
    }
    assert.equal(upstream.connections(), 1, 'one TLS connection, reused')
    await strict.close()
    await trusting.close()
    await upstream.close()
  },
)

for (const how of ['close', 'reset'] as const)
  onBothClients(
    `dial: a stale connection that the upstream ends (${how}) is replaced, invisibly to the caller`,
    async ({ given }) => {
      const stale = new Set<number>()
      // Responds once, then ends the connection on the next request without a byte, like a server whose idle timer fires
      // while the request is on the network.
      const { upstream, dial, url } = await given(({ connection }) => {
        if (stale.has(connection)) return { do: how }
        stale.add(connection)
        return { do: 'answer', body: 'ok' }
      })
      for (let i = 0; i < 5; i++) {
        const record = send(dial, { url, body: `{"i":${i}}` })
        await record.done
        assert.deepEqual(record.order, ['head', 'bytes', 'end'], `call ${i}: ${record.failure?.message}`)
      }
      assert.equal(upstream.requests.length, 9, 'each later call found one stale connection')
    },
  )

onBothClients('dial: a stale connection is replaced once; a second break is a failure', async ({ given }) => {
  const { upstream, dial, url } = await given(({ number }) => (number === 0 ? { do: 'answer' } : { do: 'reset' }))
  await send(dial, { url }).done
  const record = send(dial, { url })
  await record.done
  assert.equal(record.failure?.kind, 'reset')
  assert.equal(upstream.requests.length, 3)
})

onBothClients('dial: a request whose connection breaks long after it was sent is not repeated', async ({ given }) => {
  const { upstream, dial, url } = await given(async ({ number }) => {
    if (number === 0) return { do: 'answer' }
    await new Promise((resolve) => setTimeout(resolve, 2_200))
    return { do: 'close' }
  })
  await send(dial, { url }).done
  const record = send(dial, { url })
  await record.done
  assert.equal(record.failure?.kind, 'reset')
  assert.equal(upstream.requests.length, 2)
})

onBothClients('dial: a request is not repeated after the first byte of its response', async ({ given }) => {
  const { upstream, dial, url } = await given(({ number }) =>
    number === 0 ? { do: 'answer' } : { do: 'raw', bytes: 'HTTP/1.1 2', ending: 'close' },
  )
  await send(dial, { url }).done
  const record = send(dial, { url })
  await record.done
  assert.ok(record.failure)
  assert.equal(upstream.requests.length, 2)
})

onBothClients(
  'dial: a request marked `once` uses a new connection and is not repeated when that breaks',
  async ({ given }) => {
    let requests = 0
    const { upstream, dial, url } = await given(() => (requests++ === 0 ? { do: 'answer', body: {} } : { do: 'reset' }))
    await send(dial, { url }).done
    // The first connection is idle now.
    await new Promise((resolve) => setTimeout(resolve, 50))
    const record = send(dial, { url, once: true })
    await record.done
    assert.equal(record.failure?.kind, 'reset')
    assert.equal(record.failure?.unsent, undefined)
    assert.deepEqual(
      upstream.requests.map(({ connection }) => connection),
      [0, 1],
    )
  },
)

onBothClients('dial: no call fails because the server keeps closing idle connections', async ({ given }) => {
  const { upstream, dial, url } = await given({ do: 'answer', body: 'ok' })
  const closing = setInterval(() => upstream.closeIdle(Math.random() < 0.5 ? 'close' : 'reset'), 1)
  try {
    for (let round = 0; round < 60; round++) {
      const records = await Promise.all(
        [1, 2, 3, 4].map(async () => {
          const call = send(dial, { url })
          await call.done
          return call
        }),
      )
      for (const { text, failure } of records) assert.equal(text, 'ok', failure?.message)
      await new Promise((resolve) => setTimeout(resolve, round % 3))
    }
  } finally {
    clearInterval(closing)
  }
  assert.ok(upstream.connections() > 4, `only ${upstream.connections()} connections: none was closed`)
})

for (const [name, act, when] of [
  ['while waiting for the head', { do: 'hang' }, (_: CallRecord) => true],
  [
    'between head and body',
    { do: 'stream', pieces: ['x'], first: 60_000 },
    (record: CallRecord) => record.status === 200,
  ],
  [
    'in the middle of a stream',
    { do: 'stream', pieces: ['x', 'y'], ending: 'stall' },
    (record: CallRecord) => record.text === 'xy',
  ],
] as const)
  onBothClients(`dial: abort ${name} closes the connection at once, and no event follows`, async ({ given }) => {
    const { upstream, dial, url } = await given(act)
    const record = send(dial, { url })
    await until('under way', () => upstream.requests.length === 1 && when(record))
    const order = [...record.order]
    record.ongoing.abort()
    record.ongoing.abort()
    record.ongoing.resume()
    await until('aborted upstream', () => upstream.requests[0]?.ended === 'aborted')
    assert.deepEqual(record.order, order)
  })

onBothClients('dial: aborted streams leave no connection open and do not reconnect', async ({ given }) => {
  const { upstream, dial, url } = await given({ do: 'stream', pieces: ['x'], ending: 'stall' })
  for (let i = 0; i < 20; i++) {
    const record = send(dial, { url })
    await until('first byte', () => record.text === 'x')
    record.ongoing.abort()
  }
  await until('all closed', () => upstream.open() === 0)
  assert.equal(upstream.connections(), 20)
})

onBothClients('dial: a listener may abort during an event', async ({ given }) => {
  const { upstream, dial, url } = await given({ do: 'stream', pieces: ['x', 'y', 'z'], gap: 5 })
  const record: CallRecord = send(dial, { url }, () => {
    record.ongoing.abort()
    return false
  })
  await until('aborted upstream', () => upstream.requests[0]?.ended === 'aborted')
  assert.deepEqual(record.order, ['head', 'bytes'])
})

for (const tls of [undefined, selfSigned()])
  onBothClients(
    `dial: a full listener applies backpressure and receives everything after it resumes${tls ? ', over TLS' : ''}`,
    async ({ given }) => {
      const megabyte = 'x'.repeat(1024 * 1024)
      const { upstream, dial, url } = await given(
        { do: 'stream', pieces: Array.from({ length: 24 }, () => megabyte) },
        tls ? { tls } : {},
      )
      let full = true
      const record = send(dial, { url }, () => !full)
      await until('first bytes', () => record.text.length > 0)
      await new Promise((resolve) => setTimeout(resolve, 100))
      const held = record.text.length
      assert.ok(held <= 128 * 1024, `${held} bytes were emitted after the listener was full`)
      assert.ok((upstream.requests[0]?.sent ?? 0) < 16 * 1024 * 1024, 'backpressure reaches the upstream')
      full = false
      record.ongoing.resume()
      await record.done
      assert.equal(record.text.length, 24 * 1024 * 1024)
      assert.equal(record.order.at(-1), 'end')
    },
  )

const plain = `{"text":"${'ä'.repeat(5_000)}"}`
for (const [encoding, bytes] of [
  ['gzip', gzipSync(plain)],
  ['x-gzip', gzipSync(plain)],
  ['br', brotliCompressSync(plain)],
  ['zstd', zstdCompressSync(plain)],
  ['deflate', deflateSync(plain)],
  ['deflate, bare', deflateRawSync(plain)],
  ['identity', Buffer.from(plain)],
] as const)
  onBothClients(`dial: unrequested content-encoding ${encoding}`, async ({ given }) => {
    const headers = { 'content-encoding': encoding.replace(', bare', '') }
    for (const act of [
      { do: 'answer', body: bytes, headers },
      { do: 'stream', pieces: [bytes], slice: 7, headers },
    ] as const) {
      const { dial, url } = await given(act)
      const record = send(dial, { url })
      await record.done
      assert.equal(record.failure, undefined)
      assert.equal(record.text, plain)
      assert.deepEqual(record.order, ['head', 'bytes', 'end'])
      if (encoding !== 'identity') assert.equal(record.headers?.('content-encoding'), undefined)
      if (encoding !== 'identity') assert.equal(record.headers?.('content-length'), undefined)
    }
  })

onBothClients('dial: an event of a compressed stream is emitted without waiting for the next', async ({ given }) => {
  const gzip = createGzip()
  const made: Buffer[] = []
  gzip.on('data', (chunk: Buffer) => made.push(chunk))
  gzip.write('data: one\n\n')
  await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve))
  const { dial, url } = await given({
    do: 'stream',
    pieces: made,
    ending: 'stall',
    headers: { 'content-encoding': 'gzip' },
  })
  const record = send(dial, { url })
  await until('the event', () => record.text === 'data: one\n\n')
  record.ongoing.abort()
})

for (const [name, headers, body, kind] of [
  ['two encodings', { 'content-encoding': 'gzip, br' }, 'x', 'malformed'],
  ['an unknown encoding', { 'content-encoding': 'constructor' }, 'x', 'malformed'],
  ['a body that does not match its encoding', { 'content-encoding': 'gzip' }, 'plain text', 'malformed'],
  ['cut in the middle', { 'content-encoding': 'gzip' }, gzipSync(plain).subarray(0, 40), 'truncated'],
  ['a bomb', { 'content-encoding': 'br' }, brotliCompressSync(Buffer.alloc(100_000_000)), 'malformed'],
] as const)
  onBothClients(`dial: compressed, ${name}`, async ({ open, given }) => {
    const { upstream, url } = await given({ do: 'answer', headers, body })
    const made = dialer({ open, maxDecodedBytes: 1024 * 1024 })
    const record = send(made.dial, { url })
    await record.done
    assert.equal(record.failure?.kind, kind)
    assert.equal(record.order.filter((what) => what === 'failed' || what === 'end').length, 1)
    assert.ok(record.text.length <= 1024 * 1024)
    await made.close()
    assert.equal(upstream.requests.length, 1)
  })

onBothClients('dial: no listener is called before dial has returned, even for invalid requests', async ({ given }) => {
  const { dial, url } = await given({ do: 'answer' })
  for (const call of [{ url, headers: { 'bad\nname': 'x' } }, { url: 'ftp://127.0.0.1/' }, { url: 'not a url' }]) {
    const record = send(dial, call)
    assert.deepEqual(record.order, [])
    await record.done
    assert.equal(record.failure?.kind, 'internal')
    assert.equal(record.failure?.unsent, true)
  }
})

onBothClients('dial: close fails calls in flight and leaves nothing open', async ({ open }) => {
  const upstream = await startUpstream(({ number }) => (number === 0 ? { do: 'answer' } : { do: 'hang' }))
  const made = dialer({ open })
  await send(made.dial, { url: upstream.url }).done
  const waiting = [send(made.dial, { url: upstream.url }), send(made.dial, { url: upstream.url })]
  await until('under way', () => upstream.requests.length === 3)
  await made.close()
  await Promise.all(waiting.map(({ done }) => done))
  for (const { failure } of waiting) assert.equal(failure?.kind, 'shutdown')
  await until('no connection left', () => upstream.open() === 0)
  const late = send(made.dial, { url: upstream.url })
  await late.done
  assert.equal(late.failure?.kind, 'shutdown')
  await upstream.close()
})
