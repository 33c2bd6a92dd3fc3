import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EmbeddingsRequest } from '../../core/embeddings.ts'
import type { Json } from '../../core/json.ts'
import { decodeRequest } from './decode-request.ts'
import { embeddingsProtocols } from './index.ts'
import { encodeAnswer, isReadable } from './openai.ts'

const request = (more: object = {}): EmbeddingsRequest => {
  const read = decodeRequest({ model: 'm', input: ['a', 'b'], ...more })
  assert.ok(read.ok)
  return read.value
}

const gemini = embeddingsProtocols['gemini-embeddings']
const cohere = embeddingsProtocols['cohere-embeddings']
const vertex = embeddingsProtocols['vertex-embeddings']
const openai = embeddingsProtocols['openai-embeddings']

const geminis = (more: object, model = 'models/x') => ({
  requests: ['a', 'b'].map((text) => ({ model, content: { parts: [{ text }] }, ...more })),
})
const coheres = (more: object) => ({
  model: 'x',
  texts: ['a', 'b'],
  input_type: 'search_document',
  embedding_types: ['float'],
  ...more,
})

const sent: readonly (readonly [string, typeof gemini, object, object, losses?: readonly string[]])[] = [
  ['gemini: texts', gemini, {}, geminis({})],
  ['gemini: shorter', gemini, { dimensions: 256 }, geminis({ outputDimensionality: 256 })],
  ['gemini: a purpose', gemini, { input_type: 'query' }, geminis({ taskType: 'RETRIEVAL_QUERY' })],
  ['gemini: alike', gemini, { task_type: 'SEMANTIC_SIMILARITY' }, geminis({ taskType: 'SEMANTIC_SIMILARITY' })],
  ['gemini: what it has no word for', gemini, { user: 'u', truncate: 'END' }, geminis({}), ['truncate', 'user']],
  [
    'gemini: tokens',
    gemini,
    { input: [[1]] },
    { requests: [{ model: 'models/x', content: { parts: [{ text: '' }] } }] },
    ['!input[0]'],
  ],
  ['vertex: texts', vertex, {}, { instances: [{ content: 'a' }, { content: 'b' }] }],
  [
    'vertex: shorter, with a purpose',
    vertex,
    { input: 'a', dimensions: 256, input_type: 'document', user: 'u' },
    { instances: [{ content: 'a', task_type: 'RETRIEVAL_DOCUMENT' }], parameters: { outputDimensionality: 256 } },
    ['user'],
  ],
  ['vertex: tokens', vertex, { input: [1] }, { instances: [{ content: '' }] }, ['!input']],
  ['cohere: texts', cohere, {}, coheres({})],
  ['cohere: shorter', cohere, { dimensions: 256 }, coheres({ output_dimension: 256 })],
  ['cohere: a purpose', cohere, { input_type: 'search_query' }, coheres({ input_type: 'search_query' })],
  ['cohere: a purpose it has not', cohere, { task: 'text-matching' }, coheres({}), ['task']],
  ['cohere: base64 is written here', cohere, { encoding_format: 'base64' }, coheres({})],
  ['cohere: what it has no word for', cohere, { user: 'u' }, coheres({}), ['user']],
  ['cohere: tokens', cohere, { input: [1, 2] }, coheres({ texts: [''] }), ['!input']],
]
for (const [name, protocol, more, body, losses = []] of sent)
  test(`embeddings, ${name}`, () => {
    const encoded = protocol.encodeRequest?.(request(more), { model: 'x' })
    assert.ok(encoded)
    assert.deepEqual(encoded.body, body)
    assert.deepEqual(
      encoded.losses.map(({ path, essential }) => (essential ? `!${path}` : path)).sort(),
      [...losses].sort(),
    )
  })

test('embeddings, gemini: a name that has its folder already', () => {
  assert.deepEqual(gemini.encodeRequest?.(request(), { model: 'models/y' }).body, geminis({}, 'models/y'))
})

const list = (...data: readonly object[]) => ({
  object: 'list',
  data,
  model: 'm',
  usage: { prompt_tokens: 2, total_tokens: 2 },
})
const at = (index: number | undefined, embedding: unknown) => ({ object: 'embedding', index, embedding })

