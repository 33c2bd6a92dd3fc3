import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { CATALOGUE_FILE, decodeCatalogue, lookUp, openCatalogue } from './catalogue.ts'
import { loadProviders } from './load-providers.ts'

const body = {
  providers: {
    one: {
      'big-1': { context: 1000, output: 100, price: [250, 2000, 25], can: ['tools'] },
      'big-1-2025-01-01': { price: [300, null] },
      small: { price: [37.5, 150, null, 40] },
      full: {
        price: [3_000, 15_000, 300, 3_750],
        audio: [null, 80_000],
        image: [4_000],
        cacheWrite1h: 6_000,
        reasoning: 9_000,
        tiers: [{ above: 200_000, price: [6_000, null, 600], cacheWrite1h: 12_000 }],
        service: { batch: 0.5, priority: 2 },
        tools: { web_search: 10_000_000 },
        from: '2026-11-21',
      },
    },
    two: { 'vendor/big-1': { context: 5 } },
  },
}
const known = lookUp(decodeCatalogue(body).entries)
const big = {
  contextWindow: 1000,
  maxOutputTokens: 100,
  prices: { input: 250, output: 2000, cacheRead: 25 },
  capabilities: ['tools'],
}
const { prices: _, ...unpriced } = big

for (const [provider, model, listed] of [
  ['one', 'big-1', true],
  ['one', 'models/big-1', true],
  ['one', 'big-1-2025-01-01', true],
  ['one', 'big-1-2025-02-02', false],
  ['one', 'big-1:free', false],
  ['three', 'big-1', false],
] as const)
  test(`catalogue: ${provider} ${listed ? 'lists' : 'does not list'} ${model}`, () =>
    assert.equal(known.lists?.(provider, model), listed))

const lookups = [
  ['its name', 'one', 'big-1', big],
  ['a snapshot with its own facts', 'one', 'big-1-2025-01-01', { prices: { input: 300 } }],
  ['an unlisted snapshot', 'one', 'big-1-2025-09-30', big],
  ['a snapshot with a compact date', 'one', 'big-1-20250930', big],
  ['a snapshot in the format of Vertex', 'one', 'big-1@20250930', big],
  ['digits that are not a date', 'one', 'big-1-20259999', undefined],
  ['a variant at another price', 'one', 'big-1:free', unpriced],
  ['with the prefix models/', 'one', 'models/small', { prices: { input: 37.5, output: 150, cacheWrite: 40 } }],
  [
    'all prices',
    'one',
    'full',
    {
      prices: {
        input: 3_000,
        output: 15_000,
        cacheRead: 300,
        cacheWrite: 3_750,
        cacheWrite1h: 6_000,
        audioOutput: 80_000,
        imageInput: 4_000,
        reasoning: 9_000,
        tiers: [{ above: 200_000, input: 6_000, cacheRead: 600, cacheWrite1h: 12_000 }],
        service: { batch: 0.5, priority: 2 },
        tools: { web_search: 10_000_000 },
        from: Date.UTC(2026, 10, 21),
      },
    },
  ],
  ['a longer name with the same beginning', 'one', 'big-10', undefined],
  ['a model of another provider', 'one', 'vendor/big-1', undefined],
  ['a missing vendor prefix', 'two', 'big-1', undefined],
  ['an unknown provider', 'three', 'big-1', undefined],
  ['an object member name', 'constructor', 'constructor', undefined],
  ['an object member name as a model', 'one', '__proto__', undefined],
  ['an empty name', 'one', '', undefined],
] as const

for (const [what, provider, model, facts] of lookups)
  test(`catalogue: ${what}`, () => assert.deepEqual(known(provider, model), facts))

