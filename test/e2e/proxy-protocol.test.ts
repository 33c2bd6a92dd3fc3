/** The PROXY protocol: haproxy in front of a gateway, and connections that a test writes byte by byte. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request as httpsRequest } from 'node:https'
import { connect } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { selfSigned } from '../support/certificate.ts'
import { accepts, freePorts } from '../support/ports.ts'
import { BELOW, run, type StartOptions, start } from './support/process.ts'

const KEY = 'key-0123456789abcdef0123456789abcdef'
const certificate = selfSigned()

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

/** An address of this machine that is not a loopback one. */
const OWN = Object.values(networkInterfaces())
  .flatMap((found) => found ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address

/** A gateway whose only key works from one network. */
const gatewayFor = (ips: string, more: Readonly<Record<string, string>> = {}): StartOptions => ({
  env: { PROXY_PROTOCOL: 'required', TRUSTED_PROXIES: '127.0.0.0/8', HOSTS: OWN ?? 'x.test', ...more },
  files: {
    'cert.pem': certificate.cert,
    'key.pem': certificate.key,
    'headgate.yaml': JSON.stringify({ keys: { one: { secret: KEY, access: { ips: [ips] } } } }),
  },
})

const BODY = JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'hello' }] })
const REQUEST = `POST ${BELOW}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\nconnection: close\r\n\r\n${BODY}`

type Sent = { readonly text: string; readonly ms: number }

/** Sends bytes in pieces, and returns all that comes back until the connection ends. */
const send = (port: number, pieces: readonly (string | Buffer)[]) =>
  new Promise<Sent>((resolve) => {
    const since = performance.now()
    let text = ''
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, async () => {
      for (const piece of pieces) {
        socket.write(piece)
        await new Promise((next) => setTimeout(next, 2))
      }
    })
    socket.on('data', (part) => {
      text += part.toString('latin1')
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve({ text, ms: performance.now() - since }))
  })

const statusOf = ({ text }: Sent): number => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0)

const V1 = 'PROXY TCP4 203.0.113.7 10.0.0.1 56324 443\r\n'
const V2_START = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const V2 = Buffer.concat([
  V2_START,
  Buffer.from([0x21, 0x11, 0, 18, 203, 0, 113, 7, 10, 0, 0, 1, 0x12, 0x34, 0x01, 0xbb, 0x04, 0, 3, 1, 2, 3]),
])
const LOCAL = Buffer.concat([V2_START, Buffer.from([0x20, 0, 0, 0])])

test('PROXY protocol: the stated address is that of the client', async () => {
  await using gateway = await start(gatewayFor('203.0.113.0/24'))
  const { port } = new URL(gateway.url)
  const to = (...pieces: (string | Buffer)[]) => send(Number(port), pieces)
  assert.equal(statusOf(await to(V1 + REQUEST)), 200)
  assert.equal(statusOf(await to(Buffer.concat([V2, Buffer.from(REQUEST)]))), 200)
  assert.equal(statusOf(await to(...V1, REQUEST)), 200, 'byte by byte')
  assert.equal(statusOf(await to(...Array.from(V2, (byte) => Buffer.from([byte])), REQUEST)), 200)
  // Another client, and a proxy that speaks for itself.
  assert.match((await to(V1.replace('203.0.113.7', '198.51.100.1') + REQUEST)).text, /address_not_allowed/)
  assert.match((await to(LOCAL, REQUEST)).text, /address_not_allowed/)
  assert.match((await to('PROXY UNKNOWN\r\n', REQUEST)).text, /address_not_allowed/)
  // Its header of HTTP does not count: the client is no trusted proxy.
  const forged = REQUEST.replace('host:', 'x-forwarded-for: 203.0.113.9\r\nhost:')
  assert.match((await to(V1.replace('203.0.113.7', '198.51.100.1') + forged)).text, /address_not_allowed/)
  // No head, half of one, and none in time: closed without a byte.
  assert.equal((await to(REQUEST)).text, '')
  assert.equal((await to(`${V1.slice(0, 20)}\r\n${REQUEST}`)).text, '')
  const late = await to(V1.slice(0, 20))
  assert.ok(late.text === '' && late.ms > 1_500 && late.ms < 20_000, `${late.ms}`)
  const logged = await gateway.line(({ event }) => event === 'proxy_protocol')
  assert.match(String(logged.message), /sent no valid PROXY header/)
})

