/** A used-up budget refuses every way to spend of a real gateway: each style, a WebSocket, the playground and a replay. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { answerWith } from '../support/answers.ts'
import { until } from '../support/upstream.ts'
import { post } from './support/process.ts'
import { callsOf, stage } from './support/stage.ts'

const ADMIN = 'admin-0123456789abcdef'
const CLIENT = 'client-key-0123456789abcdef'
const operator = { authorization: `Bearer ${ADMIN}` }
const client = { authorization: `Bearer ${CLIENT}` }
const messages = [{ role: 'user', content: 'hello' }]

const CALLS: readonly (readonly [path: string, body: object])[] = [
  ['/chat/completions', { messages }],
  ['/chat/completions', { messages, stream: true }],
  ['/completions', { prompt: 'hello' }],
  ['/responses', { input: 'hello' }],
  ['/responses', { input: 'hello', stream: true }],
  ['/responses', { input: 'hello', background: true }],
  ['/responses/compact', { input: 'hello' }],
  ['/messages', { max_tokens: 9, messages }],
  ['/messages', { max_tokens: 9, messages, stream: true }],
]

const on = stage()

test('a used-up budget refuses every path that can spend, and no provider is called', async () => {
  const upstream = await on.upstream((call) => answerWith(call, { text: 'hello', input: 10, output: 10 }))
  const gateway = await on.gateway(
    {
      auth: { keys: [CLIENT], admin: ADMIN },
      providers: { a: { baseUrl: `${upstream.url}/v1` } },
      prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
      budgets: { all: { amount: '10.00', period: 'total' } },
    },
    { BODIES_SAMPLE: '1' },
  )
  const api = `${gateway.url}/admin/api/v1`
  const call = (path: string, body: object, base = gateway.base, headers: Readonly<Record<string, string>> = client) =>
    post(`${base}${path}`, { model: 'a/m', ...body }, headers)
  const turn = async () => {
    const socket = new WebSocket(`${gateway.base.replace('http', 'ws')}/responses`, { headers: client })
    on.keep(async () => socket.terminate())
    const events: string[] = []
    socket.on('message', (data) => events.push(String(data)))
    await new Promise((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
    })
    socket.send(JSON.stringify({ type: 'response.create', model: 'a/m', input: 'hello' }))
    await until(
      'the end of the turn',
      () => /^\{"type":"(?:response\.completed|error)"/.test(events.at(-1) ?? ''),
      30_000,
    )
    socket.terminate()
    return events.at(-1) ?? ''
  }
  const rowOf = async (id: string) => {
    for (const end = performance.now() + 120_000; performance.now() < end; await sleep(50)) {
      const response = await fetch(`${api}/requests/${id}`, { headers: operator })
      const text = await response.text()
      if (response.status === 200) return JSON.parse(text)
    }
    return assert.fail(`the request ${id} was not stored`)
  }
  const replay = async (id: string) => {
    const started = await post(`${api}/requests/${id}/replay`, {}, operator)
    assert.equal(started.status, 202, started.text)
    return rowOf(started.json().id)
  }

  // While there is something left, each of these paths reaches the provider.
  for (const [path, body] of CALLS) {
    const { status, text } = await call(path, body)
    assert.equal(status, 200, `${path}: ${text}`)
  }
  assert.match(await turn(), /^\{"type":"response\.completed"/)
  const kept = (await call('/chat/completions', { messages })).headers.get('x-request-id') ?? ''
  await rowOf(kept)
  assert.equal((await replay(kept)).status, 200)
  const playground = () => call('/v1/chat/completions', { messages }, `${api}/try`, operator)
  assert.equal((await playground()).status, 200)
  const wanted = CALLS.length + 4
  await until('every call has arrived', () => callsOf(upstream).length === wanted, 30_000)

  const list = await (await fetch(`${api}/budgets`, { headers: operator })).text()
  const { id } = JSON.parse(list).data[0]
  const spent = await post(
    `${api}/budgets/${encodeURIComponent(id)}/adjust`,
    { amount: '10.00', reason: 'test' },
    operator,
  )
  assert.equal(spent.status, 200, spent.text)
  for (const [path, body] of CALLS) {
    const { status, headers, text } = await call(path, body)
    assert.equal(status, 402, `${path}: ${text}`)
    assert.match(headers.get('x-headgate-limit') ?? '', /^budget; id=bud_/)
  }
  assert.match(await turn(), /"status":402,.*"code":"budget_exceeded"/)
  assert.equal((await playground()).status, 402)
  const { status, code, attempts } = await replay(kept)
  assert.deepEqual([status, code, attempts], [402, 'budget_exceeded', []])
  assert.equal(callsOf(upstream).length, wanted, 'no provider is called')
})
