import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Usage } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import { blended, cost } from './price.ts'

const facts = { inputPrice: 250, outputPrice: 2_000, cacheReadPrice: 25, cacheWritePrice: 312.5 }

const cases: readonly [string, Usage, ModelFacts | undefined, number | undefined][] = [
  ['no tokens', { input: 0, output: 0 }, facts, 0],
  ['input and output', { input: 1_000, output: 100 }, facts, 450_000],
  ['cached input is part of input', { input: 1_000, output: 0, cacheRead: 900 }, facts, 100 * 250 + 900 * 25],
  ['cache writes', { input: 1_000, output: 0, cacheWrite: 800 }, facts, 200 * 250 + 250_000],
  ['cache reads and writes', { input: 100, output: 1, cacheRead: 60, cacheWrite: 40 }, facts, 1_500 + 12_500 + 2_000],
  [
    'cached input without a price of its own',
    { input: 10, output: 0, cacheRead: 4 },
    { inputPrice: 5, outputPrice: 1 },
    50,
  ],
  ['more cached input than input', { input: 10, output: 0, cacheRead: 20 }, facts, 500],
  ['reasoning is part of output', { input: 0, output: 10, reasoning: 9 }, facts, 20_000],
  ['a fractional price', { input: 3, output: 0 }, { inputPrice: 37.5, outputPrice: 0 }, 113],
  ['a price of zero is a price', { input: 10, output: 10 }, { inputPrice: 0, outputPrice: 0 }, 0],
  ['unknown model', { input: 1, output: 1 }, undefined, undefined],
  ['unknown prices', { input: 1, output: 1 }, { contextWindow: 8 }, undefined],
  ['no price for used tokens', { input: 1, output: 1 }, { inputPrice: 5 }, undefined],
  ['no price for unused tokens', { input: 1, output: 0 }, { inputPrice: 5 }, 5],
  ['a negative count', { input: -5, output: 1 }, facts, undefined],
  ['a negative count of output', { input: 1, output: -1 }, facts, undefined],
  ['NaN tokens', { input: Number.NaN, output: 1 }, facts, undefined],
  ['infinite tokens', { input: Number.POSITIVE_INFINITY, output: 1 }, facts, undefined],
]
for (const [name, usage, known, expected] of cases)
  test(`price: ${name}`, () => assert.equal(cost(usage, known), expected))

test('price: blends three parts of input with one of output; undefined without both', () => {
  assert.equal(blended(facts), (3 * 250 + 2_000) / 4)
  assert.equal(blended({ inputPrice: 1 }), undefined)
  assert.equal(blended({ outputPrice: 1 }), undefined)
  assert.equal(blended(undefined), undefined)
})
