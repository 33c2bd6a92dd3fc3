import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { PriceList, PriceOverride } from '../../core/accounts.ts'
import { MAX_COST } from '../../core/money.ts'
import { type AttemptCost, costOf, effectivePrices, type PricedUsage, reservationOf } from './cost.ts'

/** Like Claude Sonnet: $3 and $15 per million, cache reads a tenth, writes 1.25 and 2 times the input price. */
const claude: PriceList = {
  input: 3_000,
  output: 15_000,
  cacheRead: 300,
  cacheWrite: 3_750,
  cacheWrite1h: 6_000,
  tiers: [{ above: 200_000, input: 6_000, output: 22_500, cacheRead: 600, cacheWrite: 7_500, cacheWrite1h: 12_000 }],
  service: { batch: 0.5, priority: 2 },
  tools: { web_search: 10_000_000 },
}
const audio: PriceList = { input: 2_500, output: 10_000, cacheRead: 1_250, audioInput: 40_000, audioOutput: 80_000 }

const nanoOf = (usage: PricedUsage, prices: PriceOverride | undefined, service?: string): number | null =>
  costOf({
    usage: { ...usage, ...(service !== undefined && { serviceTier: service }) },
    catalogue: prices && { prices, version: 'cat:2026-11-21' },
  }).nano

const cases: readonly (readonly [
  name: string,
  usage: PricedUsage,
  prices: PriceList | undefined,
  nano: number | null,
])[] = [
  ['no tokens', { input: 0, output: 0 }, claude, 0],
  ['input and output', { input: 1_000, output: 100 }, claude, 3_000_000 + 1_500_000],
  ['cached input is taken out of input once', { input: 1_000, output: 0, cacheRead: 900 }, claude, 300_000 + 270_000],
  ['a cache write for five minutes', { input: 1_000, output: 0, cacheWrite: 800 }, claude, 600_000 + 3_000_000],
  [
    'a cache write for an hour',
    { input: 1_000, output: 0, cacheWrite: 800, cacheWrite1h: 800 },
    claude,
    600_000 + 4_800_000,
  ],
  [
    'cache reads and writes of both kinds',
    { input: 2_000, output: 10, cacheRead: 1_000, cacheWrite: 600, cacheWrite1h: 200 },
    claude,
    400 * 3_000 + 1_000 * 300 + 400 * 3_750 + 200 * 6_000 + 10 * 15_000,
  ],
  [
    'a cache write for an hour without a price of its own',
    { input: 10, output: 0, cacheWrite: 10, cacheWrite1h: 10 },
    { input: 100, cacheWrite: 125 },
    1_250,
  ],
  [
    'cached tokens without prices of their own',
    { input: 10, output: 0, cacheRead: 4, cacheWrite: 3 },
    { input: 5 },
    50,
  ],
  ['cached input that input cannot include', { input: 7, output: 0, cacheRead: 161 }, claude, 7 * 3_000 + 161 * 300],
  [
    'reads and writes that input cannot include together',
    { input: 10, output: 0, cacheRead: 6, cacheWrite: 6 },
    claude,
    10 * 3_000 + 6 * 300 + 6 * 3_750,
  ],
  [
    'reasoning beside the output, cached tokens within the input',
    { input: 10, output: 5, cacheRead: 4, reasoning: 9 },
    claude,
    6 * 3_000 + 4 * 300 + 14 * 15_000,
  ],
  [
    'cached tokens beside the input, reasoning within the output',
    { input: 10, output: 5, cacheRead: 40, reasoning: 4 },
    claude,
    10 * 3_000 + 40 * 300 + 5 * 15_000,
  ],
  [
    'cached input beside the input reaches a tier',
    { input: 100_000, output: 0, cacheRead: 150_000 },
    claude,
    100_000 * 6_000 + 150_000 * 600,
  ],
  ['reasoning that output cannot include', { input: 9, output: 35, reasoning: 267 }, { input: 2, output: 12 }, 3_642],
  ['cached audio', { input: 100, output: 0, cacheRead: 90, audioInput: 80 }, audio, 90 * 1_250 + 10 * 40_000],
  ['reasoning is part of output', { input: 0, output: 10, reasoning: 9 }, claude, 150_000],
  ['reasoning with a price', { input: 0, output: 10, reasoning: 9 }, { output: 100, reasoning: 7 }, 163],
  ['reasoning above the output', { input: 0, output: 5, reasoning: 9 }, { output: 100, reasoning: 7 }, 563],
  [
    'audio in and out',
    { input: 1_000, output: 500, cacheRead: 200, audioInput: 300, audioOutput: 400 },
    audio,
    500 * 2_500 + 200 * 1_250 + 300 * 40_000 + 100 * 10_000 + 400 * 80_000,
  ],
  ['audio without a price', { input: 10, output: 4, audioInput: 4, audioOutput: 2 }, { input: 5, output: 10 }, 90],
  ['images', { input: 100, output: 0, imageInput: 60 }, { input: 10, imageInput: 20 }, 1_600],
  ['input at the limit of a tier', { input: 200_000, output: 1 }, claude, 200_000 * 3_000 + 15_000],
  ['input above the limit of a tier', { input: 200_001, output: 1 }, claude, 200_001 * 6_000 + 22_500],
  [
    'a tier is chosen by the whole input, cached tokens included',
    { input: 250_000, output: 10, cacheRead: 249_000 },
    claude,
    1_000 * 6_000 + 249_000 * 600 + 10 * 22_500,
  ],
  [
    'the highest tier that is reached, whatever their order',
    { input: 600, output: 10 },
    {
      input: 1,
      output: 2,
      tiers: [
        { above: 500, input: 5 },
        { above: 100, input: 3, output: 4 },
      ],
    },
    600 * 5 + 10 * 2,
  ],
  ['a half is rounded up', { input: 1, output: 0 }, { input: 0.5 }, 1],
  ['less than a half is rounded down', { input: 1, output: 0 }, { input: 0.499 }, 0],
  ['rounded once, not per part', { input: 1, output: 1 }, { input: 0.5, output: 0.5 }, 1],
  ['a fractional price', { input: 3, output: 0 }, { input: 37.5 }, 113],
  ['a half that binary fractions miss', { input: 15, output: 0 }, { input: 0.7 }, 11],
  ['a price of 0 is a price', { input: 10, output: 10 }, { input: 0, output: 0 }, 0],
  ['calls of tools', { input: 0, output: 0, toolCalls: { web_search: 3 } }, claude, 30_000_000],
  ['calls of a tool without a price add nothing', { input: 1, output: 0, toolCalls: { code: 1 } }, claude, 3_000],
  [
    'calls of a tool named as a member of every object',
    { input: 1, output: 0, toolCalls: { valueOf: 1 } },
    claude,
    3_000,
  ],
  ['a negative count of calls', { input: 1, output: 0, toolCalls: { web_search: -1 } }, claude, null],
  ['an unknown model', { input: 1, output: 1 }, undefined, null],
  ['no price', { input: 1, output: 1 }, {}, null],
  ['no price for used tokens', { input: 1, output: 1 }, { input: 5 }, null],
  ['no price for unused tokens', { input: 1, output: 0 }, { input: 5 }, 5],
  ['a negative price', { input: 1, output: 0 }, { input: -5 }, null],
  ['a negative count of input', { input: -5, output: 1 }, claude, null],
  ['a negative count of output', { input: 1, output: -1 }, claude, null],
  ['a negative count of a part', { input: 1, output: 1, cacheRead: -1 }, claude, null],
  ['NaN tokens', { input: Number.NaN, output: 1 }, claude, null],
  ['infinite tokens', { input: 1, output: Number.POSITIVE_INFINITY }, claude, null],
  ['more than the limit of an amount', { input: MAX_COST, output: 0 }, { input: 1.1 }, null],
]
for (const [name, usage, prices, nano] of cases) test(`cost: ${name}`, () => assert.equal(nanoOf(usage, prices), nano))

