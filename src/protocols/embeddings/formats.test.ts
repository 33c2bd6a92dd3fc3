import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EmbeddingsRequest } from '../../core/embeddings.ts'
import type { Json } from '../../core/json.ts'
import { decodeRequest } from './decode-request.ts'
import { embeddingsProtocols } from './index.ts'
import { openaiShape } from './openai.ts'

const request = (more: object = {}): EmbeddingsRequest => {
  const read = decodeRequest({ model: 'm', input: ['a', 'b'], ...more })
  assert.ok(read.ok)
  return read.value
}

const gemini = embeddingsProtocols['gemini-embeddings']
const cohere = embeddingsProtocols['cohere-embeddings']
const vertex = embeddingsProtocols['vertex-embeddings']
const openai = embeddingsProtocols['openai-embeddings']

const geminiBody = (more: object, model = 'models/x') => ({
  requests: ['a', 'b'].map((text) => ({ model, content: { parts: [{ text }] }, ...more })),
})
const cohereBody = (more: object) => ({
  model: 'x',
  texts: ['a', 'b'],
  input_type: 'search_document',
  embedding_types: ['float'],
  ...more,
})

const requests: readonly (readonly [string, typeof gemini, object, object, losses?: readonly string[]])[] = [
  ['gemini: texts', gemini, {}, geminiBody({})],
  ['gemini: dimensions', gemini, { dimensions: 256 }, geminiBody({ outputDimensionality: 256 })],
  ['gemini: a purpose', gemini, { input_type: 'query' }, geminiBody({ taskType: 'RETRIEVAL_QUERY' })],
  ['gemini: similarity', gemini, { task_type: 'SEMANTIC_SIMILARITY' }, geminiBody({ taskType: 'SEMANTIC_SIMILARITY' })],
  ['gemini: unsupported members', gemini, { user: 'u', truncate: 'END' }, geminiBody({}), ['truncate', 'user']],
  [
    'gemini: tokens',
    gemini,
    { input: [[1]] },
    { requests: [{ model: 'models/x', content: { parts: [{ text: '' }] } }] },
    ['!input[0]'],
  ],
  ['vertex: texts', vertex, {}, { instances: [{ content: 'a' }, { content: 'b' }] }],
  [
    'vertex: dimensions and a purpose',
    vertex,
    { input: 'a', dimensions: 256, input_type: 'document', user: 'u' },
    { instances: [{ content: 'a', task_type: 'RETRIEVAL_DOCUMENT' }], parameters: { outputDimensionality: 256 } },
    ['user'],
  ],
  ['vertex: tokens', vertex, { input: [1] }, { instances: [{ content: '' }] }, ['!input']],
  ['cohere: texts', cohere, {}, cohereBody({})],
  ['cohere: dimensions', cohere, { dimensions: 256 }, cohereBody({ output_dimension: 256 })],
  ['cohere: a purpose', cohere, { input_type: 'search_query' }, cohereBody({ input_type: 'search_query' })],
  ['cohere: an unsupported purpose', cohere, { task: 'text-matching' }, cohereBody({}), ['task']],
  ['cohere: base64 is encoded by the gateway', cohere, { encoding_format: 'base64' }, cohereBody({})],
  ['cohere: unsupported members', cohere, { user: 'u' }, cohereBody({}), ['user']],
  ['cohere: tokens', cohere, { input: [1, 2] }, cohereBody({ texts: [''] }), ['!input']],
]
for (const [name, protocol, more, body, losses = []] of requests)
  test(`embeddings, ${name}`, () => {
    const encoded = protocol.encodeRequest?.(request(more), { model: 'x' })
    assert.ok(encoded)
    assert.deepEqual(encoded.body, body)
    assert.deepEqual(
      encoded.losses.map(({ path, essential }) => (essential ? `!${path}` : path)).sort(),
      [...losses].sort(),
    )
  })

test('embeddings, gemini: keeps a model name that begins with models/', () => {
  assert.deepEqual(gemini.encodeRequest?.(request(), { model: 'models/y' }).body, geminiBody({}, 'models/y'))
})

const list = (...data: readonly object[]) => ({
  object: 'list',
  data,
  model: 'm',
  usage: { prompt_tokens: 2, total_tokens: 2 },
})
const at = (index: number | undefined, embedding: unknown) => ({ object: 'embedding', index, embedding })

