import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { JsonObject } from '../../core/json.ts'
import { embeddingsProtocols } from './index.ts'
import { embeddingsShapes } from './shapes.ts'

type Name = Exclude<keyof typeof embeddingsShapes, 'embeddings'>
const NAMES = ['embedContent', 'batchEmbedContents', 'predict'] as const satisfies readonly Name[]
const pathOf = (name: Name, model = 'm') => `/v1beta/models/${model}:${name}`
const decode = (name: Name, body: JsonObject, query = '') =>
  embeddingsShapes[name].decodeRequest(body, pathOf(name), query)

const content = (...texts: readonly string[]) => ({ parts: texts.map((text) => ({ text })) })

type Read = { readonly inputs: readonly unknown[]; readonly dimensions?: string; readonly purpose?: string }
const read: readonly (readonly [name: Name, what: string, body: JsonObject, Read, extras: readonly string[]])[] = [
  ['embedContent', 'a text', { content: content('a') }, { inputs: [['content', 'a']] }, []],
  [
    'embedContent',
    'several texts of one content',
    { content: content('a', 'b') },
    { inputs: [['content', 'a\nb']] },
    [],
  ],
  [
    'embedContent',
    'settings',
    {
      model: 'models/other',
      content: content('a'),
      taskType: 'RETRIEVAL_QUERY',
      outputDimensionality: 8,
      title: 't',
    },
    { inputs: [['content', 'a']], dimensions: 'outputDimensionality=8', purpose: 'taskType=query' },
    ['title'],
  ],
  [
    'embedContent',
    'the other spelling',
    { content: content('a'), task_type: 'CLUSTERING', output_dimensionality: 8 },
    { inputs: [['content', 'a']], dimensions: 'outputDimensionality=8', purpose: 'taskType=clustering' },
    [],
  ],
  [
    'embedContent',
    'the settings of Vertex AI (@google/genai 3.1.0, gemini-embedding-2)',
    {
      content: { role: 'user', ...content('a') },
      embedContentConfig: { taskType: 'RETRIEVAL_DOCUMENT', title: 't', outputDimensionality: 7, autoTruncate: true },
    },
    {
      inputs: [['content', 'a']],
      dimensions: 'embedContentConfig.outputDimensionality=7',
      purpose: 'embedContentConfig.taskType=document',
    },
    ['embedContentConfig.title', 'embedContentConfig.autoTruncate'],
  ],
  [
    'embedContent',
    'a task without an equivalent',
    { content: content('a'), taskType: 'FACT_VERIFICATION' },
    { inputs: [['content', 'a']] },
    ['taskType'],
  ],
  [
    'embedContent',
    'a picture',
    { content: { parts: [{ text: 'a' }, { inlineData: { mimeType: 'image/png', data: 'AA==' } }] } },
    { inputs: [['content', 'parts']] },
    [],
  ],
  [
    'batchEmbedContents',
    'requests',
    {
      requests: [
        { model: 'models/m', content: content('a'), taskType: 'CLASSIFICATION', title: 'x' },
        { model: '', content: content('b'), taskType: 'CLASSIFICATION', title: 'y' },
      ],
    },
    {
      inputs: [
        ['requests[0].content', 'a'],
        ['requests[1].content', 'b'],
      ],
      purpose: 'requests[0].taskType=classification',
    },
    ['requests[0].title'],
  ],
  [
    'batchEmbedContents',
    'different tasks',
    {
      requests: [{ content: content('a'), taskType: 'RETRIEVAL_QUERY' }, { content: content('b') }],
    },
    {
      inputs: [
        ['requests[0].content', 'a'],
        ['requests[1].content', 'b'],
      ],
    },
    ['requests[0].taskType'],
  ],
  [
    'predict',
    'instances (@google/genai 3.1.0)',
    {
      instances: [
        { content: 'a', task_type: 'SEMANTIC_SIMILARITY', title: 't' },
        { content: 'b', task_type: 'SEMANTIC_SIMILARITY', title: 't' },
      ],
      parameters: { outputDimensionality: 7, autoTruncate: true },
    },
    {
      inputs: [
        ['instances[0].content', 'a'],
        ['instances[1].content', 'b'],
      ],
      dimensions: 'parameters.outputDimensionality=7',
      purpose: 'instances[0].taskType=similarity',
    },
    ['parameters.autoTruncate', 'instances[0].title'],
  ],
]

for (const [name, what, body, expected, extras] of read)
  test(`${name}: ${what}`, () => {
    const request = decode(name, body)
    assert.ok(request.ok, JSON.stringify(request))
    const { model, inputs, dimensions, purpose, encoding, extras: found } = request.value
    assert.deepEqual(
      {
        inputs: inputs.map((input) => [input.at, 'text' in input ? input.text : 'parts']),
        ...(dimensions && { dimensions: `${dimensions.at}=${dimensions.value}` }),
        ...(purpose && { purpose: `${purpose.at}=${purpose.value}` }),
      },
      expected,
    )
    assert.deepEqual([model, encoding], ['m', 'float'])
    assert.deepEqual(found.map(({ at }) => at).toSorted(), extras.toSorted())
  })