const answered: readonly (readonly [string, typeof openai, unknown, object | RegExp])[] = [
  ['openai: in order', openai, list(at(0, [1]), at(1, [2])), { model: 'm', vectors: [[1], [2]], input: 2 }],
  ['openai: by their numbers', openai, list(at(1, [2]), at(0, [1])), { vectors: [[1], [2]] }],
  ['openai: without numbers', openai, list(at(undefined, [1]), at(undefined, [2])), { vectors: [[1], [2]] }],
  ['openai: only a total', openai, { ...list(at(0, [1])), usage: { total_tokens: 7 } }, { input: 7 }],
  ['openai: nothing counted', openai, { ...list(at(0, [1])), usage: undefined }, { vectors: [[1]], input: undefined }],
  ['openai: one number twice', openai, list(at(0, [1]), at(0, [2])), /numbered/],
  ['openai: a number too many', openai, list(at(0, [1]), at(2, [2])), /numbered/],
  ['openai: one without a number', openai, list(at(0, [1]), at(undefined, [2])), /numbered/],
  ['openai: no vector', openai, list(at(0, [])), /no list of numbers/],
  ['openai: words', openai, list(at(0, ['x'])), /no list of numbers/],
  ['openai: not even entries', openai, { object: 'list', data: ['x'] }, /numbered/],
  ['openai: nothing', openai, list(), /no embeddings/],
  ['openai: a chat answer', openai, { choices: [{ message: { content: 'hi' } }] }, /no embeddings/],
  [
    'openai: an error behind a 200',
    openai,
    { error: { message: 'too many', code: 'rate_limit_exceeded' } },
    /too many/,
  ],
  ['openai: null', openai, null, /no embeddings/],
  [
    'gemini: as it is',
    gemini,
    { embeddings: [{ values: [1] }, { values: [2] }] },
    { vectors: [[1], [2]], input: undefined },
  ],
  [
    'gemini: with counts',
    gemini,
    { embeddings: [{ values: [1] }], usageMetadata: { promptTokenCount: 4 } },
    { input: 4 },
  ],
  ['gemini: one without values', gemini, { embeddings: [{ values: [1] }, {}] }, /no list of embeddings/],
  ['gemini: nothing', gemini, {}, /no list of embeddings/],
  ['gemini: an error', gemini, { error: { code: 400, message: 'no such', status: 'INVALID_ARGUMENT' } }, /no such/],
  [
    'vertex: as it is',
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
    'vertex: not counted',
    vertex,
    { predictions: [{ embeddings: { values: [1] } }] },
    { vectors: [[1]], input: undefined },
  ],
  ['vertex: nothing', vertex, { predictions: [{}] }, /no list of embeddings/],
  ['vertex: an error', vertex, { error: { code: 400, message: 'no such', status: 'INVALID_ARGUMENT' } }, /no such/],
  [
    'cohere: as it is',
    cohere,
    { id: 'x', embeddings: { float: [[1], [2]] }, texts: ['a', 'b'], meta: { billed_units: { input_tokens: 2 } } },
    { vectors: [[1], [2]], input: 2 },
  ],
  ['cohere: another form', cohere, { id: 'x', embeddings: { int8: [[1]] } }, /no list of embeddings/],
  ['cohere: an error', cohere, { id: 'x', message: 'invalid api token' }, /invalid api token/],
]
for (const [name, protocol, body, expected] of answered)
  test(`embeddings answer, ${name}`, () => {
    // What JSON.parse gives; undefined members are absent ones.
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

test('embeddings answer: written for the client, in either form', () => {
  const answer = { vectors: [[1, 0.5], 'AACAPwAAAD8='], input: 3 }
  const floats = encodeAnswer(answer, { encoding: 'float', model: 'asked' })
  assert.deepEqual(floats, {
    object: 'list',
    data: [at(0, [1, 0.5]), at(1, [1, 0.5])],
    model: 'asked',
    usage: { prompt_tokens: 3, total_tokens: 3 },
  })
  assert.deepEqual(encodeAnswer({ ...answer, model: 'real' }, { encoding: 'base64', model: 'asked' }), {
    ...floats,
    model: 'real',
    data: [at(0, 'AACAPwAAAD8='), at(1, 'AACAPwAAAD8=')],
  })
})

const LONG = Array.from({ length: 16 }, (_, place) => Math.fround(Math.cos(place)))

const passing: readonly (readonly [string, unknown, 'float' | 'base64', boolean])[] = [
  ['as asked', list(at(0, [1])), 'float', true],
  ['with more than was asked', { ...list(at(0, [1])), id: 'x', provider: 'y' }, 'float', true],
  ['floats for base64', list(at(0, [1])), 'base64', false],
  ['base64 for floats', list(at(0, 'AACAPw==')), 'float', false],
  ['base64', list(at(0, 'AACAPw==')), 'base64', true],
  ['out of order', list(at(1, [1]), at(0, [1])), 'float', false],
  ['without usage', { ...list(at(0, [1])), usage: undefined }, 'float', false],
  ['without a model', { ...list(at(0, [1])), model: undefined }, 'float', false],
  ['64-bit floats', list(at(0, Buffer.from(new Float64Array(LONG).buffer).toString('base64'))), 'base64', false],
]
for (const [name, body, encoding, passes] of passing)
  test(`embeddings answer: ${name} ${passes ? 'passes' : 'is written anew'}`, () => {
    assert.equal(isReadable(body as Json, encoding), passes)
  })
