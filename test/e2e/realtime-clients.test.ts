/** Sessions of the Realtime API by the vendor's own client, through a proxy and certificates, and in number. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'
import { skipBrowser, startBrowser } from '../dashboard/support/chromium.ts'
import { selfSigned } from '../support/certificate.ts'
import { startProxy } from '../support/proxy.ts'
import { startRealtime, USAGE } from '../support/realtime-upstream.ts'
import { start } from './support/process.ts'
import { CLIENT, connect, KEY, refused, started, url } from './support/realtime.ts'

const rss = (pid: number | undefined): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024

describe('realtime: clients', { timeout: 180_000 }, () => {
  test('openai-node over TLS: `ws`, and the WebSocket of Node as in web pages', async () => {
    const { key, cert } = selfSigned()
    const files = { 'tls.key': key, 'tls.crt': cert }
    await using own = await started({}, { env: { TLS_CERT: 'tls.crt', TLS_KEY: 'tls.key' }, files })
    const { gateway, upstream } = own
    const base = gateway.base.replace(/^http:/, 'https:').replace('127.0.0.1', 'localhost')
    const client = new OpenAI({ apiKey: CLIENT, baseURL: base })
    const session = new OpenAIRealtimeWS({ model: 'gpt-realtime', options: { ca: cert } }, client)
    const done = new Promise((resolve, reject) => {
      session.on('error', reject)
      session.on('response.done', resolve)
    })
    session.on('session.created', () => session.send({ type: 'response.create' }))
    assert.deepEqual(((await done) as { response: { usage: object } }).response.usage, USAGE)
    session.close()
    const program = `
      import OpenAI from 'openai'
      import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket'
      const client = new OpenAI({ apiKey: process.argv[1], baseURL: process.argv[2], dangerouslyAllowBrowser: true })
      const session = new OpenAIRealtimeWebSocket({ model: 'gpt-realtime', dangerouslyAllowBrowser: true }, client)
      session.on('error', (error) => { console.error(error); process.exit(1) })
      session.on('session.created', () => session.send({ type: 'response.create' }))
      session.on('response.done', ({ response }) => { console.log(response.usage.total_tokens); session.close() })`
    const ran = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, CLIENT, base], {
      cwd: join(import.meta.dirname, '..', '..'),
      env: { NODE_EXTRA_CA_CERTS: join(gateway.folder, 'tls.crt') },
      timeout: 30_000,
    })
    assert.equal(ran.stdout.trim(), String(USAGE.total_tokens))
    assert.deepEqual(upstream.wrong, [])
  })

  test('a web page in Chromium, with its key as a subprotocol', { skip: skipBrowser }, async () => {
    const page = createServer((_request, response) => response.end('<!doctype html><title>page</title>'))
    await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve))
    // Its address is that of a TCP port.
    const origin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`
    await using own = await started({}, { env: { CORS_ORIGINS: origin } })
    const browser = await startBrowser()
    try {
      const tab = await browser.newPage()
      await tab.goto(origin)
      const talk = ([address, key]: readonly string[]) =>
        new Promise((resolve, reject) => {
          const socket = new WebSocket(address ?? '', ['realtime', `openai-insecure-api-key.${key}`])
          socket.onerror = () => reject(new Error('the session was not opened'))
          socket.onmessage = ({ data }) => {
            const event = JSON.parse(data)
            if (event.type === 'session.created') socket.send('{"type":"response.create"}')
            if (event.type === 'response.done') resolve([socket.protocol, event.response.usage.total_tokens])
          }
        })
      assert.deepEqual(await tab.evaluate(talk, [url(own.gateway), CLIENT]), ['realtime', USAGE.total_tokens])
      assert.deepEqual(own.upstream.wrong, [])
    } finally {
      await browser.close()
      page.close()
    }
  })

  test('through a proxy, to a provider with a certificate of its own', async () => {
    const certificate = selfSigned()
    const upstream = await startRealtime({ server: (handler) => createTlsServer(certificate, handler) })
    const port = Number(new URL(upstream.base).port)
    const proxy = await startProxy({ ports: { 'realtime.test': port } })
    const yaml = `
network: { ca: [own.pem] }
providers: { house: { kind: openai-compatible, baseUrl: "https://realtime.test:${port}/v1", keys: [${KEY}], serverName: localhost, proxy: "http://user:proxy-canary@127.0.0.1:${proxy.port}" } }`
    const env = { AUTH_KEYS: CLIENT, HTTP_CLIENT: 'own' }
    const gateway = await start({ env, files: { 'headgate.yaml': yaml, 'own.pem': certificate.cert } })
    try {
      const peer = await connect(url(gateway, '?model=house/gpt-realtime'))
      await peer.next('session.created')
      peer.send({ type: 'response.create' })
      assert.deepEqual((await peer.next('response.done')).response.usage, USAGE)
      peer.socket.close()
      await peer.closed
      assert.deepEqual(upstream.wrong, [])
      assert.ok(proxy.seen.includes(`CONNECT realtime.test:${port} HTTP/1.1`))
      assert.ok(!gateway.output().includes('proxy-canary'))
      assert.ok(!JSON.stringify(upstream.handshakes).includes('proxy-canary'))
    } finally {
      await gateway.stop()
      await proxy.close()
      await upstream.close()
    }
  })

  test('200 sessions at once, over two workers: each response is a row', async () => {
    await using own = await started({}, { env: { WORKERS: '2' } })
    const { gateway, upstream } = own
    const peers = await Promise.all(Array.from({ length: 200 }, () => connect(url(gateway))))
    await Promise.all(peers.map((peer) => peer.next('session.created')))
    assert.equal(upstream.open.size, 200)
    for (let turn = 0; turn < 2; turn++) {
      for (const peer of peers) peer.send({ type: 'response.create' })
      await Promise.all(peers.map((peer) => peer.next('response.done')))
    }
    for (const peer of peers) peer.socket.close()
    await Promise.all(peers.map(({ closed }) => closed))
    await sleep(500)
    const rows = gateway.lines().filter(({ event, style }) => event === 'request' && style === 'realtime')
    assert.equal(rows.filter(({ status }) => status === 200).length, 400)
    assert.equal(rows.filter(({ status }) => status === 101).length, 200)
    assert.deepEqual(upstream.wrong, [])
  })

  test('a reader that stops keeps the provider waiting, and the memory flat', async () => {
    await using own = await started({ deltas: 40_000 })
    const { gateway, upstream } = own
    const slow = await connect(url(gateway))
    await slow.next('session.created')
    const before = rss(gateway.child.pid)
    slow.socket.pause()
    slow.send({ type: 'response.create' })
    await sleep(3_000)
    const [peer] = upstream.open
    assert.ok((peer?.bufferedAmount ?? 0) > 50_000_000, 'the provider still has most of 160 MB')
    const grown = rss(gateway.child.pid) - before
    assert.ok(grown < 30, `${grown} MB more`)
    slow.socket.resume()
    await slow.next('response.done')
    assert.equal(slow.events.filter(({ type }) => type === 'response.output_audio.delta').length, 40_000)
    slow.socket.terminate()
  })

  test('a transcription of the input is a row, at the price of its model', async () => {
    await using own = await started()
    const { gateway } = own
    const peer = await connect(url(gateway))
    peer.send({
      type: 'session.update',
      session: { type: 'realtime', audio: { input: { transcription: { model: 'gpt-4o-transcribe' } } } },
    })
    await peer.next('session.updated')
    peer.send({ type: 'input_audio_buffer.commit' })
    await peer.next('conversation.item.input_audio_transcription.completed')
    peer.socket.terminate()
    const [row] = (await gateway.logged()).filter(({ style, status }) => style === 'realtime' && status === 200)
    // 13 tokens of audio at $2.50 a million, 9 of text at $10.
    assert.equal(row?.cost, (13 * 2_500 + 9 * 10_000) / 1e9)
  })

  test('keys with guards are refused, unless the operator allows it', async () => {
    const guards = 'guards: { cards: { on: [ request ], find: [ card ], action: block } }\n'
    for (const [yaml, isAllowed] of [
      [guards, false],
      [`${guards}realtime: { guarded: allow }`, true],
    ] as const) {
      await using own = await started({}, { files: { 'headgate.yaml': yaml } })
      if (!isAllowed) {
        const { status, body } = await refused(url(own.gateway))
        assert.deepEqual([status, body.error.code], [403, 'style_not_allowed'])
        assert.equal(own.upstream.handshakes.length, 0)
      } else {
        const peer = await connect(url(own.gateway))
        await peer.next('session.created')
        peer.socket.terminate()
      }
    }
  })
})
