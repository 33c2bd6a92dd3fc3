import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeCatalogue } from '../../src/config/catalogue/catalogue.ts'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import type { Json } from '../../src/core/json.ts'
import { catalogueText, importCatalogue, joinCatalogues } from './import.ts'
import { served, sourceNames } from './names.ts'

const names = (theirs: string) =>
  ({ openai: 'openai', anthropic: 'anthropic', mistral: 'mistral', gemini: 'gemini' })[theirs]
const read = (body: Json, version = '1') =>
  importCatalogue(body, {
    names,
    relays: (name) => name === 'openai',
    served: () => true,
    today: '2026-11-21',
    version,
  })
const models = (body: Json) =>
  Object.fromEntries([...(read(body)?.models ?? [])].map(([provider, of]) => [provider, Object.fromEntries(of)]))

// Shapes as published by the sources; names and figures are invented.
const litellm = {
  sample_spec: { litellm_provider: 'one of the providers', mode: 'one of the modes' },
  'm-1': {
    litellm_provider: 'openai',
    mode: 'chat',
    max_input_tokens: 272000,
    max_output_tokens: 128000,
    input_cost_per_token: 2.5e-7,
    output_cost_per_token: 2e-6,
    cache_read_input_token_cost: 2.5e-8,
    supports_function_calling: true,
    supports_vision: false,
    supports_pdf_input: true,
  },
  'mistral/m-2': {
    litellm_provider: 'mistral',
    mode: 'chat',
    input_cost_per_token: 0,
    output_cost_per_token: 0,
    max_input_tokens: 32000,
  },
  'm-3': {
    litellm_provider: 'openai',
    mode: 'responses',
    input_cost_per_token: 3.75e-8,
    cache_creation_input_token_cost: 5e-8,
  },
  'm-4': {
    litellm_provider: 'openai',
    mode: 'chat',
    tiered_pricing: [
      { input_cost_per_token: 1e-6, output_cost_per_token: 4e-6, range: [0, 32000] },
      { input_cost_per_token: 2e-6, range: [32000, 64000] },
      { input_cost_per_token: 3e-6 },
    ],
  },
  'm-6': {
    litellm_provider: 'openai',
    mode: 'chat',
    input_cost_per_token: 3e-6,
    output_cost_per_token: 1.5e-5,
    cache_read_input_token_cost: 3e-7,
    cache_creation_input_token_cost: 3.75e-6,
    cache_creation_input_token_cost_above_1hr: 6e-6,
    input_cost_per_audio_token: 4e-5,
    output_cost_per_audio_token: 8e-5,
    input_cost_per_image_token: 4e-6,
    output_cost_per_reasoning_token: 9e-6,
    input_cost_per_token_above_200k_tokens: 6e-6,
    output_cost_per_token_above_200k_tokens: 2.25e-5,
    cache_creation_input_token_cost_above_1hr_above_200k_tokens: 1.2e-5,
    input_cost_per_token_batches: 1.5e-6,
    output_cost_per_token_batches: 7.5e-6,
    input_cost_per_token_priority: 6e-6,
    output_cost_per_token_priority: 2e-5,
    search_context_cost_per_query: { search_context_size_medium: 0.01 },
  },
  'gone-1': { litellm_provider: 'openai', mode: 'chat', max_input_tokens: 5, deprecation_date: '2026-11-20' },
  'going-1': { litellm_provider: 'openai', mode: 'chat', max_input_tokens: 5, deprecation_date: '2026-12-11' },
  'embed-1': { litellm_provider: 'openai', mode: 'embedding', input_cost_per_token: 1e-7, output_cost_per_token: 0 },
  'embed-2': { litellm_provider: 'openai', mode: 'embedding', input_cost_per_token: 1e-4 },
  'embed-3': { litellm_provider: 'openai', mode: 'embedding', max_input_tokens: 77 },
  'claude-1': {
    litellm_provider: 'anthropic',
    mode: 'chat',
    input_cost_per_token: 5e-6,
    provider_specific_entry: { us: 1.1, fast: 2, minimax_free_input_images: 5 },
  },
  'gemini/g-2': {
    litellm_provider: 'gemini',
    mode: 'chat',
    search_context_cost_per_query: { search_context_size_medium: 0.035 },
    google_maps_grounding_cost_per_query: 0.025,
    output_cost_per_image_token: 3e-5,
    output_cost_per_video_token: 1.75e-5,
  },
  'gemini/g-3': {
    litellm_provider: 'gemini',
    mode: 'chat',
    search_context_cost_per_query: { search_context_size_medium: 0.014 },
    web_search_billing_unit: 'per_query',
  },
  'gemini/g-image': {
    litellm_provider: 'gemini',
    mode: 'image_generation',
    supported_endpoints: ['/v1/chat/completions', '/v1/images/generations'],
    output_cost_per_token: 2.5e-6,
  },
  'image-1': {
    litellm_provider: 'openai',
    mode: 'image_generation',
    supported_endpoints: ['/v1/images/generations'],
    output_cost_per_image_token: 4e-5,
  },
  'other/x': { litellm_provider: 'other', mode: 'chat', max_input_tokens: 5 },
  'ft:m-1': { litellm_provider: 'openai', mode: 'chat', max_input_tokens: 5 },
  'empty-1': { litellm_provider: 'openai', mode: 'chat' },
}

