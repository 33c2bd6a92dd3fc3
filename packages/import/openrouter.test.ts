// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
/** Requests and presets of OpenRouter, written for these tests: what each becomes, and that the loader accepts it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lackOf } from '../../src/policy/accounts/data-policy.ts'
import { checkImport, type ImportCase, known, loadImport, sourceOf } from '../../test/support/imports.ts'
import { yamlText } from './imported.ts'
import { importOpenrouter } from './openrouter.ts'

const SONNET = 'anthropic/claude-sonnet-4.5'
const OWN = 'anthropic/claude-sonnet-4-5'

const CASES: readonly (readonly [string, object, ImportCase[2], ImportCase[3]])[] = [
  [
    'a model whose provider has it',
    { model: SONNET, messages: [{ role: 'user', content: 'canary' }], temperature: 0.2 },
    {
      providers: {
        anthropic: { keys: ['${ANTHROPIC_API_KEY}'], models: ['claude-sonnet-4-5'] },
        openrouter: { keys: ['${OPENROUTER_API_KEY}'], models: [SONNET] },
      },
      routes: { [SONNET]: { targets: [OWN], fallback: [`openrouter/${SONNET}`] } },
      strategy: 'priority',
    },
    ['changed model', 'taken messages', 'taken temperature'],
  ],
  [
    'a model of no known provider',
    { model: 'gryphe/mythomax-l2-13b' },
    { routes: { 'gryphe/mythomax-l2-13b': { targets: ['openrouter/gryphe/mythomax-l2-13b'] } } },
    ['changed model'],
  ],
  [
    'a free variant',
    { model: 'openai/gpt-5-mini:free' },
    { routes: { 'openai/gpt-5-mini:free': { targets: ['openrouter/openai/gpt-5-mini:free'] } } },
    ['changed model'],
  ],
  [
    'another variant',
    { model: 'openai/gpt-5-mini:nitro' },
    {
      routes: {
        'openai/gpt-5-mini:nitro': { targets: ['openai/gpt-5-mini'], fallback: ['openrouter/openai/gpt-5-mini:nitro'] },
      },
    },
    ['changed model'],
  ],
  [
    'further models',
    { models: [SONNET, 'openai/gpt-5-mini', SONNET, 5], route: 'fallback' },
    {
      routes: {
        [SONNET]: {
          targets: [OWN],
          fallback: [`openrouter/${SONNET}`, 'openai/gpt-5-mini', 'openrouter/openai/gpt-5-mini'],
        },
      },
    },
    ['changed models[0]', 'changed models[1]', 'taken models[2]', 'left out models[3]', 'taken route'],
  ],
  [
    'no fallback to others',
    { model: SONNET, provider: { order: ['anthropic'], allow_fallbacks: false } },
    { routes: { [SONNET]: { targets: [OWN] } } },
    ['taken provider.order[0]', 'taken provider.allow_fallbacks'],
  ],
  [
    'only some providers',
    { model: 'openai/gpt-oss-120b', provider: { only: ['groq', 'Cerebras/fp16', 'unknown-host'] } },
    {
      routes: { 'openai/gpt-oss-120b': { targets: ['groq/openai/gpt-oss-120b'], fallback: ['cerebras/gpt-oss-120b'] } },
    },
    ['taken provider.only[0]', 'changed provider.only[1]', 'left out provider.only[2]'],
  ],
  [
    'a provider without these models',
    { model: SONNET, provider: { order: ['groq'] } },
    { routes: { [SONNET]: { targets: [OWN], fallback: [`openrouter/${SONNET}`] } } },
    ['left out provider.order[0]'],
  ],
  [
    'providers that are ignored',
    { model: SONNET, provider: { ignore: ['anthropic', 'azure'], allow_fallbacks: true } },
    { routes: { [SONNET]: { targets: [`openrouter/${SONNET}`] } } },
    ['taken provider.ignore[0]', 'taken provider.ignore[1]', 'taken provider.allow_fallbacks'],
  ],
  [
    'by price',
    { model: SONNET, models: ['openai/gpt-5-mini'], provider: { sort: 'price' } },
    {
      routes: {
        [SONNET]: {
          targets: [OWN, `openrouter/${SONNET}`],
          fallback: ['openai/gpt-5-mini', 'openrouter/openai/gpt-5-mini'],
        },
      },
      strategy: 'cost',
    },
    ['taken provider.sort'],
  ],
  [
    'by throughput',
    { model: SONNET, provider: { sort: { by: 'throughput', partition: 'none' } } },
    { strategy: 'latency' },
    ['changed provider.sort.by', 'left out provider.sort.partition'],
  ],
  [
    'preferences without a counterpart',
    {
      model: SONNET,
      provider: {
        quantizations: ['fp8'],
        max_price: { prompt: 1 },
        require_parameters: true,
      },
    },
    { routes: { [SONNET]: { targets: [OWN], fallback: [`openrouter/${SONNET}`] } } },
    ['left out provider.quantizations', 'left out provider.max_price', 'changed provider.require_parameters'],
  ],
  [
    'data policies',
    { model: SONNET, provider: { data_collection: 'deny', zdr: true } },
    {
      routes: {
        [SONNET]: {
          targets: [OWN],
          fallback: [`openrouter/${SONNET}`],
          require: { retention: 0, training: false },
        },
      },
    },
    ['changed provider.data_collection', 'changed provider.zdr'],
  ],
  [
    'data policies that require nothing',
    { model: SONNET, provider: { data_collection: 'allow', zdr: false } },
    { routes: { [SONNET]: { targets: [OWN], fallback: [`openrouter/${SONNET}`] } } },
    ['taken provider.data_collection', 'taken provider.zdr'],
  ],
  [
    'data policies that OpenRouter refuses',
    { model: SONNET, provider: { data_collection: 'none', zdr: 'yes' } },
    { routes: { [SONNET]: { targets: [OWN], fallback: [`openrouter/${SONNET}`] } } },
    ['left out provider.data_collection', 'left out provider.zdr'],
  ],
  [
    "OpenRouter's own members",
    {
      model: SONNET,
      plugins: [{ id: 'web' }],
      transforms: ['middle-out'],
      preset: 'mine',
      debug: { echo: true },
      route: 'best',
    },
    { routes: { [SONNET]: { targets: [OWN], fallback: [`openrouter/${SONNET}`] } } },
    ['left out plugins', 'left out transforms', 'left out preset', 'left out debug', 'left out route'],
  ],
  [
    'presets as models, and unknown members',
    { model: '@preset/mine', models: ['openai/gpt-5-mini'], provider: { ordr: ['a'] }, temprature: 1 },
    { routes: { 'openai/gpt-5-mini': { targets: ['openai/gpt-5-mini'], fallback: ['openrouter/openai/gpt-5-mini'] } } },
    ['left out model', 'left out provider.ordr[0]', 'left out temprature'],
  ],
  [
    'bodies of other endpoints',
    { model: 'cohere/rerank-v4', documents: ['a', 'b'], top_n: 1, duration: 5, encoding_format: 'float' },
    {},
    ['left out documents', 'left out top_n', 'left out duration', 'taken encoding_format'],
  ],
  ['nothing usable', { model: 7, provider: 'x' }, { providers: {} }, ['left out model', 'left out provider']],
]

for (const [name, source, expected, rows] of CASES)
  test(`import openrouter: ${name}`, () => {
    const text = JSON.stringify(source, null, 2)
    const parsed = sourceOf(text)
    const result = importOpenrouter(parsed, known) ?? assert.fail('no request')
    checkImport(parsed, result, [name, text, expected, rows])
  })

test('import openrouter: what is no request is refused', () => {
  for (const text of ['', 'hello', '[]', '{}', '{"messages": []}'])
    assert.equal(importOpenrouter(sourceOf(text), known), undefined, text)
})

test('import openrouter: the comments of the providers are the facts which its data policies require', () => {
  const text = JSON.stringify({ model: SONNET, provider: { zdr: true, data_collection: 'deny' } })
  const yaml = yamlText(importOpenrouter(sourceOf(text), known) ?? assert.fail())
  const lacking = (text: string) => {
    const { instances, routes } = loadImport(text)
    const require = routes.get(SONNET)?.require ?? assert.fail('no requirement')
    return instances.flatMap((instance) => (lackOf(require, { instance, model: 'm' }) ? [instance.id] : []))
  }
  assert.deepEqual(lacking(yaml), ['anthropic', 'openrouter'])
  assert.deepEqual(lacking(yaml.replace(/# (?=facts:)/g, '')), [])
})
