import assert from 'node:assert/strict'
import { test } from 'node:test'
import { distance, nearest } from './nearest.ts'

const distances = [
  ['', '', 0],
  ['', 'abc', 3],
  ['abc', '', 3],
  ['openai', 'openai', 0],
  ['opneai', 'openai', 1],
  ['groq', 'grok', 1],
  ['kitten', 'sitting', 3],
] as const
for (const [a, b, expected] of distances) test(`distance: ${a} ${b}`, () => assert.equal(distance(a, b), expected))

const cases = [
  ['resetTimout', ['timeout', 'resetTimeout', 'window'], ['resetTimeout']],
  ['RESET_TIMEOUT', ['reset-timeout'], ['reset-timeout']],
  ['zzz', ['timeout', 'window'], []],
  ['mistrl', ['mistral', 'minstrel'], ['mistral']],
  ['x'.repeat(100_000), ['x'], []],
] as const
for (const [written, names, expected] of cases)
  test(`nearest: ${written.slice(0, 20)}`, () => assert.deepEqual(nearest(written, names), expected))

test('nearest: several, the nearest first', () =>
  assert.deepEqual(nearest('gpt-5', ['gpt-5o', 'gpt-4', 'gpt-5', 'llama'], 3), ['gpt-5', 'gpt-4', 'gpt-5o']))
