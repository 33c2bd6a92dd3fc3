/**
 * `Idempotency-Key` over real sockets: a client that retries after a dropped connection gets the same answer from its
 * beginning, and the provider gets one call.
 */
import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { answerBody, answerWith, piecesOf } from '../support/answers.ts'
import { type Act, type Upstream, type UpstreamRequest, until as waitUntil } from '../support/upstream.ts'
import { BELOW, type Started } from './support/process.ts'
import { callsOf, type RawClient, rawClient, rawRequest, sleep, stage } from './support/stage.ts'

const TEXT = 'one two three four five six seven eight nine ten'
const LONG = 'word '.repeat(60_000)

/** A long timeout for busy machines. */
const until = (what: string, check: () => boolean) => waitUntil(what, check, 20_000)

type Call = { readonly path: string; readonly body: object }
const chat = (more: object = {}): Call => ({
  path: '/v1/chat/completions',
  body: { messages: [{ role: 'user', content: 'hello' }], ...more },
})
const CALLS: Readonly<Record<string, (stream: boolean) => Call>> = {
  chat: (stream) => chat({ stream }),
  responses: (stream) => ({ path: '/v1/responses', body: { input: 'hello', stream } }),
  messages: (stream) => ({
    path: '/v1/messages',
    body: { max_tokens: 100, messages: [{ role: 'user', content: 'hello' }], stream },
  }),
  completions: (stream) => ({ path: '/v1/completions', body: { prompt: 'hello', stream } }),
}

const send = async (
  gateway: Pick<Started, 'url'>,
  { path, body }: Call,
  model: string,
  headers: Readonly<Record<string, string>> = {},
) => {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01', ...headers },
    body: JSON.stringify({ model: `a/${model}`, ...body }),
    signal: AbortSignal.timeout(120_000),
  })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  return { status: response.status, headers: response.headers, text, json: (): any => JSON.parse(text) }
}

/** Sends the same request on a raw connection that can be dropped. */
const open = (gateway: Pick<Started, 'url'>, { path, body }: Call, model: string, key?: string): Promise<RawClient> =>
  rawClient(
    gateway.url,
    rawRequest(path, JSON.stringify({ model: `a/${model}`, ...body }), {
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
      ...(key !== undefined && { 'idempotency-key': key }),
    }),
  )

const keyed = (key: string) => ({ 'idempotency-key': key })

/** Answers slowly enough that a request can be dropped or joined in flight. The model selects the answer. */
const slowAnswer = (call: UpstreamRequest): Act => {
  const { model = '' } = call
  if (call.path.endsWith('/embeddings'))
    return {
      do: 'answer',
      body: {
        object: 'list',
        model,
        data: [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }],
        usage: { prompt_tokens: 1, total_tokens: 1 },
      },
    }
  if (model.startsWith('flood')) return answerWith(call, { text: LONG })
  if (model === 'plain') return { do: 'stream', pieces: piecesOf(call, { text: TEXT }).slice(0, 4), ending: 'stall' }
  if (call.stream) return answerWith(call, { text: TEXT }, { gap: 150 })
  return { do: 'answer', body: answerBody(call, { text: TEXT }), after: 1_500 }
}

/** A gateway with the provider `a`, which answers slowly, for one suite. */
const slowProvider = () => {
  const on = stage()
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await on.upstream(slowAnswer)
    gateway = await on.gateway({
      timeout: { clientWrite: 20_000 },
      providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat', 'responses', 'messages'] } },
    })
  })
  return {
    gateway: () => gateway,
    callsReceived: (model: string) => callsOf(upstream).filter((call) => call.model === model),
  }
}

