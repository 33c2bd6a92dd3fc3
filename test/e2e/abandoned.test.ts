/** Clients that disconnect at each phase of a call: their upstream calls are aborted, and no resources remain. */
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import type { RecordedRequest } from '../support/upstream.ts'
import { gauge, residentBytes, settles, skipWithoutProc, socketsOf } from './support/gauges.ts'
import { bodyFor, callsOf, rawRequest, sendChat, sleep, stage } from './support/stage.ts'

const PATH = '/v1/chat/completions'

/** A phase of a call: the sent part of the request, and the bytes received before the client disconnects. */
type Phase = {
  readonly name: string
  readonly model: string
  readonly stream: boolean
  /** Fraction of the request that is sent. */
  readonly part: number
  /** Leaves after a match in the response. */
  readonly until?: RegExp
}

const PHASES: readonly Phase[] = [
  { name: 'in mid-header', model: 'm', stream: true, part: 0.2 },
  { name: 'in mid-body', model: 'm', stream: true, part: 0.9 },
  { name: 'right after the request', model: 'm', stream: true, part: 1 },
  { name: 'while it waits for a stream', model: 'silent', stream: true, part: 1 },
  { name: 'while it waits for a whole answer', model: 'silent', stream: false, part: 1 },
  { name: 'while the gateway waits to try again', model: 'limited', stream: true, part: 1 },
  { name: 'in mid-stream', model: 'm', stream: true, part: 1, until: /data: / },
]

const CLIENTS = 2_000
const TOGETHER = 100

const on = stage()
const begin = async () => {
  const upstream = await on.upstream((upstreamRequest) => {
    if (upstreamRequest.model === 'silent') return { do: 'hang' }
    if (upstreamRequest.model === 'limited')
      return failWith(upstreamRequest, 429, { type: 'rate_limit_error', message: 'slower' }, { 'retry-after': '1' })
    if (!upstreamRequest.stream) return answerWith(upstreamRequest, { text: 'hello' })
    // Streams until the client leaves.
    return { do: 'stream', pieces: piecesOf(upstreamRequest, { text: 'hello '.repeat(500) }), gap: 20 }
  })
  const gateway = await on.gateway({
    providers: { a: { baseUrl: `${upstream.url}/v1`, models: ['m', 'silent', 'limited'] } },
    fallback: 'none',
    circuit: { whenAllOpen: 'try' },
  })
  return { upstream, gateway }
}
const leave = async (url: string, phase: Phase, id: string, wait: number): Promise<number> => {
  const { hostname, port } = new URL(url)
  const request = rawRequest(PATH, JSON.stringify(bodyFor('chat', phase.model, phase.stream, { user: id })))
  const socket: Socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.setEncoding('utf8')
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(request.slice(0, Math.floor(request.length * phase.part)))
  const { until } = phase
  if (until) {
    let text = ''
    await new Promise<void>((resolve) => {
      socket.on('data', (piece: string) => {
        text += piece
        if (until.test(text)) resolve()
      })
      socket.on('close', () => resolve())
    })
  }
  await sleep(wait)
  const at = performance.now()
  // Half of them with FIN, half with RST.
  if (Math.random() < 0.5) socket.resetAndDestroy()
  else socket.destroy()
  return at
}

test(`${CLIENTS} clients leave at each phase of a call; no sockets, tasks or memory remain`, {
  skip: skipWithoutProc,
  timeout: 240_000,
}, async (t) => {
  const { upstream, gateway } = await begin()
  for (let at = 0; at < 50; at++) await sendChat(gateway, { style: 'chat', model: 'm', stream: false })
  const sockets = await socketsOf(gateway)
  const memory = await residentBytes(gateway)
  for (let at = 0; at < CLIENTS; at += TOGETHER)
    await Promise.all(
      Array.from({ length: TOGETHER }, (_, one) => {
        const phase = PHASES[(at + one) % PHASES.length]
        assert.ok(phase)
        return leave(gateway.url, phase, `c${at + one}`, Math.random() * 60)
      }),
    )
  const calls = callsOf(upstream)
  const open = async () => calls.filter(({ ended }) => ended === 'open').length
  assert.equal(await settles(open, (count) => count === 0), 0, 'calls are open upstream')
  for (const name of ['headgate_in_flight', 'headgate_key_in_flight', 'headgate_buffered_bytes'])
    assert.equal(
      await settles(
        () => gauge(gateway, name),
        (value) => value === 0,
      ),
      0,
      name,
    )
  // The connection of the status request.
  assert.ok(
    (await settles(
      () => gauge(gateway, 'headgate_connections'),
      (value) => value <= 1,
    )) <= 1,
  )
  const left = await settles(
    () => socketsOf(gateway),
    (count) => count <= sockets + 4,
  )
  const grown = (await residentBytes(gateway)) - memory
  t.diagnostic(
    `${CLIENTS} clients, ${calls.length} calls upstream, ${left - sockets} more sockets, ${(grown / 1_048_576).toFixed(1)} MB more memory`,
  )
  assert.ok(left <= sockets + 4, `${left} sockets, ${sockets} before`)
  assert.ok(grown < 200 * 1_048_576, `${grown} bytes more`)
  assert.ok(calls.filter(({ ended }) => ended === 'aborted').length > CLIENTS / 4)
  assert.equal((await sendChat(gateway, { style: 'chat', model: 'm', stream: false })).status, 200)
  assert.equal((await gateway.logged()).filter(({ event }) => event === 'error').length, 0)
})

test('a thousand disconnects: each upstream call ends promptly', { timeout: 120_000 }, async (t) => {
  const { upstream, gateway } = await begin()
  const lags: number[] = []
  const streaming = PHASES.at(-1)
  const waiting = PHASES.find(({ name }) => name.includes('whole'))
  assert.ok(streaming && waiting)
  const byId = (id: string): RecordedRequest | undefined => upstream.requests.find(({ json }) => json.user === id)
  for (let at = 0; at < 1_000; at += 20)
    await Promise.all(
      Array.from({ length: 20 }, async (_, one) => {
        const id = `d${at + one}`
        // A whole answer must have reached the upstream first; 300 ms leave time for that.
        const left = await leave(gateway.url, one % 4 === 0 ? waiting : streaming, id, one % 4 === 0 ? 300 : 5)
        const ended = async () => (byId(id)?.endedAt === undefined ? 0 : 1)
        await settles(ended, (is) => is === 1, 10_000)
        const seen = byId(id)
        assert.equal(seen?.ended, 'aborted', `${id} ${one}`)
        lags.push((seen?.endedAt ?? 0) - left)
      }),
    )
  lags.sort((a, b) => a - b)
  const share = (of: number) => (lags[Math.floor(lags.length * of)] ?? 0).toFixed(1)
  t.diagnostic(
    `upstream calls ended after a disconnect: p50 ${share(0.5)} ms, p99 ${share(0.99)} ms, most ${share(0.999)} ms of ${lags.length}`,
  )
  // The documented bound is 100 ms. A busy machine gets more; a call that never ends would fail above.
  assert.ok(Number(share(0.5)) < 500, share(0.5))
})
