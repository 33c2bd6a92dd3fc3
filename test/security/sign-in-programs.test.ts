/** Attacks on the sign-in of programs: guessed codes, forms of other pages, links with a code, and tokens that are not of this gateway. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Secret } from '../../src/core/secret.ts'
import { accessClaims } from '../../src/policy/sign-in/access-claims.ts'
import { signAccessToken } from '../../src/server/access-token.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
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

const SECRET = 'sso-secret-canary-0123456789-0123456789'
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }

describe('sign-in of programs', { concurrency: false }, () => {
  let gateway: Started
  let corp: IdentityProviderFixture
  let url = ''
  before(async () => {
    const [port = 0, own = 0] = await freePorts(2)
    url = `http://127.0.0.1:${port}`
    corp = await startIdentityProvider(url, own)
    const file = `
trustedProxies: [ 127.0.0.1 ]
sso:
  publicUrl: ${url}
  secret: ${SECRET}
  providers:
    corp: { issuer: "${corp.issuer}", clientId: headgate, clientSecret: "${corp.clientSecret}", scopes: [ openid, email, groups, offline_access ], parameters: { prompt: consent } }
  roles: [ { group: ai-admins, role: admin } ]
  teams: [ { group: ai-admins, team: default } ]
`
    const env = { PORT: String(port), AUTH_ADMIN: 'break-glass-token-of-the-operator' }
    gateway = await start({ env, files: { 'headgate.yaml': file } })
    corp.people.set('ann', { email: 'ann@corp.example', groups: ['ai-admins'] })
    corp.signedIn = 'ann'
  })
  after(async () => {
    await gateway?.stop()
    await corp?.stop()
  })
  const error = async (code: string) => (await pollDevice(url, code)).body.error
  const statuses = async (token: string) => {
    const authorization = `Bearer ${token}`
    const model = await post(`${url}/v1/chat/completions`, BODY, { authorization })
    const admin = await fetch(`${url}/admin/api/v1/session`, { headers: { authorization } })
    return [model.status, admin.status]
  }

  test('code guessing: ten wrong codes of an address in a minute, and then not even the right one is read', async () => {
    const { user_code, device_code } = await beginDevice(url)
    const from = (address: string, code: string) =>
      submit(new TestBrowser(), `${url}/device`, { user_code: code }, { 'x-forwarded-for': address })
    let wrong = 0
    while ((await from('192.0.2.1', 'BBBB-BBBB')).status === 400) assert.ok(++wrong < 30, 'not limited')
    assert.ok(wrong >= 10, `${wrong}`)
    assert.equal((await from('192.0.2.1', user_code)).status, 429)
    assert.equal((await from('192.0.2.2', user_code)).status, 200)
    assert.equal(await error(device_code), 'authorization_pending')
  })

  test('cross-site approval: a form of another page, of another browser or without its value approves nothing', async () => {
    const { user_code, device_code } = await beginDevice(url)
    const { browser, confirm } = await confirmCode(url, user_code)
    const { confirm: other } = await confirmCode(url, (await beginDevice(url)).user_code)
    const approve = (value: string, headers = {}, by = browser) =>
      submit(by, `${url}/device`, { confirm: value, decision: 'approve' }, headers)
    for (const site of ['cross-site', 'same-site', 'none'])
      assert.equal((await approve(confirm, { 'sec-fetch-site': site })).status, 403, site)
    for (const origin of ['https://evil.example', 'null', 'http://localhost:1'])
      assert.equal((await approve(confirm, { origin })).status, 403, origin)
    for (const value of ['', 'x', other]) assert.equal((await approve(value)).status, 400)
    assert.equal((await approve(confirm, {}, new TestBrowser())).status, 400, 'another browser')
    assert.equal(await error(device_code), 'authorization_pending')
    assert.equal((await approve(confirm)).status, 200)
    assert.equal((await approve(confirm)).status, 400, 'once')
    assert.equal((await pollDevice(url, device_code)).status, 200)
  })

  test('device phishing: a link with a code submits nothing, and a sign-in without a typed code claims none', async () => {
    const { verification_uri_complete, device_code } = await beginDevice(url)
    const browser = new TestBrowser()
    const page = await browser.open(verification_uri_complete)
    assert.equal(page.status, 200)
    assert.equal(browser.cookies.size, 0)
    const back = await browser.open(`${url}/admin/api/v1/login?provider=corp&return=/device`)
    assert.equal(back.status, 400)
    assert.match(back.text, /not begun in this browser/)
    assert.equal(await error(device_code), 'authorization_pending')
  })

  test('device phishing: the name of a program is shown as text', async () => {
    const { body } = await sendForm(`${url}/oauth/device_authorization`, { surface: '<script>alert(1)</script>' })
    const { page } = await confirmCode(url, body.user_code)
    assert.doesNotMatch(page.text, /<script/)
  })

  test('forged tokens: of another gateway, secret, algorithm, or with other claims are refused', async () => {
    const { access_token } = await signInProgram(url)
    assert.deepEqual(await statuses(access_token), [200, 200])
    const [header = '', payload = '', signature = ''] = access_token.split('.')
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
    const settings = { publicUrl: url, roles: [], teams: [] }
    const person = { ...claims, id: claims.sub, signIn: claims.sid, provider: 'corp', name: null }
    const secret = [new Secret(SECRET)]
    const at = Date.now()
    const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const forged: readonly [string, string][] = [
      [
        'another gateway',
        signAccessToken(secret, accessClaims({ ...settings, publicUrl: 'https://b.example' }, person, at)),
      ],
      ['another secret', signAccessToken([new Secret(`${SECRET}x`)], claims)],
      ['expired', signAccessToken(secret, accessClaims(settings, person, at - 3_600_000))],
      ['another audience', signAccessToken(secret, { ...claims, aud: 'other' })],
      ['an unknown sign-in', signAccessToken(secret, { ...claims, sid: 'sgn_unknown', idp: 'gone' })],
      ['alg none', `${base64({ alg: 'none', typ: 'JWT' })}.${payload}.`],
      ['without a signature', `${header}.${payload}.`],
      ['another person', `${header}.${base64({ ...claims, sub: 'usr_other' })}.${signature}`],
      ['another form of the header', `${base64({ typ: 'JWT', alg: 'HS256' })}.${payload}.${signature}`],
    ]
    for (const [name, token] of forged) assert.deepEqual(await statuses(token), [401, 401], name)
  })

  test('stolen codes: a device code is no user code, and a refresh token no access token', async () => {
    const { device_code, user_code } = await beginDevice(url)
    assert.equal(await error(user_code), 'expired_token')
    assert.equal((await refreshTokens(url, device_code)).body.error, 'invalid_grant')
    const { refresh_token, access_token } = await signInProgram(url)
    assert.deepEqual(await statuses(refresh_token), [401, 401])
    assert.equal((await refreshTokens(url, access_token)).status, 401)
  })

  test('leaked tokens: none is in the database or the log', async () => {
    const { refresh_token, access_token } = await signInProgram(url)
    const { body }: Answer = await refreshTokens(url, refresh_token)
    const { device_code } = await beginDevice(url)
    const folder = join(gateway.folder, '.headgate')
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile())
      .map((one) => readFileSync(join(one.parentPath, one.name), 'latin1'))
    const everything = [gateway.output(), ...files].join('\n')
    for (const canary of [refresh_token, body.refresh_token, access_token, device_code, SECRET])
      assert.ok(!everything.includes(canary))
  })
})
