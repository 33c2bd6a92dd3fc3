/** Two gateways count in the primary that a real Sentinel names. It is killed, and the replica takes over. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { skipRedis, startSentinel } from '../support/redis.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

/** 100 tokens of input at $10 and 100 of output at $40 per million. */
const COST = 0.005
/** Answers that the budget has room for, and what `fast` may add. */
const ROOM = 60
const KEY = 'test-plain-0123456789abcdef0123456789'
/** ms for what takes seconds on an idle machine. */
const LIMIT = 60_000
const BODY = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

test('limits go on when Sentinel promotes the replica, and nothing is spent twice', {
  skip: skipRedis,
  timeout: 300_000,
}, async () => {
  const upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
  closers.push(() => upstream.close())
  const redis = await startSentinel()
  closers.push(() => redis.stop())
  const budgets = { all: { amount: (ROOM * COST).toFixed(3), period: 'total', appliesTo: { keys: ['plain'] } } }
  const file = {
    prices: [{ provider: 'openai', model: '*', perMillion: { input: 10, output: 40 } }],
    keys: { plain: { secret: KEY } },
    budgets,
  }
  const gateway = () =>
    start({
      env: {
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        REDIS_URL: redis.url,
      },
      files: { 'headgate.yaml': JSON.stringify(file) },
    })
  const all = await Promise.all([gateway(), gateway()])
  closers.push(() => Promise.all(all.map((one) => one.stop())))
  const call = async (at: number) => {
    const one = all[at % 2] as Started
    const headers = { authorization: `Bearer ${KEY}`, connection: 'close' }
    return (await post(`${one.base}/chat/completions`, BODY, headers)).status
  }
  const isShared = async ({ url }: Started) => {
    const health = await (await fetch(`${url}/health`, { headers: { connection: 'close' } })).text()
    return !/degraded|limits/.test(health)
  }
  const statuses: number[] = []
  for (let at = 0; at < ROOM / 2; at++) statuses.push(await call(at))
  assert.deepEqual(new Set(statuses), new Set([200]))
  assert.match(await redis.primary.command('DBSIZE'), /:[1-9]/)

  await redis.primary.stop()
  const changed = performance.now()
  const isPromoted = async () => /role:master/.test(await redis.replica.command('INFO replication'))
  for (let at = 0; !(await isPromoted()) || !(await Promise.all(all.map(isShared))).every(Boolean); at++) {
    assert.ok(performance.now() - changed < LIMIT, 'the gateways count in the new primary')
    // Requests are answered from what each gateway was granted; none is an error of the gateway.
    if (at < 5) statuses.push(await call(at))
    await sleep(100)
  }
  for (let at = 0; at < ROOM; at++) statuses.push(await call(at))
  const answered = statuses.filter((status) => status === 200).length
  assert.deepEqual(
    statuses.filter((status) => status !== 200 && status !== 402),
    [],
  )
  assert.equal(answered, upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length)
  assert.ok(answered >= ROOM - 2 && answered <= ROOM * 1.01 + 2, `${answered} answers of ${ROOM}`)
  assert.match(await redis.replica.command('DBSIZE'), /:[1-9]/)
})
