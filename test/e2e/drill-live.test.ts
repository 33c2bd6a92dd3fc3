/** Live checks of the drill with a real gateway: what is sent, what it costs, and what the report says after it. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { list } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { post, start } from './support/process.ts'
import { verb } from './support/verb.ts'

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
  for (
    const end = performance.now() + 30_000;
    performance.now() < end;
    await new Promise((done) => setTimeout(done, 100))
  ) {
    const { json } = await admin('/drill/shapes')
    if (json.data.length === 4) break
  }
  const sent = () => upstream.requests.filter(({ json }) => json.model === 'next' || json.model === 'last')
  return { gateway, admin, sent, upstream }
}

test('live checks: the refused keyword is named with few small requests, and the report says what is lost', async (context) => {
  const { gateway, admin, sent } = await given(context)
  assert.equal((await admin('/drill')).json.data[0].units[0].lost, 0)
  const wrong = await admin('/drill/run', { live: true, routes: ['fats'] })
  assert.deepEqual([wrong.status, wrong.json.error.message.includes('Did you mean fast?')], [404, true])
  assert.equal((await admin('/drill/run', { live: true, routes: ['dry'] })).status, 400)
  assert.equal((await admin('/drill/run', { live: true, maxCost: '3.00' })).status, 402)
  assert.equal(sent().length, 0)

  const begun = await admin('/drill/run', { live: true })
  assert.equal(begun.status, 200, JSON.stringify(begun.json))
  assert.equal(begun.json.live.ended, null)
  assert.equal((await admin('/drill/run', { live: true })).status, 409)
  for (
    const end = performance.now() + 150_000;
    performance.now() < end;
    await new Promise((done) => setTimeout(done, 500))
  )
    if ((await admin('/drill')).json.live.ended !== null) break
  const { json } = await admin('/drill/run', {})
  const { live, data } = json
  assert.deepEqual([live.sent, live.ready, live.refused, live.unsettled, live.left], [sent().length, 1, 1, 0, {}])

  for (const { json: body, body: text, headers } of sent()) {
    assert.equal(body.model, 'next')
    assert.ok(!text.includes(CANARY) && body.user === undefined && body.metadata === undefined)
    assert.equal(body.max_tokens ?? body.max_completion_tokens, 16)
    assert.ok(list(body.tools).every((one) => /"name":"drill_\d+"/.test(JSON.stringify(one))))
    assert.ok(!Object.keys(headers).some((name) => name.includes('session')))
  }
  const fast = data.find(({ route }: { route: string }) => route === 'fast')
  const unit = fast.units.find((one: { unit: string }) => one.unit === 'house')
  assert.equal(unit.lost, 0.1)
  const [cause] = unit.causes
  assert.deepEqual(
    [cause.targets[0].verdict, cause.targets[0].by, cause.targets[0].source],
    ['refused', 'tool.pattern', 'live'],
  )
  assert.equal(data.find(({ route }: { route: string }) => route === 'dry').units[0].lost, 0)
  // What the ledger has of the team is what the run has stated.
  const usage = (await admin('/usage?by=team')).json
  const spent = usage.data.find(({ team }: { team: string }) => usage.names[team] === 'drill')
  assert.equal(spent.requests, live.sent)
  assert.equal(Number(spent.cost), Number(live.spent))
  // The next run has nothing to find.
  const before = sent().length
  const env = { HEADGATE_ADMIN_TOKEN: ADMIN }
  const words = ['drill', 'fast', '--fail', 'house', '--live', '--max-cost', '0.005', '--url', gateway.url]
  const shown = await verb(words, { env })
  assert.equal(shown.code, 7, shown.stderr)
  assert.match(shown.stdout, /requests with `tool\.pattern` refused by other\/next \(live\)/)
  assert.equal(sent().length, before)
})
