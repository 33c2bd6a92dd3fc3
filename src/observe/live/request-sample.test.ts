import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RequestSample } from './request-sample.ts'

const taken = (sample: RequestSample, now: number, count: number): number =>
  Array.from({ length: count }, () => sample.take(now)).filter(Boolean).length

test('request sample: has 50 places at once, and 50 a second', () => {
  const sample = new RequestSample()
  assert.equal(taken(sample, 10_000, 100), 50)
  assert.equal(taken(sample, 10_100, 100), 5)
  assert.equal(taken(sample, 60_000, 100), 50)
})

test('request sample: a clock that was set back gives no place, and does not stop it', () => {
  const sample = new RequestSample()
  assert.equal(taken(sample, 10_000, 100), 50)
  assert.equal(taken(sample, 5_000, 100), 0)
  assert.equal(taken(sample, 6_000, 100), 50)
})
