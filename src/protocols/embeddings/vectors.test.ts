import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromDoubles, inForm, isDoubles, lengthOf, readVector } from './vectors.ts'

/** As Node's own buffers have it: a second opinion. */
const floats = (numbers: readonly number[]) => Buffer.from(new Float32Array(numbers).buffer).toString('base64')
const doubles = (numbers: readonly number[]) => Buffer.from(new Float64Array(numbers).buffer).toString('base64')

const SOME = [0.5, -0.25, 0.1, 1e-8, -3.4e38]
const LONG = Array.from({ length: 3_072 }, (_, at) => Math.fround(Math.sin(at)))

for (const [name, numbers] of [
  ['a few', SOME],
  ['one', [1]],
  ['many', LONG],
] as const)
  test(`vectors: ${name} numbers, to base64 and back`, () => {
    const base64 = inForm(numbers, 'base64')
    assert.equal(base64, floats(numbers))
    assert.deepEqual(inForm(base64, 'float'), numbers.map(Math.fround))
    assert.equal(inForm(base64, 'base64'), base64)
    assert.equal(inForm(numbers, 'float'), numbers)
    assert.deepEqual([lengthOf(numbers), lengthOf(base64)], [numbers.length, numbers.length])
  })

const readable: readonly (readonly [string, unknown, boolean])[] = [
  ['numbers', SOME, true],
  ['base64', floats(SOME), true],
  ['nothing', undefined, false],
  ['no numbers', [], false],
  ['no text', '', false],
  ['a word among numbers', [1, 'x'], false],
  ['null among numbers', [1, null], false],
  ['a number too large for one', [1, Number.POSITIVE_INFINITY], false],
  ['words', 'not base64!!', false],
  ['three bytes', 'AAAA', false],
  ['half of base64', floats(SOME).slice(0, -3), false],
  ['an object', { float: SOME }, false],
]
for (const [name, value, is] of readable)
  test(`vectors: ${name} ${is ? 'is' : 'is no'} vector`, () => {
    // What JSON.parse may give, and one thing it may not.
    assert.equal(readVector(value as Parameters<typeof readVector>[0]) !== undefined, is)
  })

test('vectors: 64-bit floats are told from 32-bit ones, whatever those are', () => {
  const short = LONG.slice(0, 64)
  assert.ok(isDoubles(doubles(short)))
  assert.equal(fromDoubles(doubles(short)), floats(short))
  assert.ok(!isDoubles(floats(short)))
  assert.ok(!isDoubles(floats(new Array(64).fill(0))))
  assert.ok(!isDoubles(floats([1, 2, 3])))
  // Vectors of tests and of sparse models: hardly anything in them, or too short to say.
  assert.ok(!isDoubles(floats([0, 0.5])))
  const oneHot = new Array(64).fill(0)
  oneHot[7] = 1
  assert.ok(!isDoubles(floats(oneHot)))
})
