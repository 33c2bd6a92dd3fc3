/** Figures of the admin API with several workers: they are those of all of them together. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { gauge, skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'

/** 100 tokens of input at $10 and 100 of output at $40 per million: half a cent. */
const ANSWER = { text: 'x', input: 100, output: 100 }
const YAML = `prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]
budgets: { all: { amount: "100.00", period: total, alerts: [80] } }
`
const BODY = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }

describe('the admin API of several workers', { skip: skipWithoutProc }, () => {
  let upstream: Upstream
  let gateway: Started
  const data = mkdtempSync(join(tmpdir(), 'headgate-worker-figures-'))
  /** Alerts of the budget, as thresholds in percent. */
  const alerts: number[] = []
  const receiver = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    alerts.push(JSON.parse(text).limit)
    response.writeHead(204).end()
  })
  before(async () => {
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
    const { port } = receiver.address() as AddressInfo // A server on a port has an address object.
    upstream = await startUpstream((request) => answerWith(request, ANSWER))
    gateway = await start({
      env: {
        WORKERS: '2',
        AUTH_REQUIRED: 'false',
        DATA_DIR: data,
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
      },
      files: {
        'headgate.yaml': `${YAML}alerts: { url: "http://127.0.0.1:${port}/hook", secret: "a secret for the test" }\n`,
      },
    })
  })
  after(async () => {
    receiver.closeAllConnections()
    receiver.close()
    await gateway?.stop()
    await upstream?.close()
    rmSync(data, { recursive: true, force: true })
  })

  /** Each request has a connection of its own, so that both workers receive some. */
  const ask = async () => {
    const { status, text } = await post(`${gateway.base}/chat/completions`, BODY, { connection: 'close' })
    assert.equal(status, 200, text)
  }
  const read = async (path: string, method = 'GET', body?: object) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { connection: 'close', 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }
  /** Reads until the figure is the expected one in ten answers in a row, at most 30 s. */
  const settles = async (figure: () => Promise<unknown>, expected: unknown): Promise<void> => {
    let found: unknown
    let inRow = 0
    for (const end = performance.now() + 120_000; inRow < 10 && performance.now() < end; ) {
      found = await figure()
      inRow = JSON.stringify(found) === JSON.stringify(expected) ? inRow + 1 : 0
      if (inRow === 0) await sleep(50)
    }
    assert.deepEqual(found, expected)
  }

  test('a budget has what all workers have spent, also after one of them has died', async () => {
    await Promise.all(Array.from({ length: 40 }, ask))
    const now = async () => {
      const { spent, reserved, remaining, authority } = (await read('/budgets')).data[0].now
      return [spent, reserved, remaining, authority]
    }
    const expected = ['0.200000000', '0.000000000', '99.800000000', 'ok']
    await settles(now, expected)
    const { id } = (await read('/budgets')).data[0]
    const { data } = await read(`/budgets/${encodeURIComponent(id)}/counters`)
    assert.deepEqual([data.length, data[0].spent], [1, '0.200000000'])
    await settles(() => gauge(gateway, 'headgate_budget_spent_dollars'), 0.2)
    const rows = () => gauge(gateway, 'headgate_ledger_rows_total', 'table="request"')
    await settles(rows, 40)
    // Transactions are counted where the journals are stored, operations in each process.
    for (const store of ['usage', 'control'])
      assert.ok((await gauge(gateway, 'headgate_store_seconds_count', `store="${store}"`)) > 0, store)

    const { child } = gateway
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ').map(Number)
    assert.ok(children[0])
    process.kill(children[0], 'SIGKILL')
    await gateway.line(({ event }) => event === 'worker_started')
    await settles(now, expected)
    await settles(rows, 40)
  })

  test('an adjustment answers the figures that decide, and clients read them', async () => {
    const [{ id }] = (await read('/budgets')).data
    const path = `/budgets/${encodeURIComponent(id)}/adjust`
    const { counter } = await read(path, 'POST', { amount: '89.80', reason: 'test' })
    assert.deepEqual([counter.spent, counter.remaining], ['90.000000000', '10.000000000'])
    const usage = await fetch(`${gateway.base}/usage`, { headers: { connection: 'close' } })
    const { budgets } = JSON.parse(await usage.text())
    assert.deepEqual([budgets[0].spent, budgets[0].reserved], ['90.000000000', '0.000000000'])
  })

  test('an alert is about what all workers have spent, and sent by one of them', async () => {
    await settles(async () => alerts.length, 1)
  })

  test('the lag of recorded usage is that of the process that stores it', async () => {
    const figures = async () => [
      (await gauge(gateway, 'headgate_ledger_lag_seconds')) > 0,
      (await read('/system')).ledger.lag_ms > 0,
    ]
    const database = new DatabaseSync(join(data, 'usage.db'), { timeout: 5_000 })
    database.exec('BEGIN IMMEDIATE')
    await ask()
    await settles(figures, [true, true])
    database.exec('ROLLBACK')
    database.close()
    await settles(figures, [false, false])
  })

  test('providers, system and cache are those of both workers', async () => {
    const system = await read('/system')
    assert.deepEqual(system.nodes.map(({ node }: { node: string }) => node).toSorted(), ['1/2', '2/2'])
    assert.equal(new Set(system.nodes.map(({ pid }: { pid: number }) => pid)).size, 2)
    const providers = await read('/providers')
    assert.deepEqual(providers.data.map(({ id, node }: { id: string; node: string }) => `${id} ${node}`).toSorted(), [
      'openai 1/2',
      'openai 2/2',
    ])
    assert.deepEqual((await read('/cache')).processes, { answered: 2, of: 2 })
    assert.deepEqual((await read('/cache/purge', 'POST', {})).processes, { answered: 2, of: 2 })
    assert.equal((await read('/system/reload', 'POST')).outcome, 'unchanged')
  })
})
