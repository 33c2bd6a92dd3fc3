/** Alerts of a running gateway: sent by the process itself, and not again after a restart. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openControl } from '../support/control.ts'
import { startUpstream, until } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

/** Requests that one of two workers does not receive alone. */
const CALLS = 24

/** A receiver of alerts. */
const receiver = async () => {
  const received: {
    readonly id: unknown
    readonly type: unknown
    readonly name: unknown
    readonly threshold: unknown
  }[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    const { type, object, threshold } = JSON.parse(text)
    const id = request.headers['webhook-id']
    // A sender that ends before it has read the confirmation repeats the message, with the same ID.
    if (!received.some((one) => one.id === id)) received.push({ id, type, name: object.name, threshold })
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // A server on a port has an address object.
  return {
    received,
    port,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('alerts: a budget of three workers reports each threshold once, also if it is reached again after a restart', async (context) => {
  const { received, port, close } = await receiver()
  const data = await mkdtemp(join(tmpdir(), 'headgate-alerts-'))
  context.after(async () => {
    close()
    await rm(data, { recursive: true, force: true })
  })
  const options = {
    env: { DATA_DIR: data, WORKERS: '3' },
    files: {
      'headgate.yaml': JSON.stringify({
        alerts: { url: `http://127.0.0.1:${port}/hook`, secret: 'a secret for the test' },
        budgets: { all: { amount: '10.00', period: 'total', alerts: [80, 100] } },
      }),
    },
  }
  const adjust = async ({ url }: Started, amount: string) => {
    const list = await fetch(`${url}/admin/api/v1/budgets`, { headers: { connection: 'close' } })
    const { data: budgets } = JSON.parse(await list.text())
    const path = `${url}/admin/api/v1/budgets/${encodeURIComponent(budgets[0].id)}/adjust`
    const { status, text } = await post(path, { amount, reason: 'test' }, { connection: 'close' })
    assert.equal(status, 200, text)
  }
  const thresholds = () => received.map(({ type, threshold }) => `${type} ${threshold}`)
  {
    await using gateway = await start(options)
    // At once, to several workers.
    await Promise.all(Array.from({ length: 9 }, () => adjust(gateway, '1.00')))
    await until('the alert is received', () => received.length > 0, 30_000)
  }
  {
    await using gateway = await start(options)
    await adjust(gateway, '-2.00')
    await adjust(gateway, '2.00')
    // The alert of the next threshold comes after everything that could repeat the first.
    await adjust(gateway, '1.00')
    await until('the next alert is received', () => received.length > 1, 30_000)
  }
  assert.deepEqual(thresholds(), ['budget.threshold 80', 'budget.threshold 100'])
})

test('alerts: a key that expires soon is reported once, also over restarts, and counted', async (context) => {
  const { received, port, close } = await receiver()
  const data = await mkdtemp(join(tmpdir(), 'headgate-alerts-'))
  context.after(async () => {
    close()
    await rm(data, { recursive: true, force: true })
  })
  {
    // A key of the database expires as well.
    using control = await openControl(data)
    await control.createKey('stored', { expires_at: new Date(Date.now() + 2 * 24 * 3_600_000).toISOString() })
  }
  const config = {
    alerts: { url: `http://127.0.0.1:${port}/hook`, secret: 'a secret for the test' },
    keys: {
      search: {
        secret: 'a-client-key-of-the-test-1',
        expiresAt: new Date(Date.now() + 3 * 24 * 3_600_000).toISOString(),
      },
    },
  }
  const options = { env: { DATA_DIR: data }, files: { 'headgate.yaml': JSON.stringify(config) } }
  {
    await using gateway = await start(options)
    await until('the alert is received', () => received.length > 1, 20_000)
    const page = async () => (await fetch(`${gateway.url}/metrics`)).text()
    for (let tries = 0; !/^headgate_alerts_total\{rule="keyExpiry",result="sent"\} 2$/m.test(await page()); tries++) {
      assert.ok(tries < 400, 'it is not counted')
      await sleep(50)
    }
  }
  const stored = await readFile(join(data, 'alerts.json'), 'utf8')
  assert.ok(!stored.includes('a secret for the test') && !stored.includes(String(port)))
  {
    await using _ = await start(options)
    // Longer than the time between two checks.
    await sleep(6_000)
  }
  assert.deepEqual(received.map(({ type, name }) => `${type} ${name}`).sort(), [
    'key.expiry search',
    'key.expiry stored',
  ])
})

test('alerts: the share of failed requests is that of all workers', async (context) => {
  const { received, port, close } = await receiver()
  context.after(close)
  await using gateway = await start({
    // Nothing listens at the provider.
    env: { WORKERS: '2', OPENAI_API_KEY: 'sk-openai-0123456789', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' },
    files: {
      'headgate.yaml': JSON.stringify({
        alerts: {
          url: `http://127.0.0.1:${port}/hook`,
          rules: { failedShare: 50, failedLeast: CALLS, circuitOpen: 0 },
        },
      }),
    },
  })
  // Each has a connection of its own: neither worker receives all of them.
  const body = { model: 'openai/m', messages: [{ role: 'user', content: 'x' }] }
  for (let call = 0; call < CALLS; call++)
    assert.ok((await post(`${gateway.base}/chat/completions`, body, { connection: 'close' })).status >= 500)
  await until('the alert is received', () => received.some(({ type }) => type === 'requests.failed'), 30_000)
})

test('alerts: keys that any worker found dead are reported', async (context) => {
  const { received, port, close } = await receiver()
  const error = { message: 'Incorrect API key provided', type: 'invalid_request_error', code: 'invalid_api_key' }
  // A list of models that is refused would show each worker that the key is dead.
  const upstream = await startUpstream(({ method }) =>
    method === 'GET' ? { do: 'answer', status: 404, body: {} } : { do: 'answer', status: 401, body: { error } },
  )
  context.after(async () => {
    close()
    await upstream.close()
  })
  const names = Array.from({ length: 8 }, (_, index) => `server-${index}`)
  const provider = (name: string) => ({
    kind: 'openai-compatible',
    baseUrl: `${upstream.url}/${name}/v1`,
    keys: [`sk-${name}-0123456789`],
  })
  await using gateway = await start({
    env: { WORKERS: '2', FALLBACK: 'none' },
    files: {
      'headgate.yaml': JSON.stringify({
        alerts: { url: `http://127.0.0.1:${port}/hook`, rules: { failedShare: 0, circuitOpen: 0 } },
        providers: Object.fromEntries(names.map((name) => [name, provider(name)])),
      }),
    },
  })
  // One request for each provider: only the worker that receives it knows that the key is dead. They come at once, so that
  // neither worker receives all of them.
  const statuses = await Promise.all(
    names.map(async (name) => {
      const body = { model: `${name}/m`, messages: [{ role: 'user', content: 'x' }] }
      return (await post(`${gateway.base}/chat/completions`, body, { connection: 'close' })).status
    }),
  )
  assert.ok(statuses.every((status) => status >= 500))
  const reported = () => received.filter(({ type }) => type === 'key.dead')
  await until('every key is reported', () => reported().length === names.length, 30_000)
})

test('alerts: an operator sees what was sent, and tests the receiver', async (context) => {
  const { received, port, close } = await receiver()
  context.after(close)
  await using gateway = await start({
    env: { WORKERS: '2' },
    files: {
      'headgate.yaml': JSON.stringify({
        alerts: { url: `http://127.0.0.1:${port}/hook` },
        budgets: { all: { amount: '10.00', period: 'total', alerts: [80] } },
      }),
    },
  })
  const get = async (path: string) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, { headers: { connection: 'close' } })
    assert.equal(response.status, 200)
    return JSON.parse(await response.text())
  }
  const test = () => post(`${gateway.url}/admin/api/v1/alerts/test`, {}, { connection: 'close' })

  const tested = (await test()).json()
  assert.deepEqual([tested.delivered, tested.problem], [true, null])
  assert.deepEqual(
    received.map(({ id, type }) => [id, type]),
    [[tested.id, 'test']],
  )
  const quiet = await get('/alerts')
  assert.deepEqual([quiet.configured, quiet.data, quiet.waiting, quiet.last], [true, [], 0, null])

  const [budget] = (await get('/budgets')).data
  const spend = { amount: '8.00', reason: 'test' }
  const path = `${gateway.url}/admin/api/v1/budgets/${budget.id}/adjust`
  assert.equal((await post(path, spend, { connection: 'close' })).status, 200)
  await until('the alert is received', () => received.length > 1, 30_000)
  // The answer of the receiver is on its way. Each request may reach the other worker.
  let shown = await get('/alerts')
  for (let tries = 0; tries < 100 && shown.last === null; tries++) {
    await sleep(50)
    shown = await get('/alerts')
  }
  const [alert] = shown.data
  assert.deepEqual([alert.type, alert.object.name, alert.threshold, alert.value], ['budget.threshold', 'all', '80', 8])
  assert.deepEqual([shown.data.length, shown.waiting, shown.last.rule, shown.last.result], [1, 0, 'budget', 'sent'])

  close()
  const failed = (await test()).json()
  assert.deepEqual([failed.delivered, failed.problem], [false, 'the receiver cannot be reached'])
})

test('alerts: without a receiver there is nothing to test', async () => {
  await using gateway = await start()
  const answer = await post(`${gateway.url}/admin/api/v1/alerts/test`, {})
  assert.equal(answer.status, 409)
  assert.match(answer.json().error.message, /Add `alerts` .+ to headgate\.yaml/)
  const listed = await fetch(`${gateway.url}/admin/api/v1/alerts`)
  const { rules, ...rest } = (await listed.json()) as { readonly rules: readonly { readonly last_at: unknown }[] }
  assert.ok(rules.length > 10 && rules.every(({ last_at }) => last_at === null))
  assert.deepEqual(rest, {
    object: 'list',
    data: [],
    has_more: false,
    next: null,
    configured: false,
    waiting: 0,
    undelivered: 0,
    last: null,
    past: [],
    receiver: null,
  })
})
