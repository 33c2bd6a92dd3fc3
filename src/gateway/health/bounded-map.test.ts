import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import type { Target } from '../../core/target.ts'
import { BoundedMap } from './bounded-map.ts'
import { UpstreamHealth } from './upstream-health.ts'

const MOST = 10_000

test('bounded map: evicts the names set least recently, except retained values', () => {
  const kept = new BoundedMap<string>((value) => value === 'matters')
  kept.set('first', 'matters')
  for (let n = 0; n < 3 * MOST; n++) kept.set(`name ${n}`, 'x')
  assert.equal(kept.get('first'), 'matters')
  assert.equal(kept.get('name 0'), undefined)
  assert.equal(kept.get(`name ${3 * MOST - 1}`), 'x')
})

test('bounded map: evicts the oldest even if all values are retained', () => {
  const kept = new BoundedMap<number>(() => true)
  for (let n = 0; n < MOST + 500; n++) kept.set(`name ${n}`, n)
  const left = Array.from({ length: MOST + 500 }, (_, n) => n).filter((n) => kept.get(`name ${n}`) !== undefined)
  assert.ok(left.length >= MOST / 2 && left.length <= MOST, `${left.length} left`)
  assert.equal(left[0], MOST + 500 - left.length)
})

for (const [what, matters] of [
  ['that matter', true],
  ['that do not', false],
] as const)
  test(`bounded map: keeps few ${what} as long as a request`, () => {
    const kept = new BoundedMap<number>(() => matters)
    const long = (n: number) => `${n}${'x'.repeat(100_000)}`
    for (let n = 0; n < 500; n++) {
      kept.set(long(n), n)
      assert.equal(kept.get(long(n)), n)
    }
    const left = Array.from({ length: 500 }, (_, n) => n).filter((n) => kept.get(long(n)) !== undefined)
    assert.ok(left.length <= 30, `${left.length} left`)
    kept.set('short', 1)
    for (let n = 0; n < 9; n++) kept.delete(long(499 - n))
    assert.equal(kept.get('short'), 1)
    const longest = 'x'.repeat(3_000_000)
    kept.set(longest, 2)
    assert.equal(kept.get(longest), 2)
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
    for (let n = 0; n < MOST + 100; n++) attempt(at('b', `name ${n}`), others)
    assert.deepEqual(health.peek(out, defaultSettings), before)
  })
