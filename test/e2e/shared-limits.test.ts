/** Three gateways with a data folder each that count limits and budgets together in a real Redis or Valkey. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { skipRedis, startRedis, type TestRedis } from '../support/redis.ts'
import { type Act, startUpstream, type Upstream } from '../support/upstream.ts'
import { skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'
import { type StoredUsage, storedUsage } from './support/stored-usage.ts'

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

const usageOf = ({ folder }: Started): StoredUsage => storedUsage(join(folder, '.headgate'))

const isStored = (one: Started): boolean => {
  const { attempts, requests } = usageOf(one)
  return requests.length >= 500 && attempts.every(({ ended }) => ended !== null)
}

/** What was committed at most while each request was in progress that was refused, where it is less than `least`. */
const refusedEarly = (usages: readonly StoredUsage[], least: number): readonly number[] => {
  const attempts = usages.flatMap((usage) => usage.attempts)
  const refused = usages.flatMap(({ requests }) => requests.filter(({ status }) => status === 402))
  const committedAt = (at: number) =>
    attempts
      .filter(({ started }) => started <= at)
      .reduce((sum, { ended, cost, reserved }) => {
        const charged = cost ?? reserved
        return sum + (ended === null || ended > at ? reserved : ended < at ? charged : Math.max(charged, reserved))
      }, 0)
  return refused
    .map(({ received, ended }) => {
      const to = ended ?? received
      const times = attempts.map(({ started }) => started).filter((at) => at >= received && at <= to)
      return Math.max(...[received, to, ...new Set(times)].map(committedAt))
    })
    .filter((committed) => committed < least)
}

const lost = (gateways: readonly Started[]): number =>
  gateways.flatMap((one) => one.lines()).filter(({ event, status }) => event === 'limits' && status === 'degraded')
    .length

