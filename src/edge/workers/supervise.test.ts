import assert from 'node:assert/strict'
import { test } from 'node:test'
import { restOf } from './supervise.ts'

const rests = [
  [1, 100],
  [2, 200],
  [5, 1_600],
  [9, 25_600],
  [10, 30_000],
  [10_000, 30_000],
] as const
for (const [deaths, ms] of rests)
  test(`supervisor: after ${deaths} deaths in a row a worker rests ${ms} ms`, () => assert.equal(restOf(deaths), ms))
