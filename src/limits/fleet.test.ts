/** Several gateways that share limits and budgets. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  admitted,
  atOnce,
  budget,
  done,
  type FleetStore,
  fleetOf as fleetIn,
  inMemory,
  type Reserved,
  RTT,
} from '../../test/support/fleet.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../../test/support/postgres.ts'
import { budgetCharge } from '../core/journal.ts'
import { PostgresPool } from '../storage/sql/postgres/pool.ts'
import { SHARED_LIMITS } from './postgres-schema.ts'
import { PostgresCounterStore } from './postgres-store.ts'

const postgres = () => {
  let server: PostgresServer
  let store: PostgresCounterStore
  let pool: PostgresPool
  let now = () => 0
  const open = new Set<Promise<unknown>>()
  const follow = <T>(work: Promise<T>): Promise<T> => {
    const ended = work.finally(() => open.delete(ended))
    open.add(ended)
    return ended
  }
  return {
    name: 'Postgres',
    skip: skipPostgres,
    start: async () => {
      server = await startPostgres()
      const database = { url: server.url, migrate: 'auto' } as const
      store = new PostgresCounterStore({ database, timeout: 60_000, now: () => now() })
      await store.read([])
      pool = new PostgresPool({ url: server.url, schema: SHARED_LIMITS.name, max: 1, applicationName: 'headgate test' })
    },
    stop: async () => {
      await pool?.close()
      await store?.close()
      await server?.remove()
    },
    store: (clock: () => number): FleetStore => {
      now = clock
      const flush = () => void follow(pool.query('TRUNCATE counter, process, epoch'))
      flush()
      return {
        lease: (holder, asks) => follow(store.lease(holder, asks)),
        read: (counters) => follow(store.read(counters)),
        flush,
        working: () => (open.size === 0 ? null : Promise.all(open)),
      }
    },
  }
}

const MEMORY = { name: 'memory', skip: false, store: inMemory, start: async () => {}, stop: async () => {} } as const

for (const { name, skip, store, start, stop } of [MEMORY, postgres()])
  describe(`gateways that share limits in ${name}`, { skip }, () => {
    const fleetOf = (given: Parameters<typeof fleetIn>[0]) => fleetIn(given, store)
    before(start)
    after(stop)

    test('requests per minute hold over all together', async () => {
      const fleet = fleetOf({ limits: { requestsPerMinute: 30 } })
      assert.equal(admitted(await atOnce(fleet, 90, 0, 100)).length, 30)
      const [refused] = (await atOnce(fleet, 3, 0, 100)).filter(({ refusal }) => refusal)
      assert.ok(refused?.refusal && 'retryAfter' in refused.refusal && refused.refusal.retryAfter > 0)
      await fleet.world.advance(10_000)
      assert.equal(admitted(await atOnce(fleet, 90, 0, 100)).length, 5)
    })

    test('requests in progress hold over all together, and one after the other is never refused', async () => {
      const fleet = fleetOf({ limits: { concurrent: 6 } })
      const held = admitted(await atOnce(fleet, 30))
      assert.equal(held.length, 6)
      for (const one of held) one.end()
      await fleet.world.advance(10)
      for (let at = 0; at < 12; at++) {
        const [one] = await atOnce({ ...fleet, all: [fleet.all[at % 3] as (typeof fleet.all)[number]] }, 1, 0, 50)
        assert.equal(one?.refusal, null)
        one?.end()
      }
      const single = fleetOf({ limits: { concurrent: 1 } })
      for (let at = 0; at < 12; at++) {
        const [one] = await atOnce({ ...single, all: [single.all[at % 3] as (typeof single.all)[number]] }, 1, 0, 50)
        assert.equal(one?.refusal, null, `request ${at}`)
        one?.end()
      }
    })

    test('tokens per minute hold over all together', async () => {
      const fleet = fleetOf({ limits: { tokensPerMinute: 3_000 } })
      let used = 0
      for (let at = 0; at < 30; at++) {
        const asked = fleet.all[at % 3]?.reserve(0, 126)
        await fleet.world.advance(10)
        const one = await asked
        if (one?.refusal !== null) continue
        used += 200
        one.end(0, 200)
      }
      assert.ok(used >= 2_800 && used <= 3_000 + 15 + 200, `${used}`)
    })

    test('a hard budget is not exceeded, and nothing is refused below 95 %', async () => {
      const fleet = fleetOf({ budgets: [budget(200_000)] })
      let spent = 0
      const early: number[] = []
      for (let round = 0; round < 5; round++) {
        const all = await atOnce(fleet, 300, 1_000, 3_000)
        const held = admitted(all)
        if (held.length < all.length) early.push(spent + held.length * 1_000)
        for (const one of held) one.end()
        spent += held.length * 1_000
        await fleet.world.advance(2_000)
      }
      assert.ok(spent <= 202_000, `${spent}`)
      assert.ok(
        early.every((committed) => committed >= 190_000),
        `${early}`,
      )
      for (const one of fleet.all) {
        const reading = one.figures()
        await fleet.world.advance(10)
        assert.deepEqual(await reading, [[spent, 0]])
      }
    })

    test('one gateway that holds much gives it back before others are refused', async () => {
      const fleet = fleetOf({ budgets: [budget(100_000)] })
      const [a, b] = fleet.all
      const first = a?.reserve(1)
      await fleet.world.advance(10)
      await first
      const asked = Array.from({ length: 95 }, () => b?.reserve(1_000))
      await fleet.world.advance(5_000)
      assert.equal((await Promise.all(asked)).filter((one) => one?.refusal === null).length, 95)
    })

    test('a lost store costs at most the overdraft, and strict budgets stop', async () => {
      for (const enforcement of ['fast', 'strict'] as const) {
        const fleet = fleetOf({ budgets: [budget(100_000, { enforcement })] })
        for (const one of admitted(await atOnce(fleet, 30, 1_000, 50))) one.end()
        await fleet.world.advance(3_000)
        for (const { state } of fleet.all) state.isLost = true
        let during = 0
        let refused: Reserved['refusal'] = null
        for (let round = 0; round < 40; round++)
          for (const one of await atOnce(fleet, 3, 1_000, 1_500)) {
            one.end()
            if (one.refusal === null) during++
            else refused = one.refusal
          }
        const spent = 30_000 + during * 1_000
        assert.ok(during >= 15, `${enforcement}: ${during}`)
        assert.ok(spent <= (enforcement === 'strict' ? 100_000 : 101_000), `${spent}`)
        assert.ok(refused)
        assert.equal(enforcement === 'strict' ? refused.unavailable : refused.degraded, true)
        for (const { state } of fleet.all) state.isLost = false
        await fleet.world.advance(6_000)
        for (const one of fleet.all) {
          const reading = one.figures()
          await fleet.world.advance(10)
          assert.deepEqual(await reading, [[spent, 0]])
        }
      }
    })

    test('a partitioned gateway spends its lease and its overdraft, and all together stay within 1 %', async () => {
      const fleet = fleetOf({ budgets: [budget(100_000)] })
      for (const one of admitted(await atOnce(fleet, 30, 1_000, 50))) one.end()
      await fleet.world.advance(3_000)
      const [a] = fleet.all
      if (a) a.state.isLost = true
      let spent = 30_000
      for (let round = 0; round < 9; round++)
        for (const one of admitted(await atOnce(fleet, 9, 1_000, 1_500))) {
          one.end()
          spent += 1_000
        }
      assert.ok(spent >= 85_000 && spent <= 101_000, `${spent}`)
    })

    test('a gateway that starts while the store is away does not spend again what the ledger has', async () => {
      const fleet = fleetOf({ budgets: [budget(10_000)] })
      for (const one of admitted(await atOnce(fleet, 30, 1_000, 2_000))) one.end()
      let spent = fleet.all.reduce((sum, { state }) => sum + state.spent, 0)
      assert.equal(spent, 10_000)
      // Two are started again, and two are new.
      for (const name of ['g0', 'g1', 'g7', 'g8']) {
        const one = fleet.start(name, 2)
        one.state.isLost = true
        const asked = Array.from({ length: 10 }, () => one.reserve(1_000))
        await fleet.world.advance(10_000)
        for (const { refusal, end } of await Promise.all(asked)) {
          end()
          if (refusal === null) spent += 1_000
        }
      }
      assert.equal(spent, 10_000)
    })

    test('an emptied store begins with what was spent and is reserved', async () => {
      const fleet = fleetOf({ budgets: [budget(100_000)] })
      const held = admitted(await atOnce(fleet, 60, 1_000, 50))
      for (const one of held.slice(0, 30)) one.end()
      await fleet.world.advance(3_000)
      fleet.flush()
      let open = held.length
      for (let round = 0; round < 5; round++) open += admitted(await atOnce(fleet, 9, 1_000, 1_000)).length
      assert.ok(open >= 95 && open <= 100, `${open}`)
      for (const one of fleet.all) {
        const reading = one.figures()
        await fleet.world.advance(10)
        assert.deepEqual(await reading, [[30_000, (open - 30) * 1_000]])
      }
    })

    const skipBook = name === MEMORY.name ? false : 'what a gateway asks does not depend on the store'
    test('counters that are not in use cost nothing', { skip: skipBook }, async () => {
      const fleet = fleetOf({ budgets: [budget(1e9)], limits: { requestsPerMinute: 6_000, concurrent: 100 } })
      for (let at = 0; at < 500; at++) fleet.ledger.sums.set(budgetCharge(`bud_test:end user ${at}`, 0), 5)
      for (const one of admitted(await atOnce(fleet, 9, 1))) one.end()
      await fleet.world.advance(60_000)
      const before = fleet.asks()
      await fleet.world.advance(600_000)
      assert.equal(fleet.asks(), before)
      assert.ok(before < 300, `${before}`)
    })

    test('work of the store is that of gateways and counters, not of requests', async () => {
      const fleet = fleetOf({ budgets: [budget(1e12)], limits: { requestsPerMinute: 600_000 } })
      await atOnce(fleet, 9, 1)
      const before = fleet.asks()
      for (let round = 0; round < 100; round++) for (const one of await atOnce(fleet, 90, 1, 100)) one.end()
      // 10 s, 3 gateways, 2 counters, at most 2 questions a second.
      assert.ok(fleet.asks() - before <= 120, `${fleet.asks() - before}`)
    })

    test('corrections act on all', async () => {
      const fleet = fleetOf({ budgets: [budget(10_000)] })
      for (const one of admitted(await atOnce(fleet, 10, 1_000, 2_000))) one.end()
      assert.equal(admitted(await atOnce(fleet, 3, 1_000)).length, 0)
      await done(fleet, fleet.all[1]?.correct(-10_000))
      const again = admitted(await atOnce(fleet, 30, 1_000)).length
      assert.ok(again >= 8 && again <= 10, `${again}`)
    })

    test('when a correction is answered, no gateway refuses by an earlier answer', async () => {
      const fleet = fleetOf({ budgets: [budget(1_000)] })
      const [first, second] = fleet.all
      for (let pause = 0; pause < 1_000; pause += 70) {
        const reserved = await done(fleet, first?.reserve(1_000))
        assert.equal(reserved?.refusal, null, `${pause}`)
        reserved?.end()
        await fleet.world.advance(pause)
        await done(fleet, second?.correct(-1_000))
      }
    })

    test('corrections of several gateways count once in a counter that begins with them', async () => {
      const fleet = fleetOf({ budgets: [budget(10_000)] })
      await fleet.all[0]?.figures()
      for (const gateway of fleet.all) {
        void gateway.correct(100)
        void gateway.correct(100)
        await fleet.world.advance(3 * RTT)
      }
      await fleet.world.advance(3_000)
      assert.deepEqual(await fleet.all[0]?.figures(), [[600, 0]])
    })

    test('a gateway that reads the ledger while others begin a counter does not count their corrections twice', async () => {
      const fleet = fleetOf({ budgets: [budget(10_000)] })
      const { world, ledger, all } = fleet
      ledger.pause = (read) => (read === 1 ? null : new Promise((resolve) => void world.later(6 * RTT, resolve)))
      for (const gateway of all) await gateway.figures()
      const corrected = Promise.all(all.map(({ correct }) => correct(100)))
      await done(fleet, corrected)
      assert.deepEqual(await all[0]?.figures(), [[300, 0]])
    })
  })
