/**
 * Stored responses, background responses and idempotency keys of several gateways with one Postgres, behind a balancer that sends
 * each request to another gateway.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type JsonObject, list, object, parseObject } from '../../src/core/json.ts'
import { answerBody, answerWith } from '../support/answers.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Balancer, shippedRoundRobin, skipBalancer, startBalancer } from './support/balancer.ts'
import type { Started } from './support/process.ts'
import { start } from './support/process.ts'
import { callsOf, fileOf } from './support/stage.ts'

const SLOW = 'one two three four five six seven eight nine ten'
const WAIT = 120_000

/** Models that have been called once. */
const seen = new Set<string>()

/**
 * `slow`: a stream that lasts until it is cancelled. `killed`, `ended`: so for the first call. `paused`: one of seconds. Others: at
 * once.
 */
const script = (call: UpstreamRequest) => {
  const { model = '' } = call
  const isFirst = !seen.has(model)
  seen.add(model)
  if (model === 'slow' || (isFirst && (model === 'killed' || model === 'ended')))
    return answerWith(call, { text: SLOW.repeat(200) }, { gap: 100 })
  if (model === 'paused') return answerWith(call, { text: SLOW }, { gap: 200 })
  if (model === 'late') return { do: 'answer', body: answerBody(call, { text: SLOW }), after: 1_000 } as const
  return answerWith(call, { text: 'Hello' })
}

