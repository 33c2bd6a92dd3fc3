/** A hard budget of several worker processes: they spend it together, and nothing is lost or counted twice when one dies. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'
import { spentOfBudgets } from './support/stored-usage.ts'

/** 100 tokens of input at $10 and 100 of output at $40 per million: half a cent. */
const COST = 5_000_000
const ANSWER = { text: 'x', input: 100, output: 100 }
const AMOUNT = 1_000_000_000
const YAML = `prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]
budgets: { all: { amount: "1.00", period: total } }
`
const BODY = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
/** The reservation of one request is at most this much above its cost. */
const MARGIN = 2 * COST
/** And at most this much below it: the 77 bytes of the body are estimated as 26 tokens of input, not 100. */
const SHORT = 740_000
/** Requests at the same time. */
const CLIENTS = 8

describe('a budget that workers share', { skip: skipWithoutProc }, () => {
  let upstream: Upstream
  let data: string
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, ANSWER))
    data = mkdtempSync(join(tmpdir(), 'headgate-shared-'))
  })
  after(async () => {
    await upstream?.close()
    rmSync(data, { recursive: true, force: true })
  })

  const gateway = () =>
    start({
      env: {
        WORKERS: '3',
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        DATA_DIR: data,
      },
      files: { 'headgate.yaml': YAML },
    })
  /** Each request has a connection of its own, so that all workers receive some. */
  const ask = ({ base }: Started) =>
    post(`${base}/chat/completions`, BODY, { connection: 'close' }).then(
      ({ status }) => status,
      () => 0,
    )
  const askMany = async (to: Started, count: number): Promise<readonly number[]> => {
    const statuses: number[] = []
    const next = async (): Promise<void> => {
      while (statuses.length < count) statuses.push(await ask(to))
    }
    await Promise.all(Array.from({ length: CLIENTS }, next))
    return statuses
  }
  const calls = () => upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
  const spent = () => spentOfBudgets(data)

  test('is spent by all together, also when a worker is killed and after a restart', async () => {
    await using first = await gateway()
    const early = await askMany(first, 60)
    assert.deepEqual([...new Set(early)], [200], 'no request is refused while there is room')
    // Kill one worker under load. Its requests break, and those in progress are charged at their reservations.
    const load = askMany(first, 40)
    await sleep(50)
    killWorker(first)
    await load
    await first.line(({ event }) => event === 'worker_started')

    // What others have reserved and not spent is used too, so some of the last requests may still be served.
    let rest: readonly number[] = [200]
    for (let round = 0; round < 10 && !rest.every((status) => status === 402); round++) rest = await askMany(first, 100)
    assert.deepEqual([...new Set(rest)], [402], 'the budget is used up in the end')
    // The killed worker's requests are charged as estimated, and so are the last ones until they end.
    assert.ok(calls() * COST <= AMOUNT + 2 * CLIENTS * SHORT, `${calls()} calls cost more than the budget`)
    await first.stop()
    const total = spent()
    assert.ok(total <= AMOUNT + MARGIN, `spent ${total}`)
    // Requests that were in progress when the worker was killed.
    assert.ok(Math.abs(total - calls() * COST) < CLIENTS * MARGIN, `spent ${total}, billed ${calls() * COST}`)
    assert.ok(total > AMOUNT - CLIENTS * MARGIN, `only ${total} of ${AMOUNT} could be spent`)

    await using second = await gateway()
    // What the workers' leases had left in parts may be enough for a request together.
    let more = 0
    while (more < CLIENTS && (await ask(second)) === 200) more++
    assert.equal(await ask(second), 402)
    await second.stop()
    assert.equal(spent(), total + more * COST)
    assert.ok(spent() <= AMOUNT + MARGIN, `spent ${spent()}`)
  })
})

