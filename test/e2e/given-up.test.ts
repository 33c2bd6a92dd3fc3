/** Calls that their clients give up, over each path: they are charged what was reserved, and their slots are free again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { plainDigest } from '../../src/records/entities/secret-digest.ts'
import { until } from '../support/upstream.ts'
import { post } from './support/process.ts'
import { callsOf, rawClient, rawRequest, stage } from './support/stage.ts'

const ADMIN = 'admin-0123456789abcdefghijk'
const CLIENT = 'client-key-0123456789abcdef'
const client = { authorization: `Bearer ${CLIENT}`, 'content-type': 'application/json' }
const on = stage()

test('given up: background responses, WebSocket turns and hedged calls cost their reservation, and free their slot', async () => {
  const upstream = await on.upstream(() => ({ do: 'hang' }))
  const gateway = await on.gateway({
    auth: { admin: ADMIN },
    keys: { k: { digest: plainDigest(CLIENT), limits: { concurrent: 1 } } },
    providers: { a: { baseUrl: `${upstream.url}/v1` }, b: { baseUrl: `${upstream.url}/v1`, models: ['m'] } },
    routes: { r: { targets: ['a/m', 'b/m'] } },
    hedge: { percent: 100, delay: 50 },
    retry: { maxAttempts: 2 },
    prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 1_000 } }],
    budgets: { all: { amount: '1000.00', period: 'total' } },
  })
  const budget = async (): Promise<{ spent: number; reserved: number }> => {
    const answer = await fetch(`${gateway.url}/admin/api/v1/budgets`, { headers: { authorization: `Bearer ${ADMIN}` } })
    const { data } = (await answer.json()) as { data: { now: { spent: string; reserved: string } }[] }
    return { spent: Number(data[0]?.now.spent), reserved: Number(data[0]?.now.reserved) }
  }
  const max = { model: 'r', max_output_tokens: 1_000 }
  let total = 0
  const givenUp = async (calls: number, begin: () => Promise<() => Promise<unknown>>) => {
    const before = callsOf(upstream).length
    const leave = await begin()
    await until('the calls are sent', () => callsOf(upstream).length >= before + calls, 20_000)
    await leave()
    await until('the calls end', () => callsOf(upstream).every(({ ended }) => ended === 'aborted'), 20_000)
    let now = await budget()
    while (now.reserved > 0) now = await budget()
    // Calls of 1,000 tokens for a dollar each.
    assert.ok(now.spent - total >= calls, `${total} ${now.spent}`)
    total = now.spent
  }
  await givenUp(2, async () => {
    const raw = await rawClient(
      gateway.url,
      rawRequest('/v1/responses', JSON.stringify({ ...max, input: 'x', stream: true }), client),
    )
    return async () => raw.socket.destroy()
  })
  await givenUp(1, async () => {
    const { json, status, text } = await post(
      `${gateway.base}/responses`,
      { ...max, input: 'x', background: true },
      client,
    )
    assert.equal(status, 200, text)
    return () => post(`${gateway.base}/responses/${json().id}/cancel`, {}, client)
  })
  await givenUp(1, async () => {
    const socket = new WebSocket(`${gateway.base.replace('http', 'ws')}/responses`, {
      headers: { authorization: client.authorization },
    })
    await new Promise((resolve) => socket.once('open', resolve))
    socket.send(JSON.stringify({ type: 'response.create', ...max, input: 'x' }))
    return async () => socket.terminate()
  })
  // Each began with the only slot of the key.
  assert.equal(callsOf(upstream).length, 4)
})