/** The factors of the priority tier differ, so it is left out. */
const everyPrice = {
  price: [3000, 15000, 300, 3750],
  audio: [40000, 80000],
  image: [4000],
  cacheWrite1h: 6000,
  reasoning: 9000,
  tiers: [{ above: 200000, price: [6000, 22500], cacheWrite1h: 12000 }],
  service: { batch: 0.5 },
  tools: { web_search: 10_000_000 },
}

const modelsDev = {
  openai: {
    id: 'openai',
    env: ['OPENAI_API_KEY'],
    name: 'OpenAI',
    models: {
      'm-1': {
        id: 'm-1',
        name: 'M 1',
        attachment: true,
        reasoning: true,
        tool_call: true,
        structured_output: true,
        modalities: { input: ['text', 'image', 'pdf'], output: ['text'] },
        cost: { input: 0.25, output: 2, cache_read: 0.025 },
        limit: { context: 400000, input: 272000, output: 128000 },
      },
      'draw-1': { id: 'draw-1', modalities: { input: ['text'], output: ['image'] }, limit: { context: 5, output: 5 } },
      'old-1': { id: 'old-1', status: 'deprecated', limit: { context: 5, output: 5 } },
    },
  },
  other: { id: 'other', models: { x: { id: 'x', limit: { context: 5 } } } },
}

const genaiPrices = [
  {
    id: 'openai',
    name: 'OpenAI',
    models: [
      {
        id: 'm-1',
        match: { or: [{ equals: 'm-1' }, { equals: 'm-1-preview' }, { starts_with: 'm-1-' }] },
        context_window: 400000,
        prices: {
          input_mtok: { base: 0.25, tiers: [{ start: 200000, price: 0.5 }] },
          output_mtok: 2,
          web_searches_kcount: 10,
        },
      },
      {
        id: 'm-5',
        match: { equals: 'm-5' },
        prices: [
          { prices: { input_mtok: 9, output_mtok: 9 } },
          { constraint: { type: 'start_date', start_date: '2026-03-01' }, prices: { input_mtok: 1, output_mtok: 2 } },
          { constraint: { type: 'start_date', start_date: '2027-01-01' }, prices: { input_mtok: 7, output_mtok: 7 } },
          {
            constraint: { type: 'time_of_date', start_time: '00:30', end_time: '16:30' },
            prices: { input_mtok: 5, output_mtok: 5 },
          },
        ],
      },
      { id: 'embed-1', match: { equals: 'embed-1' }, prices: { input_mtok: 0.1 } },
      { id: 'old-1', match: { equals: 'old-1' }, deprecated: true, prices: { output_mtok: 1 } },
    ],
  },
]

const tiered = {
  price: [250, 2000],
  tiers: [{ above: 200000, price: [500, 2000] }],
  tools: { web_search: 10_000_000 },
}

