import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Json, parseJson } from '../../core/json.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import { describeValue, type Problems, requestFields } from './request-fields.ts'

const read = (value: string, look: (fields: ReturnType<typeof requestFields>) => unknown) => {
  const problems: Problems = {}
  // The test data are objects.
  const fields = requestFields(parseJson(value) as { [member: string]: Json }, 'at', problems)
  return { value: look(fields), problem: problems.first?.message, param: problems.first?.param, fields }
}

const numbers: readonly (readonly [
  value: string,
  limits: Parameters<ReturnType<typeof requestFields>['number']>[1],
  expected: number | undefined,
  problem?: RegExp,
])[] = [
  ['{"n":5}', { least: 1, whole: true }, 5],
  ['{"n":1.5}', {}, 1.5],
  ['{"n":null}', {}, undefined],
  ['{}', {}, undefined],
  ['{"n":1.5}', { whole: true }, undefined, /a fraction; it must be a whole number/],
  ['{"n":-1}', { least: 1, whole: true }, undefined, /negative/],
  ['{"n":0}', { least: 1, whole: true }, undefined, /zero; it must be a whole number of at least 1/],
  ['{"n":500}', { least: 1, most: 128, whole: true }, undefined, /from 1 to 128/],
  ['{"n":"100"}', {}, undefined, /the string "100"/],
  ['{"n":true}', {}, undefined, /true/],
  ['{"n":1e400}', {}, undefined, /not a finite number/],
  ['{"n":12345678901234567890}', { least: 1, whole: true }, 12345678901234567000],
]
for (const [value, limits, expected, problem] of numbers)
  test(`request fields: number in ${value} ${JSON.stringify(limits)}`, () => {
    const result = read(value, (fields) => fields.number('n', limits))
    assert.equal(result.value, expected)
    if (problem) assert.match(result.problem ?? '', problem)
    else assert.equal(result.problem, undefined)
    if (problem) assert.equal(result.param, 'at.n')
  })

test('request fields: unread members are returned', () => {
  const { fields } = read('{"a":1,"b":null,"c":{"d":2},"__proto__":3}', (fields) => fields.any('a'))
  assert.deepEqual(
    fields.unread((name) => name === 'c'),
    [
      { at: 'at.c', name: 'c', value: { d: 2 }, essential: true },
      { at: 'at.__proto__', name: '__proto__', value: 3, essential: false },
    ],
  )
  assert.equal(read('{}', (fields) => fields.any('constructor')).value, undefined)
})

test('describeValue: no text that makes clients retry', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.jsonValue(), fc.constantFrom(429, 500, 503, '500', 'rate limit', 'overloaded')),
      (value) => {
        // fast-check types JSON values as unknown.
        assert.doesNotMatch(describeValue(value as Json), RETRY_TRIGGERS)
      },
    ),
  )
})
