import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Cooldown, type CooldownReason, isCoolingDown, startCooldown, startTrial } from './cooldown.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const half = () => 0.5

/** Strike after strike, each as soon as the time of the one before is over: how long each lasts. */
const series = (why: CooldownReason, strikes: number, hint?: number, random = half): readonly number[] => {
  let gate: Cooldown | undefined
  let now = 1_000
  return Array.from({ length: strikes }, () => {
    gate = startCooldown(gate, { why, hintMs: hint }, now, random)
    const lasts = gate.until - now
    now = gate.until
    return lasts
  })
}

const schedules: readonly [name: string, CooldownReason, number | undefined, () => number, readonly number[]][] = [
  ['rate limit with a hint: exactly that', 'rate_limited', 34_070, half, [34_070, 34_070, 34_070]],
  ['rate limit, least', 'rate_limited', undefined, () => 0, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
  ['rate limit, middle', 'rate_limited', undefined, half, [750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000]],
  ['a hint of nothing is none', 'rate_limited', 0, half, [750, 1_500]],
  ['a negative hint is none', 'rate_limited', -5, half, [750, 1_500]],
  ['a hint that is no number is none', 'rate_limited', Number.NaN, half, [750]],
  ['an endless hint is none', 'rate_limited', Number.POSITIVE_INFINITY, half, [750]],
  ['quota', 'quota_exhausted', undefined, half, [0.25, 0.5, 1, 2, 4, 6, 6].map((hours) => hours * HOUR)],
  ['quota with a date', 'quota_exhausted', 20 * MINUTE, half, [20 * MINUTE, 20 * MINUTE]],
  ['a key refused', 'suspended', undefined, half, [1, 5, 10, 20, 40, 60, 60].map((minutes) => minutes * MINUTE)],
  ['a key disabled at once', 'disabled', undefined, half, [5 * MINUTE, 10 * MINUTE]],
  ['a model denied', 'model_denied', 5, half, [10 * MINUTE, 10 * MINUTE]],
  ['a model missing', 'model_missing', undefined, half, [10 * MINUTE, 10 * MINUTE]],
  ['overloaded', 'overloaded', undefined, half, [750, 1_500, 3_000, 6_000, 12_000, 22_500, 22_500]],
  ['overloaded, the hint is longer', 'overloaded', 5_000, half, [5_000, 5_000, 5_000, 6_000]],
  ['tls', 'tls', undefined, half, [MINUTE, MINUTE]],
  ['a redirect', 'redirect', undefined, half, [MINUTE, MINUTE]],
]
for (const [name, why, hint, random, expected] of schedules)
  test(`gate: ${name}`, () => assert.deepEqual(series(why, expected.length, hint, random), expected))

test('gate: a key refused again after its suspension is disabled, and stays so', () => {
  const first = startCooldown(undefined, { why: 'suspended', hintMs: undefined }, 0, half)
  assert.deepEqual(first, { why: 'suspended', until: MINUTE, strikes: 1, since: 0 })
  const second = startCooldown(first, { why: 'suspended', hintMs: undefined }, MINUTE, half)
  assert.deepEqual(second, { why: 'disabled', until: 6 * MINUTE, strikes: 2, since: 0 })
  assert.deepEqual(startCooldown(second, { why: 'suspended', hintMs: undefined }, 6 * MINUTE, half), {
    why: 'disabled',
    until: 16 * MINUTE,
    strikes: 3,
    since: 0,
  })
})

test('gate: failures of one burst are one strike', () => {
  for (const why of ['rate_limited', 'suspended', 'quota_exhausted', 'overloaded', 'tls', 'model_missing'] as const) {
    const first = startCooldown(undefined, { why, hintMs: undefined }, 0, half)
    let gate = first
    for (let n = 1; n < 100; n++) gate = startCooldown(gate, { why, hintMs: undefined }, (first.until * n) / 100, half)
    assert.equal(gate, first, why)
  }
})

test('gate: a longer hint of the same burst lengthens it, a shorter one does not shorten it', () => {
  const first = startCooldown(undefined, { why: 'rate_limited', hintMs: 10_000 }, 0, half)
  assert.equal(startCooldown(first, { why: 'rate_limited', hintMs: 2_000 }, 1_000, half), first)
  assert.deepEqual(startCooldown(first, { why: 'rate_limited', hintMs: 30_000 }, 1_000, half), {
    why: 'rate_limited',
    until: 31_000,
    fromUpstream: true,
    strikes: 1,
    since: 0,
  })
})

test('gate: whether the upstream said until when, or it is a guess', () => {
  assert.equal(startCooldown(undefined, { why: 'rate_limited', hintMs: 300 }, 0, half).fromUpstream, true)
  for (const nothing of [undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY])
    assert.equal(
      'fromUpstream' in startCooldown(undefined, { why: 'rate_limited', hintMs: nothing }, 0, half),
      false,
      String(nothing),
    )
})

test('gate: of two reasons at once the one that lasts longer stays', () => {
  const quota = startCooldown(undefined, { why: 'quota_exhausted', hintMs: undefined }, 0, half)
  assert.equal(startCooldown(quota, { why: 'suspended', hintMs: undefined }, 10, half), quota)
  const suspended = startCooldown(undefined, { why: 'suspended', hintMs: undefined }, 0, half)
  assert.deepEqual(startCooldown(suspended, { why: 'quota_exhausted', hintMs: undefined }, 10, half), {
    why: 'quota_exhausted',
    until: 10 + 15 * MINUTE,
    strikes: 1,
    since: 10,
  })
})

test('gate: another reason after the time is over begins anew', () => {
  const suspended = startCooldown(undefined, { why: 'suspended', hintMs: undefined }, 0, half)
  assert.deepEqual(startCooldown(suspended, { why: 'rate_limited', hintMs: 5_000 }, MINUTE, half), {
    why: 'rate_limited',
    until: MINUTE + 5_000,
    fromUpstream: true,
    strikes: 1,
    since: MINUTE,
  })
})

test('gate: is shut until its moment and not longer', () => {
  const gate = startCooldown(undefined, { why: 'rate_limited', hintMs: 1_000 }, 0, half)
  assert.deepEqual(
    [-1, 0, 999, 1_000, 1_001].map((now) => isCoolingDown(gate, now)),
    [true, true, true, false, false],
  )
  assert.equal(isCoolingDown(undefined, 0), false)
})

test('gate: on trial one tries and the others wait for its verdict', () => {
  const gate = startCooldown(undefined, { why: 'quota_exhausted', hintMs: 1_000 }, 0, half)
  const trial = startTrial(gate, 1_000, 31_000)
  assert.equal(isCoolingDown(trial, 31_999), true)
  assert.equal(isCoolingDown(trial, 32_000), false)
  const again = startCooldown(trial, { why: 'quota_exhausted', hintMs: undefined }, 1_500, half)
  assert.deepEqual(again, { why: 'quota_exhausted', until: 1_500 + 30 * MINUTE, strikes: 2, since: 0 })
})

const whys: readonly CooldownReason[] = [
  'rate_limited',
  'quota_exhausted',
  'suspended',
  'disabled',
  'model_denied',
  'model_missing',
  'overloaded',
  'tls',
  'redirect',
]
test('gate: over any history it never opens earlier than it said, ends within its longest time, and strikes only after its time', () => {
  const failure = fc.record({
    why: fc.constantFrom(...whys),
    after: fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: 8 * HOUR })),
    hint: fc.option(fc.integer({ min: -10, max: HOUR }), { nil: undefined }),
    chance: fc.double({ min: 0, max: 0.999, noNaN: true }),
  })
  fc.assert(
    fc.property(fc.array(failure, { minLength: 1, maxLength: 40 }), (failures) => {
      let gate: Cooldown | undefined
      let now = 0
      for (const { why, after, hint, chance } of failures) {
        now += after
        const before: Cooldown | undefined = gate
        gate = startCooldown(before, { why, hintMs: hint }, now, () => chance)
        assert.ok(isCoolingDown(gate, now), 'a failure shuts it')
        assert.ok(gate.until - now <= 6 * HOUR)
        assert.ok(gate.since <= now)
        if (before && now < before.until) {
          assert.ok(gate.until >= before.until)
          assert.ok(gate.why !== before.why || gate.strikes === before.strikes)
        } else if (before && before.why === gate.why) assert.equal(gate.strikes, before.strikes + 1)
      }
    }),
    { numRuns: 1_000, seed: 7 },
  )
})
