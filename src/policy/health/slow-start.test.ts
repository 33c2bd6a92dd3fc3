import assert from 'node:assert/strict'
import { test } from 'node:test'
import { warmUpDelay } from './slow-start.ts'

const cases: readonly (readonly [inFlight: number, after: number])[] = [
  [0, 0],
  [1, 1_000],
  [2, 2_000],
  [3, 2_000],
  [4, 3_000],
  [7, 3_000],
  [8, 4_000],
  [255, 8_000],
  [256, 9_000],
  [511, 9_000],
  [512, 10_000],
  [100_000, 10_000],
]
for (const [inFlight, after] of cases)
  test(`slow start: with ${inFlight} in flight another is allowed after ${after} ms of 10,000`, () => {
    assert.equal(warmUpDelay(inFlight, 10_000), after)
  })

test('slow start: the delay is proportional to the span', () => {
  assert.equal(warmUpDelay(3, 500), 100)
  assert.equal(warmUpDelay(1, 0), 0)
  assert.equal(warmUpDelay(1_000, 0), 0)
})
