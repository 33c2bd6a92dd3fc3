import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fullBucket, hasTokens, levelOf, takeTokens, untilEnough } from './token-bucket.ts'

const start = 5_000

test('bucket: begins full and refills continuously up to its limit', () => {
  const empty = takeTokens(fullBucket(60, start), 60, 60, start)
  assert.equal(levelOf(empty, 60, start), 0)
  assert.equal(levelOf(empty, 60, start + 500), 0.5)
  assert.equal(levelOf(empty, 60, start + 1_000), 1)
  assert.equal(levelOf(empty, 60, start + 60_000), 60)
  assert.equal(levelOf(empty, 60, start + 600_000), 60)
})

test('bucket: a settlement may make it negative, and it refuses until it has refilled', () => {
  const taken = takeTokens(fullBucket(6_000, start), 100, 6_000, start)
  const settled = takeTokens(taken, 7_900, 6_000, start)
  assert.equal(levelOf(settled, 6_000, start), -2_000)
  assert.equal(hasTokens(settled, 0, 6_000, start), false)
  assert.equal(hasTokens(settled, 1, 6_000, start + 20_000), false)
  assert.equal(untilEnough(settled, 1, 6_000, start), 20_010)
  assert.equal(hasTokens(settled, 1, 6_000, start + 20_010), true)
})

test('bucket: a return never exceeds the limit', () => {
  assert.equal(levelOf(takeTokens(fullBucket(10, start), -5, 10, start), 10, start), 10)
  assert.equal(levelOf(takeTokens(takeTokens(fullBucket(10, start), 5, 10, start), -2, 10, start), 10, start), 7)
})

test('bucket: of five estimates above the limit at once, one is admitted', () => {
  let bucket = fullBucket(100, start)
  let admitted = 0
  for (let n = 0; n < 5; n++)
    if (hasTokens(bucket, 175, 100, start)) {
      bucket = takeTokens(bucket, 175, 100, start)
      admitted++
    }
  assert.equal(admitted, 1)
  assert.equal(levelOf(bucket, 100, start), -75)
  assert.equal(untilEnough(bucket, 175, 100, start), 105_000)
})

test('bucket: the wait is 0 while there is enough, and rounded up otherwise', () => {
  const empty = takeTokens(fullBucket(70, start), 70, 70, start)
  assert.equal(untilEnough(fullBucket(70, start), 10, 70, start), 0)
  assert.equal(untilEnough(fullBucket(70, start), 70, 70, start), 0)
  assert.equal(untilEnough(empty, 1, 70, start), 858)
})

test('bucket: a limit of 0 admits nothing', () => {
  assert.equal(hasTokens(fullBucket(0, start), 0, 0, start), false)
  assert.equal(untilEnough(fullBucket(0, start), 1, 0, start), Number.POSITIVE_INFINITY)
})

test('bucket: a lowered limit applies at once, a raised one refills faster', () => {
  const full = fullBucket(600, start)
  assert.equal(levelOf(full, 60, start), 60)
  assert.equal(levelOf(full, 6_000, start), 600)
  assert.equal(levelOf(full, 6_000, start + 1_000), 700)
})

test('bucket: a clock that goes back refills nothing, then or later', () => {
  const empty = takeTokens(fullBucket(60, start), 60, 60, start)
  assert.equal(levelOf(empty, 60, start - 1_000), 0)
  const back = takeTokens(empty, 1, 60, start - 1_000)
  assert.equal(levelOf(back, 60, start), -1)
})

const amount = fc.integer({ min: 1, max: 500 })
const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 30_000 }), amount), { maxLength: 100, size: 'max' })

test('bucket: admits at most its limit and one minute of refill in any minute', () => {
  fc.assert(
    fc.property(fc.integer({ min: 500, max: 5_000 }), steps, (limit, requests) => {
      let bucket = fullBucket(limit, 0)
      let now = 0
      const taken: (readonly [at: number, amount: number])[] = []
      for (const [wait, wanted] of requests) {
        now += wait
        if (!hasTokens(bucket, wanted, limit, now)) continue
        bucket = takeTokens(bucket, wanted, limit, now)
        taken.push([now, wanted])
        const inLastMinute = taken.filter(([at]) => at > now - 60_000).reduce((sum, [, one]) => sum + one, 0)
        assert.ok(inLastMinute <= 2 * limit, `${inLastMinute} of ${limit}`)
        assert.ok(levelOf(bucket, limit, now) >= -1e-9)
      }
    }),
  )
})

test('bucket: after the announced wait it has the amount, and a ms before it does not', () => {
  fc.assert(
    fc.property(amount, amount, fc.integer({ min: 1, max: 5_000 }), (taken, wanted, limit) => {
      const bucket = takeTokens(fullBucket(limit, 0), taken, limit, 0)
      const wait = untilEnough(bucket, wanted, limit, 0)
      // One ms of tolerance: the level is not an integer.
      assert.ok(hasTokens(bucket, wanted, limit, wait + 1))
      if (wait > 1) assert.equal(hasTokens(bucket, wanted, limit, wait - 2), false)
    }),
  )
})
