/** Programs sign in by the device flow, with a real identity provider: codes, tokens, refreshes, and their end. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type Answer,
  beginDevice,
  confirmCode,
  pollDevice,
  refreshTokens,
  sendForm,
  signInProgram,
  submit,
} from '../support/device-flow.ts'
import { type IdentityProviderFixture, startIdentityProvider, TestBrowser } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { BELOW, post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'break-glass-token-of-the-operator'
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }

const fileFor = (url: string, { issuer, clientSecret }: IdentityProviderFixture) => `
sso:
  publicUrl: ${url}
  secret: sso-secret-canary-0123456789-0123456789
  providers:
    corp: { issuer: "${issuer}", clientId: headgate, clientSecret: "${clientSecret}", scopes: [ openid, profile, email, groups, offline_access ], parameters: { prompt: consent } }
  roles: [ { group: ai-admins, role: admin } ]
  teams: [ { group: devs, team: search } ]
teams: { search: {} }
`
const ANN = { email: 'ann@corp.example', email_verified: true, name: 'Ann', groups: ['ai-admins', 'devs'] }

const ask = (url: string, token: string) =>
  post(`${url}/v1/chat/completions`, BODY, { authorization: `Bearer ${token}` })
const eventually = async (check: () => Promise<boolean>, limit = 30_000) => {
  for (const end = performance.now() + limit; performance.now() < end; ) if (await check()) return
  assert.fail('it did not happen')
}

describe('programs sign in', { concurrency: false }, () => {
  let gateway: Started
  let corp: IdentityProviderFixture
  let url = ''
  before(async () => {
    const [port = 0, own = 0] = await freePorts(2)
    url = `http://127.0.0.1:${port}${BELOW}`
    corp = await startIdentityProvider(url, own)
    gateway = await start({
      env: { PORT: String(port), AUTH_ADMIN: ADMIN },
      files: { 'headgate.yaml': fileFor(url, corp) },
    })
    corp.people.set('ann', ANN)
    corp.people.set('guest', { email: 'guest@corp.example', groups: [] })
    corp.signedIn = 'ann'
  })
  after(async () => {
    await gateway?.stop()
    await corp?.stop()
  })
  const admin = async (path: string, token = ADMIN, init: RequestInit = {}): Promise<Answer> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...init.headers }
    const response = await fetch(`${url}/admin/api/v1${path}`, { ...init, headers })
    return { status: response.status, body: await response.json(), headers: response.headers }
  }

  test('the metadata and the answer to a program have what clients read', async () => {
    const metadata = (await (await fetch(`${url}/.well-known/oauth-authorization-server`)).json()) as Answer['body']
    assert.equal(metadata.issuer, url)
    assert.equal(metadata.device_authorization_endpoint, `${url}/oauth/device_authorization`)
    assert.equal(metadata.token_endpoint, `${url}/oauth/token`)
    const begun = await sendForm(metadata.device_authorization_endpoint, { surface: 'claude_code' })
    assert.equal(begun.headers.get('cache-control'), 'no-store')
    const { user_code, device_code, verification_uri, verification_uri_complete, expires_in, interval } = begun.body
    assert.match(user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/)
    assert.equal(Buffer.from(device_code, 'base64url').length, 32)
    assert.deepEqual([verification_uri, expires_in, interval], [`${url}/device`, 600, 5])
    assert.equal(verification_uri_complete, `${url}/device?user_code=${user_code}`)
  })

  test('a person types the code, signs in, sees the program and allows it', async () => {
    const { device_code, user_code } = await beginDevice(url)
    const waits = await pollDevice(url, device_code)
    assert.deepEqual([waits.status, waits.body.error], [400, 'authorization_pending'])
    const { browser, page, confirm } = await confirmCode(url, user_code.toLowerCase().replace('-', ' '))
    assert.equal(page.url, `${url}/device`)
    for (const shown of ['test_program', '127.0.0.1', user_code, 'ann@corp.example'])
      assert.ok(page.text.includes(shown), `${shown} in ${page.text}`)
    assert.match(
      String(page.headers['content-security-policy']),
      /default-src 'none'.*form-action 'self'.*frame-ancestors 'none'/,
    )
    assert.doesNotMatch(page.text, /<script/)
    assert.equal((await pollDevice(url, device_code)).status, 400, 'not allowed yet')
    const allowed = await submit(browser, `${url}/device`, { confirm, decision: 'approve' })
    assert.match(allowed.text, /signed in/)
    const { status, body } = await pollDevice(url, device_code)
    assert.equal(status, 200)
    assert.deepEqual([body.token_type, body.expires_in, body.email], ['Bearer', 3_600, 'ann@corp.example'])
    const claims = JSON.parse(Buffer.from(body.access_token.split('.')[1], 'base64url').toString())
    assert.deepEqual([claims.iss, claims.aud, claims.groups], [url, 'headgate', ANN.groups])
    assert.match(claims.sub, /^usr_/)
    assert.equal((await pollDevice(url, device_code)).body.error, 'expired_token', 'a code works once')
    const { data } = (await admin('/audit?action=login')).body
    assert.equal(data[0].object, claims.sub)
  })

  test('its token calls models for the team, and the admin API by the roles', async () => {
    const { access_token } = await signInProgram(url)
    const answer = await ask(url, access_token)
    assert.equal(answer.status, 200, answer.text)
    const { body } = await admin('/session', access_token)
    assert.deepEqual([body.actor.name, body.csrf], ['ann@corp.example', null])
    assert.deepEqual(body.roles, [{ role: 'admin', team: null }])
    assert.match(body.person.team, /^team_/)
    await eventually(async () => {
      const { data } = (await admin('/requests?limit=5')).body
      return data.some((row: Answer['body']) => row.key?.id === body.actor.id || row.key === body.actor.id)
    })
  })

  test('the routes of the team that pays for a person are used, and explained', async () => {
    const { access_token } = await signInProgram(url)
    const body = JSON.stringify({ name: 'fast', team: 'search', spec: { targets: ['demo/echo'] } })
    assert.equal((await admin('/routes', ADMIN, { method: 'POST', body })).status, 201)
    const authorization = `Bearer ${access_token}`
    const answer = await post(`${url}/v1/chat/completions`, { ...BODY, model: 'fast' }, { authorization })
    assert.deepEqual([answer.status, answer.headers.get('x-headgate-model')], [200, 'echo'], answer.text)
    const plan = await post(`${url}/v1/route`, { ...BODY, model: 'fast' }, { authorization })
    assert.deepEqual([plan.status, JSON.parse(plan.text).by], [200, 'route'], plan.text)
  })

  test('a person without a role and a team is refused, and a refused program receives nothing', async () => {
    corp.signedIn = 'guest'
    const first = await beginDevice(url)
    const { page } = await confirmCode(url, first.user_code)
    corp.signedIn = 'ann'
    assert.equal(page.status, 403)
    assert.match(page.text, /no role/)
    const { device_code, user_code } = await beginDevice(url)
    const { browser, confirm } = await confirmCode(url, user_code)
    await submit(browser, `${url}/device`, { confirm, decision: 'deny' })
    assert.equal((await pollDevice(url, device_code)).body.error, 'access_denied')
  })

  test('a refresh gives new tokens, the same ones to two programs that share them', async () => {
    const { refresh_token } = await signInProgram(url)
    const [one, two] = await Promise.all([refreshTokens(url, refresh_token), refreshTokens(url, refresh_token)])
    assert.deepEqual([one.status, two.status], [200, 200])
    assert.equal(one.body.refresh_token, two.body.refresh_token)
    assert.notEqual(one.body.refresh_token, refresh_token)
    assert.equal((await ask(url, one.body.access_token)).status, 200)
    assert.equal((await refreshTokens(url, one.body.refresh_token)).status, 200)
  })

  test('a program signs out, and its tokens end', async () => {
    const { access_token, refresh_token } = await signInProgram(url)
    assert.equal((await sendForm(`${url}/oauth/revoke`, { token: 'unknown' })).status, 200)
    assert.equal((await sendForm(`${url}/oauth/revoke`, { token: refresh_token })).status, 200)
    const again = await refreshTokens(url, refresh_token)
    assert.deepEqual([again.status, again.body.error], [401, 'invalid_grant'])
    await eventually(async () => (await ask(url, access_token)).status === 401)
    assert.equal((await admin('/session', access_token)).status, 401)
  })

  test('an administrator lists sign-ins and ends one, by the admin API and the command line', async () => {
    const [kept, ended] = [await signInProgram(url), await signInProgram(url)]
    const env = { HEADGATE_URL: url, HEADGATE_ADMIN_TOKEN: ADMIN }
    const idOf = (token: string) =>
      String(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()).sid)
    const id = idOf(ended.access_token)
    const list = await verb(['sign-ins', 'list'], { env })
    assert.equal(list.code, 0, list.stderr)
    const line = list.stdout.split('\n').find((one) => one.includes(id)) ?? assert.fail(list.stdout)
    for (const shown of ['ann@corp.example', 'test_program', '127.0.0.1']) assert.ok(line.includes(shown), line)
    assert.equal((await admin('/sign-ins', kept.access_token)).status, 200, 'Ann is an admin')
    assert.equal((await admin('/sign-ins', 'another')).status, 401)
    const done = await verb(['sign-ins', 'end', id], { env })
    assert.equal(done.stdout, `The sign-in ${id} has ended\n`, done.stderr)
    assert.equal((await verb(['sign-ins', 'end', id], { env })).code, 6)
    await eventually(async () => (await ask(url, ended.access_token)).status === 401, 5_000)
    assert.equal((await refreshTokens(url, ended.refresh_token)).status, 401)
    assert.equal((await ask(url, kept.access_token)).status, 200)
    const { data } = (await admin('/sign-ins?limit=200')).body
    assert.ok(!data.some((one: { id: string }) => one.id === id))
    assert.ok(data.some((one: { id: string }) => one.id === idOf(kept.access_token)))
  })

  test('a blocked person loses the tokens of programs', async () => {
    const { access_token, refresh_token } = await signInProgram(url)
    const { actor } = (await admin('/session', access_token)).body
    const { rev } = (await admin(`/people/${actor.id}`)).body
    const blocked = await admin(`/people/${actor.id}`, ADMIN, {
      method: 'PATCH',
      body: '{"status":"blocked"}',
      headers: { 'if-match': `"${rev}"` },
    })
    assert.equal(blocked.status, 200, JSON.stringify(blocked.body))
    await eventually(async () => (await ask(url, access_token)).status === 401)
    assert.equal((await refreshTokens(url, refresh_token)).status, 401)
    await admin(`/people/${actor.id}`, ADMIN, {
      method: 'PATCH',
      body: '{"status":"active"}',
      headers: { 'if-match': `"${rev + 1}"` },
    })
    assert.equal((await ask(url, access_token)).status, 401, 'not valid again')
  })

  test('headgate login, whoami, token and logout', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-login-'))
    const place = join(folder, 'headgate', 'credentials.json')
    const env = { XDG_CONFIG_HOME: folder }
    const read = (): Answer['body'] => JSON.parse(readFileSync(place, 'utf8'))
    const run = (...words: string[]) => verb(words, { env, cwd: folder })
    try {
      assert.equal((await run('token', '--url', url)).code, 5)
      const waiting = verb(['login', '--url', url], {
        env,
        cwd: folder,
        onNote: async (text) => {
          const code = /user_code=([A-Z-]+)/.exec(text)?.[1]
          if (code === undefined) return
          const { browser, confirm } = await confirmCode(url, code)
          await submit(browser, `${url}/device`, { confirm, decision: 'approve' })
        },
      })
      const signedIn = await waiting
      assert.equal(signedIn.code, 0, signedIn.stderr)
      assert.match(signedIn.stdout, /as ann@corp.example/)
      assert.equal(statSync(place).mode & 0o777, 0o600)
      assert.match((await run('whoami')).stdout, /ann@corp.example \(person usr_[\s\S]*admin/)
      assert.equal((await run('keys', 'list')).code, 0)
      const token = (await run('token')).stdout.trim()
      assert.equal((await ask(url, token)).status, 200)
      const former = read()
      former.gateways[url].expires_at = 0
      writeFileSync(place, JSON.stringify(former))
      const [one, two] = await Promise.all([run('token'), run('token')])
      assert.deepEqual([one.code, two.code], [0, 0], one.stderr + two.stderr)
      assert.notEqual(read().gateways[url].refresh_token, former.gateways[url].refresh_token)
      assert.equal((await ask(url, one.stdout.trim())).status, 200)
      assert.equal((await run('logout')).code, 0)
      assert.deepEqual(read().gateways, {})
      await eventually(async () => (await ask(url, token)).status === 401)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test('the page prefills a code and waits for the person', async () => {
    const { user_code, verification_uri_complete } = await beginDevice(url)
    const page = await new TestBrowser().open(verification_uri_complete)
    assert.match(page.text, new RegExp(`value="${user_code}"`))
    assert.doesNotMatch(page.text, /<script|http-equiv/)
    const odd = await new TestBrowser().open(`${url}/device?user_code=%22%3E%3Cscript%3E`)
    assert.doesNotMatch(odd.text, /<script/)
  })
})

describe('programs sign in with three gateways', { skip: skipPostgres, concurrency: false }, () => {
  test('a code of one is confirmed at another, and its token is refreshed at the third', async () => {
    const [first = 0, second = 0, third = 0, own = 0] = await freePorts(4)
    const [url, other, last] = [first, second, third].map((port) => `http://127.0.0.1:${port}${BELOW}`) as [
      string,
      string,
      string,
    ]
    // The public address is that of the gateway which the browser uses.
    await using idp = await startIdentityProvider(other, own)
    idp.people.set('ann', ANN)
    idp.signedIn = 'ann'
    const postgres = await startPostgres()
    const files = { 'headgate.yaml': fileFor(other, idp) }
    const env = { AUTH_ADMIN: ADMIN, DATABASE_URL: postgres.url, AUTH_REQUIRED: 'true' }
    {
      await using one = await start({ env: { ...env, PORT: String(first) }, files })
      await using two = await start({ env: { ...env, PORT: String(second) }, files })
      await using three = await start({ env: { ...env, PORT: String(third) }, files })
      assert.ok(one && two && three)
      const { device_code, user_code } = await beginDevice(url)
      const { browser, confirm } = await confirmCode(other, user_code)
      await submit(browser, `${other}/device`, { confirm, decision: 'approve' })
      const { body } = await pollDevice(last, device_code)
      const [again, twice] = await Promise.all([url, last].map((at) => refreshTokens(at, body.refresh_token)))
      assert.equal(again?.body.refresh_token, twice?.body.refresh_token)
      assert.equal((await ask(url, again?.body.access_token)).status, 200)
      assert.equal((await sendForm(`${last}/oauth/revoke`, { token: again?.body.refresh_token })).status, 200)
      await eventually(async () => (await ask(url, again?.body.access_token)).status === 401)
    }
    await postgres.remove()
  })
})