const wrong = [
  ['a price of zero', { price: [0, 1] }],
  ['a price below zero', { price: [-1, 1] }],
  ['a price as text', { price: ['1', 1] }],
  ['five prices', { price: [1, 1, 1, 1, 1] }],
  ['a fractional window', { context: 0.5 }],
  ['a window of zero', { context: 0 }],
  ['capabilities that are not text', { can: [1] }],
  ['an audio price as text', { audio: ['1'] }],
  ['three audio prices', { audio: [1, 1, 1] }],
  ['an image price that is not a list', { image: 5 }],
  ['a cache write for an hour of zero', { cacheWrite1h: 0 }],
  ['a reasoning price as text', { reasoning: '1' }],
  ['a tier without its limit', { tiers: [{ price: [1, 1] }] }],
  ['a tier with a wrong price', { tiers: [{ above: 10, price: [0, 1] }] }],
  ['tiers that are not a list', { tiers: { above: 10 } }],
  ['a negative service factor', { service: { batch: -1 } }],
  ['a tool price as text', { tools: { web_search: '1' } }],
  ['a first day that is no date', { from: '2026-13-01' }],
  ['not an object', 7],
] as const

for (const [what, entry] of wrong)
  test(`catalogue: ${what} is reported and left out`, () => {
    const { entries, problems } = decodeCatalogue({ providers: { one: { bad: entry, good: { context: 5 } } } })
    assert.deepEqual(problems, ['one bad is not a valid entry'])
    assert.deepEqual([...(entries.get('one')?.keys() ?? [])], ['good'])
  })

for (const value of [null, 7, ['big-1']])
  test(`catalogue: a provider with the value ${JSON.stringify(value)} is reported and has no models`, () => {
    const { entries, problems } = decodeCatalogue({ providers: { one: value, two: { good: { context: 5 } } } })
    assert.deepEqual(problems, ['one is not a valid entry'])
    assert.deepEqual([entries.get('one')?.size, entries.get('two')?.size], [0, 1])
  })

test('catalogue: an unreadable file is reported once, and every model is unknown', () => {
  const problems: string[] = []
  const catalogue = openCatalogue((problem) => problems.push(problem), new URL('nowhere.json', import.meta.url))
  assert.deepEqual(problems, [])
  assert.equal(catalogue('openai', 'gpt-4o'), undefined)
  assert.equal(catalogue('openai', 'gpt-4o'), undefined)
  assert.equal(problems.length, 1)
})

const file = JSON.parse(readFileSync(CATALOGUE_FILE, 'utf8'))
const providers = await loadProviders()

test('catalogue: the committed file is complete, small and names its sources', () => {
  assert.deepEqual(decodeCatalogue(file).problems, [])
  assert.ok(readFileSync(CATALOGUE_FILE).length < 400 * 1024)
  assert.match(file.made, /^20[0-9]{2}-[0-9]{2}-[0-9]{2}$/)
  assert.equal(openCatalogue((problem) => assert.fail(problem), CATALOGUE_FILE).date?.(), file.made)
  assert.ok(file.sources.length > 0)
  const notice = readFileSync(new URL('CATALOGUE-LICENSE', CATALOGUE_FILE), 'utf8')
  for (const { name, version, licence, copyright } of file.sources) {
    assert.ok(name && version)
    assert.equal(licence, 'MIT')
    assert.ok(notice.includes(copyright), `${copyright} is not in the notice`)
  }
})

test('catalogue: its providers exist, with their catalogue names', () => {
  const names = new Set([...providers.values()].map(({ catalogue, name }) => catalogue ?? name))
  for (const name of Object.keys(file.providers)) assert.ok(names.has(name), name)
})

test("catalogue: each provider's default model is known, with prices and, if its format requires one, an output limit", () => {
  const catalogue = openCatalogue((problem) => assert.fail(problem), CATALOGUE_FILE)
  for (const { name, catalogue: called, defaultModel, speaks } of providers.values()) {
    if (defaultModel === undefined || !(name in file.providers)) continue
    const facts = catalogue(called ?? name, defaultModel)
    assert.ok(facts?.prices?.input && facts.prices.output && facts.contextWindow, `${name} ${defaultModel}`)
    if (speaks[0]?.protocol === 'anthropic-messages') assert.ok(facts.maxOutputTokens)
  }
})
