/** The header `x-headgate-fault` breaks responses of the built-in demo, and reaches no other provider. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const ask = (base: string, fault: string, body: object) =>
  fetch(`${base}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-headgate-fault': fault },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], ...body }),
  })

describe('faults of the demo', { concurrency: false }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start()
  })
  after(() => gateway.stop())

  test('of the first attempt only: the gateway answers with the second', async () => {
    const response = await ask(gateway.base, 'status=500#1', { model: 'demo/echo' })
    assert.equal(response.status, 200)
    assert.match(response.headers.get('x-headgate-trail') ?? '', /500.*200/)
    assert.match(await response.text(), /No model was called/)
  })

  test('in a stream: the client receives an error in place of the end', async () => {
    const response = await ask(gateway.base, 'cut@5', { model: 'demo/echo', stream: true })
    const text = await response.text()
    assert.match(text, /"content":"\[demo\]"/)
    assert.match(text, /"error":/)
    assert.doesNotMatch(text, /"finish_reason":"stop"|\[DONE\]/)
  })

  test('an unknown one is a 400', async () => {
    const response = await ask(gateway.base, 'rest', { model: 'demo/echo' })
    assert.equal(response.status, 400)
    assert.match(await response.text(), /Did you mean reset\?/)
  })
})

test('the header of a fault reaches no other provider', async (context) => {
  const upstream = await startUpstream((request) => answerWith(request, { text: 'Hello' }))
  context.after(() => upstream.close())
  await using gateway = await start({ env: { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: `${upstream.url}/v1` } })
  const response = await ask(gateway.base, 'reset', { model: 'openai/gpt-5.4' })
  assert.equal(response.status, 200, await response.text())
  assert.equal(upstream.requests[0]?.headers['x-headgate-fault'], undefined)
})
