import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type IdentityProviderFixture,
  NAVIGATION,
  navigate,
  startIdentityProvider,
  TestBrowser,
} from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { BELOW, type Started, start } from './support/process.ts'

const ADMIN = 'break-glass-token-of-the-operator'
const SSO_SECRET = 'sso-secret-canary-0123456789-0123456789'

const fileFor = (url: string, [one, two]: readonly IdentityProviderFixture[]) => `
sso:
  publicUrl: ${url}
  secret: ${SSO_SECRET}
  providers:
    corp: { issuer: "${one?.issuer}", clientId: headgate, clientSecret: "${one?.clientSecret}", scopes: [ openid, profile, email, groups, offline_access ], parameters: { prompt: consent } }
    partners: { issuer: "${two?.issuer}", clientId: headgate, clientSecret: "${two?.clientSecret}", scopes: [ openid, email, groups ] }
  roles: [ { group: ai-admins, role: admin, provider: corp }, { group: search-leads, role: operator, team: search } ]
  teams: [ { group: search-leads, team: search } ]
  session: { recheck: 1000 }
teams: { search: {} }
`

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Body = any

describe('single sign-on', { concurrency: false }, () => {
  let gateway: Started
  let corp: IdentityProviderFixture
  let partners: IdentityProviderFixture
  let url = ''
  before(async () => {
    const [port = 0, first = 0, second = 0] = await freePorts(3)
    url = `http://127.0.0.1:${port}${BELOW}`
    corp = await startIdentityProvider(url, first)
    partners = await startIdentityProvider(url, second)
    const files = { 'headgate.yaml': fileFor(url, [corp, partners]) }
    gateway = await start({ env: { PORT: String(port), AUTH_ADMIN: ADMIN }, files })
    corp.people.set('ann', { email: 'ann@corp.example', email_verified: true, name: 'Ann', groups: ['ai-admins'] })
    corp.people.set('leo', { email: 'leo@corp.example', name: 'Leo', groups: ['search-leads', 'others'] })
    corp.people.set('eve', { email: 'ann@corp.example', email_verified: true, name: 'Eve', groups: [] })
    partners.people.set('ann', { email: 'ann@corp.example', groups: ['ai-admins', 'search-leads'] })
  })
  after(async () => {
    await gateway?.stop()
    await corp?.stop()
    await partners?.stop()
  })

  const login = (provider = 'corp', more = '') => `${url}/admin/api/v1/login?provider=${provider}${more}`
  const signIn = async (subject: string, provider = 'corp', browser = new TestBrowser()) => {
    const issuer = provider === 'corp' ? corp : partners
    issuer.signedIn = subject
    const page = await browser.open(login(provider))
    return { browser, page }
  }
  const api = async (
    browser: TestBrowser,
    path: string,
    init: RequestInit = {},
  ): Promise<{ status: number; body: Body; headers: Headers }> => {
    const address = `${url}/admin/api/v1${path}`
    const response = await fetch(address, { ...init, headers: { cookie: browser.header(address), ...init.headers } })
    browser.keep(address, response.headers.getSetCookie())
    const text = await response.text()
    return { status: response.status, body: text === '' ? null : JSON.parse(text), headers: response.headers }
  }
  const admin = async (path: string, init: RequestInit = {}): Promise<Body> => {
    const response = await fetch(`${url}/admin/api/v1${path}`, {
      ...init,
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', ...init.headers },
    })
    assert.ok(response.ok, `${path}: ${response.status}`)
    return response.json()
  }
  const personOf = async (id: string) => admin(`/people/${id}`)

  test('a person signs in with the roles of the groups, and comes back to the page', async () => {
    corp.signedIn = 'ann'
    const browser = new TestBrowser()
    const page = await browser.open(login('corp', '&return=/dashboard/keys'), { until: /\/dashboard\// })
    assert.equal(page.url, `${url}/dashboard/keys`, `${page.status} ${page.text}`)
    const { body, status } = await api(browser, '/session')
    assert.equal(status, 200)
    assert.match(body.actor.id, /^usr_/)
    assert.deepEqual([body.actor.kind, body.actor.name], ['person', 'ann@corp.example'])
    assert.deepEqual(body.roles, [{ role: 'admin', team: null }])
    assert.deepEqual(body.person, {
      provider: 'corp',
      email: 'ann@corp.example',
      name: 'Ann',
      groups: ['ai-admins'],
      team: null,
    })
    const { data } = await admin('/audit?action=login')
    assert.equal(data[0].actor.id, body.actor.id)
  })

  test('the pages after a sign-in open, although the issuer is another site', async () => {
    const { page } = await signIn('ann')
    assert.equal(page.url, `${url}/dashboard/`)
    assert.notEqual(page.status, 403)
    const framed = await navigate(`${url}/dashboard/`, { ...NAVIGATION, 'sec-fetch-dest': 'iframe' })
    assert.equal(framed.status, 403)
    const read = await navigate(`${url}/admin/api/v1/session`, NAVIGATION)
    assert.equal(read.status, 403)
  })

  test('roles of a team are for this team, writes need the value of the session', async () => {
    const { browser } = await signIn('leo')
    const { body } = await api(browser, '/session')
    assert.equal(body.roles.length, 1)
    assert.equal(body.roles[0].role, 'operator')
    assert.match(body.roles[0].team, /^team_/)
    assert.equal(body.person.team, body.roles[0].team)
    assert.equal((await api(browser, '/people')).status, 403)
    const create = { method: 'POST', body: '{"name":"x"}', headers: { 'content-type': 'application/json' } }
    assert.equal((await api(browser, '/keys', create)).status, 403)
  })

  test('the same subject of two issuers is two people, and an e-mail address gives no rights', async () => {
    const { browser: first } = await signIn('ann')
    const { browser: second } = await signIn('ann', 'partners')
    const one = (await api(first, '/session')).body
    const other = (await api(second, '/session')).body
    assert.notEqual(one.actor.id, other.actor.id)
    assert.deepEqual(
      other.roles.map(({ role }: { role: string }) => role),
      ['operator'],
      'groups of the other issuer',
    )
    const { page } = await signIn('eve')
    assert.equal(page.status, 403)
    assert.match(page.text, /no role/)
    assert.equal((await admin('/people?q=ann@corp.example')).data.length, 3)
  })

  test('a group that is taken away takes the role away at the next check', async () => {
    const { browser } = await signIn('leo')
    assert.equal((await api(browser, '/session')).status, 200)
    corp.people.set('leo', { email: 'leo@corp.example', groups: ['others'] })
    const rolesNow = async () => (await api(browser, '/session')).body.roles.length
    await eventually(async () => (await rolesNow()) === 0)
    corp.people.set('leo', { email: 'leo@corp.example', groups: ['search-leads'] })
    await eventually(async () => (await rolesNow()) === 1)
  })

  test('an issuer that stops ends no session, and a person who is gone loses it', async () => {
    corp.people.set('tim', { email: 'tim@corp.example', groups: ['ai-admins'] })
    const { browser } = await signIn('tim')
    await corp.stop()
    const isAway = async () => {
      assert.equal((await api(browser, '/session')).status, 200, 'the issuer is away')
      return gateway.lines().some(({ event, message }) => event === 'sso' && /refused/.test(String(message)))
    }
    await eventually(isAway)
    await corp.start()
    corp.people.delete('tim')
    await eventually(async () => (await api(browser, '/session')).status === 401, 90_000)
  })

  test('a blocked person is signed out everywhere and cannot return', async () => {
    corp.people.set('bob', { email: 'bob@corp.example', groups: ['ai-admins'] })
    const { browser } = await signIn('bob')
    const { actor } = (await api(browser, '/session')).body
    const { rev } = await personOf(actor.id)
    const blocked = await admin(`/people/${actor.id}`, {
      method: 'PATCH',
      body: '{"status":"blocked"}',
      headers: { 'if-match': `"${rev}"` },
    })
    assert.deepEqual([blocked.status, blocked.sessions], ['blocked', 0])
    await eventually(async () => (await api(browser, '/session')).status === 401)
    const { page } = await signIn('bob')
    assert.equal(page.status, 403)
    assert.match(page.text, /blocked/)
  })

  test('roles are given to a person by hand', async () => {
    const people = (await admin('/people?q=eve')).data
    const [eve] =
      people.length > 0 ? people : (await admin('/people')).data.filter(({ name }: { name: string }) => name === 'Eve')
    const patch = {
      method: 'PATCH',
      body: JSON.stringify({ bindings: [{ role: 'viewer', team: null }] }),
      headers: { 'if-match': `"${eve.rev}"` },
    }
    const { roles } = await admin(`/people/${eve.id}`, patch)
    assert.deepEqual(roles, [{ role: 'viewer', team: null, by: 'hand', group: null }])
    const { browser } = await signIn('eve')
    assert.deepEqual((await api(browser, '/session')).body.roles, [{ role: 'viewer', team: null }])
  })

  test('a logout ends the session here and names the address at the issuer', async () => {
    const { browser } = await signIn('ann')
    const { csrf } = (await api(browser, '/session')).body
    const left = await api(browser, '/session/logout', { method: 'POST', headers: { 'x-headgate-csrf': csrf } })
    assert.equal(left.status, 200)
    const end = new URL(left.body.end_session)
    assert.equal(end.origin, corp.issuer)
    assert.equal(end.searchParams.get('post_logout_redirect_uri'), `${url}/dashboard/`)
    assert.match(end.searchParams.get('id_token_hint') ?? '', /^ey/)
    assert.equal((await api(browser, '/session')).status, 401)
  })

  test('an administrator ends the sessions of a person', async () => {
    const { browser } = await signIn('ann')
    const { actor } = (await api(browser, '/session')).body
    const ended = await admin(`/people/${actor.id}/sign-out`, { method: 'POST' })
    assert.ok(ended.ended >= 1)
    await eventually(async () => (await api(browser, '/session')).status === 401)
  })

  test('auth.admin works, its use is in the audit log, and local requests need credentials', async () => {
    assert.equal((await fetch(`${url}/admin/api/v1/system`)).status, 401)
    const { data } = await admin('/audit?action=breakglass.use')
    assert.equal(data.length, 1)
    assert.equal((await fetch(`${url}/v1/models`)).status, 401)
  })

  test('the pages and lists name the identity providers', async () => {
    const { data } = (await (await fetch(`${url}/admin/api/v1/sign-in`)).json()) as {
      data: { provider: string; url: string }[]
    }
    assert.deepEqual(
      data.map(({ provider }) => provider),
      ['corp', 'partners'],
    )
    assert.equal(data[0]?.url, login())
    const choice = await fetch(`${url}/admin/api/v1/login?return=/dashboard/keys`)
    assert.equal(choice.status, 200)
    assert.match(await choice.text(), /provider=partners&#38;return=%2Fdashboard%2Fkeys/)
    assert.equal((await fetch(login('none'))).status, 404)
    assert.equal((await fetch(login(), { method: 'POST' })).status, 405)
  })

  test('another name of the gateway leads to the public one first', async () => {
    const { port } = new URL(url)
    const response = await fetch(`http://localhost:${port}${BELOW}/admin/api/v1/login?provider=corp`, {
      redirect: 'manual',
    })
    assert.equal(response.status, 302)
    const location = response.headers.get('location') ?? ''
    assert.ok(location.startsWith(`${url}/admin/api/v1/login?provider=corp&at=`), location)
  })

  test('no token, code or secret is in the log, the database, the metrics or an answer', async () => {
    const { browser } = await signIn('ann')
    const answers = [await api(browser, '/session'), await api(browser, '/people'), await api(browser, '/config')]
    const metrics = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${ADMIN}` } })).text()
    const folder = join(gateway.folder, '.headgate')
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile())
      .map((one) => readFileSync(join(one.parentPath, one.name), 'latin1'))
    const everything = [gateway.output(), metrics, JSON.stringify(answers.map(({ body }) => body)), ...files].join('\n')
    for (const canary of ['canary', 'eyJhbGciOi', [...browser.cookies.values()].at(-1)?.value ?? 'none'])
      assert.ok(
        !everything.includes(canary),
        `found ${canary} in ${everything.slice(Math.max(0, everything.indexOf(canary) - 200), everything.indexOf(canary) + 50)}`,
      )
  })
})

describe('single sign-on with two gateways', { skip: skipPostgres, concurrency: false }, () => {
  test('a sign-in begins at one, ends at the other, and the session is valid at both', async () => {
    const [first = 0, second = 0, own = 0] = await freePorts(3)
    const url = `http://127.0.0.1:${first}${BELOW}`
    const other = `http://127.0.0.1:${second}${BELOW}`
    await using idp = await startIdentityProvider(url, own)
    const postgres = await startPostgres()
    const files = { 'headgate.yaml': fileFor(url, [idp, idp]) }
    const env = { AUTH_ADMIN: ADMIN, DATABASE_URL: postgres.url, AUTH_REQUIRED: 'true' }
    {
      await using one = await start({ env: { ...env, PORT: String(first) }, files })
      await using two = await start({ env: { ...env, PORT: String(second) }, files })
      assert.ok(one && two)
      idp.people.set('ann', { email: 'ann@corp.example', groups: ['ai-admins'] })
      idp.signedIn = 'ann'
      const browser = new TestBrowser()
      const page = await browser.open(`${url}/admin/api/v1/login?provider=corp`, { until: /\/oauth\/callback\?/ })
      const cookie = browser.header(`${url}/oauth/callback`)
      const finished = await navigate(page.url.replace(url, other), { ...NAVIGATION, cookie })
      assert.equal(finished.status, 302, finished.text)
      assert.equal(finished.headers.location, `${url}/dashboard/`)
      const value = /^headgate-\d+=([^;]+)/.exec(finished.headers['set-cookie']?.[0] ?? '')?.[1]
      for (const [address, port] of [
        [url, first],
        [other, second],
      ] as const) {
        const session = await fetch(`${address}/admin/api/v1/session`, {
          headers: { cookie: `headgate-${port}=${value}` },
        })
        assert.equal(session.status, 200, address)
      }
    }
    await postgres.remove()
  })
})

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const eventually = async (check: () => Promise<boolean>, limit = 30_000) => {
  for (const end = performance.now() + limit; performance.now() < end; await wait(50)) if (await check()) return
  assert.fail('it did not happen')
}
