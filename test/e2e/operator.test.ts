/** The questions of an operator, each answered by one command and compared with the figures of the providers themselves. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerWith, failWith } from '../support/answers.ts'
import { startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { untilStored } from './support/stored-usage.ts'
import { verb } from './support/verb.ts'

const ANSWER = { text: 'hello', input: 200, output: 100 }
const ADMIN = 'admin-0123456789abcdef0123456789'
const OUTAGE = 'cluster eu-2 is down'
const messages = [{ role: 'user', content: 'hello' }]

describe('questions of an operator', { concurrency: false }, () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-operator-'))
  let alpha: Upstream
  let beta: Upstream
  let gateway: Started
  let isDown = false
  /** Answers that each provider bills: 6 cents each of alpha, 3 of beta. */
  const billed = { alpha: 0, beta: 0 }
  const keys: Record<string, string> = {}

  before(async () => {
    const answer = (name: 'alpha' | 'beta') => (request: UpstreamRequest) => {
      if (request.method === 'POST') billed[name]++
      return answerWith(request, ANSWER)
    }
    const ofAlpha = answer('alpha')
    alpha = await startUpstream((request) =>
      isDown ? failWith(request, 503, { type: 'api_error', message: OUTAGE }) : ofAlpha(request),
    )
    beta = await startUpstream(answer('beta'))
    gateway = await start({
      env: { DATA_DIR: data, AUTH_ADMIN: ADMIN, AUTH_REQUIRED: 'true' },
      files: {
        'headgate.yaml': `providers:
  alpha: { kind: openai, baseUrl: "${alpha.url}/v1", keys: [sk-alpha-0000000000], models: [small] }
  beta: { kind: anthropic, baseUrl: "${beta.url}/v1", keys: [sk-beta-00000000000], models: [small] }
unknownModel: reject
routes:
  fast: { targets: [alpha/small], fallback: [beta/small] }
prices:
  - { provider: alpha, model: small, perMillion: { input: 100, output: 400 } }
  - { provider: beta, model: small, perMillion: { input: 50, output: 200 } }
`,
      },
    })
  })
  after(async () => {
    await gateway?.stop()
    await Promise.all([alpha?.close(), beta?.close()])
    rmSync(data, { recursive: true, force: true })
  })

  const headgate = async (...words: string[]) => {
    const result = await verb(words, { env: { HEADGATE_URL: gateway.url, HEADGATE_ADMIN_TOKEN: ADMIN } })
    assert.equal(result.code, 0, `headgate ${words.join(' ')}: ${result.stdout}${result.stderr}`)
    return result.stdout
  }
  const ask = async (key: string, id: string, model = 'fast') =>
    (
      await post(
        `${gateway.base}/chat/completions`,
        { model, messages, max_tokens: 100 },
        { authorization: `Bearer ${key}`, 'x-request-id': id },
      )
    ).status

  test('traffic: answers, an outage and refusals', async () => {
    for (const team of ['search', 'shop']) {
      await headgate('teams', 'create', team)
      keys[team] = (await headgate('keys', 'create', `${team}-prod`, '--team', team)).trim()
    }
    keys.limited = (await headgate('keys', 'create', 'limited', '--team', 'search', '--rpm', '1')).trim()
    await headgate('budgets', 'create', 'shop-day', '--team', 'shop', '--amount', '1.00', '--period', 'day')
    const many = async (team: string, count: number, name: string) => {
      for (let i = 0; i < count; i++) await ask(keys[team] ?? '', `${name}-${i}`)
    }
    await many('search', 60, 'search')
    // Before the outage: with an open circuit and a spent budget the answer is 503, because a target may come back.
    await many('shop', 20, 'shop')
    assert.equal(await ask(keys.shop ?? '', 'refused-402'), 402)
    isDown = true
    await many('search', 20, 'outage')
    isDown = false
    assert.equal(await ask('hgk_wrong', 'refused-401'), 401)
    assert.equal(await ask(keys.search ?? '', 'refused-404', 'none'), 404)
    await ask(keys.limited ?? '', 'limited-first')
    assert.equal(await ask(keys.limited ?? '', 'refused-429'), 429)
    const served = billed.alpha + billed.beta
    await untilStored(data, 'every answer', ({ attempts }) => {
      return attempts.filter(({ outcome, opened }) => outcome !== 'open' && opened === null).length >= served
    })
  })

  test('the cost is that of the providers, to the nano-dollar', async () => {
    const { data: rows } = JSON.parse(await headgate('usage', '--by', 'team', '--json'))
    const nano = rows.reduce((sum: number, { cost }: { cost: string }) => sum + Math.round(Number(cost) * 1e9), 0)
    assert.equal(nano, billed.alpha * 60_000_000 + billed.beta * 30_000_000)
  })

  test('refusals are explained by the ID of the client', async () => {
    for (const status of ['401', '404', '402', '429'])
      assert.match(await headgate('explain', `refused-${status}`), new RegExp(`\\b${status}\\b`))
  })

  test('an outage is in the incidents, and its text finds the requests', async () => {
    assert.match(await headgate('incidents', '--json'), /alpha/)
    assert.match(await headgate('logs', '--text', 'cluster eu-2', '--json'), /outage-/)
    assert.match(await headgate('what-if', 'alpha', '--json'), /beta/)
  })
  test('a budget has spent what its team has, and its forecast is not below', async () => {
    const [budget] = JSON.parse(await headgate('budgets', 'list', '--json')).data
    const { data: rows } = JSON.parse(await headgate('usage', '--by', 'team', '--json'))
    const shop = rows.find((row: { team_name: string | null }) => row.team_name === 'shop')
    assert.equal(budget.now.spent, shop.cost)
    assert.ok(Number(budget.forecast.projected) >= Number(budget.now.spent), JSON.stringify(budget))
  })

  test('one command exports the requests, with the same sum', async () => {
    const lines = (await headgate('usage', 'export', '--since', '1d', '--format', 'jsonl')).trim().split('\n')
    const cost = lines.reduce((sum, line) => sum + Math.round(Number(JSON.parse(line).cost) * 1e9), 0)
    assert.equal(cost, billed.alpha * 60_000_000 + billed.beta * 30_000_000)
  })
})
