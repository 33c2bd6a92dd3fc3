import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { Catalogue, Config } from '../../core/config.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import { firstKnown, isListedModel, modelAt, routeNamed } from './models.ts'

const provider: Provider = {
  name: 'openai',
  title: 'OpenAI',
  order: 1,
  speaks: [{ protocol: 'openai-chat' }],
  auth: 'none',
  defaultModel: 'by-default',
  knownModels: ['built-in'],
}
const instance: Instance = {
  id: 'east',
  provider,
  baseUrl: 'https://east.example/v1',
  keys: [],
  models: ['configured'],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
}
const to = (model: string) => ({ provider: 'east', model, weight: 1 })
const config: Config = {
  settings: defaultSettings,
  instances: [instance],
  routes: new Map([['fast', { name: 'fast', targets: [to('in-a-route')], fallback: [to('in-a-fallback')] }]]),
}
/** Like the real catalogue: facts for all variants, an entry for one name. */
const catalogue: Catalogue = Object.assign(
  (_provider: string, model: string) => (model.startsWith('gpt-x') ? {} : undefined),
  { lists: (name: string, model: string) => name === 'openai' && model === 'gpt-x' },
)
const sources = { config, lists: new Map([['east', ['fetched']]]), catalogue }

for (const model of ['configured', 'by-default', 'built-in', 'fetched', 'in-a-route', 'in-a-fallback', 'gpt-x'])
  test(`models: ${model} is listed`, () => assert.equal(isListedModel(sources, 'east', model), true))

for (const model of ['invented', 'fast', '', 'gpt-x:invented', 'gpt-x-2031-01-01'])
  test(`models: ${JSON.stringify(model)} is not listed`, () =>
    assert.equal(isListedModel(sources, 'east', model), false))

test('models: a variant of a known model may be requested, but is not listed', () =>
  assert.equal(modelAt(sources, instance, 'gpt-x:invented'), 'gpt-x:invented'))

test('models: no model of an unknown instance is listed', () =>
  assert.equal(isListedModel(sources, 'west', 'configured'), false))

for (const [written, name] of [
  ['configured', 'configured'],
  [' Configured ', 'configured'],
  ['FETCHED', 'fetched'],
  ['models/Built-In', 'built-in'],
  ['invented', undefined],
] as const)
  test(`models: ${JSON.stringify(written)} is sent as ${name}`, () =>
    assert.equal(modelAt(sources, instance, written), name))

const withForm: Config = { ...config, instances: [{ ...instance, speaks: [{ protocol: 'gemini', models: /^own\./ }] }] }
for (const [names, known] of [
  [['x', 'configured', 'fast'], 'fast'],
  [['x', 'configured'], 'configured'],
  [['x', 'east/y'], 'east/y'],
  [['x', 'own.y', 'z'], 'own.y'],
  [['gpt-x-2031-01-01', 'gpt-x'], 'gpt-x'],
  [['x', 'y'], 'x'],
  [[], ''],
] as const)
  test(`models: of ${names.join(', ') || 'no names'} the known one is ${known}`, () =>
    assert.equal(firstKnown({ ...sources, config: withForm }, names), known))

test('models: of two names that differ only in case, the one as written is sent', () => {
  const both = { ...instance, models: ['Model-A', 'model-a', 'MODEL-A'] }
  for (const name of both.models) assert.equal(modelAt(sources, both, name), name)
})

test('models: a route is found by its name in any case, and the exact name comes first', () => {
  const routes = new Map(['Fast', 'fast'].map((name) => [name, { name, targets: [], fallback: [] }]))
  for (const [name, found] of [
    ['fast', 'fast'],
    ['Fast', 'Fast'],
    [' FAST ', 'Fast'],
    ['slow', undefined],
  ] as const)
    assert.equal(routeNamed({ routes }, name)?.name, found)
})
