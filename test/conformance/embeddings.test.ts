/**
 * Recorded embeddings requests, translated for every provider with embeddings: valid by the published schema, or unfit
 * with the member named; and sent to the provider's own path.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { isObject, type JsonObject, list } from '../../src/core/json.ts'
import type { Instance, Provider, Variables } from '../../src/core/provider.ts'
import { prepareEmbeddings } from '../../src/gateway/handlers/embeddings.ts'
import { parseEmbeddings } from '../../src/gateway/upstream/parse-embeddings.ts'
import { embeddingsShapes } from '../../src/protocols/embeddings/shapes.ts'
import { recordingsOf, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf, type SchemaName } from '../support/schemas.ts'
import { defaultSettings } from '../support/settings.ts'
import { Tally } from './tally.ts'

const providers = [...(await loadProviders()).values()].filter(({ embeds }) => embeds)
const tally = new Tally()

const instanceOf = (provider: Provider, variables: Variables = {}): Instance => ({
  id: provider.name,
  provider,
  baseUrl: provider.baseUrl ?? 'http://127.0.0.1:9',
  keys: [{ id: '0000', secret: null, weight: 1 }],
  models: [],
  speaks: provider.speaks,
  variables,
})

const prepared = (provider: Provider, body: JsonObject, model: string, variables?: Variables) =>
  preparedAs('embeddings', provider, { body, model, variables })

type Wanted = { readonly body: JsonObject; readonly model: string; readonly variables?: Variables | undefined }

const preparedAs = (name: keyof typeof embeddingsShapes, provider: Provider, { body, model, variables }: Wanted) => {
  const received = { path: `/v1beta/models/x:${name}`, body: { text: JSON.stringify(body) } }
  const request = parseEmbeddings(embeddingsShapes[name], received, defaultSettings.limit)
  assert.ok(request.ok, JSON.stringify(request))
  const candidate = { instance: instanceOf(provider, variables), model, because: 'asked', weight: 1 }
  const ready = prepareEmbeddings(request.value, candidate)
  assert.ok(ready)
  return ready
}

const schemaOf = ({ name, embeds }: Provider): readonly [SchemaName, string] | null => {
  if (name === 'mistral') return ['mistral', 'EmbeddingRequest']
  // Closed ones of their own: the upstreams of test/e2e/voyage-jina.test.ts check them.
  if (name === 'voyage' || name === 'jina') return null
  return embeds?.protocol === 'openai-embeddings' ? ['openai', 'CreateEmbeddingRequest'] : null
}

requireRecordings()

describe('recorded embeddings requests, prepared for every provider', { skip: skipWithoutRecordings }, () => {
  const requests = recordingsOf('embeddings').flatMap(({ id, status, request }) =>
    (status ?? 200) < 400 && isObject(request) ? [{ id, request }] : [],
  )
  test('enough requests', () => assert.ok(requests.length >= 12 && providers.length > 15))
  for (const provider of providers)
    test(provider.name, () => {
      const wrong = tally.checkEach(
        `embeddings request → ${provider.name}`,
        requests,
        ({ id }) => id,
        ({ request }) => {
          const { body, unfit, dropped } = prepared(provider, request, 'some-model')
          const tokens = list(request.input).some((entry) => typeof entry !== 'string')
          if (unfit.length > 0) {
            if (tokens) return 'unfit for tokens'
            assert.deepEqual([provider.name, unfit], ['vertex', ['input']])
            return 'unfit for several texts'
          }
          for (const path of dropped) assert.ok(Object.hasOwn(request, path), path)
          const sent: JsonObject = JSON.parse(body.text)
          const schema = schemaOf(provider)
          if (schema) assert.equal(problemsOf(...schema, sent), undefined)
          if (schema) assert.deepEqual([sent.model, sent.input], ['some-model', request.input])
          return undefined
        },
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
  after(() => tally.print())
})

const addresses: readonly (readonly [string, string, Variables, string])[] = [
  ['openai', 'text-embedding-3-small', {}, 'https://api.openai.com/v1/embeddings'],
  ['azure-openai', 'my embedder', {}, 'http://127.0.0.1:9/v1/embeddings'],
  [
    'azure-openai',
    'my embedder',
    { API_VERSION: '2024-10-21' },
    'http://127.0.0.1:9/deployments/my%20embedder/embeddings?api-version=2024-10-21',
  ],
  [
    'gemini',
    'gemini-embedding-001',
    {},
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-embedding-001:batchEmbedContents',
  ],
  [
    'gemini',
    'models/gemini-embedding-001',
    {},
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-embedding-001:batchEmbedContents',
  ],
  [
    'vertex',
    'google/gemini-embedding-001',
    {},
    'http://127.0.0.1:9/publishers/google/models/gemini-embedding-001:predict',
  ],
  ['cohere', 'embed-v4.0', {}, 'https://api.cohere.com/v2/embed'],
  ['mistral', 'mistral-embed', {}, 'https://api.mistral.ai/v1/embeddings'],
  ['ollama', 'nomic-embed-text', {}, 'http://127.0.0.1:9/v1/embeddings'],
  ['openrouter', 'openai/text-embedding-3-small', {}, 'https://openrouter.ai/api/v1/embeddings'],
]
for (const [name, model, variables, url] of addresses)
  test(`embeddings of ${name}, ${model}: ${url}`, () => {
    const provider = providers.find((one) => one.name === name)
    assert.ok(provider)
    assert.equal(prepared(provider, { model: 'x', input: 'a' }, model, variables).url, url)
  })

test('embeddings of mistral: dimensions have another name; unsupported members are reported', () => {
  const provider = providers.find(({ name }) => name === 'mistral')
  assert.ok(provider)
  const { body, dropped } = prepared(provider, { model: 'x', input: 'a', dimensions: 256, user: 'u' }, 'mistral-embed')
  assert.deepEqual(JSON.parse(body.text), { model: 'mistral-embed', input: 'a', output_dimension: 256 })
  assert.deepEqual(dropped, ['user'])
})

test('embeddings of vertex: a Gemini model receives one text per call', () => {
  const provider = providers.find(({ name }) => name === 'vertex')
  assert.ok(provider)
  const calls = (input: readonly string[], model: string) => {
    const { parts, unfit } = prepared(provider, { model: 'x', input }, model)
    assert.deepEqual(unfit, [])
    return parts?.length ?? 1
  }
  assert.equal(calls(['a', 'b'], 'gemini-embedding-001'), 2)
  assert.equal(calls(['a'], 'gemini-embedding-001'), 1)
  assert.equal(calls(['a', 'b'], 'text-embedding-005'), 1)
})

const GOOGLE = {
  embedContent: { content: { parts: [{ text: 'first text' }] }, taskType: 'CLUSTERING', outputDimensionality: 64 },
  batchEmbedContents: {
    requests: ['first text', 'second text'].map((text) => ({
      content: { parts: [{ text }] },
      taskType: 'CLUSTERING',
      outputDimensionality: 64,
    })),
  },
  predict: {
    instances: ['first text', 'second text'].map((content) => ({ content, task_type: 'CLUSTERING' })),
    parameters: { outputDimensionality: 64 },
  },
} as const

for (const provider of providers)
  for (const name of ['embedContent', 'batchEmbedContents', 'predict'] as const)
    test(`embeddings of ${provider.name}: a request of ${name} is sent as one of /v1/embeddings`, () => {
      const input = name === 'embedContent' ? ['first text'] : ['first text', 'second text']
      const google = preparedAs(name, provider, { body: GOOGLE[name], model: 'some-model' })
      const openai = prepared(provider, { model: 'x', input, dimensions: 64, task_type: 'CLUSTERING' }, 'some-model')
      assert.deepEqual([google.url, google.unfit], [openai.url, []])
      const sent = (text: string): unknown => JSON.parse(text)
      const { task_type: _, ...plain } = JSON.parse(openai.body.text)
      // OpenAI's format passes unknown members on; both of Google's own formats are compared with the client's body.
      if (provider.embeds?.protocol === 'openai-embeddings') {
        assert.deepEqual(sent(google.body.text), plain)
        assert.ok(google.dropped.some((path) => path.endsWith('taskType')))
      } else if (provider.embeds?.protocol !== 'vertex-embeddings') {
        const { model: _model, ...own } = JSON.parse(google.body.text)
        const { model: _other, ...other } = JSON.parse(openai.body.text)
        assert.deepEqual(own, other)
      } else
        assert.deepEqual(
          google.parts?.map(({ text }) => sent(text)),
          openai.parts?.map(({ text }) => sent(text)),
        )
    })

for (const { name, embeds } of providers)
  test(`embeddings of ${name}: models are unique and the path is valid`, () => {
    assert.ok(embeds)
    assert.equal(new Set(embeds.models).size, embeds.models.length)
    if (embeds.path) assert.match(embeds.path, /^\/[^?#]*[^/?#]$/)
  })
