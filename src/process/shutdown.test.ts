import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONGEST_END } from '../runtime/closing.ts'
import { WITHIN } from './shutdown.ts'

test('the limits of all steps of the end are within that of the process', () => {
  const sum = Object.values(WITHIN).reduce((total, ms) => total + ms, 0)
  assert.ok(sum <= LONGEST_END, `${sum} ms of ${LONGEST_END} ms`)
})
