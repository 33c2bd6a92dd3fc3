import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
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
import type { SecureServer } from '../../../test/support/secure-server.ts'
import { type Act, refusingUrl, type Script, startUpstream, until } from '../../../test/support/upstream.ts'
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Dial, Ongoing, UpstreamCall } from '../../core/world.ts'
import { connectionFor, dialer } from './dial.ts'

/** What a listener heard, in order. */
type Heard = {
  readonly order: string[]
  status?: number
  headers?: HeaderLookup
  text: string
  failure?: Failure
  readonly done: Promise<void>
  ongoing: Ongoing
}

const hear = (
  dial: Dial,
  call: Partial<UpstreamCall> & { url: string },
  onBytes: (heard: Heard) => boolean = () => true,
): Heard => {
  let settle = () => {}
  const decoder = new TextDecoder()
  const done = new Promise<void>((resolve) => {
    settle = resolve
  })
  const heard: Heard = { order: [], text: '', done, ongoing: { abort() {}, resume() {} } }
  const note = (what: string) => {
    if (heard.order.at(-1) !== what || what !== 'bytes') heard.order.push(what)
  }
  heard.ongoing = dial(
    { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}', connectTimeout: 2_000, ...call },
    {
      head(status, headers) {
        note('head')
        heard.status = status
        heard.headers = headers
      },
      bytes(chunk) {
        note('bytes')
        heard.text += decoder.decode(chunk, { stream: true })
        return onBytes(heard)
      },
      end() {
        note('end')
        settle()
      },
      failed(failure) {
        note('failed')
        heard.failure = failure
        settle()
      },
    },
  )
  return heard
}

const lines = { own: await connectionFor('own'), undici: await connectionFor('undici') }

