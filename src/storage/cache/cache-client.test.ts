import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { skipRedis, startRedis, startRedisCluster, type TestRedis } from '../../../test/support/redis.ts'
import type { CachedAnswer, SharedHit } from '../../gateway/sharing/response-cache.ts'
import { CacheClient } from './cache-client.ts'

const answer = (more: Partial<CachedAnswer> = {}): CachedAnswer => ({
  id: 'req_1',
  body: '{"text":"good day \u0000 \u{1f600}"}',
  headers: { 'content-type': 'application/json' },
  provider: 'a',
  model: 'm',
  used: null,
  team: 'team_one',
  key: 'key_ann',
  ...more,
})

type Server = Pick<TestRedis, 'url' | 'stop'>

const SERVERS: Readonly<Record<string, () => Promise<Server>>> = {
  'one server': () => startRedis(),
  'a cluster': startRedisCluster,
}

for (const [name, start] of Object.entries(SERVERS))
  describe(`cached answers in Redis: ${name}`, { skip: skipRedis, timeout: 200_000 }, () => {
    let server: Server
    const clients: CacheClient[] = []
    const open = () => {
      const client = new CacheClient({ url: server.url })
      clients.push(client)
      return client
    }
    /** A request waits for 100 ms at most, which a busy machine takes: it asks again. */
    const found = async (client: CacheClient, id: string): Promise<SharedHit> => {
      for (const end = performance.now() + 60_000; ; await sleep(20)) {
        const hit = await client.find(id)
        if (hit) return hit
        assert.ok(performance.now() < end, `${id} is not found`)
      }
    }
    before(async () => {
      server = await start()
    })
    after(async () => {
      for (const client of clients) await client.close()
      await server?.stop()
    })

    test('an answer is read unchanged by another gateway, with its age and its end', async () => {
      const [one, other] = [open(), open()]
      assert.equal(await one.find('unknown'), null)
      one.put('a', answer(), 60_000)
      const { answer: read, age, left } = await found(other, 'a')
      assert.deepEqual(read, answer())
      assert.ok(age >= 0 && left > 0 && Math.abs(age + left - 60_000) <= 1, `${age} ${left}`)
    })

    test('a purge removes what is selected', async () => {
      const client = open()
      const rows = { a: {}, b: { key: 'key_bob' }, c: { team: 'team_two' }, d: { provider: 'b' }, e: { model: 'n' } }
      const store = async () => {
        for (const [id, more] of Object.entries(rows)) client.put(id, answer(more), 60_000)
        for (const id of Object.keys(rows)) await found(client, id)
      }
      const selectors = [
        [{}, 5],
        [{ key: 'key_bob' }, 1],
        [{ team: 'team_one' }, 4],
        [{ model: 'm' }, 4],
        [{ model: 'b/m' }, 1],
        [{ model: 'n', key: 'key_bob' }, 0],
      ] as const
      for (const [selector, count] of selectors) {
        await store()
        assert.equal(await client.purge(selector), count, JSON.stringify(selector))
        assert.equal(await client.purge({}), 5 - count)
      }
    })
  })

describe('cached answers in Redis: faults', { skip: skipRedis, timeout: 200_000 }, () => {
  test('a server that does not answer delays one request in a second, and an answer is no longer stored when it is full', async () => {
    const server = await startRedis(undefined, ['--maxmemory', '64mb'])
    const client = new CacheClient({ url: server.url })
    try {
      client.put('a', answer(), 60_000)
      for (; !(await client.find('a')); await sleep(20));
      server.signal('SIGSTOP')
      assert.equal(await client.find('a'), null)
      const begun = performance.now()
      // The thread is not asked.
      for (let n = 0; n < 1_000 && performance.now() - begun < 500; n++) assert.equal(await client.find('a'), null)
      server.signal('SIGCONT')
      for (; !(await client.find('a')); await sleep(20));

      await server.command(`SETRANGE large ${40 * 1_048_576} x`)
      const other = new CacheClient({ url: server.url })
      for (; !(await other.find('a')); await sleep(20));
      other.put('b', answer(), 60_000)
      // Calls are made in their order.
      await other.purge({ key: 'none' })
      assert.match(await server.command('EXISTS headgate:cache:1:b'), /^:0/)
      await other.close()
    } finally {
      await client.close()
      await server.stop()
    }
  })
})
