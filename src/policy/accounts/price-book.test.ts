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
