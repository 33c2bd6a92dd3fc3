/** The response cache and access lists over real sockets, as a route of the configuration file sets them. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { object } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import type { Upstream, UpstreamRequest } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import { callsOf, stage } from './support/stage.ts'

const [ONE, TWO] = ['client-one-0123456789abcdef', 'client-two-0123456789abcdef']
const ADMIN = 'admin-0123456789abcdef'

type Call = { readonly path: string; readonly body: object }
const MESSAGES = [{ role: 'user', content: 'hello' }]
const CALLS: Readonly<Record<string, (stream: boolean) => Call>> = {
  chat: (stream) => ({ path: '/v1/chat/completions', body: { messages: MESSAGES, temperature: 0, stream } }),
  responses: (stream) => ({ path: '/v1/responses', body: { input: 'hello', temperature: 0, store: false, stream } }),
  messages: (stream) => ({
    path: '/v1/messages',
    body: { max_tokens: 100, messages: MESSAGES, temperature: 0, stream },
  }),
  completions: (stream) => ({ path: '/v1/completions', body: { prompt: 'hello', seed: 7, stream } }),
}

const on = stage()
let upstream: Upstream
let gateway: Started
const callsTo = (model: string) => callsOf(upstream).filter((call) => call.model === model).length

const send = async ({ path, body }: Call, model: string, client = ONE, more: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': client, 'anthropic-version': '2023-06-01', ...more },
    body: JSON.stringify({ model, ...body }),
    signal: AbortSignal.timeout(120_000),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

const STYLES = ['chat', 'responses', 'messages'] as const
const cached = (model: string) => ({ targets: [`a/${model}`], cache: { ttl: 300 } })

before(async () => {
  upstream = await on.upstream((call: UpstreamRequest) => answerWith(call, { text: 'one two three four five' }))
  const names = Object.keys(CALLS).flatMap((style) => [`${style}-true`, `${style}-false`])
  gateway = await on.gateway({
    auth: { keys: [ONE, TWO], admin: ADMIN },
    fallback: 'none',
    routes: Object.fromEntries([...names, 'tenants', 'shared', 'purged'].map((name) => [name, cached(name)])),
    providers: { a: { baseUrl: `${upstream.url}/v1`, styles: [...STYLES] } },
  })
})

for (const [style, call] of Object.entries(CALLS))
  for (const stream of [true, false])
    test(`cache: ${style}, ${stream ? 'streamed' : 'whole'}: the second client request gets the same bytes without a call`, async () => {
      const model = `${style}-${stream}`
      const first = await send(call(stream), model)
      assert.equal(first.status, 200, first.text)
      assert.equal(first.headers.get('x-headgate-cache'), 'miss')
      const again = await send(call(stream), model)
      assert.equal(callsTo(model), 1)
      assert.equal(again.text, first.text)
      assert.match(again.headers.get('x-headgate-cache') ?? '', /^hit; age=\d+$/)
      assert.equal(again.headers.get('age'), /\d+/.exec(again.headers.get('x-headgate-cache') ?? '')?.[0])
      assert.equal(again.headers.get('content-type'), first.headers.get('content-type'))
      assert.equal(again.headers.get('cache-control'), 'private, no-store')
      assert.notEqual(again.headers.get('x-request-id'), first.headers.get('x-request-id'))
    })

test('cache: another client does not receive the answer', async () => {
  const call = CALLS.chat?.(false)
  assert.ok(call)
  await send(call, 'tenants', ONE)
  const other = await send(call, 'tenants', TWO)
  assert.equal(other.headers.get('x-headgate-cache'), 'miss')
  assert.equal(callsTo('tenants'), 2)
})

test('cache: a request without the route has no cache', async () => {
  const call = CALLS.chat?.(false)
  assert.ok(call)
  const reply = await send(call, 'a/plain')
  assert.equal(reply.headers.get('x-headgate-cache'), null)
  assert.equal(reply.headers.get('cache-control'), null)
})

test('cache: a retry with an Idempotency-Key and a hit work together', async () => {
  const call = CALLS.chat?.(true)
  assert.ok(call)
  const first = await send(call, 'shared', ONE, { 'idempotency-key': 'first' })
  const hit = await send(call, 'shared', ONE, { 'idempotency-key': 'second' })
  const retried = await send(call, 'shared', ONE, { 'idempotency-key': 'second' })
  assert.match(hit.headers.get('x-headgate-cache') ?? '', /^hit/)
  assert.equal(retried.headers.get('x-headgate-idempotent'), 'stored')
  assert.deepEqual([hit.text, retried.text], [first.text, first.text])
  assert.equal(callsTo('shared'), 1)
})

test('cache: the log and the metrics count hits', async () => {
  const call = CALLS.chat?.(false)
  assert.ok(call)
  await send(call, 'shared')
  const { headers } = await send(call, 'shared')
  const id = headers.get('x-request-id')
  const line = await gateway.line((one) => one.event === 'request' && one.id === id)
  assert.deepEqual([line.cache, line.shared, line.attempts, line.input_tokens], ['hit', 'cache', 0, undefined])
  const page = async () => (await fetch(`${gateway.url}/metrics`)).text()
  const count = async () =>
    Number(/^headgate_cache_requests_total\{result="hit"\} (\d+)$/m.exec(await page())?.[1] ?? 0)
  assert.ok((await count()) >= 1)
  assert.match(await page(), /^headgate_cache_bytes [1-9]/m)
})

test('cache: an operator sees its size and purges the answers of a model', async () => {
  const call = CALLS.chat?.(false)
  assert.ok(call)
  await send(call, 'purged')
  const admin = async (path: string, body?: object) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(120_000),
    })
    assert.equal(response.status, 200, path)
    return object(await response.json())
  }
  const before = await admin('/cache')
  assert.equal(before?.limit_bytes, 67_108_864)
  assert.ok(Number(before?.bytes) > 0)
  assert.equal((await admin('/cache/purge', { model: 'a/purged' }))?.removed, 1)
  assert.equal((await admin('/cache/purge', { model: 'a/purged' }))?.removed, 0)
  assert.equal((await admin('/cache'))?.answers, Number(before?.answers) - 1)
  assert.equal((await send(call, 'purged')).headers.get('x-headgate-cache'), 'miss')
})
