/** One suite for both stores of messages between gateways. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { skipPostgres, startPostgres } from '../../test/support/postgres.ts'
import { skipRedis, startRedis } from '../../test/support/redis.ts'
import type { NewsStore } from './news-store.ts'
import { type NewsPlace, newsIn } from './open-news.ts'

/** `interrupt`: the server cannot be reached for a moment; messages of before and after stay. */
type TestServer = {
  readonly place: NewsPlace
  interrupt(during: () => Promise<void>): Promise<void>
  stop(): Promise<void>
}

const SERVERS: readonly {
  readonly name: string
  readonly skip: false | string
  readonly begin: () => Promise<TestServer>
}[] = [
  {
    name: 'Postgres',
    skip: skipPostgres,
    async begin() {
      const server = await startPostgres()
      return {
        place: { database: { url: server.url, migrate: 'auto' } },
        async interrupt(during) {
          await server.stop()
          await during()
          await server.start()
        },
        stop: () => server.remove(),
      }
    },
  },
  {
    name: 'Redis',
    skip: skipRedis,
    async begin() {
      const server = await startRedis()
      return {
        place: { redis: server.url },
        async interrupt(during) {
          server.signal('SIGSTOP')
          await during()
          server.signal('SIGCONT')
          // Its clients have given up meanwhile.
          await server.command('CLIENT KILL TYPE normal')
        },
        stop: () => server.stop(),
      }
    },
  },
]

const until = async (check: () => boolean | Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 60_000; !(await check()); await sleep(20))
    if (performance.now() > end) throw new Error(`it did not happen: ${check}`)
}

for (const { name, skip, begin } of SERVERS)
  describe(`messages between gateways in ${name}`, { skip, timeout: 200_000 }, () => {
    let server: TestServer
    const stores: NewsStore[] = []
    const open = async (node: string) => {
      const received: string[] = []
      const states: (string | null)[] = []
      const store = (await newsIn(server.place))({
        node,
        onNews: (news) => received.push(...news.map(({ from, body }) => `${from} ${body}`)),
        onState: (problem) => states.at(-1) !== problem && states.push(problem),
      })
      stores.push(store)
      await until(() => states.at(-1) === null)
      return { store, received, states }
    }
    /** Sends again until the store accepts it. */
    const send = (store: NewsStore, to: string | null, ...bodies: readonly string[]) =>
      until(() =>
        store.send(bodies.map((body) => ({ to, body, isUrgent: true }))).then(
          () => true,
          () => false,
        ),
      )

    before(async () => {
      server = await begin()
    })
    after(async () => {
      await Promise.all(stores.map((store) => store.close()))
      await server?.stop()
    })

    test('all others read them in one order, and one reads what is for it', async () => {
      const [a, b, c] = await Promise.all([open('a'), open('b'), open('c')])
      await Promise.all([send(a.store, null, '1', '2', '3'), send(b.store, null, '4'), send(c.store, null, '5')])
      await send(a.store, 'b', 'for b')
      await send(a.store, null, 'last')
      await until(() => [b, c].every(({ received }) => received.includes('a last')) && b.received.includes('a for b'))
      await until(() => a.received.length === 2)
      assert.deepEqual(a.received.toSorted(), ['b 4', 'c 5'])
      assert.ok(!c.received.includes('a for b'))
      for (const { received } of [b, c])
        assert.deepEqual(
          received.filter((one) => /^a \d/.test(one)),
          ['a 1', 'a 2', 'a 3'],
        )
    })

    test('a gateway that starts reads those of the last minute, each once', async () => {
      const late = await open('late')
      await until(() => late.received.includes('a last'))
      assert.equal(new Set(late.received).size, late.received.length)
    })

    test('after an interruption those that were sent are read, each once, and the store works again', async () => {
      const [x, y] = [await open('x'), await open('y')]
      await send(x.store, null, 'before')
      await until(() => y.received.includes('x before'))
      await server.interrupt(async () => {
        const sent = x.store.send([{ to: null, body: 'lost or late', isUrgent: true }]).catch(() => {})
        await until(() => y.states.some((one) => one !== null))
        await sent
      })
      await send(x.store, null, 'after')
      await until(() => y.received.includes('x after'))
      await until(() => y.states.at(-1) === null)
      assert.equal(y.received.filter((one) => one === 'x before').length, 1)
      assert.ok(y.states.some((one) => typeof one === 'string' && !one.includes('127.0.0.1')))
    })

    test('a role has one holder, until it is given back or not claimed in time, and what was saved stays', async () => {
      const [p, q] = [await open('p'), await open('q')]
      assert.equal(await p.store.claim('r', 60_000), true)
      assert.equal(await q.store.claim('r', 60_000), false)
      assert.equal(await p.store.claim('r', 60_000), true, 'it keeps it')
      await p.store.save('r', 'state')
      await q.store.save('r', 'state of another')
      await q.store.release('r')
      assert.equal(await q.store.claim('r', 60_000), false, 'only the holder gives it back')
      await p.store.release('r')
      assert.equal(await q.store.claim('r', 1), true)
      assert.equal(await q.store.load('r'), 'state')
      assert.equal(await q.store.load('other'), null)
      await until(() => p.store.claim('r', 60_000))
    })
  })
