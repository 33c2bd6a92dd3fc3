import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statusOf } from '../../policy/reply/final-error.ts'
import { decodeRequest } from './decode-request.ts'

const MINIMAL = { model: 'm', input: 'a text' }

const good: readonly (readonly [string, object, object])[] = [
  [
    'a text',
    MINIMAL,
    { model: 'm', inputs: [{ at: 'input', sent: 'a text', text: 'a text' }], encoding: 'float', extras: [] },
  ],
  [
    'a list of texts',
    { ...MINIMAL, input: ['a', 'b'] },
    {
      inputs: [
        { at: 'input[0]', sent: 'a', text: 'a' },
        { at: 'input[1]', sent: 'b', text: 'b' },
      ],
    },
  ],
  ['tokens', { ...MINIMAL, input: [1, 2] }, { inputs: [{ at: 'input', sent: [1, 2], tokens: [1, 2] }] }],
  [
    'lists of tokens',
    { ...MINIMAL, input: [[1], [2, 3]] },
    {
      inputs: [
        { at: 'input[0]', sent: [1], tokens: [1] },
        { at: 'input[1]', sent: [2, 3], tokens: [2, 3] },
      ],
    },
  ],
  [
    'the members that SDKs send',
    { ...MINIMAL, encoding_format: 'base64', dimensions: 256, user: 'u' },
    { encoding: 'base64', dimensions: { value: 256, at: 'dimensions' }, user: { value: 'u', at: 'user' }, extras: [] },
  ],
  ['nulls', { ...MINIMAL, encoding_format: null, dimensions: null, user: null }, { encoding: 'float', extras: [] }],
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
    ([at, given, value]) =>
      [`${at} ${given}`, { ...MINIMAL, [at]: given }, { purpose: { value, at }, extras: [] }] as const,
  ),
  [
    'an unknown purpose',
    { ...MINIMAL, input_type: 'image' },
    { purpose: undefined, extras: [{ at: 'input_type', name: 'input_type', value: 'image', essential: false }] },
  ],
  [
    'a vendor-specific member',
    { ...MINIMAL, truncate: 'END' },
    { extras: [{ at: 'truncate', name: 'truncate', value: 'END', essential: false }] },
  ],
]
for (const [name, body, expected] of good)
  test(`embeddings request: ${name}`, () => {
    const read = decodeRequest({ ...body })
    assert.ok(read.ok, JSON.stringify(read))
    const { value } = read
    // Compares only the members that the row lists.
    const listed = Object.fromEntries(Object.keys(expected).map((key) => [key, value[key as keyof typeof value]]))
    assert.deepEqual(listed, expected)
  })

const wrong: readonly (readonly [string, object, string, RegExp])[] = [
  ['no model', { input: 'x' }, 'model', /missing/],
  ['no input', { model: 'm' }, 'input', /missing/],
  ['an empty text', { ...MINIMAL, input: '' }, 'input', /empty string/],
  ['an empty list', { ...MINIMAL, input: [] }, 'input', /empty list/],
  ['a number', { ...MINIMAL, input: 7 }, 'input', /number/],
  ['an object', { ...MINIMAL, input: { text: 'x' } }, 'input', /object/],
  ['an empty text in a list', { ...MINIMAL, input: ['a', ''] }, 'input[1]', /empty string/],
  ['an empty list of tokens', { ...MINIMAL, input: [[]] }, 'input[0]', /empty list/],
  ['tokens and texts in one list', { ...MINIMAL, input: ['a', 7] }, 'input[1]', /number/],
  ['fractional tokens', { ...MINIMAL, input: [1.5] }, 'input[0]', /fraction/],
  ['negative tokens', { ...MINIMAL, input: [[-1]] }, 'input[0]', /list/],
  ['null in a list', { ...MINIMAL, input: ['a', null] }, 'input[1]', /null/],
  ['an unknown encoding', { ...MINIMAL, encoding_format: 'int8' }, 'encoding_format', /float or base64/],
  ['zero dimensions', { ...MINIMAL, dimensions: 0 }, 'dimensions', /at least 1/],
  ['fractional dimensions', { ...MINIMAL, dimensions: 1.5 }, 'dimensions', /whole/],
  ['a user that is not a string', { ...MINIMAL, user: 7 }, 'user', /string/],
]
for (const [name, body, param, message] of wrong)
  test(`embeddings request: rejects ${name}`, () => {
    const read = decodeRequest({ ...body })
    assert.ok(!read.ok)
    assert.equal(read.failure.param, param)
    assert.match(read.failure.message, message)
    assert.equal(statusOf(read.failure), 400)
  })