describe('several gateways behind roundrobin', { skip: skipPostgres || skipBalancer, timeout: 600_000 }, () => {
  let server: PostgresServer
  let upstream: Upstream
  let balancer: Balancer
  const gateways: Started[] = []
  before(async () => {
    ;[server, upstream] = await Promise.all([startPostgres(), startUpstream(script)])
    const file = fileOf({
      providers: {
        a: {
          baseUrl: `${upstream.url}/v1`,
          styles: ['chat'],
          models: ['m', 'slow', 'paused', 'late', 'killed', 'ended'],
        },
      },
      retry: { maxAttempts: 1 },
    })
    const env = { DATABASE_URL: server.url, AUTH_REQUIRED: 'false' }
    const starts = [1, 2, 3].map(() => start({ env, files: { 'headgate.yaml': file } }))
    for (const started of starts) gateways.push(await started)
    balancer = await startBalancer(
      gateways.map(({ url }) => Number(new URL(url).port)),
      shippedRoundRobin,
    )
    for (const at of gateways.keys()) await balancer.isUp(at)
  })
  after(async () => {
    await balancer?.stop()
    for (const gateway of gateways) await gateway.stop()
    await upstream?.close()
    await server?.remove()
  })

  const send = async (method: string, path: string, sent?: object, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(`${balancer.url}/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json', connection: 'close', ...headers },
      ...(sent && { body: JSON.stringify(sent) }),
      signal: AbortSignal.timeout(WAIT),
    })
    const body = await response.text()
    // The balancer states why it has taken gateways out.
    const text = response.status === 503 ? `${body}\n${balancer.output()}` : body
    return { status: response.status, headers: response.headers, text, json: parseObject(body) ?? {} }
  }
  const create = (model: string, more: object = {}) =>
    send('POST', '/responses', { model: `a/${model}`, input: 'hello', ...more })
  const begin = async (model: string): Promise<string> => {
    const { status, text, json } = await create(model, { background: true })
    assert.equal(status, 200, text)
    return String(json.id)
  }
  const poll = async (id: string, is: (response: JsonObject) => boolean): Promise<JsonObject> => {
    for (const end = performance.now() + WAIT; ; await sleep(50)) {
      const { status, text, json } = await send('GET', `/responses/${id}`)
      assert.equal(status, 200, text)
      if (is(json)) return json
      assert.ok(performance.now() < end, text)
    }
  }
  const isDone = ({ status }: JsonObject) => status !== 'queued' && status !== 'in_progress'
  const calls = (model: string) => callsOf(upstream).filter((call) => call.model === model).length

  test('20 conversations of 5 turns are complete', async () => {
    await Promise.all(
      Array.from({ length: 20 }, async (_, number) => {
        let previous: string | null = null
        for (let turn = 0; turn < 5; turn++) {
          const answer = await create('m', {
            input: `turn ${turn} of ${number}`,
            ...(previous !== null && { previous_response_id: previous }),
          })
          assert.equal(answer.status, 200, `conversation ${number}, turn ${turn}: ${answer.text}`)
          previous = String(answer.json.id)
        }
        const items = await send('GET', `/responses/${previous}/input_items?limit=100`)
        assert.equal(list(items.json.data).length, 9, items.text)
        const deleted = await send('DELETE', `/responses/${previous}`)
        assert.deepEqual([deleted.status, (await send('GET', `/responses/${previous}`)).status], [200, 404])
      }),
    )
  })

  test('a background response is polled, followed and cancelled at any gateway', async () => {
    const done = await poll(await begin('paused'), isDone)
    assert.equal(done.status, 'completed')
    const id = await begin('slow')
    await poll(id, ({ status }) => status === 'in_progress')
    const followed = await Promise.all(gateways.map((_, after) => follow(id, after)))
    for (const [after, numbers] of followed.entries())
      assert.deepEqual(
        numbers,
        numbers.map((__, at) => after + 1 + at),
        `events after ${after}`,
      )
    const cancelled = await send('POST', `/responses/${id}/cancel`)
    assert.equal(cancelled.json.status, 'cancelled', cancelled.text)
    for (const __ of gateways) assert.equal((await send('GET', `/responses/${id}`)).json.status, 'cancelled')
    const deleted = await begin('slow')
    assert.equal((await send('DELETE', `/responses/${deleted}`)).status, 200)
    for (const __ of gateways) assert.equal((await send('GET', `/responses/${deleted}`)).status, 404)
  })

  /** The sequence numbers of twenty events of a response in progress. */
  const follow = async (id: string, after: number): Promise<readonly number[]> => {
    const url = `${balancer.url}/v1/responses/${id}?stream=true&starting_after=${after}`
    const response = await fetch(url, { headers: { connection: 'close' }, signal: AbortSignal.timeout(WAIT) })
    assert.equal(response.status, 200)
    const numbers: number[] = []
    let text = ''
    for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += piece
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        const event = line.startsWith('data: {') ? parseObject(line.slice(6)) : undefined
        if (event) numbers.push(Number(event.sequence_number))
      }
      if (numbers.length >= 20) break
    }
    return numbers.slice(0, 20)
  }

  test('twelve keys that are sent twice are twelve calls', async () => {
    for (const model of ['late', 'paused']) {
      const before = calls(model)
      const body = { messages: [{ role: 'user', content: 'hello' }], model: `a/${model}`, stream: model === 'paused' }
      const answers = await Promise.all(
        Array.from({ length: 24 }, (_, at) =>
          send('POST', '/chat/completions', body, { 'idempotency-key': `${model}-${at % 12}` }),
        ),
      )
      for (const [at, { status, text }] of answers.entries()) {
        assert.equal(status, 200, text)
        assert.equal(text, answers[(at + 12) % 24]?.text)
      }
      assert.equal(calls(model) - before, 12)
      const again = await send('POST', '/chat/completions', body, { 'idempotency-key': `${model}-0` })
      assert.deepEqual([again.text, again.headers.get('x-headgate-idempotent')], [answers[0]?.text, 'stored'])
      const other = await send(
        'POST',
        '/chat/completions',
        { ...body, max_tokens: 5 },
        { 'idempotency-key': `${model}-1` },
      )
      assert.equal(other.status, 422)
    }
  })

  const direct = (gateway: Started, path: string, body: object, headers = {}) =>
    fetch(`${gateway.url}/v1${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
  const beginAt = async (gateway: Started, model: string, more: object = {}): Promise<string> => {
    const queued = await direct(gateway, '/responses', {
      model: `a/${model}`,
      input: 'hello',
      background: true,
      ...more,
    })
    const { id } = object(await queued.json()) ?? {}
    await poll(String(id), ({ status }) => status === 'in_progress')
    return String(id)
  }

  test('a response of a gateway that ends before it has its answer runs again at another one', async () => {
    const [, , ending] = gateways
    assert.ok(ending)
    const id = await beginAt(ending, 'ended')
    const exited = once(ending.child, 'exit')
    ending.child.kill('SIGTERM')
    await ending.line(({ event }) => event === 'draining')
    // The second one ends the drain.
    ending.child.kill('SIGTERM')
    const [code] = await exited
    assert.equal(code, 0)
    const done = await poll(id, isDone)
    assert.deepEqual([done.status, done.id, calls('ended')], ['completed', id, 2])
  })

  test('a gateway that is killed loses only its own calls: its response runs again, its key is free', async () => {
    const [victim, survivor] = [gateways[0], gateways[1]]
    assert.ok(victim && survivor)
    const again = await beginAt(victim, 'killed')
    // Its events have been followed, which would be others.
    const id = await beginAt(victim, 'slow')
    const following = await fetch(`${victim.url}/v1/responses/${id}?stream=true`)
    following.body
      ?.getReader()
      .read()
      .catch(() => {})
    const chat = { model: 'a/slow', messages: [{ role: 'user', content: 'hello' }], stream: true }
    const key = { 'idempotency-key': 'killed' }
    const cut = direct(victim, '/chat/completions', chat, key).then((response) => response.text())
    cut.catch(() => {})
    const before = calls('slow')
    for (const end = performance.now() + WAIT; calls('slow') === before; await sleep(20))
      assert.ok(performance.now() < end)
    const waiting = direct(survivor, '/chat/completions', { ...chat, model: 'a/slow' }, key)
    const exited = once(victim.child, 'exit')
    victim.child.kill('SIGKILL')
    await exited
    const failed = await poll(String(id), isDone)
    assert.equal(failed.status, 'failed')
    assert.match(String(object(failed.error)?.message), /The gateway stopped while this response was in progress/)
    const done = await poll(again, isDone)
    assert.deepEqual([done.status, done.id, calls('killed')], ['completed', again, 2])
    // The request that waited makes the call now.
    for (const end = performance.now() + WAIT; calls('slow') < before + 2; await sleep(50))
      assert.ok(performance.now() < end)
    assert.equal(calls('slow'), before + 2)
    const answer = await waiting
    assert.equal(answer.status, 200)
    await answer.body?.cancel()
  })
})
