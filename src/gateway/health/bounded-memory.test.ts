import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { BoundedMap } from '../../core/bounded-map.ts'
import { fail } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import type { Target } from '../../core/target.ts'
import { UpstreamHealth } from './upstream-health.ts'

const MAX = 10_000

test('bounded map: evicts the names set least recently, except retained values', () => {
  const map = new BoundedMap<string>((value) => value === 'retained')
  map.set('first', 'retained')
  for (let n = 0; n < 3 * MAX; n++) map.set(`name ${n}`, 'x')
  assert.equal(map.get('first'), 'retained')
  assert.equal(map.get('name 0'), undefined)
  assert.equal(map.get(`name ${3 * MAX - 1}`), 'x')
})

test('bounded map: evicts the oldest even if all values are retained', () => {
  const map = new BoundedMap<number>(() => true)
  for (let n = 0; n < MAX + 500; n++) map.set(`name ${n}`, n)
  const left = Array.from({ length: MAX + 500 }, (_, n) => n).filter((n) => map.get(`name ${n}`) !== undefined)
  assert.ok(left.length >= MAX / 2 && left.length <= MAX, `${left.length} left`)
  assert.equal(left[0], MAX + 500 - left.length)
})

for (const [what, isRetained] of [
  ['retained names', true],
  ['other names', false],
] as const)
  test(`bounded map: keeps few ${what} if the names are as long as a request`, () => {
    const map = new BoundedMap<number>(() => isRetained)
    const long = (n: number) => `${n}${'x'.repeat(100_000)}`
    for (let n = 0; n < 500; n++) {
      map.set(long(n), n)
      assert.equal(map.get(long(n)), n)
    }
    const left = Array.from({ length: 500 }, (_, n) => n).filter((n) => map.get(long(n)) !== undefined)
    assert.ok(left.length <= 30, `${left.length} left`)
    map.set('short', 1)
    for (let n = 0; n < 9; n++) map.delete(long(499 - n))
    assert.equal(map.get('short'), 1)
    const longest = 'x'.repeat(3_000_000)
    map.set(longest, 2)
    assert.equal(map.get(longest), 2)
  })

const instanceOf = (id: string): Instance => ({
  id,
  provider: { name: id, title: id, order: 1, speaks: [{ protocol: 'openai-chat' }], auth: 'none' },
  baseUrl: `https://${id}.example/v1`,
  keys: [{ id: 'k', secret: null, weight: 1 }],
  models: ['m'],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
})
const at = (id: string, model = 'm'): Target => {
  const instance = instanceOf(id)
  const [key = assert.fail()] = instance.keys
  return { candidate: { instance, model, because: '', weight: 1 }, key }
}

/** [name, failure of the target, failure of each of many calls to other models] */
const cases = [
  ['an open circuit', 'timeout', null],
  ['a rejected key', 'auth', 'model_missing'],
  ['a key without credit', 'quota', 'model_missing'],
] as const

for (const [what, kind, others] of cases)
  test(`upstream health: ${what} is retained when clients send many names`, () => {
    const health = new UpstreamHealth(stillWorld(), () => {})
    const out = at('a')
    const attempt = (target: Target, failure: Parameters<typeof fail>[0] | null) => {
      const permit = health.admit(target, defaultSettings, 'normal')
      if ('why' in permit) return
      if (failure) permit.failed(fail(failure, 'x'))
      else permit.done()
    }
    for (let n = 0; n < 5; n++) attempt(out, kind)
    const before = health.peek(out, defaultSettings)
    assert.ok(before)
    for (let n = 0; n < MAX + 100; n++) attempt(at('b', `name ${n}`), others)
    assert.deepEqual(health.peek(out, defaultSettings), before)
  })
