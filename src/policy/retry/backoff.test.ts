import assert from 'node:assert/strict'
import { test } from 'node:test'
import { doubled, equalJitter } from './backoff.ts'

const ALMOST_ONE = 1 - 2 ** -53

const steps = [
  [0, 250],
  [1, 500],
  [2, 1_000],
  [3, 2_000],
  [4, 2_000],
  [1_000_000, 2_000],
  [-1, 250],
] as const
for (const [attempt, whole] of steps)
  test(`backoff: attempt ${attempt} waits ${whole} ms`, () => {
    assert.equal(doubled(attempt, 250, 2_000), whole)
  })

test('backoff: equal jitter waits at least half', () => {
  for (const [attempt, whole] of [
    [0, 1_000],
    [1, 2_000],
    [5, 32_000],
    [6, 60_000],
    [5_000, 60_000],
  ] as const) {
    assert.equal(
      equalJitter(attempt, 1_000, 60_000, () => 0),
      whole / 2,
    )
    assert.equal(
      equalJitter(attempt, 1_000, 60_000, () => 0.5),
      whole * 0.75,
    )
    assert.ok(equalJitter(attempt, 1_000, 60_000, () => ALMOST_ONE) <= whole)
  }
})

test('backoff: large attempt numbers do not overflow', () => {
  assert.equal(doubled(Number.MAX_SAFE_INTEGER, 1_000, 5_000), 5_000)
  assert.equal(doubled(Number.MAX_SAFE_INTEGER, 1_000, Number.MAX_VALUE), 1_000 * 2 ** 40)
})
