/**
 * `coalesce: true` over real sockets: concurrent equal deterministic requests of one client share one upstream call.
 * Requests of different clients never do, and no answer is kept.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { answerWith, errorBody, piecesOf } from '../support/answers.ts'
import { type Act, type Upstream, type UpstreamRequest, until as waitUntil } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import { callsOf, rawClient, rawRequest, sleep, stage } from './support/stage.ts'

const TEXT = 'one two three four five six seven eight nine ten'
const [ONE, TWO] = ['client-one-0123456789abcdef', 'client-two-0123456789abcdef']

/** A long timeout for busy machines. */
const until = (what: string, check: () => boolean) => waitUntil(what, check, 20_000)

type Call = { readonly path: string; readonly body: object }
const chat = (more: object = {}): Call => ({
  path: '/v1/chat/completions',
  body: { messages: [{ role: 'user', content: 'hello' }], temperature: 0, ...more },
})
const CALLS: Readonly<Record<string, (stream: boolean) => Call>> = {
  chat: (stream) => chat({ stream }),
  responses: (stream) => ({ path: '/v1/responses', body: { input: 'hello', temperature: 0, store: false, stream } }),
  messages: (stream) => ({
    path: '/v1/messages',
    body: { max_tokens: 100, messages: [{ role: 'user', content: 'hello' }], temperature: 0, stream },
  }),
  completions: (stream) => ({ path: '/v1/completions', body: { prompt: 'hello', seed: 7, stream } }),
}

const headersOf = (client: string, more: Readonly<Record<string, string>> = {}) => ({
  'content-type': 'application/json',
  authorization: `Bearer ${client}`,
  'anthropic-version': '2023-06-01',
  ...more,
})

const TENANTS = { auth: { keys: [ONE, TWO] }, coalesce: true }

const on = stage()
let upstream: Upstream
let gateway: Started
const callsReceived = (model: string) => callsOf(upstream).filter((call) => call.model === model)
const script = (call: UpstreamRequest): Act => {
  const { model = '' } = call
  if (call.path.endsWith('/embeddings'))
    return {
      do: 'answer',
      after: 1_500,
      body: { object: 'list', model, data: [{ object: 'embedding', index: 0, embedding: [0.5] }] },
    }
  const content = { text: TEXT }
  switch (model.split('-')[0]) {
    case 'refusing':
      return {
        do: 'answer',
        after: 1_500,
        status: 400,
        body: errorBody(call, { type: 'invalid_request_error', message: 'no such thing' }),
      }
    case 'broken':
      return { do: 'stream', pieces: piecesOf(call, content).slice(0, 5), gap: 300, ending: 'reset' }
    case 'endless':
      return { do: 'stream', pieces: piecesOf(call, content).slice(0, 4), ending: 'stall' }
    default: {
      const act = answerWith(call, content)
      return act.do === 'stream' ? { ...act, gap: 150 } : act.do === 'answer' ? { ...act, after: 1_500 } : act
    }
  }
}
const send = async ({ path, body }: Call, model: string, client = ONE, more: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: headersOf(client, more),
    body: JSON.stringify({ model: `a/${model}`, ...body }),
    signal: AbortSignal.timeout(120_000),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}
const crowd = (call: Call, model: string, size = 10) =>
  Promise.all(Array.from({ length: size }, () => send(call, model)))
const open = ({ path, body }: Call, model: string) =>
  rawClient(gateway.url, rawRequest(path, JSON.stringify({ model: `a/${model}`, ...body }), headersOf(ONE)))
before(async () => {
  upstream = await on.upstream(script)
  gateway = await on.gateway({
    ...TENANTS,
    providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat', 'responses', 'messages'] } },
  })
})
const apart: readonly (readonly [string, Call, Parameters<typeof send>[2], Parameters<typeof send>[3]?])[] = [
  ['two clients', chat(), TWO],
  ['no-store', chat(), ONE, { 'cache-control': 'no-store' }],
  ['another body', chat({ user: 'x' }), ONE],
  ['an unknown member', chat({ something_new: { deep: 1 } }), ONE],
  ['another temperature', chat({ temperature: 0.5 }), ONE],
  ['a stream', chat({ stream: true }), ONE],
]

