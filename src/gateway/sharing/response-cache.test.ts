import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import { type CachedAnswer, ResponseCache } from './response-cache.ts'

const answer = (body: string): CachedAnswer => ({
  id: 'req_1',
  headers: {},
  provider: 'a',
  model: 'm',
  used: null,
  team: 't',
  key: 'k',
  body,
})

const given = (limit = 10_000) => {
  const world = stillWorld()
  const state = { limit }
  const cache = new ResponseCache({ world, fingerprint: (text) => text, limit: () => state.limit })
  const has = (name: string) => cache.find(name, Number.POSITIVE_INFINITY) !== null
  return { world, cache, has, state }
}

test('response cache: drops the least recently used answers above its limit', () => {
  const { cache, has } = given()
  for (const name of ['a', 'b', 'c']) cache.put(name, answer('x'.repeat(2_000)), 1_000)
  assert.equal(has('a'), true)
  cache.put('d', answer('x'.repeat(2_000)), 1_000)
  assert.deepEqual(['a', 'b', 'c', 'd'].filter(has), ['a', 'c', 'd'])
  assert.ok(cache.bytes <= 10_000)
})

test('response cache: its bytes are never above the limit, and 0 when it is empty', () => {
  const { cache, state } = given()
  for (let n = 0; n < 1_000; n++) {
    state.limit = 5_000 + (n % 7) * 1_000
    cache.put(`n${n % 37}`, answer((n % 3 === 0 ? 'é' : 'x\u0100').repeat((n * 7919) % 3_000)), 1_000)
    assert.ok(cache.bytes <= state.limit, String(n))
  }
  cache.purge()
  assert.deepEqual([cache.bytes, cache.size], [0, 0])
})

test('response cache: an answer that does not fit replaces and evicts nothing but its predecessor', () => {
  const { cache, has } = given()
  cache.put('a', answer('x'), 1_000)
  cache.put('b', answer('x'), 1_000)
  cache.put('b', answer('x'.repeat(20_000)), 1_000)
  assert.deepEqual(['a', 'b'].filter(has), ['a'])
})

test('response cache: an answer is removed when it has expired, by a look-up or by the sweep', async () => {
  const { cache, has, world } = given()
  cache.put('a', answer('x'), 1_000)
  await world.advance(999)
  assert.equal(has('a'), true)
  await world.advance(1)
  assert.equal(has('a'), false)
  assert.equal(cache.bytes, 0)
  cache.put('b', answer('x'), 1_000)
  await world.advance(120_000)
  assert.equal(cache.size, 0)
  assert.equal(world.timers(), 0)
})

test('response cache: answers being received take a quarter of its limit', () => {
  const { cache } = given()
  assert.equal(cache.take(2_500), true)
  assert.equal(cache.take(1), false)
  cache.give(2_501)
  assert.equal(cache.take(2_500), true)
})
