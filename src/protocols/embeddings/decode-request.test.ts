import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statusOf } from '../../policy/reply/final-error.ts'
import { decodeRequest } from './decode-request.ts'

const least = { model: 'm', input: 'a text' }

const good: readonly (readonly [string, object, object])[] = [
  ['a text', least, { model: 'm', inputs: [{ at: 'input', text: 'a text' }], encoding: 'float', extras: [] }],
  [
    'texts',
    { ...least, input: ['a', 'b'] },
    {
      inputs: [
        { at: 'input[0]', text: 'a' },
        { at: 'input[1]', text: 'b' },
      ],
    },
  ],
  ['tokens', { ...least, input: [1, 2] }, { inputs: [{ at: 'input', tokens: [1, 2] }] }],
  [
    'lists of tokens',
    { ...least, input: [[1], [2, 3]] },
    {
      inputs: [
        { at: 'input[0]', tokens: [1] },
        { at: 'input[1]', tokens: [2, 3] },
      ],
    },
  ],
  [
    'what the SDKs send',
    { ...least, encoding_format: 'base64', dimensions: 256, user: 'u' },
    { encoding: 'base64', dimensions: { value: 256, at: 'dimensions' }, user: { value: 'u', at: 'user' }, extras: [] },
  ],
  ['nulls', { ...least, encoding_format: null, dimensions: null, user: null }, { encoding: 'float', extras: [] }],
  ...(
    [
      ['input_type', 'search_query', 'query'],
      ['input_type', 'passage', 'document'],
      ['task_type', 'RETRIEVAL_DOCUMENT', 'document'],
      ['taskType', 'SEMANTIC_SIMILARITY', 'similarity'],
      ['task', 'separation', 'clustering'],
      ['task', 'text-matching', 'similarity'],
      ['input_type', 'classification', 'classification'],
    ] as const
  ).map(
    ([at, word, value]) => [`${at} ${word}`, { ...least, [at]: word }, { purpose: { value, at }, extras: [] }] as const,
  ),
  [
    'a purpose nobody knows',
    { ...least, input_type: 'image' },
    { purpose: undefined, extras: [{ at: 'input_type', name: 'input_type', value: 'image', essential: false }] },
  ],
  [
    'a member of a vendor',
    { ...least, truncate: 'END' },
    { extras: [{ at: 'truncate', name: 'truncate', value: 'END', essential: false }] },
  ],
]
for (const [name, body, expected] of good)
  test(`embeddings request: ${name}`, () => {
    const read = decodeRequest({ ...body })
    assert.ok(read.ok, JSON.stringify(read))
    const { value } = read
    // Only what the row names is compared; each row names what its case is about.
    const named = Object.fromEntries(Object.keys(expected).map((key) => [key, value[key as keyof typeof value]]))
    assert.deepEqual(named, expected)
  })

const wrong: readonly (readonly [string, object, string, RegExp])[] = [
  ['no model', { input: 'x' }, 'model', /missing/],
  ['no input', { model: 'm' }, 'input', /missing/],
  ['an empty text', { ...least, input: '' }, 'input', /empty string/],
  ['no texts', { ...least, input: [] }, 'input', /empty list/],
  ['a number', { ...least, input: 7 }, 'input', /number/],
  ['an object', { ...least, input: { text: 'x' } }, 'input', /object/],
  ['an empty text among others', { ...least, input: ['a', ''] }, 'input[1]', /empty string/],
  ['no tokens', { ...least, input: [[]] }, 'input[0]', /empty list/],
  ['tokens and texts in one', { ...least, input: ['a', 7] }, 'input[1]', /number/],
  ['fractions of tokens', { ...least, input: [1.5] }, 'input[0]', /fraction/],
  ['tokens below zero', { ...least, input: [[-1]] }, 'input[0]', /list/],
  ['null', { ...least, input: ['a', null] }, 'input[1]', /null/],
  ['another encoding', { ...least, encoding_format: 'int8' }, 'encoding_format', /float or base64/],
  ['no dimensions', { ...least, dimensions: 0 }, 'dimensions', /at least 1/],
  ['half a dimension', { ...least, dimensions: 1.5 }, 'dimensions', /whole/],
  ['a user of another kind', { ...least, user: 7 }, 'user', /string/],
]
for (const [name, body, param, message] of wrong)
  test(`embeddings request: ${name} is refused`, () => {
    const read = decodeRequest({ ...body })
    assert.ok(!read.ok)
    assert.equal(read.failure.param, param)
    assert.match(read.failure.message, message)
    assert.equal(statusOf(read.failure), 400)
  })