describe('coalescing: which requests share a call', { concurrency: 8 }, () => {
  for (const [style, call] of Object.entries(CALLS))
    for (const stream of [true, false])
      test(`${style}, ${stream ? 'streamed' : 'whole'}: concurrent equal requests share one call, and each gets the whole answer`, async () => {
        const model = `crowd-${style}-${stream}`
        const all = await crowd(call(stream), model)
        for (const { status, text } of all) assert.deepEqual([status, text], [200, all[0]?.text])
        assert.match(all[0]?.text ?? '', /one[\s\S]*ten/)
        assert.equal(callsReceived(model).length, 1)
        assert.equal(all.filter(({ headers }) => headers.get('x-headgate-coalesced') === 'true').length, 9)
        assert.equal(new Set(all.map(({ headers }) => headers.get('x-request-id'))).size, 10)
      })

  test('embeddings: concurrent equal requests share one call', async () => {
    const all = await crowd({ path: '/v1/embeddings', body: { input: 'hello' } }, 'crowd-embeddings')
    assert.ok(all.every(({ status, text }) => status === 200 && text === all[0]?.text))
    assert.equal(callsReceived('crowd-embeddings').length, 1)
  })

  test('each request has a log line, and only one reports tokens', async () => {
    const ids = (await crowd(chat(), 'logged', 5)).map(({ headers }) => headers.get('x-request-id'))
    const lines = await Promise.all(ids.map((id) => gateway.line((line) => line.event === 'request' && line.id === id)))
    assert.equal(lines.filter((line) => line.shared === 'coalesced').length, 4)
    assert.equal(lines.filter((line) => typeof line.input_tokens === 'number').length, 1)
    const lead = lines.find((line) => line.shared === undefined)
    assert.ok(lines.every((line) => line === lead || line.shared_with === lead?.id))
  })

  for (const [name, call, client, more] of apart)
    test(`${name}: never coalesced`, async () => {
      const model = `apart-${name.replaceAll(' ', '-')}`
      const [one, other] = await Promise.all([send(chat(), model), send(call, model, client, more)])
      assert.deepEqual([one.status, other.status], [200, 200])
      assert.equal(callsReceived(model).length, 2)
      assert.deepEqual(
        [one, other].map(({ headers }) => headers.get('x-headgate-coalesced')),
        [null, null],
      )
    })

  test('member order and white space make no difference', async () => {
    const { path, body } = chat()
    const spell = (text: string) =>
      fetch(gateway.url + path, { method: 'POST', headers: headersOf(ONE), body: text }).then((one) => one.text())
    const entries = Object.entries({ model: 'a/spelled', ...body })
    const [one, other] = await Promise.all([
      spell(JSON.stringify(Object.fromEntries(entries))),
      spell(JSON.stringify(Object.fromEntries(entries.reverse()), null, 2)),
    ])
    assert.equal(one, other)
    assert.equal(callsReceived('spelled').length, 1)
  })
})

describe('coalescing: errors and disconnects', { concurrency: 8 }, () => {
  test('concurrent requests share an error, a later request makes its own call', async () => {
    const all = await crowd(chat(), 'refusing', 5)
    assert.deepEqual([...new Set(all.map(({ status }) => status))], [400])
    assert.equal(callsReceived('refusing').length, 1)
    await send(chat(), 'refusing')
    assert.equal(callsReceived('refusing').length, 2)
  })

  test('a broken answer is an error for every request that shares it', async () => {
    const all = await crowd(chat({ stream: true }), 'broken', 5)
    for (const { text } of all) {
      assert.match(text, /stream_interrupted/)
      assert.doesNotMatch(text, /\[DONE\]/)
    }
    assert.equal(callsReceived('broken').length, 1)
  })

  test('when the first client leaves, the call continues for the others', async () => {
    const first = await open(chat({ stream: true }), 'led')
    await until('the first bytes have arrived', () => first.text().includes('one'))
    const second = send(chat({ stream: true }), 'led')
    await sleep(60)
    first.socket.destroy()
    const { text, headers } = await second
    assert.equal(headers.get('x-headgate-coalesced'), 'true')
    assert.match(text, /one[\s\S]*ten[\s\S]*\[DONE\]/)
    assert.equal(callsReceived('led').length, 1)
    // The client's body ends with `[DONE]`, possibly before the end of the upstream's framing.
    await until('the call is finished, not aborted', () => callsReceived('led')[0]?.ended === 'finished')
  })

  test('when all clients leave, the call is aborted at once', async () => {
    const call = chat({ stream: true })
    const clients = [await open(call, 'endless'), await open(call, 'endless'), await open(call, 'endless')]
    for (const { text } of clients) await until('the first bytes have arrived', () => text().includes('one'))
    for (const { socket } of clients.slice(1)) socket.destroy()
    await sleep(200)
    assert.equal(callsReceived('endless')[0]?.ended, 'open')
    clients[0]?.socket.destroy()
    await until('the call is aborted', () => callsReceived('endless')[0]?.ended === 'aborted')
    assert.equal(callsReceived('endless').length, 1)
  })
})

test('coalescing: off by default', async () => {
  const on = stage()
  const upstream = await on.upstream((call) => {
    const act = answerWith(call, { text: TEXT })
    return act.do === 'answer' ? { ...act, after: 500 } : act
  })
  const gateway = await on.gateway({ providers: { a: { baseUrl: `${upstream.url}/v1` } } })
  const { path, body } = chat()
  const ask = () =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', ...body }),
    }).then((one) => one.status)
  assert.deepEqual(await Promise.all([ask(), ask()]), [200, 200])
  assert.equal(callsOf(upstream).length, 2)
})
