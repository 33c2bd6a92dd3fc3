/** A canary of three gateways that share Postgres: it is judged by what all have seen, and stopped for all. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith, failWith } from '../support/answers.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const ADMIN = 'hg-admin-token-of-this-test-0123'

test('canary: three gateways stop it by their counts together', {
  skip: skipPostgres,
  timeout: 120_000,
}, async (context) => {
  const postgres = await startPostgres()
  context.after(() => postgres.remove())
  const upstream = await startUpstream((call) =>
    call.json.model === 'fresh'
      ? failWith(call, 500, { type: 'server_error', message: 'broken' })
      : answerWith(call, { text: 'hello' }),
  )
  context.after(() => upstream.close())
  const file = `
providers:
  house: { kind: openai-compatible, baseUrl: "${upstream.url}/v1", keys: [k], models: [usual, fresh] }
fallback: none
circuit: { consecutiveFailures: 1000, minRequests: 1000 }
routes:
  fast: { targets: [ house/usual, house/fresh ], canary: { target: 1, steps: [50, 100], every: 3600000 } }
auth: { admin: ${ADMIN}, required: false }
`
  const gateways: Started[] = []
  for (let at = 0; at < 3; at++) {
    const gateway = await start({ env: { DATABASE_URL: postgres.url }, files: { 'headgate.yaml': file } })
    context.after(() => gateway[Symbol.asyncDispose]())
    gateways.push(gateway)
  }
  const state = async ({ url }: Started) => {
    const response = await fetch(`${url}/admin/api/v1/canaries`, { headers: { authorization: `Bearer ${ADMIN}` } })
    const { data } = (await response.json()) as { readonly data: readonly { status: string; reason: string | null }[] }
    return data[0] ?? assert.fail('no canary')
  }
  const tried = () => upstream.requests.filter(({ json }) => json.model === 'fresh').length

  // In turn, so each gateway has a third of the attempts.
  let sent = 0
  for (const end = performance.now() + 60_000; (await state(gateways[0] ?? assert.fail())).status === 'running'; ) {
    assert.ok(performance.now() < end, `not stopped after ${tried()} attempts at the canary`)
    await Promise.all(
      gateways.map(async ({ url }) => {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-headgate-session': `s-${sent++}` },
          body: JSON.stringify({ model: 'fast', messages: [{ role: 'user', content: 'hi' }] }),
        })
        assert.equal(response.status, 200, await response.text())
      }),
    )
    await sleep(50)
  }
  // One gateway alone needs 50 attempts of its own, so three need 150.
  assert.ok(tried() < 120, `${tried()} attempts`)
  const { reason } = await state(gateways[0] ?? assert.fail())
  assert.match(reason ?? '', /^100 % of [0-9]+ requests failed, 0 % of [0-9]+ of the other targets$/)
  for (const gateway of gateways)
    for (const end = performance.now() + 20_000; (await state(gateway)).status !== 'stopped'; await sleep(50))
      assert.ok(performance.now() < end, 'not stopped everywhere')
})
