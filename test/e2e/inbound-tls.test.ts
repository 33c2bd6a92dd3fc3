/** TLS on the port: versions, server names, client certificates, replaced files, the port of the probes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import OpenAI from 'openai'
import { Agent as Dispatcher, fetch as undiciFetch } from 'undici'
import { freePorts } from '../support/ports.ts'
import { BELOW, MAIN, run, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'))
const at = (name: string) => join(folder, name)
const text = (name: string) => readFileSync(at(name), 'utf8')

const openssl = (...words: string[]) => {
  const done = spawnSync('openssl', words, { cwd: folder, encoding: 'utf8', input: '', timeout: 30_000 })
  return `${done.stdout}${done.stderr}`
}

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
const makeCa = (name: string) =>
  openssl('req', '-x509', ...EC, '-keyout', `${name}.key`, '-out', `${name}.crt`, '-days', '90', '-subj', `/CN=${name}`)
/** A certificate for these names, signed by a CA. */
const issue = (name: string, ca: string, names: string, days = '60') => {
  openssl('req', ...EC, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`)
  writeFileSync(at('ext'), `subjectAltName=${names}`)
  const signing = ['-CA', `${ca}.crt`, '-CAkey', `${ca}.key`, '-CAcreateserial', '-extfile', 'ext', '-days', days]
  openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.crt`, ...signing)
}

type Answer = {
  readonly status: number
  readonly body: string
  readonly name: string
  readonly setCookie: readonly string[]
}