for (const [service, nano] of [
  [undefined, 3_000_000],
  ['default', 3_000_000],
  ['batch', 1_500_000],
  ['priority', 6_000_000],
  ['valueOf', 3_000_000],
] as const)
  test(`cost: service tier ${service}`, () => assert.equal(nanoOf({ input: 1_000, output: 0 }, claude, service), nano))

const usage = { input: 1_000, output: 100 }
const catalogue = { prices: { input: 100, output: 200 }, version: 'cat:2026-11-21' }
const override = { prices: { input: 50 }, version: 'ovr:7' }
const none: AttemptCost = { nano: null, source: 'none', version: null }

test("cost: the upstream's own figure comes first, then the override, then the catalogue", () => {
  assert.deepEqual(costOf({ usage: { ...usage, reportedCost: 758_000 / 10 }, catalogue, override }), {
    nano: 75_800,
    source: 'upstream',
    version: 'up',
  })
  assert.deepEqual(costOf({ usage, catalogue, override }), { nano: 70_000, source: 'override', version: 'ovr:7' })
  assert.deepEqual(costOf({ usage, catalogue }), { nano: 120_000, source: 'catalogue', version: 'cat:2026-11-21' })
  assert.deepEqual(costOf({ usage }), none)
})

test("cost: the upstream's own figure is rounded half up, may be 0, and is ignored if invalid", () => {
  assert.equal(costOf({ usage: { ...usage, reportedCost: 0.5 } }).nano, 1)
  assert.equal(costOf({ usage: { ...usage, reportedCost: 0 } }).nano, 0)
  for (const reportedCost of [-1, Number.NaN, Number.POSITIVE_INFINITY, MAX_COST + 1]) {
    assert.equal(costOf({ usage: { ...usage, reportedCost }, catalogue }).source, 'catalogue')
    assert.deepEqual(costOf({ usage: { ...usage, reportedCost } }), none)
  }
})

