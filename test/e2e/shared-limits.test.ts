/** Three gateways with a data folder each that count limits and budgets together in a real Redis or Valkey. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { skipRedis, startRedis, type TestRedis } from '../support/redis.ts'
import { type Act, startUpstream, type Upstream } from '../support/upstream.ts'
import { skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'

const ADMIN = 'admin-0123456789abcdef'
/** 100 tokens of input at $10 and 100 of output at $40 per million: half a cent. */
const COST = 5_000_000
const ANSWER = { text: 'x', input: 100, output: 100 }
const BODY = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
/** What a request costs beyond its reservation, at most: 100 tokens of input are estimated as 26. */
const EXCESS = 740_000
/** ms; a busy machine needs more than the gateway does. */
const LIMIT = 60_000

const KEYS = {
  plain: 'test-plain-0123456789abcdef0123456789',
  minute: 'test-minute-0123456789abcdef0123456789',
  tokens: 'test-tokens-0123456789abcdef0123456789',
  slots: 'test-slots-0123456789abcdef0123456789',
}

const yaml = (amount: string): string => `auth: { admin: "${ADMIN}" }
prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]
keys:
  plain: { secret: ${KEYS.plain} }
  minute: { secret: ${KEYS.minute}, limits: { requestsPerMinute: 30 } }
  tokens: { secret: ${KEYS.tokens}, limits: { tokensPerMinute: 3000 } }
  slots: { secret: ${KEYS.slots}, limits: { concurrent: 6 } }
budgets: { all: { amount: "${amount}", period: total, appliesTo: { keys: [plain] } } }
`

type Answer = Awaited<ReturnType<typeof post>>

const ask = ({ base }: Started, key: string, body: object = BODY): Promise<Answer> =>
  post(`${base}/chat/completions`, body, { authorization: `Bearer ${key}`, connection: 'close' })

const budgetNow = async ({ url }: Started) => {
  const headers = { authorization: `Bearer ${ADMIN}`, connection: 'close' }
  const response = await fetch(`${url}/admin/api/v1/budgets`, { headers })
  // biome-ignore lint/suspicious/noExplicitAny: the test reads four texts of the answer
  const { data }: any = await response.json()
  const { spent, reserved, authority } = data[0].now
  return { spent: Math.round(Number(spent) * 1e9), reserved: Math.round(Number(reserved) * 1e9), authority }
}

const until = async (what: string, condition: () => Promise<boolean> | boolean, ms = LIMIT): Promise<void> => {
  for (const end = performance.now() + ms; !(await condition()); await sleep(50))
    if (performance.now() > end) assert.fail(`after ${ms} ms: ${what}`)
}

const health = async ({ url }: Started) => {
  const response = await fetch(`${url}/health`, { headers: { connection: 'close' } })
  // biome-ignore lint/suspicious/noExplicitAny: the test reads members of an answer
  const body: any = await response.json()
  return body
}

/** How often gateways have lost Redis. */
const lost = (gateways: readonly Started[]): number =>
  gateways.flatMap((one) => one.lines()).filter(({ event, status }) => event === 'limits' && status === 'degraded')
    .length

/** Spends a budget of 20 answers at gateways in turn. Returns what they have spent, on which all agree. */
const spendAll = async (all: readonly Started[], calls: () => number): Promise<number> => {
  const before = calls()
  const statuses: number[] = []
  for (let at = 0; at < 40; at++) statuses.push((await ask(all[at % 2] as Started, KEYS.plain)).status)
  const answered = calls() - before
  assert.equal(statuses.filter((status) => status === 200).length, answered)
  assert.ok(answered >= 19 && answered <= 21, `${answered} answers: ${statuses}`)
  await until('all agree', async () =>
    (await Promise.all(all.map(budgetNow))).every(({ spent }) => spent === answered * COST),
  )
  return answered * COST
}

const callsOf = ({ requests }: Upstream) => requests.filter(({ path }) => path.endsWith('/chat/completions')).length

