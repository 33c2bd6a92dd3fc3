import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PriceOverride, PriceRule } from '../../core/accounts.ts'
import type { Catalogue, CataloguePrices } from '../../core/config.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import { type PriceBook, priceBook } from './price-book.ts'

const provider = (name: string, more: Partial<Provider> = {}): Provider => ({
  name,
  title: name,
  order: 1,
  speaks: [],
  auth: 'none',
  ...more,
})
const instance = (id: string, kind = provider(id)): Instance => ({
  id,
  provider: kind,
  baseUrl: `http://${id}.example`,
  keys: [],
  models: [],
  speaks: [],
  variables: {},
})
const openai = instance('openai')
const east = instance('openai-east', provider('openai'))
const demo = instance('demo', provider('demo', { builtin: true }))

const listed: { readonly [name: string]: CataloguePrices } = {
  'openai gpt-5': { input: 1_000, output: 2_000 },
  'openai gpt-new': { input: 1_000, output: 2_000, from: 5_000 },
}
const catalogue: Catalogue = Object.assign(
  (name: string, model: string) => {
    const prices = listed[`${name} ${model}`]
    return prices && { prices }
  },
  { date: () => '2026-11-21' },
)

let rules = 0
const rule = (from: string, model: string, prices: PriceOverride, effectiveFrom = 0): PriceRule => ({
  id: `prc_${++rules}`,
  provider: from,
  model,
  prices,
  effectiveFrom,
  managed: 'file',
})
const usage = { input: 10, output: 1 }
const costAt = (book: PriceBook, at = 10_000, model = 'gpt-5', of = openai) =>
  book.costOfAttempt({ instance: of, model, usage, at }).nano

test('price book: a catalogue price, with its version', () => {
  const book = priceBook(catalogue, [])
  assert.deepEqual(book.costOfAttempt({ instance: east, model: 'gpt-5', usage, at: 0 }), {
    nano: 12_000,
    source: 'catalogue',
    version: 'cat:2026-11-21',
  })
  assert.equal(book.reservation({ instance: east, model: 'gpt-5', input: 10, output: 1, at: 0 }), 12_000)
  assert.equal(book.blendedPrice({ instance: east, model: 'gpt-5', at: 0 }), 1_250)
})

test('price book: an unknown model has no cost, reservation or blended price', () => {
  const book = priceBook(catalogue, [])
  assert.deepEqual(book.costOfAttempt({ instance: openai, model: 'no', usage, at: 0 }), {
    nano: null,
    source: 'none',
    version: null,
  })
  assert.equal(book.reservation({ instance: openai, model: 'no', input: 1, output: 1, at: 0 }), null)
  assert.equal(book.blendedPrice({ instance: openai, model: 'no', at: 0 }), undefined)
})

test('price book: catalogue prices do not apply before their first day', () => {
  const book = priceBook(catalogue, [])
  assert.equal(costAt(book, 4_999, 'gpt-new'), null)
  assert.equal(costAt(book, 5_000, 'gpt-new'), 12_000)
})

test("price book: the upstream's own cost comes before every price", () => {
  const book = priceBook(catalogue, [rule('*', '*', { input: 1, output: 1 })])
  const attempt = { instance: openai, model: 'gpt-5', usage: { ...usage, reportedCost: 7.5 }, at: 0 }
  assert.deepEqual(book.costOfAttempt(attempt), { nano: 8, source: 'upstream', version: 'up' })
})

test('price book: a provider that is built in costs nothing, whatever the rules', () => {
  const book = priceBook(catalogue, [rule('*', '*', { input: 1, output: 1 })])
  assert.equal(costAt(book, 0, 'echo', demo), 0)
  assert.equal(book.reservation({ instance: demo, model: 'echo', input: 9, output: 9, at: 0 }), 0)
})

