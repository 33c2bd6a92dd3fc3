import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fetchStep, freshFor, isUsable, mayForce } from './key-refresh.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const NOW = 100 * HOUR
const fetched = (age: number, more = {}) => ({ fetched: NOW - age, fresh: 10 * MINUTE, ...more })

const STEPS = [
  ['no set', {}, 'first'],
  ['no set, a fetch failed a second ago', { failed: NOW - 1_000 }, 'never'],
  ['no set, a fetch failed two seconds ago', { failed: NOW - 2_000 }, 'first'],
  ['a new set', fetched(7 * MINUTE), 'now'],
  ['a set that will be old soon', fetched(8 * MINUTE), 'behind'],
  ['an old set', fetched(10 * MINUTE), 'first'],
  ['an old set while the issuer is away', fetched(23 * HOUR, { failed: NOW - 1_000 }), 'now'],
  ['an old set half a minute after a failure', fetched(23 * HOUR, { failed: NOW - 30_000 }), 'behind'],
  ['an old set, and a failure before it', fetched(10 * MINUTE, { failed: NOW - 11 * MINUTE }), 'first'],
  ['a set that is too old', fetched(24 * HOUR), 'first'],
  ['a set that is too old while the issuer is away', fetched(24 * HOUR, { failed: NOW - 1_000 }), 'never'],
  ['a clock that was set back', fetched(-HOUR), 'now'],
] as const

for (const [name, times, step] of STEPS)
  test(`key refresh: ${name}: ${step}`, () => assert.equal(fetchStep(times, NOW), step))

test('key refresh: a set is usable for 24 h', () => {
  assert.ok(isUsable(fetched(24 * HOUR - 1), NOW))
  assert.ok(!isUsable(fetched(24 * HOUR), NOW))
  assert.ok(!isUsable({}, NOW))
})

test('key refresh: unknown key IDs cause a fetch in 30 s', () => {
  assert.ok(mayForce(fetched(1), NOW))
  assert.ok(!mayForce({ forced: NOW - 29_999 }, NOW))
  assert.ok(mayForce({ forced: NOW - 30_000 }, NOW))
  assert.ok(mayForce({ forced: NOW + 1 }, NOW))
})

test('key refresh: max-age has bounds', () => {
  for (const [header, ms] of [
    [undefined, 10 * MINUTE],
    ['no-store', 10 * MINUTE],
    ['public, max-age=3600, must-revalidate', HOUR],
    ['Max-Age = "900"', 15 * MINUTE],
    ['max-age=0', 5 * MINUTE],
    ['max-age=99999999', 24 * HOUR],
    ['s-max-age=7200', 10 * MINUTE],
  ] as const)
    assert.equal(freshFor(header), ms, header)
})
