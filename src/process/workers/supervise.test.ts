import assert from 'node:assert/strict'
import { test } from 'node:test'
import { restartDelay } from './supervise.ts'

const delays = [
  [1, 100],
  [2, 200],
  [5, 1_600],
  [9, 25_600],
  [10, 30_000],
  [10_000, 30_000],
] as const
for (const [deaths, ms] of delays)
  test(`supervisor: the restart delay after ${deaths} crashes in a row is ${ms} ms`, () =>
    assert.equal(restartDelay(deaths), ms))