describe('idempotency: a dropped connection', { concurrency: 8 }, () => {
  const { gateway, callsReceived } = slowProvider()

  for (const [style, call] of Object.entries(CALLS))
    for (const stream of [true, false]) {
      const name = `${style}, ${stream ? 'streamed' : 'whole'}`

      test(`${name}: dropped in flight, joined, and repeated after its end`, async () => {
        const model = `drop-${style}-${stream}`
        const key = `key-${model}`
        const first = await open(gateway(), call(stream), model, key)
        await until('the provider receives the call', () => callsReceived(model).length === 1)
        if (stream) await until('the first bytes have arrived', () => first.text().includes('one'))
        first.socket.destroy()
        const joined = await send(gateway(), call(stream), model, keyed(key))
        assert.equal(joined.status, 200, joined.text)
        assert.equal(joined.headers.get('x-headgate-idempotent'), 'joined')
        assert.match(joined.text, /one[\s\S]*ten/)
        const stored = await send(gateway(), call(stream), model, keyed(key))
        assert.equal(stored.headers.get('x-headgate-idempotent'), 'stored')
        assert.equal(stored.text, joined.text)
        assert.notEqual(stored.headers.get('x-request-id'), joined.headers.get('x-request-id'))
        assert.equal(callsReceived(model).length, 1)
        await until('the call is finished, not aborted', () => callsReceived(model)[0]?.ended === 'finished')
      })
    }

  test('embeddings: the same key gets the stored answer', async () => {
    const call: Call = { path: '/v1/embeddings', body: { input: 'hello' } }
    const first = await send(gateway(), call, 'embedder', keyed('e'))
    const second = await send(gateway(), call, 'embedder', keyed('e'))
    assert.equal(first.status, 200, first.text)
    assert.deepEqual([second.text, second.headers.get('x-headgate-idempotent')], [first.text, 'stored'])
    assert.equal(callsReceived('embedder').length, 1)
  })

  test('without a retry in flight: it is finished and stored', async () => {
    const first = await open(gateway(), chat({ stream: true }), 'later', 'later')
    await until('the first bytes have arrived', () => first.text().includes('one'))
    first.socket.destroy()
    await until('the call is finished', () => callsReceived('later')[0]?.ended === 'finished')
    const second = await send(gateway(), chat({ stream: true }), 'later', keyed('later'))
    assert.match(second.text, /one[\s\S]*ten[\s\S]*\[DONE\]/)
    assert.equal(callsReceived('later').length, 1)
    const id = second.headers.get('x-request-id')
    const line = await gateway().line((one) => one.event === 'request' && one.id === id)
    assert.deepEqual([line.shared, line.outcome, line.attempts], ['stored', 'answered', 0])
    const lead = await gateway().line((one) => one.event === 'request' && one.id === line.shared_with)
    assert.deepEqual([lead.shared, lead.outcome, lead.attempts], ['left', 'answered', 1])
  })

  test('without a key a disconnect aborts the call', async () => {
    const first = await open(gateway(), chat({ stream: true }), 'plain')
    await until('the first bytes have arrived', () => first.text().includes('one'))
    first.socket.destroy()
    await until('the call is aborted', () => callsReceived('plain')[0]?.ended === 'aborted')
  })
})

describe('idempotency: requests that share an answer', { concurrency: 8 }, () => {
  const { gateway, callsReceived } = slowProvider()

  test('two concurrent requests share one call, and both get the whole answer', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, () => send(gateway(), chat({ stream: true }), 'crowd', keyed('crowd'))),
    )
    assert.equal(new Set(all.map(({ text }) => text)).size, 1)
    assert.equal(callsReceived('crowd').length, 1)
    assert.equal(all.filter(({ headers }) => headers.get('x-headgate-idempotent') === 'joined').length, 19)
  })

  test('a client that does not read delays no other, and gets the whole answer later', async () => {
    const call = chat({ stream: true })
    const slow = await open(gateway(), call, 'flood-slow', 'flood-slow')
    slow.socket.pause()
    await until('the provider receives the call', () => callsReceived('flood-slow').length === 1)
    const quick = await send(gateway(), call, 'flood-slow', keyed('flood-slow'))
    assert.match(quick.text, /\[DONE\]\n\n$/)
    assert.equal(quick.text.split('word ').length, 60_001)
    assert.ok(slow.text().length < quick.text.length / 2, `the slow client has ${slow.text().length}`)
    slow.socket.resume()
    await until('the slow client has the whole answer', () => slow.text().includes('[DONE]'))
    slow.socket.destroy()
    // Chunked framing lies between the words.
    const receivedText = slow.text().replace(/\r\n[0-9a-f]+\r\n/g, '')
    assert.equal(receivedText.split('word ').length, 60_001)
    assert.equal(callsReceived('flood-slow').length, 1)
  })

  test('a stored response is stored once, and both clients can continue it by its id', async () => {
    const { path, body } = { path: '/v1/responses', body: { input: 'hello' } }
    const first = await send(gateway(), { path, body }, 'turn', keyed('turn'))
    const second = await send(gateway(), { path, body }, 'turn', keyed('turn'))
    assert.equal(second.json().id, first.json().id)
    const next = await send(gateway(), { path, body: { input: 'and', previous_response_id: first.json().id } }, 'turn')
    assert.equal(next.status, 200, next.text)
    assert.equal(callsReceived('turn').length, 2)
  })

  for (const stream of [false, true])
    test(`a background response is created once, ${stream ? 'streamed' : 'and polled'}`, async () => {
      const model = `background-${stream}`
      const call: Call = { path: '/v1/responses', body: { input: 'hello', background: true, stream } }
      const [first, second] = await Promise.all([
        send(gateway(), call, model, keyed(model)),
        send(gateway(), call, model, keyed(model)),
      ])
      const third = await send(gateway(), call, model, keyed(model))
      assert.equal(first.text, second.text)
      assert.equal(first.text, third.text)
      await until('the provider receives the call', () => callsReceived(model).length > 0)
      assert.equal(callsReceived(model).length, 1)
    })
})

