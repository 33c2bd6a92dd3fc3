import assert from 'node:assert/strict'
import { test } from 'node:test'
import { warmUpDelay } from './slow-start.ts'

const cases: readonly (readonly [underWay: number, after: number])[] = [
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
for (const [underWay, after] of cases)
  test(`slow start: beside ${underWay} another one after ${after} ms of 10,000`, () => {
    assert.equal(warmUpDelay(underWay, 10_000), after)
  })

test('slow start: it is measured in its span', () => {
  assert.equal(warmUpDelay(3, 500), 100)
  assert.equal(warmUpDelay(1, 0), 0)
  assert.equal(warmUpDelay(1_000, 0), 0)
})
