/** Sessions: recognised in every API style, recorded with their agents, and listed by a running gateway. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const messages = [{ role: 'user', content: 'hi' }]
const MODEL = 'demo/echo'
type Headers = Readonly<Record<string, string>>

const STYLES: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { model: MODEL, messages }],
  ['/v1/chat/completions', { model: MODEL, messages, stream: true }],
  ['/v1/responses', { model: MODEL, input: 'hi' }],
  ['/v1/messages', { model: MODEL, messages, max_tokens: 10 }],
  ['/v1/messages/count_tokens', { model: MODEL, messages }],
  ['/v1/completions', { model: MODEL, prompt: 'hi' }],
  ['/v1/embeddings', { model: 'demo/embed', input: 'hi' }],
]

describe('sessions', { concurrency: false }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { SESSIONS_GUESS: 'true' } })
  })
  after(() => gateway[Symbol.asyncDispose]())

  const post = async (path: string, body: object, headers: Headers = {}) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }
  // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
  const admin = async (path: string): Promise<any> => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`)
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }

  test('sessions: requests of every style have their session and agent', async () => {
    for (const [path, body] of STYLES) {
      const { status, text } = await post(path, body, { 'session-id': 'one', 'thread-id': 'two' })
      assert.equal(status, 200, `${path} ${text}`)
    }
    const { data } = await admin('/requests?agent=two')
    assert.equal(data.length, STYLES.length)
    const [{ session }] = data
    assert.match(session, /^ses_[a-z]{12}$/)
    assert.ok(data.every((one: { session: string }) => one.session === session))
    assert.equal((await admin(`/requests?session=${session}`)).data.length, STYLES.length)
    const logs = await verb(['logs', '--session', session], { env: { HEADGATE_URL: gateway.url } })
    assert.equal(logs.stdout.trim().split('\n').length, STYLES.length, logs.stdout)
  })

  test('sessions: turns of a conversation without a name are one guessed session', async () => {
    const first = [...messages]
    const second = [...messages, { role: 'assistant', content: 'hi' }, { role: 'user', content: 'more' }]
    for (const turn of [first, second]) await post('/v1/chat/completions', { model: MODEL, messages: turn })
    await post('/v1/chat/completions', { model: MODEL, messages: [{ role: 'user', content: 'other' }] })
    const { data } = await admin('/requests?limit=3')
    const [other, later, earlier] = data.map((one: { session: string }) => one.session)
    assert.match(earlier, /^gss_[a-z]{12}$/)
    assert.equal(later, earlier)
    assert.notEqual(other, earlier)
  })

  test('sessions: they are listed, shown as a timeline, and a client reads its own', async () => {
    const named = { 'x-headgate-session': 'my session', 'x-headgate-agent': 'ignored' }
    const valid = { 'x-headgate-session': 'mine', 'x-headgate-agent': 'helper' }
    await post('/v1/chat/completions', { model: MODEL, messages }, named)
    await post('/v1/chat/completions', { model: MODEL, messages }, valid)
    await post('/v1/chat/completions', { model: MODEL, messages }, { 'x-headgate-session': 'mine' })
    const { data } = await admin('/sessions?name=mine')
    assert.equal(data.length, 1)
    const [{ id, requests, agents, state }] = data
    assert.deepEqual([requests, agents, state], [2, 2, 'active'])
    assert.deepEqual((await admin('/sessions?name=my%20session')).data, [])
    const { by_agent } = await admin(`/sessions/${id}`)
    assert.deepEqual(by_agent.map((one: { agent: string }) => one.agent).sort(), ['helper', null].sort())
    const report = await admin(`/usage?by=session&bucket=none&session=${id}&demo=true`)
    assert.deepEqual(
      report.data.map((one: { session: string; requests: number }) => [one.session, one.requests]),
      [[id, 2]],
    )
    const env = { HEADGATE_URL: gateway.url }
    const listed = await verb(['sessions', '--top', 'cost', '--columns', 'session,requests,agents,name'], { env })
    assert.match(listed.stdout, new RegExp(`${id} +2 +2 +mine`))
    const explained = await verb(['explain', '--session', id], { env })
    assert.match(explained.stdout, /2 requests \(0 failed\), 2 agents/)
    assert.match(explained.stdout, /200 .* helper\n.*200 .* main/)
    for (const session of [id, 'mine']) {
      const response = await fetch(`${gateway.url}/v1/usage?bucket=none&session=${session}`)
      const used = Object(await response.json())
      assert.equal(used.total.requests, 2, JSON.stringify(used))
    }
    assert.equal((await fetch(`${gateway.url}/admin/api/v1/sessions/ses_none`)).status, 404)
    assert.equal((await fetch(`${gateway.url}/admin/api/v1/sessions/ses_${'q'.repeat(12)}`)).status, 404)
  })
})

const ADMIN = 'admin-token-0123456789'
const [CLIENT, FREE] = ['client-key-0123456789', 'other-key-01234567890']
const YAML = `keys:
  strict: { secret: "${CLIENT}", requireSession: true }
  free: { secret: "${FREE}" }
prices: [ { provider: openai, model: "*", perMillion: { input: 1000, output: 1000 } } ]
budgets:
  each-session: { amount: "1.00", period: total, per: session, reserve: max }
`

describe('sessions of keys', { concurrency: false }, () => {
  let [gateway, upstream]: [Started | null, Upstream | null] = [null, null]
  const running = () => gateway ?? assert.fail()
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { text: 'yes', input: 10, output: 50 }))
    gateway = await start({
      env: { AUTH_ADMIN: ADMIN, OPENAI_API_KEY: 'sk-test-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1` },
      files: { 'headgate.yaml': YAML },
    })
  })
  after(async () => {
    await gateway?.[Symbol.asyncDispose]()
    await upstream?.close()
  })

  const ask = async (session: string | null, { key = CLIENT, path = '/v1/chat/completions' } = {}) => {
    const response = await fetch(running().url + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${key}`,
        ...(session !== null && { 'x-headgate-session': session }),
      },
      body: JSON.stringify({ model: 'gpt-5-mini', messages, max_tokens: 50 }),
    })
    const { error } = Object(await response.json())
    return {
      status: response.status,
      code: error?.code,
      message: error?.message,
      retry: response.headers.get('x-should-retry'),
    }
  }
  const admin = async (path: string, body?: object) => {
    const response = await fetch(`${running().url}/admin/api/v1${path}`, {
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }

  test('sessions: a key that requires one refuses requests without', async () => {
    const refused = await ask(null)
    assert.deepEqual([refused.status, refused.code, refused.retry], [400, 'session_required', 'false'])
    assert.equal((await ask('first')).status, 200)
    assert.equal((await ask(null, { key: FREE })).status, 200)
  })

  test('sessions: one that is stopped is refused until it is resumed, others are served', async () => {
    const { data } = await admin('/sessions?name=first')
    const [{ id }] = data
    assert.deepEqual(await admin(`/sessions/${id}/stop`, { message: 'it repeats itself' }), {
      object: 'session',
      id,
      stopped: true,
    })
    const stopped = await ask('first')
    assert.deepEqual([stopped.status, stopped.code, stopped.retry], [402, 'loop_stopped', 'false'])
    assert.match(stopped.message, /stopped this session: it repeats itself/)
    assert.equal((await ask('second')).status, 200)
    // The same name is another session with another key.
    assert.equal((await ask('first', { key: FREE })).status, 200)
    assert.equal((await admin(`/sessions/${id}`)).stopped.message, 'it repeats itself')
    await admin(`/sessions/${id}/resume`, {})
    assert.equal((await ask('first')).status, 200)
    assert.equal((await admin(`/sessions/${id}`)).stopped, null)
    const { data: refused } = await admin(`/requests?session=${id}&code=loop_stopped`)
    assert.equal(refused.length, 1)
  })

  test('sessions: a budget for each is exact at 100 parallel requests of its agents', async () => {
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask('busy')))
    const served = answers.filter(({ status }) => status === 200).length
    const spent = answers.filter(({ code }) => code === 'budget_exceeded')
    assert.equal(served + spent.length, 100, JSON.stringify(answers.find(({ status }) => status !== 200)))
    // 6 cents each, of a dollar; what is reserved is more than what is spent.
    assert.ok(served > 8 && served * 6 <= 100, String(served))
    assert.deepEqual([spent[0]?.status, spent[0]?.retry], [402, 'false'])
    assert.match(spent[0]?.message ?? '', /this session/)
    const { data } = await admin('/sessions?name=busy')
    assert.equal(data[0].cost, (served * 0.06).toFixed(9))
    assert.equal((await ask('another')).status, 200)
    assert.equal((await ask(null, { key: FREE })).status, 200)
  })
})

test('sessions: all gateways that share a database obey a stop', { skip: skipPostgres }, async () => {
  const postgres = await startPostgres()
  const env = { AUTH_ADMIN: ADMIN, AUTH_KEYS: CLIENT, DATABASE_URL: postgres.url }
  const gateways: Started[] = []
  try {
    for (let count = 0; count < 3; count++) gateways.push(await start({ env }))
    const [first, ...others] = gateways
    const ask = async (gateway: Started | undefined) => {
      const response = await fetch(`${gateway?.url}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${CLIENT}`,
          'x-headgate-session': 'shared',
        },
        body: JSON.stringify({ model: MODEL, messages }),
      })
      await response.text()
      return response.status
    }
    const headers = { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' }
    const admin = async (path: string, body?: object) => {
      const init = body && { method: 'POST', body: JSON.stringify(body) }
      return Object(await (await fetch(`${first?.url}/admin/api/v1${path}`, { headers, ...init })).json())
    }
    for (const gateway of gateways) assert.equal(await ask(gateway), 200)
    const until = async (what: string, isSo: () => Promise<boolean>) => {
      for (const end = performance.now() + 60_000; !(await isSo()); await sleep(50))
        if (performance.now() > end) assert.fail(what)
    }
    let id = ''
    await until('the requests of all gateways are one session', async () => {
      const [session] = (await admin('/sessions?name=shared')).data
      id = session?.id
      return session?.requests === 3
    })
    await admin(`/sessions/${id}/stop`, { message: 'enough' })
    assert.equal(await ask(first), 402)
    for (const gateway of others) await until('it is stopped', async () => (await ask(gateway)) === 402)
    await admin(`/sessions/${id}/resume`, {})
    for (const gateway of gateways) await until('it is served again', async () => (await ask(gateway)) === 200)
  } finally {
    for (const gateway of gateways) await gateway[Symbol.asyncDispose]()
    await postgres.remove()
  }
})
