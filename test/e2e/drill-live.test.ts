/** Live checks of the drill with a real gateway: what is sent, what it costs, and what they find. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { list } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { post, start } from './support/process.ts'

const ADMIN = 'admin-token-0123456789'
const CANARY = 'canary81c3d2'

const yamlOf = (url: string, drill: string): string => `fallback: same-model
drill: { shapes: true, live: true, at: never ${drill} }
auth: { required: false, admin: ${ADMIN} }
prices: [ { provider: "*", model: "*", perMillion: { input: 1, output: 10 } } ]
providers:
  house: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [house-key-0123456789], models: [usual] }
  other: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [other-key-0123456789], models: [next], facts: { region: us } }
  far: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [far-key-0123456789], models: [last] }
routes:
  fast: { targets: [house/usual, other/next] }
  dry: { targets: [house/usual, far/last], drill: { live: false } }
`

const given = async (context: TestContext, drill = '') => {
  const upstream = await startUpstream((call: UpstreamRequest) =>
    call.json.model === 'next' && call.body.includes('"pattern"')
      ? {
          do: 'answer',
          status: 400,
          body: JSON.stringify({
            error: {
              message: "Invalid schema: 'pattern' is not permitted.",
              type: 'invalid_request_error',
              code: null,
              param: null,
            },
          }),
        }
      : answerWith(call, { text: 'OK' }),
  )
  context.after(() => upstream.close())
  const gateway = await start({ files: { 'headgate.yaml': yamlOf(upstream.url, drill) }, env: { AUTH_ADMIN: ADMIN } })
  context.after(() => gateway[Symbol.asyncDispose]())
  const authorization = { authorization: `Bearer ${ADMIN}` }
  const admin = async (path: string, body?: object) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      headers: { ...authorization, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
    return { status: response.status, json: JSON.parse(await response.text()) }
  }
  const tool = (parameters: object) => ({ type: 'function', function: { name: `${CANARY}_tool`, parameters } })
  const ask = async (model: string, more: object) => {
    const response = await post(`${gateway.url}/v1/chat/completions`, {
      ...{ model, user: `${CANARY}-user`, messages: [{ role: 'user', content: CANARY }] },
      ...more,
    })
    assert.equal(response.status, 200, response.text)
  }
  for (const model of ['fast', 'dry']) {
    for (let count = 0; count < 9; count++) await ask(model, {})
    await ask(model, {
      tools: [tool({ type: 'object', properties: { [`${CANARY}_p`]: { type: 'string', pattern: '^x' } } })],
    })
  }
  const sent = () => upstream.requests.filter(({ json }) => json.model === 'next' || json.model === 'last')
  return { admin, sent }
}

test('live checks: the refused keyword is named with few small requests, at the stated cost', async (context) => {
  const { admin, sent } = await given(context)
  const wrong = await admin('/drill/live', { routes: ['fats'] })
  assert.deepEqual([wrong.status, wrong.json.error.message.includes('Did you mean fast?')], [404, true])
  assert.equal((await admin('/drill/live', { routes: ['dry'] })).status, 400)
  assert.equal((await admin('/drill/live', { maxCost: '3.00' })).status, 402)
  assert.deepEqual([(await admin('/drill/live')).json.run, sent().length], [null, 0])

  const begun = await admin('/drill/live', {})
  assert.equal(begun.status, 200, JSON.stringify(begun.json))
  assert.equal(begun.json.run.ended, null)
  assert.equal((await admin('/drill/live', {})).status, 409)
  const ended = async () => {
    for (const end = performance.now() + 150_000; ; await new Promise((done) => setTimeout(done, 500))) {
      const { json } = await admin('/drill/live')
      if (json.run.ended !== null) return json
      assert.ok(performance.now() < end, JSON.stringify(json))
    }
  }
  const { run, data } = await ended()
  assert.deepEqual([run.sent, run.ready, run.refused, run.unsettled, run.left], [sent().length, 1, 1, 0, {}])
  const [refused] = data
  assert.deepEqual(
    [refused.provider, refused.model, refused.verdict, refused.by],
    ['other', 'next', 'refused', 'tool.pattern'],
  )

  for (const { json: body, body: text, headers } of sent()) {
    // The route without live checks has a target of its own, which receives nothing.
    assert.equal(body.model, 'next')
    assert.ok(!text.includes(CANARY) && body.user === undefined && body.metadata === undefined)
    assert.equal(body.max_tokens ?? body.max_completion_tokens, 16)
    assert.ok(list(body.tools).every((one) => /"name":"drill_\d+"/.test(JSON.stringify(one))))
    assert.ok(!Object.keys(headers).some((name) => name.includes('session')))
  }
  // What the ledger has of the team is what the run has stated.
  const usage = (await admin('/usage?by=team')).json
  const spent = usage.data.find(({ team }: { team: string }) => usage.names[team] === 'drill')
  assert.deepEqual([spent.requests, Number(spent.cost)], [run.sent, Number(run.spent)])
  // The next run has nothing to find.
  const before = sent().length
  assert.equal((await admin('/drill/live', {})).status, 200)
  assert.equal((await ended()).run.sent, 0)
  assert.equal(sent().length, before)
})