const refused: readonly (readonly [name: Name, body: JsonObject, param: string])[] = [
  ['embedContent', {}, 'content'],
  ['embedContent', { content: 'text' }, 'content'],
  ['embedContent', { content: {} }, 'content.parts'],
  ['embedContent', { content: content('') }, 'content.parts'],
  ['embedContent', { content: content('a'), outputDimensionality: 0 }, 'outputDimensionality'],
  ['embedContent', { content: content('a'), taskType: 7 }, 'taskType'],
  ['embedContent', { content: content('a'), taskType: 'A', task_type: 'B' }, 'task_type'],
  ['batchEmbedContents', {}, 'requests'],
  ['batchEmbedContents', { requests: [] }, 'requests'],
  ['batchEmbedContents', { requests: [7] }, 'requests[0].content'],
  ['batchEmbedContents', { requests: [{ model: 'models/n', content: content('a') }] }, 'requests[0].model'],
  [
    'batchEmbedContents',
    { requests: [{ content: content('a') }, { content: content('b'), outputDimensionality: 8 }] },
    'requests[1].outputDimensionality',
  ],
  ['predict', { instances: [{ prompt: 'a picture' }] }, 'instances[0].content'],
  ['predict', { instances: [{ content: '' }] }, 'instances[0].content'],
  ['predict', { instances: {} }, 'instances'],
]
for (const [name, body, param] of refused)
  test(`${name}: refused with ${param}: ${JSON.stringify(body)}`, () => {
    const request = decode(name, body)
    assert.deepEqual(request.ok ? null : request.failure.param, param)
  })

test('a query that asks for a part of the answer is refused', () => {
  const request = decode('embedContent', { content: content('a') }, 'fields=embedding')
  assert.deepEqual(request.ok ? null : request.failure.param, 'fields')
})

test('a body of the same format keeps all its members, with the model of the target', () => {
  const part = (name: Name, body: JsonObject, some = 0) => {
    const request = decode(name, body)
    assert.ok(request.ok)
    const inputs = some === 0 ? request.value.inputs : request.value.inputs.slice(0, some)
    return embeddingsShapes[name].ownBody(body, { request: request.value, inputs, model: 'embed' })
  }
  const one = { content: content('a'), title: 't', taskType: 'FACT_VERIFICATION' }
  assert.deepEqual(part('embedContent', one), { requests: [{ ...one, model: 'models/embed' }] })
  assert.equal(part('embedContent', { ...one, embedContentConfig: {} }), null)
  const batch = { requests: [one, { ...one, model: 'models/m' }] }
  assert.deepEqual(part('batchEmbedContents', batch, 1), { requests: [{ ...one, model: 'models/embed' }] })
  const instances = { instances: [{ content: 'a', title: 't' }, { content: 'b' }], parameters: { autoTruncate: false } }
  assert.equal(part('predict', instances), instances)
  assert.deepEqual(part('predict', instances, 1), { ...instances, instances: [{ content: 'a', title: 't' }] })
})

test('answers in the shape of the request', () => {
  const answer = { vectors: [[1, 2], 'AACAPwAAAEA='], input: 3 }
  const asked = { encoding: 'float', model: 'm' } as const
  const written = NAMES.map((name) => embeddingsShapes[name].encodeAnswer(answer, asked))
  const usageMetadata = { promptTokenCount: 3, totalTokenCount: 3 }
  assert.deepEqual(written, [
    { embedding: { values: [1, 2] }, usageMetadata },
    { embeddings: [{ values: [1, 2] }, { values: [1, 2] }], usageMetadata },
    { predictions: [{ embeddings: { values: [1, 2] } }, { embeddings: { values: [1, 2] } }] },
  ])
  assert.deepEqual(embeddingsShapes.predict.encodeAnswer({ vectors: [[1]], input: 3 }, asked), {
    predictions: [{ embeddings: { values: [1], statistics: { token_count: 3 } } }],
  })
  // What is written is read by the format of that provider.
  for (const name of ['batchEmbedContents', 'predict'] as const) {
    const { format, encodeAnswer, isReadable } = embeddingsShapes[name]
    const body = encodeAnswer(answer, asked)
    assert.ok(isReadable(body, 'float'))
    const again = embeddingsProtocols[format].decodeAnswer(body)
    assert.deepEqual(again.ok && again.value.vectors, [
      [1, 2],
      [1, 2],
    ])
  }
  assert.equal(embeddingsShapes.batchEmbedContents.isReadable({ embeddings: [{ values: 'AACAPw==' }] }, 'float'), false)
})

test('no input makes a shape throw, and each refusal has a message', () => {
  const texts = fc.constantFrom('content', 'parts', 'text', 'requests', 'instances', 'model', 'taskType', 'task_type')
  const json = fc.jsonValue({ maxDepth: 4 })
  const value = fc.letrec<{ readonly one: unknown }>((tie) => ({
    one: fc.oneof({ maxDepth: 4 }, json, fc.dictionary(texts, tie('one')), fc.array(tie('one'), { maxLength: 3 })),
  })).one
  fc.assert(
    fc.property(fc.constantFrom(...NAMES), fc.dictionary(texts, value), (name, body) => {
      const request = decode(name, JSON.parse(JSON.stringify(body)))
      if (!request.ok) return assert.ok(request.failure.message.length > 10)
      assert.ok(request.value.inputs.length > 0)
    }),
    { numRuns: 3_000 },
  )
})