const imports = [
  [
    'LiteLLM',
    litellm,
    {
      openai: {
        'image-1': { price: [null, 40000], image: [null, 40000] },
        'm-1': { context: 272000, output: 128000, price: [250, 2000, 25], can: ['tools', 'file_input'] },
        'm-3': { price: [37.5, null, null, 50] },
        'm-4': { price: [1000, 4000], tiers: [{ above: 32000, price: [2000, null] }] },
        'm-6': everyPrice,
        'going-1': { context: 5, retires: '2026-12-11' },
        'embed-1': { price: [100, null] },
      },
      mistral: { 'm-2': { context: 32000 } },
      anthropic: { 'claude-1': { price: [5000, null], service: { fast: 2, us: 1.1 } } },
      gemini: {
        'g-2': {
          image: [null, 30000],
          video: [null, 17500],
          tools: { web_search_prompt: 35_000_000, maps: 25_000_000 },
        },
        'g-3': { tools: { web_search: 14_000_000 } },
        'g-image': { price: [null, 2500] },
      },
    },
  ],
  [
    'models.dev',
    modelsDev,
    {
      openai: {
        'm-1': {
          context: 272000,
          output: 128000,
          price: [250, 2000, 25],
          can: ['tools', 'vision', 'structured_output', 'reasoning', 'file_input'],
        },
      },
    },
  ],
  [
    'genai-prices',
    genaiPrices,
    {
      openai: {
        'm-1': { context: 400000, ...tiered },
        'm-1-preview': { context: 400000, ...tiered },
        'm-5': { price: [1000, 2000], from: '2026-03-01' },
      },
    },
  ],
] as const

for (const [name, body, expected] of imports)
  test(`catalogue import: ${name}`, () => assert.deepEqual(models(body), expected))

for (const body of [
  null,
  'x',
  7,
  [],
  {},
  { a: 1 },
  { a: { b: 1 } },
  [{ models: 'x' }],
  { error: { message: 'rate limited' } },
])
  test(`catalogue import: ${JSON.stringify(body)} is not a catalogue`, () => assert.equal(read(body), undefined))

test('catalogue import: invalid values are left out', () => {
  const odd = {
    'm-1': {
      litellm_provider: 'openai',
      mode: 'chat',
      max_input_tokens: 'many',
      max_output_tokens: -5,
      input_cost_per_token: '1',
      output_cost_per_token: -1,
      supports_vision: 'yes',
    },
  }
  assert.deepEqual(models(odd), {})
})

test('catalogue import: earlier sources take precedence, later ones fill gaps and add providers, differences are reported', () => {
  const early = read(
    { a: { litellm_provider: 'openai', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 } },
    '1',
  )
  const late = read(
    [
      {
        id: 'openai',
        models: [
          { id: 'a', context_window: 9, prices: { input_mtok: 3, output_mtok: 2, web_searches_kcount: 10 } },
          { id: 'gone', prices: { output_mtok: 1 } },
        ],
      },
      { id: 'mistral', models: [{ id: 'b', prices: { output_mtok: 1 } }] },
    ],
    '2',
  )
  assert.ok(early && late)
  const { file, disagreements } = joinCatalogues([early, late], '2026-11-21')
  assert.deepEqual(file.providers, {
    mistral: { b: { price: [null, 1000] } },
    openai: { a: { context: 9, price: [1000, 2000], tools: { web_search: 10_000_000 } } },
  })
  assert.deepEqual(disagreements, [
    {
      provider: 'openai',
      model: 'a',
      prices: [
        [1000, 2000],
        [3000, 2000],
      ],
    },
  ])
  assert.deepEqual(JSON.parse(catalogueText(file)), file)
  assert.deepEqual(decodeCatalogue(JSON.parse(catalogueText(file))).problems, [])
  assert.deepEqual(
    file.sources.map(({ version }) => version),
    ['1', '2'],
  )
})

const called = [
  ['openai', 'openai'],
  ['together_ai', 'together'],
  ['google', 'gemini'],
  ['dashscope', 'alibaba'],
  ['moonshotai', 'moonshot'],
  ['ollama', undefined],
  ['openai-compatible', undefined],
  ['demo', undefined],
  ['vertex_ai', undefined],
] as const
const ours = sourceNames(await loadProviders())

