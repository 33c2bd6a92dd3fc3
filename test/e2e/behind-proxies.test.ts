/**
 * Everything that connects to another machine, behind proxies that are the only way there: the host's name is known to them alone.
 * squid, tinyproxy, and a proxy that inspects TLS with a certificate of its own.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { type Certificate, selfSigned } from '../support/certificate.ts'
import { NAVIGATION, navigate } from '../support/identity-provider.ts'
import { issuerKey, jwkOf, signToken } from '../support/issuer.ts'
import { accepts, freePorts } from '../support/ports.ts'
import { startProxy } from '../support/proxy.ts'
import { S3_KEYS } from '../support/s3.ts'
import { type Act, type Script, startUpstream, until } from '../support/upstream.ts'
import { post, start } from './support/process.ts'

const HOST = 'somewhere.else.test'
const ADMIN = 'admin-0123456789abcdef-0123456789'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const folderOf = async (): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-behind-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  // squid and tinyproxy give up root.
  await chmod(folder, 0o777)
  return folder
}

const running = async (program: string, args: readonly string[], port: number) => {
  const child = spawn(program, args, { stdio: 'ignore' })
  closers.push(() => child.kill('SIGKILL'))
  for (const end = performance.now() + 60_000; !(await accepts(port)); ) {
    assert.ok(child.exitCode === null && performance.now() < end, `${program} does not listen`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

// ── The other machine ──────────────────────────────────────────────────────────────────────────────────────────────

const key = issuerKey()
const token = (value: string): Act => ({
  do: 'answer',
  body: { access_token: value, token_type: 'Bearer', expires_in: 3_600, issued_token_type: 'urn:x' },
})

/** By the begin of the path. */
const SERVICES: { readonly [path: string]: Script } = {
  '/v1/': (call) => answerWith(call, { text: 'far' }),
  '/openai/': (call) => answerWith(call, { text: 'far' }),
  '/v1/projects/': (call) => answerWith(call, { text: 'far' }),
  '/otlp/v1/traces': () => ({ do: 'answer', body: {} }),
  '/otlp/v1/metrics': () => ({ do: 'answer', body: {} }),
  '/keys': () => ({ do: 'answer', body: { keys: [jwkOf(key)] } }),
  '/tenant-1/oauth2/v2.0/token': () => token('entra'),
  '/google/token': () => token('google'),
  '/check': () => ({ do: 'answer', body: { action: 'allow' } }),
  '/bucket/': ({ method }) => ({ do: 'answer', status: method === 'PUT' ? 200 : 404 }),
  '/hooks': () => ({ do: 'answer', status: 200 }),
  '/oidc/.well-known/openid-configuration': () => ({ do: 'answer', status: 404 }),
}

const script: Script = (call) => {
  const [found] = Object.keys(SERVICES)
    .filter((path) => call.path.startsWith(path))
    .sort((one, other) => other.length - one.length)
  return SERVICES[found ?? '']?.(call) ?? { do: 'answer', status: 404 }
}

