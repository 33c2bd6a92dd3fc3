/** Requests of the built-in demo are in the totals only until a provider is configured; the list of requests keeps them. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { sleep } from './support/stage.ts'
import { verb } from './support/verb.ts'

/** Two that are answered, one that fails, and a route that is answered after two failures. */
const DEMO_MODELS = ['demo/echo', 'demo/echo', 'demo/down', 'demo/chain']

describe('requests of the demo', { concurrency: false }, () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-demo-'))
  let upstream: Upstream
  let gateway: Started
  let asked = 0

  const read = async (path: string) => {
    const response = await fetch(`${gateway.url}${path}`)
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }
  const api = (path: string) => read(`/admin/api/v1${path}`)
  const ask = async (model: string) => {
    await post(`${gateway.base}/chat/completions`, { model, messages: [{ role: 'user', content: 'Hello' }] })
    asked++
    // Recorded when the answer has ended, which the client may notice sooner.
    while ((await api('/requests?count=true')).count.value < asked) await sleep(20)
  }
  /** The totals of everything that sums requests. */
  const totals = async () => {
    const [summary, hours, report, whole, own, days, cli] = await Promise.all([
      api('/summary?compare=true'),
      // From hourly sums.
      api(`/summary?from=${new Date(Date.now() - 48 * 3_600_000).toISOString()}`),
      api('/usage?by=provider&bucket=hour'),
      api('/usage?bucket=none'),
      read('/v1/usage'),
      fetch(`${gateway.url}/admin/api/v1/usage/export?level=day&format=jsonl`).then((response) => response.text()),
      verb(['usage', '--by', 'model', '--json'], { env: { DATA_DIR: data } }),
    ])
    assert.equal(cli.code, 0, cli.stderr)
    const rows = days.split('\n').filter((line) => line !== '')
    return [
      summary.figures.requests,
      hours.figures.requests,
      report.total.requests,
      whole.total.requests,
      own.total.requests,
      rows.reduce((sum, line) => sum + JSON.parse(line).requests, 0),
      cli.json().total.requests,
    ]
  }
  const everywhere = (count: number) => Array.from({ length: 7 }, () => count)

  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { text: 'hello', input: 10, output: 5 }))
    gateway = await start({ env: { DATA_DIR: data } })
  })
  after(async () => {
    await Promise.all([gateway?.stop(), upstream?.close()])
    rmSync(data, { recursive: true, force: true })
  })

  test('count while no provider is configured', async () => {
    for (const model of DEMO_MODELS) await ask(model)
    assert.deepEqual(await totals(), everywhere(DEMO_MODELS.length))
    assert.equal((await api('/usage?demo=false')).total.requests, 0)
  })

  test('do not count once a provider is configured, and stay in the list', async () => {
    await gateway.stop()
    gateway = await start({ env: { DATA_DIR: data, OPENAI_API_KEY: 'sk-x', OPENAI_BASE_URL: `${upstream.url}/v1` } })
    assert.deepEqual(await totals(), everywhere(0))
    await ask('gpt-5')
    assert.deepEqual(await totals(), everywhere(1))
    const { total } = await api('/usage')
    assert.deepEqual([total.attempts, total.failed, total.input], [1, 0, 10])
    const list = await api('/requests?count=true')
    assert.equal(list.count.value, 1 + DEMO_MODELS.length)
  })

  test('count where the query asks for them', async () => {
    const all = 1 + DEMO_MODELS.length
    assert.equal((await api('/usage?demo=true')).total.requests, all)
    assert.equal((await api('/summary?demo=true')).figures.requests, all)
    assert.equal((await api('/usage?provider=demo')).total.requests, DEMO_MODELS.length)
    assert.equal((await api('/summary?provider=demo')).figures.requests, DEMO_MODELS.length)
    assert.equal((await api('/requests?demo=false&count=true')).count.value, 1)
  })
})
