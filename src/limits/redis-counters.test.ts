/** Shared counters in a real Redis: several gateways as objects of this process. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { testBudget } from '../../test/support/accounts.ts'
import { skipRedis, startRedis, type TestRedis } from '../../test/support/redis.ts'
import { type AccountLimits, NO_LIMITS } from '../core/accounts.ts'
import type { CounterAnswer, CounterOperation } from './counter-messages.ts'
import type { FromCountersThread } from './counters-thread-messages.ts'
import { RedisCounters } from './redis-counters.ts'

/** More than a busy machine needs. */
const LIMIT = 20_000
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const until = async (condition: () => boolean | Promise<boolean>, what: string): Promise<void> => {
  for (const end = performance.now() + LIMIT; !(await condition()); await sleep(10))
    if (performance.now() > end) assert.fail(`after ${LIMIT} ms: ${what}`)
}

const budget = testBudget(1_000, { id: 'bud_aaaaaaaaaaaa', period: 'total' })
const each = testBudget(1_000, { id: 'bud_bbbbbbbbbbbb', period: 'total', per: 'key' })
const soft = testBudget(100, { id: 'bud_cccccccccccc', period: 'total', mode: 'soft' })
const BUDGETS = [budget, each, soft]

type Given = { readonly node: string; readonly shares?: number }

/** One gateway. A question without an answer, such as while it joins, fails the test. */
const gateway = (redis: TestRedis, { node, shares = 1 }: Given) => {
  const messages: FromCountersThread[] = []
  const answers = new Map<number, CounterAnswer>()
  let tickets = 0
  const counters = new RedisCounters({ url: redis.url, node, shares, budgets: BUDGETS }, (message) => {
    messages.push(message)
    if (message.do === 'answers') for (const answer of message.answers) answers.set(answer.ticket, answer)
  })
  const state = () => messages.findLast((message) => message.do === 'state')
  const isUp = () => until(() => state()?.problem === null, 'Redis is used')
  const ask = async (operation: (ticket: number) => CounterOperation): Promise<CounterAnswer & { ticket: number }> => {
    const ticket = ++tickets
    counters.run(1, [operation(ticket)])
    await until(() => answers.has(ticket), `an answer to ${JSON.stringify(operation(ticket))}`)
    const answer = answers.get(ticket)
    assert.ok(answer)
    return answer
  }
  const claim = (cost: number, limits: Partial<AccountLimits> = {}, tokens = 0) => ({
    limits: [{ id: 'key_aaaaaaaaaaaa', limits: { ...NO_LIMITS, ...limits } }],
    budgets: [[budget.id, '', 0]] as const,
    demand: { first: true, tokens, cost },
  })
  const reserve = (cost: number, limits?: Partial<AccountLimits>, tokens?: number) =>
    ask((ticket) => ({ do: 'reserve', ticket, claim: claim(cost, limits, tokens) }))
  const figures = async (id = budget.id, owner = '') => {
    const { states } = await ask((ticket) => ({ do: 'states', ticket }))
    const found = states?.find((one) => one.budget === id && one.owner === owner)
    return found && [found.spent, found.reserved]
  }
  const run = (...operations: CounterOperation[]) => counters.run(1, operations)
  return { counters, messages, state, isUp, ask, claim, reserve, figures, run, ticket: () => ++tickets }
}