test('PROXY protocol: no client and no proxy of this machine is a local operator', async () => {
  await using gateway = await start({ env: { PROXY_PROTOCOL: 'required', TRUSTED_PROXIES: '127.0.0.1' } })
  const { port } = new URL(gateway.url)
  const admin = `GET ${BELOW}/admin/api/v1/keys HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`
  for (const head of [
    LOCAL,
    'PROXY UNKNOWN\r\n',
    'PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n',
    'PROXY TCP6 ::1 ::1 1 2\r\n',
  ])
    assert.match((await send(Number(port), [head, admin])).text, /^HTTP\/1\.1 40[13]/)
})

test('PROXY protocol: a peer that is not trusted is closed, whatever it sends', async () => {
  await using gateway = await start(gatewayFor('203.0.113.0/24', { TRUSTED_PROXIES: '10.0.0.0/8' }))
  const { port } = new URL(gateway.url)
  for (const head of [V1, V2, '']) assert.equal((await send(Number(port), [head, REQUEST])).text, '')
  const logged = await gateway.line(({ event }) => event === 'proxy_protocol')
  assert.match(String(logged.message), /not one of trustedProxies/)
})

test('PROXY protocol: without trustedProxies the start is refused', async () => {
  const { exited, output } = await run({ env: { PROXY_PROTOCOL: 'required' } })
  assert.notEqual(await exited, 0)
  assert.match(output(), /is required without trustedProxies: no connection would be accepted/)
})

const HAPROXY = ['/usr/sbin/haproxy', '/usr/local/sbin/haproxy', '/usr/bin/haproxy'].find((path) => existsSync(path))
const startHaproxy = async (servers: readonly { readonly port: number; readonly options: string }[]) => {
  const ports = await freePorts(servers.length)
  const folder = await mkdtemp(join(tmpdir(), 'headgate-haproxy-'))
  const parts = servers.map(
    ({ port, options }, at) => `listen l${at}\n  bind ${OWN}:${ports[at]}\n  server s 127.0.0.1:${port} ${options}\n`,
  )
  const times = 'defaults\n  mode tcp\n  timeout connect 2s\n  timeout client 30s\n  timeout server 30s\n'
  await writeFile(join(folder, 'haproxy.cfg'), times + parts.join(''))
  const child = spawn(HAPROXY ?? '', ['-f', join(folder, 'haproxy.cfg')], { stdio: 'ignore' })
  closers.push(
    () => child.kill('SIGKILL'),
    () => rm(folder, { recursive: true, force: true }),
  )
  const end = performance.now() + 30_000
  for (const port of ports)
    while (!(await accepts(port, OWN)))
      assert.ok(child.exitCode === null && performance.now() < end, 'haproxy does not listen')
  return ports
}

/** The status of a request over TLS. */
const overTls = (port: number | undefined) =>
  new Promise<number>((resolve, reject) => {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
    const sent = httpsRequest(
      {
        ...{ host: OWN, port, path: `${BELOW}/v1/chat/completions`, method: 'POST', headers, agent: false },
        ...{ ca: certificate.cert, servername: 'localhost' },
      },
      (response) => {
        response.resume()
        resolve(response.statusCode ?? 0)
      },
    )
    sent.on('error', reject)
    sent.end(BODY)
  })

const skip = !HAPROXY ? 'haproxy is not installed' : OWN === undefined && 'this machine has a loopback address only'

test('PROXY protocol: haproxy with send-proxy and send-proxy-v2, plain and before TLS, 1 and 2 workers', {
  skip,
}, async () => {
  await using plain = await start(gatewayFor(`${OWN}/32`))
  const tls = { TLS_CERT: 'cert.pem', TLS_KEY: 'key.pem' }
  await using secure = await start(gatewayFor(`${OWN}/32`, { ...tls, WORKERS: '2' }))
  const [one, two] = [plain, secure].map(({ url }) => Number(new URL(url).port))
  const [v1, v2, none, tls1, tls2, tlvs] = await startHaproxy([
    { port: Number(one), options: 'send-proxy' },
    { port: Number(one), options: 'send-proxy-v2' },
    { port: Number(one), options: '' },
    { port: Number(two), options: 'send-proxy' },
    { port: Number(two), options: 'send-proxy-v2' },
    { port: Number(one), options: 'send-proxy-v2 proxy-v2-options unique-id,crc32c' },
  ])
  const ask = async (port: number | undefined) => {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', connection: 'close' }
    const response = await fetch(`http://${OWN}:${port}${BELOW}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: BODY,
    })
    await response.arrayBuffer()
    return response.status
  }
  for (const port of [v1, v2, tlvs]) for (let left = 3; left > 0; left--) assert.equal(await ask(port), 200)
  await assert.rejects(ask(none))
  for (const port of [tls1, tls2]) for (let left = 3; left > 0; left--) assert.equal(await overTls(port), 200)
})
