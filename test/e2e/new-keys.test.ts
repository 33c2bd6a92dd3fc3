/** What is written by the admin API acts at once in every worker: the next request may reach any of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { post, start } from './support/process.ts'
import { stage } from './support/stage.ts'

const ADMIN = 'admin-0123456789abcdef'
const WORKERS = 3
/** Enough connections for each worker to get some. */
const EACH = 12
const ROUNDS = 15

const on = stage()

test('a new, blocked, rotated or revoked key and a budget act at once in every worker', async () => {
  const upstream = await on.upstream((call) => answerWith(call, { text: 'x', input: 100, output: 100 }))
  await using gateway = await start({
    env: {
      AUTH_ADMIN: ADMIN,
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_MODELS: 'm',
      WORKERS: String(WORKERS),
    },
    files: { 'headgate.yaml': 'prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]\n' },
  })
  const admin = async (method: string, path: string, body: object = {}): Promise<Record<string, string>> => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', connection: 'close' },
      body: JSON.stringify(body),
    })
    const text = await response.text()
    assert.ok(response.ok, text)
    return JSON.parse(text)
  }
  /** The statuses of requests on connections of their own, each once. */
  const statuses = async (key: string | undefined) => {
    const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
    const headers = { authorization: `Bearer ${key}`, connection: 'close' }
    const all = Array.from({ length: EACH }, () => post(`${gateway.base}/chat/completions`, body, headers))
    return [...new Set((await Promise.all(all)).map(({ status }) => status))]
  }
  for (let round = 0; round < ROUNDS; round++) {
    const { id, secret } = await admin('POST', '/keys', { name: `key-${round}` })
    assert.deepEqual(await statuses(secret), [200], `created, round ${round}`)
    const { secret: second } = await admin('POST', `/keys/${id}/rotate`, { overlap: '1h' })
    assert.deepEqual(await statuses(second), [200], `rotated, round ${round}`)
    const appliesTo = { keys: [id] }
    const spent = { name: `budget-${round}`, amount: '0.000001', period: 'total', appliesTo }
    const budget = await admin('POST', '/budgets', spent)
    assert.deepEqual(await statuses(second), [402], `budget, round ${round}`)
    await admin('PATCH', `/budgets/${budget.id}?force=true`, { amount: '10.00' })
    assert.deepEqual(await statuses(second), [200], `larger budget, round ${round}`)
  }
  // Few of these: an address with many refused keys is slowed down.
  const { id, secret } = await admin('POST', '/keys', { name: 'last' })
  await admin('POST', `/keys/${id}/block`)
  assert.deepEqual(await statuses(secret), [401], 'blocked')
  await admin('POST', `/keys/${id}/unblock`)
  assert.deepEqual(await statuses(secret), [200], 'unblocked')
  const { secret: second } = await admin('POST', `/keys/${id}/rotate`, { overlap: '0s' })
  assert.deepEqual(await statuses(secret), [401], 'ended')
  assert.deepEqual(await statuses(second), [200], 'rotated')
  await admin('DELETE', `/keys/${id}?force=true`)
  assert.deepEqual(await statuses(second), [401], 'revoked')
})