describe('counters in Redis', { skip: skipRedis }, () => {
  let redis: TestRedis
  let open: ReturnType<typeof gateway>[] = []
  before(async () => {
    redis = await startRedis()
  })
  after(async () => {
    await redis?.stop()
  })
  const gateways = async (count: number) => {
    redis.signal('SIGCONT')
    await Promise.all(open.map(({ counters }) => counters.close()))
    await redis.command('FLUSHALL')
    open = Array.from({ length: count }, (_, at) => gateway(redis, { node: `node ${at}` }))
    await Promise.all(open.map((one) => one.isUp()))
    return open as [ReturnType<typeof gateway>, ReturnType<typeof gateway>]
  }
  after(() => Promise.all(open.map(({ counters }) => counters.close())))

  test('a hard budget refuses what two gateways have reserved together, until one is settled', async () => {
    const [a, b] = await gateways(2)
    const first = await a.reserve(600)
    assert.deepEqual(first.counters?.budgets, [[0, 600]])
    const refused = await b.reserve(500)
    assert.deepEqual(refused.refusal, { why: 'budget', id: budget.id })
    assert.deepEqual(refused.counters?.budgets, [[0, 600]])
    a.run({ do: 'settle', ticket: first.ticket, charge: { tokens: 0, cost: 450 } })
    await until(async () => (await b.figures())?.[1] === 0, 'settled')
    assert.deepEqual(await b.figures(), [450, 0])
    assert.equal((await b.reserve(550)).refusal, null)
    assert.equal((await b.reserve(1)).refusal?.why, 'budget')
  })

  test('an unknown cost is charged as reserved', async () => {
    const [a, b] = await gateways(2)
    const { ticket } = await a.reserve(600)
    a.run({ do: 'settle', ticket, charge: { tokens: 0, cost: null } })
    await until(async () => (await b.figures())?.[0] === 600, 'charged')
  })

  test('a reservation that is settled before its answer holds nothing', async () => {
    const [a, b] = await gateways(2)
    const ticket = a.ticket()
    const claim = a.claim(600, { concurrent: 1 })
    const charge = { tokens: 0, cost: 0 }
    a.run({ do: 'reserve', ticket, claim }, { do: 'settle', ticket, charge }, { do: 'release', ticket })
    await until(async () => (await b.reserve(1_000, { concurrent: 1 })).refusal === null, 'everything is free')
  })

  test('a stream that costs more reserves more, unless the budget has no room', async () => {
    const [a, b] = await gateways(2)
    const { ticket } = await a.reserve(400)
    assert.equal((await a.ask((one) => ({ do: 'extend', ticket: one, of: ticket, more: 400 }))).refusal, null)
    const refused = await a.ask((one) => ({ do: 'extend', ticket: one, of: ticket, more: 400 }))
    assert.deepEqual(refused.refusal, { why: 'budget', id: budget.id })
    assert.deepEqual(await b.figures(), [0, 800])
    a.run({ do: 'settle', ticket, charge: { tokens: 0, cost: 700 } })
    await until(async () => String(await b.figures()) === '700,0', 'settled')
  })

  test('a soft budget that is exceeded only warns', async () => {
    const [a, b] = await gateways(2)
    const claim = { ...a.claim(80), budgets: [[soft.id, '', 0]] as const }
    assert.deepEqual((await a.ask((ticket) => ({ do: 'reserve', ticket, claim }))).exceeded, [])
    const answer = await b.ask((ticket) => ({ do: 'reserve', ticket, claim }))
    assert.deepEqual([answer.refusal, answer.exceeded], [null, [soft.id]])
  })

  test('slots are free again when a request ends', async () => {
    const [a, b] = await gateways(2)
    const first = await a.reserve(0, { concurrent: 2 })
    assert.equal((await b.reserve(0, { concurrent: 2 })).refusal, null)
    const full = await a.reserve(0, { concurrent: 2 })
    assert.deepEqual([full.refusal?.why, full.counters?.slots], ['concurrent', [2]])
    a.run({ do: 'release', ticket: first.ticket })
    await until(async () => (await b.reserve(0, { concurrent: 2 })).refusal === null, 'a slot is free')
  })

  test('requests and tokens per minute are one bucket for all, settled by what was used', async () => {
    const [a, b] = await gateways(2)
    assert.equal((await a.reserve(0, { requestsPerMinute: 2 })).refusal, null)
    assert.equal((await b.reserve(0, { requestsPerMinute: 2 })).refusal, null)
    const { refusal } = await a.reserve(0, { requestsPerMinute: 2 })
    assert.equal(refusal?.why, 'requests')
    assert.ok(refusal && 'retryAfter' in refusal && refusal.retryAfter > 0 && refusal.retryAfter <= 30_000)
    const tokens = { tokensPerMinute: 600 }
    const first = await a.reserve(0, tokens, 600)
    assert.equal((await b.reserve(0, tokens, 300)).refusal?.why, 'tokens')
    a.run({ do: 'settle', ticket: first.ticket, charge: { tokens: 100, cost: 0 } })
    await until(async () => (await b.reserve(0, tokens, 300)).refusal === null, 'the rest is returned')
    // More than was taken: the bucket is below zero.
    const second = await b.reserve(0, tokens, 100)
    b.run({ do: 'settle', ticket: second.ticket, charge: { tokens: 1_000, cost: 0 } })
    await until(
      async () => ((await a.reserve(0, tokens, 1)).counters?.rates[0] ?? 0) < -500,
      'the bucket is below zero',
    )
  })

  test('a limit of 0 refuses for ever', async () => {
    const [a] = await gateways(1)
    const { refusal } = await a.reserve(0, { requestsPerMinute: 0 })
    assert.deepEqual(refusal, { why: 'requests', id: 'key_aaaaaaaaaaaa', retryAfter: Number.POSITIVE_INFINITY })
  })

  test('a flushed Redis receives what is spent, reserved and in progress again', async () => {
    const [a, b] = await gateways(2)
    a.counters.raise([{ counter: `${budget.id}:`, period_start: 0, spent: 300 }])
    const held = await b.reserve(200, { concurrent: 1 })
    await until(async () => String(await a.figures()) === '300,200', 'counted')
    await redis.command('FLUSHALL')
    const refused = await a.reserve(600, { concurrent: 2 })
    assert.deepEqual([refused.refusal?.why, refused.counters?.budgets[0]?.[0]], ['budget', 500])
    await until(async () => String(await a.figures()) === '300,200', 'restored')
    assert.equal((await a.reserve(0, { concurrent: 1 })).refusal?.why, 'concurrent')
    b.run({ do: 'settle', ticket: held.ticket, charge: { tokens: 0, cost: 150 } })
    await until(async () => String(await a.figures()) === '450,0', 'settled')
  })

  test('what is admitted while Redis is stopped is counted afterwards, and once', async () => {
    const [a, b] = await gateways(2)
    const before = await a.reserve(100, { concurrent: 5 })
    await until(() => a.state()?.shares === 2, 'both are known')
    redis.signal('SIGSTOP')
    const [asked, taken] = [a.ticket(), a.ticket()]
    a.run({ do: 'reserve', ticket: asked, claim: a.claim(10, { concurrent: 5 }) })
    await until(() => a.state()?.problem !== null, 'Redis is lost')
    assert.deepEqual(a.state(), { do: 'state', problem: 'Redis does not answer within 50 ms', shares: 2 })
    a.run({ do: 'take', ticket: taken, claim: a.claim(200, { concurrent: 5 }) })
    a.run({ do: 'settle', ticket: before.ticket, charge: { tokens: 0, cost: 70 } })
    redis.signal('SIGCONT')
    await Promise.all([a.isUp(), b.isUp()])
    await until(async () => String(await b.figures()) === '70,200', 'counted')
    assert.deepEqual((await b.reserve(0, { concurrent: 5 })).counters?.slots, [3])
    a.run({ do: 'settle', ticket: taken, charge: { tokens: 0, cost: 250 } })
    await until(async () => String(await b.figures()) === '320,0', 'settled')
    const figures = a.messages.findLast((message) => message.do === 'figures')
    assert.deepEqual(figures?.taken, [[1, taken]])
  })

  test('what a closed gateway had in progress counts no more, but what it has spent does', async () => {
    const [a, b] = await gateways(2)
    const first = await a.reserve(100, { concurrent: 1 })
    a.run({ do: 'settle', ticket: first.ticket, charge: { tokens: 0, cost: 100 } })
    await a.reserve(900)
    await a.counters.close()
    assert.deepEqual(await b.figures(), [100, 0])
    assert.equal((await b.reserve(900, { concurrent: 1 })).refusal, null)
  })

  test('what an ended process has spent beyond its settled charges is added', async () => {
    const [a, b] = await gateways(2)
    const first = await a.reserve(100, { concurrent: 1 })
    a.run({ do: 'settle', ticket: first.ticket, charge: { tokens: 0, cost: 90 } })
    await a.reserve(200, { concurrent: 5 })
    a.counters.exit(1)
    await until(async () => (await b.reserve(0, { concurrent: 1 })).refusal === null, 'its slots are free')
    a.counters.spent(1, [{ counter: `${budget.id}:`, periodStart: 0, spent: 290 }])
    await until(async () => String(await b.figures()) === '290,0', 'added')
  })

  test('a correction acts at once, and less from the ledger changes nothing', async () => {
    const [a, b] = await gateways(2)
    a.counters.raise([{ counter: `${budget.id}:`, period_start: 0, spent: 800 }])
    await until(async () => (await b.figures())?.[0] === 800, 'raised')
    b.counters.add([{ counter: `${budget.id}:`, period_start: 0, spent: -800 }])
    assert.deepEqual(await b.figures(), [0, 0])
    a.counters.raise([{ counter: `${budget.id}:`, period_start: 0, spent: 700 }])
    assert.deepEqual(await a.figures(), [0, 0])
    await redis.command('FLUSHALL')
    await until(async () => (await b.figures())?.[0] === 0, 'restored')
  })

  test('every gateway lists the keys that another one has charged', async () => {
    const [a, b] = await gateways(2)
    const claim = { ...a.claim(80), budgets: [[each.id, 'key_bbbbbbbbbbbb', 0]] as const }
    await a.ask((ticket) => ({ do: 'reserve', ticket, claim }))
    await until(async () => String(await b.figures(each.id, 'key_bbbbbbbbbbbb')) === '0,80', 'listed')
  })

  test('no key contains the name of a user', async () => {
    const [a] = await gateways(1)
    const claim = { ...a.claim(80), budgets: [[each.id, 'eve@example.com\r\nFLUSHALL', 0]] as const }
    await a.ask((ticket) => ({ do: 'reserve', ticket, claim }))
    const keys = await redis.command('KEYS *')
    assert.doesNotMatch(keys, /eve/)
    assert.match(keys, /hg:\{limits\}:budget:bud_bbbbbbbbbbbb:~[\w-]{21}:0/)
  })
})

test('a Redis that is not there is lost at once, and its address stays secret', { skip: skipRedis }, async () => {
  const redis = await startRedis()
  await redis.stop()
  const one = gateway({ ...redis, url: `redis://:secret-password@127.0.0.1:${redis.port}` }, { node: 'a' })
  await until(() => one.state() !== undefined, 'lost')
  assert.deepEqual(one.state(), { do: 'state', problem: 'Redis cannot be reached (ECONNREFUSED)', shares: 1 })
  const again = await startRedis(redis.port, ['--requirepass', 'other'])
  await again.stop()
  const right = await startRedis(redis.port, ['--requirepass', 'secret-password'])
  await one.isUp()
  assert.equal((await one.reserve(10)).refusal, null)
  await one.counters.close()
  await right.stop()
})
