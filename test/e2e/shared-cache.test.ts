/** The response cache of two gateways with one Redis (`cache.shared`). */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { list, parseObject } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { skipRedis, startRedis, type TestRedis } from '../support/redis.ts'
import type { Upstream } from '../support/upstream.ts'
import { post, type Started } from './support/process.ts'
import { callsOf, stage } from './support/stage.ts'

const KEY = 'client-one-0123456789abcdef'
const ADMIN = 'admin-0123456789abcdef'
const WAIT = 120_000

describe('two gateways that share cached answers', { skip: skipRedis, timeout: 300_000 }, () => {
  const on = stage()
  let redis: TestRedis
  let upstream: Upstream
  const gateways: Started[] = []
  before(async () => {
    redis = await startRedis()
    upstream = await on.upstream((call) => answerWith(call, { text: 'one two three' }))
    const file = {
      auth: { keys: [KEY], admin: ADMIN },
      routes: { cached: { targets: ['a/m'], cache: { ttl: 300 } } },
      providers: { a: { baseUrl: `${upstream.url}/v1` } },
      cache: { shared: true },
    }
    for (let n = 0; n < 2; n++) gateways.push(await on.gateway(file, { REDIS_URL: redis.url }))
  })
  after(() => redis?.stop())

  let number = 0
  const ask = async (gateway: Started | undefined, content: string) => {
    assert.ok(gateway)
    const body = { model: 'cached', temperature: 0, messages: [{ role: 'user', content }] }
    const { status, headers, text } = await post(`${gateway.url}/v1/chat/completions`, body, { 'x-api-key': KEY })
    assert.equal(status, 200, text)
    return { text, cache: headers.get('x-headgate-cache') ?? '' }
  }
  /** Cached answers in Redis, which has counters too. */
  const stored = async () =>
    Number(/:(\d+)/.exec(await redis.command("EVAL \"return #redis.call('KEYS','headgate:cache:*')\" 0"))?.[1])

  test('the second one sends the answer of the first, until it is purged', async () => {
    const [one, other] = gateways
    // On a busy machine Redis may answer too late: then another answer is tried.
    for (const end = performance.now() + WAIT; ; ) {
      const content = `hello ${number++}`
      const before = await stored()
      const first = await ask(one, content)
      assert.equal(first.cache, 'miss')
      while ((await stored()) === before && performance.now() < end) await sleep(20)
      const calls = callsOf(upstream).length
      const second = await ask(other, content)
      assert.equal(second.text.length, first.text.length)
      if (second.cache.startsWith('hit')) {
        assert.deepEqual([second.text, callsOf(upstream).length], [first.text, calls])
        break
      }
      assert.ok(performance.now() < end, `${second.cache} after ${number} answers`)
    }
    // A gateway knows another one after its first message.
    const known = async () => {
      const response = await fetch(`${one?.url}/admin/api/v1/system`, { headers: { authorization: `Bearer ${ADMIN}` } })
      return list(parseObject(await response.text())?.gateways).length
    }
    for (const end = performance.now() + WAIT; (await known()) < 2; await sleep(50)) assert.ok(performance.now() < end)
    const purged = await post(`${one?.url}/admin/api/v1/cache/purge`, {}, { authorization: `Bearer ${ADMIN}` })
    assert.equal(purged.status, 200, purged.text)
    assert.ok(purged.json().removed >= 3, purged.text)
    const calls = callsOf(upstream).length
    assert.equal((await ask(other, `hello ${number - 1}`)).cache, 'miss')
    assert.equal(callsOf(upstream).length, calls + 1)
  })
})