const precedence: readonly (readonly [name: string, rules: readonly PriceRule[], nano: number, model?: string])[] = [
  ['a price replaces that of the catalogue', [rule('openai', 'gpt-5', { input: 1 })], 10 + 2_000],
  ['a factor', [rule('openai', '*', { factor: 0.5 })], 6_000],
  ['a rule of another instance', [rule('openai-east', '*', { factor: 0.5 })], 12_000],
  ['a rule of another model', [rule('openai', 'gpt-5-*', { factor: 0.5 })], 12_000],
  ['names in any case', [rule('OpenAI', 'GPT-*', { factor: 0.5 })], 6_000],
  ['a glob of instances', [rule('open*', 'gpt-5', { factor: 0.5 })], 6_000],
  [
    'an exact model before a glob',
    [rule('openai', 'gpt-5', { factor: 0.5 }), rule('openai', 'gpt-*', { factor: 2 })],
    6_000,
  ],
  ['a longer glob before a shorter one', [rule('*', 'gpt-*', { factor: 0.5 }), rule('*', '*', { factor: 2 })], 6_000],
  [
    'the exact instance before the exact model',
    [rule('openai', '*', { factor: 0.5 }), rule('*', 'gpt-5', { factor: 2 })],
    6_000,
  ],
  ['the last of equal rules', [rule('*', '*', { factor: 2 }), rule('*', '*', { factor: 0.5 })], 6_000],
  ['the later of two dates', [rule('*', '*', { factor: 0.5 }, 9_000), rule('*', '*', { factor: 2 }, 1_000)], 6_000],
  ['a rule that is not effective yet', [rule('*', '*', { factor: 0.5 }), rule('*', '*', { factor: 2 }, 10_001)], 6_000],
  ['prices of a model that the catalogue does not have', [rule('*', 'own', { input: 1, output: 2 })], 12, 'own'],
]
for (const [name, given, nano, model] of precedence)
  test(`price book: ${name}`, () => assert.equal(costAt(priceBook(catalogue, given), 10_000, model), nano))

test('price book: an override has the version of its rule, and changes reservation and blended price', () => {
  const half = rule('openai', 'gpt-5', { factor: 0.5 }, 100)
  const book = priceBook(catalogue, [half])
  const of = { instance: openai, model: 'gpt-5', at: 100 }
  assert.deepEqual(book.costOfAttempt({ ...of, usage }), { nano: 6_000, source: 'override', version: `ovr:${half.id}` })
  assert.equal(book.reservation({ ...of, input: 10, output: 1 }), 6_000)
  assert.equal(book.blendedPrice(of), 625)
  assert.equal(book.blendedPrice({ ...of, at: 99 }), 1_250)
})

test('price book: more models than are kept have their own prices', () => {
  const book = priceBook(catalogue, [rule('*', 'm-7', { input: 1, output: 1 })])
  for (let at = 0; at < 2_500; at++) assert.equal(costAt(book, 0, `m-${at}`), at === 7 ? 11 : null)
  assert.equal(costAt(book, 0, 'm-7'), 11)
})

// ── The model that answers ──────────────────────────────────────────────────────────────────────────────────────────

const ROUTED: { readonly [model: string]: number } = {
  'gpt-5': 1_000,
  'gpt-5-mini': 100,
  'gpt-4': 30_000,
  'gpt-4-1106-preview': 10_000,
  'gpt-4o': 2_500,
  'gpt-4o-2024-05-13': 5_000,
  'openai/gpt-5': 1_050,
  'vendor/free': 7,
}
const routers: Catalogue = Object.assign(
  (_: string, model: string) => {
    const input = ROUTED[model]
    return input === undefined ? undefined : { prices: { input } }
  },
  { lists: (_: string, model: string) => Object.hasOwn(ROUTED, model) },
)
/** The price of one token of input. */
const priceOf = (model: string, answering: string | null, ...set: readonly PriceRule[]) =>
  priceBook(routers, set).costOfAttempt({ instance: openai, model, answering, usage: { input: 1, output: 0 }, at: 0 })
    .nano

const answered: readonly (readonly [what: string, price: number | null, expected: number | null])[] = [
  ['a model that does not name itself', priceOf('gpt-5', null), 1_000],
  ['a smaller model', priceOf('gpt-5', 'gpt-5-mini'), 100],
  ['a model behind a deployment (BerriAI/litellm#22957)', priceOf('my-deployment', 'gpt-5-mini'), 100],
  ['a model chosen by a router', priceOf('openrouter/auto', 'openai/gpt-5'), 1_050],
  ['a model that is not listed', priceOf('gpt-5', 'gpt-6'), 1_000],
  ['neither is known', priceOf('my-deployment', 'gpt-6'), null],
  ['a snapshot of the requested model', priceOf('gpt-4o', 'gpt-4o-2024-05-13'), 2_500],
  ['the model of the requested snapshot', priceOf('gpt-4o-2024-05-13', 'gpt-4o'), 5_000],
  ['a less exact name (BerriAI/litellm#1874)', priceOf('gpt-4-1106-preview', 'gpt-4'), 10_000],
  ['the model of a free variant', priceOf('vendor/free:free', 'vendor/free'), null],
  ['the same name in other case', priceOf('gpt-5', 'GPT-5'), 1_000],
  [
    'a rule for the requested model',
    priceOf('my-deployment', 'gpt-5-mini', rule('openai', 'my-deployment', { input: 5 })),
    5,
  ],
  ['a rule for all models', priceOf('gpt-5', 'gpt-5-mini', rule('openai', '*', { factor: 0.5 })), 50],
  ['a rule for the answering model', priceOf('gpt-5', 'gpt-5-mini', rule('openai', 'gpt-5-mini', { input: 9 })), 9],
  [
    'rules for both',
    priceOf('gpt-5', 'gpt-5-mini', rule('openai', 'gpt-5', { input: 5 }), rule('openai', 'gpt-5-mini', { input: 9 })),
    9,
  ],
]
for (const [what, price, expected] of answered)
  test(`price book: the answering model: ${what}`, () => assert.equal(price, expected))