const answers: readonly (readonly [string, typeof openai, unknown, object | RegExp])[] = [
  ['openai: in order', openai, list(at(0, [1]), at(1, [2])), { model: 'm', vectors: [[1], [2]], input: 2 }],
  ['openai: sorted by index', openai, list(at(1, [2]), at(0, [1])), { vectors: [[1], [2]] }],
  ['openai: without indexes', openai, list(at(undefined, [1]), at(undefined, [2])), { vectors: [[1], [2]] }],
  ['openai: usage with a total only', openai, { ...list(at(0, [1])), usage: { total_tokens: 7 } }, { input: 7 }],
  ['openai: without usage', openai, { ...list(at(0, [1])), usage: undefined }, { vectors: [[1]], input: undefined }],
  ['openai: a duplicate index', openai, list(at(0, [1]), at(0, [2])), /indexes of the embeddings are not consecutive/],
  [
    'openai: an index out of range',
    openai,
    list(at(0, [1]), at(2, [2])),
    /indexes of the embeddings are not consecutive/,
  ],
  [
    'openai: a missing index',
    openai,
    list(at(0, [1]), at(undefined, [2])),
    /indexes of the embeddings are not consecutive/,
  ],
  ['openai: an empty vector', openai, list(at(0, [])), /not a list of numbers/],
  ['openai: a vector of strings', openai, list(at(0, ['x'])), /not a list of numbers/],
  [
    'openai: entries that are not objects',
    openai,
    { object: 'list', data: ['x'] },
    /indexes of the embeddings are not consecutive/,
  ],
  ['openai: an empty list', openai, list(), /no embeddings/],
  ['openai: a chat answer', openai, { choices: [{ message: { content: 'hi' } }] }, /no embeddings/],
  [
    'openai: an error with status 200',
    openai,
    { error: { message: 'too many', code: 'rate_limit_exceeded' } },
    /too many/,
  ],
  ['openai: null', openai, null, /no embeddings/],
  [
    'gemini: an answer',
    gemini,
    { embeddings: [{ values: [1] }, { values: [2] }] },
    { vectors: [[1], [2]], input: undefined },
  ],
  [
    'gemini: with a token count',
    gemini,
    { embeddings: [{ values: [1] }], usageMetadata: { promptTokenCount: 4 } },
    { input: 4 },
  ],
  ['gemini: an embedding without values', gemini, { embeddings: [{ values: [1] }, {}] }, /no list of embeddings/],
  ['gemini: an empty object', gemini, {}, /no list of embeddings/],
  ['gemini: an error', gemini, { error: { code: 400, message: 'no such', status: 'INVALID_ARGUMENT' } }, /no such/],
  [
    'vertex: an answer',
    vertex,
    {
      predictions: [
        { embeddings: { values: [1], statistics: { token_count: 3, truncated: false } } },
        { embeddings: { values: [2], statistics: { token_count: 4, truncated: false } } },
      ],
    },
    { vectors: [[1], [2]], input: 7 },
  ],
  [
    'vertex: without token counts',
    vertex,
    { predictions: [{ embeddings: { values: [1] } }] },
    { vectors: [[1]], input: undefined },
  ],
  ['vertex: a prediction without embeddings', vertex, { predictions: [{}] }, /no list of embeddings/],
  ['vertex: an error', vertex, { error: { code: 400, message: 'no such', status: 'INVALID_ARGUMENT' } }, /no such/],
  [
    'cohere: an answer',
    cohere,
    { id: 'x', embeddings: { float: [[1], [2]] }, texts: ['a', 'b'], meta: { billed_units: { input_tokens: 2 } } },
    { vectors: [[1], [2]], input: 2 },
  ],
  ['cohere: another encoding', cohere, { id: 'x', embeddings: { int8: [[1]] } }, /no list of embeddings/],
  ['cohere: an error', cohere, { id: 'x', message: 'invalid api token' }, /invalid api token/],
]
for (const [name, protocol, body, expected] of answers)
  test(`embeddings answer, ${name}`, () => {
    // The bodies are JSON, except that undefined stands for an absent member.
    const answer = protocol.decodeAnswer(body as Json)
    if (expected instanceof RegExp) {
      assert.ok(!answer.ok)
      assert.match(answer.failure.message, expected)
      return
    }
    assert.ok(answer.ok, JSON.stringify(answer))
    const { value } = answer
    assert.deepEqual(
      Object.fromEntries(Object.keys(expected).map((key) => [key, value[key as keyof typeof value]])),
      expected,
    )
  })

test('embeddings answer: encodes it for the client as floats and as base64', () => {
  const answer = { vectors: [[1, 0.5], 'AACAPwAAAD8='], input: 3 }
  const floats = openaiShape.encodeAnswer(answer, { encoding: 'float', model: 'requested' })
  assert.deepEqual(floats, {
    object: 'list',
    data: [at(0, [1, 0.5]), at(1, [1, 0.5])],
    model: 'requested',
    usage: { prompt_tokens: 3, total_tokens: 3 },
  })
  assert.deepEqual(
    openaiShape.encodeAnswer({ ...answer, model: 'returned' }, { encoding: 'base64', model: 'requested' }),
    {
      ...floats,
      model: 'returned',
      data: [at(0, 'AACAPwAAAD8='), at(1, 'AACAPwAAAD8=')],
    },
  )
})

const LONG = Array.from({ length: 16 }, (_, place) => Math.fround(Math.cos(place)))

const passThrough: readonly (readonly [string, unknown, 'float' | 'base64', boolean])[] = [
  ['as requested', list(at(0, [1])), 'float', true],
  ['with additional members', { ...list(at(0, [1])), id: 'x', provider: 'y' }, 'float', true],
  ['floats for base64', list(at(0, [1])), 'base64', false],
  ['base64 for floats', list(at(0, 'AACAPw==')), 'float', false],
  ['base64', list(at(0, 'AACAPw==')), 'base64', true],
  ['out of order', list(at(1, [1]), at(0, [1])), 'float', false],
  ['without usage', { ...list(at(0, [1])), usage: undefined }, 'float', false],
  ['without a model', { ...list(at(0, [1])), model: undefined }, 'float', false],
  ['64-bit floats', list(at(0, Buffer.from(new Float64Array(LONG).buffer).toString('base64'))), 'base64', false],
]
for (const [name, body, encoding, passes] of passThrough)
  test(`embeddings answer: ${name} ${passes ? 'passes through' : 'is encoded again'}`, () => {
    assert.equal(openaiShape.isReadable(body as Json, encoding), passes)
  })