describe('idempotency: retries of the official SDK', { concurrency: 8 }, () => {
  const { gateway, callsReceived } = slowProvider()

  test('a connection dropped before the answer leads to one call', async () => {
    await using road = await droppingRoad(gateway())
    const client = new OpenAI({ baseURL: `${road.url}/v1`, apiKey: 'any', maxRetries: 2 })
    const parameters = { model: 'a/sdk-whole', messages: [{ role: 'user' as const, content: 'hello' }] }
    const answer = client.chat.completions.create(parameters, { headers: keyed('sdk-whole') })
    await until('the provider receives the call', () => callsReceived('sdk-whole').length === 1)
    road.drop()
    assert.equal((await answer).choices[0]?.message.content, TEXT)
    assert.equal(callsReceived('sdk-whole').length, 1)
    assert.ok(road.connections() > 1)
  })

  test('with its own idempotency keys enabled', async () => {
    await using road = await droppingRoad(gateway())
    /** With a header name set, the SDK generates a key for each call and sends it with every retry. */
    class Safe extends OpenAI {
      protected override idempotencyHeader = 'Idempotency-Key'
    }
    const client = new Safe({ baseURL: `${road.url}/v1`, apiKey: 'any', maxRetries: 2 })
    const answer = client.responses.create({ model: 'a/sdk-own', input: 'hello' })
    await until('the provider receives the call', () => callsReceived('sdk-own').length === 1)
    road.drop()
    assert.equal((await answer).output_text, TEXT)
    assert.equal(callsReceived('sdk-own').length, 1)
  })

  test('a stream dropped in the middle is sent again from its beginning', async () => {
    await using road = await droppingRoad(gateway())
    const client = new OpenAI({ baseURL: `${road.url}/v1`, apiKey: 'any', maxRetries: 0 })
    const read = async (run: (piece: string) => void): Promise<void> => {
      const stream = await client.chat.completions.create(
        { model: 'a/sdk-stream', stream: true, messages: [{ role: 'user', content: 'hello' }] },
        { headers: keyed('sdk-stream') },
      )
      for await (const chunk of stream) run(chunk.choices[0]?.delta.content ?? '')
    }
    let pieces = 0
    await assert.rejects(
      read((piece) => {
        if (piece !== '' && ++pieces === 2) road.drop()
      }),
    )
    let receivedText = ''
    await read((piece) => {
      receivedText += piece
    })
    assert.equal(receivedText, TEXT)
    assert.equal(callsReceived('sdk-stream').length, 1)
  })
})

