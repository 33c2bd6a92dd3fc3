import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Ewma, expectedWait, observe, quantiles } from './latency.ts'

const close = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-6 * Math.max(1, expected), `${actual} is not ${expected}`)

test('latency: the first observation is the average', () =>
  assert.deepEqual(observe(undefined, 300, 5), { ms: 300, at: 5 }))

test('latency: a slower observation replaces the average', () =>
  assert.deepEqual(observe({ ms: 300, at: 0 }, 5_000, 1_000), { ms: 5_000, at: 1_000 }))

test('latency: a faster observation changes the average gradually', () => {
  let ewma: Ewma = { ms: 5_000, at: 0 }
  ewma = observe(ewma, 300, 1_000)
  assert.ok(ewma.ms > 4_800 && ewma.ms < 5_000, `after one second ${ewma.ms}`)
  for (let at = 2_000; at <= 600_000; at += 1_000) ewma = observe(ewma, 300, at)
  assert.ok(ewma.ms < 310, `after ten minutes ${ewma.ms}`)
})

test('latency: a second, faster observation at the same time changes nothing', () =>
  close(observe({ ms: 500, at: 9 }, 100, 9).ms, 500))

test('latency: the expected wait is the average times the requests in flight and the new one', () => {
  close(expectedWait({ ms: 300, at: 0 }, 0, 0), 300)
  close(expectedWait({ ms: 300, at: 0 }, 4, 0), 1_500)
})

test('latency: without observations the average decays', () => {
  const slow = { ms: 10_000, at: 0 }
  close(expectedWait(slow, 0, 60_000), 10_000 / Math.E)
  assert.ok(expectedWait(slow, 0, 600_000) < 1)
})

test('latency: without observations an idle candidate has no expected wait, a busy one has', () => {
  assert.equal(expectedWait(undefined, 0, 0), 0)
  assert.ok(expectedWait(undefined, 3, 0) > expectedWait({ ms: 500, at: 0 }, 0, 0))
})

test('latency: a clock that goes back a little has no effect', () => {
  assert.deepEqual(observe({ ms: 300, at: 1_000 }, 200, 999), { ms: 300, at: 999 })
  close(expectedWait({ ms: 300, at: 1_000 }, 0, 999), 300)
})

const hundred = Array.from({ length: 100 }, (_, n) => 100 - n)
const samples: readonly [string, readonly number[], readonly number[], readonly number[]][] = [
  ['no values', [], [0.5, 0.95], []],
  ['one value', [312], [0.5, 0.95], [312, 312]],
  ['two values', [20, 10], [0.5, 0.95], [10, 20]],
  ['a hundred values', hundred, [0, 0.5, 0.95, 1], [1, 50, 95, 100]],
  ['values in numeric order', [9, 10, 100], [0.5], [10]],
]
for (const [name, values, shares, expected] of samples)
  test(`latency: quantiles of ${name}`, () => {
    const before = [...values]
    assert.deepEqual(quantiles(values, shares), expected)
    assert.deepEqual(values, before, 'the values stay as they were')
  })