type Ask = {
  readonly servername?: string
  readonly path?: string
  readonly cert?: string
  readonly agent?: Agent
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request with a certificate check against `ca.crt`. `name`: the common name of the server's certificate. */
const ask = (
  url: string,
  { servername = 'localhost', path = `${BELOW}/v1/models`, cert, agent, body, headers = {} }: Ask = {},
) =>
  new Promise<Answer>((resolve, reject) => {
    const { port } = new URL(url)
    const call = request({
      host: '127.0.0.1',
      port,
      path,
      servername,
      ca: text('ca.crt'),
      agent: agent ?? false,
      timeout: 20_000,
      method: body === undefined ? 'GET' : 'POST',
      headers: { host: 'localhost', ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(cert !== undefined && { cert: text(`${cert}.crt`), key: text(`${cert}.key`) }),
    })
    call.on('response', async (response) => {
      // An https response has such a socket.
      const socket = response.socket as TLSSocket
      const name = String(socket.getPeerCertificate().subject?.CN)
      let whole = ''
      for await (const piece of response.setEncoding('utf8')) whole += piece
      resolve({ status: response.statusCode ?? 0, body: whole, name, setCookie: response.headers['set-cookie'] ?? [] })
    })
    call.on('error', reject)
    call.end(body)
  })

before(() => {
  makeCa('ca')
  makeCa('other')
  issue('one', 'ca', 'DNS:localhost,IP:127.0.0.1')
  issue('two', 'ca', 'DNS:two.example,DNS:*.wild.example')
  issue('client', 'ca', 'DNS:client')
  issue('stranger', 'other', 'DNS:client')
})
after(() => rmSync(folder, { recursive: true, force: true }))

const PAIRS = () => ({ TLS_CERT: `${at('one.crt')},${at('two.crt')}`, TLS_KEY: `${at('one.key')},${at('two.key')}` })

describe('inbound TLS', { concurrency: false }, () => {
  let gateway: Started
  let health = 0
  before(async () => {
    ;[health = 0] = await freePorts(1)
    const env = { ...PAIRS(), TLS_HEALTH_PORT: String(health), AUTH_ADMIN: 'admin-token-0123456789abcdef' }
    gateway = await start({ env: { ...env, HTTP_SERVER: 'own' } })
  })
  after(() => gateway?.stop())

  test('openssl: versions, ciphers and ALPN', () => {
    const { host } = new URL(gateway.url)
    const client = (...words: string[]) => openssl('s_client', '-connect', host, '-CAfile', 'ca.crt', ...words)
    for (const words of [['-tls1_2'], ['-tls1_3'], ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-GCM-SHA256']]) {
      const shown = client(...words, '-alpn', 'h2,http/1.1')
      assert.match(shown, /Verify return code: 0 \(ok\)/, words.join(' '))
      assert.match(shown, /ALPN protocol: http\/1\.1/, words.join(' '))
    }
    for (const words of [
      ['-tls1_1', '-cipher', 'ALL:@SECLEVEL=0'],
      ['-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-SHA'],
      ['-tls1_2', '-cipher', 'AES128-GCM-SHA256'],
      ['-alpn', 'h2'],
    ])
      assert.match(client(...words), /alert|Cipher is \(NONE\)/, words.join(' '))
  })

  for (const [servername, name] of [
    ['localhost', 'one'],
    ['two.example', 'two'],
    ['TWO.example', 'two'],
    ['a.wild.example', 'two'],
  ] as const)
    test(`the certificate for ${servername} is ${name}`, async () => {
      const answer = await ask(gateway.url, { servername })
      assert.deepEqual([answer.status, answer.name], [200, name])
    })

  test('a name without a certificate, and no name, get the first', () => {
    const { host } = new URL(gateway.url)
    for (const words of [['-servername', 'b.a.wild.example'], ['-noservername']])
      assert.match(openssl('s_client', '-connect', host, ...words), /subject=CN ?= ?one/, words.join(' '))
  })

  test('openai-node: whole after a large request, and streamed', async () => {
    const dispatcher = new Dispatcher({ connect: { ca: text('ca.crt') } })
    // Both are fetch; their types name different classes.
    const fetchOver = ((url: string, init: object) =>
      undiciFetch(url, { ...init, dispatcher })) as unknown as typeof fetch
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', fetch: fetchOver, maxRetries: 0 })
    const content = `hello whole ${'x'.repeat(300_000)}`
    const whole = await client.chat.completions.create({ model: 'demo/echo', messages: [{ role: 'user', content }] })
    assert.match(whole.choices[0]?.message.content ?? '', /hello whole/)
    const stream = await client.chat.completions.create({
      model: 'demo/echo',
      stream: true,
      messages: [{ role: 'user', content: 'hello stream' }],
    })
    let streamed = ''
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? ''
    assert.match(streamed, /hello stream/)
    await dispatcher.close()
  })

  test('the port of the probes serves nothing else', async () => {
    const plain = `http://127.0.0.1:${health}`
    for (const path of ['/health', '/health/live', '/health/ready'])
      assert.equal((await fetch(plain + path)).status, 200, path)
    for (const path of ['/v1/models', '/metrics', '/dashboard/', '/admin/api/v1/providers', '/health/../metrics'])
      assert.equal((await fetch(plain + path)).status, 404, path)
    const checked = await verb(['health', '--json'], { cwd: gateway.folder })
    assert.deepEqual([checked.code, checked.json().ready], [0, true])
  })

  test('plain HTTP on the port gets no answer', async () => {
    await assert.rejects(fetch(gateway.url.replace('https', 'http')))
    assert.equal((await ask(gateway.url)).status, 200)
  })

  test('connections without a handshake are closed', async () => {
    const { port } = new URL(gateway.url)
    const closed = (begin: (socket: Socket) => void) =>
      new Promise<void>((resolve) => {
        const socket = connect({ port: Number(port), host: '127.0.0.1', allowHalfOpen: true }, () => begin(socket))
        // A reset is an end too.
        socket.on('error', () => {})
        socket.on('close', () => resolve())
        socket.on('end', () => socket.end())
        socket.resume()
      })
    const all = [closed(() => {}), closed((socket) => socket.end()), closed((socket) => socket.write('\x16\x03\x01'))]
    const late = sleep(30_000, 'open', { ref: false })
    assert.notEqual(await Promise.race([Promise.all(all), late]), 'open')
  })

  test('the metric is the end of each certificate', async () => {
    const headers = { authorization: 'Bearer admin-token-0123456789abcdef' }
    const { body } = await ask(gateway.url, { path: `${BELOW}/metrics`, headers })
    for (const name of ['one', 'two']) {
      const [, value] =
        new RegExp(`^headgate_tls_not_after_seconds{file="[^"]*/${name}.crt"} (.+)$`, 'm').exec(body) ?? []
      const days = (Number(value) - Date.now() / 1_000) / 86_400
      assert.ok(days > 59 && days <= 60, `${name}: ${days} days`)
    }
  })

  test('the cookie of a session is Secure', async () => {
    const body = JSON.stringify({ token: 'admin-token-0123456789abcdef' })
    const { status, setCookie } = await ask(gateway.url, { path: `${BELOW}/admin/api/v1/session`, body })
    assert.equal(status, 201)
    assert.match(setCookie.join(), /^__Host-headgate=.*Secure/)
  })
})

describe('inbound TLS: replaced files', { concurrency: false }, () => {
  for (const workers of ['1', '2'])
    test(`under load, with ${workers} workers: no request fails`, async () => {
      issue('live', 'ca', 'DNS:localhost')
      const env = { TLS_CERT: at('live.crt'), TLS_KEY: at('live.key'), HTTP_SERVER: 'own', WORKERS: workers }
      const gateway = await start({ env })
      const kept = new Agent({ keepAlive: true, maxSockets: 4 })
      const failed: unknown[] = []
      let sent = 0
      let over = false
      const load = async (agent?: Agent) => {
        for (; !over; await sleep(10)) {
          sent++
          await ask(gateway.url, agent ? { agent } : {})
            .then(({ status }) => assert.equal(status, 200))
            .catch((error) => failed.push(error))
        }
      }
      const loads = [load(), load(), load(), load(kept), load(kept)]
      try {
        const serial = () =>
          openssl('s_client', '-connect', new URL(gateway.url).host).match(/-----BEGIN CERTIFICATE-----([^-]+)/)?.[1]
        const before = serial()
        issue('live', 'ca', 'DNS:localhost')
        gateway.child.kill('SIGHUP')
        await gateway.line(({ event, message }) => event === 'tls' && /New certificates/.test(String(message)))
        // Each connection may be another worker's.
        const end = performance.now() + 20_000
        for (let changed = 0; changed < 10 && performance.now() < end; ) changed = serial() === before ? 0 : changed + 1
        const now = serial()
        assert.notEqual(now, before)
        // Without a signal: a certificate without its key, then an unreadable one.
        writeFileSync(at('live.crt'), text('two.crt'))
        await gateway.line(
          ({ event, message }) => event === 'tls' && /belongs to another certificate/.test(String(message)),
        )
        writeFileSync(at('live.crt'), 'nothing')
        await gateway.line(({ event, message }) => event === 'tls' && /not readable as PEM/.test(String(message)))
        assert.equal(serial(), now)
        await sleep(500)
      } finally {
        over = true
        await Promise.all(loads)
        kept.destroy()
        await gateway.stop()
      }
      assert.deepEqual(failed, [])
      assert.ok(sent > 50, `${sent} requests`)
    })
})

describe('inbound TLS: client certificates', { concurrency: false }, () => {
  const withAuth = (clientAuth: string, body: (gateway: Started) => Promise<void>) => async () => {
    writeFileSync(at('clients.crt'), text('ca.crt'))
    const env = { ...PAIRS(), TLS_CLIENT_CA: at('clients.crt'), TLS_CLIENT_AUTH: clientAuth, HTTP_SERVER: 'own' }
    const gateway = await start({ env })
    await body(gateway).finally(gateway.stop)
  }

  test(
    'require: only those of the authority, at every name, also after it is replaced',
    withAuth('require', async ({ url, line }) => {
      for (const servername of ['localhost', 'two.example']) {
        assert.equal((await ask(url, { servername, cert: 'client' })).status, 200)
        await assert.rejects(ask(url, { servername }))
        await assert.rejects(ask(url, { servername, cert: 'stranger' }))
      }
      writeFileSync(at('clients.crt'), text('other.crt'))
      await line(({ event }) => event === 'tls')
      assert.equal((await ask(url, { cert: 'stranger' })).status, 200)
      await assert.rejects(ask(url, { cert: 'client' }))
    }),
  )

  test(
    'require: commands show theirs',
    withAuth('require', async ({ url }) => {
      const { port, pathname } = new URL(url)
      const address = `https://localhost:${port}${pathname}`
      const command = (certificate: Readonly<Record<string, string>>) => {
        const env = { PATH: process.env.PATH ?? '', NODE_EXTRA_CA_CERTS: at('ca.crt'), ...certificate }
        return spawnSync(process.execPath, [MAIN, 'models', '--url', address], { env, cwd: folder, encoding: 'utf8' })
      }
      const shown = command({ HEADGATE_CLIENT_CERT: at('client.crt'), HEADGATE_CLIENT_KEY: at('client.key') })
      assert.equal(shown.status, 0, shown.stderr)
      assert.match(shown.stdout, /demo\/echo/)
      assert.equal(command({}).status, 4)
      assert.match(command({ HEADGATE_CLIENT_CERT: at('client.crt') }).stderr, /HEADGATE_CLIENT_KEY, or neither/)
      const missing = command({ HEADGATE_CLIENT_CERT: at('none.crt'), HEADGATE_CLIENT_KEY: at('client.key') })
      assert.match(missing.stderr, /HEADGATE_CLIENT_CERT: ENOENT/)
    }),
  )

  test(
    'optional: none, or a valid one',
    withAuth('optional', async ({ url }) => {
      assert.equal((await ask(url)).status, 200)
      assert.equal((await ask(url, { cert: 'client' })).status, 200)
      await assert.rejects(ask(url, { cert: 'stranger' }))
    }),
  )
})

describe('inbound TLS: a start that cannot work', () => {
  for (const [name, env, message] of [
    [
      'a missing file',
      () => ({ TLS_CERT: at('none.crt'), TLS_KEY: at('one.key') }),
      /none\.crt cannot be read \(ENOENT\)/,
    ],
    ['a key of another', () => ({ TLS_CERT: at('one.crt'), TLS_KEY: at('two.key') }), /belongs to another certificate/],
    ['no key', () => ({ TLS_CERT: at('one.crt') }), /1 files and tls\.key 0/],
    ['no authority', () => ({ ...PAIRS(), TLS_CLIENT_AUTH: 'require' }), /require without tls\.clientCa/],
  ] as const)
    test(name, async () => {
      const { exited, output } = await run({ env: { ...env(), HTTP_SERVER: 'own' } })
      assert.equal(await exited, 1)
      assert.match(output(), message)
    })
})
