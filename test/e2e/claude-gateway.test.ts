/** The gateway protocol of Claude Code, with a real identity provider and a real receiver of telemetry. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { beginDevice, signInProgram } from '../support/device-flow.ts'
import { type IdentityProviderFixture, startIdentityProvider } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { BELOW, post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'break-glass-token-of-the-operator'
const KEY = 'key-of-a-program-0123456789'

type Received = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: Buffer }

const startReceiver = async () => {
  const received: Received[] = []
  const state = { status: 200 }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      received.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(parts) })
      response.writeHead(state.status, { location: '/elsewhere' }).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  return { received, state, port: (server.address() as AddressInfo).port, close: () => server.close() }
}

const fileFor = (url: string, { issuer, clientSecret }: IdentityProviderFixture, receiver: number) => `
auth: { keys: [ ${KEY} ] }
sso:
  publicUrl: ${url}
  secret: sso-secret-canary-0123456789-0123456789
  providers:
    corp: { issuer: "${issuer}", clientId: headgate, clientSecret: "${clientSecret}", scopes: [ openid, profile, email, groups, offline_access ], parameters: { prompt: consent } }
  teams: [ { group: devs, team: search }, { team: default } ]
teams: { search: {} }
claude:
  enabled: true
  loginNotice: Call 4357 if the code differs.
  policies:
    - settings: { permissions: { deny: [ WebFetch ] } }
    - { match: { groups: [ leads ] }, settings: { model: opus, permissions: { deny: [ "Bash(rm:*)" ] } } }
    - { match: { teams: [ search ] }, settings: { model: sonnet } }
  telemetry:
    forward: [ { url: "http://127.0.0.1:${receiver}/otlp/", headers: { Authorization: Bearer receiver-canary }, logs: true } ]
`
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
const read = async (response: Response): Promise<any> => response.json()

const eventually = async (check: () => boolean | Promise<boolean>, limit = 30_000) => {
  for (const end = performance.now() + limit; performance.now() < end; ) {
    if (await check()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.fail('it did not happen')
}

describe('the gateway protocol of Claude Code', { concurrency: false }, () => {
  let gateway: Started
  let corp: IdentityProviderFixture
  let receiver: Awaited<ReturnType<typeof startReceiver>>
  let url = ''
  let token = ''
  before(async () => {
    const [port = 0, own = 0] = await freePorts(2)
    url = `http://127.0.0.1:${port}${BELOW}`
    receiver = await startReceiver()
    corp = await startIdentityProvider(url, own)
    gateway = await start({
      env: { PORT: String(port), AUTH_ADMIN: ADMIN },
      files: { 'headgate.yaml': fileFor(url, corp, receiver.port) },
    })
    corp.people.set('ann', { email: 'ann@corp.example', email_verified: true, name: 'Ann', groups: ['devs'] })
    corp.signedIn = 'ann'
    ;({ access_token: token } = await signInProgram(url))
  })
  after(async () => {
    await gateway?.stop()
    await corp?.stop()
    receiver?.close()
  })
  const get = (path: string, headers: Readonly<Record<string, string>> = {}, bearer = token) =>
    fetch(url + path, { headers: { ...(bearer !== '' && { authorization: `Bearer ${bearer}` }), ...headers } })
  const send = (
    path: string,
    body: Uint8Array | string,
    headers: Readonly<Record<string, string>> = {},
    bearer = token,
  ) => fetch(url + path, { method: 'POST', body, headers: { authorization: `Bearer ${bearer}`, ...headers } })

  test('a person receives the settings of the policies, with the checksum that clients compute', async () => {
    const answer = await get('/managed/settings')
    assert.equal(answer.status, 200)
    const { uuid, checksum, settings } = await read(answer)
    assert.deepEqual(settings, {
      env: {
        CLAUDE_CODE_ENABLE_TELEMETRY: '1',
        OTEL_METRICS_EXPORTER: 'otlp',
        OTEL_LOGS_EXPORTER: 'otlp',
        OTEL_TRACES_EXPORTER: 'none',
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      },
      permissions: { deny: ['WebFetch'] },
      model: 'sonnet',
    })
    const text = `{"env":{"CLAUDE_CODE_ENABLE_TELEMETRY":"1","OTEL_EXPORTER_OTLP_ENDPOINT":"${url}","OTEL_EXPORTER_OTLP_PROTOCOL":"http/protobuf","OTEL_LOGS_EXPORTER":"otlp","OTEL_METRICS_EXPORTER":"otlp","OTEL_TRACES_EXPORTER":"none"},"model":"sonnet","permissions":{"deny":["WebFetch"]}}`
    assert.equal(checksum, `sha256:${createHash('sha256').update(text).digest('hex')}`)
    assert.equal(uuid, checksum)
    assert.equal(answer.headers.get('etag'), `"${checksum}"`)
    assert.match(answer.headers.get('x-cc-gateway-version') ?? '', /^headgate-/)
    // Both together mean something else to Claude Desktop.
    assert.doesNotMatch(answer.headers.get('cache-control') ?? '', /no-store/)
    const same = await get('/managed/settings', { 'if-none-match': `"${checksum}"` })
    assert.deepEqual([same.status, await same.text()], [304, ''])
    assert.equal((await get('/managed/settings', { 'if-none-match': '*' })).status, 200)
    assert.equal((await get('/managed/settings', { 'if-none-match': '"sha256:0"' })).status, 200)
    assert.equal(
      (await fetch(`${url}/managed/settings`, { method: 'HEAD', headers: { authorization: `Bearer ${token}` } }))
        .status,
      200,
    )
  })

  test('a program that signs in receives the notice, and the version of the protocol', async () => {
    const begun = await beginDevice(url)
    assert.equal(begun.login_notice, 'Call 4357 if the code differs.')
    const metadata = await read(await get('/.well-known/oauth-authorization-server', {}, ''))
    assert.equal(metadata.gateway_protocol_version, 1)
  })

  test('safeguards that no target carries are refused by name, so that the client goes on without', async () => {
    const body = { model: 'demo/echo', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] }
    const safeguards = [{ type: 'dangerous_tool_use', classifier_context: {} }]
    const headers = { authorization: `Bearer ${token}` }
    const refused = await post(`${url}/v1/messages`, { ...body, safeguards }, headers)
    assert.equal(refused.status, 400, refused.text)
    assert.match(JSON.parse(refused.text).error.message, /safeguards/)
    assert.equal((await post(`${url}/v1/messages`, body, headers)).status, 200)
  })

  test('a person of another group receives other settings after the next sign-in', async () => {
    corp.people.set('ann', { email: 'ann@corp.example', email_verified: true, groups: ['devs', 'leads'] })
    const next = await signInProgram(url)
    const { settings } = await read(await get('/managed/settings', {}, next.access_token))
    assert.equal(settings.model, 'opus')
    assert.deepEqual(settings.permissions, { deny: ['WebFetch', 'Bash(rm:*)'] })
  })

  test('an administrator sees what a person receives, and by which policies', async () => {
    const admin = (path: string) => get(`/admin/api/v1${path}`, {}, ADMIN).then(read)
    const [{ id }] = (await admin('/people')).data
    const shown = await admin(`/claude/policies?as=${id}`)
    assert.equal(shown.settings.model, 'opus')
    assert.deepEqual(
      shown.rules.map(({ index }: { readonly index: number }) => index),
      [0, 1],
    )
    const next = await signInProgram(url)
    const { checksum } = await read(await get('/managed/settings', {}, next.access_token))
    assert.equal(shown.checksum, checksum)
    const printed = await verb(['claude', 'policy', id], { env: { HEADGATE_URL: url, HEADGATE_ADMIN_TOKEN: ADMIN } })
    assert.match(printed.stdout, /ann@corp\.example receives claude\.policies\[0\], claude\.policies\[1\]/)
    assert.equal((await get('/admin/api/v1/claude/policies?as=usr_aaaaaaaaaaaa', {}, ADMIN)).status, 404)
    assert.equal((await get(`/admin/api/v1/claude/policies?as=${id}`, {}, token)).status, 403)
  })

  test('connect prints the managed settings, and writes a sign-in without its token', async () => {
    const printed = await verb(['connect', 'claude', '--gateway', '--json'], { env: { HEADGATE_URL: url } })
    assert.deepEqual(printed.json().content, { forceLoginMethod: 'gateway', forceLoginGatewayUrl: url })
    const home = mkdtempSync(join(tmpdir(), 'headgate-connect-'))
    const env = { HEADGATE_URL: url, CLAUDE_CONFIG_DIR: home, HEADGATE_API_KEY: token }
    const connected = await verb(['connect', 'claude', '--sso', '--model', 'demo/echo'], { env })
    assert.equal(connected.code, 0, connected.stderr)
    const written = readFileSync(join(home, 'settings.json'), 'utf8')
    assert.deepEqual(JSON.parse(written), {
      env: { ANTHROPIC_BASE_URL: url },
      apiKeyHelper: `headgate token --url ${url}`,
    })
    const keyed = await verb(['connect', 'claude', '--sso', '--dry-run'], { env: { ...env, HEADGATE_API_KEY: KEY } })
    assert.match(keyed.stderr, /headgate login --url/)
    assert.equal((await verb(['connect', 'codex', '--sso'], { env })).code, 2)
    rmSync(home, { recursive: true })
  })

  test('a key has no settings, and no credentials or wrong ones are 401 which is not retried', async () => {
    const keyed = await get('/managed/settings', {}, KEY)
    assert.deepEqual([keyed.status, (await read(keyed)).error.type], [404, 'not_found_error'])
    const forged = `${token.slice(0, -4)}AAAA`
    for (const bearer of ['', 'wrong', forged])
      for (const path of ['/managed/settings', '/api/oauth/usage']) {
        const refused = await get(path, {}, bearer)
        assert.equal(refused.status, 401, `${path} ${bearer.slice(0, 5)}`)
        assert.equal(refused.headers.get('x-should-retry'), 'false')
        const { type, error } = await read(refused)
        assert.deepEqual([type, error.type], ['error', 'authentication_error'])
      }
    assert.equal((await send('/v1/metrics', 'x', {}, forged)).status, 401)
  })

  test('telemetry reaches the receiver as it was sent, with the headers of the operator alone', async () => {
    const body = gzipSync(Buffer.from([10, 0, 255, 1]))
    const sent = await send('/v1/metrics', body, {
      'content-type': 'application/x-protobuf',
      'content-encoding': 'gzip',
      cookie: 'client-canary',
      'x-other': 'client-canary',
    })
    assert.deepEqual([sent.status, await sent.text()], [200, ''])
    const json = await send('/v1/logs', '{"resourceLogs":[]}', { 'content-type': 'application/json' }, KEY)
    assert.deepEqual([json.status, await json.text()], [200, '{}'])
    assert.equal((await send('/v1/traces', 'nothing takes traces')).status, 200)
    await eventually(() => receiver.received.length === 2)
    const metrics = receiver.received.find(({ path }) => path === '/otlp/v1/metrics')
    assert.deepEqual(metrics?.body, body)
    assert.equal(metrics?.headers['content-encoding'], 'gzip')
    assert.equal(metrics?.headers['content-type'], 'application/x-protobuf')
    assert.equal(metrics?.headers.authorization, 'Bearer receiver-canary')
    const logs = receiver.received.find(({ path }) => path === '/otlp/v1/logs')
    assert.equal(logs?.body.toString(), '{"resourceLogs":[]}')
    assert.equal(logs?.headers['content-type'], 'application/json')
    assert.doesNotMatch(JSON.stringify(receiver.received.map(({ headers }) => headers)), /client-canary|eyJ/)
  })

  test('too much telemetry is 413, and a receiver that fails or redirects never reaches the client', async () => {
    const large = await send('/v1/logs', Buffer.alloc(4_194_305))
    assert.equal(large.status, 413)
    const before = receiver.received.length
    receiver.state.status = 302
    for (let n = 0; n < 5; n++) {
      assert.equal((await send('/v1/metrics', `part ${n}`)).status, 200)
      await eventually(() => receiver.received.length === before + n + 1)
    }
    await gateway.line(
      ({ event, message }) => event === 'claude' && /does not take telemetry \(status 302\)/.test(String(message)),
    )
    assert.equal((await send('/v1/metrics', 'dropped')).status, 200)
    assert.equal(
      receiver.received.length,
      before + 5,
      'a paused receiver is not called, nor the address of the redirect',
    )
    const metrics = await (await get('/metrics', {}, ADMIN)).text()
    assert.match(metrics, /headgate_claude_telemetry_total\{signal="metrics",result="sent"\} 1\n/)
    assert.match(metrics, /headgate_claude_telemetry_total\{signal="metrics",result="failed"\} 5\n/)
    assert.match(metrics, /headgate_claude_telemetry_total\{signal="metrics",result="dropped"\} 1\n/)
    assert.match(metrics, /headgate_claude_telemetry_total\{signal="traces",result="discarded"\} 1\n/)
    assert.doesNotMatch(gateway.output(), /receiver-canary/)
  })

  test('the page about the protocol is served, and other methods are 405', async () => {
    const page = await get('/protocol', {}, '')
    assert.equal(page.headers.get('content-type'), 'text/markdown; charset=utf-8')
    assert.match(await page.text(), /forceLoginGatewayUrl/)
    assert.equal((await send('/managed/settings', '{}')).status, 405)
    assert.equal((await get('/v1/metrics')).status, 405)
    assert.equal((await send('/metrics', 'x')).status, 405, 'only below /v1')
  })

  test('a person without a budget sees what was spent', async () => {
    const answer = await get('/api/oauth/usage')
    assert.equal(answer.status, 200)
    assert.match(answer.headers.get('cache-control') ?? '', /no-store/)
    const none = { limit: null, used_credits: 0, utilization: null }
    assert.deepEqual(await read(answer), {
      extra_usage: {
        is_enabled: true,
        monthly_limit: null,
        used_credits: 0,
        utilization: null,
        currency: 'USD',
        daily: none,
        weekly: none,
      },
      limits: [],
    })
  })
})

test('without `claude` its paths do not exist', async () => {
  await using gateway = await start({ env: { AUTH_KEYS: KEY } })
  const headers = { authorization: `Bearer ${KEY}` }
  for (const path of ['/managed/settings', '/protocol', '/api/oauth/usage'])
    assert.equal((await fetch(gateway.url + path, { headers })).status, 404, path)
  for (const path of ['/v1/metrics', '/v1/logs', '/v1/traces'])
    assert.equal((await fetch(gateway.url + path, { method: 'POST', body: 'x', headers })).status, 404, path)
})
