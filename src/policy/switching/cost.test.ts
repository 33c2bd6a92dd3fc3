import assert from 'node:assert/strict'
import { test } from 'node:test'
import { costAt, delayAt, promptPrices } from './cost.ts'

const SONNET = { input: 2_000, output: 10_000, cacheRead: 200, cacheWrite: 2_500, cacheWrite1h: 4_000 }

test('cost: what is cached is read, and the rest is written, at the prices of the list', () => {
  const prices = promptPrices(SONNET, 100_000)
  assert.deepEqual(prices, { read: 200, write: 2_500, output: 10_000 })
  const sizes = { input: 100_000, output: 100 }
  assert.equal(costAt({ prices, warm: 90_000, prefill: null }, sizes), 18_000_000 + 25_000_000 + 1_000_000)
  assert.equal(costAt({ prices, warm: 0, prefill: null }, sizes), 251_000_000)
  assert.equal(promptPrices(SONNET, 100_000, true)?.write, 4_000)
})

test('cost: a price that is not listed is that of other input, and without input or output nothing is known', () => {
  assert.deepEqual(promptPrices({ input: 5, output: 7 }, 10), { read: 5, write: 5, output: 7 })
  assert.deepEqual(promptPrices({ input: 5, output: 7, cacheWrite: 6 }, 10, true), { read: 5, write: 6, output: 7 })
  assert.equal(promptPrices({ input: 5 }, 10), null)
  assert.equal(promptPrices({ output: 5 }, 10), null)
  assert.equal(promptPrices(undefined, 10), null)
  assert.equal(costAt({ prices: null, warm: 5, prefill: 1 }, { input: 10, output: 1 }), null)
})

test('cost: the step above which the input is applies to all tokens, and a factor to all prices', () => {
  const tiers = [
    { above: 200, input: 4, output: 20, cacheRead: 2 },
    { above: 400, input: 8, output: 40, cacheRead: 3 },
  ]
  const list = { input: 2, output: 10, cacheRead: 1, tiers }
  assert.deepEqual(promptPrices(list, 200), { read: 1, write: 2, output: 10 })
  assert.deepEqual(promptPrices(list, 201), { read: 2, write: 4, output: 20 })
  assert.deepEqual(promptPrices({ ...list, factor: 0.5 }, 401), { read: 1.5, write: 4, output: 20 })
})

test('cost: the delay is that of the tokens that are not cached; unknown where nothing was learned', () => {
  assert.equal(delayAt({ prices: null, warm: 4, prefill: 2 }, { input: 10, output: 9 }), 12)
  assert.equal(delayAt({ prices: null, warm: 4, prefill: null }, { input: 10, output: 9 }), null)
})