const overrides: readonly (readonly [
  name: string,
  usage: PricedUsage,
  override: PriceOverride,
  catalogue: PriceList | undefined,
  nano: number | null,
])[] = [
  ['a factor on the catalogue', usage, { factor: 0.85 }, { input: 100, output: 200 }, 102_000],
  ['a factor on its own prices', usage, { factor: 0.5, input: 10, output: 10 }, { input: 100, output: 200 }, 5_500],
  ['a factor of 0', usage, { factor: 0 }, { input: 100, output: 200 }, 0],
  ['a factor without prices', usage, { factor: 0.85 }, undefined, null],
  ['all prices of an unknown model', usage, { input: 1, output: 2 }, undefined, 1_200],
  ['one price of an unknown model', usage, { input: 1 }, undefined, null],
  ['an undefined member keeps the price', usage, { input: undefined, output: 1 }, { input: 100, output: 200 }, 100_100],
  ['a price replaces that of the tiers', { input: 300_000, output: 1 }, { input: 10 }, claude, 3_000_000 + 22_500],
  ['tiers replace the tiers', { input: 300_000, output: 0 }, { tiers: [{ above: 0, input: 7 }] }, claude, 2_100_000],
]
for (const [name, used, prices, list, nano] of overrides)
  test(`cost: override with ${name}`, () => {
    const cost = costOf({
      usage: used,
      override: { prices, version: 'ovr:7' },
      catalogue: list && { prices: list, version: 'cat:1' },
    })
    assert.equal(cost.nano, nano)
    assert.equal(cost.source, nano === null ? 'none' : 'override')
  })

test('cost: an override leaves the catalogue as it is', () => {
  const before = structuredClone(claude)
  effectivePrices(claude, { input: 1, factor: 2 })
  assert.deepEqual(claude, before)
})

test('cost: a reservation is rounded up, and null without prices', () => {
  assert.equal(reservationOf({ input: 1, output: 0 }, { input: 0.1 }), 1)
  assert.equal(reservationOf({ input: 3, output: 0 }, { input: 37.5 }), 113)
  assert.equal(reservationOf({ input: 10, output: 0 }, { input: 0.1 }), 1)
  assert.equal(reservationOf({ input: 1_000, output: 100 }, claude), 4_500_000)
  assert.equal(reservationOf({ input: 300_000, output: 0 }, claude), 300_000 * 6_000)
  assert.equal(reservationOf({ input: 100, output: 0 }, { input: 100, factor: 0.5 }), 5_000)
  assert.equal(reservationOf({ input: 0, output: 0 }, claude), 0)
  assert.equal(reservationOf({ input: 1, output: 1 }, undefined), null)
  assert.equal(reservationOf({ input: 1, output: 1 }, { input: 1 }), null)
  assert.equal(reservationOf({ input: 1_000, output: 0 }, { input: 1e13 }), MAX_COST)
  assert.equal(reservationOf({ input: Number.NaN, output: 1 }, claude), null)
})

/** Prices with up to four decimals, as an integer of 1/10,000 nano. */
const price = fc.integer({ min: 0, max: 1_000_000_000 })
const count = fc.integer({ min: 0, max: 10_000_000 })
const SCALE = 10_000n

test('cost: equals exact integer arithmetic, rounded half up', () => {
  const prices = fc.tuple(price, price, price, price)
  const counts = fc.tuple(count, count, count, count)
  fc.assert(
    fc.property(prices, counts, ([p0, p1, p2, p3], [plain, read, written, output]) => {
      const list = { input: p0 / 1e4, cacheRead: p1 / 1e4, cacheWrite: p2 / 1e4, output: p3 / 1e4 }
      const products = [
        [plain, p0],
        [read, p1],
        [written, p2],
        [output, p3],
      ] as const
      const scaled = products.reduce((sum, [n, p]) => sum + BigInt(n) * BigInt(p), 0n)
      const half = Number((scaled + SCALE / 2n) / SCALE)
      const cost = nanoOf({ input: plain + read + written, cacheRead: read, cacheWrite: written, output }, list) ?? -1
      // From 2^34 nano-dollars (17 dollars for one attempt) the fourth decimal of a price is below the precision.
      if (half < 2 ** 34) assert.equal(cost, half)
      else assert.ok(Math.abs(cost - half) <= 1)
    }),
    { numRuns: 5_000 },
  )
})
