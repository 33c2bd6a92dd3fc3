import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AttemptTokens, type ChargedEnd, chargedCost, chargedUsage, completed, isPlausible } from './charge.ts'
import type { PricedUsage } from './cost.ts'

const reported = { input: 100, output: 1, cacheRead: 60 }
const none = { input: 0, output: 0 }

/** Estimates 90 input tokens and `output` output tokens. */
const tokens = (output: number, counted?: PricedUsage): AttemptTokens => ({
  reported: counted,
  estimatedInput: () => 90,
  estimatedOutput: () => output,
  textLength: () => 4 * output,
  owedOutput: () => 64,
})

const cases: readonly (readonly [
  end: ChargedEnd,
  tokens: AttemptTokens,
  usage: PricedUsage,
  source: 'exact' | 'estimated',
])[] = [
  ['answered', tokens(40, { ...reported, output: 50 }), { ...reported, output: 50 }, 'exact'],
  ['answered', tokens(0, { input: 7, output: 0 }), { input: 7, output: 0 }, 'exact'],
  // Zeros beside a text are placeholders.
  ['answered', tokens(40, none), { input: 90, output: 40 }, 'estimated'],
  ['answered', tokens(40, { input: 7, output: 0 }), { input: 7, output: 40 }, 'estimated'],
  ['answered', tokens(40, { input: 0, output: 12 }), { input: 90, output: 12 }, 'estimated'],
  ['answered', tokens(0, { input: 7, output: 0, unknown: 'output' }), { input: 7, output: 0 }, 'estimated'],
  [
    'answered',
    tokens(0, { input: 0, output: 3, cacheRead: 600, unknown: 'input' }),
    { input: 600, output: 3, cacheRead: 600 },
    'estimated',
  ],
  // The tokens of the last event instead of all.
  ['answered', tokens(900, { input: 7, output: 1 }), { input: 7, output: 900 }, 'estimated'],
  ['answered', tokens(900, { input: 7, output: 300 }), { input: 7, output: 300 }, 'exact'],
  ['answered', tokens(40), { input: 90, output: 40 }, 'estimated'],
  ['interrupted', tokens(40, reported), { ...reported, output: 40 }, 'estimated'],
  ['interrupted', tokens(40, { ...reported, output: 50 }), { ...reported, output: 50 }, 'estimated'],
  ['interrupted', tokens(40), { input: 90, output: 40 }, 'estimated'],
  // At least what was reserved: the upstream may have generated it.
  ['given_up', tokens(40, reported), { ...reported, output: 64 }, 'estimated'],
  ['given_up', tokens(0), { input: 90, output: 64 }, 'estimated'],
  ['given_up', tokens(900, reported), { ...reported, output: 900 }, 'estimated'],
  ['given_up', tokens(0, { ...reported, output: 70, reportedCost: 3 }), { ...reported, output: 70 }, 'estimated'],
  ['refused', tokens(40, reported), reported, 'exact'],
  ['refused', tokens(40), none, 'exact'],
  ['shared', tokens(40, reported), none, 'exact'],
]
for (const [end, given, usage, source] of cases)
  test(`charge: ${end}, ${given.reported ? `${given.reported.output} output tokens reported` : 'nothing reported'}`, () =>
    assert.deepEqual(chargedUsage(end, given), { usage, source }))

test('charge: a complete count needs no estimate', () => {
  const fail = () => assert.fail('estimated')
  const estimates = { estimatedInput: fail, estimatedOutput: fail, owedOutput: fail }
  chargedUsage('answered', { ...estimates, reported, textLength: () => 9 })
  chargedUsage('refused', { ...estimates, textLength: fail })
})

test('charge: a budget is charged the cost, or the reservation if the cost is unknown', () => {
  assert.equal(chargedCost(7, 100), 7)
  assert.equal(chargedCost(0, 100), 0)
  assert.equal(chargedCost(null, 100), 100)
})

test('charge: a count is plausible up to 256 characters a token and one token more', () => {
  assert.equal(isPlausible({ input: 1, output: 2 }, 768), true)
  assert.equal(isPlausible({ input: 1, output: 2 }, 769), false)
  assert.equal(isPlausible({ input: 1, output: 0 }, 0), true)
  assert.equal(isPlausible({ input: 1, output: 0 }, 1), false)
  assert.equal(isPlausible({ input: 0, output: 2 }, 1), false)
  assert.equal(isPlausible({ input: 1, output: 2, unknown: 'input' }, 1), false)
})

test('charge: an unlikely count that equals the estimate is exact; unknown input is at least what was cached', () => {
  const estimate = { estimatedInput: () => 9, estimatedOutput: () => 2, textLength: () => 10_000 }
  assert.deepEqual(completed({ input: 9, output: 2 }, estimate), { usage: { input: 9, output: 2 }, source: 'exact' })
  const cached = { input: 5, output: 2, cacheRead: 30, cacheWrite: 20, unknown: 'input' } as const
  assert.deepEqual(completed(cached, estimate), {
    usage: { input: 50, output: 2, cacheRead: 30, cacheWrite: 20 },
    source: 'estimated',
  })
})
