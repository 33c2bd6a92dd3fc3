/** Ticks of charts are round, inside the range, and not too many; lines have gaps. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { linePaths, timeTicks, valueTicks } from '../../../dashboard/src/parts/chart-scale.ts'

const MINUTE = 60_000
const NOON = Date.parse('2026-11-23T12:00:00Z')

for (const [most, isWhole, ticks] of [
  [0, false, [0]],
  [1, true, [0, 1]],
  [3, true, [0, 1, 2, 3]],
  [7, true, [0, 2, 4, 6]],
  [2, true, [0, 1, 2]],
  [250, true, [0, 100, 200]],
  [1_900, false, [0, 500, 1_000, 1_500]],
  [0.99, false, [0, 0.4, 0.8]],
] as const)
  test(`values up to ${most} have the ticks ${ticks.join(' ')}`, () => {
    assert.deepEqual(valueTicks(most, isWhole), ticks)
  })

test('values have three or four ticks, and none is above the greatest', () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-9, max: 1e12, noNaN: true }), (most) => {
      const ticks = valueTicks(most, false)
      assert.equal(ticks[0], 0)
      assert.ok(ticks.length >= 3 && ticks.length <= 4, ticks.join())
      assert.ok((ticks.at(-1) ?? 0) <= most * (1 + 1e-6))
    }),
  )
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 1e9 }), (most) => {
      const ticks = valueTicks(most, true)
      assert.ok(ticks.length >= 3 && ticks.length <= 4, ticks.join())
      assert.ok(ticks.every(Number.isInteger), ticks.join())
    }),
  )
})

test('a quarter of an hour has ticks each five minutes, at round local times', () => {
  const range = { from: NOON + 2 * MINUTE, to: NOON + 17 * MINUTE }
  assert.deepEqual(timeTicks(range, 3, 0), { step: 5 * MINUTE, at: [5, 10, 15].map((n) => NOON + n * MINUTE) })
})

test('days begin at local midnight', () => {
  const day = 24 * 60 * MINUTE
  const { step, at } = timeTicks({ from: NOON - 3 * day, to: NOON }, 5, 5.5 * 60 * MINUTE)
  assert.equal(step, day)
  assert.deepEqual(
    at.map((time) => new Date(time).toISOString().slice(11, 16)),
    ['18:30', '18:30', '18:30'],
  )
})

test('times are inside the range, and at most as many as there is room for', () => {
  const ranges = fc.record({ from: fc.integer({ min: 0, max: NOON }), length: fc.integer({ min: 1_000, max: NOON }) })
  fc.assert(
    fc.property(ranges, fc.integer({ min: 1, max: 8 }), ({ from, length }, most) => {
      const to = from + length
      const { at } = timeTicks({ from, to }, most, 60 * MINUTE)
      assert.ok(at.length <= most, at.join())
      assert.ok(at.every((time) => time >= from && time < to))
    }),
  )
})

test('a line is interrupted at gaps, and a value between two gaps is a point', () => {
  const x = (at: number) => at * 10
  const y = (value: number) => 100 - value
  assert.deepEqual(linePaths([1, 2, null, 5, null, 3, 4], x, y), {
    line: 'M0.0 99.0L10.0 98.0M50.0 97.0L60.0 96.0',
    points: 'M30.0 95.0h0',
  })
  assert.deepEqual(linePaths([null, null], x, y), { line: '', points: '' })
})
