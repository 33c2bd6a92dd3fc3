/** Sessions of the Realtime API over real sockets, with a strict fake of the vendor. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { type RealtimeOptions, USAGE } from '../support/realtime-upstream.ts'
import { until } from '../support/upstream.ts'
import { start } from './support/process.ts'
import { CLIENT, connect, KEY, refused, started, url } from './support/realtime.ts'

const ADMIN = 'hg-admin-0123456789012345678901234'

/** In nano-dollars, by the prices of the catalogue. */
const COST = 55 * 4_000 + 64 * 400 + 13 * 32_000 + 30 * 16_000 + 91 * 64_000

describe('realtime', { timeout: 120_000 }, () => {
  test('a conversation: events pass unchanged, and each response is a row with its cost', async () => {
    await using own = await started({}, { env: { AUTH_ADMIN: ADMIN } })
    const { gateway, upstream } = own
    const peer = await connect(url(gateway))
    assert.equal((await peer.next('session.created')).session.model, 'gpt-realtime')
    assert.equal(peer.headers['x-headgate-provider'], 'openai')
    assert.equal(peer.headers['sec-websocket-extensions'], undefined)
    for (let turn = 0; turn < 2; turn++) {
      peer.send({ type: 'response.create' })
      assert.deepEqual((await peer.next('response.done')).response.usage, USAGE)
    }
    await peer.next('rate_limits.updated')
    peer.socket.close(1000)
    assert.equal((await peer.closed).code, 1000)
    assert.deepEqual(upstream.wrong, [])
    assert.equal(upstream.handshakes[0]?.url, '/v1/realtime?model=gpt-realtime')
    assert.equal(upstream.handshakes[0]?.headers.authorization, `Bearer ${KEY}`)
    const lines = (await gateway.logged()).filter(({ event, style }) => event === 'request' && style === 'realtime')
    assert.equal(lines.length, 3)
    assert.deepEqual(
      lines.map(({ status, cost }) => [status, cost]),
      [
        [200, COST / 1e9],
        [200, COST / 1e9],
        [101, 0],
      ],
    )
    // The ledger has the same rows.
    const authorization = `Bearer ${ADMIN}`
    const stored = async () => {
      const answer = await fetch(`${gateway.url}/admin/api/v1/requests`, { headers: { authorization } })
      const { data } = (await answer.json()) as { data: { style: string; status: number; cost: string }[] }
      return data
        .filter(({ style }) => style === 'realtime')
        .map(({ status, cost }) => `${status} ${Number(cost)}`)
        .sort()
    }
    const wanted = ['101 0', `200 ${COST / 1e9}`, `200 ${COST / 1e9}`]
    for (const end = performance.now() + 20_000; (await stored()).length < 3 && performance.now() < end; )
      await sleep(200)
    assert.deepEqual(await stored(), wanted)
    for (const canary of [KEY, CLIENT]) assert.ok(!gateway.output().includes(canary))
  })

  test('before the session a failure is a status, and the next key is tried', async () => {
    const invalid =
      '{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}'
    await using own = await started(
      {
        refuse: (address, { authorization }) => {
          if (address.searchParams.get('model') === 'broken')
            return { status: 500, body: '{"error":{"message":"down"}}' }
          return authorization === 'Bearer bad-key-0123456789' ? { status: 401, body: invalid } : undefined
        },
      },
      { env: { OPENAI_API_KEY: `bad-key-0123456789,${KEY}`, KEY_STRATEGY: 'round-robin' } },
    )
    const { gateway, upstream } = own
    for (let opened = 0; opened < 3; opened++) {
      const peer = await connect(url(gateway))
      await peer.next('session.created')
      peer.socket.terminate()
    }
    const keys = upstream.handshakes.map(({ headers }) => headers.authorization)
    // Suspended after its first failure.
    assert.equal(keys.filter((key) => key === 'Bearer bad-key-0123456789').length, 1)
    assert.equal(keys.filter((key) => key === `Bearer ${KEY}`).length, 3)
    const refusals = [
      ['?intent=transcription', {}, 400, 'missing_required_parameter'],
      ['?call_id=rtc_1', {}, 400, 'missing_required_parameter'],
      ['?model=gpt-realtime', { authorization: 'Bearer wrong' }, 401, 'invalid_api_key'],
      ['?model=broken', {}, 502, 'status'],
    ] as const
    for (const [query, headers, status, code] of refusals) {
      const { status: got, body } = await refused(url(gateway, query), {
        authorization: `Bearer ${CLIENT}`,
        ...headers,
      })
      assert.deepEqual([got, body.error.code], [status, code], query)
    }
    const headers = { authorization: `Bearer ${CLIENT}` }
    assert.equal((await fetch(`${gateway.base}/realtime?model=gpt-realtime`, { headers })).status, 426)
    for (const path of ['calls', 'client_secrets']) {
      const answer = await fetch(`${gateway.base}/realtime/${path}`, { method: 'POST', headers })
      assert.equal(answer.status, 404)
      assert.match(JSON.stringify(await answer.json()), /could count nothing/)
    }
    assert.ok(!gateway.output().includes('bad-key-0123456789'))
  })

  test('web pages present their key as a subprotocol, which goes no further', async () => {
    await using own = await started()
    const { gateway, upstream } = own
    const socket = new WebSocket(url(gateway), [
      'realtime',
      `openai-insecure-api-key.${CLIENT}`,
      'openai-beta.realtime-v1',
    ])
    await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
    assert.equal(socket.protocol, 'realtime')
    socket.close()
    await new Promise((resolve) => socket.on('close', resolve))
    assert.deepEqual(upstream.wrong, [])
    assert.equal(upstream.handshakes[0]?.headers['openai-beta'], 'realtime=v1')
    assert.ok(!JSON.stringify(upstream.handshakes).includes(CLIENT))
    await gateway.logged()
    assert.ok(!gateway.output().includes(CLIENT))
  })

  test('a budget that is used up ends the session after the response that exceeds it', async () => {
    const files = { 'headgate.yaml': 'budgets: { small: { amount: "0.28", period: day, mode: hard } }' }
    await using own = await started({}, { files })
    const { gateway, upstream } = own
    const peer = await connect(url(gateway))
    for (let open = true; open; ) {
      peer.send({ type: 'response.create' })
      open = await Promise.race([peer.next('response.done').then(() => true), peer.closed.then(() => false)])
    }
    const { code, reason } = await peer.closed
    assert.equal(code, 1008)
    assert.equal(reason, 'budget_exceeded')
    const error = peer.events.find(({ type }) => type === 'error')
    assert.equal(error?.error.code, 'budget_exceeded')
    const done = peer.events.filter(({ type }) => type === 'response.done').length
    // $0.262144 is reserved for a response, and each costs $0.006966.
    assert.equal(done, Math.ceil((0.28 - 0.262144) / (COST / 1e9)))
    assert.equal(upstream.open.size, 0)
    assert.equal((await refused(url(gateway))).status, 402)
  })

  test('an upstream that is cut, frozen or breaks the protocol ends the session with an error event', async () => {
    const frames = { wrong: Buffer.from([0xf1, 0x01, 0x41]), large: Buffer.from([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0]) }
    await using own = await started(
      {
        on: (event, _peer, socket) => {
          if (event.type.endsWith('truncate')) socket.destroy()
          else if (event.type.endsWith('delete')) socket.write(frames.wrong)
          else if (event.type.endsWith('clear')) socket.write(frames.large)
          return true
        },
      },
      { env: { REALTIME_IDLE: '1500' } },
    )
    const { gateway } = own
    const cases = [
      ['conversation.item.truncate', 1011, 'stream_interrupted'],
      ['response.cancel', 1011, 'stream_interrupted'],
      ['input_audio_buffer.clear', 1009, 'stream_interrupted'],
      ['conversation.item.delete', 1002, 'stream_interrupted'],
    ] as const
    for (const [type, code, error] of cases) {
      const peer = await connect(url(gateway))
      await peer.next('session.created')
      peer.send({ type })
      assert.equal((await peer.next('error')).error.code, error, type)
      assert.equal((await peer.closed).code, code, type)
    }
  })

  test('a client that is cut, or breaks the protocol, leaves no session upstream', async () => {
    await using own = await started({ on: ({ type }) => type === 'response.cancel' })
    const { gateway, upstream } = own
    const until = async (what: () => boolean) => {
      for (const end = performance.now() + 10_000; !what(); ) {
        assert.ok(performance.now() < end, 'too late')
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    }
    const left = await connect(url(gateway))
    await left.next('session.created')
    left.socket.terminate()
    await until(() => upstream.open.size === 0)
    const wrong = [
      [Buffer.from([0x81, 0x01, 0x41]), 1002],
      [Buffer.from([0xf1, 0x81, 0, 0, 0, 0, 0x41]), 1002],
      [Buffer.from([0x80, 0x81, 0, 0, 0, 0, 0x41]), 1002],
      [Buffer.from([0x89, 0xfe, 0, 200, 0, 0, 0, 0]), 1002],
      [Buffer.from([0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]), 1009],
    ] as const
    for (const [frame, code] of wrong) {
      const peer = await connect(url(gateway))
      await peer.next('session.created')
      // The socket below the library.
      ;(peer.socket as unknown as { _socket: { write(bytes: Buffer): void } })._socket.write(frame)
      assert.equal((await peer.closed).code, code)
      await until(() => upstream.open.size === 0)
    }
    const lines = (await gateway.logged()).filter(({ event, style }) => event === 'request' && style === 'realtime')
    assert.equal(lines.length, 1 + wrong.length)
  })

  test('a gateway that shuts down completes the response, and closes with 1001', async () => {
    let finish = () => {}
    await using own = await started({
      on: (event, peer) => {
        if (event.type !== 'input_audio_buffer.commit') return false
        peer.send(JSON.stringify({ type: 'response.created', event_id: 'event_1', response: {} }))
        finish = () => peer.send(JSON.stringify({ type: 'response.done', event_id: 'e', response: { usage: USAGE } }))
        return true
      },
    })
    const { gateway } = own
    const idle = await connect(url(gateway))
    const busy = await connect(url(gateway))
    await idle.next('session.created')
    busy.send({ type: 'input_audio_buffer.commit' })
    await busy.next('response.created')
    const stopped = gateway.stop()
    assert.equal((await idle.next('error')).error.code, 'draining')
    assert.equal((await idle.closed).code, 1001)
    finish()
    await busy.next('response.done')
    assert.equal((await busy.closed).code, 1001)
    assert.equal(await stopped, 0)
  })
})

/** A response that begins and does not end. */
const beginOnly: RealtimeOptions['on'] = (event, peer) => {
  if (event.type !== 'input_audio_buffer.commit') return false
  peer.send(JSON.stringify({ type: 'response.created', event_id: 'event_1', response: { id: 'resp_1' } }))
  return true
}

type Row = {
  readonly style: string
  readonly status: number | null
  readonly cost: string | null
  readonly outcome: string
}

describe('realtime: a gateway that is killed', { timeout: 120_000 }, () => {
  test('leaves no session upstream, and the next one books what was complete and what was not', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-realtime-'))
    t.after(() => rm(folder, { recursive: true, force: true }))
    const env = { AUTH_ADMIN: ADMIN, DATA_DIR: folder }
    await using own = await started({ on: beginOnly }, { env })
    const { gateway, upstream } = own
    const peer = await connect(url(gateway))
    peer.send({ type: 'response.create' })
    await peer.next('response.done')
    await peer.next('response.created')
    peer.send({ type: 'input_audio_buffer.commit' })
    await peer.next('response.created')
    const killed = once(gateway.child, 'close')
    gateway.child.kill('SIGKILL')
    await killed
    assert.equal((await peer.closed).code, 1006)
    await until('closed upstream', () => upstream.open.size === 0)
    await using next = await start({
      env: { ...env, OPENAI_API_KEY: KEY, OPENAI_BASE_URL: upstream.base, AUTH_KEYS: CLIENT },
    })
    const rows = async (): Promise<readonly Row[]> => {
      const headers = { authorization: `Bearer ${ADMIN}` }
      const answer = await fetch(`${next.url}/admin/api/v1/requests`, { headers })
      return ((await answer.json()) as { data: Row[] }).data.filter(({ style }) => style === 'realtime')
    }
    for (const end = performance.now() + 20_000; (await rows()).length < 3 && performance.now() < end; )
      await sleep(200)
    const found = (await rows()).map(({ outcome, status, cost }) => `${outcome} ${status} ${Number(cost)}`).sort()
    // What was in flight is charged as it was reserved. The session itself costs nothing, unless it was killed before that was written.
    const RESERVED = 'unknown 0 0.262144'
    assert.deepEqual([found[0], found[2]], [`answered 200 ${COST / 1e9}`, RESERVED])
    assert.ok(found[1] === 'unknown 0 0' || found[1] === RESERVED, found[1])
  })
})
