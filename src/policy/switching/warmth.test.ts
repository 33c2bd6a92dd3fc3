import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PromptCache } from '../../core/prompt-cache.ts'
import {
  chanceOf,
  expectedInput,
  isHourAfter,
  keptTokens,
  LearnedTarget,
  lifeAfter,
  usedAt,
  warmTokens,
} from './warmth.ts'

const MARKED: PromptCache = {
  least: 4_096,
  life: { sure: 240_000, most: 300_000 },
  from: 'request',
  automatic: false,
  owner: 'workspace',
  source: 'https://vendor.example',
  read: '2026-11-28',
}
const AUTOMATIC: PromptCache = { ...MARKED, least: 1_024, automatic: true }
const HOUR = 3_600_000

test('warmth: a vendor with marks has what it reports as read and written, from its least size on', () => {
  assert.equal(keptTokens({ input: 9_000, cacheRead: 4_000, cacheWrite: 96 }, MARKED, false), 4_096)
  assert.equal(keptTokens({ input: 9_000, cacheRead: 4_000, cacheWrite: 95 }, MARKED, true), 0)
  assert.equal(keptTokens({ input: 9_000 }, MARKED, true), 0)
})

test('warmth: an automatic vendor has the whole input once a read was seen, and what it reports if it reports writes', () => {
  assert.equal(keptTokens({ input: 9_000 }, AUTOMATIC, false), 0)
  assert.equal(keptTokens({ input: 9_000 }, AUTOMATIC, true), 9_000)
  assert.equal(keptTokens({ input: 9_000, cacheRead: 2_048 }, AUTOMATIC, false), 9_000)
  assert.equal(keptTokens({ input: 9_000, cacheRead: 2_048, cacheWrite: 5_000 }, AUTOMATIC, true), 7_048)
  assert.equal(keptTokens({ input: 1_023 }, AUTOMATIC, true), 0)
})

test('warmth: of a vendor without rules only what is reported counts', () => {
  assert.equal(keptTokens({ input: 9_000, cacheRead: 5_000 }, undefined, true), 5_000)
  assert.equal(keptTokens({ input: 9_000 }, undefined, true), 0)
  assert.equal(keptTokens({ input: 9_000, cacheRead: 4_095 }, undefined, true), 0)
  assert.equal(lifeAfter(undefined, false), 0)
})

test('warmth: what was written for an hour stays so when it is read', () => {
  for (const [written, before, isHour] of [
    [1, false, true],
    [0, true, true],
    [0, false, false],
  ] as const)
    assert.equal(isHourAfter({ cacheWrite1h: written }, before), isHour)
  assert.equal(lifeAfter(MARKED, true), HOUR)
  assert.equal(lifeAfter(MARKED, false), 300_000)
})

test('warmth: a life begins with the request, unless the vendor counts from the answer', () => {
  assert.equal(usedAt(MARKED, 1_000, 61_000), 1_000)
  assert.equal(usedAt({ ...MARKED, from: 'answer' }, 1_000, 61_000), 61_000)
  assert.equal(usedAt(undefined, 1_000, 61_000), 1_000)
})

test('warmth: the chance is 1 for the sure part of a life, a half to its end, and 0 after it', () => {
  const at = { at: 1_000, life: 300_000 }
  const chance = (idle: number, scope = at) => chanceOf(scope, MARKED, { now: scope.at + idle, learned: 0.9 })
  assert.deepEqual(
    [0, 240_000, 240_001, 300_000, 300_001].map((idle) => chance(idle)),
    [1, 1, 0.5, 0.5, 0],
  )
  const hour = { at: 0, life: HOUR }
  assert.deepEqual(
    [2_880_000, 2_880_001, HOUR, HOUR + 1].map((idle) => chance(idle, hour)),
    [1, 0.5, 0.5, 0],
  )
})

test('warmth: without a documented life the learned chance counts, and a half before that', () => {
  assert.equal(chanceOf({ at: 0, life: 0 }, AUTOMATIC, { now: 9e9, learned: 0.25 }), 0.25)
  assert.equal(chanceOf({ at: 0, life: 0 }, AUTOMATIC, { now: 9e9, learned: null }), 0.5)
})

test('warmth: a shorter input has less of the prompt, and a compacted one nothing', () => {
  assert.equal(warmTokens(50_000, 60_000, 55_000), 50_000)
  assert.equal(warmTokens(50_000, 40_000, 50_000), 40_000)
  assert.equal(warmTokens(50_000, 35_000, 50_000), 35_000)
  assert.equal(warmTokens(50_000, 34_999, 50_000), 0)
})

test('warmth: the input is expected from the characters, by the tokens of the last request', () => {
  assert.equal(expectedInput({ input: 25_000, size: 100_000 }, 120_000), 30_000)
  assert.equal(expectedInput({ input: 25_000, size: 0 }, 120_000), null)
})

test('warmth: a chance is learned in bins of idle time, from twenty turns on', () => {
  const target = new LearnedTarget()
  for (let turn = 0; turn < 19; turn++) target.saw(60_000, 10_000, turn < 15 ? 5_000 : 4_999)
  assert.equal(target.chance(1_000), null)
  target.saw(60_000, 10_000, 0)
  assert.equal(target.chance(60_000), 0.75)
  assert.equal(target.chance(60_001), null)
  for (let turn = 0; turn < 5_000; turn++) target.saw(60_000, 10_000, 0)
  assert((target.chance(0) ?? 1) < 0.02, 'older turns count less')
  for (let turn = 0; turn < 20; turn++) target.saw(9e9, 10_000, 10_000)
  assert.equal(target.chance(1_800_001), 1)
  assert.equal(target.chance(1_800_000), null)
})

test('warmth: the time for a token is learned from answers with enough tokens that were not cached', () => {
  const target = new LearnedTarget()
  target.took(9_000, 4_095)
  const known = () => target.prefill?.toFixed(3)
  assert.equal(known(), undefined)
  target.took(1_000, 10_000)
  assert.equal(known(), '0.100')
  target.took(3_000, 10_000)
  assert.equal(known(), '0.110')
})
