import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dimensionsOf, fromDoubles, isDoubles, readVector, withEncoding } from './vectors.ts'

/** Base64 as Node's buffers encode it, for comparison. */
const floats = (numbers: readonly number[]) => Buffer.from(new Float32Array(numbers).buffer).toString('base64')
const doubles = (numbers: readonly number[]) => Buffer.from(new Float64Array(numbers).buffer).toString('base64')

const NUMBERS = [0.5, -0.25, 0.1, 1e-8, -3.4e38]
const LONG = Array.from({ length: 3_072 }, (_, at) => Math.fround(Math.sin(at)))

for (const [name, numbers] of [
  ['a few numbers', NUMBERS],
  ['one number', [1]],
  ['many numbers', LONG],
] as const)
  test(`vectors: converts ${name} to base64 and back`, () => {
    const base64 = withEncoding(numbers, 'base64')
    assert.equal(base64, floats(numbers))
    assert.deepEqual(withEncoding(base64, 'float'), numbers.map(Math.fround))
    assert.equal(withEncoding(base64, 'base64'), base64)
    assert.equal(withEncoding(numbers, 'float'), numbers)
    assert.deepEqual([dimensionsOf(numbers), dimensionsOf(base64)], [numbers.length, numbers.length])
  })

const readable: readonly (readonly [string, unknown, boolean])[] = [
  ['a list of numbers', NUMBERS, true],
  ['base64', floats(NUMBERS), true],
  ['an absent value', undefined, false],
  ['an empty list', [], false],
  ['an empty string', '', false],
  ['a string in a list of numbers', [1, 'x'], false],
  ['null in a list of numbers', [1, null], false],
  ['infinity', [1, Number.POSITIVE_INFINITY], false],
  ['a string that is not base64', 'not base64!!', false],
  ['base64 of three bytes', 'AAAA', false],
  ['truncated base64', floats(NUMBERS).slice(0, -3), false],
  ['an object', { float: NUMBERS }, false],
]
for (const [name, value, is] of readable)
  test(`vectors: ${name} ${is ? 'is a' : 'is not a'} vector`, () => {
    // Values of JSON.parse, and one that it cannot return.
    assert.equal(readVector(value as Parameters<typeof readVector>[0]) !== undefined, is)
  })

test('vectors: distinguishes 64-bit floats from 32-bit floats', () => {
  const short = LONG.slice(0, 64)
  assert.ok(isDoubles(doubles(short)))
  assert.equal(fromDoubles(doubles(short)), floats(short))
  assert.ok(!isDoubles(floats(short)))
  assert.ok(!isDoubles(floats(new Array(64).fill(0))))
  assert.ok(!isDoubles(floats([1, 2, 3])))
  // Sparse vectors and short ones, which could be either.
  assert.ok(!isDoubles(floats([0, 0.5])))
  const oneHot = new Array(64).fill(0)
  oneHot[7] = 1
  assert.ok(!isDoubles(floats(oneHot)))
})
