/** The text of Configuration. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { valueText } from '../../../dashboard/src/pages/config/shapes.ts'

test('values are shown as text', () => {
  assert.deepEqual([null, 5, 'any', ['a', 'b'], { a: 1 }, false].map(valueText), [
    null,
    '5',
    'any',
    'a, b',
    '{"a":1}',
    'false',
  ])
})