describe('limits that several gateways share', { skip: skipRedis || skipWithoutProc, timeout: 600_000 }, () => {
  let upstream: Upstream
  let respond: (act: Act) => Act | Promise<Act>
  before(async () => {
    respond = (act) => act
    upstream = await startUpstream((request) => respond(answerWith(request, ANSWER)))
  })
  after(() => upstream?.close())

  const calls = () => callsOf(upstream)
  const gateway = (redis: TestRedis, amount: string, env: Readonly<Record<string, string>> = {}) =>
    start({
      env: {
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        REDIS_URL: redis.url,
        ...env,
      },
      files: { 'headgate.yaml': yaml(amount) },
    })
  /** Three gateways. Redis is lost only if it does not answer for a minute, unless a test stops it. */
  const three = async (amount = '1000.00', env: Readonly<Record<string, string>> = { LEASE_TIMEOUT: '60000' }) => {
    const redis = await startRedis()
    const all = await Promise.all(Array.from({ length: 3 }, () => gateway(redis, amount, env)))
    const [first, second, third] = all
    assert.ok(first && second && third)
    return {
      redis,
      all,
      first,
      second,
      third,
      [Symbol.asyncDispose]: async () => {
        redis.signal('SIGCONT')
        await Promise.all(all.map((one) => one.stop()))
        await redis.stop()
      },
    }
  }
  type Three = Awaited<ReturnType<typeof three>>
  const spread = ({ all }: Three, count: number, key: string): Promise<Answer>[] =>
    Array.from({ length: count }, (_, at) => {
      const one = all[at % 3]
      assert.ok(one)
      return ask(one, key)
    })
  const served = (answers: readonly Answer[]): number => answers.filter(({ status }) => status === 200).length

  test('requests per minute hold over all together', async () => {
    await using fleet = await three()
    const since = performance.now()
    const answers = await Promise.all(spread(fleet, 90, KEYS.minute))
    const refilled = Math.ceil((performance.now() - since) / 2_000)
    assert.ok(
      served(answers) >= 30 && served(answers) <= 30 + refilled,
      `${served(answers)} of 30, and ${refilled} more`,
    )
    const refused = answers.find(({ status }) => status === 429)
    assert.match(refused?.headers.get('x-headgate-limit') ?? '', /^requests; id=key_[a-z]+$/)
    assert.ok(Number(refused?.headers.get('retry-after')) >= 1)
  })

  test('tokens per minute hold over all together', async () => {
    await using fleet = await three()
    const since = performance.now()
    let used = 0
    // One after the other: each answer uses 200 tokens, and 126 are estimated.
    for (let at = 0; at < 30; at++) {
      const one = fleet.all[at % 3]
      assert.ok(one)
      if ((await ask(one, KEYS.tokens)).status === 200) used += 200
    }
    const refilled = (performance.now() - since) / 20
    assert.ok(used >= 2_700 && used <= 3_000 + refilled + 200, `${used} of 3000 tokens, and ${refilled} more`)
  })

  test('requests in progress hold over all together, and end with them', async () => {
    await using fleet = await three()
    const held = Promise.withResolvers<void>()
    respond = async (act) => {
      await held.promise
      return act
    }
    const before = calls()
    const refused: Answer[] = []
    const asked = spread(fleet, 30, KEYS.slots)
    for (const one of asked) void one.then((answer) => answer.status === 429 && refused.push(answer))
    try {
      await until('24 are refused', () => refused.length >= 24)
      await until('6 are in progress', () => calls() - before >= 6)
      assert.equal(calls() - before, 6)
    } finally {
      respond = (act) => act
      held.resolve()
    }
    assert.equal(served(await Promise.all(asked)), 6)
    await until('the slots are free', async () => served(await Promise.all(spread(fleet, 6, KEYS.slots))) === 6)
  })

  test('a hard budget under 300 concurrent requests is not exceeded, and is used up', async () => {
    await using fleet = await three('1.00')
    // Room for 200 answers, and for two more by the overdraft of 1 %.
    const amount = 1_000_000_000
    const before = calls()
    const answers: Answer[] = []
    for (let round = 0; round < 3; round++) answers.push(...(await Promise.all(spread(fleet, 300, KEYS.plain))))
    assert.deepEqual([...new Set(answers.map(({ status }) => status))].sort(), [200, 402])
    const all = served(answers)
    assert.equal(calls() - before, all)
    assert.ok(all * COST <= 1.01 * amount + 300 * EXCESS, `${all} answers`)
    assert.ok(all * COST >= 0.95 * amount, `only ${all} answers`)
    await until('all agree', async () => {
      const states = await Promise.all(fleet.all.map(budgetNow))
      return states.every(({ spent, reserved }) => spent === all * COST && reserved === 0)
    })
    assert.equal(lost(fleet.all), 0)
  })

  test('a stopped Redis: leases are used, and then the overdraft, and all are in step again', async () => {
    await using fleet = await three('0.60', {})
    const before = calls()
    for (const answer of await Promise.all(spread(fleet, 30, KEYS.plain))) assert.equal(answer.status, 200)
    await until('all know it', async () =>
      (await Promise.all(fleet.all.map(budgetNow))).every(({ spent }) => spent === 30 * COST),
    )
    fleet.redis.signal('SIGSTOP')
    const during: Answer[] = []
    try {
      for (let round = 0; round < 4; round++) during.push(...(await Promise.all(spread(fleet, 60, KEYS.plain))))
      await until('all are degraded', async () =>
        (await Promise.all(fleet.all.map(health))).every(
          ({ status, problems }) =>
            status === 'degraded' &&
            problems[0].component === 'limits' &&
            problems[0].reason === 'Redis does not answer within 1000 ms',
        ),
      )
      for (const one of fleet.all) {
        const ready = await fetch(`${one.url}/health/ready`, { headers: { connection: 'close' } })
        assert.equal(ready.status, 200)
        const page = await (await fetch(`${one.url}/metrics`, { headers: { connection: 'close' } })).text()
        assert.match(page, /^headgate_store_up\{store="limits"\} 0$/m)
        assert.match(page, /^headgate_store_seconds_count\{store="limits",op="batch"\} \d+$/m)
        assert.equal((await budgetNow(one)).authority, 'degraded')
      }
    } finally {
      fleet.redis.signal('SIGCONT')
    }
    assert.deepEqual([...new Set(during.map(({ status }) => status))].sort(), [200, 402])
    for (const { status, headers } of during)
      if (status === 402) assert.match(headers.get('x-headgate-limit') ?? '', /^budget; id=bud_[a-z]+(; degraded)?$/)
    const all = calls() - before
    // 120 answers in all, and one more by the overdraft of 1 %.
    assert.ok(all * COST <= 606_000_000 + 180 * EXCESS, `${all} answers`)
    await until('all are in step', async () =>
      (await Promise.all(fleet.all.map(budgetNow))).every(
        ({ spent, reserved, authority }) => spent === all * COST && reserved === 0 && authority === 'ok',
      ),
    )
    for (const one of fleet.all) {
      await one.line(({ event, status }) => event === 'limits' && status === 'ok')
      await until('the gateway is well', async () => (await health(one)).status === 'ok')
      assert.doesNotMatch(one.output(), /redis:\/\/|127\.0\.0\.1:\d+\/?0?"? .*redis/)
    }
  })

  test('a flushed Redis receives what was spent, also of a gateway that starts again', async () => {
    await using fleet = await three()
    for (const answer of await Promise.all(spread(fleet, 30, KEYS.plain))) assert.equal(answer.status, 200)
    const allSpent = () =>
      until('all agree', async () => {
        const states = await Promise.all(fleet.all.map(budgetNow))
        return states.every(({ spent, reserved }) => spent === 30 * COST && reserved === 0)
      })
    await allSpent()
    await fleet.redis.command('FLUSHALL')
    await allSpent()
  })

  test('what a gateway has spent counts after it has ended, and from its ledger after a flush', async () => {
    await using redis = await startRedis()
    const data = { DATA_DIR: 'data' }
    const first = await gateway(redis, '1000.00', data)
    for (let at = 0; at < 4; at++) assert.equal((await ask(first, KEYS.plain)).status, 200)
    await until('counted', async () => (await budgetNow(first)).spent === 4 * COST)
    const second = await gateway(redis, '1000.00', data)
    try {
      assert.equal((await budgetNow(second)).spent, 4 * COST)
      assert.equal(await first.stop(), 0)
      assert.equal((await budgetNow(second)).spent, 4 * COST)
    } finally {
      await first.stop()
      await second.stop()
    }
  })

  test('slots of a killed gateway are free again', async () => {
    await using fleet = await three()
    const held = Promise.withResolvers<void>()
    respond = async (act) => {
      await held.promise
      return act
    }
    const before = calls()
    const asked = Array.from({ length: 6 }, () => ask(fleet.first, KEYS.slots).catch(() => null))
    await until('all slots are in use', () => calls() - before === 6)
    assert.equal((await ask(fleet.second, KEYS.slots)).status, 429)
    fleet.first.child.kill('SIGKILL')
    const since = performance.now()
    respond = (act) => act
    held.resolve()
    await Promise.all(asked)
    await until('the slots are free', async () => (await ask(fleet.second, KEYS.slots)).status === 200)
    assert.ok(performance.now() - since < 60_000, `${performance.now() - since} ms`)
  })

  test('corrections and resets act on all gateways', async () => {
    await using fleet = await three()
    for (const answer of await Promise.all(spread(fleet, 9, KEYS.plain))) assert.equal(answer.status, 200)
    const agree = (spent: number) =>
      until(`all have spent ${spent}`, async () =>
        (await Promise.all(fleet.all.map(budgetNow))).every((one) => one.spent === spent && one.reserved === 0),
      )
    await agree(9 * COST)
    const headers = { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', connection: 'close' }
    const list = await fetch(`${fleet.first.url}/admin/api/v1/budgets`, { headers })
    // biome-ignore lint/suspicious/noExplicitAny: the test reads one member of the answer
    const { data }: any = await list.json()
    const correct = async (one: Started, action: string, body: object) => {
      const url = `${one.url}/admin/api/v1/budgets/${data[0].id}/${action}`
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
      assert.equal(response.status, 200, await response.text())
    }
    await correct(fleet.second, 'adjust', { amount: '0.01', reason: 'test' })
    await agree(9 * COST + 10_000_000)
    await correct(fleet.third, 'reset', { reason: 'test' })
    await agree(0)
    await fleet.redis.command('FLUSHALL')
    await agree(0)
    assert.equal((await ask(fleet.first, KEYS.plain)).status, 200)
    await agree(COST)
  })

  test('gateways with workers share them too', async () => {
    await using redis = await startRedis()
    const env = { LEASE_TIMEOUT: '60000' }
    const all = await Promise.all([gateway(redis, '0.10', { ...env, WORKERS: '2' }), gateway(redis, '0.10', env)])
    try {
      await spendAll(all, calls)
    } finally {
      for (const one of all) assert.equal(await one.stop(), 0)
    }
  })
})

describe('limits that gateways share in Postgres, without Redis', { skip: skipPostgres || skipWithoutProc }, () => {
  test('a budget is spent by all together, and a server that has failed receives it from the ledger', async () => {
    const upstream = await startUpstream((request) => answerWith(request, ANSWER))
    const server = await startPostgres()
    const gateway = (env: Readonly<Record<string, string>>) =>
      start({
        env: {
          OPENAI_API_KEY: 'sk-0123456789',
          OPENAI_BASE_URL: `${upstream.url}/v1`,
          OPENAI_MODELS: 'm',
          DATABASE_URL: server.url,
          ...env,
        },
        files: { 'headgate.yaml': yaml('0.10') },
      })
    const all = [await gateway({ WORKERS: '2' }), await gateway({})]
    try {
      const spent = await spendAll(all, () => callsOf(upstream))
      await server.stop()
      await until('both are degraded', async () =>
        (await Promise.all(all.map(health))).every(({ problems }) =>
          problems?.some(
            ({ component, reason }: Record<string, string>) => component === 'limits' && /Postgres/.test(reason ?? ''),
          ),
        ),
      )
      await server.start()
      await until('both are in step', async () =>
        // The admin API may answer 503 until each thread has its connection again.
        (await Promise.all(all.map((one) => budgetNow(one).catch(() => null)))).every(
          (now) => now?.authority === 'ok' && now.spent === spent,
        ),
      )
      for (const one of all) assert.equal((await ask(one, KEYS.plain)).status, 402)
    } finally {
      for (const one of all) assert.equal(await one.stop(), 0)
      await server.remove()
      await upstream.close()
    }
  })
})
