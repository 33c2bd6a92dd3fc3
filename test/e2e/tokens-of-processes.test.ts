/** Signed tokens and sign-ins where several processes answer: workers of one gateway, and gateways with one database. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { signInProgram } from '../support/device-flow.ts'
import { startIdentityProvider, TestBrowser } from '../support/identity-provider.ts'
import { issuerKey, startIssuer } from '../support/issuer.ts'
import { freePorts } from '../support/ports.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, start } from './support/process.ts'
import { fileOf } from './support/stage.ts'

const ADMIN = 'break-glass-token-of-the-operator'
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }
const WORKERS = 4
/** Requests of which each has a connection of its own, so that every worker receives some. */
const MANY = 40

const statuses = async (ask: () => Promise<number>): Promise<readonly number[]> => [
  ...new Set(await Promise.all(Array.from({ length: MANY }, ask))),
]
const statusOf = (url: string, token: string) => async (): Promise<number> =>
  (await post(`${url}/v1/chat/completions`, BODY, { authorization: `Bearer ${token}`, connection: 'close' })).status
const adminCall = async (url: string, path: string, method = 'GET', body?: object) => {
  const response = await fetch(`${url}/admin/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', connection: 'close' },
    ...(body && { body: JSON.stringify(body) }),
  })
  assert.ok(response.ok, `${path}: ${response.status}`)
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  return (await response.json()) as any
}
/** Waits until every process answers so. `limit`: ms. */
const until = async (ask: () => Promise<number>, status: number, limit = 5_000): Promise<void> => {
  const end = performance.now() + limit
  for (let found = await statuses(ask); ; found = await statuses(ask)) {
    if (found.length === 1 && found[0] === status) return
    assert.ok(performance.now() < end, `still ${found}`)
  }
}

test('four workers: signed tokens, a rotation, a block and the list of subjects', { timeout: 120_000 }, async () => {
  const issuer = await startIssuer()
  const rule = `{ name: people, issuer: "${issuer.url}", audience: [headgate], team: { value: search } }`
  await using gateway = await start({
    env: { WORKERS: String(WORKERS), AUTH_ADMIN: ADMIN },
    files: { 'headgate.yaml': `teams: { search: {} }\nauth: { jwt: [ ${rule} ] }\n` },
  })
  const { url } = gateway
  const [alice, bob] = [issuer.token(), issuer.token({ sub: 'bob' })]
  assert.deepEqual(await statuses(statusOf(url, alice)), [200])
  assert.deepEqual(await statuses(statusOf(url, bob)), [200])
  assert.ok(issuer.fetches <= WORKERS, `${issuer.fetches} fetches: each worker has its own keys`)
  assert.deepEqual(await statuses(statusOf(url, `${alice}x`)), [401])

  const { data } = await adminCall(url, '/identities')
  assert.deepEqual(data.map(({ subject }: { subject: string }) => subject).sort(), ['alice', 'bob'], 'each once')
  issuer.keys = [...issuer.keys, issuerKey('ES256', 'next')]
  assert.deepEqual(await statuses(statusOf(url, issuer.token({ sub: 'carol' }))), [200])

  await adminCall(url, '/identities/block', 'POST', { rule: 'people', subject: 'alice' })
  await until(statusOf(url, alice), 401)
  assert.deepEqual(await statuses(statusOf(url, issuer.token())), [401], 'another token of hers')
  assert.deepEqual(await statuses(statusOf(url, bob)), [200])
  await issuer.close()
})

test('four workers: a sign-in, a program, and the end of both', { timeout: 120_000 }, async () => {
  const [port = 0, own = 0] = await freePorts(2)
  const url = `http://127.0.0.1:${port}`
  await using idp = await startIdentityProvider(url, own)
  idp.people.set('ann', { email: 'ann@corp.example', groups: ['ai-admins'] })
  idp.signedIn = 'ann'
  const provider = `{ issuer: "${idp.issuer}", clientId: headgate, clientSecret: "${idp.clientSecret}", scopes: [ openid, profile, email, groups ] }`
  await using gateway = await start({
    // The address and the secret of single sign-on come from the environment.
    env: {
      PORT: String(port),
      WORKERS: String(WORKERS),
      AUTH_ADMIN: ADMIN,
      SSO_PUBLIC_URL: url,
      SSO_SECRET: 'sso-secret-canary-0123456789-0123456789',
    },
    files: {
      'headgate.yaml': `sso: { providers: { corp: ${provider} }, roles: [ { group: ai-admins, role: admin } ], teams: [ { team: default } ] }\n`,
    },
  })
  assert.equal(gateway.url, url)
  const browser = new TestBrowser()
  await browser.open(`${url}/admin/api/v1/login?provider=corp`, { until: /\/dashboard\// })
  const address = `${url}/admin/api/v1/session`
  const session = async () =>
    (await fetch(address, { headers: { cookie: browser.header(address), connection: 'close' } })).status
  assert.deepEqual(await statuses(session), [200])
  const { access_token: token } = await signInProgram(url)
  assert.deepEqual(await statuses(statusOf(url, token)), [200])
  const { data: signIns } = await adminCall(url, '/sign-ins')
  await adminCall(url, `/sign-ins/${signIns[0].id}`, 'DELETE')
  await until(statusOf(url, token), 401)
  assert.deepEqual(await statuses(session), [200], 'the browser is still signed in')
  const { data: people } = await adminCall(url, '/people')
  await adminCall(url, `/people/${people[0].id}/sign-out`, 'POST')
  await until(session, 401)
})

const TEXT = 'one two three four five six seven eight nine ten'

describe('two gateways with one database', { skip: skipPostgres, timeout: 240_000 }, () => {
  test('a background response of a token is polled at the other gateway, and runs again there after a kill', async () => {
    const calls = new Map<string, number>()
    const upstream = await startUpstream((call) => {
      const number = (calls.get(call.model ?? '') ?? 0) + 1
      calls.set(call.model ?? '', number)
      const isLong = call.model?.startsWith('lost') && number === 1
      return answerWith(call, { text: isLong ? TEXT.repeat(200) : TEXT }, { gap: isLong ? 100 : 0 })
    })
    const [issuer, server] = [await startIssuer(), await startPostgres()]
    const rule = { name: 'people', issuer: issuer.url, audience: ['headgate'], team: { value: 'search' } }
    const file = fileOf({
      providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat'], models: ['m', 'lost', 'lost-unseen'] } },
      retry: { maxAttempts: 1 },
      teams: { search: {} },
      auth: { jwt: [rule] },
    })
    const options = { env: { DATABASE_URL: server.url }, files: { 'headgate.yaml': file } }
    const first = await start(options)
    const second = await start(options)
    try {
      const begin = async (model: string, token: string): Promise<string> => {
        const sent = { model: `a/${model}`, input: 'hello', background: true }
        const { status, text, json } = await post(`${first.url}/v1/responses`, sent, {
          authorization: `Bearer ${token}`,
        })
        assert.equal(status, 200, text)
        return json().id
      }
      const read = async (id: string, token: string) => {
        const headers = { authorization: `Bearer ${token}` }
        const response = await fetch(`${second.url}/v1/responses/${id}`, { headers })
        return { status: response.status, body: (await response.json()) as { readonly status?: string } }
      }
      const done = async (id: string, token: string) => {
        for (const end = performance.now() + 120_000; performance.now() < end; await sleep(100)) {
          const { status, body } = await read(id, token)
          assert.equal(status, 200, JSON.stringify(body))
          if (body.status !== 'queued' && body.status !== 'in_progress') return body.status
        }
        return assert.fail('it did not end')
      }
      const [alice, bob, carol] = [issuer.token(), issuer.token({ sub: 'bob' }), issuer.token({ sub: 'carol' })]
      const id = await begin('m', alice)
      assert.equal(await done(id, alice), 'completed')
      assert.equal((await read(id, bob)).status, 404, 'it belongs to alice')
      assert.equal((await read(id, issuer.token({ jti: 'another token' }))).status, 200)

      const lost = await begin('lost', alice)
      const unseen = await begin('lost-unseen', carol)
      await sleep(1_000)
      first.child.kill('SIGKILL')
      assert.equal(await done(lost, alice), 'completed')
      assert.equal(calls.get('lost'), 2)
      // The second gateway has verified no token of hers, so that it does not know whether she may still call.
      assert.equal(await done(unseen, carol), 'failed')
      assert.equal(calls.get('lost-unseen'), 1)
    } finally {
      await first.stop()
      await second.stop()
      await upstream.close()
      await issuer.close()
      await server.remove()
    }
  })
})
