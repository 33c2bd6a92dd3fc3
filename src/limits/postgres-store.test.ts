/** What is different in Postgres: transactions of several gateways at a time, retention, and a server that fails. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { skipPgBouncer, startPgBouncer } from '../../test/support/pgbouncer.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../../test/support/postgres.ts'
import type { LeaseReply } from '../gateway/accounts/counter-store.ts'
import type { LeaseAsk } from '../policy/accounts/lease.ts'
import { PostgresPool } from '../storage/sql/postgres/pool.ts'
import { SHARED_LIMITS } from './postgres-schema.ts'
import { PostgresCounterStore, type PostgresStoreOptions } from './postgres-store.ts'

const ZERO = { spent: 0, recorded: [], by: 'begin', quiet: 0 } as const
const ASK: LeaseAsk = {
  ...{
    counter: 'budget 0 bud_test:',
    kind: 'budget',
    limit: 100,
    refill: 0,
    seq: 1,
    id: '',
    granted: 0,
    used: 0,
    held: 0,
  },
  ...{ before: 0, left: '', need: 0, want: 0, lapse: 600_000, life: 60_000, seed: ZERO, leaves: false },
}
const statusesOf = ({ problem, answers }: LeaseReply) => problem ?? answers.map(({ status }) => status).join()

describe('shared counters in Postgres', { skip: skipPostgres, concurrency: false }, () => {
  let server: PostgresServer
  const stores: PostgresCounterStore[] = []
  /** One with connections of its own: a thread has one for all that have the same URL. */
  const open = (more: Partial<PostgresStoreOptions> = {}, url = server.url): PostgresCounterStore => {
    const database = { url: `${url}?number=${stores.length}`, migrate: 'auto' } as const
    const store = new PostgresCounterStore({ database, timeout: 60_000, ...more })
    stores.push(store)
    return store
  }
  before(async () => {
    server = await startPostgres()
  })
  after(async () => {
    await Promise.all(stores.map((store) => store.close()))
    await server?.remove()
  })

  /** Gateways that ask for the same counters at a time, each in another order, with questions that overlap. */
  const race = async (name: string, url = server.url) => {
    const [limit, counters, gateways] = [50, 12, 4]
    const granted = new Map<string, number>()
    const ids = new Map<string, Set<string>>()
    await Promise.all(
      Array.from({ length: gateways }, async (_, gateway) => {
        const store = open({}, url)
        const own = new Map<string, LeaseAsk>()
        for (let round = 0; round < 15; round++) {
          const first = (round * 5 + gateway * 7) % counters
          const names = Array.from({ length: counters }, (_, at) => `budget 0 bud_${name}:${(first + at) % counters}`)
          const asks = names.map((counter) => ({ ...(own.get(counter) ?? { ...ASK, counter, limit }), need: 1 }))
          const halves = [asks.slice(0, counters / 2), asks.slice(counters / 2)]
          const holder = { process: `${name} ${gateway}`, boot: 1, run: '' }
          const replies = await Promise.all(halves.map((half) => store.lease(holder, half)))
          for (const [at, answer] of replies.flatMap(({ answers }) => answers).entries()) {
            assert.equal(answer.status, 'ok')
            const ask = asks[at]
            if (answer.status !== 'ok' || !ask) continue
            granted.set(ask.counter, (granted.get(ask.counter) ?? 0) + answer.granted)
            ids.set(ask.counter, (ids.get(ask.counter) ?? new Set()).add(answer.id))
            const next = { id: answer.id, granted: ask.granted + answer.granted, used: ask.granted, seed: null }
            own.set(ask.counter, { ...ask, ...next, seq: ask.seq + 1 })
          }
        }
      }),
    )
    assert.equal(granted.size, counters)
    for (const [counter, sum] of granted) assert.equal(sum, limit, counter)
    for (const [counter, of] of ids) assert.equal(of.size, 1, `${counter} has begun more than once`)
  }

  test('many gateways that ask at a time begin a counter once, and are granted its limit and no more', () => race('a'))

  test('also behind PgBouncer in transaction mode', { skip: skipPgBouncer }, async () => {
    const pooler = await startPgBouncer(server, 3)
    try {
      await race('b', pooler.url)
    } finally {
      await Promise.all(stores.splice(0).map((store) => store.close()))
      await pooler.stop()
    }
  })

  test('what is over is deleted, and not used before', async () => {
    let now = Date.now()
    const store = open({ now: () => now })
    const pool = new PostgresPool({
      ...{ url: server.url, schema: SHARED_LIMITS.name, max: 1, applicationName: 'headgate test' },
    })
    const rows = async (table: string) => (await pool.query(`SELECT name FROM ${table}`)).rows.length
    await pool.query('TRUNCATE counter, process')
    const short = { ...ASK, counter: 'budget 0 bud_short:', life: 10_000 }
    assert.equal(statusesOf(await store.lease({ process: 'a', boot: 1, run: '' }, [short, ASK])), 'ok,ok')
    now += 9_000
    assert.equal(statusesOf(await store.lease({ process: 'b', boot: 1, run: '' }, [{ ...short, seed: null }])), 'ok')
    now += 11_000
    await store.sweep()
    assert.deepEqual([await rows('counter'), await rows('process')], [1, 1])
    const reply = await store.lease({ process: 'b', boot: 1, run: '' }, [{ ...ASK, seed: null, seq: 2 }])
    assert.deepEqual([statusesOf(reply), reply.peers], ['ok', 1])
    now += 61_000
    assert.equal(
      statusesOf(await store.lease({ process: 'b', boot: 1, run: '' }, [{ ...ASK, seed: null, seq: 3 }])),
      'unseeded',
    )
    assert.equal(await rows('counter'), 1)
    await store.sweep()
    assert.equal(await rows('counter'), 0)
    await pool.close()
  })

  test('a server that has failed has none of its counters, rather than earlier ones', async () => {
    const store = open({ timeout: 2_000 })
    const ask = (more: Partial<LeaseAsk>) => store.lease({ process: 'a', boot: 1, run: '' }, [{ ...ASK, ...more }])
    const { epoch } = await ask({})
    await server.stop()
    const lost = await ask({ seq: 2, seed: null })
    assert.match(lost.problem ?? '', /Postgres/)
    assert.doesNotMatch(lost.problem ?? '', /127\.0\.0\.1/)
    assert.equal(await store.read([ASK.counter]), null)
    await server.start()
    const back = await ask({ seq: 3, seed: null })
    assert.equal(statusesOf(back), 'unseeded')
    assert.notEqual(back.epoch, epoch)
  })

  test('nor has a standby that has taken over', async () => {
    const standby = await startPostgres(server)
    try {
      const { epoch } = await open().lease({ process: 'a', boot: 1, run: '' }, [ASK])
      await standby.promote()
      const store = open({}, standby.url)
      const back = await store.lease({ process: 'a', boot: 1, run: '' }, [{ ...ASK, seq: 2, seed: null }])
      assert.equal(statusesOf(back), 'unseeded')
      assert.notEqual(back.epoch, epoch)
      await Promise.all(stores.splice(0).map((one) => one.close()))
    } finally {
      await standby.remove()
    }
  })

  test('the tables are created when they are needed, unless that is not permitted', async () => {
    const url = server.newDatabase()
    const never = open({ database: { url, migrate: 'never' } })
    assert.equal(
      (await never.lease({ process: 'a', boot: 1, run: '' }, [ASK])).problem,
      'the schema headgate_limits does not exist; run: headgate db migrate',
    )
    const store = open({ database: { url, migrate: 'auto' } })
    assert.equal(statusesOf(await store.lease({ process: 'a', boot: 1, run: '' }, [ASK])), 'ok')
    assert.equal(statusesOf(await never.lease({ process: 'b', boot: 1, run: '' }, [ASK])), 'ok')
    const pool = new PostgresPool({ url, schema: 'public', max: 1, applicationName: 'headgate test' })
    // The second as some services do at a failover.
    for (const statement of ['DROP SCHEMA headgate_limits CASCADE', 'DROP TABLE headgate_limits.counter']) {
      await pool.query(statement)
      assert.match((await store.lease({ process: 'a', boot: 1, run: '' }, [ASK])).problem ?? '', /does not exist/)
      assert.equal(statusesOf(await store.lease({ process: 'a', boot: 2, run: '' }, [ASK])), 'ok')
    }
    await pool.close()
  })
})
