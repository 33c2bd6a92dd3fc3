import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PriceRule } from '../../core/accounts.ts'
import type { Catalogue, CataloguePrices } from '../../core/config.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import { dearestPrices } from './dearest-prices.ts'
import { priceBook } from './price-book.ts'

const LISTED: { readonly [name: string]: readonly CataloguePrices[] } = {
  shop: [
    { input: 10, output: 20, cacheRead: 1, service: { fast: 2 } },
    { input: 5, output: 60, tiers: [{ above: 100, input: 30 }], tools: { web_search: 7 } },
    { input: 15 },
  ],
  maker: [{ input: 2, output: 90, service: { fast: 6, us: 1.1 } }],
}
const catalogue: Catalogue = Object.assign(() => undefined, { prices: (name: string) => LISTED[name] ?? [] })

const instance = (name: string, more: Partial<Provider> = {}): Instance => ({
  id: name,
  provider: { name, title: name, order: 1, speaks: [], auth: 'none', ...more },
  baseUrl: `http://${name}.example`,
  keys: [],
  models: [],
  speaks: [],
  variables: {},
})
const rule = (provider: string, model: string, prices: PriceRule['prices']): PriceRule => ({
  ...{ id: `prc_${model}`, provider, model, prices, effectiveFrom: 0, managed: 'file' },
})

test('dearest prices: each is the dearest of any model, tier and maker', () => {
  assert.deepEqual(dearestPrices(catalogue, [], instance('shop')), {
    ...{ input: 30, output: 60, cacheRead: 1, service: { fast: 2 }, tools: { web_search: 7 }, perUnit: {} },
  })
  const sells = instance('shop', { makers: ['maker'] })
  assert.deepEqual(dearestPrices(catalogue, [], sells), {
    ...{ input: 30, output: 90, cacheRead: 1, service: { fast: 6, us: 1.1 }, tools: { web_search: 7 }, perUnit: {} },
  })
})

test('dearest prices: rules count too, and a factor only where it raises them', () => {
  const rules = [rule('shop', 'own', { output: 80, factor: 2 }), rule('other', '*', { input: 900, output: 900 })]
  assert.deepEqual(dearestPrices(catalogue, rules, instance('shop')), {
    ...{ input: 60, output: 160, cacheRead: 2, service: { fast: 2 }, tools: { web_search: 14 }, perUnit: {} },
  })
  assert.equal(dearestPrices(catalogue, [rule('shop', '*', { factor: 0.5 })], instance('shop'))?.input, 30)
  assert.equal(dearestPrices(catalogue, [rule('local', 'm', { input: 1, output: 3 })], instance('local'))?.output, 3)
})

test('dearest prices: none is known', () => {
  assert.equal(dearestPrices(catalogue, [], instance('local')), null)
  assert.equal(
    dearestPrices(() => undefined, [], instance('shop')),
    null,
  )
  assert.equal(dearestPrices(catalogue, [rule('local', 'm', { factor: 2 })], instance('local')), null)
})

test('dearest prices: what a rule sets for an unknown model stays', () => {
  const book = priceBook(catalogue, [rule('shop', 'new', { output: 1 }), rule('shop', 'free', { input: 0, output: 0 })])
  const cost = (model: string, id = 'shop') =>
    book.costOfAttempt({
      instance: instance(id),
      model,
      at: 0,
      usage: { input: 1, output: 1 },
      unknownPrice: 'dearest',
    })
  assert.deepEqual(cost('other'), { nano: 90, source: 'assumed', version: 'dearest' })
  assert.equal(cost('new').nano, 31)
  assert.deepEqual([cost('free').nano, cost('free').source], [0, 'override'])
  assert.equal(cost('other', 'local').nano, null)
  const counted = { input: 1, output: 1, reportedCost: 4 }
  const stated = book.costOfAttempt({
    instance: instance('shop'),
    model: 'x',
    at: 0,
    usage: counted,
    unknownPrice: 'dearest',
  })
  assert.deepEqual([stated.nano, stated.source], [4, 'upstream'])
})
