import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Cooldown, type CooldownReason, isCoolingDown, startCooldown, startTrial } from './cooldown.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const half = () => 0.5

/** The durations of cooldowns in a row, each started when the previous one ended. */
const series = (why: CooldownReason, strikes: number, hint?: number, random = half): readonly number[] => {
  let cooldown: Cooldown | undefined
  let now = 1_000
  return Array.from({ length: strikes }, () => {
    cooldown = startCooldown(cooldown, { why, hintMs: hint }, now, random)
    const lasts = cooldown.until - now
    now = cooldown.until
    return lasts
  })
}

const schedules: readonly [name: string, CooldownReason, number | undefined, () => number, readonly number[]][] = [
  ['rate limit with a hint: the hint', 'rate_limited', 34_070, half, [34_070, 34_070, 34_070]],
  [
    'rate limit, lowest jitter',
    'rate_limited',
    undefined,
    () => 0,
    [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000],
  ],
  [
    'rate limit, medium jitter',
    'rate_limited',
    undefined,
    half,
    [750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000],
  ],
  ['a hint of 0 is ignored', 'rate_limited', 0, half, [750, 1_500]],
  ['a negative hint is ignored', 'rate_limited', -5, half, [750, 1_500]],
  ['a hint of NaN is ignored', 'rate_limited', Number.NaN, half, [750]],
  ['an infinite hint is ignored', 'rate_limited', Number.POSITIVE_INFINITY, half, [750]],
  ['quota', 'quota_exhausted', undefined, half, [0.25, 0.5, 1, 2, 4, 6, 6].map((hours) => hours * HOUR)],
  ['quota with a hint', 'quota_exhausted', 20 * MINUTE, half, [20 * MINUTE, 20 * MINUTE]],
  ['a rejected key', 'suspended', undefined, half, [1, 5, 10, 20, 40, 60, 60].map((minutes) => minutes * MINUTE)],
  ['a key disabled at the first failure', 'disabled', undefined, half, [5 * MINUTE, 10 * MINUTE]],
  ['a model denied', 'model_denied', 5, half, [10 * MINUTE, 10 * MINUTE]],
  ['a model missing', 'model_missing', undefined, half, [10 * MINUTE, 10 * MINUTE]],
  ['overloaded', 'overloaded', undefined, half, [750, 1_500, 3_000, 6_000, 12_000, 22_500, 22_500]],
  ['overloaded, the hint is longer', 'overloaded', 5_000, half, [5_000, 5_000, 5_000, 6_000]],
  ['tls', 'tls', undefined, half, [MINUTE, MINUTE]],
  ['a redirect', 'redirect', undefined, half, [MINUTE, MINUTE]],
]
for (const [name, why, hint, random, expected] of schedules)
  test(`cooldown: ${name}`, () => assert.deepEqual(series(why, expected.length, hint, random), expected))

test('cooldown: a key rejected again after its suspension is disabled, with longer cooldowns', () => {
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

test('cooldown: failures during a cooldown do not extend it or count as another strike', () => {
  for (const why of ['rate_limited', 'suspended', 'quota_exhausted', 'overloaded', 'tls', 'model_missing'] as const) {
    const first = startCooldown(undefined, { why, hintMs: undefined }, 0, half)
    let cooldown = first
    for (let n = 1; n < 100; n++)
      cooldown = startCooldown(cooldown, { why, hintMs: undefined }, (first.until * n) / 100, half)
    assert.equal(cooldown, first, why)
  }
})

test('cooldown: a longer hint during a cooldown extends it, a shorter one is ignored', () => {
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

test('cooldown: fromUpstream is set only with a valid hint', () => {
  assert.equal(startCooldown(undefined, { why: 'rate_limited', hintMs: 300 }, 0, half).fromUpstream, true)
  for (const nothing of [undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY])
    assert.equal(
      'fromUpstream' in startCooldown(undefined, { why: 'rate_limited', hintMs: nothing }, 0, half),
      false,
      String(nothing),
    )
})

test('cooldown: of two reasons at once the longer cooldown is kept', () => {
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

test('cooldown: another reason after the end starts a new series', () => {
  const suspended = startCooldown(undefined, { why: 'suspended', hintMs: undefined }, 0, half)
  assert.deepEqual(startCooldown(suspended, { why: 'rate_limited', hintMs: 5_000 }, MINUTE, half), {
    why: 'rate_limited',
    until: MINUTE + 5_000,
    fromUpstream: true,
    strikes: 1,
    since: MINUTE,
  })
})

test('cooldown: is active until its end, exclusive', () => {
  const cooldown = startCooldown(undefined, { why: 'rate_limited', hintMs: 1_000 }, 0, half)
  assert.deepEqual(
    [-1, 0, 999, 1_000, 1_001].map((now) => isCoolingDown(cooldown, now)),
    [true, true, true, false, false],
  )
  assert.equal(isCoolingDown(undefined, 0), false)
})

test('cooldown: during a trial it stays active until the trial’s time limit', () => {
  const cooldown = startCooldown(undefined, { why: 'quota_exhausted', hintMs: 1_000 }, 0, half)
  const trial = startTrial(cooldown, 1_000, 31_000)
  assert.equal(isCoolingDown(trial, 31_999), true)
  assert.equal(isCoolingDown(trial, 32_000), false)
  const again = startCooldown(trial, { why: 'quota_exhausted', hintMs: undefined }, 1_500, half)
  assert.deepEqual(again, { why: 'quota_exhausted', until: 1_500 + 30 * MINUTE, strikes: 2, since: 0 })
})

const reasons: readonly CooldownReason[] = [
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
test('cooldown: for any failures it never ends earlier than announced or after 6 h, and counts strikes only after its end', () => {
  const failure = fc.record({
    why: fc.constantFrom(...reasons),
    after: fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: 8 * HOUR })),
    hint: fc.option(fc.integer({ min: -10, max: HOUR }), { nil: undefined }),
    chance: fc.double({ min: 0, max: 0.999, noNaN: true }),
  })
  fc.assert(
    fc.property(fc.array(failure, { minLength: 1, maxLength: 40 }), (failures) => {
      let cooldown: Cooldown | undefined
      let now = 0
      for (const { why, after, hint, chance } of failures) {
        now += after
        const before: Cooldown | undefined = cooldown
        cooldown = startCooldown(before, { why, hintMs: hint }, now, () => chance)
        assert.ok(isCoolingDown(cooldown, now), 'a failure starts it')
        assert.ok(cooldown.until - now <= 6 * HOUR)
        assert.ok(cooldown.since <= now)
        if (before && now < before.until) {
          assert.ok(cooldown.until >= before.until)
          assert.ok(cooldown.why !== before.why || cooldown.strikes === before.strikes)
        } else if (before && before.why === cooldown.why) assert.equal(cooldown.strikes, before.strikes + 1)
      }
    }),
    { numRuns: 1_000, seed: 7 },
  )
})
