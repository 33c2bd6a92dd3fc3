/**
 * Gateways that store their usage in one Postgres database, which fails in mid-load: no request fails, and every call that
 * reached an upstream has one row afterwards.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { list, object, parseObject } from '../../src/core/json.ts'
import { failOften } from '../support/answers.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { fileOf } from './support/stage.ts'
import { checkStoredUsage, untilComplete, untilStored } from './support/stored-usage.ts'

const get = async (url: string, headers: Readonly<Record<string, string>> = {}) => {
  const answer = await fetch(url, { headers: { connection: 'close', ...headers } })
  const text = await answer.text()
  return { status: answer.status, text, json: () => parseObject(text) ?? assert.fail(text) }
}

const ADMIN = 'admin-0123456789abcdef'
/** ms for what takes seconds on an idle machine. */
const LIMIT = 120_000
const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

describe('a ledger in Postgres', { skip: skipPostgres }, () => {
  let upstream: Upstream
  let server: PostgresServer
  before(async () => {
    server = await startPostgres()
    closers.push(() => server.remove())
    upstream = await startUpstream(failOften)
    closers.push(() => upstream.close())
  })

  const newFolder = () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-shared-'))
    closers.push(() => rmSync(folder, { recursive: true, force: true }))
    return folder
  }
  const begin = async (data = newFolder(), env: Readonly<Record<string, string>> = {}): Promise<Started> => {
    const file = fileOf({
      circuit: { minRequests: 1_000_000, consecutiveFailures: 0 },
      providers: Object.fromEntries(
        ['first', 'second'].map((name) => [name, { baseUrl: `${upstream.url}/${name}/v1` }]),
      ),
      routes: { r: { targets: ['first/m', 'second/m'] } },
      prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
      budgets: { all: { amount: '1000', period: 'total' } },
      // A gateway is started while Postgres is gone.
      budget: { whenUnknown: 'serve' },
      // Keys are in the same database, and another suite is about them.
      auth: { admin: ADMIN, required: false },
    })
    const gateway = await start({
      env: { DATA_DIR: data, DATABASE_URL: server.url, ...env },
      files: { 'headgate.yaml': file },
    })
    closers.push(() => gateway.stop())
    // Until it has read the keys it accepts no calls.
    for (
      const end = performance.now() + LIMIT;
      (await get(`${gateway.url}/health/ready`)).status !== 200;
      await sleep(100)
    )
      assert.ok(performance.now() < end, 'the gateway becomes ready')
    return gateway
  }
  const kill = async ({ child }: Started) => {
    const exited = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await exited
  }

  let calls = 0
  const ask = async ({ base }: Started) => {
    const id = `call-${++calls}`
    const body = { model: 'r', max_tokens: 10, messages: [{ role: 'user', content: id }] }
    const answer = await post(`${base}/chat/completions`, body, { 'x-request-id': id }).catch(() => null)
    return answer?.status ?? 0
  }
  /** The statuses of calls, 20 at a time. */
  const askMany = async (gateway: Started, count: number): Promise<readonly number[]> => {
    const statuses = new Set<number>()
    let begun = 0
    const next = async () => {
      while (begun++ < count) statuses.add(await ask(gateway))
    }
    await Promise.all(Array.from({ length: 20 }, next))
    return [...statuses]
  }
  const untilLedger = async ({ url }: Started, works: boolean): Promise<string> => {
    for (const end = performance.now() + LIMIT; ; await sleep(100)) {
      const health = (await get(`${url}/health`)).json()
      const problem = list(health.problems).find((one) => object(one)?.component === 'ledger')
      if ((problem === undefined) === works) return String(object(problem)?.reason ?? '')
      assert.ok(performance.now() < end, JSON.stringify(health))
    }
  }
  const lagOf = async ({ url }: Started): Promise<number> =>
    Number(/^headgate_ledger_lag_seconds (\S+)$/m.exec((await get(`${url}/metrics`)).text)?.[1])

  const countsOf = (ids: readonly string[]): ReadonlyMap<string, number> => {
    const counts = new Map<string, number>()
    for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
    return counts
  }
  /**
   * Every call that an upstream has received has one row. What was recorded, but not sent before its process was killed, has
   * a row too, and only that may have one more.
   */
  const assertRows = async () => {
    const received = upstream.requests.filter(({ method }) => method === 'POST')
    const calls = countsOf(received.map(({ body }) => /call-\d+/.exec(body)?.[0] ?? ''))
    await untilStored(server.url, 'every call', (usage) => {
      const rows = countsOf(usage.attempts.map(({ request }) => request))
      return [...calls].every(([id, count]) => (rows.get(id) ?? 0) >= count)
    })
    const { attempts } = await untilComplete(server.url)
    const unknown = new Set(attempts.filter(({ outcome }) => outcome === 'unknown').map(({ request }) => request))
    for (const [id, count] of countsOf(attempts.map(({ request }) => request))) {
      const most = (calls.get(id) ?? 0) + (unknown.has(id) ? 1 : 0)
      assert.ok(count <= most, `${id}: ${count} rows, ${calls.get(id)} calls`)
    }
    return checkStoredUsage(server.url, { budgets: true })
  }

  const admin = async ({ url }: Started, path: string) => {
    const answer = await get(`${url}/admin/api/v1/${path}`, { authorization: `Bearer ${ADMIN}` })
    assert.equal(answer.status, 200, answer.text)
    return answer.json()
  }

  test('the usage of two gateways is visible through each, and a restarted one counts both in its budgets', async () => {
    const folder = newFolder()
    const [one, other] = [await begin(folder), await begin()]
    assert.deepEqual(await Promise.all([askMany(one, 60), askMany(other, 40)]), [[200], [200]])
    const cost = await assertRows()
    for (const gateway of [one, other]) {
      const { total } = await admin(gateway, 'usage?bucket=day&by=model')
      assert.equal(object(total)?.requests, calls)
      const found = list((await admin(gateway, 'requests?limit=200')).data)
      assert.equal(found.length, calls)
      assert.equal(new Set(found.map((row) => object(row)?.node)).size, 2)
    }
    await one.stop()
    const again = await begin(folder)
    const spent = async () => {
      const [budget] = list((await admin(again, 'budgets')).data)
      return JSON.stringify(budget)
    }
    const shown = (cost / 1e9).toFixed(9)
    for (const end = performance.now() + LIMIT; !(await spent()).includes(`"${shown}"`); await sleep(200))
      assert.ok(performance.now() < end, `${shown}: ${await spent()}`)
    await Promise.all([again.stop(), other.stop()])
  })

  test('Postgres is stopped, then frozen: every request is answered, and stored once afterwards', {
    timeout: 600_000,
  }, async () => {
    const [one, other] = [await begin(), await begin()]
    for (const [fail, mend] of [
      [() => server.stop(), () => server.start()],
      [async () => server.pause(), async () => server.resume()],
    ] as const) {
      const load = Promise.all([askMany(one, 200), askMany(other, 200)])
      await sleep(200)
      await fail()
      assert.deepEqual(await load, [[200], [200]])
      assert.deepEqual(await Promise.all([askMany(one, 50), askMany(other, 50)]), [[200], [200]])
      for (const gateway of [one, other]) {
        const reason = await untilLedger(gateway, false)
        assert.match(reason, /Postgres/)
        assert.doesNotMatch(reason, /127\.0\.0\.1|headgate@/)
      }
      for (const end = performance.now() + LIMIT; !((await lagOf(one)) > 0); await sleep(200))
        assert.ok(performance.now() < end, 'the lag grows')
      await mend()
      for (const gateway of [one, other]) await untilLedger(gateway, true)
      await assertRows()
    }
    for (const { output } of [one, other])
      for (const text of [
        /Usage cannot be stored in Postgres .* It is kept in the journal/,
        /stored in Postgres .* again/,
      ])
        await until(`the log contains ${text}`, () => text.test(output()))
    await Promise.all([one.stop(), other.stop()])
  })

  test('a gateway is killed in mid-load, also while Postgres is gone: its folder has what is missing', {
    timeout: 600_000,
  }, async () => {
    const folder = newFolder()
    const other = await begin()
    for (const isGone of [false, true]) {
      const gateway = await begin(folder)
      assert.deepEqual(await askMany(gateway, 50), [200])
      if (isGone) await server.stop()
      const load = Promise.all([askMany(gateway, 400), askMany(other, 100)])
      await sleep(300)
      await kill(gateway)
      const [, others] = await load
      assert.deepEqual(others, [200])
      if (isGone) {
        const offline = await begin(folder)
        assert.deepEqual(await askMany(offline, 50), [200])
        await server.start()
        await untilLedger(offline, true)
        await assertRows()
        await kill(offline)
        continue
      }
      const again = await begin(folder)
      await ask(again)
      await assertRows()
      await again.stop()
    }
    await other.stop()
  })

  test('with WORKERS the supervisor stores the usage of all, also after it is killed', {
    timeout: 600_000,
  }, async () => {
    const folder = newFolder()
    const gateway = await begin(folder, { WORKERS: '2' })
    assert.deepEqual(await askMany(gateway, 100), [200])
    await assertRows()
    const load = askMany(gateway, 200)
    await sleep(300)
    await kill(gateway)
    await load
    const again = await begin(folder, { WORKERS: '2' })
    assert.deepEqual(await askMany(again, 20), [200])
    await assertRows()
    await again.stop()
  })
})