describe('a stopped first process', { skip: skipWithoutProc }, () => {
  test('hangs no request: workers use their shares of what is left, and it counts them afterwards', async () => {
    await using upstream = await closing(await startUpstream((request) => answerWith(request, ANSWER)))
    await using gateway = await start({
      env: {
        WORKERS: '2',
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.it.url}/v1`,
        OPENAI_MODELS: 'm',
      },
      // The rest after 20 requests is 100; the share of a worker 50.
      files: { 'headgate.yaml': YAML.replace('"1.00"', '"0.60"') },
    })
    const ask = () => post(`${gateway.base}/chat/completions`, BODY, { connection: 'close' })
    const now = async () => {
      const response = await fetch(`${gateway.url}/admin/api/v1/budgets`, { headers: { connection: 'close' } })
      return JSON.parse(await response.text()).data[0].now
    }
    for (let at = 0; at < 20; at++) assert.equal((await ask()).status, 200)
    const { pid } = gateway.child
    assert.ok(pid)
    process.kill(pid, 'SIGSTOP')
    try {
      // Each worker waits 3 s once; then it decides itself.
      const answers = await Promise.all(Array.from({ length: 8 }, ask))
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
      assert.equal((await now()).authority, 'degraded')
      const many: Awaited<ReturnType<typeof ask>>[] = []
      while (many.length < 200) many.push(...(await Promise.all(Array.from({ length: 8 }, ask))))
      const refused = many.filter(({ status }) => status !== 200)
      assert.ok(refused.length > 0)
      for (const { status, headers } of refused) {
        assert.equal(status, 402)
        assert.match(headers.get('x-headgate-limit') ?? '', /^budget; id=bud_[a-z]+; degraded$/)
      }
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    const calls = upstream.it.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
    // A worker may not know of the latest of the 20 requests: it counts half of them, at most, as left.
    assert.ok(calls * COST <= 600_000_000 + 10 * COST + MARGIN, `${calls} calls cost more than the budget`)
    // Each worker resumes with its own next answer, and states then what it has used meanwhile.
    const whole = Array.from({ length: 8 }, () => ['ok', calls * COST, 0])
    const views = async () => {
      const all = await Promise.all(whole.map(now))
      return all.map(({ authority, spent, reserved }) => [authority, Math.round(Number(spent) * 1e9), Number(reserved)])
    }
    let seen = await views()
    for (let tries = 0; tries < 300 && !isDeepStrictEqual(seen, whole); tries++) {
      await sleep(100)
      seen = await views()
    }
    assert.deepEqual(seen, whole)
    assert.equal(await gateway.stop(), 0)
  })

  test('refuses strict budgets with 503 until it answers again', async () => {
    await using upstream = await closing(await startUpstream((request) => answerWith(request, ANSWER)))
    await using gateway = await start({
      env: {
        WORKERS: '2',
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.it.url}/v1`,
        OPENAI_MODELS: 'm',
      },
      files: {
        'headgate.yaml': YAML.replace('period: total', 'period: total, enforcement: strict').replace(
          '"1.00"',
          '"0.10"',
        ),
      },
    })
    const ask = () => post(`${gateway.base}/chat/completions`, BODY, { connection: 'close' })
    for (let at = 0; at < 8; at++) assert.equal((await ask()).status, 200)
    const { pid } = gateway.child
    assert.ok(pid)
    const calls = () => upstream.it.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
    process.kill(pid, 'SIGSTOP')
    try {
      // Each worker has at most a quarter of the 12 that are left, and uses it.
      const answers = await Promise.all(Array.from({ length: 16 }, ask))
      const refused = answers.filter(({ status }) => status !== 200)
      assert.ok(refused.length >= 8, `${refused.length} refused`)
      for (const { status, headers, json } of refused) {
        assert.deepEqual([status, json().error.code], [503, 'budget_unavailable'])
        assert.match(headers.get('x-headgate-limit') ?? '', /^budget; id=bud_[a-z]+; degraded$/)
        assert.equal(headers.get('retry-after'), '1')
      }
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    assert.ok(calls() <= 20, `${calls()} calls`)
    const served = async () => {
      for (let tries = 0; (await ask()).status !== 200; tries++) {
        assert.ok(tries < 300)
        await sleep(100)
      }
    }
    await served()
    assert.equal(await gateway.stop(), 0)
  })
})

/** Closes an upstream at the end of the scope. */
const closing = async <T extends { close(): Promise<void> }>(it: T) => ({ it, [Symbol.asyncDispose]: () => it.close() })

/** Kills one of the worker processes. */
const killWorker = ({ child }: Started): void => {
  const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ').map(Number)
  const [one] = children
  assert.ok(one, 'the supervisor has children')
  process.kill(one, 'SIGKILL')
}