/** Uses each service once, and returns what the other machine has received. `proxy`: its address. */
const useAll = async (proxy: string, { far, ca }: { readonly far: Far; readonly ca: string }): Promise<void> => {
  const url = `https://${HOST}:${far.port}`
  const folder = await folderOf()
  await writeFile(join(folder, 'subject'), 'subject')
  const google = {
    type: 'external_account',
    audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/own',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: `${url}/google/token`,
    credential_source: { file: join(folder, 'subject') },
  }
  await writeFile(join(folder, 'google.json'), JSON.stringify(google))
  const [port = 0] = await freePorts(1)
  await using gateway = await start({
    env: {
      PORT: String(port),
      HTTPS_PROXY: proxy,
      AUTH_ADMIN: ADMIN,
      AUTH_REQUIRED: 'false',
      HOME: '/nonexistent',
      ...S3_KEYS,
      AZURE_OPENAI_ENDPOINT: url,
      AZURE_TENANT_ID: 'tenant-1',
      AZURE_CLIENT_ID: 'client-1',
      AZURE_CLIENT_SECRET: 'secret',
      AZURE_AUTHORITY_HOST: url,
      VERTEX_PROJECT: 'p',
      VERTEX_BASE_URL: `${url}/v1/projects/p/locations/global`,
      GOOGLE_APPLICATION_CREDENTIALS: join(folder, 'google.json'),
      OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/otlp`,
      OTEL_METRIC_EXPORT_INTERVAL: '1000',
      EXPORT_S3_BUCKET: 'bucket',
      EXPORT_S3_ENDPOINT: url,
    },
    files: {
      'ca.pem': ca,
      'headgate.yaml': JSON.stringify({
        network: { ca: ['ca.pem'] },
        providers: { far: { kind: 'openai-compatible', baseUrl: `${url}/v1`, keys: ['k'], models: ['m'] } },
        alerts: { url: `${url}/hooks` },
        guards: { outside: { action: 'block', service: { kind: 'headgate', url: `${url}/check` } } },
        auth: { jwt: [{ name: 'far', issuer: 'https://issuer.test', audience: ['headgate'], jwks: `${url}/keys` }] },
        sso: {
          publicUrl: `http://127.0.0.1:${port}`,
          secret: 'a-secret-of-thirty-two-characters-or-more',
          providers: { corp: { issuer: `${url}/oidc`, clientId: 'c', clientSecret: 's' } },
        },
      }),
    },
  })
  const exp = Math.floor(Date.now() / 1000) + 600
  const bearer = signToken(key, { iss: 'https://issuer.test', aud: 'headgate', sub: 'ann', exp })
  for (const model of ['far/m', 'azure-openai/m', 'vertex/gemini-2.5-flash']) {
    const body = { model, messages: [{ role: 'user', content: 'hello' }] }
    const answer = await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${bearer}` })
    assert.equal(answer.status, 200, `${model}: ${answer.text}; ${gateway.output()}`)
    assert.match(answer.text, /far/)
  }
  const tested = await post(`${gateway.url}/admin/api/v1/alerts/test`, {}, { authorization: `Bearer ${ADMIN}` })
  assert.match(tested.text, /"delivered":true/)
  await navigate(`${gateway.url}/admin/api/v1/login?provider=corp`, NAVIGATION)
  const missing = () =>
    Object.keys(SERVICES).filter((path) => !far.requests.some((received) => received.path.startsWith(path)))
  await until('each service was used', () => missing().length === 0).catch((error) => {
    throw new Error(`not used: ${missing().join(', ')}; ${gateway.output()}`, { cause: error })
  })
  assert.equal(far.requests.find(({ path }) => path.startsWith('/openai/'))?.headers.authorization, 'Bearer entra')
  assert.equal(far.requests.find(({ path }) => path.includes('gemini'))?.headers.authorization, 'Bearer google')
}

type Far = Awaited<ReturnType<typeof startUpstream>>

const startFar = async (tls: Certificate): Promise<Far> => {
  const far = await startUpstream(script, { tls })
  closers.push(far.close)
  return far
}

// ── The proxies ────────────────────────────────────────────────────────────────────────────────────────────────────

const installed = (program: string) => ({ skip: !existsSync(program) && `${program} is not installed` })

const SQUID = '/usr/sbin/squid'
const squidConfig = (folder: string, port: number) => `
http_port 127.0.0.1:${port}
hosts_file ${folder}/hosts
pid_filename none
cache_log ${folder}/cache.log
access_log stdio:${folder}/access.log
coredump_dir ${folder}
cache deny all
http_access allow all
shutdown_lifetime 0 seconds
pinger_enable off
`

test('behind proxies: squid is the only way', installed(SQUID), async () => {
  const target = selfSigned('another host')
  const far = await startFar(target)
  const [port = 0] = await freePorts(1)
  const folder = await folderOf()
  await writeFile(join(folder, 'hosts'), `127.0.0.1 ${HOST}\n`)
  await writeFile(join(folder, 'squid.conf'), squidConfig(folder, port))
  await running(SQUID, ['-N', '-f', join(folder, 'squid.conf')], port)
  await useAll(`http://127.0.0.1:${port}`, { far, ca: target.cert })
  // It writes a line when a tunnel ends.
  await until('squid has opened each connection', () => {
    const log = readFileSync(join(folder, 'access.log'), 'utf8')
    return log.split('\n').filter((line) => line.includes(`CONNECT ${HOST}:${far.port}`)).length >= far.connections()
  })
})

const TINYPROXY = '/usr/bin/tinyproxy'
const tinyproxyConfig = (folder: string, port: number, next: number) => `
Port ${port}
Listen 127.0.0.1
Timeout 600
LogFile "${folder}/tinyproxy.log"
LogLevel Connect
MaxClients 100
Upstream http 127.0.0.1:${next}
`

test('behind proxies: tinyproxy, before another proxy', installed(TINYPROXY), async () => {
  const target = selfSigned('another host')
  const far = await startFar(target)
  const next = await startProxy({ ports: { [HOST]: far.port } })
  closers.push(next.close)
  const [port = 0] = await freePorts(1)
  const folder = await folderOf()
  await writeFile(join(folder, 'tinyproxy.conf'), tinyproxyConfig(folder, port, next.port))
  await running(TINYPROXY, ['-d', '-c', join(folder, 'tinyproxy.conf')], port)
  await useAll(`http://127.0.0.1:${port}`, { far, ca: target.cert })
  assert.ok(next.seen.length >= far.connections())
  assert.ok(next.seen.every((line) => line.startsWith(`CONNECT ${HOST}:${far.port} `)))
  assert.match(readFileSync(join(folder, 'tinyproxy.log'), 'utf8'), new RegExp(`CONNECT ${HOST}:${far.port}`))
})

/** Ends TLS with a certificate of its own, and sends each request on in a connection that it opens. */
const startInspecting = async (own: Certificate, far: Far): Promise<number> => {
  const inner = createHttpsServer(own, (received, response) => {
    const { method, url: path, headers } = received
    const sent = request(
      { host: '127.0.0.1', port: far.port, method, path, headers, rejectUnauthorized: false },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      },
    )
    sent.on('error', () => response.destroy())
    received.pipe(sent)
  })
  const proxy = createHttpServer().on('connect', (_, socket) => {
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
    inner.emit('connection', socket)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    proxy.closeAllConnections()
    inner.closeAllConnections()
    proxy.close()
  })
  // A server that listens on a port has this address.
  return (proxy.address() as AddressInfo).port
}

test('behind proxies: one that inspects TLS, whose authority alone is trusted', async () => {
  const [target, inspecting] = [selfSigned('another host'), selfSigned('another host')]
  const far = await startFar(target)
  const port = await startInspecting(inspecting, far)
  await useAll(`http://127.0.0.1:${port}`, { far, ca: inspecting.cert })
})