/** Everything here holds for both clients: each is the other's oracle. */
for (const client of ['own', 'undici'] as const)
  describe(`${client} client`, () => {
    const line = lines[client]
    const closers: (() => Promise<void>)[] = []
    after(async () => {
      for (const close of closers) await close()
    })
    const given = async (script: Script | Act, options: Parameters<typeof startUpstream>[1] = {}) => {
      const upstream = await startUpstream(typeof script === 'function' ? script : () => script, options)
      const made = dialer({ line, ...(options.tls && { ca: options.tls.cert }) })
      closers.push(async () => {
        await made.close()
        await upstream.close()
      })
      return { upstream, dial: made.dial, url: `${upstream.url}/v1/chat/completions` }
    }

    test('dial: an answer comes as head, bytes, end, and the request goes out as it was given', async () => {
      const { upstream, dial, url } = await given({
        do: 'answer',
        body: { fine: true },
        headers: { 'x-request-id': 'abc' },
      })
      const heard = hear(dial, {
        url: `${url}?api-version=1`,
        headers: { authorization: 'Bearer sk-test', 'content-type': 'application/json' },
        body: '{"model":"é"}',
      })
      await heard.done
      assert.deepEqual(heard.order, ['head', 'bytes', 'end'])
      assert.equal(heard.status, 200)
      assert.equal(heard.text, '{"fine":true}')
      assert.equal(heard.headers?.('x-request-id'), 'abc')
      assert.equal(heard.headers?.('constructor'), undefined)
      const [asked] = upstream.seen
      assert.equal(asked?.path, '/v1/chat/completions?api-version=1')
      assert.equal(asked?.key, 'sk-test')
      assert.equal(asked?.body, '{"model":"é"}')
      assert.equal(asked?.headers['content-length'], '14')
    })

    test('dial: one connection serves calls one after the other, several serve them at once', async () => {
      const { upstream, dial, url } = await given({ do: 'answer', body: 'a', after: 20 })
      for (let i = 0; i < 3; i++) await hear(dial, { url }).done
      assert.equal(upstream.connections(), 1)
      await Promise.all([1, 2, 3].map(() => hear(dial, { url }).done))
      assert.equal(upstream.connections(), 3)
    })

    test('dial: connections over TLS serve call after call, however busy both sides are', async () => {
      const server = new Worker(new URL('../../../test/support/secure-server.ts', import.meta.url))
      // What that file posts first.
      const [{ port, cert }]: [SecureServer] = (await once(server, 'message')) as [SecureServer]
      const made = dialer({ line, ca: cert })
      closers.push(async () => {
        await made.close()
        await server.terminate()
      })
      const many = 32
      const one = async () => {
        for (let call = 0; call < 40; call++) {
          const heard = hear(made.dial, { url: `https://127.0.0.1:${port}/x`, body: 'x'.repeat(900) })
          await heard.done
          assert.equal(heard.status, 200)
          // With the loop kept busy answers have come before Node says that their questions have gone out.
          for (const until = performance.now() + 0.05; performance.now() < until; );
        }
      }
      await Promise.all(Array.from({ length: many }, one))
      server.postMessage('how many')
      const [connections]: [number] = (await once(server, 'message')) as [number]
      assert.ok(connections <= many + 2, `${connections} connections for ${many} at once`)
    })

    test('dial: a redirect is not followed', async () => {
      const { upstream, dial, url } = await given({ do: 'answer', status: 302, headers: { location: '/elsewhere' } })
      const heard = hear(dial, { url })
      await heard.done
      assert.equal(heard.status, 302)
      assert.equal(upstream.seen.length, 1)
    })

    const sse = ['data: one\n\n', 'data: two\n\n']
    const breaks: [name: string, act: Act, order: string[], kind: string | undefined][] = [
      ['a stream, whole', { do: 'stream', pieces: sse }, ['head', 'bytes', 'end'], undefined],
      [
        'a stream in single bytes',
        { do: 'stream', pieces: sse, slice: 1, gap: 1 },
        ['head', 'bytes', 'end'],
        undefined,
      ],
      [
        'a stream that ends with its connection',
        { do: 'stream', pieces: sse, untilClose: true },
        ['head', 'bytes', 'end'],
        undefined,
      ],
      ['an answer without a body', { do: 'answer', status: 204 }, ['head', 'end'], undefined],
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
        'a chunk whose size is no number',
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
        'interim answers before the real one',
        {
          do: 'raw',
          bytes: 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
          ending: 'stall',
        },
        ['head', 'bytes', 'end'],
        undefined,
      ],
      [
        'interim answers without end',
        { do: 'raw', bytes: 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100), ending: 'stall' },
        ['failed'],
        'not_http',
      ],
      [
        'an upgrade nobody asked for',
        { do: 'raw', bytes: 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n' },
        ['failed'],
        'not_http',
      ],
      [
        'bytes after the answer',
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
      test(`dial: ${name}`, async () => {
        const { upstream, dial, url } = await given(act)
        const heard = hear(dial, { url })
        await heard.done
        assert.deepEqual(heard.order, order)
        assert.equal(heard.failure?.kind, kind)
        assert.equal(heard.failure?.unsent, undefined)
        assert.equal(upstream.seen.length, 1, 'a fresh connection that breaks is not tried again here')
      })

    test('dial: bytes left behind an answer are never the next answer', async () => {
      const { dial, url, upstream } = await given(({ number }) =>
        number === 0
          ? {
              do: 'raw',
              bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil',
              ending: 'stall',
            }
          : { do: 'answer', body: 'good' },
      )
      const first = hear(dial, { url })
      await first.done
      const second = hear(dial, { url })
      await second.done
      assert.equal(first.text, 'ok')
      assert.equal(second.text, 'good')
      assert.equal(upstream.connections(), 2)
    })

    test('dial: a refused connection is said to be unsent', async () => {
      const made = dialer({ line })
      const heard = hear(made.dial, { url: `${await refusingUrl()}/v1` })
      await heard.done
      assert.deepEqual(heard.order, ['failed'])
      assert.equal(heard.failure?.kind, 'refused')
      assert.equal(heard.failure?.unsent, true)
      await made.close()
    })

    test('dial: a host name nobody has', async () => {
      const made = dialer({ line })
      const heard = hear(made.dial, { url: 'http://does-not-exist.invalid/v1' })
      await heard.done
      assert.equal(heard.failure?.kind, 'dns')
      assert.equal(heard.failure?.unsent, true)
      await made.close()
    })

    // A name takes several turns of the event loop, as a TLS handshake does.
    for (const host of ['127.0.0.1', 'localhost'])
      test(`dial: a connection is not late because the process stood still: ${host}`, async () => {
        const { dial, url } = await given({ do: 'answer', body: 'fine' })
        const heard = hear(dial, { url: url.replace('127.0.0.1', host), connectTimeout: 50 })
        for (const over = performance.now() + 500; performance.now() < over; );
        await heard.done
        assert.deepEqual([heard.text, heard.failure], ['fine', undefined])
      })

    test('dial: a secure connection that is not made in time', async () => {
      // Takes connections and never says a word, as a host behind a dead firewall does.
      const sockets: Socket[] = []
      const silent = createServer((socket) => sockets.push(socket.resume()))
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
      const { port } = silent.address() as { port: number }
      const made = dialer({ line })
      const begun = performance.now()
      const heard = hear(made.dial, { url: `https://127.0.0.1:${port}/v1`, connectTimeout: 60 })
      await heard.done
      assert.equal(heard.failure?.kind, 'connect_timeout')
      assert.equal(heard.failure?.unsent, true)
      assert.ok(performance.now() - begun < 10_000)
      const left = hear(made.dial, { url: `https://127.0.0.1:${port}/v1`, connectTimeout: 0 })
      await until('connected', () => sockets.length === 2)
      left.ongoing.abort()
      await until('closed by the abort', () => sockets.every((socket) => socket.destroyed || socket.readableEnded), 500)
      assert.deepEqual(left.order, [])
      await made.close()
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => silent.close(resolve))
    })

    test('dial: a certificate nobody vouches for is refused, whatever the environment says; one that is trusted works', async () => {
      const { key, cert } = selfSigned()
      const upstream = await startUpstream(() => ({ do: 'answer', body: 'secret' }), { tls: { key, cert } })
      const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
      const strict = dialer({ line })
      const refused = hear(strict.dial, { url: `${upstream.url}/v1` })
      await refused.done
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
      assert.equal(refused.failure?.kind, 'tls')
      assert.equal(refused.failure?.unsent, true)
      assert.equal(upstream.seen.length, 0)
      const trusting = dialer({ line, ca: cert })
      for (let i = 0; i < 2; i++) {
        const heard = hear(trusting.dial, { url: `${upstream.url}/v1` })
        await heard.done
        assert.equal(heard.text, 'secret')
      }
      assert.equal(upstream.connections(), 1, 'one secure connection, kept')
      await strict.close()
      await trusting.close()
      await upstream.close()
    })

    for (const how of ['close', 'reset'] as const)
      test(`dial: a connection the upstream ends (${how}) as a request leaves is made anew, unseen`, async () => {
        const stale = new Set<number>()
        // Answers once, then breaks the connection on the next request without a byte: what a server does whose idle timer
        // has fired while the request was on the wire.
        const { upstream, dial, url } = await given(({ connection }) => {
          if (stale.has(connection)) return { do: how }
          stale.add(connection)
          return { do: 'answer', body: 'ok' }
        })
        for (let i = 0; i < 5; i++) {
          const heard = hear(dial, { url, body: `{"i":${i}}` })
          await heard.done
          assert.deepEqual(heard.order, ['head', 'bytes', 'end'], `call ${i}: ${heard.failure?.message}`)
        }
        assert.equal(upstream.seen.length, 9, 'each later call met one dead connection')
      })

    test('dial: it is made anew once; a second break is the upstream’s', async () => {
      const { upstream, dial, url } = await given(({ number }) => (number === 0 ? { do: 'answer' } : { do: 'reset' }))
      await hear(dial, { url }).done
      const heard = hear(dial, { url })
      await heard.done
      assert.equal(heard.failure?.kind, 'reset')
      assert.equal(upstream.seen.length, 3)
    })

    test('dial: what breaks long after it was sent crossed nothing on the wire, and is not made anew', async () => {
      const { upstream, dial, url } = await given(async ({ number }) => {
        if (number === 0) return { do: 'answer' }
        await new Promise((resolve) => setTimeout(resolve, 2_200))
        return { do: 'close' }
      })
      await hear(dial, { url }).done
      const heard = hear(dial, { url })
      await heard.done
      assert.equal(heard.failure?.kind, 'reset')
      assert.equal(upstream.seen.length, 2)
    })

    test('dial: once a byte of the answer has come, it is not made anew', async () => {
      const { upstream, dial, url } = await given(({ number }) =>
        number === 0 ? { do: 'answer' } : { do: 'raw', bytes: 'HTTP/1.1 2', ending: 'close' },
      )
      await hear(dial, { url }).done
      const heard = hear(dial, { url })
      await heard.done
      assert.ok(heard.failure)
      assert.equal(upstream.seen.length, 2)
    })

    test('dial: what has to be done once goes on a connection of its own, and is not sent again when that breaks', async () => {
      let asked = 0
      const { upstream, dial, url } = await given(() => (asked++ === 0 ? { do: 'answer', body: {} } : { do: 'reset' }))
      await hear(dial, { url }).done
      // The first one's connection is idle by now, and could be used.
      await new Promise((resolve) => setTimeout(resolve, 50))
      const heard = hear(dial, { url, once: true })
      await heard.done
      assert.equal(heard.failure?.kind, 'reset')
      assert.equal(heard.failure?.unsent, undefined)
      assert.deepEqual(
        upstream.seen.map(({ connection }) => connection),
        [0, 1],
      )
    })

    test('dial: a server that closes idle connections all the time costs no call', async () => {
      const { upstream, dial, url } = await given({ do: 'answer', body: 'ok' })
      const closing = setInterval(() => upstream.closeIdle(Math.random() < 0.5 ? 'close' : 'reset'), 1)
      try {
        for (let round = 0; round < 60; round++) {
          const heard = await Promise.all(
            [1, 2, 3, 4].map(async () => {
              const one = hear(dial, { url })
              await one.done
              return one
            }),
          )
          for (const one of heard) assert.equal(one.text, 'ok', one.failure?.message)
          await new Promise((resolve) => setTimeout(resolve, round % 3))
        }
      } finally {
        clearInterval(closing)
      }
      assert.ok(upstream.connections() > 4, `connections were in fact closed (${upstream.connections()})`)
    })

    for (const [name, act, when] of [
      ['while waiting for the head', { do: 'hang' }, (_: Heard) => true],
      ['between head and body', { do: 'stream', pieces: ['x'], first: 60_000 }, (heard: Heard) => heard.status === 200],
      [
        'in the middle of a stream',
        { do: 'stream', pieces: ['x', 'y'], ending: 'stall' },
        (heard: Heard) => heard.text === 'xy',
      ],
    ] as const)
      test(`dial: abort ${name} closes the connection at once and is the last that is heard`, async () => {
        const { upstream, dial, url } = await given(act)
        const heard = hear(dial, { url })
        await until('under way', () => upstream.seen.length === 1 && when(heard))
        const order = [...heard.order]
        const at = performance.now()
        heard.ongoing.abort()
        heard.ongoing.abort()
        heard.ongoing.resume()
        await until('aborted upstream', () => upstream.seen[0]?.ended === 'aborted', 1_000)
        assert.ok((upstream.seen[0]?.endedAt ?? Number.POSITIVE_INFINITY) - at < 100)
        await new Promise((resolve) => setTimeout(resolve, 20))
        assert.deepEqual(heard.order, order)
      })

    test('dial: twenty aborted streams leave no connection and make no second one', async () => {
      const { upstream, dial, url } = await given({ do: 'stream', pieces: ['x'], ending: 'stall' })
      for (let i = 0; i < 20; i++) {
        const heard = hear(dial, { url })
        await until('first byte', () => heard.text === 'x')
        heard.ongoing.abort()
      }
      await until('all closed', () => upstream.open() === 0, 1_000)
      assert.equal(upstream.connections(), 20)
    })

    test('dial: a listener may abort from within what it hears', async () => {
      const { upstream, dial, url } = await given({ do: 'stream', pieces: ['x', 'y', 'z'], gap: 5 })
      const heard: Heard = hear(dial, { url }, () => {
        heard.ongoing.abort()
        return false
      })
      await until('aborted upstream', () => upstream.seen[0]?.ended === 'aborted', 1_000)
      assert.deepEqual(heard.order, ['head', 'bytes'])
    })

    for (const tls of [undefined, selfSigned()])
      test(`dial: a full listener holds the upstream back, and gets everything in the end${tls ? ', over TLS' : ''}`, async () => {
        const megabyte = 'x'.repeat(1024 * 1024)
        const { upstream, dial, url } = await given(
          { do: 'stream', pieces: Array.from({ length: 24 }, () => megabyte) },
          tls ? { tls } : {},
        )
        let full = true
        const heard = hear(dial, { url }, () => !full)
        await until('first bytes', () => heard.text.length > 0)
        await new Promise((resolve) => setTimeout(resolve, 100))
        const held = heard.text.length
        assert.ok(held <= 128 * 1024, `${held} bytes came after the listener was full`)
        assert.ok((upstream.seen[0]?.sent ?? 0) < 16 * 1024 * 1024, 'the upstream was stopped by the kernel')
        full = false
        heard.ongoing.resume()
        await heard.done
        assert.equal(heard.text.length, 24 * 1024 * 1024)
        assert.equal(heard.order.at(-1), 'end')
      })

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
      test(`dial: ${encoding} although nobody asked for it`, async () => {
        const headers = { 'content-encoding': encoding.replace(', bare', '') }
        for (const act of [
          { do: 'answer', body: bytes, headers },
          { do: 'stream', pieces: [bytes], slice: 7, headers },
        ] as const) {
          const { dial, url } = await given(act)
          const heard = hear(dial, { url })
          await heard.done
          assert.equal(heard.failure, undefined)
          assert.equal(heard.text, plain)
          assert.deepEqual(heard.order, ['head', 'bytes', 'end'])
          if (encoding !== 'identity') assert.equal(heard.headers?.('content-encoding'), undefined)
          if (encoding !== 'identity') assert.equal(heard.headers?.('content-length'), undefined)
        }
      })

    test('dial: an event of a compressed stream does not wait for the next', async () => {
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
      const heard = hear(dial, { url })
      await until('the event', () => heard.text === 'data: one\n\n')
      heard.ongoing.abort()
    })

    for (const [name, headers, body, kind] of [
      ['two encodings', { 'content-encoding': 'gzip, br' }, 'x', 'malformed'],
      ['an encoding nobody knows', { 'content-encoding': 'constructor' }, 'x', 'malformed'],
      ['not what its encoding says', { 'content-encoding': 'gzip' }, 'plain text', 'malformed'],
      ['cut in the middle', { 'content-encoding': 'gzip' }, gzipSync(plain).subarray(0, 40), 'truncated'],
      ['a bomb', { 'content-encoding': 'br' }, brotliCompressSync(Buffer.alloc(100_000_000)), 'malformed'],
    ] as const)
      test(`dial: compressed, ${name}`, async () => {
        const { upstream, url } = await given({ do: 'answer', headers, body })
        const made = dialer({ line, mostDecoded: 1024 * 1024 })
        const heard = hear(made.dial, { url })
        await heard.done
        assert.equal(heard.failure?.kind, kind)
        assert.equal(heard.order.filter((what) => what === 'failed' || what === 'end').length, 1)
        assert.ok(heard.text.length <= 1024 * 1024)
        await made.close()
        assert.equal(upstream.seen.length, 1)
      })

    test('dial: no listener is called before dial has returned, not even about what cannot be sent', async () => {
      const { dial, url } = await given({ do: 'answer' })
      for (const call of [{ url, headers: { 'bad\nname': 'x' } }, { url: 'ftp://127.0.0.1/' }, { url: 'not a url' }]) {
        const heard = hear(dial, call)
        assert.deepEqual(heard.order, [])
        await heard.done
        assert.equal(heard.failure?.kind, 'internal')
        assert.equal(heard.failure?.unsent, true)
      }
    })

    test('dial: closing ends the calls under way and leaves nothing open', async () => {
      const upstream = await startUpstream(({ number }) => (number === 0 ? { do: 'answer' } : { do: 'hang' }))
      const made = dialer({ line })
      await hear(made.dial, { url: upstream.url }).done
      const waiting = [hear(made.dial, { url: upstream.url }), hear(made.dial, { url: upstream.url })]
      await until('under way', () => upstream.seen.length === 3)
      await made.close()
      await Promise.all(waiting.map(({ done }) => done))
      for (const { failure } of waiting) assert.equal(failure?.kind, 'shutdown')
      await until('no connection left', () => upstream.open() === 0)
      const late = hear(made.dial, { url: upstream.url })
      await late.done
      assert.equal(late.failure?.kind, 'shutdown')
      await upstream.close()
    })
  })
