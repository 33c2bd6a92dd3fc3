/** What people who sign in see of their budget, and how they are refused: statuses and headers that Claude Code reads. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { signInProgram } from '../support/device-flow.ts'
import { type IdentityProviderFixture, startIdentityProvider } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { BELOW, post, type Started, start } from './support/process.ts'

const KEY = 'key-of-a-program-0123456789'
const ADMIN = 'break-glass-token-of-the-operator'
const BODY = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] }
/** 100 + 100 tokens at $10 and $40 per million: half a cent. The budget has room for four, and for the reservation of a fifth. */
const fileFor = (url: string, { issuer, clientSecret }: IdentityProviderFixture) => `
auth: { keys: [ ${KEY} ] }
prices: [ { provider: anthropic, model: "*", perMillion: { input: 10, output: 40 } } ]
sso:
  publicUrl: ${url}
  secret: sso-secret-canary-0123456789-0123456789
  providers:
    corp: { issuer: "${issuer}", clientId: headgate, clientSecret: "${clientSecret}", scopes: [ openid, profile, email, groups, offline_access ], parameters: { prompt: consent } }
  teams: [ { group: devs, team: search } ]
teams: { search: { access: { models: [ m ] } } }
budgets:
  own: { amount: "0.021", period: month, per: user, appliesTo: { teams: [ search ] } }
  program: { amount: "0", period: month, per: key, appliesTo: { teams: [ default ] } }
claude: { enabled: true }
`

describe('spending of people in Claude Code', { concurrency: false }, () => {
  let gateway: Started
  let corp: IdentityProviderFixture
  let upstream: Upstream
  let url = ''
  let token = ''
  const ask = (path = '/v1/messages', more: object = {}, bearer = token) =>
    post(`${url}${path}`, { ...BODY, ...more }, { authorization: `Bearer ${bearer}` })
  const unified = (headers: Headers) =>
    Object.fromEntries(
      [...headers].flatMap(([name, value]) => {
        const short = name.replace('anthropic-ratelimit-unified-', '')
        return short === name ? [] : [[short, value]]
      }),
    )
  before(async () => {
    const [port = 0, own = 0] = await freePorts(2)
    url = `http://127.0.0.1:${port}${BELOW}`
    upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
    corp = await startIdentityProvider(url, own)
    gateway = await start({
      env: {
        PORT: String(port),
        AUTH_ADMIN: ADMIN,
        ANTHROPIC_API_KEY: 'sk-ant-0123456789',
        ANTHROPIC_BASE_URL: upstream.url,
        ANTHROPIC_MODELS: 'm,secret',
      },
      files: { 'headgate.yaml': fileFor(url, corp) },
    })
    corp.people.set('ann', { email: 'ann@corp.example', email_verified: true, groups: ['devs'] })
    corp.signedIn = 'ann'
    token = (await signInProgram(url)).access_token
  })
  after(async () => {
    await gateway?.stop()
    await corp?.stop()
    await upstream?.close()
  })

  test('a model that a person may not use is 400 in every format', async () => {
    for (const path of ['/v1/messages', '/v1/chat/completions']) {
      const refused = await ask(path, { model: 'secret' })
      assert.equal(refused.status, 400, refused.text)
      assert.equal(JSON.parse(refused.text).error.type, 'invalid_request_error')
    }
    const unknown = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token.slice(0, -3)}xxx` },
      body: '{}',
    })
    assert.equal(unknown.status, 401)
    assert.equal(unknown.headers.get('x-should-retry'), 'false')
  })

  test('each answer states the used part of the budget, with a notice from 75 % on', async () => {
    const parts: (string | undefined)[][] = []
    for (const stream of [false, true, false, false, false]) {
      const { status, headers, text } = await ask('/v1/messages', { stream })
      assert.equal(status, 200, text)
      const { reset, 'overage-reset': again, ...seen } = unified(headers)
      assert.equal(reset, again)
      const at = new Date(Number(reset) * 1_000)
      assert.deepEqual([at.getUTCDate(), at.getUTCHours(), at.getUTCSeconds()], [1, 0, 0], 'the next month')
      assert.equal(seen['representative-claim'], 'overage')
      assert.equal(seen.status, seen['overage-status'])
      parts.push([seen.status, seen['overage-utilization'], seen['overage-surpassed-threshold']])
    }
    assert.deepEqual(parts, [
      ['allowed', '0.24', undefined],
      // The head of a stream is sent before its cost is known.
      ['allowed', '0.24', undefined],
      ['allowed', '0.71', undefined],
      ['allowed_warning', '0.95', '0.95'],
      // Its reservation fitted.
      ['allowed_warning', '0.99', '0.95'],
    ])
  })

  test('a used budget is 429 with the headers by which Claude Code stops, and its message', async () => {
    const { status, headers, text } = await ask()
    assert.equal(status, 429, text)
    const { type, error } = JSON.parse(text)
    assert.deepEqual([type, error.type], ['error', 'billing_error'])
    assert.match(error.message, /budget of this user for the month .* it begins again on \d{4}-\d\d-01/)
    assert.equal(headers.get('x-should-retry'), 'false')
    const { reset, 'overage-reset': again, ...seen } = unified(headers)
    assert.equal(reset, again)
    assert.deepEqual(seen, {
      status: 'rejected',
      'overage-utilization': '1',
      'overage-surpassed-threshold': '1',
      'overage-period': 'monthly',
      'overage-disabled-reason': 'org_spend_cap_reached',
    })
    const wait = Number(headers.get('retry-after'))
    assert.ok(Math.abs(wait - (Number(reset) - Date.now() / 1_000)) < 60, `${wait}`)
    assert.match(headers.get('x-headgate-limit') ?? '', /^budget; id=bud_/)
  })

  test('GET /api/oauth/usage has the same budget in cents', async () => {
    const answer = await fetch(`${url}/api/oauth/usage`, { headers: { authorization: `Bearer ${token}` } })
    const { extra_usage, limits } = JSON.parse(await answer.text())
    assert.deepEqual(extra_usage, {
      is_enabled: true,
      monthly_limit: 2,
      used_credits: 2,
      utilization: 119,
      currency: 'USD',
    })
    const [{ resets_at, ...limit }] = limits
    assert.deepEqual(limit, { kind: 'spend', group: 'monthly', percent: 119, severity: 'critical', is_active: true })
    assert.match(resets_at, /^\d{4}-\d\d-01T00:00:00\.000Z$/)
  })

  test('other formats keep 402, and so do keys', async () => {
    assert.equal((await ask('/v1/chat/completions')).status, 402)
    const keyed = await ask('/v1/messages', {}, KEY)
    assert.equal(keyed.status, 402)
    assert.deepEqual([JSON.parse(keyed.text).error.type, unified(keyed.headers)], ['billing_error', {}])
  })
})
