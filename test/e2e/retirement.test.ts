/** Ends of models in a running gateway: dates from the provider's list, an answer and the file; headers, routes, the admin API and the doctor. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const DAY = 24 * 3_600_000
const inDays = (days: number): string => new Date(Date.now() + days * DAY).toISOString().slice(0, 10)
const [LISTED, STATED] = [inDays(40), `${inDays(20)}T00:00:00Z`]
const ENDED = '2026-01-01'
const ADMIN = 'hg-admin-token-of-this-test-0123'

const FILE = `
models:
  openai/gone: { retires: ${ENDED}, successor: listed }
  openai/listed: { successor: sol }
routes:
  kept: { targets: [ openai/gone ] }
  moved: { targets: [ openai/gone ], onRetired: successor }
  usual: { targets: [ openai/listed ] }
fallback: none
auth: { admin: ${ADMIN}, required: true }
teams: { search: {} }
keys: { one: { team: search, secret: "hg-test-client-key-0123456789" } }
`
/** Repeats a check that sends requests, at most for 20 s. */
const eventually = async (what: string, check: () => Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 20_000; !(await check()); await new Promise((done) => setTimeout(done, 50)))
    assert.ok(performance.now() < end, what)
}

const messages = [{ role: 'user', content: 'hi' }]

describe('retirement', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  let fetchedAt = 0
  before(async () => {
    upstream = await startUpstream((call) => {
      if (call.path.endsWith('/models')) {
        const model = { object: 'model', created: 1_686_935_002, owned_by: 'openai' }
        const data = [
          { id: 'listed', ...model, shutdown_date: LISTED },
          { id: 'gone', ...model, shutdown_date: LISTED },
          { id: 'sol', ...model, shutdown_date: null },
        ]
        return { do: 'answer', body: { object: 'list', data } }
      }
      if (call.json.model === 'gone')
        return {
          do: 'answer',
          status: 404,
          body: {
            error: {
              message: 'The model `gone` does not exist',
              type: 'invalid_request_error',
              param: null,
              code: 'model_not_found',
            },
          },
        }
      const act = answerWith(call, { text: 'hello' })
      if (!/gemini/.test(call.path) || act.do !== 'answer') return act
      const body = { ...(act.body as object), modelStatus: { modelStage: 'LEGACY', retirementTime: STATED } }
      return { ...act, body }
    })
    fetchedAt = Math.floor(Date.now() / 1000)
    gateway = await start({
      env: {
        OPENAI_API_KEY: 'k',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        GEMINI_API_KEY: 'k',
        GEMINI_BASE_URL: `${upstream.url}/v1beta`,
      },
      files: { 'headgate.yaml': FILE },
    })
    await until('the list is fetched', () => upstream.requests.some(({ path }) => path.endsWith('/v1/models')))
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  const send = async (model: string, more: object = {}, path = '/v1/chat/completions') => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer hg-test-client-key-0123456789' },
      body: JSON.stringify({ model, messages, ...more }),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const endOf = ({ headers }: { readonly headers: Headers }) =>
    ['sunset', 'x-headgate-successor'].map((name) => headers.get(name))
  const http = (text: string): string => new Date(text).toUTCString()

  test('retirement: a client that names the model receives the date of the provider’s list', async () => {
    await eventually('the list is read', async () => (await send('openai/listed')).headers.get('sunset') !== null)
    const whole = await send('openai/listed')
    assert.equal(whole.status, 200)
    assert.deepEqual(endOf(whole), [http(LISTED), 'openai/sol'])
    const [, since] = /^@([0-9]+)$/.exec(whole.headers.get('deprecation') ?? '') ?? []
    assert.ok(Number(since) >= fetchedAt && Number(since) <= Date.now() / 1000, since)
    assert.deepEqual(endOf(await send('listed', { stream: true })), [http(LISTED), 'openai/sol'])
    const message = await send('listed', { max_tokens: 9 }, '/v1/messages')
    assert.deepEqual([message.status, ...endOf(message)], [200, http(LISTED), 'openai/sol'])
  })

  test('retirement: a client of a route, or of a model without an end, receives none', async () => {
    for (const model of ['usual', 'openai/sol', 'moved']) {
      const { status, headers } = await send(model)
      assert.equal(status, 200)
      for (const name of ['sunset', 'deprecation', 'x-headgate-successor']) assert.equal(headers.get(name), null, model)
    }
  })

  test('retirement: an answer of Gemini states the end, which the next one announces', async () => {
    const first = await send('gemini/gemini-x')
    assert.equal(first.status, 200)
    assert.equal(first.headers.get('sunset'), null)
    assert.deepEqual(endOf(await send('gemini/gemini-x')), [http(STATED), null])
  })

  test('retirement: a model that has ended fails as before, with its date', async () => {
    const named = await send('openai/gone')
    assert.equal(named.status, 404)
    assert.deepEqual(endOf(named), [http(ENDED), 'openai/listed'])
    assert.match(named.text, /model_not_found/)
    assert.equal((await send('kept')).status, 404)
  })

  test('retirement: a route with onRetired uses the successor, and its plan names it', async () => {
    const { status, headers } = await send('moved')
    assert.deepEqual([status, headers.get('x-headgate-model')], [200, 'listed'])
    assert.equal(upstream.requests.at(-1)?.json.model, 'listed')
    const { text } = await send('moved', {}, '/v1/route')
    const [target] = JSON.parse(text).targets
    assert.deepEqual(
      [target.model, target.because, target.retires, target.successor],
      ['listed', 'the route "moved", in place of gone', `${LISTED}T00:00:00.000Z`, 'sol'],
    )
  })

  test('retirement: the admin API lists models in use with their routes and teams, and the doctor repeats it', async () => {
    const read = async (): Promise<readonly Readonly<Record<string, unknown>>[]> => {
      const response = await fetch(`${gateway.url}/admin/api/v1/models/retiring`, {
        headers: { authorization: `Bearer ${ADMIN}` },
      })
      assert.equal(response.status, 200)
      // The test reads members of a known answer.
      return ((await response.json()) as { data: readonly Readonly<Record<string, unknown>>[] }).data
    }
    await eventually('the requests are stored', async () => (await read()).some(({ requests }) => Number(requests) > 0))
    const found = await read()
    const of = (model: string) => found.find((one) => one.model === model) ?? assert.fail(model)
    const gone = of('gone')
    assert.deepEqual([gone.source, gone.retires, gone.successor], ['file', `${ENDED}T00:00:00.000Z`, 'listed'])
    assert.deepEqual(gone.routes, ['kept', 'moved'])
    assert.ok(Number(gone.days) < 0)
    const listed = of('listed')
    assert.deepEqual([listed.source, listed.routes, listed.days], ['list', ['usual'], 39])
    assert.deepEqual(
      (listed.teams as readonly { name: string; requests: number }[]).map(({ name, requests }) => [name, requests]),
      [['search', listed.requests]],
    )
    assert.ok(Number(listed.requests) >= 4)
    assert.deepEqual([of('gemini-x').source, of('gemini-x').routes], ['answer', []])
    assert.equal(
      found.some(({ model }) => model === 'sol'),
      false,
    )

    const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: `${upstream.url}/v1` }
    const doctor = await verb(['doctor', '--json'], { cwd: gateway.folder, env })
    const { data } = doctor.json()
    const lines = data
      .filter(({ check }: { check: string }) => check === 'models')
      .map(({ detail }: { detail: string }) => detail)
    assert.ok(
      lines.includes(`openai/gone ended on ${ENDED}; successor: listed; routes: kept, moved; teams: search`),
      lines.join('; '),
    )
    // Only the gateway knows the provider's list.
    assert.ok(
      lines.includes(`openai/listed ends on ${LISTED}; successor: sol; routes: usual; teams: search`),
      lines.join('; '),
    )
  })
})
