/** Live checks of three gateways that share a store: one sends at a time, and together they stay within the budget of the day. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseDollars } from '../../src/core/money.ts'
import type { DrillStorage } from '../../src/gateway/drill/live-store.ts'
import type { NewsStore } from '../../src/news/news-store.ts'
import { newsIn } from '../../src/news/open-news.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { skipRedis, startRedis } from '../support/redis.ts'
import { openDrill, shapeWith } from './live-drill.ts'
import { VENDORS } from './vendors.ts'

const SERVERS = [
  {
    name: 'Postgres',
    skip: skipPostgres,
    async begin() {
      const server = await startPostgres()
      return { place: { database: { url: server.url, migrate: 'auto' as const } }, stop: () => server.remove() }
    },
  },
  {
    name: 'Redis',
    skip: skipRedis,
    async begin() {
      const server = await startRedis()
      return { place: { redis: server.url }, stop: () => server.stop() }
    },
  },
]

const roleIn = (store: NewsStore, role: string): DrillStorage => ({
  claim: () => store.claim(role, 20_000),
  release: () => store.release(role),
  load: () => store.load(role),
  save: (body) => store.save(role, body),
})

/** Requests that stand for no other ones, so that each is sent. */
const CHOICES = ['choice.none', 'choice.required', 'choice.tool'] as const
const EFFORTS = ['effort.low', 'effort.medium', 'effort.high', 'effort.minimal'] as const
const SHAPES = CHOICES.flatMap((choice) => EFFORTS.map((effort) => shapeWith([choice, effort], { tools: 8, depth: 2 })))

for (const { name, skip, begin } of SERVERS)
  describe(`live checks of three gateways with ${name}`, { skip, timeout: 200_000 }, () => {
    let server: Awaited<ReturnType<typeof begin>>
    const stores: NewsStore[] = []
    before(async () => {
      server = await begin()
    })
    after(async () => {
      await Promise.all(stores.map((store) => store.close()))
      await server?.stop()
    })

    test('one runs at a time, and the day costs at most its budget', async () => {
      const vendor = VENDORS.find((one) => one.name === 'openai')
      assert.ok(vendor)
      const budget = '0.0058'
      const gateways = await Promise.all(
        ['a', 'b', 'c'].map(async (node, at) => {
          let isOpen = false
          const store = (await newsIn(server.place))({
            node,
            onNews() {},
            onState: (problem) => {
              isOpen = problem === null
            },
          })
          stores.push(store)
          for (const end = performance.now() + 30_000; !isOpen && performance.now() < end; ) await sleep(20)
          const shapes = SHAPES.filter((_, place) => place % 3 === at)
          const storage = { spent: roleIn(store, 'drill'), results: roleIn(store, 'drill-results') }
          return { ...openDrill(vendor, { shapes, storage, budget }), store, spent: 0 }
        }),
      )
      let conflicts = 0
      for (let round = 0; round < 4; round++) {
        const [first, ...others] = gateways
        assert.ok(first)
        const begun = [await first.live.begin(null, null)]
        begun.push(...(await Promise.all(others.map(({ live }) => live.begin(null, null)))))
        conflicts += begun.filter((one) => !one.ok && one.failure.kind === 'record_conflict').length
        assert.ok(
          begun.some((one) => one.ok),
          JSON.stringify(begun),
        )
        assert.ok(
          begun.every((one) => one.ok || one.failure.kind === 'record_conflict'),
          JSON.stringify(begun),
        )
        for (const [at, one] of begun.entries()) {
          const gateway = gateways[at]
          if (!one.ok || !gateway) continue
          for (let waits = 0; gateway.live.state()?.ended === null && waits < 3_000; waits++) {
            await gateway.world.advance(100)
            await sleep(1)
          }
          const state = gateway.live.state()
          assert.ok(state?.ended, 'the run has no end')
          gateway.spent += state.spent
        }
        gateways.push(...gateways.splice(0, 1))
      }
      assert.ok(conflicts > 0, 'no two gateways began at a time')
      const total = gateways.reduce((sum, { spent }) => sum + spent, 0)
      const most = parseDollars(budget)
      assert.ok(most.ok && total > 0 && total <= most.value, `${total} of ${budget}`)
      const stored: unknown = JSON.parse((await gateways[0]?.store.load('drill')) ?? '{}')
      assert.deepEqual(stored, { day: Math.floor((gateways[0]?.world.date() ?? 0) / 86_400_000), nano: total })
      assert.ok(
        gateways.some(({ live }) => (live.state()?.left.budget ?? 0) > 0),
        'the budget was never reached',
      )
      assert.ok(gateways.filter(({ world }) => world.calls.length > 0).length > 1, 'only one gateway has sent')
    })
  })
