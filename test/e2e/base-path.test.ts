/** `basePath`: everything is below it, directly and behind proxies that keep the path or remove a part of it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { NAVIGATION, navigate, startIdentityProvider, TestBrowser } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { haproxyConf, nginxConf, skipFront, startFront } from './support/front.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
const json = async (response: Promise<Response>): Promise<any> => (await response).json()
const ADMIN = 'admin-token-0123456789abcdef'
const CALL = { model: 'demo/echo', messages: [{ role: 'user', content: 'hello' }] }

const nginx = (location: string, target: string) => (port: number) =>
  nginxConf(
    port,
    `location ${location} {\n proxy_pass ${target};\n proxy_http_version 1.1;\n proxy_buffering off;\n proxy_set_header Host $http_host;\n proxy_set_header Upgrade $http_upgrade;\n proxy_set_header Connection upgrade;\n proxy_set_header X-Forwarded-Prefix /evil;\n}`,
  )

describe('base path', { concurrency: false }, () => {
  let gateway: Started
  let origin = ''
  before(async () => {
    gateway = await start({ env: { BASE_PATH: '/gateway', AUTH_ADMIN: ADMIN } })
    origin = new URL(gateway.url).origin
  })
  after(() => gateway?.stop())

  /** The same checks at each address of the gateway: `url` is the root as a client sees it. */
  const check = async (url: string) => {
    const whole = await post(`${url}/v1/chat/completions`, CALL)
    assert.equal(whole.status, 200, whole.text)
    const streamed = await post(`${url}/v1/messages`, { ...CALL, max_tokens: 10, stream: true })
    assert.match(streamed.text, /message_stop/)
    const { messages } = CALL
    assert.equal(
      (await post(`${url}/openai/deployments/auto/chat/completions?api-version=1`, { messages })).status,
      200,
    )
    const models = await fetch(`${url}/v1/models`)
    assert.equal(models.status, 200)
    const headers = { authorization: `Bearer ${ADMIN}` }
    assert.equal((await fetch(`${url}/admin/api/v1/providers`, { headers })).status, 200)
    const described = await json(fetch(`${url}/openapi.json`))
    assert.deepEqual(described.servers, [{ url: '/gateway' }])
    const admin = await json(fetch(`${url}/admin/api/v1/openapi.json`, { headers }))
    assert.deepEqual(admin.servers, [{ url: '/gateway' }])
    for (const from of [url, `${url}/`]) {
      const page = await navigate(from, NAVIGATION)
      assert.equal(new URL(page.headers.location ?? '', from).href, `${url}/dashboard/`, from)
    }
    const clients = await json(fetch(`${url}/admin/api/v1/clients`, { headers }))
    assert.equal(new URL(clients.base_url).pathname, '/gateway')
    const page = await (await fetch(`${url}/dashboard/`)).text()
    assert.doesNotMatch(page, /(?:src|href)="\//)
    for (const [, file = ''] of page.matchAll(/(?:src|href)="([^"#]+)"/g))
      assert.equal((await fetch(new URL(file, `${url}/dashboard/`))).status, 200, file)
    const status = await verb(['status', '--json'], { env: { HEADGATE_URL: url, HEADGATE_ADMIN_TOKEN: ADMIN } })
    assert.equal(status.code, 0, status.stderr)
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`)
    await once(socket, 'open')
    socket.close()
  }

  test('serves everything below the path', () => check(`${origin}/gateway`))

  test('serves nothing else, except the probes', async () => {
    for (const path of ['/health', '/health/live', '/health/ready']) {
      assert.equal((await fetch(origin + path)).status, 200, path)
      assert.equal((await fetch(`${origin}/gateway${path}`)).status, 200, path)
    }
    const headers = { 'x-forwarded-prefix': '/gateway', authorization: `Bearer ${ADMIN}` }
    for (const path of [
      '/',
      '/v1/models',
      '/gateways/v1/models',
      '/admin/api/v1/providers',
      '/dashboard/',
      '/metrics',
    ]) {
      const answer = await fetch(origin + path, { headers, redirect: 'manual' })
      assert.equal(answer.status, 404, path)
      assert.match(await answer.text(), /serves the paths below \/gateway \(basePath\)/)
    }
    const socket = new WebSocket(`${origin.replace('http', 'ws')}/v1/responses`)
    await once(socket, 'error')
  })

  test('is in the address that the command line and the log state', async () => {
    const status = await verb(['status', '--json'], { cwd: gateway.folder, env: { AUTH_ADMIN: ADMIN } })
    assert.equal(status.code, 0, status.stderr)
    assert.equal(gateway.url, `${origin}/gateway`)
    const health = await verb(['health', '--json'], { cwd: gateway.folder })
    assert.deepEqual([health.code, health.json().url], [0, gateway.url])
    const tried = await verb(['try', 'hello'], { env: { HEADGATE_URL: `${gateway.url}/v1/` } })
    assert.equal(tried.code, 0, tried.stderr)
  })

  test('nginx keeps the path', { skip: skipFront('nginx') }, async () => {
    const front = await startFront('nginx', nginx('/gateway', origin))
    await check(`${front.url}/gateway`).finally(front.stop)
  })

  test('nginx removes a part of it', { skip: skipFront('nginx') }, async () => {
    const front = await startFront('nginx', nginx('/team/', `${origin}/`))
    await check(`${front.url}/team/gateway`).finally(front.stop)
  })

  test('haproxy keeps the path', { skip: skipFront('haproxy') }, async () => {
    const server = `server one ${new URL(origin).host}`
    const front = await startFront('haproxy', (port) => haproxyConf(port, '', server))
    await check(`${front.url}/gateway`).finally(front.stop)
  })

  test('haproxy removes a part of it', { skip: skipFront('haproxy') }, async () => {
    const server = `http-request replace-path ^/team(/.*) \\1\n  server one ${new URL(origin).host}`
    const front = await startFront('haproxy', (port) => haproxyConf(port, '', server))
    await check(`${front.url}/team/gateway`).finally(front.stop)
  })
})

describe('base path: signing in', { concurrency: false }, () => {
  test('returns below the path, with a cookie that the admin API receives', async () => {
    const [port = 0, issuer = 0] = await freePorts(2)
    const url = `http://127.0.0.1:${port}/gateway`
    const corp = await startIdentityProvider(url, issuer)
    corp.people.set('ann', { email: 'ann@corp.example', email_verified: true, groups: ['admins'] })
    corp.signedIn = 'ann'
    const file = `basePath: /gateway
sso:
  publicUrl: ${url}
  secret: sso-secret-0123456789-0123456789-0123
  providers: { corp: { issuer: "${corp.issuer}", clientId: headgate, clientSecret: "${corp.clientSecret}", scopes: [openid, email, groups] } }
  roles: [{ group: admins, role: admin }]
`
    const gateway = await start({
      env: { PORT: String(port), AUTH_ADMIN: ADMIN },
      files: { 'headgate.yaml': file },
    })
    try {
      const browser = new TestBrowser()
      const page = await browser.open(`${url}/admin/api/v1/login?provider=corp`)
      assert.equal(page.url, `${url}/dashboard/`)
      const session = `${url}/admin/api/v1/session`
      const answer = await fetch(session, { headers: { cookie: browser.header(session) } })
      assert.equal(answer.status, 200)
      const metadata = '/.well-known/oauth-authorization-server'
      for (const address of [url + metadata, `http://127.0.0.1:${port}${metadata}/gateway`]) {
        const body = await json(fetch(address))
        assert.deepEqual([body.issuer, body.token_endpoint], [url, `${url}/oauth/token`], address)
      }
      assert.doesNotMatch(gateway.output(), /publicUrl/)
    } finally {
      await gateway.stop()
      await corp.stop()
    }
  })
})
