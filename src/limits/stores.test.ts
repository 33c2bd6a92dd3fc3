/** The same suite against every store of shared counters. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { testBudget } from '../../test/support/accounts.ts'
import { recordIn, runOf, seededStore, testLedger } from '../../test/support/counter-stores.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../../test/support/postgres.ts'
import { skipRedis, startRedis, type TestRedis } from '../../test/support/redis.ts'
import { answered, askOf, freeOf, newLease } from '../policy/accounts/held-lease.ts'
import type { LeaseAnswer, LeaseKind } from '../policy/accounts/lease.ts'
import type { CommonCounters } from './common-counters.ts'
import { CounterMemory } from './counter-memory.ts'
import { PostgresCounterStore } from './postgres-store.ts'
import { RedisStore } from './redis-store.ts'

type Stores = {
  readonly name: string
  readonly skip: false | string
  /** A connection of one gateway; each test has counters of its own. */
  readonly open: () => CommonCounters
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

const memory = (): Stores => {
  const one = new CounterMemory(() => performance.now())
  return { name: 'memory', skip: false, open: () => one, start: async () => {}, stop: async () => {} }
}

const redis = (): Stores => {
  let server: TestRedis | null = null
  const open: RedisStore[] = []
  return {
    name: 'redis',
    skip: skipRedis,
    open: () => {
      const store = new RedisStore({ url: server?.url ?? '', timeout: 60_000 })
      open.push(store)
      return store
    },
    start: async () => {
      server = await startRedis()
    },
    stop: async () => {
      await Promise.all(open.map((store) => store.close()))
      await server?.stop()
    },
  }
}

const postgres = (): Stores => {
  let server: PostgresServer | null = null
  const open: PostgresCounterStore[] = []
  return {
    name: 'postgres',
    skip: skipPostgres,
    open: () => {
      const store = new PostgresCounterStore({
        database: { url: server?.url ?? '', migrate: 'auto' },
        timeout: 60_000,
      })
      open.push(store)
      return store
    },
    start: async () => {
      server = await startPostgres()
    },
    stop: async () => {
      await Promise.all(open.map((store) => store.close()))
      await server?.remove()
    },
  }
}

let count = 0