describe('idempotency: limits', { concurrency: 4 }, () => {
  const on = stage()
  let upstream: Upstream
  const [ONE, TWO] = ['client-one-0123456789abcdef', 'client-two-0123456789abcdef']
  const callsReceived = (model: string) => callsOf(upstream).filter((call) => call.model === model)
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
  let gateway: Started
  /** Models that answer from now on. */
  const healed = new Set<string>()

  before(async () => {
    upstream = await on.upstream((call: UpstreamRequest) => {
      const { model = '' } = call
      switch (model.split('-')[0]) {
        case 'failing':
          return healed.has(model)
            ? answerWith(call, { text: TEXT })
            : { do: 'answer', status: 400, body: { error: { message: 'no' } } }
        case 'broken':
          return healed.has(model)
            ? answerWith(call, { text: TEXT })
            : { do: 'stream', pieces: piecesOf(call, { text: TEXT }).slice(0, 4), ending: 'reset', gap: 5 }
        case 'endless':
          return { do: 'stream', pieces: piecesOf(call, { text: TEXT }).slice(0, 4), ending: 'stall' }
        default:
          return answerWith(call, { text: model.startsWith('large') ? LONG.slice(0, 200_000) : TEXT })
      }
    })
    gateway = await on.gateway({
      auth: { keys: [ONE, TWO] },
      idempotency: { finish: 300, maxMegabytes: 1 },
      providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat'] } },
    })
  })

  test('two clients with the same key get separate answers', async () => {
    const own = await send(gateway, chat(), 'tenants', { ...keyed('k'), ...bearer(ONE) })
    const other = await send(gateway, chat({ user: 'x' }), 'tenants', { ...keyed('k'), ...bearer(TWO) })
    assert.deepEqual([own.status, other.status], [200, 200])
    assert.equal(other.headers.get('x-headgate-idempotent'), null)
    assert.equal(callsReceived('tenants').length, 2)
    const stranger = await send(gateway, chat(), 'tenants', keyed('k'))
    assert.equal(stranger.status, 401)
  })

  for (const [name, key, call, status, code] of [
    ['another body', 'reused', chat({ user: 'x' }), 422, 'idempotency_key_reused'],
    ['another path', 'reused', CALLS.responses?.(false) ?? chat(), 422, 'idempotency_key_reused'],
    ['a key too long', 'k'.repeat(256), chat(), 400, 'invalid_value'],
    ['a key with a space', 'a b', chat(), 400, 'invalid_value'],
  ] as const)
    test(`${name}: rejected without a provider call`, async () => {
      const model = `refused-${name}`
      if (key === 'reused') await send(gateway, chat(), model, { ...keyed(`${key}-${name.length}`), ...bearer(ONE) })
      const before = callsReceived(model).length
      const sent = key === 'reused' ? `${key}-${name.length}` : key
      const answer = await send(gateway, call, model, { ...keyed(sent), ...bearer(ONE) })
      assert.deepEqual([answer.status, answer.json().error.code], [status, code])
      assert.equal(answer.headers.get('x-should-retry'), 'false')
      assert.equal(callsReceived(model).length, before)
    })

  for (const [model, stream] of [
    ['failing', false],
    ['broken', true],
  ] as const)
    test(`a ${model} answer is not stored: a retry makes a new call`, async () => {
      const headers = { ...keyed(model), ...bearer(ONE) }
      const first = await send(gateway, chat({ stream }), model, headers)
      assert.ok(first.status === 400 || first.text.includes('stream_interrupted'), first.text)
      healed.add(model)
      const calls = callsReceived(model).length
      const second = await send(gateway, chat({ stream }), model, headers)
      assert.match(second.text, /one[\s\S]*ten/)
      assert.equal(callsReceived(model).length, calls + 1)
    })

  test('without a retry in time the call is aborted', async () => {
    const { path, body } = chat({ stream: true })
    const bytes = rawRequest(path, JSON.stringify({ model: 'a/endless', ...body }), {
      'content-type': 'application/json',
      ...keyed('endless'),
      ...bearer(ONE),
    })
    const client = await rawClient(gateway.url, bytes)
    await until('the first bytes have arrived', () => client.text().includes('one'))
    const left = performance.now()
    client.socket.destroy()
    await until('the call is aborted', () => callsReceived('endless')[0]?.ended === 'aborted')
    const after = (callsReceived('endless')[0]?.endedAt ?? 0) - left
    assert.ok(after >= 290, `after ${after} ms`)
  })

  test('a shutdown does not wait for retries, and logs the answer so far', async () => {
    const other = await on.gateway({
      providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat'] } },
      drain: { timeout: 3_600_000 },
      idempotency: { finish: 3_600_000 },
    })
    const client = await open(other, chat({ stream: true }), 'endless-drained', 'k')
    await until('the first bytes have arrived', () => client.text().includes('one'))
    client.socket.destroy()
    await sleep(50)
    assert.equal(callsReceived('endless-drained')[0]?.ended, 'open')
    assert.equal(await other.stop(), 0)
    const line = other.lines().find(({ event }) => event === 'request')
    assert.deepEqual([line?.outcome, line?.error, line?.shared], ['interrupted', 'shutdown', 'left'])
  })

  test('stored answers are bounded: the oldest are evicted', async () => {
    const headers = (at: number) => ({ ...keyed(`large-${at}`), ...bearer(ONE) })
    const ask = (at: number) => send(gateway, chat(), `large-${at}`, headers(at))
    for (let at = 0; at < 40; at++) assert.equal((await ask(at)).status, 200)
    assert.equal((await ask(39)).headers.get('x-headgate-idempotent'), 'stored')
    assert.equal((await ask(0)).headers.get('x-headgate-idempotent'), null)
    assert.equal(callsReceived('large-0').length, 2)
    assert.equal(callsReceived('large-39').length, 1)
  })
})

/** A TCP proxy to the gateway. `drop` breaks every open connection; later ones pass. */
const droppingRoad = async (gateway: Pick<Started, 'url'>) => {
  const { hostname, port } = new URL(gateway.url)
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((client) => {
    connections++
    const there = connect(Number(port), hostname)
    for (const [socket, other] of [
      [client, there],
      [there, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const drop = () => {
    for (const socket of sockets) socket.destroy()
  }
  const close = async () => {
    drop()
    await new Promise((resolve) => server.close(resolve))
  }
  after(close)
  return {
    // Its address is that of a TCP port.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${BELOW}`,
    drop,
    connections: () => connections,
    [Symbol.asyncDispose]: close,
  }
}