test('price book: a model that the configuration lists is known too', () => {
  const house = { ...instance('house'), models: ['m1', 'm2'] }
  const book = priceBook(() => undefined, [rule('house', 'm1', { input: 5 }), rule('house', 'm2', { input: 9 })])
  const of = { instance: house, model: 'm1', usage: { input: 1, output: 0 }, at: 0 }
  assert.equal(book.costOfAttempt({ ...of, answering: 'm2' }).nano, 9)
  assert.equal(book.costOfAttempt({ ...of, answering: 'm3' }).nano, 5)
})

test('price book: factors of a rule, of the catalogue and of the provider complete each other', () => {
  const claude = instance('claude', provider('claude', { service: { fast: 6, us: 1.1 } }))
  const known: Catalogue = () => ({ prices: { input: 1_000, service: { fast: 2, batch: 0.5 } } })
  const costWith = (service: { speed?: string; region?: string; serviceTier?: string }, ...set: readonly PriceRule[]) =>
    priceBook(known, set).costOfAttempt({
      instance: claude,
      model: 'm',
      usage: { input: 1, output: 0, ...service },
      at: 0,
    }).nano
  assert.equal(costWith({ speed: 'fast' }), 2_000)
  assert.equal(costWith({ speed: 'fast', region: 'us' }), 2_200)
  const own = rule('claude', '*', { service: { fast: 4 } })
  assert.equal(costWith({ speed: 'fast', region: 'us' }, own), 4_400)
  assert.equal(costWith({ serviceTier: 'batch' }, own), 500)
  const alone = priceBook(() => undefined, [rule('claude', '*', { input: 10 })])
  const of = { instance: claude, model: 'new', usage: { input: 1, output: 0, speed: 'fast' }, at: 0 }
  assert.equal(alone.costOfAttempt(of).nano, 60)
})

const FREE: readonly (readonly [string, PriceOverride, boolean])[] = [
  ['input and output of 0', { input: 0, output: 0 }, true],
  ['a factor of 0', { factor: 0 }, true],
  ['a price of output', { input: 0, output: 1 }, false],
  ['a price of input', { input: 1, output: 0 }, false],
  ['a price of what is read from the cache', { input: 0, output: 0, cacheRead: 1 }, false],
  ['a price of a tool', { input: 0, output: 0, tools: { webSearch: 1 } }, false],
  ['tools of 0', { input: 0, output: 0, tools: { webSearch: 0 } }, true],
  ['a price of a unit', { input: 0, output: 0, perUnit: { seconds: 1 } }, false],
  ['units of 0', { input: 0, output: 0, perUnit: { seconds: 0 } }, true],
  // Its tokens have no price, and other endpoints bill them.
  ['units of 0 alone', { perUnit: { images: 0 } }, false],
  ['a price of a tier', { input: 0, output: 0, tiers: [{ above: 10, input: 1, output: 0 }] }, false],
]
for (const [what, prices, isFree] of FREE)
  test(`price book: with ${what}, a model is ${isFree ? '' : 'not '}free`, () => {
    const book = priceBook(catalogue, [rule('openai', 'gpt-5', prices)])
    assert.equal(book.isFree({ instance: openai, model: 'gpt-5', at: 0 }), isFree)
  })

test('price book: a model without a rule, or whose price of output is unknown, is not free', () => {
  const book = priceBook(catalogue, [rule('openai', 'other', { input: 0 })])
  assert.equal(book.isFree({ instance: openai, model: 'gpt-5', at: 0 }), false)
  assert.equal(book.isFree({ instance: openai, model: 'other', at: 0 }), false)
  assert.equal(book.blendedPrice({ instance: openai, model: 'other', at: 0 }), undefined)
})

test('price book: a rule of a whole name applies to versions of the model, unless they have one or are tuned', () => {
  const book = priceBook(catalogue, [
    rule('openai', 'gpt-9', { input: 1, output: 0 }),
    rule('openai', 'gpt-9-2026-01-02', { input: 2, output: 0 }),
  ])
  const cost = (model: string) => costAt(book, 0, model)
  assert.deepEqual(['gpt-9', 'gpt-9-2026-01-02', 'gpt-9-2026-03-04'].map(cost), [10, 20, 10])
  assert.equal(cost('ft:gpt-9:acme::abc'), null)
})