for (const { name, skip, open, start, stop } of [memory(), redis(), postgres()])
  describe(`counters in ${name}`, { skip }, () => {
    before(start)
    after(stop)

    /** Gateways that lease one counter. */
    const given = (limit: number, kind: LeaseKind = 'budget', refill = 0) => {
      const counter = `${kind} ${kind === 'budget' ? '0 ' : ''}bud_${++count}:o w`
      const ledger = testLedger()
      const gateway = (process: string, boot = 1) => {
        const name = `${process}${count}`
        const now = () => performance.now()
        const store = seededStore(open(), name, { ledger, boot, budgets: [testBudget(1)], now })
        const held = newLease(counter, kind)
        const ask = async (more: object = {}): Promise<LeaseAnswer | undefined> => {
          const terms = { limit, refill, need: 0, want: 0, lapse: 600_000, life: 60_000, leaves: false, ...more }
          const asked = askOf(held, terms)
          const { answers, problem } = await store.lease([asked])
          assert.equal(problem, null)
          const [answer] = answers
          if (answer) answered(held, asked, answer)
          return answer
        }
        return { store, held, ask, free: () => freeOf(held), run: runOf(name, boot) }
      }
      return { counter, ledger, gateway }
    }

    test('what is granted to one is not granted to another', async () => {
      const { gateway, counter } = given(100)
      const [a, b] = [gateway('a'), gateway('b')]
      await a.ask({ need: 70 })
      await b.ask({ need: 70 })
      assert.deepEqual([a.free(), b.free(), b.held.room, b.held.others, b.held.users], [70, 30, 0, 70, 2])
      a.held.held += 50
      a.held.used += 5
      await a.ask()
      assert.deepEqual(await b.store.read([counter]), [{ used: 5, held: 50 }])
      assert.equal(a.free(), 0)
      await b.ask({ need: 10 })
      assert.deepEqual([b.free(), b.held.othersUsed, b.held.othersHeld], [40, 5, 50])
    })

    test('half of an equal share is granted before it is needed', async () => {
      const { gateway } = given(1_200)
      const [a, b] = [gateway('a'), gateway('b')]
      await a.ask({ want: 10_000 })
      await b.ask({ want: 10_000 })
      assert.deepEqual([a.free(), b.free()], [600, 150])
    })

    test('a question that comes late, or twice, changes nothing', async () => {
      const { gateway, counter } = given(100)
      const a = gateway('a')
      await a.ask({ need: 10 })
      const terms = { limit: 100, refill: 0, want: 0, lapse: 600_000, life: 60_000, leaves: false }
      const late = askOf(a.held, { ...terms, need: 20 })
      const later = askOf(a.held, { ...terms, need: 30 })
      const twice = [...(await a.store.lease([later])).answers, ...(await a.store.lease([later])).answers]
      assert.deepEqual(
        [...twice, ...(await a.store.lease([late])).answers].map(({ status }) => status),
        ['ok', 'stale', 'stale'],
      )
      // The answer was lost: the next question corrects it.
      await a.ask({ want: 10 })
      const b = gateway('b')
      await b.ask({ need: 100 })
      assert.equal(b.free(), 90)
      assert.deepEqual(await b.store.read([counter, 'budget 0 bud_none:']), [{ used: 0, held: 0 }, null])
    })

    test('one that starts again, or leaves, gives back what it did not use', async () => {
      const { gateway } = given(100)
      const before = gateway('a')
      await before.ask({ need: 80 })
      before.held.held += 10
      before.held.used += 5
      await before.ask({ need: 1 })
      const again = gateway('a', 2)
      await again.ask({ need: 100 })
      assert.equal(again.free(), 85)
      assert.equal((await before.ask())?.status, 'stale')
      again.held.used += 20
      await again.ask({ leaves: true })
      assert.deepEqual([again.held.id, again.held.granted], ['', 0])
      const other = gateway('b')
      await other.ask({ need: 100 })
      assert.deepEqual([other.free(), other.held.users], [65, 1])
    })

    test('what a process that is gone has spent is known from the ledger before others get the rest', async () => {
      const { gateway, ledger, counter } = given(100)
      const [a, b] = [gateway('a'), gateway('b')]
      const charge = counter.slice('budget '.length)
      await a.ask({ need: 60 })
      // It cannot state what it spends.
      a.held.used += 50
      recordIn(ledger, charge, { run: a.run, spent: 50 })
      const lapse = { lapse: 20 }
      for (let tries = 0; b.held.users !== 1 || b.held.id === ''; tries++) {
        assert.ok(tries < 500, 'the lease is not taken back')
        await b.ask(lapse)
        assert.equal(b.free(), 0)
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
      await b.ask({ ...lapse, need: 100 })
      assert.deepEqual([b.free(), b.held.othersUsed], [50, 50])
      assert.equal((await a.ask(lapse))?.status, 'lapsed')
      await a.ask(lapse)
      assert.deepEqual([a.held.before + a.held.used, a.free()], [50, 0])
      assert.deepEqual(await b.store.read([counter]), [{ used: 50, held: 0 }])
    })

    test('a counter that is not known begins from the ledger, once', async () => {
      const { gateway, ledger, counter } = given(100)
      ledger.sums.set(counter.slice('budget '.length), 60)
      const [a, b] = [gateway('a'), gateway('b')]
      await a.ask({ need: 100 })
      await b.ask({ need: 100 })
      assert.deepEqual([a.free(), b.free(), a.held.othersUsed], [40, 0, 60])
      assert.equal(ledger.reads, 1)
    })

    test('a counter without a known ledger is not used', async () => {
      const { gateway, ledger } = given(100)
      ledger.problem = 'disk'
      const a = gateway('a')
      assert.equal((await a.ask({ need: 1 }))?.status, 'unseeded')
      assert.equal(a.held.isKnown, false)
      ledger.problem = null
      await a.ask({ need: 1 })
      assert.equal(a.free(), 1)
    })

    test('slots of a request are free after it, and those of a process that is gone', async () => {
      const { gateway } = given(3, 'slots')
      const [a, b] = [gateway('a'), gateway('b')]
      await a.ask({ need: 3 })
      a.held.held += 3
      await b.ask({ need: 1 })
      assert.equal(b.free(), 0)
      a.held.held -= 1
      await a.ask()
      await b.ask({ need: 1 })
      assert.equal(b.free(), 1)
      const again = gateway('a', 2)
      await again.ask({ need: 3 })
      assert.equal(again.free(), 2)
    })

    test('what was used of a rate comes back', async () => {
      // 20 a ms: a busy machine takes longer than its capacity lasts.
      const { gateway } = given(100, 'rate', 20)
      const a = gateway('a')
      await a.ask({ need: 100 })
      a.held.used += 100
      await a.ask()
      await new Promise((resolve) => setTimeout(resolve, 20))
      await a.ask({ need: 100 })
      assert.equal(a.free(), 100)
    })
  })
