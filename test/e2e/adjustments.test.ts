/** Corrections of budgets and costs by an operator, and what clients read about their own use; with a real process. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, type StartOptions, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'operator-token-0123456789'
const KEY = 'client-key-0123456789'
/** 100 tokens of input at $10 and 100 of output at $40 per million: half a cent. */
const PRICES = 'prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]\n'
/** Room for two answers, and not for the reservation of a third. */
const YAML = `${PRICES}budgets: { all: { amount: "0.0101", period: month } }\n`
const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const folder = mkdtempSync(join(tmpdir(), 'headgate-adjust-'))
let upstream: Upstream
before(async () => {
  upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
})
after(async () => {
  await upstream?.close()
  rmSync(folder, { recursive: true, force: true })
})

const gateway = (data: string, { env = {}, ...more }: StartOptions = {}) =>
  start({
    env: {
      AUTH_ADMIN: ADMIN,
      AUTH_KEYS: KEY,
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_MODELS: 'm',
      DATA_DIR: join(folder, data),
      ...env,
    },
    ...more,
  })
const ask = (to: Started, key = KEY) => post(`${to.base}/chat/completions`, body, bearer(key))
const admin = async (
  to: Started,
  method: string,
  path: string,
  { headers, ...sent }: { readonly headers?: Record<string, string>; readonly [member: string]: unknown } = {},
) => {
  const response = await fetch(`${to.url}/admin/api/v1${path}`, {
    method,
    headers: { ...bearer(ADMIN), ...(method !== 'GET' && { 'content-type': 'application/json' }), ...headers },
    ...(method !== 'GET' && { body: JSON.stringify(sent) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
  return { status: response.status, headers: response.headers, json: (await response.json()) as any }
}
const run = async (to: Started, ...words: string[]) => {
  const result = await verb(['--url', to.url, ...words], { env: { HEADGATE_ADMIN_TOKEN: ADMIN } })
  assert.equal(result.code, 0, result.stdout + result.stderr)
  return result
}
const budgetOf = async (to: Started) => (await admin(to, 'GET', '/budgets')).json.data[0]
const idFor = async (to: Started): Promise<string> => String((await budgetOf(to)).id)
const spend = async (to: Started, times: number) => {
  for (let time = 0; time < times; time++) {
    const answer = await ask(to)
    assert.equal(answer.status, 200, answer.text)
  }
}

describe('adjustments of a budget', () => {
  test('a reset and a credit admit requests again, and the shown figures are those that decide', async () => {
    await using running = await gateway('budgets', { files: { 'headgate.yaml': YAML } })
    await spend(running, 2)
    assert.equal((await ask(running)).status, 402)
    assert.equal((await budgetOf(running)).now.spent, '0.010000000')

    assert.match((await run(running, 'budgets', 'reset', 'all', '--reason', 'load test')).stdout, /^all: reset$/m)
    assert.equal((await budgetOf(running)).now.spent, '0.000000000')
    await spend(running, 2)
    assert.equal((await ask(running)).status, 402)

    await run(running, 'budgets', 'adjust', 'all', '--reason', 'refund', '--', '-0.005')
    assert.deepEqual((await budgetOf(running)).now.spent, '0.005000000')
    await spend(running, 1)
    assert.equal((await ask(running)).status, 402)
    // The other sign takes room away.
    await run(running, 'budgets', 'reset', 'all', '--reason', 'again')
    await run(running, 'budgets', 'adjust', 'all', '0.009', '--reason', 'spent elsewhere')
    assert.equal((await ask(running)).status, 402)

    const { data } = (await admin(running, 'GET', '/usage/adjustments')).json
    assert.deepEqual(
      data.map((one: { amount: string; reason: string }) => [one.amount, one.reason]),
      [
        ['0.009000000', 'spent elsewhere'],
        ['-0.010000000', 'again'],
        ['-0.005000000', 'refund'],
        ['-0.010000000', 'load test'],
      ],
    )
    const audit = (await admin(running, 'GET', '/audit?action=budget.reset')).json.data
    assert.deepEqual(
      audit.map(({ object }: { object: string }) => object),
      [await idFor(running), await idFor(running)],
    )
  })

  test('are part of what is spent after a restart', async () => {
    await using running = await gateway('budgets', { files: { 'headgate.yaml': YAML } })
    assert.equal((await budgetOf(running)).now.spent, '0.009000000')
    assert.equal((await ask(running)).status, 402)
    await run(running, 'budgets', 'reset', 'all', '--reason', 'after a restart')
    await spend(running, 2)
  })

  test('a repetition with the same Idempotency-Key does not act again', async () => {
    await using running = await gateway('repeated', { files: { 'headgate.yaml': YAML } })
    const path = `/budgets/${await idFor(running)}/adjust`
    const by = (amount: string) =>
      admin(running, 'POST', path, { amount, reason: 'x', headers: { 'idempotency-key': 'k1' } })
    const twice = () => by('0.002')
    const [first, second] = [await twice(), await twice()]
    assert.deepEqual([first.status, second.status, second.json.id], [200, 200, first.json.id])
    assert.equal(second.headers.get('x-headgate-idempotent'), 'stored')
    assert.deepEqual([first.json.counter.spent, second.json.counter.spent], ['0.002000000', '0.002000000'])
    const other = await by('0.003')
    assert.deepEqual([other.status, other.json.error.code], [422, 'idempotency_key_reused'])
  })

  test('the counter must be named where a budget has several, and must exist', async () => {
    const yaml = `${PRICES}budgets: { each: { amount: "1", period: day, per: key }, one: { amount: "1", period: day } }\n`
    await using running = await gateway('several', { files: { 'headgate.yaml': yaml } })
    const { data } = (await admin(running, 'GET', '/budgets?sort=name')).json
    const [each, one] = data.map(({ id }: { id: string }) => id)
    const adjust = (id: string, more: object) =>
      admin(running, 'POST', `/budgets/${id}/adjust`, { amount: '0.5', reason: 'x', ...more })
    for (const [id, more] of [
      [each, {}],
      [each, { of: 'key_unknown' }],
      [one, { of: 'key_unknown' }],
      [one, { amount: '0' }],
      [one, { amount: 'much' }],
      [one, { reason: '' }],
      [one, { until: '2027-01-01T00:00:00Z' }],
    ] as const) {
      const { status, json } = await adjust(id, more)
      assert.equal(status, 400, `${JSON.stringify(more)} ${JSON.stringify(json)}`)
      assert.notEqual(json.error.param, null)
    }
    assert.equal((await adjust('bud_unknown', {})).status, 404)
    const made = (await admin(running, 'POST', '/keys', { name: 'a' })).json
    assert.equal((await adjust(each, { of: made.id })).json.counter.remaining, '0.500000000')
    const counters = (await admin(running, 'GET', `/budgets/${each}/counters`)).json.data
    assert.deepEqual([counters[0].of, counters[0].spent], [made.id, '0.500000000'])
  })

  test('apply to all workers', async () => {
    await using running = await gateway('workers', { env: { WORKERS: '2' }, files: { 'headgate.yaml': YAML } })
    const answered = async () => {
      let count = 0
      while (count < 10 && (await ask(running)).status === 200) count++
      return count
    }
    assert.equal(await answered(), 2)
    await run(running, 'budgets', 'reset', 'all', '--reason', 'load test')
    assert.equal(await answered(), 2)
    await run(running, 'budgets', 'adjust', 'all', '--reason', 'refund', '--', '-0.005')
    assert.equal(await answered(), 1)
  })
})

describe('corrections of costs', () => {
  let running: Started
  before(async () => {
    running = await gateway('costs', { files: { 'headgate.yaml': PRICES } })
    await spend(running, 4)
  })
  after(() => running?.stop())
  const today = () => new Date().toISOString().slice(0, 10)
  const amounts = async () =>
    (await admin(running, 'GET', '/usage/adjustments')).json.data.map((one: { amount: string }) => one.amount)

  test('an invoice is compared by day and model; its differences are written once', async () => {
    const file = join(folder, 'invoice.csv')
    writeFileSync(file, `day,model,amount\n${today()},m,0.0215\n`)
    const reconcile = async (...words: string[]) =>
      (await run(running, 'usage', 'reconcile', 'openai', file, '--json', ...words)).json()
    const compared = await reconcile()
    assert.deepEqual(
      [compared.total.ours, compared.total.theirs, compared.total.difference, compared.applied],
      ['0.020000000', '0.021500000', '0.001500000', 0],
    )
    assert.deepEqual(await amounts(), [])
    assert.equal((await reconcile('--apply')).applied, 1)
    const again = await reconcile('--apply')
    assert.deepEqual([again.applied, again.total.adjusted, again.total.difference], [0, '0.001500000', '0.000000000'])
    // A corrected invoice is the difference to the first.
    writeFileSync(file, `day,model,amount\n${today()},m,0.021\n`)
    await reconcile('--apply')
    assert.deepEqual(await amounts(), ['-0.000500000', '0.001500000'])
    assert.match(
      (await run(running, 'usage', 'reconcile', 'openai', file)).stdout,
      /^\d{4}-\d\d-\d\d +m +\$0\.02\d* +\$0\.00\d* +\$0\.02\d* +\$0\.00 +0$/m,
    )
  })

  test('a compressed cost export of AWS is compared by day', async () => {
    const file = join(folder, 'data-export-00001.csv.gz')
    const columns =
      'line_item_line_item_type,line_item_usage_start_date,product,line_item_product_code,line_item_usage_type,line_item_currency_code,line_item_unblended_cost'
    const line = `Usage,${today()}T00:00:00.000Z,{},AmazonBedrock,USE1-Nova2.0Lite-input-tokens,USD,0.25`
    writeFileSync(file, gzipSync(`${columns}\n${line}\n`))
    const compared = (await run(running, 'usage', 'reconcile', 'openai', file, '--json')).json()
    assert.deepEqual(
      [compared.data.length, compared.data[0]?.model, compared.total.ours, compared.total.theirs],
      [1, null, '0.020000000', '0.250000000'],
    )
  })

  test('an invoice of an unknown provider or format is refused', async () => {
    const send = (provider: string, invoice: string) =>
      admin(running, 'POST', '/usage/reconcile', { provider, invoice, apply: true })
    assert.equal((await send('unknown', `day,model,amount\n${today()},m,1\n`)).status, 404)
    assert.equal((await send('openai', 'a,b\n1,2\n')).status, 400)
    assert.equal((await send('openai', 'day,model,amount\n')).status, 400)
  })

  test('new prices are compared with what was recorded; the differences are written once', async () => {
    const count = (await amounts()).length
    const reprice = async (...words: string[]) =>
      (await run(running, 'usage', 'reprice', '--from', '1d', '--json', ...words)).json()
    assert.deepEqual((await reprice('--dry-run')).data, [])
    // Half of the price: the file's rule has a glob, so this one applies.
    const price = { provider: 'openai', model: 'm', prices: { input: 5, output: 20 } }
    assert.equal((await admin(running, 'POST', '/prices', price)).status, 201)
    const dry = await reprice('--dry-run')
    assert.deepEqual(
      [dry.data.length, dry.data[0].attempts, dry.total.cost, dry.total.now, dry.total.difference, dry.applied],
      [1, 4, '0.020000000', '0.010000000', '-0.010000000', 0],
    )
    assert.equal((await amounts()).length, count)
    assert.equal((await reprice()).applied, 1)
    assert.equal((await reprice()).applied, 0)
    assert.deepEqual((await amounts()).slice(0, -count), ['-0.010000000'])
  })
})

describe('what a client reads with its own key', () => {
  let running: Started
  const keys: string[] = []
  before(async () => {
    running = await gateway('own', {
      files: { 'headgate.yaml': `${PRICES}budgets: { all: { amount: "1", period: day } }\n` },
    })
    for (const name of ['one', 'two']) {
      const limits = { requestsPerMinute: 2, concurrent: 5 }
      keys.push(String((await admin(running, 'POST', '/keys', { name, limits })).json.secret))
    }
  })
  after(() => running?.stop())
  const own = async (path: string, key: string | undefined) => {
    const response = await fetch(running.base + path, key === undefined ? {} : { headers: bearer(key) })
    // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
    return { status: response.status, headers: response.headers, json: (await response.json()) as any }
  }
  const fits = async (schema: string, value: unknown) => {
    // biome-ignore lint/suspicious/noExplicitAny: the validator takes any document
    const document = (await (await fetch(`${running.url}/openapi.json`)).json()) as any
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(document, 'api')
    const validate = ajv.compile({ $ref: `api#/components/schemas/${schema}` })
    assert.ok(validate(value), JSON.stringify(validate.errors))
  }

  test('has its limits, its budgets and its own use', async () => {
    const answer = await ask(running, keys[0])
    assert.equal(answer.status, 200)
    const { status, headers, json } = await own('/usage', keys[0])
    assert.equal(status, 200)
    assert.equal(headers.get('cache-control'), 'private, no-store')
    await fits('OwnUsage', json)
    assert.equal(json.key.name, 'one')
    const [requests, concurrent] = json.limits
    assert.deepEqual([requests.unit, requests.limit, requests.remaining], ['requests_per_minute', 2, 1])
    assert.deepEqual([concurrent.unit, concurrent.limit, concurrent.remaining], ['concurrent', 5, 5])
    const [budget] = json.budgets
    assert.deepEqual([budget.spent, budget.remaining, budget.reserved], ['0.005000000', '0.995000000', '0.000000000'])
    assert.ok(Date.parse(budget.period_end) > Date.now())
    assert.deepEqual([json.total.requests, json.total.cost, json.data[0].model], [1, '0.005000000', 'm'])
    const other = await own('/usage', keys[1])
    assert.deepEqual([other.json.total.requests, other.json.data, other.json.limits[0].remaining], [0, [], 2])
  })

  test('reads its own requests, and no other', async () => {
    const id = String((await ask(running, keys[0])).headers.get('x-request-id'))
    const found = await own(`/requests/${id}`, keys[0])
    assert.equal(found.status, 200, JSON.stringify(found.json))
    await fits('OwnRequest', found.json)
    assert.deepEqual([found.json.id, found.json.cost, found.json.key.name], [id, '0.005000000', 'one'])
    assert.equal(found.json.attempts.length, 1)
    assert.doesNotMatch(JSON.stringify(found.json), /"(?:credential|node|bodies)":/)
    for (const [path, key, status] of [
      [`/requests/${id}`, keys[1], 404],
      [`/requests/${id}`, KEY, 404],
      ['/requests/req_unknown', keys[0], 404],
      [`/requests/${id}`, undefined, 401],
      ['/usage', undefined, 401],
      ['/usage?team=team_default', keys[0], 400],
      ['/usage?from=2026-01-02&to=2026-01-01', keys[0], 400],
    ] as const) {
      const refused = await own(path, key)
      assert.equal(refused.status, status, path)
      assert.deepEqual(Object.keys(refused.json), ['error'])
      assert.equal(refused.json.error.request_id, refused.headers.get('x-request-id'))
    }
  })

  test('without keys, a client has the figures of requests without a key', async () => {
    await using open = await start()
    const sent = await post(`${open.base}/chat/completions`, { ...body, model: 'demo/echo' })
    const id = sent.headers.get('x-request-id')
    assert.equal((await fetch(`${open.base}/requests/${id}`)).status, 200)
    // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
    const usage = (await (await fetch(`${open.base}/usage?bucket=none`)).json()) as any
    assert.deepEqual(
      [usage.key, usage.team.name, usage.total.requests, usage.data[0].model],
      [null, 'default', 1, 'echo'],
    )
  })
})
