/** What servers of Redis do to counters: they forget scripts, refuse writes, evict keys, and come back as they were earlier. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { testBudget } from '../../test/support/accounts.ts'
import { recordIn, runOf, seededStore, testLedger } from '../../test/support/counter-stores.ts'
import { freePorts } from '../../test/support/ports.ts'
import { skipRedis, startRedis, type TestRedis } from '../../test/support/redis.ts'
import { answered, askOf, freeOf, newLease } from '../policy/accounts/held-lease.ts'
import { counterKeys } from './counter-keys.ts'
import { RedisStore } from './redis-store.ts'

const HOLDER = { process: 'a', boot: 1, run: 'a' }

/** Gateways that lease one budget, and record what they spend. */
const fleetOf = (url: () => string) => {
  const counter = 'budget 0 bud_test:'
  const ledger = testLedger()
  const open: RedisStore[] = []
  let now = 0
  const gateway = (name: string) => {
    const redis = new RedisStore({ url: url(), timeout: 10_000 })
    open.push(redis)
    const store = seededStore(redis, name, { ledger, budgets: [testBudget(1)], now: () => now })
    const held = newLease(counter, 'budget')
    const ask = async (more: object = {}) => {
      const terms = { limit: 1_000, refill: 0, need: 0, want: 0, lapse: 600_000, life: 60_000, leaves: false }
      const asked = askOf(held, { ...terms, ...more })
      const { answers, problem } = await store.lease([asked])
      if (answers[0]) answered(held, asked, answers[0])
      return problem
    }
    /** Without the store. */
    const use = (amount: number) => {
      held.used += amount
      recordIn(ledger, '0 bud_test:', { run: runOf(name, 1), spent: amount })
    }
    const spend = async (amount: number) => {
      await ask({ need: amount })
      assert.ok(freeOf(held) >= amount, 'nothing is granted')
      use(amount)
      await ask()
    }
    return { held, ask, use, spend, figures: async () => (await store.read([counter]))?.[0] }
  }
  const pass = (ms: number) => {
    now += ms
  }
  return { gateway, pass, keys: counterKeys(counter), close: () => Promise.all(open.map((one) => one.close())) }
}

describe('counters in a Redis', { skip: skipRedis }, () => {
  let server: TestRedis
  before(async () => {
    server = await startRedis()
  })
  after(() => server?.stop())

  test('that has forgotten its scripts: they are sent again', async () => {
    const fleet = fleetOf(() => server.url)
    await fleet.gateway('a').spend(10)
    await server.command('SCRIPT FLUSH')
    await fleet.gateway('b').spend(10)
    assert.deepEqual(await fleet.gateway('c').figures(), { used: 20, held: 0 })
    await fleet.close()
  })

  for (const [name, begin, end, problem] of [
    ['that has no memory left', 'CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0', 'OOM'],
    ['that is a replica for some time', 'REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE', 'READONLY'],
    [
      'that has too few replicas',
      'CONFIG SET min-replicas-to-write 1',
      'CONFIG SET min-replicas-to-write 0',
      'NOREPLICAS',
    ],
  ] as const)
    test(`${name}: the problem is named, and nothing is lost`, async () => {
      await server.command('FLUSHALL')
      const fleet = fleetOf(() => server.url)
      const a = fleet.gateway('a')
      await a.spend(10)
      await server.command(begin)
      a.use(5)
      assert.equal(await a.ask(), `Redis refuses commands (${problem})`)
      await server.command(end)
      await until(async () => (await a.ask()) === null)
      assert.deepEqual(await a.figures(), { used: 15, held: 0 })
      await fleet.close()
    })

  for (const evicted of [[0], [1], [0, 1]] as const)
    test(`that evicts ${evicted.map((at) => ['a counter', 'its processes'][at]).join(' and ')}: what was spent stays counted`, async () => {
      await server.command('FLUSHALL')
      const fleet = fleetOf(() => server.url)
      const [a, b, gone] = [fleet.gateway('a'), fleet.gateway('b'), fleet.gateway('gone')]
      await gone.spend(100)
      await gone.ask({ leaves: true })
      await a.spend(10)
      await b.ask({ need: 50 })
      await server.command(`DEL ${evicted.map((at) => fleet.keys[at]).join(' ')}`)
      await a.ask({ want: 1_000 })
      await b.ask()
      fleet.pass(60_000)
      await a.ask({ want: 1_000 })
      assert.deepEqual(await a.figures(), { used: 110, held: 0 })
      assert.ok(freeOf(a.held) + freeOf(b.held) + 110 <= 1_000)
      await fleet.close()
    })
})

test('counters in a Redis that comes back with an older snapshot begin from the ledger', {
  skip: skipRedis,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-redis-'))
  const [port = 0] = await freePorts(1)
  let server = await startRedis(port, ['--dir', folder])
  const fleet = fleetOf(() => server.url)
  const [a, b] = [fleet.gateway('a'), fleet.gateway('b')]
  await a.spend(10)
  // An hour ago.
  await server.command(`HINCRBY ${fleet.keys[0]} at -3600000`)
  await server.command('SAVE')
  await a.spend(200)
  await b.spend(300)
  await b.ask({ leaves: true })
  await server.stop()
  server = await startRedis(port, ['--dir', folder])
  await until(async () => (await a.ask()) === null)
  assert.deepEqual(await a.figures(), { used: 510, held: 0 })
  const granted = a.held.granted
  await a.ask({ need: 600 })
  assert.equal(a.held.granted, granted, 'granted before all have stated what they lease')
  await fleet.close()
  await server.stop()
  rmSync(folder, { recursive: true })
})

test('a Redis 6 that is a replica now is left for another one, though a script names it in the middle of its message', async () => {
  let connections = 0
  const error =
    "-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.\r\n"
  const fake = createServer((socket) => {
    connections++
    socket.on('data', (data) => {
      const commands = data.toString().split(/\r\n(?=\*\d)/)
      for (const command of commands) socket.write(/evalsha/i.test(command) ? error : '$9\r\nloading:0\r\n')
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => fake.once('listening', resolve))
  const address = fake.address()
  const port = address !== null && typeof address === 'object' ? address.port : 0
  const store = new RedisStore({ url: `redis://127.0.0.1:${port}`, timeout: 10_000 })
  assert.equal((await store.lease(HOLDER, [])).problem, 'Redis refuses commands (READONLY)')
  await until(async () => connections > 1)
  await store.close()
  await new Promise((resolve) => fake.close(resolve))
})

/** Tries again until it is so. */
const until = async (isSo: () => Promise<boolean>): Promise<void> => {
  for (let tries = 0; !(await isSo()); tries++) {
    assert.ok(tries < 6_000, 'it does not come to that')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