describe('limits that several gateways share', { skip: skipRedis || skipWithoutProc, timeout: 600_000 }, () => {
  let upstream: Upstream
  let respond: (act: Act) => Act | Promise<Act>
  before(async () => {
    respond = (act) => act
    upstream = await startUpstream((request) => respond(answerWith(request, ANSWER)))
  })
  after(() => upstream?.close())

  const calls = () => upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
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
  /** Three gateways that know of each other. */
  const three = async (amount = '1000.00', env: Readonly<Record<string, string>> = {}) => {
    const redis = await startRedis()
    const all = await Promise.all(Array.from({ length: 3 }, () => gateway(redis, amount, env)))
    const [first, second, third] = all
    assert.ok(first && second && third)
    // Each has sent a beat since the last one has joined.
    await sleep(2_500)
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
  /**
   * Runs an experiment with new gateways. On a machine that is so busy that Redis does not answer for 50 ms, gateways use
   * their shares: then it is repeated.
   */
  const undisturbed = async (run: (fleet: Three) => Promise<void>, amount?: string): Promise<void> => {
    for (let tries = 1; ; tries++) {
      await using fleet = await three(amount)
      let failure: unknown = null
      const answers = await run(fleet).catch((error: unknown) => {
        failure = error
      })
      if (failure === null) return answers
      if (tries === 5 || lost(fleet.all) === 0) throw failure
    }
  }

  test('requests per minute hold over all together', () =>
    undisturbed(async (fleet) => {
      const since = performance.now()
      const answers = await Promise.all(spread(fleet, 90, KEYS.minute))
      const served = answers.filter(({ status }) => status === 200).length
      const refilled = Math.ceil((performance.now() - since) / 2_000)
      assert.ok(served >= 30 && served <= 30 + refilled, `${served} of 30, and ${refilled} more`)
      const refused = answers.find(({ status }) => status === 429)
      assert.match(refused?.headers.get('x-headgate-limit') ?? '', /^requests; id=key_[a-z]+$/)
      assert.ok(Number(refused?.headers.get('retry-after')) >= 1)
    }))

  test('tokens per minute hold over all together', () =>
    undisturbed(async (fleet) => {
      const since = performance.now()
      let used = 0
      // One after the other: each answer uses 200 tokens, and 126 are estimated.
      for (let at = 0; at < 30; at++) {
        const one = fleet.all[at % 3]
        assert.ok(one)
        if ((await ask(one, KEYS.tokens)).status === 200) used += 200
      }
      const refilled = (performance.now() - since) / 20
      assert.ok(used >= 2_800 && used <= 3_000 + refilled + 200, `${used} of 3000 tokens, and ${refilled} more`)
    }))

  test('requests in progress hold over all together, and end with them', () =>
    undisturbed(async (fleet) => {
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
      const answers = await Promise.all(asked)
      assert.equal(answers.filter(({ status }) => status === 200).length, 6)
      await until('the slots are free', async () =>
        (await Promise.all(spread(fleet, 6, KEYS.slots))).every(({ status }) => status === 200),
      )
    }))

  test('a hard budget under 300 concurrent requests is not exceeded, and nothing is refused below 95 %', () =>
    undisturbed(async (fleet) => {
      // Room for 200 answers.
      const amount = 1_000_000_000
      const before = calls()
      const answers: Answer[] = []
      for (let round = 0; round < 5; round++) answers.push(...(await Promise.all(spread(fleet, 300, KEYS.plain))))
      const served = answers.filter(({ status }) => status === 200).length
      const statuses = [...new Set(answers.map(({ status }) => status))].sort()
      assert.deepEqual(statuses, [200, 402])
      assert.equal(calls() - before, served)
      assert.ok(served * COST <= amount + 300 * EXCESS, `${served} answers`)
      assert.ok(served * COST >= amount - 2 * COST, `only ${served} answers`)
      await Promise.all(fleet.all.map((one) => until('stored', () => isStored(one))))
      const early = refusedEarly(fleet.all.map(usageOf), 0.95 * amount)
      assert.deepEqual(early, [], 'requests that were refused with less committed')
      await until('all agree', async () => {
        const states = await Promise.all(fleet.all.map(budgetNow))
        return states.every(({ spent, reserved }) => spent === served * COST && reserved === 0)
      })
    }, '1.00'))

  test('a stopped Redis refuses nothing that shares allow, and all are in step again', async () => {
    await using fleet = await three('0.60')
    const before = calls()
    for (const answer of await Promise.all(spread(fleet, 30, KEYS.plain))) assert.equal(answer.status, 200)
    await until('all know it', async () =>
      (await Promise.all(fleet.all.map(budgetNow))).every(({ spent }) => spent === 30 * COST),
    )
    await sleep(2_500)
    fleet.redis.signal('SIGSTOP')
    const during: Answer[] = []
    try {
      for (let round = 0; round < 4; round++) {
        const answers = await Promise.all(spread(fleet, 60, KEYS.plain))
        during.push(...answers)
      }
      await until('all are degraded', async () =>
        (await Promise.all(fleet.all.map(health))).every(
          ({ status, problems }) =>
            status === 'degraded' &&
            problems[0].component === 'limits' &&
            problems[0].reason === 'Redis does not answer within 50 ms',
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
    const served = calls() - before
    // 90 answers are left, 30 for each.
    assert.ok(served * COST <= 600_000_000 + 180 * EXCESS, `${served} answers`)
    assert.ok(served >= 100, `${served} answers`)
    await until('all are in step', async () =>
      (await Promise.all(fleet.all.map(budgetNow))).every(
        ({ spent, reserved, authority }) => spent === served * COST && reserved === 0 && authority === 'ok',
      ),
    )
    for (const one of fleet.all) {
      await one.line(({ event, status }) => event === 'limits' && status === 'ok')
      // One line for each loss; a busy machine may have several.
      const back = one.lines().filter(({ event, status }) => event === 'limits' && status === 'ok').length
      assert.ok(lost([one]) >= 1 && lost([one]) <= back, `lost ${lost([one])} times, back ${back} times`)
      assert.equal((await health(one)).status, 'ok')
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
    const all = await Promise.all([gateway(redis, '0.10', { WORKERS: '2' }), gateway(redis, '0.10')])
    try {
      const before = calls()
      const statuses: number[] = []
      for (let at = 0; at < 40; at++) statuses.push((await ask(all[at % 2] as Started, KEYS.plain)).status)
      const served = calls() - before
      assert.equal(statuses.filter((status) => status === 200).length, served)
      assert.ok(served >= 20 && served <= 21, `${served} answers: ${statuses}`)
      await until('both agree', async () =>
        (await Promise.all(all.map(budgetNow))).every(({ spent }) => spent === served * COST),
      )
      redis.signal('SIGSTOP')
      await until('both are degraded', async () => {
        for (const one of all) await ask(one, KEYS.plain)
        return (await Promise.all(all.map(health))).every(({ status }) => status === 'degraded')
      })
      redis.signal('SIGCONT')
      await until('both are in step', async () =>
        (await Promise.all(all.map(health))).every(({ status }) => status === 'ok'),
      )
    } finally {
      redis.signal('SIGCONT')
      for (const one of all) assert.equal(await one.stop(), 0)
    }
  })
})