for (const [theirs, name] of called)
  test(`catalogue import: ${theirs} is ${name ?? 'unknown'}`, () => assert.equal(ours(theirs), name))

test('catalogue import: models of another endpoint of a provider are left out', () => {
  assert.deepEqual(
    [
      served('perplexity', 'sonar-pro'),
      served('perplexity', 'openai/gpt-5.2'),
      served('bedrock', 'openai.gpt-oss-120b-1:0'),
      served('bedrock', 'us.anthropic.claude-opus-4-8'),
      served('bedrock', 'us-gov-west-1/anthropic.claude-opus-4-8'),
      served('openai', 'gpt-4o'),
    ],
    [true, false, true, true, false, true],
  )
})

test('catalogue: facts that no source has are added, and those of a source are kept', () => {
  const { file } = joinCatalogues(
    [
      {
        source: { name: 'a', version: '1', licence: 'MIT', copyright: 'a' },
        models: new Map([
          [
            'anthropic',
            new Map([
              ['claude-opus-4-6', { price: [5000, 25000], service: { us: 1.1 } }],
              ['claude-opus-4-7-20260416', { service: { fast: 3 } }],
              ['claude-opus-4-8', {}],
            ]),
          ],
        ]),
      },
    ],
    '2026-11-26',
  )
  assert.deepEqual(file.providers.anthropic, {
    'claude-opus-4-6': { price: [5000, 25000], service: { fast: 6, us: 1.1 } },
    'claude-opus-4-7-20260416': { service: { fast: 3 } },
    'claude-opus-4-8': {},
  })
})

/** Rows of LiteLLM 1.109.1. */
const relayed = (mode: string, of: object, provider = 'openai') => ({
  m: { litellm_provider: provider, mode, ...of },
})
for (const [title, body, expected] of [
  [
    'seconds',
    relayed('audio_transcription', { input_cost_per_second: 0.0001, output_cost_per_second: 0.0001 }),
    { units: { seconds: 100_000 } },
  ],
  [
    'seconds with a zero output rate',
    relayed('audio_transcription', { input_cost_per_second: 3.083e-5, output_cost_per_second: 0 }),
    { units: { seconds: 30_830 } },
  ],
  ['characters', relayed('audio_speech', { input_cost_per_character: 1.5e-5 }), { units: { characters: 15_000 } }],
  ['images', relayed('image_generation', { input_cost_per_image: 0.05 }), { units: { images: 50_000_000 } }],
  [
    'queries beside zero tokens',
    relayed('rerank', { input_cost_per_query: 0.002, input_cost_per_token: 0, output_cost_per_token: 0 }),
    { units: { queries: 2_000_000 } },
  ],
  [
    'tokens before an estimate by the second',
    relayed('audio_transcription', {
      input_cost_per_second: 0.0001,
      input_cost_per_token: 2.5e-6,
      output_cost_per_token: 1e-5,
    }),
    { price: [2_500, 10_000] },
  ],
  [
    'tokens of images',
    relayed('image_generation', { input_cost_per_token: 5e-6, output_cost_per_image_token: 4e-5 }),
    { price: [5_000, 40_000], image: [null, 40_000] },
  ],
  [
    'a column of another mode',
    relayed('chat', { input_cost_per_query: 0.002, input_cost_per_token: 1e-6 }),
    { price: [1_000, null] },
  ],
] as const)
  test(`catalogue: LiteLLM's ${title}`, () => {
    assert.deepEqual(models(body), { openai: { m: expected } })
  })

test('catalogue: no relayed model of a step price, a size, or a provider without the endpoint', () => {
  const step = relayed('image_generation', { input_cost_per_token: 1.3e-10, output_cost_per_token: 1.3e-10 })
  assert.deepEqual(models(step), {})
  assert.deepEqual(
    models({ 'hd/1024-x-1024/dall-e-3': { ...relayed('image_generation', { input_cost_per_image: 1 }).m } }),
    {},
  )
  assert.deepEqual(models(relayed('rerank', { input_cost_per_query: 1 }, 'mistral')), {})
})
